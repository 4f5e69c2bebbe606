"""The decision recorder: takes the record of each decision, and never makes the component that decides wait for it.

`record` only encodes and puts down; a task writes what has come together a few times a second. What waits is bounded.
When the disk is slower than the decisions, detail goes first: records that come when half of the room is taken keep
only what they are about, how they ended and what they wrote. When there is no room at all a record is dropped. Both
are counted, and the counts are written into the journal as well: a reader knows that something is missing, and when.

A decision is recorded after it was acted on, with what came of its writes. A crash loses what was recorded in the last
moments; the writes themselves carry the decision's id, so the history still tells that there was one.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from mainstay.env import Clock, Disk, tasks, vital
from mainstay.env.disk import DiskFull
from mainstay.journal.closed_segment import ClosingHelper
from mainstay.journal.files import Series
from mainstay.journal.outbox import WAITING_BYTES_MAX, WaitingRecords
from mainstay.journal.record import DecisionRecord, RecordedMemory, WriteRecord, encode, micros
from mainstay.journal.retention import to_forget
from mainstay.journal.segments import DEFAULT_LIMITS, SegmentLimits, Segments
from mainstay.journal.watermark import Watermark

_log = logging.getLogger(__name__)

WRITE_EVERY: Final = timedelta(milliseconds=200)
NOTES_MAX: Final = 256
HURRY: Final = timedelta(milliseconds=10)  # When a caller waits for it. Records that arrive meanwhile go along.
RETRY_AFTER: Final = timedelta(seconds=1)
CLOSING: Final = timedelta(seconds=5)


class DecisionRecorder:
    """Records decisions into one directory. `await start()`, and `await close()` at the end.

    The caller closes the disk, and with it the lock on the directory.
    """

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        limits: SegmentLimits = DEFAULT_LIMITS,
        helper: ClosingHelper | None = None,
        *,
        waiting_bytes_max: int = WAITING_BYTES_MAX,
    ) -> None:
        self._clock = clock
        self._limits = limits
        self._segments = Segments(disk, Series.DECISIONS, limits, helper)
        self._worker = tasks.Worker("journal decisions")
        self._waiting = WaitingRecords(clock, waiting_bytes_max)
        self._waiting.is_open = False
        self._notes: list[WriteRecord] = []
        """Not encoded yet: with every write there is one, and several at once are cheaper."""
        self._written = Watermark()
        """How many of those that were put down are durable."""
        self._writing: asyncio.Task[None] | None = None
        self._is_awaited = asyncio.Event()
        self.failures = 0
        self.last_failure = ""
        self._is_failing = False
        """The last write was refused."""

    @property
    def recorded(self) -> int:
        """How many decisions were put down."""
        return self._waiting.recorded

    @property
    def dropped(self) -> int:
        return self._waiting.dropped

    @property
    def details_dropped(self) -> int:
        return self._waiting.details_dropped

    @property
    def is_half_full(self) -> bool:
        """Whether it would be better to bring records later. Those of one's own are without detail now."""
        return self._waiting.is_half_full

    def find_problem(self) -> str:
        """Why decisions are not recorded. Empty: they are."""
        if self._is_failing:
            return f"cannot write the journal: {self.last_failure}"
        return self._segments.find_problem(micros(self._clock.wall()))

    async def start(self) -> None:
        """Take possession of the directory. Raises `JournalInUse`."""
        await self._worker.run(self._segments.open)
        self._waiting.is_open = True

    def record(self, decision: DecisionRecord) -> None:
        """Put a decision down. Does not wait and does not fail; what there is no room for is counted."""
        self._waiting.record(decision)
        self._write_soon()

    def take(self, records: Sequence[bytes], at: int) -> None:
        """Put down records that others have made and encoded, with the time under which a loss of them would be
        recorded.
        """
        self._waiting.take(records, at)
        self._write_soon()

    def note(self, record: WriteRecord) -> None:
        """Put down who asked for a write."""
        self._notes.append(record)
        if self._writing is None or len(self._notes) >= NOTES_MAX:
            self._put_notes()
            self._write_soon()

    def remember(self, component: str, content: bytes) -> RecordedMemory:
        """What a record says of this memory: see `WaitingRecords.remember`."""
        memory = self._waiting.remember(component, content)
        self._write_soon()
        return memory

    async def flush(self) -> None:
        """Wait until what was recorded so far, and not dropped, is durable."""
        self._put_notes()
        self._write_soon()
        self._is_awaited.set()
        await self._written.reach(self._waiting.put_count)

    async def close(self) -> None:
        """Write what is waiting, as far as the disk lets us, and let go."""
        with contextlib.suppress(TimeoutError):
            async with tasks.timeout(CLOSING):
                await self.flush()
        if self._writing is not None:
            await tasks.stop(self._writing)
        self._waiting.is_open = False
        await self._worker.run(self._segments.close)
        self._worker.close()

    def _put_notes(self) -> None:
        if notes := self._notes:
            self._notes = []
            self._waiting.take([encode(note) for note in notes], notes[0].at)

    def _write_soon(self) -> None:
        if self._writing is None and self._waiting:
            self._writing = vital.spawn(self._write(), name="journal-decisions-writer", may_end=True)

    async def _write(self) -> None:
        """Write what is waiting, a few times a second, until nothing is."""
        while self._waiting:
            await self._pause()
            self._put_notes()
            while self._waiting:
                batch = self._waiting.batch()
                if await self._append(batch.records):
                    self._waiting.done()
                    self._written.advance(self._written.value + batch.count)
            self._put_notes()
        self._writing = None

    async def _pause(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with tasks.timeout(WRITE_EVERY):
                await self._is_awaited.wait()
                await tasks.sleep(HURRY)
        self._is_awaited.clear()

    async def _append(self, records: Sequence[bytes]) -> bool:
        try:
            await self._worker.run(self._append_and_tidy, records, micros(self._clock.wall()))
        except (DiskFull, OSError) as error:
            self.failures += 1
            self._is_failing, self.last_failure = True, str(error)
            _log.warning("cannot record decisions, retrying: %s", error)
            await tasks.sleep(RETRY_AFTER)
            return False
        self._is_failing = False
        return True

    def _append_and_tidy(self, records: Sequence[bytes], at: int) -> None:
        # First make room: on a full disk that may be what lets us go on.
        self._segments.roll_if_old(at)
        gone = to_forget(self._segments.closed, {}, at, self._limits.keep, self._limits.keep_bytes)
        self._segments.forget(gone.segments)
        self._segments.append(records, at)
