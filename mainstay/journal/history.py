"""The history recorder: follows the store's changes into the journal, so that they outlive the store's compaction.

It is handed a `HistorySource`, because the journal knows no store; the server has one over its store, a program beside
a Kubernetes cluster may have one over watches. The exact shape of what comes in:

- `KeyVersion(revision, key, value, decision, cause)`: what one revision did to one key of the store. `key` is the
  store's, `core/pods/default/web-1`; `value` the stored bytes, None for a delete. The server stores lineage beside a
  write, at the same revision; the source joins the two (server/decisions/history_source.py). Keys that are no objects
  may be passed on; they are left out here (keys.py).
- `HistoryBatch(revision, changes)`: in the order of revisions, never half a revision, and complete: with it, every
  change up to and including `revision` has been passed on. It may have no changes. It is encoded at once, on the loop,
  so it should have hundreds of them rather than thousands.

Once a batch is durable, `advance(revision)` is called, at the source: up to there the store may forget. Batches are
written a few times a second, each time with one sync. If the disk is slow or full, the recorder stops reading and tries
again: history is never dropped here. If the store has to forget all the same, because it has no room or memory for
more, or because recording paused for a while, the recorder takes a snapshot, notes what was missed, and goes on from
there; every answer that crosses the gap says so (reader.py).

A snapshot is also taken now and then, so that a view is rebuilt from a bounded number of changes. Values of Secrets
never get here (secret_mask.py).
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol

import msgspec

from mainstay.env import Clock, Disk, tasks, vital
from mainstay.env.disk import DiskFull
from mainstay.env.invariants import broken
from mainstay.journal.closed_segment import ClosingHelper
from mainstay.journal.errors import HistoryAhead, Missed, SourceUnavailable
from mainstay.journal.files import Series, described
from mainstay.journal.keys import is_object
from mainstay.journal.record import ChangeRecord, EntryRecord, MissedRecord, ReachedRecord, encode, micros
from mainstay.journal.retention import to_forget
from mainstay.journal.secret_mask import masked
from mainstay.journal.segments import DEFAULT_LIMITS, SegmentLimits, Segments
from mainstay.journal.snapshots import Snapshots
from mainstay.journal.watermark import Watermark

_log = logging.getLogger(__name__)

WRITE_EVERY: Final = timedelta(milliseconds=200)  # What a crash of this process can cost to read again.
RETRY_AFTER: Final = timedelta(seconds=1)
PENDING_BYTES_MAX: Final = 16 * 1024 * 1024  # Then no more is read from the source until some of it is written.
FRAME_BYTES: Final = 1024 * 1024
SNAPSHOT_AGAIN: Final = timedelta(minutes=1)  # After one that could not be taken.
CLOSING: Final = timedelta(seconds=5)  # How long closing waits for a disk that does not take what is pending.


class KeyVersion(msgspec.Struct, frozen=True, gc=False):
    """What one revision did to one key of the store. In a snapshot: what is there, and which revision wrote it."""

    revision: int
    key: str
    value: bytes | None
    decision: str = ""
    cause: str = ""


@dataclass(frozen=True, slots=True)
class HistoryBatch:
    revision: int
    """Every change up to and including this revision has now been passed on."""
    changes: Sequence[KeyVersion]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that is there as of one revision, in the order of keys, in pages."""

    revision: int
    pages: AsyncIterator[Sequence[KeyVersion]]


class HistorySource(Protocol):
    """Where history comes from. Any method may raise `SourceUnavailable`."""

    async def snapshot(self, at: int | None) -> Snapshot:
        """All that is there, now or as of a revision. Raises `Missed` if that revision is gone, here or in a page.

        From now on the store keeps what comes after the snapshot, as if `advance` had been called with its revision.
        """

    def changes(self, after: int) -> AsyncGenerator[HistoryBatch, None]:
        """All changes after a revision, for ever. Raises `Missed` if some are gone, `HistoryAhead` if none can be."""

    def advance(self, revision: int) -> None:
        """Everything up to this revision is durable in the journal: the store need not keep it for us."""


class _Piece:
    """A batch that is waiting to be written."""

    __slots__ = ("after", "count", "records", "revision", "size")

    def __init__(self, after: int, revision: int, records: list[bytes]) -> None:
        self.after = after
        self.revision = revision
        self.records = records
        self.count = len(records)
        self.size = sum(map(len, records))


class HistoryRecorder:
    """Records one source into one directory. `await start()`, and `await close()` at the end.

    The caller closes the disk, and with it the lock on the directory.
    """

    def __init__(
        self,
        disk: Disk,
        source: HistorySource,
        clock: Clock,
        limits: SegmentLimits = DEFAULT_LIMITS,
        helper: ClosingHelper | None = None,
    ) -> None:
        self._source = source
        self._clock = clock
        self._limits = limits
        self._segments = Segments(disk, Series.HISTORY, limits, helper)
        self._snapshots = Snapshots(disk)
        self._worker = tasks.Worker("journal history")
        self._progress = Watermark()
        self._taken = 0
        """Up to here batches were taken from the source. What is after the frontier is pending."""
        self._pending: list[_Piece] = []
        self._pending_bytes = 0
        self._changes_since_snapshot = 0
        self._bytes_since_snapshot = 0
        self._objects_in_snapshot = 0
        self._is_cut_off = False
        """The latest snapshot is missing, or what follows it was forgotten."""
        self._no_snapshot_before_ns = 0
        self._following: asyncio.Task[None] | None = None
        self._writing: asyncio.Task[None] | None = None
        self.changes = 0
        self.gaps = 0
        self.snapshots = 0
        self.failures = 0
        """Writes that the disk refused. They are tried again."""
        self.last_failure = ""
        self._is_failing = False
        """The last write was refused."""
        self._ahead = ""
        """Why the source cannot be followed any more."""

    @property
    def frontier(self) -> int:
        """Everything up to this revision is durable, or was missed. 0: nothing is."""
        return self._progress.value

    def find_problem(self) -> str:
        """Why the journal does not follow. Empty: it does."""
        if self._ahead:
            return f"the journal is ahead of its store: {self._ahead}"
        if self._is_failing:
            return f"cannot write the journal: {self.last_failure}"
        if self._pending_bytes >= PENDING_BYTES_MAX:
            return f"the journal is behind: {self._pending_bytes} bytes wait to be written"
        return self._segments.find_problem(micros(self._clock.wall()))

    async def start(self) -> None:
        """Take possession of the directory and begin to follow. Raises `JournalInUse`."""
        await self._worker.run(self._open)
        self._taken = self.frontier
        if self.frontier:
            self._source.advance(self.frontier)
        self._following = vital.spawn(self._follow(), name="journal-history")

    async def close(self) -> None:
        """Write what was taken so far, as far as the disk lets us, and let go."""
        if self._following is not None:
            await tasks.stop(self._following)
        with contextlib.suppress(TimeoutError):
            async with tasks.timeout(CLOSING):
                await self._all_written()
        if self._writing is not None:
            await tasks.stop(self._writing)
        await self._worker.run(self._segments.close)
        self._worker.close()

    async def reach(self, revision: int) -> None:
        """Wait until everything up to a revision is durable here. Raises `HistoryAhead` if that cannot be."""
        await self._progress.reach(revision)

    # On the worker: everything that touches the disk.

    def _open(self) -> None:
        self._segments.open()
        self._snapshots.open()
        blocks = [block for index in self._segments.closed.values() for block in index.blocks]
        blocks += [described(content.glances, 0) for content in self._segments.contents()]
        self._progress.value = max((until for block in blocks for _, until in block.covers), default=0)
        latest = self._snapshots.latest
        self._changes_since_snapshot = sum(
            block.count for block in blocks if any(until > latest for _, until in block.covers)
        )
        self._look_at_snapshots()

    def _tidy(self, at: int) -> None:
        self._segments.roll_if_old(at)
        snapshots = {revision: index.bytes for revision, index in self._snapshots.files.items()}
        gone = to_forget(self._segments.closed, snapshots, at, self._limits.keep, self._limits.keep_bytes)
        self._segments.forget(gone.segments)
        self._snapshots.forget(gone.snapshots)
        self._look_at_snapshots()

    def _finish_snapshot(self, revision: int) -> None:
        self._snapshots.finish(revision)
        self._look_at_snapshots()

    def _look_at_snapshots(self) -> None:
        """Note what the loop asks for, which may not look into what changes on the worker."""
        latest = self._snapshots.files.get(self._snapshots.latest)
        self._objects_in_snapshot = sum(block.count for block in latest.blocks) if latest else 0
        closed = self._segments.closed
        covers = next((closed[number].covers for number in sorted(closed) if closed[number].covers), None)
        self._is_cut_off = latest is None or (covers is not None and covers[0][0] > latest.number)

    # On the loop.

    async def _follow(self) -> None:
        """Follow the source for as long as there is one, whatever happens to the way there."""
        has_begun = self.frontier > 0
        while True:
            try:
                if not has_begun:
                    await self._begin()
                    has_begun = True
                await self._follow_once()
            except Missed as error:
                _log.warning("the journal missed changes after revision %d: %s", self._taken, error)
                has_begun = False
            except SourceUnavailable as error:
                _log.warning("cannot follow the history, retrying: %s", error)
                await tasks.sleep(RETRY_AFTER)
            except (DiskFull, OSError) as error:
                await self._failed(error)
            except HistoryAhead as error:
                self.last_failure = self._ahead = str(error)
                self._progress.fail(error)
                raise

    async def _begin(self) -> None:
        """Begin with what is there now: nothing was recorded yet, or what comes next is gone."""
        await self._all_written()
        revision = await self._take_snapshot(None)
        if revision < self.frontier:
            raise HistoryAhead(f"the journal is at revision {self.frontier}, the store only at {revision}")
        at = micros(self._clock.wall())
        records = [encode(ReachedRecord(revision, revision, at))]
        if 0 < self.frontier < revision:
            records.insert(0, encode(MissedRecord(self.frontier, revision, at)))
            self.gaps += 1
        # The same again until it is there: a failed write may be there as well, and must not contradict it.
        while not await self._append(records, at):
            pass
        self._taken = revision
        self._reached(revision)

    async def _follow_once(self) -> None:
        if self._is_snapshot_due():
            await self._snapshot_here()
        async with contextlib.aclosing(self._source.changes(self._taken)) as batches:
            async for batch in batches:
                self._take(batch)
                if self._pending_bytes >= PENDING_BYTES_MAX:
                    await self._all_written()
                if self._is_snapshot_due():
                    await self._snapshot_here()

    def _take(self, batch: HistoryBatch) -> None:
        if batch.revision <= self._taken:
            return
        at = micros(self._clock.wall())
        taken = self._taken
        records: list[bytes] = []
        for change in batch.changes:  # With every write of the server: it must cost little.
            key, value = change.key, change.value
            if change.revision > taken and is_object(key):
                kept = None if value is None else masked(key, value)
                records.append(encode(ChangeRecord(change.revision, key, kept, at, change.decision, change.cause)))
        if self._pending and self._pending[-1].revision != self._taken:
            about = f"history after revision {self._taken}"
            raise broken("what waits to be recorded has no gap", about, last=self._pending[-1].revision)
        piece = _Piece(self._taken, batch.revision, records)
        self._pending.append(piece)
        self._pending_bytes += piece.size
        self._taken = batch.revision
        if self._writing is None:
            self._writing = vital.spawn(self._write(), name="journal-history-writer", may_end=True)

    async def _all_written(self) -> None:
        await self.reach(self._taken)

    async def _write(self) -> None:
        """Write what is pending, several times a second, until nothing is. Full frames need not wait for more."""
        while self._pending:
            if self._pending_bytes < FRAME_BYTES:
                await tasks.sleep(WRITE_EVERY)
            count, size = 0, 0
            while count < len(self._pending) and (not count or size < FRAME_BYTES):
                size += self._pending[count].size
                count += 1
            pieces = self._pending[:count]
            at = micros(self._clock.wall())
            records = [encode(ReachedRecord(pieces[0].after, pieces[-1].revision, at))]
            for piece in pieces:
                records += piece.records
            if not await self._append(records, at):
                continue
            del self._pending[:count]
            self._pending_bytes -= size
            self.changes += len(records) - 1
            self._changes_since_snapshot += len(records) - 1
            self._bytes_since_snapshot += size
            self._reached(pieces[-1].revision)
            with self._counting_failures():
                await self._worker.run(self._tidy, at)
        self._writing = None

    async def _append(self, records: list[bytes], at: int) -> bool:
        try:
            await self._worker.run(self._segments.append, records, at)
        except (DiskFull, OSError) as error:
            await self._failed(error)
            return False
        self._is_failing = False
        return True

    async def _failed(self, error: Exception) -> None:
        self._is_failing = True
        self._count_failure("cannot write the journal, retrying", error)
        with self._counting_failures():
            await self._worker.run(self._tidy, micros(self._clock.wall()))
        await tasks.sleep(RETRY_AFTER)

    @contextlib.contextmanager
    def _counting_failures(self) -> Iterator[None]:
        """Around what can as well be done the next time."""
        try:
            yield
        except (DiskFull, OSError) as error:
            self._count_failure("cannot clean up the journal", error)

    def _count_failure(self, what: str, error: Exception) -> None:
        self.failures += 1
        self.last_failure = str(error)
        _log.warning("%s: %s", what, error)

    def _reached(self, revision: int) -> None:
        self._progress.advance(revision)
        self._source.advance(revision)

    def _is_snapshot_due(self) -> bool:
        if self._clock.monotonic_ns() < self._no_snapshot_before_ns:
            return False
        return (
            self._is_cut_off
            or self._changes_since_snapshot >= max(self._limits.snapshot_changes, 4 * self._objects_in_snapshot)
            # Before retention reaches what follows the latest one, there has to be another.
            or self._bytes_since_snapshot >= self._limits.keep_bytes // 4
        )

    async def _snapshot_here(self) -> None:
        """Take a snapshot at the frontier. It can wait: following goes on without it if it cannot be had just now."""
        await self._all_written()
        try:
            await self._take_snapshot(self.frontier)
        except (Missed, DiskFull, OSError) as error:
            pause_ns = SNAPSHOT_AGAIN // timedelta(microseconds=1) * 1000
            self._no_snapshot_before_ns = self._clock.monotonic_ns() + pause_ns
            self._count_failure("cannot take a snapshot for the journal", error)

    async def _take_snapshot(self, at: int | None) -> int:
        snapshot = await self._source.snapshot(at)
        try:
            await self._worker.run(self._snapshots.begin, snapshot.revision)
            async for page in snapshot.pages:
                entries = [
                    EntryRecord(entry.key, entry.revision, masked(entry.key, entry.value))
                    for entry in page
                    if entry.value is not None and is_object(entry.key)
                ]
                await self._worker.run(self._snapshots.add, entries)
            await self._worker.run(self._finish_snapshot, snapshot.revision)
        except (DiskFull, OSError, Missed, SourceUnavailable):
            await self._worker.run(self._snapshots.give_up)
            raise
        self.snapshots += 1
        self._changes_since_snapshot = 0
        self._bytes_since_snapshot = 0
        return snapshot.revision
