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
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from mainstay.env import Clock, Disk, tasks
from mainstay.env.disk import DiskFull
from mainstay.journal.files import Series
from mainstay.journal.progress import Progress
from mainstay.journal.record import (
    MEMORY_BYTES_MAX,
    NO_MEMORY,
    DecisionRecord,
    LostRecord,
    Memory,
    MemoryRecord,
    bounded,
    digest_of,
    encode,
    micros,
    without_detail,
)
from mainstay.journal.retention import to_forget
from mainstay.journal.segments import DEFAULT_LIMITS, Limits, Segments

_log = logging.getLogger(__name__)

WRITE_EVERY: Final = timedelta(milliseconds=200)
RETRY_AFTER: Final = timedelta(seconds=1)
CLOSING: Final = timedelta(seconds=5)
WAITING_BYTES_MAX: Final = 8 * 1024 * 1024
FRAME_BYTES: Final = 256 * 1024  # Each is encoded and decoded at once: larger ones would hold up the loop.
MEMORY_EVERY: Final = timedelta(seconds=60)  # How often a large memory of a component is kept whole.
LARGE_MEMORY_BYTES_MAX: Final = 4 * 1024 * 1024
COMPONENTS_MAX: Final = 1_000  # Whose last checkpoint is remembered.


@dataclass(slots=True)
class _Lost:
    since: int
    until: int
    records: int = 0
    details: int = 0


class DecisionRecorder:
    """Records the decisions of one process into one directory. `await start()`, and `await close()` at the end.

    The disk, and with it the lock on the directory, stays open: that is for whoever has opened it.
    """

    def __init__(
        self, disk: Disk, clock: Clock, limits: Limits = DEFAULT_LIMITS, *, waiting_bytes_max: int = WAITING_BYTES_MAX
    ) -> None:
        self._clock = clock
        self._limits = limits
        self._waiting_bytes_max = waiting_bytes_max
        self._segments = Segments(disk, Series.DECISIONS, limits)
        self._worker = tasks.Worker("journal decisions")
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._put_count = 0
        self._written = Progress()
        """How many of those that were put down are durable."""
        self._lost: _Lost | None = None
        self._checkpoints: dict[str, tuple[int, bytes]] = {}
        """By component: when the last one was taken, and its digest."""
        self._writing: asyncio.Task[None] | None = None
        self._is_open = False
        self.recorded = 0
        self.dropped = 0
        self.details_dropped = 0
        self.failures = 0
        self.last_failure = ""

    async def start(self) -> None:
        """Take possession of the directory. Raises `InUse`."""
        await self._worker.run(self._segments.open)
        self._is_open = True

    def record(self, decision: DecisionRecord) -> None:
        """Put a decision down. Does not wait and does not fail; what there is no room for is counted."""
        decision = bounded(decision)
        if self._waiting_bytes >= self._waiting_bytes_max // 2:
            decision = without_detail(decision)
            self._note_lost(decision.at, details=1)
        data = encode(decision)
        if self._put(data):
            self.recorded += 1
        else:
            self._note_lost(decision.at, records=1)

    def remember(self, component: str, content: bytes) -> Memory:
        """What a record says of this memory. A large one is kept whole now and then, not each time.

        The content is the memory as bytes, always encoded the same way, without anything that is secret.
        """
        if not content:
            return NO_MEMORY
        if len(content) <= MEMORY_BYTES_MAX:
            return Memory(len(content), content)
        digest = digest_of(content)
        at = micros(self._clock.wall())
        last = self._checkpoints.get(component)
        is_due = last is None or abs(at - last[0]) >= MEMORY_EVERY // timedelta(microseconds=1)
        if (
            is_due
            and len(content) <= LARGE_MEMORY_BYTES_MAX
            and self._waiting_bytes < self._waiting_bytes_max // 2
            and self._put(encode(MemoryRecord(component, digest, at, content)))
        ):
            if len(self._checkpoints) >= COMPONENTS_MAX:
                self._checkpoints.pop(next(iter(self._checkpoints)))
            self._checkpoints[component] = at, digest
        return Memory(len(content), digest=digest)

    async def flush(self) -> None:
        """Wait until what was recorded so far, and not dropped, is durable."""
        await self._written.reach(self._put_count)

    async def close(self) -> None:
        """Write what is waiting, as far as the disk lets us, and let go."""
        with contextlib.suppress(TimeoutError):
            async with tasks.timeout(CLOSING):
                await self.flush()
        if self._writing is not None:
            await tasks.stop(self._writing)
        self._is_open = False
        await self._worker.run(self._segments.roll)
        self._worker.close()

    def _put(self, data: bytes) -> bool:
        if not self._is_open or self._waiting_bytes + len(data) > self._waiting_bytes_max:
            return False
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        self._put_count += 1
        if self._writing is None:
            self._writing = tasks.spawn(self._write(), name="journal decisions")
        return True

    def _note_lost(self, at: int, *, records: int = 0, details: int = 0) -> None:
        self.dropped += records
        self.details_dropped += details
        if self._lost is None:
            self._lost = _Lost(at, at)
        self._lost.since = min(self._lost.since, at)
        self._lost.until = max(self._lost.until, at)
        self._lost.records += records
        self._lost.details += details

    async def _write(self) -> None:
        """Write what is waiting, a few times a second, until nothing is."""
        while self._waiting:
            await tasks.sleep(WRITE_EVERY)
            while self._waiting:
                count, size = 0, 0
                while count < len(self._waiting) and (not count or size < FRAME_BYTES):
                    size += len(self._waiting[count])
                    count += 1
                records = self._waiting[:count]
                if not await self._append(records):
                    continue
                del self._waiting[:count]
                self._waiting_bytes -= size
                self._written.advance(self._written.value + count)
        self._writing = None

    async def _append(self, records: Sequence[bytes]) -> bool:
        at = micros(self._clock.wall())
        lost, self._lost = self._lost, None
        if lost is not None:
            told = encode(LostRecord(lost.since, lost.until, lost.records, lost.details))
            records = [told, *records]
        try:
            await self._worker.run(self._append_and_tidy, records, at)
        except (DiskFull, OSError) as error:
            self.failures += 1
            self.last_failure = str(error)
            _log.warning("decisions cannot be recorded, trying again: %s", error)
            self._give_back(lost)
            await tasks.sleep(RETRY_AFTER)
            return False
        return True

    def _give_back(self, lost: _Lost | None) -> None:
        """What was to be told of losses could not be told; tell it the next time."""
        if lost is None:
            return
        if self._lost is not None:
            lost.since = min(lost.since, self._lost.since)
            lost.until = max(lost.until, self._lost.until)
            lost.records += self._lost.records
            lost.details += self._lost.details
        self._lost = lost

    def _append_and_tidy(self, records: Sequence[bytes], at: int) -> None:
        # First make room: on a full disk that may be what lets us go on.
        self._segments.roll_if_old(at)
        gone = to_forget(self._segments.closed, {}, at, self._limits.keep, self._limits.keep_bytes)
        self._segments.forget(gone.segments)
        self._segments.append(records, at)
