"""The log: what a local store writes down, and how it comes back after a crash.

The commit pipeline (local.py) is the same for every log: sqlite in production (sqlite_log.py), the simulator's disk in
simulation (disk_log.py), nothing at all for the memory store. So what is simulated is what runs.

A log holds one row per revision, and the revision it is compacted to. A row holds the whole entry of each key it
wrote, with created revision and version, so that it can be read back without the rows before it, which compaction may
have removed.
"""

import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, Protocol

import msgspec

from mainstay.env.invariants import broken
from mainstay.store.errors import Corrupt
from mainstay.store.interface import FIRST_REVISION, Entry
from mainstay.store.sealer import PLAIN, Sealer


class DeletedVersion(msgspec.Struct, frozen=True, gc=False):
    """A version of a key that says: deleted at this revision."""

    key: str
    revision: int


class LogRow(msgspec.Struct, frozen=True):
    """What is kept of one transaction. Without writes: nothing, the row can go."""

    revision: int
    writes: tuple[Entry | DeletedVersion, ...]


class Recovered(msgspec.Struct, frozen=True):
    """What a log held when it was opened: rows in ascending order, all of them after `compacted`."""

    compacted: int
    rows: Sequence[LogRow]


class AuditedRows(msgspec.Struct, frozen=True):
    """Some rows of a log, read again."""

    rows: list[LogRow]
    """Those that are as they were written."""
    faults: list[str]


class Log(Protocol):
    """Calls are carried out in the order they are made. After `OutcomeUnknown` the log is closed and not used again."""

    @property
    def sealer(self) -> Sealer:
        """What seals the values of rows."""

    async def open(self) -> Recovered:
        """Take possession of the log. Raises `StoreInUse`, `Corrupt`."""

    async def append(self, rows: Sequence[LogRow]) -> None:
        """Add rows, all or none; durable when it returns. Raises `StorageFull` (none is there), `OutcomeUnknown`."""

    async def compact(self, compacted: int, rows: Sequence[LogRow]) -> None:
        """Note the revision compacted to, and replace these rows, all or none. Raises as `append` does."""

    async def fill(self, compacted: int, rows: Sequence[LogRow]) -> None:
        """Give an empty log, once opened, what another store had: rows in ascending order, all up to the revision that
        it is compacted to from now on. All or none; raises as `append` does. Close it then, and open it again."""

    async def scrub(self) -> None:
        """Leave nothing where the log is kept of what it no longer holds. Raises as `append` does; nothing is lost."""

    async def revisions(self) -> list[int]:
        """Of all rows, ascending. None at all, if the log keeps nothing."""

    async def audit(self, revisions: Sequence[int]) -> AuditedRows:
        """Read these rows again, and compare them with what was written (log_audit.py). Raises `OutcomeUnknown`."""

    async def close(self) -> None: ...


class LogPosition:
    """How far a log has come, to check what it is asked to write: a row in the wrong place is lost when it is read."""

    __slots__ = ("compacted", "newest")

    def __init__(self) -> None:
        self.compacted = 0
        self.newest = FIRST_REVISION
        """Durable."""

    def opened(self, recovered: Recovered) -> None:
        rows = recovered.rows
        self.compacted = recovered.compacted
        self.newest = max(self.newest, recovered.compacted, rows[-1].revision if rows else 0)

    def check_append(self, rows: Sequence[LogRow]) -> None:
        expected = self.newest
        for row in rows:
            expected += 1
            if row.revision != expected:
                raise broken(_FOLLOWS, f"revision {row.revision}", expected=expected, newest=self.newest)

    def check_compaction(self, compacted: int, rows: Sequence[LogRow]) -> None:
        last = rows[-1].revision if rows else 0
        if not max(self.compacted, last) <= compacted <= self.newest:
            story = {"before": self.compacted, "newest": self.newest, "last_row": last}
            raise broken("a log is compacted forward, and only what is compacted", f"revision {compacted}", **story)

    def check_fill(self, compacted: int, rows: Sequence[LogRow]) -> None:
        revisions = [FIRST_REVISION, *(row.revision for row in rows)]
        is_ascending = all(earlier < later for earlier, later in pairwise(revisions))
        if not is_ascending or not self.newest == FIRST_REVISION < compacted or revisions[-1] > compacted:
            story = {"newest": self.newest, "rows": len(rows), "last_row": revisions[-1]}
            raise broken("an empty log is filled with what is compacted", f"revision {compacted}", **story)


_FOLLOWS: Final = "the revisions of a log follow each other"


class MemoryLog:
    """Keeps nothing: for a store that may forget everything when its process ends."""

    sealer: Final = PLAIN

    async def open(self) -> Recovered:
        return Recovered(0, [])

    async def append(self, rows: Sequence[LogRow]) -> None:
        pass

    async def compact(self, compacted: int, rows: Sequence[LogRow]) -> None:
        pass

    async def fill(self, compacted: int, rows: Sequence[LogRow]) -> None:
        pass

    async def scrub(self) -> None:
        pass

    async def revisions(self) -> list[int]:
        return []

    async def audit(self, revisions: Sequence[int]) -> AuditedRows:
        return AuditedRows([], [])

    async def close(self) -> None:
        pass


# On disk a write is (key, created, version, value). Versions count from 1, so version 0 stands for a deletion.
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[tuple[str, int, int, bytes]])


def encode_row(row: LogRow, sealer: Sealer = PLAIN) -> bytes:
    """What is written down of a row, its values sealed."""
    return _encoder.encode(
        [
            (write.key, write.created, write.version, sealer.seal(write.key, write.value))
            if isinstance(write, Entry)
            else (write.key, 0, 0, b"")
            for write in row.writes
        ]
    )


def decode_row(revision: int, data: bytes, sealer: Sealer = PLAIN) -> LogRow:
    """Raises `Corrupt` if this is not something that `encode_row` made, `UnknownEncryptionKey`."""
    try:
        stored = _decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise Corrupt(f"the row of revision {revision} cannot be read: {error}") from error
    return LogRow(
        revision,
        tuple(
            Entry(key, sealer.unseal(key, value), created, revision, version)
            if version
            else DeletedVersion(key, revision)
            for key, created, version, value in stored
        ),
    )


def checksum(revision: int, data: bytes) -> int:
    """Of a row's revision and bytes, so that a row found in another's place is noticed as well."""
    return zlib.crc32(data, revision & 0xFFFFFFFF)
