"""Records on their way to where they are kept: to a disk (decisions.py), or to a server (loop/record_shipper.py).

What waits is bounded. When it cannot be taken away as fast as it comes, detail goes first: a record that comes when
half of the room is taken keeps only what it is about, how it ended and what it wrote. When there is no room at all a
record is dropped. Both are counted, and a `LostRecord` tells of it in the place where the records themselves should be.

What goes together is a `RecordBatch`. The same batch is given until it is `done`, so a sender that does not know
whether it arrived can send exactly the same again; readers know decisions by their ids, and losses by what they say.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import msgspec

from mainstay.env import Clock
from mainstay.env.invariants import broken
from mainstay.journal.record import (
    MEMORY_BYTES_MAX,
    NO_MEMORY,
    DecisionRecord,
    LostRecord,
    MemoryRecord,
    RecordedMemory,
    bounded,
    compute_digest,
    encode,
    micros,
    without_detail,
)

WAITING_BYTES_MAX: Final = 8 * 1024 * 1024
BATCH_BYTES: Final = 256 * 1024  # Each is encoded and decoded at once: larger ones would hold up the loop.
MEMORY_EVERY: Final = timedelta(seconds=60)
MEMORY_BYTES_EVERY: Final = 512 * 1024
"""How much of the large memories of a component is kept whole in each such time: at least one of them."""
LARGE_MEMORY_BYTES_MAX: Final = 4 * 1024 * 1024
COMPONENTS_MAX: Final = 1_000  # Whose last checkpoint is remembered.
_COUNTED: Final = "what waits to be recorded is counted to the byte"


@dataclass(slots=True)
class _Lost:
    since: int
    until: int
    records: int = 0
    details: int = 0


@dataclass(slots=True)
class _Checkpoints:
    """Which large memories of a component were kept whole, since when."""

    since: int
    digests: dict[bytes, None] = field(default_factory=dict)
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Encoded records that go together, perhaps with one in front that says what was lost before them."""

    records: Sequence[bytes]
    count: int
    """How many of those that wait are in it."""
    lost: _Lost | None = None


class WaitingRecords:
    """Records of one process. `source` is who to name when something was lost: its instance."""

    def __init__(self, clock: Clock, bytes_max: int = WAITING_BYTES_MAX, source: str = "") -> None:
        self._clock = clock
        self._bytes_max = bytes_max
        self._source = source
        self._records: list[bytes] = []
        self._bytes = 0
        self._batch: RecordBatch | None = None
        self._lost: _Lost | None = None
        self._checkpoints: dict[str, _Checkpoints] = {}
        self.is_open = True
        """While it is not, everything is dropped and counted."""
        self.put_count = 0
        self.recorded = 0
        self.dropped = 0
        self.details_dropped = 0

    def __bool__(self) -> bool:
        return bool(self._records)

    @property
    def size(self) -> int:
        return self._bytes

    @property
    def is_half_full(self) -> bool:
        """Whether detail is being dropped."""
        return self._bytes >= self._bytes_max // 2

    def record(self, decision: DecisionRecord) -> None:
        """Put a decision down. Does not wait and does not fail; what there is no room for is counted."""
        decision = bounded(decision)
        if len(decision.memory.inline) > MEMORY_BYTES_MAX:
            memory = self.remember(decision.component, decision.memory.inline)
            decision = msgspec.structs.replace(decision, memory=memory)
        if self._bytes >= self._bytes_max // 2:
            decision = without_detail(decision)
            self._note(decision.at, details=1)
        if self._put(encode(decision)):
            self.recorded += 1
        else:
            self._note(decision.at, records=1)

    def take(self, records: Sequence[bytes], at: int) -> None:
        """Put down encoded records that another process has made. `at` is about when they were."""
        size = sum(map(len, records))
        if self.is_open and self._bytes + size <= self._bytes_max:
            self._records += records
            self._bytes += size
            self.put_count += len(records)
            return
        for data in records:
            if not self._put(data):
                self._note(at, records=1)

    def remember(self, component: str, content: bytes) -> RecordedMemory:
        """What a record says of this memory. Large ones are kept whole as far as there is room for them, each once.

        The content is the memory as bytes, always encoded the same way, without anything that is secret.
        """
        if not content:
            return NO_MEMORY
        if len(content) <= MEMORY_BYTES_MAX:
            return RecordedMemory(len(content), content)
        digest, at = compute_digest(content), micros(self._clock.wall())
        kept = self._checkpoints.get(component)
        if kept is None or abs(at - kept.since) >= MEMORY_EVERY // timedelta(microseconds=1):
            if len(self._checkpoints) >= COMPONENTS_MAX:
                self._checkpoints.pop(next(iter(self._checkpoints)))
            kept = self._checkpoints[component] = _Checkpoints(at)
        if (
            digest not in kept.digests
            and (not kept.digests or kept.bytes + len(content) <= MEMORY_BYTES_EVERY)
            and len(content) <= LARGE_MEMORY_BYTES_MAX
            and self._bytes < self._bytes_max // 2
            and self._put(encode(MemoryRecord(component, digest, at, content)))
        ):
            kept.digests[digest] = None
            kept.bytes += len(content)
        return RecordedMemory(len(content), digest=digest)

    def batch(self, bytes_max: int = BATCH_BYTES) -> RecordBatch:
        """What goes next: the same until it is `done`. Only while something is waiting."""
        if self._batch is None:
            count, size = 0, 0
            while count < len(self._records) and (not count or size < bytes_max):
                size += len(self._records[count])
                count += 1
            records = self._records[:count]
            if (lost := self._lost) is not None:
                told = LostRecord(lost.since, lost.until, lost.records, lost.details, self._source)
                records.insert(0, encode(told))
                self._lost = None
            self._batch = RecordBatch(records, count, lost)
        return self._batch

    def halve(self) -> bool:
        """Make the batch smaller: it is too large, or something in it cannot be taken. False: it is a single record."""
        batch = self.batch()
        if batch.count <= 1:
            return False
        told = len(batch.records) - batch.count
        self._batch = RecordBatch(batch.records[: told + batch.count // 2], batch.count // 2, batch.lost)
        return True

    def done(self) -> None:
        """The batch is where it should be."""
        self._take_away()

    def drop(self) -> None:
        """The batch, a single record, is rejected for good."""
        told = None if self._batch is None else self._batch.lost
        self._take_away()
        self._note(micros(self._clock.wall()), records=1)
        if told is not None and self._lost is not None:  # Not reported yet.
            self._lost.since = min(self._lost.since, told.since)
            self._lost.records += told.records
            self._lost.details += told.details

    def _take_away(self) -> None:
        if self._batch is not None:
            count = self._batch.count
            gone = self._records[:count]
            del self._records[:count]
            self._bytes -= sum(map(len, gone))
            if len(gone) != count or self._bytes < 0 or (not self._records and self._bytes):
                about = f"records of {self._source or 'this process'}"
                raise broken(_COUNTED, about, batch=count, taken=len(gone), left=len(self._records), bytes=self._bytes)
            self._batch = None

    def _put(self, data: bytes) -> bool:
        if not self.is_open or self._bytes + len(data) > self._bytes_max:
            return False
        self._records.append(data)
        self._bytes += len(data)
        self.put_count += 1
        return True

    def _note(self, at: int, *, records: int = 0, details: int = 0) -> None:
        self.dropped += records
        self.details_dropped += details
        if self._lost is None:
            self._lost = _Lost(at, at)
        self._lost.since = min(self._lost.since, at)
        self._lost.until = max(self._lost.until, at)
        self._lost.records += records
        self._lost.details += details
