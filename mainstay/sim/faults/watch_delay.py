"""A watch falls behind: what it would deliver is kept back for a while, and then comes all at once.

Its program sees an old state meanwhile, and other watches, or its own requests, show it a newer one.
"""

from typing import TYPE_CHECKING

from mainstay.sim.cluster.server_proxy import WatchProxy
from mainstay.sim.faults import some_duration

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World


class WatchDelay:
    name = "watch-delay"
    about = "a watch delivers late"

    def touch(self, world: "World", tap: WatchProxy) -> None:
        duration = some_duration(world, self.name)
        world.faults.note(f"watch #{tap.watch} of {tap.who} is {duration} late")
        tap.hold()
        world.faults.undo_after(duration, f"watch #{tap.watch}", tap.release)
