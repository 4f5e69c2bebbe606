"""The decision recorder: it never blocks its caller, and reports what it dropped."""

from datetime import timedelta
from typing import Any

from mainstay.env import tasks
from mainstay.journal.decisions import DecisionRecorder
from mainstay.journal.outbox import MEMORY_BYTES_EVERY, MEMORY_EVERY
from mainstay.journal.reader import Reader
from mainstay.journal.record import MEMORY_BYTES_MAX, DecisionRecord, LookedAt, LostRecord, WhyNot, micros
from mainstay.journal.segments import SegmentLimits
from mainstay.sim.disk import SimDisk
from mainstay.sim.simulation import Simulation
from tests.journal.builders import a_decision


async def a_log(sim: Simulation, disk: SimDisk, **how: Any) -> DecisionRecorder:
    log = DecisionRecorder(disk, sim.get_clock("journal"), SegmentLimits(segment_bytes=5_000), **how)
    await log.start()
    return log


def now(sim: Simulation) -> int:
    return micros(sim.get_clock("journal").wall())


def of_now(sim: Simulation, number: int, **parts: Any) -> DecisionRecord:
    return a_decision(number=number, **{"at": now(sim) + number, **parts})


def detailed(sim: Simulation, number: int) -> DecisionRecord:
    looked_at = tuple(LookedAt("pods", "default", f"p{each}", each) for each in range(20))
    return of_now(sim, number, looked_at=looked_at, looked_at_count=20)


async def test_decisions_are_found_by_id_by_object_and_by_time(sim):
    disk = sim.get_disk("journal")
    log = await a_log(sim, disk)
    decisions = [of_now(sim, number, name=f"set-{number % 3}") for number in range(30)]
    for decision in decisions:
        log.record(decision)
    await log.flush()
    reader = Reader(disk)
    begun = sim.get_clock("journal").wall()

    assert reader.decision("replicasets-7") == decisions[7]
    assert reader.decision("replicasets-99") is None
    of_one = reader.decisions(kind="replicasets.apps", namespace="default", name="set-1")
    assert of_one.records == tuple(decisions[1::3])
    assert of_one.is_complete
    assert reader.decisions(limit=3).records == tuple(decisions[-3:])
    assert reader.decisions(uid="uid-set-2").records == tuple(decisions[2::3])
    assert reader.decisions(component="scheduler").records == ()
    assert reader.decisions(before=begun + timedelta(days=1)).records == tuple(decisions)
    assert reader.decisions(since=begun + timedelta(days=1)).records == ()
    await log.close()
    assert Reader(disk).decisions().records == tuple(decisions)


async def test_what_the_disk_cannot_keep_up_with_loses_its_detail_first_and_is_counted(sim):
    disk = sim.get_disk("journal")
    log = await a_log(sim, disk, waiting_bytes_max=10_000)
    begun = now(sim)
    for number in range(60):
        log.record(detailed(sim, number))
    counts = log.recorded, log.details_dropped, log.dropped
    await log.flush()
    log.record(of_now(sim, 60))
    await log.flush()

    answer = Reader(disk).decisions()

    whole = [each.id for each in answer.records if not each.why_not]
    slim = [each for each in answer.records if each.why_not]
    assert counts == (len(whole) + len(slim) - 1, 60 - len(whole) + 1, 60 - len(whole) - len(slim) + 1)
    assert 0 < len(whole) < len(whole) + len(slim) < 61
    assert {(each.why_not, each.looked_at, each.looked_at_count) for each in slim} == {
        ((WhyNot.DETAIL_DROPPED,), (), 20)
    }
    assert not answer.is_complete
    (lost,) = answer.lost
    assert (lost.records, lost.details) == (log.dropped, log.details_dropped)
    assert begun <= lost.since <= lost.until


async def test_a_full_disk_blocks_no_caller_and_is_retried(sim):
    disk = sim.get_disk("journal")
    log = await a_log(sim, disk, waiting_bytes_max=2_000)
    disk.capacity_bytes = 0
    for number in range(50):
        log.record(of_now(sim, number))
    await tasks.sleep(timedelta(seconds=10))
    assert log.failures >= 5
    assert "no room" in log.last_failure
    assert log.dropped > 0

    disk.capacity_bytes = None
    await log.flush()

    answer = Reader(disk).decisions()
    assert len(answer.records) == log.recorded == 50 - log.dropped
    assert sum(lost.records for lost in answer.lost) == log.dropped


async def test_closing_does_not_wait_for_ever_for_a_disk_that_is_full(sim):
    disk = sim.get_disk("journal")
    log = await a_log(sim, disk)
    disk.capacity_bytes = 0
    log.record(of_now(sim, 1))

    await log.close()

    log.record(of_now(sim, 2))
    assert log.dropped == 1


async def test_old_decisions_are_forgotten(sim):
    disk = sim.get_disk("journal")
    log = await a_log(sim, disk)
    log.record(of_now(sim, 1))
    await log.flush()
    await tasks.sleep(timedelta(days=8))
    log.record(of_now(sim, 2))
    await log.flush()

    assert [each.id for each in Reader(disk).decisions().records] == ["replicasets-2"]


async def test_a_small_memory_is_in_the_record_and_a_large_one_is_kept_now_and_then(sim):
    disk = sim.get_disk("journal")
    log = await a_log(sim, disk)
    # The first large one is kept whatever its size, and then what there is room for.
    small, large = b"s" * MEMORY_BYTES_MAX, b"l" * (MEMORY_BYTES_EVERY - 100)
    memories = [b"", small, large, large + b"2"]
    records = []
    for number, memory in enumerate(memories):
        records.append(of_now(sim, number, memory=log.remember("scheduler", memory), view=()))
        log.record(records[-1])
    await tasks.sleep(MEMORY_EVERY)
    memories.append(large + b"3")
    records.append(of_now(sim, 4, memory=log.remember("scheduler", memories[-1]), view=()))
    log.record(records[-1])
    await log.flush()
    reader = Reader(disk)

    assert [reader.memory(record) for record in records] == [b"", small, large, None, large + b"3"]


async def test_what_was_lost_is_told_only_once(sim):
    disk = sim.get_disk("journal")
    log = await a_log(sim, disk, waiting_bytes_max=1_000)
    for number in range(20):
        log.record(of_now(sim, number))
    await log.flush()
    dropped = log.dropped
    for number in range(20, 23):
        await log.flush()
        log.record(of_now(sim, number))
    await log.flush()

    lost = Reader(disk).decisions().lost
    assert [type(each) for each in lost] == [LostRecord]
    assert lost[0].records == dropped == log.dropped
