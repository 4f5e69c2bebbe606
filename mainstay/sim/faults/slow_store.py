"""The way between a server and the store is slow for a while: time passes between what a server reads and what it
commits, and between a commit and its answer.

Another server, or another request to the same one, may change in between what the first has looked at. Whatever a write
was decided from has to be a condition of its commit, whichever key it is at: this is what shows one that is missing. A
commit on its way happens, also if its server dies meanwhile; and a watch may tell of it before its answer comes. Each
step has a wait of its own, so that commits of one server overtake each other.
"""

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from mainstay.sim.cluster.store_proxy import StoreStep
from mainstay.sim.faults import choose_one, some_duration, victim

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

LONGEST: Final = tuple(timedelta(milliseconds=ms) for ms in (20, 200, 1000))
SHARES: Final = (0.0, 0.25, 0.5, 1.0)
"""Of the longest wait: what one step takes."""


class SlowStore:
    name = "slow-store"
    about = "the store is slow for one server: its reads are old when it commits, and answers to commits are late"

    def strike(self, world: "World") -> None:
        if not world.ports:
            return
        server = victim(world, self.name, list(world.ports))
        longest = choose_one(world, "fault/slow-store/how-long", LONGEST)
        duration = some_duration(world, self.name)

        def draw_wait(step: StoreStep) -> timedelta:
            return longest * choose_one(world, f"fault/slow-store/{server}/{step}", SHARES)

        hurry = world.ports[server].slow_down(draw_wait)
        world.faults.note(f"reads and commits of {server} take up to {longest} each for {duration}")
        world.faults.undo_after(duration, f"the store is slow for {server}", hurry)
