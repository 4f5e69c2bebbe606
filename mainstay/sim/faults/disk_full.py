"""The disk of the store is full for a while: nothing fits on it, or little does. Writes are refused, reads go on.

A write that was refused for want of room has not happened, and one that was acknowledged has. When there is room again,
all goes on as if nothing had been.
"""

from typing import TYPE_CHECKING, Final

from mainstay.sim.faults import choose_one, lacks_disk, some_duration

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

ROOMS_BYTES: Final = (20_000, 2_000, 100, 0)


class StoreDiskFull:
    name = "disk-full"
    about = "the store's disk is full for a while"

    def lacks(self, world: "World") -> str:
        return lacks_disk(world)

    def strike(self, world: "World") -> None:
        room = choose_one(world, "fault/disk-full/room", ROOMS_BYTES)
        duration = some_duration(world, self.name)
        disk = world.store_disk
        disk.capacity_bytes = disk.used_bytes + room
        world.faults.note(f"the store's disk has room for {room} more bytes, for {duration}")
        world.faults.undo_after(duration, "the store's disk is full", lambda: _make_room(world))


def _make_room(world: "World") -> None:
    world.store_disk.capacity_bytes = None  # Perhaps another disk by now, after a power cut.
