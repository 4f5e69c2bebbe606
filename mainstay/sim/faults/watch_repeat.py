"""A watch tells again what it has told before, as servers do whose store has gone back (etcd #15271, #20221).

Ours never does, and the history does not show it: a client must not depend on that.
"""

from typing import TYPE_CHECKING

from mainstay.sim.cluster.server_proxy import WatchProxy
from mainstay.sim.faults import choose_one

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World


class WatchRepeat:
    name = "watch-repeat"
    about = "a watch delivers earlier changes again"

    def touch(self, world: "World", tap: WatchProxy) -> None:
        count = choose_one(world, f"fault/{self.name}/how-many", (1, 2, 5))
        world.faults.note(f"watch #{tap.watch} of {tap.who} delivers its last changes again")
        tap.repeat(count)
