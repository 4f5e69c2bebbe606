"""The machine of the store loses power: the store and all servers are dead at once, and come back after a while.

What was synced is there; of what was not, any part may be (disk.py). Acknowledged writes must be there.
"""

from typing import TYPE_CHECKING

from mainstay.sim.faults import lacks_disk, some_duration

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World


class PowerCut:
    name = "power-cut"
    about = "the store and all servers lose power, and come back with what the disk has kept"

    def lacks(self, world: "World") -> str:
        return lacks_disk(world)

    def strike(self, world: "World") -> None:
        if not world.has_store:
            return  # Down already.
        duration = some_duration(world, self.name)
        world.faults.note(f"the store and all servers lose power for {duration}")
        world.lose_store(power=False)
        world.faults.undo_after(
            duration, "the power is back", lambda: world.faults.spawn(world.reopen_store(), "power is back")
        )
