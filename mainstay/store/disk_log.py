"""The log as a single file on a `Disk`: what runs under the simulator, where the disk loses power and tears writes.

The file is a sequence of frames (env/frames.py). A frame holds the rows of one append, or one step of
compaction, so it is all there or not there. It is synced before the next one is begun; a crash can therefore damage
only the last one, and a damaged frame with something after it is not a crash but corruption. After the frame the
high-water mark is synced (high_water.py), and only then the append is acknowledged: a log that was cut short, wherever
that is, is noticed on opening (log_chain.py), and left as it is. The file is rewritten when it is opened, if more than
half of it is outdated.

Formats: 1 had no anchor and no mark; it is upgraded on opening.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from mainstay.env import frames
from mainstay.env.disk import Disk, DiskFull, Locked
from mainstay.env.tasks import Worker
from mainstay.store.errors import Corrupt, OutcomeUnknown, StorageFull, StoreInUse
from mainstay.store.high_water import HighWaterFile
from mainstay.store.log import AuditedRows, LogPosition, LogRow, Recovered, checksum, decode_row, encode_row
from mainstay.store.log_audit import audit_rows
from mainstay.store.log_chain import HighWater, LogAnchor, LogChain, ReplacedRow, anchor_of_filled
from mainstay.store.sealer import PLAIN, Sealer

FILE: Final = "log"
NEW_FILE: Final = "log.new"
MARK: Final = "log.mark"
LOCK: Final = "log.lock"
_MAGIC: Final = b"MAINSTAY LOG 2\n"
_FIRST_MAGIC: Final = b"MAINSTAY LOG 1\n"


class _Frame(msgspec.Struct, array_like=True):
    """Rows to add or replace, as (revision, encoded writes; empty if the row is gone). `compacted`: 0 if unchanged, as
    is the anchor if it is None."""

    compacted: int
    rows: list[tuple[int, bytes]]
    anchor: LogAnchor | None = None


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Frame)


class DiskLog:
    """Implements `Log` (log.py)."""

    def __init__(self, disk: Disk, sealer: Sealer = PLAIN) -> None:
        self._disk = disk
        self.sealer = sealer
        self._worker = Worker("disk log")
        self._size = 0
        """Of the file, up to the end of its last whole frame."""
        self._is_broken = False
        """A write has failed, and what is in the file now is unknown."""
        self._position = LogPosition()
        self._mark = HighWaterFile(disk, MARK)
        self._chain = LogChain()

    async def open(self) -> Recovered:
        recovered = await self._worker.run(self._open)
        self._position.opened(recovered)
        return recovered

    async def append(self, rows: Sequence[LogRow]) -> None:
        self._position.check_append(rows)
        await self._worker.run(self._append_rows, rows)
        self._position.newest = rows[-1].revision

    async def compact(self, compacted: int, rows: Sequence[LogRow]) -> None:
        self._position.check_compaction(compacted, rows)
        await self._worker.run(self._compact, compacted, rows)
        self._position.compacted = compacted

    async def fill(self, compacted: int, rows: Sequence[LogRow]) -> None:
        self._position.check_fill(compacted, rows)
        await self._worker.run(self._fill, compacted, rows)

    async def scrub(self) -> None:
        await self._worker.run(self._scrub)

    async def revisions(self) -> list[int]:
        return await self._worker.run(lambda: self._chain.revisions)

    async def audit(self, revisions: Sequence[int]) -> AuditedRows:
        return await self._worker.run(self._audit, revisions)

    async def close(self) -> None:
        await self._worker.run(self._disk.close)
        self._worker.close()

    def _open(self) -> Recovered:
        try:
            self._disk.lock(LOCK, f"process {os.getpid()}")
        except Locked as error:
            raise StoreInUse(f"the log is in use by {error.holder}: stop that one, or use another directory") from None
        try:
            return self._read()
        except BaseException:
            self._disk.close()
            raise

    def _read(self) -> Recovered:
        data = self._disk.read(FILE) if FILE in self._disk.names() else b""
        acknowledged = self._mark.read()
        if not data and acknowledged in (None, self._chain.head):  # New, or its making was cut short.
            self._mark.create(self._chain.head)
            self._rewrite(self._chain.anchor, {})
            return Recovered(0, [])
        is_first_format = data.startswith(_FIRST_MAGIC)
        if data and not is_first_format and not data.startswith(_MAGIC):
            raise Corrupt("the file is not a Mainstay log")
        if acknowledged is None and not is_first_format:
            raise Corrupt(f"{MARK} is missing: without it, whether all that was acknowledged is here cannot be told")

        anchor, rows, end = _replay(data)
        checksums = {revision: checksum(revision, rows[revision]) for revision in sorted(rows)}
        if is_first_format:  # It says only how far it was compacted: the rest is as it is found.
            before = [each for revision, each in checksums.items() if revision <= anchor.compacted]
            anchor = LogAnchor(anchor.compacted, 0, len(before), sum(before))
        self._chain = LogChain(anchor, checksums)
        for fault in self._chain.find_faults(acknowledged, is_chained=not is_first_format):
            raise Corrupt(fault)
        recovered = Recovered(
            anchor.compacted, [decode_row(revision, rows[revision], self.sealer) for revision in checksums]
        )

        self._size = end
        if is_first_format:
            self._mark.create(self._chain.head)
            self._rewrite(anchor, rows)
            return recovered
        if self._size < len(data):
            self._disk.truncate(FILE, self._size)
            self._disk.sync(FILE)
        self._mark.settle(acknowledged, self._chain.head)  # The last frame may be durable without being acknowledged.
        if sum(map(len, rows.values())) < self._size // 2:
            # It only saves room: a disk without any must not keep the log from being opened.
            with contextlib.suppress(StorageFull):
                self._rewrite(anchor, rows)
        return recovered

    def _rewrite(self, anchor: LogAnchor, rows: dict[int, bytes]) -> None:
        if NEW_FILE in self._disk.names():
            self._disk.remove(NEW_FILE)
        kept = [(revision, rows[revision]) for revision in sorted(rows)]
        data = _MAGIC + _encode(_Frame(anchor.compacted, kept, anchor))
        try:
            self._disk.append(NEW_FILE, data)
        except DiskFull as error:
            self._disk.remove(NEW_FILE)
            raise StorageFull(str(error)) from error
        self._disk.sync(NEW_FILE)
        self._disk.rename(NEW_FILE, FILE)
        self._size = len(data)

    def _scrub(self) -> None:
        if self._is_broken:
            raise OutcomeUnknown("the log is not written any more, since an earlier write failed")
        self._rewrite(self._chain.anchor, _replay(self._disk.read(FILE))[1])

    def _append_rows(self, rows: Sequence[LogRow]) -> None:
        written = [(row.revision, encode_row(row, self.sealer)) for row in rows]
        checksums = [checksum(revision, writes) for revision, writes in written]
        self._append(_encode(_Frame(0, written)))
        self._acknowledge(self._chain.head_after(checksums))
        self._chain.append(checksums)

    def _acknowledge(self, head: HighWater) -> None:
        """Let the mark say that all up to here will be acknowledged."""
        try:
            self._mark.write(head)
        except OSError as error:
            self._is_broken = True
            raise OutcomeUnknown(f"{MARK} could not be written: {error}") from error

    def _compact(self, compacted: int, rows: Sequence[LogRow]) -> None:
        written = [(row.revision, encode_row(row, self.sealer) if row.writes else b"") for row in rows]
        replaced = [ReplacedRow(revision, checksum(revision, data) if data else None) for revision, data in written]
        anchor = self._chain.anchor_after(compacted, replaced)
        self._append(_encode(_Frame(compacted, written, anchor)))
        self._chain.compact(anchor, replaced)

    def _fill(self, compacted: int, rows: Sequence[LogRow]) -> None:
        written = [(row.revision, encode_row(row, self.sealer)) for row in rows]
        anchor = anchor_of_filled(compacted, [checksum(revision, writes) for revision, writes in written])
        self._append(_encode(_Frame(compacted, written, anchor)))
        self._acknowledge(HighWater(compacted, anchor.chain))

    def _audit(self, revisions: Sequence[int]) -> AuditedRows:
        try:
            found = {revision: writes for frame, _ in _frames(self._disk.read(FILE)) for revision, writes in frame.rows}
        except Corrupt as error:
            return AuditedRows([], [str(error)])
        return audit_rows(revisions, self._chain.look_up(revisions), found, self.sealer.aside())

    def _append(self, frame: bytes) -> None:
        if self._is_broken:
            raise OutcomeUnknown("the log is not written any more, since an earlier write failed")
        try:
            self._disk.append(FILE, frame)
            self._disk.sync(FILE)
        except DiskFull as error:
            self._cut_back()
            raise StorageFull(str(error)) from error
        except OSError as error:
            self._is_broken = True
            raise OutcomeUnknown(f"the log could not be written: {error}") from error
        self._size += len(frame)

    def _cut_back(self) -> None:
        """Part of a frame may be there. The next one must not come after it."""
        try:
            self._disk.truncate(FILE, self._size)
        except OSError as error:
            self._is_broken = True
            raise OutcomeUnknown(f"the log could not be cut back: {error}") from error


def _replay(data: bytes) -> tuple[LogAnchor, dict[int, bytes], int]:
    """What the frames of a file lead to: the anchor, the rows, and where the last whole frame ends."""
    anchor = LogAnchor()
    rows: dict[int, bytes] = {}
    end = len(_MAGIC)
    for frame, frame_end in _frames(data):
        end = frame_end
        if frame.anchor is not None:
            anchor = frame.anchor
        elif frame.compacted:
            anchor = LogAnchor(frame.compacted)
        for revision, writes in frame.rows:
            if writes:
                rows[revision] = writes
            else:
                rows.pop(revision, None)
    return anchor, rows, end


def _encode(frame: _Frame) -> bytes:
    return frames.frame(_encoder.encode(frame))


def _frames(data: bytes) -> Iterator[tuple[_Frame, int]]:
    """The whole frames of a log, each with where it ends. Raises `Corrupt` if more than the last is damaged."""
    start = len(_MAGIC)
    try:
        for content, end in frames.read(data, start):
            yield _decoder.decode(content), end
            start = end
    except frames.Damaged as error:
        raise Corrupt(str(error)) from error
    except msgspec.MsgspecError as error:
        raise Corrupt(f"the frame at byte {start} cannot be read: {error}") from error
