"""Other writers keep changing what a program is about to change, each time just before, so that its write conflicts.

The changes are real. Before a write of the program is committed, an annotation of the object is written, and the
program's own write meets an object that has moved on: if it named a version, it is refused (409) and has to decide
again; if not, the server tries again, and says at last that there is too much going on (503).
"""

from typing import TYPE_CHECKING, Final

import msgspec

from mainstay.server.storage.keyspace import INTERNAL_PREFIX
from mainstay.server.storage.stored import stored
from mainstay.sim.faults import choose_one, some_duration, victim
from mainstay.store.errors import StoreError
from mainstay.store.interface import Check, Put

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

ANNOTATION: Final = "sim.mainstay.dev/touched"
PROBABILITIES: Final = (0.25, 0.5, 0.9)


class ConflictStorm:
    name = "conflict-storm"
    about = "other writers keep changing what a program is about to write, so its writes conflict"

    def strike(self, world: "World") -> None:
        if not (targets := world.targets()):
            return
        who = victim(world, self.name, [each.name for each in targets])
        probability = choose_one(world, "fault/conflict-storm/how-often", PROBABILITIES)
        duration = some_duration(world, self.name)
        label = f"fault/conflict-storm/{who}"
        world.faults.note(f"other writers change what {who} is about to write, for {duration}")

        async def meddle(keys: list[str]) -> None:
            if keys and world.sim.choices.occurs(label, probability):
                await touch(world, keys[0])

        world.faults.meddling.setdefault(who, []).append(meddle)
        world.faults.undo_after(duration, f"conflicts of {who}", lambda: world.faults.meddling[who].remove(meddle))


async def touch(world: "World", key: str) -> None:
    """Change an annotation of an object, as any client might, through no server. Does nothing if it is not there."""
    if key.startswith(INTERNAL_PREFIX):
        return
    try:
        entry = await world.store.get(key)
        if entry is None:
            return
        obj = msgspec.json.decode(entry.value)
        annotations = obj["metadata"].get("annotations") or {}
        count = int(annotations.get(ANNOTATION, "0")) + 1
        obj["metadata"]["annotations"] = {**annotations, ANNOTATION: str(count)}
        await world.commit([Check(key, entry.revision)], [Put(key, stored(obj))])
    except StoreError:
        return  # It does not take this write. It may take the one that comes now.
