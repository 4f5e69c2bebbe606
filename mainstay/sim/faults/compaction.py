"""The store forgets its history: alone, or while a server was not following, whose watches then begin again.

Alone it spoils the pages of a long list, and watches that begin in the past on a server that has just started. With a
server that has missed something, every watch on it is told that its revision is gone (410), and must list again: what
was deleted meanwhile has to be found missing.
"""

from typing import TYPE_CHECKING

from mainstay.sim.faults import choose_one

if TYPE_CHECKING:
    from mainstay.sim.cluster.store_proxy import StoreProxy
    from mainstay.sim.cluster.world import World


class Compaction:
    name = "compaction"
    about = "the store is compacted up to the current revision"

    def strike(self, world: "World") -> None:
        world.faults.note("the store is compacted")
        world.faults.spawn(_compact(world), "compaction")


class CompactionMissed:
    name = "compaction-missed"
    about = "the store compacts history that a server has not read; all watches on that server expire"

    def strike(self, world: "World") -> None:
        if world.ports:
            server = choose_one(world, "fault/compaction-missed/who", list(world.ports))
            world.faults.note(f"the store is compacted past what {server} has read")
            world.faults.spawn(_miss(world, world.ports[server]), "compaction")


async def _compact(world: "World") -> None:
    await world.compact()


async def _miss(world: "World", port: "StoreProxy") -> None:
    # Its watches end first and it is told at once, so what it has not read is what is being forgotten.
    revision = await world.compact()
    port.fall_behind(revision)
