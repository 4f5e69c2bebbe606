"""A memory that is too large for its record is kept beside it, once, as far as there is room."""

from datetime import timedelta

import pytest

from mainstay.env import tasks
from mainstay.env.invariants import BrokenInvariant
from mainstay.journal.outbox import MEMORY_BYTES_EVERY, MEMORY_EVERY, WaitingRecords
from mainstay.journal.record import (
    MEMORY_BYTES_MAX,
    DecisionRecord,
    Ending,
    MemoryRecord,
    Outcome,
    Record,
    Subject,
    compute_digest,
    decode,
    joined,
    whole,
)
from mainstay.sim.simulation import Simulation


def a_decision(number: int, memory: bytes) -> DecisionRecord:
    subject = Subject("nodes", "", "n1")
    return DecisionRecord(
        f"node-health-{number}", 0, "node-health", "", subject, Outcome(Ending.DONE), memory=whole(memory)
    )


def taken(waiting: WaitingRecords) -> list[Record]:
    found: list[Record] = []
    while waiting:
        found += decode(joined(waiting.batch().records)).records
        waiting.done()
    return found


def test_a_small_one_stays_in_the_record(sim: Simulation):
    waiting = WaitingRecords(sim.clock)
    waiting.record(a_decision(1, b"x" * MEMORY_BYTES_MAX))

    [record] = taken(waiting)

    assert isinstance(record, DecisionRecord)
    assert record.memory.inline == b"x" * MEMORY_BYTES_MAX


def test_a_large_one_is_kept_once_for_all_records_that_depend_on_it(sim: Simulation):
    waiting, memory = WaitingRecords(sim.clock), b"x" * 5_000
    for number in range(3):
        waiting.record(a_decision(number, memory))

    kept, *records = taken(waiting)

    assert kept == MemoryRecord("node-health", compute_digest(memory), kept.at, memory)  # type: ignore[union-attr]
    assert [(each.memory.size, each.memory.inline, each.memory.digest) for each in records] == [  # type: ignore[union-attr]
        (5_000, b"", compute_digest(memory))
    ] * 3


async def test_of_many_different_ones_those_are_kept_that_there_is_room_for_and_later_more(sim: Simulation):
    waiting = WaitingRecords(sim.clock)
    size = MEMORY_BYTES_EVERY // 3
    for number in range(6):
        waiting.record(a_decision(number, bytes([number]) * size))

    assert sum(isinstance(each, MemoryRecord) for each in taken(waiting)) == 3

    await tasks.sleep(MEMORY_EVERY + timedelta(seconds=1))
    waiting.record(a_decision(7, b"y" * size))
    assert sum(isinstance(each, MemoryRecord) for each in taken(waiting)) == 1


def test_bytes_that_were_counted_wrong_are_noticed(sim: Simulation):
    waiting = WaitingRecords(sim.clock)
    waiting.record(a_decision(1, b""))
    waiting.batch()
    waiting._bytes += 1

    with pytest.raises(BrokenInvariant, match=r"counted to the byte: .*: batch=1, taken=1, left=0, bytes=1"):
        waiting.done()
