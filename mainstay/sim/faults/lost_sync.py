"""The disk of the store says that it has synced, and has not: then it loses power.

No store survives that, and none claims to. It is there to show that the checker of acknowledged writes sees them go,
and happens only where it is asked for by name.
"""

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from mainstay.sim.faults import choose_one, lacks_disk

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

LIES_FOR: Final = tuple(timedelta(seconds=seconds) for seconds in (2, 5, 10))


class LostSync:
    name = "lost-sync"
    about = "the store's disk reports a sync that it did not do, then loses power: acknowledged writes are lost"

    def lacks(self, world: "World") -> str:
        return lacks_disk(world)

    def strike(self, world: "World") -> None:
        if not world.has_store:
            return
        duration = choose_one(world, "fault/lost-sync/duration", LIES_FOR)
        world.store_disk.lost_sync_probability = 1.0
        world.faults.note(f"the store's disk does not sync for {duration}, then loses power")
        world.faults.undo_after(duration, "the store's disk lies", lambda: _lose(world))


def _lose(world: "World") -> None:
    world.store_disk.lost_sync_probability = 0
    if world.has_store:
        world.lose_store(power=False)
        world.faults.spawn(world.reopen_store(), "power is back")
