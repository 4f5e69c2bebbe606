"""A flipped bit anywhere in a journal: an answer has all that was recorded, or says that something is missing."""

import random

from mainstay.journal.answers import Changes
from mainstay.journal.reader import Reader
from mainstay.sim.disk import SimDisk
from mainstay.sim.run.choices import Choices
from tests.journal.test_reader import many_changes

FLIPS = 100


def copy(disk: SimDisk) -> SimDisk:
    other = SimDisk(Choices(), "copy")
    for name in disk.list_sizes():
        other.put(name, disk.copy(name))
    return other


def ask(disk: SimDisk) -> list[Changes]:
    reader = Reader(disk)
    return [reader.changes(), *(reader.changes(kind="pods", namespace="a", name=f"p{n}") for n in range(3))]


async def test_no_record_is_silently_gone(sim):
    disk = sim.get_disk("journal")
    await many_changes(sim, disk)
    truth = [answer.records for answer in ask(disk)]
    assert all(truth)
    chance = random.Random(20)
    sizes = {name: size for name, size in disk.list_sizes().items() if size}
    noticed = 0
    for _ in range(FLIPS):
        damaged = copy(disk)
        name = chance.choice([*sizes])
        damaged.flip(name, chance.randrange(8 * sizes[name]))
        for answer, records in zip(ask(damaged), truth, strict=True):
            assert answer.records == records or answer.gaps or answer.damages, name
            noticed += bool(answer.gaps or answer.damages)
    assert noticed > FLIPS // 4
