"""What the commit pipeline promises, whatever log is under it: groups, order, and what happens when the log fails."""

import asyncio
from collections.abc import Sequence

import pytest

from mainstay.env import tasks
from mainstay.sim.disk import SimDisk
from mainstay.sim.run.choices import Choices
from mainstay.store.disk_log import DiskLog
from mainstay.store.errors import InvalidStoreRequest, OutcomeUnknown, StorageFull, StoreUnavailable
from mainstay.store.interface import (
    ABSENT,
    Check,
    Committed,
    DeleteEntry,
    Put,
    StoreWatch,
    TransactionRefused,
    WatchBatch,
)
from mainstay.store.local import COMPACTION_STEP_CHANGES, LocalStore
from mainstay.store.log import LogRow, MemoryLog, Recovered


class SlowLog(MemoryLog):
    """A log that takes a second for each call, keeps the groups it was given, and fails when told to."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.compactions: list[list[LogRow]] = []
        self.fail_with: Exception | None = None

    async def append(self, rows: Sequence[LogRow]) -> None:
        await asyncio.sleep(1)
        if self.fail_with is not None:
            raise self.fail_with
        self.groups.append([row.revision for row in rows])

    async def compact(self, compacted: int, rows: Sequence[LogRow]) -> None:
        await asyncio.sleep(1)
        if self.fail_with is not None:
            raise self.fail_with
        self.compactions.append(list(rows))


async def test_what_arrives_while_the_log_is_busy_becomes_one_group():
    log = SlowLog()
    store = await LocalStore.open(log)

    async def write(number: int) -> None:
        await asyncio.sleep(number / 10)
        await store.commit([], [Put(f"{number}", b"")])

    await asyncio.gather(*(write(number) for number in range(15)))

    assert log.groups == [[2], list(range(3, 13)), list(range(13, 17))]


async def test_those_who_commit_in_one_turn_of_the_loop_are_one_group():
    log = SlowLog()
    store = await LocalStore.open(log)

    await asyncio.gather(*(store.commit([], [Put(f"{number}", b"")]) for number in range(5)))

    assert log.groups == [[2, 3, 4, 5, 6]]


async def test_a_flush_that_is_stopped_before_it_began_leaves_no_caller_waiting():
    store = await LocalStore.open(SlowLog())
    committing = asyncio.ensure_future(store.commit([], [Put("a", b"")]))
    await asyncio.sleep(0)
    flushing = store._flushing
    assert flushing is not None
    await asyncio.sleep(0)  # It waits for others to join.
    flushing.cancel()

    with pytest.raises(StoreUnavailable):
        await committing


async def test_nothing_can_be_seen_before_it_is_durable(sim):
    store = await LocalStore.open(SlowLog())
    with store.watch("", after=1) as watch:
        seen = asyncio.ensure_future(anext(watch))
        committing = asyncio.ensure_future(store.commit([], [Put("a", b"")]))
        await asyncio.sleep(0.9)

        assert await store.get("a") is None
        assert await store.revision() == 1
        assert not seen.done()

        assert await committing == Committed(2)
        assert (await seen).revision == 2


async def test_a_refusal_waits_until_what_it_tells_of_is_durable(sim):
    store = await LocalStore.open(SlowLog())
    first = asyncio.ensure_future(store.commit([], [Put("a", b"")]))
    await asyncio.sleep(0.5)

    refused = await store.commit([Check("a", ABSENT)], [Put("a", b"mine")])

    assert isinstance(refused, TransactionRefused)
    assert first.done()
    assert sim.loop.time() == pytest.approx(1)


async def test_a_delete_that_finds_nothing_waits_for_the_delete_that_took_it(sim):
    store = await LocalStore.open(SlowLog())
    await store.commit([], [Put("a", b"")])
    first = asyncio.ensure_future(store.commit([], [DeleteEntry("a")]))
    await asyncio.sleep(0.5)

    assert await store.commit([], [DeleteEntry("a")]) == Committed(3)
    assert first.done()


async def test_a_full_log_takes_back_everything_that_was_staged(sim):
    log = SlowLog()
    store = await LocalStore.open(log)
    await store.commit([], [Put("a", b"kept")])
    log.fail_with = StorageFull("no room")
    late = asyncio.ensure_future(_after(0.5, store.commit([], [Put("b", b"later")])))
    refused = asyncio.ensure_future(_after(0.6, store.commit([Check("a", 2)], [Put("a", b"built on what is lost")])))

    with pytest.raises(StorageFull):
        await store.commit([], [Put("a", b"lost")])
    for other in (late, refused):
        with pytest.raises(StorageFull):
            await other

    log.fail_with = None
    assert await store.commit([Check("a", 2)], [Put("a", b"again")]) == Committed(3)
    entry = await store.get("a")
    assert entry is not None
    assert (entry.value, entry.version) == (b"again", 2)


async def _after(seconds: float, work):
    await asyncio.sleep(seconds)
    return await work


async def test_after_a_failed_append_outcomes_are_unknown_and_no_more_writes_are_taken():
    log = SlowLog()
    store = await LocalStore.open(log)
    await store.commit([], [Put("a", b"kept")])
    log.fail_with = OutcomeUnknown("the disk is on fire")
    not_yet_sent = asyncio.ensure_future(_after(0.5, store.commit([], [Put("b", b"")])))

    with pytest.raises(OutcomeUnknown, match="the disk is on fire"):
        await store.commit([], [Put("a", b"who knows")])
    with pytest.raises(StoreUnavailable, match="before this was written"):
        await not_yet_sent
    with pytest.raises(StoreUnavailable, match="until it is opened again: the disk is on fire"):
        await store.commit([], [Put("a", b"")])
    entry = await store.get("a")
    assert entry is not None
    assert entry.value == b"kept"


async def test_a_commit_whose_caller_was_cancelled_still_happens_and_disturbs_no_other():
    store = await LocalStore.open(SlowLog())
    given_up = asyncio.ensure_future(store.commit([], [Put("a", b"")]))
    other = asyncio.ensure_future(store.commit([Check("a", 2)], [Put("b", b"")]))
    await asyncio.sleep(0.5)
    given_up.cancel()

    assert await other == Committed(3)
    assert await store.get("a") is not None


async def test_closing_finishes_what_was_begun():
    store = await LocalStore.open(SlowLog())
    committing = [asyncio.ensure_future(store.commit([], [Put(f"{number}", b"")])) for number in range(3)]
    await asyncio.sleep(0.5)

    await store.close()

    assert [await each for each in committing] == [Committed(2), Committed(3), Committed(4)]


async def test_a_writer_waits_for_one_step_of_a_compaction_at_most(sim):
    """Each call of this log takes a second. The compaction has ten steps; no commit may wait for all of them."""
    log = SlowLog()
    store = await LocalStore.open(log)
    for start in range(0, 10 * COMPACTION_STEP_CHANGES, 250):
        await asyncio.gather(*(store.commit([], [Put(f"{start + n}", b"")]) for n in range(250)))
    compacting = asyncio.ensure_future(store.compact(await store.revision()))
    waits = []
    while not compacting.done():
        started = sim.loop.time()
        await store.commit([], [Put("now", b"")])
        waits.append(sim.loop.time() - started)

    assert len(log.compactions) == 10
    assert len(waits) >= 9
    assert max(waits) <= 2


async def test_a_step_of_compaction_that_found_no_room_is_made_up_for_in_order():
    """Rows must be replaced in ascending order, or a deletion could be forgotten before what it deleted."""
    log = SlowLog()
    store = await LocalStore.open(log)
    for key in ("a", "a", "b"):
        await store.commit([], [Put(key, b"")])
    await store.commit([], [DeleteEntry("a")])
    log.fail_with = StorageFull("no room")
    with pytest.raises(StorageFull):
        await store.compact(3)
    log.fail_with = None

    assert await store.compact(5) == 5

    assert [row.revision for rows in log.compactions for row in rows] == [2, 3, 5]
    assert all(not row.writes for rows in log.compactions for row in rows)


async def test_two_compactions_at_once_do_not_get_in_each_others_way():
    store = await LocalStore.open(SlowLog())
    for _ in range(6):
        await store.commit([], [Put("a", b"")])

    assert list(await asyncio.gather(store.compact(5), store.compact(3), store.compact(7))) == [5, 5, 7]


async def test_a_full_disk_is_survived_and_what_was_acknowledged_is_there_after_a_restart():
    disk = SimDisk(Choices(), "disk")
    store = await LocalStore.open(DiskLog(disk))
    disk.capacity_bytes = disk.used_bytes + 5000
    acknowledged = 0
    with pytest.raises(StorageFull):
        for number in range(100):
            await store.commit([], [Put(f"{number}", bytes(100))])
            acknowledged += 1
    assert acknowledged > 10
    disk.capacity_bytes = 20_000
    await store.commit([], [Put("more", bytes(100))])
    await store.close()

    store = await LocalStore.open(DiskLog(disk))

    assert len((await store.range("")).entries) == acknowledged + 1
    await store.close()


async def test_a_watch_may_be_read_by_one_reader_at_a_time():
    store = await LocalStore.open(MemoryLog())
    with store.watch("", after=1) as watch:
        waiting = tasks.spawn(_next(watch), name="reader")
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="already being waited for"):
            await anext(watch)
        await tasks.stop(waiting)


async def _next(watch: StoreWatch) -> WatchBatch:
    return await anext(watch)


async def test_an_append_behind_a_failed_compaction_is_neither_shown_nor_left_waiting():
    log = SlowLog()
    store = await LocalStore.open(log)
    for _ in range(3):
        await store.commit([], [Put("a", b"")])
    compacting = asyncio.ensure_future(store.compact(3))
    await asyncio.sleep(0.5)
    log.fail_with = OutcomeUnknown("the disk is on fire")
    committing = asyncio.ensure_future(store.commit([], [Put("b", b"")]))

    with pytest.raises(OutcomeUnknown):
        await compacting
    with pytest.raises(OutcomeUnknown):
        await committing
    assert await store.get("b") is None
    with pytest.raises(StoreUnavailable):
        await store.compact(4)


async def test_a_compaction_that_found_no_room_is_finished_when_it_is_asked_for_again():
    log = SlowLog()
    store = await LocalStore.open(log)
    for _ in range(4):
        await store.commit([], [Put("a", b"")])
    log.fail_with = StorageFull("no room")
    with pytest.raises(StorageFull):
        await store.compact(4)
    log.fail_with = None

    assert await store.compact(4) == 4

    assert [row.revision for rows in log.compactions for row in rows] == [2, 3]


async def test_one_step_of_compaction_is_bounded_however_large_transactions_are():
    log = SlowLog()
    store = await LocalStore.open(log)
    for number in range(40):
        await store.commit([], [Put(f"{key}", str(number).encode()) for key in range(100)])

    await store.compact(await store.revision())

    assert max(len(row.writes) or 1 for rows in log.compactions for row in rows) <= 100
    assert max(len(rows) for rows in log.compactions) <= COMPACTION_STEP_CHANGES // 100 + 1


class ClosingLog(SlowLog):
    """Notes whether it was closed, and what had been written by then."""

    def __init__(self) -> None:
        super().__init__()
        self.closed_after: int | None = None

    async def close(self) -> None:
        await asyncio.sleep(1)
        assert self.closed_after is None, "closed twice"
        self.closed_after = len(self.groups) + len(self.compactions)


async def test_the_log_is_closed_once_and_after_everything_that_was_begun():
    log = ClosingLog()
    store = await LocalStore.open(log)
    await store.commit([], [Put("a", b"")])
    await store.commit([], [Put("a", b"")])
    committing = asyncio.ensure_future(store.commit([], [Put("b", b"")]))
    compacting = asyncio.ensure_future(store.compact(3))
    await asyncio.sleep(0.1)
    impatient = asyncio.ensure_future(store.close())
    await asyncio.sleep(0.1)
    impatient.cancel()

    await store.close()

    assert log.closed_after == 4
    assert await committing == Committed(4)
    assert await compacting == 3


async def test_a_store_whose_opening_was_given_up_lets_go_of_its_log():
    class SlowToOpen(ClosingLog):
        async def open(self) -> Recovered:
            await asyncio.sleep(5)
            return Recovered(0, [])

    log = SlowToOpen()
    opening = asyncio.ensure_future(LocalStore.open(log))
    await asyncio.sleep(1)
    opening.cancel()
    await asyncio.wait([opening])

    assert log.closed_after == 0


async def test_a_hold_never_goes_back():
    store = await LocalStore.open(MemoryLog())
    for _ in range(4):
        await store.commit([], [Put("a", b"")])
    hold = store.hold(3)
    hold.advance(2)

    assert hold.revision == 3
    assert await store.compact(5) == 3
    with pytest.raises(InvalidStoreRequest):
        hold.advance(-1)


async def test_an_idle_watch_is_not_outdated_by_compaction():
    store = await LocalStore.open(MemoryLog())
    with store.watch("mine/", after=1) as watch:
        waiting = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0)
        for _ in range(10):
            await store.commit([], [Put("other/a", b"")])
        await store.compact(await store.revision())
        await store.commit([], [Put("mine/a", b"")])

        assert [change.key for change in (await waiting).changes] == ["mine/a"]
