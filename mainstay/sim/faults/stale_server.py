"""A server lives in the past for a while: it hears of nothing new, and shows an old state to clients that list again.

So does a server that answers from memory and has lost its way to the store. What is asked of the store itself, one by
one or as a list that must be current, is as ever. A client that has seen more before, by another server or by this one
before it lost its history, can know: a cache must not go back. A program that was just started cannot, and waits for
the truth, as the API promises; `stale-start` breaks that promise too, and happens only where it is asked for by name.
"""

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from mainstay.sim.faults import choose_one
from mainstay.store.errors import Compacted

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

REVISIONS_BACK: Final = (0, 3, 10, 40)
# Not for as long as other things last: clients believe at last that the store was put back (client/reflector.py).
LASTS: Final = tuple(timedelta(seconds=seconds) for seconds in (0.5, 1, 2, 5, 10))


class StaleServer:
    name = "stale-server"
    about = "a server shows an old state to clients that have seen a newer one, until it catches up"
    fools_newcomers = False

    def strike(self, world: "World") -> None:
        world.faults.spawn(self._strike(world), "stale server")

    async def _strike(self, world: "World") -> None:
        if not world.ports:
            return
        server = choose_one(world, f"fault/{self.name}/who", list(world.ports))
        back = choose_one(world, f"fault/{self.name}/revisions-back", REVISIONS_BACK)
        forgets = choose_one(world, f"fault/{self.name}/forgets", (False, True))
        duration = choose_one(world, f"fault/{self.name}/duration", LASTS)
        port = world.ports[server]
        latest = await world.store.revision()
        revision = max(latest - back, 1)
        try:
            catch_up = port.hold_back(states_at=revision, fools_newcomers=self.fools_newcomers)
        except Compacted as error:
            revision = error.compacted
            catch_up = port.hold_back(states_at=revision, fools_newcomers=self.fools_newcomers)
        also = ", and all its watches restart" if forgets else ""
        world.faults.note(f"{server} shows the state of revision {revision} instead of {latest} for {duration}{also}")
        if forgets:
            port.fall_behind(latest)
        world.faults.undo_after(duration, f"{server} is stale", catch_up)


class StaleStart(StaleServer):
    name = "stale-start"
    about = "a server shows an old state to all clients, including programs that have just started"
    fools_newcomers = True
