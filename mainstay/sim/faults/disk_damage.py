"""The disk of the store damages what was written to it while the store is down: one bit is another, or an end is gone.

A store either notices and refuses to open, or has lost nothing. If it refuses, an operator puts back a good copy of the
file and opens it again.
"""

from typing import TYPE_CHECKING, Final

from mainstay.sim.faults import choose_one, lacks_disk, some_duration
from mainstay.store.errors import Corrupt

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

CUT_BYTES: Final = (1, 40, 400, 4000)  # From the end of a file, at most.


class DiskDamage:
    name = "disk-damage"
    about = "the store restarts, and its disk has damaged one of its files meanwhile"

    def lacks(self, world: "World") -> str:
        return lacks_disk(world)

    def strike(self, world: "World") -> None:
        if not world.has_store:
            return
        duration = some_duration(world, self.name)
        world.lose_store(power=True)
        disk = world.store_disk
        sizes = {name: size for name, size in disk.list_sizes().items() if size}
        file = choose_one(world, f"fault/{self.name}/file", [*sizes])
        before = disk.copy(file)
        choices = world.sim.choices
        if choices.choose(f"fault/{self.name}/is-cut", 2):
            most = choose_one(world, f"fault/{self.name}/cut", CUT_BYTES)
            size = sizes[file] - 1 - choices.choose(f"fault/{self.name}/bytes", min(most, sizes[file]))
            disk.put(file, before[:size])
            what = f"{file} has lost its last {sizes[file] - size} bytes"
        else:
            bit = choices.choose(f"fault/{self.name}/bit", 8 * sizes[file])
            disk.flip(file, bit)
            what = f"bit {bit} of {file} is flipped"
        world.faults.note(f"the store and all servers are down for {duration}, and {what}")
        world.faults.undo_after(
            duration,
            "the store is back",
            lambda: world.faults.spawn(_reopen(world, file, before), "the store restarts"),
        )


async def _reopen(world: "World", file: str, before: bytes) -> None:
    try:
        await world.reopen_store()
    except Corrupt as error:
        world.faults.note(f"the store is refused: {error}; an operator puts back a good copy of {file}")
        world.store_disk.put(file, before)
        await world.reopen_store()
