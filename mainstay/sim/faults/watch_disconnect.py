"""A watch ends just before it delivers a change: in order, as servers do now and then, or because it breaks off."""

from typing import TYPE_CHECKING

from mainstay.sim.cluster.server_proxy import WatchProxy
from mainstay.sim.faults import choose_one

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World


class WatchDisconnect:
    name = "watch-disconnect"
    about = "a watch ends just before it delivers a change"

    def touch(self, world: "World", tap: WatchProxy) -> None:
        in_order = choose_one(world, f"fault/{self.name}/how", (True, False))
        world.faults.note(f"watch #{tap.watch} of {tap.who} {'ends' if in_order else 'breaks off'}")
        tap.cut(in_order=in_order)
