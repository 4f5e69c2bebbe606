"""The store is put back to a backup, as after a disaster: what was written since then was never written.

Revisions go back, and will be given again to other writes. What was acknowledged meanwhile is gone, which is what a
restore means; so this happens only where a scenario asks for it by name. All who watch must find out, keep nothing
that is not there, and go on from what is.
"""

from typing import TYPE_CHECKING

from mainstay.sim.faults import some_duration

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World


class Restore:
    name = "restore"
    about = "the store is restored from a backup: later writes are lost"

    def lacks(self, world: "World") -> str:
        return "its store has a disk, which is not backed up" if world.has_disk else ""

    def strike(self, world: "World") -> None:
        if not world.has_store:
            return  # It is just being put back.
        backup, restores = world.backup(), world.restores
        age = some_duration(world, self.name)

        async def put_back() -> None:
            # Not a backup of a time that was itself undone: what happened could not be told as one history.
            if world.has_store and world.restores == restores:
                world.faults.note(f"the store is restored to its state of {age} ago")
                await world.restore(backup)

        world.faults.later(age, lambda: world.faults.spawn(put_back(), "restore"))
