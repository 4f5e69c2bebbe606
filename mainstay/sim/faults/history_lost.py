"""For a while a server loses its history again and again: each watch on it is told that its revision is gone (410).

A client that lists again must notice what was deleted meanwhile, and must not list all the time.
"""

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from mainstay.sim.faults import choose_one, some_duration

if TYPE_CHECKING:
    from mainstay.sim.cluster.store_proxy import StoreProxy
    from mainstay.sim.cluster.world import World

EVERY: Final = timedelta(milliseconds=200)


class HistoryLost:
    name = "history-lost"
    about = "all watches on a server keep expiring for a while"

    def strike(self, world: "World") -> None:
        if not world.ports:
            return
        server = choose_one(world, "fault/history-lost/who", list(world.ports))
        duration = some_duration(world, self.name)
        world.faults.note(f"{server} keeps losing its watch history for {duration}")
        port = world.ports[server]
        over: list[bool] = []

        def lose() -> None:
            if not over:
                world.faults.spawn(_lose(world, port), "history lost")
                world.after(EVERY, lose)

        lose()
        world.faults.undo_after(duration, f"{server} loses its watch history", lambda: over.append(True))


async def _lose(world: "World", port: "StoreProxy") -> None:
    port.fall_behind(await world.compact())
