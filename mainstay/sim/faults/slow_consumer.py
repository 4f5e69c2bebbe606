"""A program reads its watches slowly: it lags behind, and if too much waits for it, the server cuts it off."""

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from mainstay.sim.active_faults import Release
from mainstay.sim.cluster.server_proxy import WatchProxy
from mainstay.sim.faults import choose_one, some_duration, victim

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

PACES: Final = tuple(timedelta(milliseconds=ms) for ms in (100, 500, 2000))
ROOMS_BYTES: Final = (1024 * 1024, 16 * 1024, 4 * 1024)


class SlowConsumer:
    name = "slow-consumer"
    about = "a program reads its watches slowly, and may be disconnected for it"

    def strike(self, world: "World") -> None:
        if not (targets := world.targets()):
            return
        who = victim(world, self.name, [each.name for each in targets])
        pace = choose_one(world, "fault/slow-consumer/pace", PACES)
        room = choose_one(world, "fault/slow-consumer/room", ROOMS_BYTES)
        duration = some_duration(world, self.name)
        world.faults.note(f"{who} reads one chunk of each watch every {pace} for {duration}")
        slowed: list[Release] = []

        def slow_down(tap: WatchProxy) -> None:
            if tap.who == who:
                slowed.append(tap.slow_down(pace, room))

        def speed_up() -> None:
            world.faults.stop_changing(slow_down)
            for let_go in slowed:
                let_go()

        world.faults.change_taps(slow_down)
        world.faults.undo_after(duration, f"{who} reads slowly", speed_up)
