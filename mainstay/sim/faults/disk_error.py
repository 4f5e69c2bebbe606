"""The disk of the store fails now and then for a while: a write or a sync ends with an input/output error.

The content of the disk is then unknown. The store takes no more writes, says so, and has to be opened again, which
happens after a while: the store and all servers restart.
"""

from typing import TYPE_CHECKING, Final

from mainstay.sim.faults import choose_one, lacks_disk, some_duration

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

PROBABILITIES: Final = (0.05, 0.5)


class DiskError:
    name = "disk-error"
    about = "writes to the store's disk fail for a while; then the store restarts"

    def lacks(self, world: "World") -> str:
        return lacks_disk(world)

    def strike(self, world: "World") -> None:
        if not world.has_store:
            return
        probability = choose_one(world, "fault/disk-error/how-often", PROBABILITIES)
        duration = some_duration(world, self.name)
        world.store_disk.error_probability = probability
        world.faults.note(f"{probability:.0%} of the writes to the store's disk fail for {duration}")
        world.faults.undo_after(duration, "the store's disk fails", lambda: _repair(world))


def _repair(world: "World") -> None:
    world.store_disk.error_probability = 0
    if world.has_store:
        world.faults.note("the store and all servers restart")
        world.lose_store(power=True)
        world.faults.spawn(world.reopen_store(), "the store restarts")
