"""Segments: an append-only series of records in a directory, cut into files that are closed, compressed and forgotten.

`append` is durable when it returns. A segment that is large or old enough is closed: read back, compressed with its
index under another name, synced, renamed, and only then is the open one removed. So at every moment each record that
was reported durable is in a file that a reader understands, at times in two; readers know what they have had.

After a start, or a write that failed, nothing is appended to an old file: what its end looks like is unknown. A new
segment is begun, and the old one is closed with what is whole in it. A record whose append failed may therefore be
there all the same, and twice if it is appended again. An open segment that others have removed is noticed before the
next append, and by `find_problem`: what it held is lost, and a new one is begun. A segment that was removed while no
process wrote the series is noticed when it is opened, by the manifest (manifest.py), and so is the end of the one that
was being written (segment_end.py).

With a `ClosingHelper` a large segment is closed in the background: its open form stays until a later call finds that
the closed one has been computed. At most `UNCLOSED_MAX` wait for that.

The calls block; run them on a `tasks.Worker`. What to forget is decided in retention.py.
"""

import contextlib
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import msgspec

from mainstay.env import frames
from mainstay.env.disk import Disk, DiskFull, Locked
from mainstay.env.helper import HelperAnswer
from mainstay.env.invariants import broken
from mainstay.journal.closed_segment import HELPED_FROM_BYTES, ClosedSegment, ClosingHelper, closed, read_result
from mainstay.journal.errors import JournalInUse
from mainstay.journal.files import (
    MAGIC,
    Content,
    CorruptFile,
    FileIndex,
    FileName,
    Series,
    Suffix,
    index_file,
    index_in,
    names_file,
    parsed_name,
    read_frames,
    read_index,
    rebuilt_index,
)
from mainstay.journal.manifest import read_manifest, write_manifest
from mainstay.journal.record import joined
from mainstay.journal.segment_end import SegmentEnd, SegmentEndFile, describe_lost_end, read_end

_log = logging.getLogger(__name__)

UNCLOSED_MAX: Final = 8
"""If more segments than this wait for the helper, it is too slow, and they are closed here."""

REMOVAL_SHOWN_FOR: Final = timedelta(minutes=10)

_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class SegmentLimits:
    """When a segment is closed, and when it is forgotten."""

    segment_bytes: int = 4 * 1024 * 1024
    """Before compression. Closing a segment takes several times this much memory, and reading a living journal reads
    the open one."""
    segment_age: timedelta = timedelta(hours=1)
    keep: timedelta = timedelta(days=7)
    keep_bytes: int = 2 * 1024 * 1024 * 1024
    """On disk, of one series and its snapshots."""
    snapshot_changes: int = 20_000
    """After so many changes a snapshot is taken, or after four times as many as there are objects, if that is more: it
    is what rebuilding a view has to go through."""


DEFAULT_LIMITS: Final = SegmentLimits()


class Segments:
    """One series, for the one process that writes it. Call `open` first."""

    def __init__(
        self, disk: Disk, series: Series, limits: SegmentLimits = DEFAULT_LIMITS, helper: ClosingHelper | None = None
    ) -> None:
        self._helper = helper
        self._helped: tuple[int, HelperAnswer] | None = None
        """The segment that the helper is at work on."""
        self._disk = disk
        self._series = series
        self._limits = limits
        self._number = 0
        """Of the segment that is, or was last, written."""
        self._size = 0
        """Of the open segment, up to the end of its last whole frame. 0: there is none."""
        self._begun_at = 0
        self._unclosed: list[int] = []
        """Segments that are not written any more, and not closed yet."""
        self.closed: dict[int, FileIndex] = {}
        self._missing: set[int] = set()
        """Segments that should be there and are not. They stay in the manifest until a later one is forgotten."""
        self._end = SegmentEndFile(disk, series)
        self._found_end: SegmentEnd | None = None
        """Where the series ended when it was opened."""
        self._removed, self._removed_at = "", 0
        """Which segment others have removed last, and when that was noticed."""

    def open(self) -> None:
        """Take possession of the series, and close what was left open. Raises `JournalInUse`, `DiskFull` never."""
        try:
            self._disk.lock(f"{self._series}.lock", f"process {os.getpid()}")
        except Locked as error:
            raise JournalInUse(
                f"the journal is in use by {error.holder}; stop that process, or use another directory"
            ) from None
        names = [name for name in map(parsed_name, self._disk.names()) if name and name.series == self._series]
        self._number = max((name.number for name in names), default=0)
        closed = [name.number for name in names if name.suffix == Suffix.CLOSED]
        for name in names:
            is_left_over = (
                name.suffix == Suffix.NEW
                or (name.suffix == Suffix.OPEN and name.number in closed)
                or (name.suffix in (Suffix.INDEX, Suffix.NAMES) and name.number not in closed)
            )
            if is_left_over:
                self._disk.remove(str(name))
        for number in closed:
            self.closed[number] = self._read_index(number)
        for name in names:
            if name.suffix == Suffix.OPEN and name.number not in closed:
                # What a reader finds in it must still be there after the next power cut.
                self._disk.sync(str(name))
                self._unclosed.append(name.number)
        self._found_end = read_end(self._disk, self._series)
        expected = read_manifest(self._disk, self._series)
        self._missing = set(expected).difference(self.closed, self._unclosed)
        self._number = max([self._number, *expected])
        if set(expected) != {*self.closed, *self._unclosed, *self._missing}:
            self._write_manifest()
        self._close_finished()

    def contents(self) -> Iterator[Content]:
        """What is whole in the segments that are not closed."""
        current = [self._number] if self._size else []
        for number in (*self._unclosed, *current):
            yield from read_frames(self._disk.read(self._name(number, Suffix.OPEN))).contents

    def append(self, records: Sequence[bytes], at: int) -> None:
        """Write records as one frame: all of them or none. Raises `DiskFull` (none) and `OSError` (unknown)."""
        data = frames.frame(joined(records))
        if self._size and not self._disk.is_in_place(self._name(self._number, Suffix.OPEN)):
            self._leave_removed(at)
        if not self._size:
            self._number += 1
            self._begun_at = at
            self._check_order()
            data = MAGIC + data
        name = self._name(self._number, Suffix.OPEN)
        try:
            self._disk.append(name, data)
            self._disk.sync(name)
        except DiskFull:
            self._cut_back(name)
            raise
        except OSError:
            self._abandon()
            raise
        is_new = not self._size
        self._size += len(data)
        self._end.write(SegmentEnd(self._number, self._size))
        if is_new:
            self._write_manifest()
        if self._size >= self._limits.segment_bytes:
            self.roll()

    def find_problem(self, at: int) -> str:
        """What others have removed, just now or a while ago. Empty: nothing. Does not wait for the disk."""
        number = self._number
        name = self._name(number, Suffix.OPEN)
        # The thread that writes may close the segment meanwhile, which removes the file too.
        if self._size and not self._disk.is_in_place(name) and self._size and number == self._number:
            return _describe_removed(name)
        return self._removed if (at - self._removed_at) * _MICROSECOND < REMOVAL_SHOWN_FOR else ""

    def roll_if_old(self, at: int) -> None:
        """Close the open segment if it is old, and whatever else can be closed by now."""
        if self._helped is not None and self._helped[1].is_there:
            self._close_finished()
        if self._size and (at - self._begun_at) * _MICROSECOND >= self._limits.segment_age:
            self.roll()

    def roll(self) -> None:
        """Close the open segment, now or in the background. On a full disk it stays as it is, which readers understand
        too."""
        if self._size:
            self._abandon()
        self._close_finished()

    def close(self) -> None:
        """Close the open segment and all that were waiting for it. For the end: nothing is appended after this."""
        self._helper = None
        self.roll()

    def forget(self, numbers: Iterable[int]) -> None:
        """Remove closed segments."""
        gone = [*numbers]
        for number in gone:
            del self.closed[number]
        if gone:
            self._missing = {number for number in self._missing if number > max(gone)}
            self._write_manifest()
        for number in gone:
            remove_all(self._disk, self._series, number)

    def _write_manifest(self) -> None:
        there = {*self.closed, *self._unclosed, *([self._number] if self._size else [])}
        write_manifest(self._disk, self._series, there | self._missing)

    def _name(self, number: int, suffix: Suffix) -> str:
        return str(FileName(self._series, number, suffix))

    def _cut_back(self, name: str) -> None:
        """Part of a frame may be there. The next one must not come after it."""
        try:
            if self._size:
                self._disk.truncate(name, self._size)
            else:
                self._disk.remove(name)
        except (OSError, DiskFull):
            self._abandon()

    def _leave_removed(self, at: int) -> None:
        """The open segment is not there any more: what is appended to it would be lost as well."""
        name = self._name(self._number, Suffix.OPEN)
        self._removed, self._removed_at = _describe_removed(name), at
        _log.error("%s", self._removed)
        self._disk.release(name)
        self._missing.add(self._number)
        self._size = 0

    def _abandon(self) -> None:
        """Write no more to the open segment."""
        self._unclosed.append(self._number)
        self._size = 0

    def _check_order(self) -> None:
        """A new segment comes after all that there are: readers take the order of numbers for the order of time."""
        last = max((*self.closed, *self._unclosed), default=0)
        if last >= self._number or self._unclosed != sorted(set(self._unclosed).difference(self.closed)):
            rule = "a new segment comes after all others, and each is either closed or not"
            raise broken(rule, f"{self._series} {self._number}", last=last, unclosed=self._unclosed)

    def _close_finished(self) -> None:
        while self._unclosed:
            number = self._unclosed[0]
            try:
                if not self._close(number):
                    return
            except (DiskFull, OSError) as error:
                _log.warning("a segment of the journal stays uncompressed for now: %s", error)
                return
            self._unclosed.pop(0)

    def _close(self, number: int) -> bool:
        """False: the helper is at work on it."""
        open_name = self._name(number, Suffix.OPEN)
        if open_name not in self._disk.names():
            return True  # Its first write failed before there was a file.
        helper = self._helper if len(self._unclosed) <= UNCLOSED_MAX else None
        if helper is not None and self._helped is None:
            content = self._disk.read(open_name)
            if len(content) >= HELPED_FROM_BYTES:
                self._helped = number, helper.start(self._series, number, content)
        if helper is not None and self._helped is not None and not self._helped[1].is_there:
            return False
        form, lost_end = self._build_closed(number, open_name), self._find_lost_end(number, open_name)
        if form is not None:
            if lost_end:
                damages = (*form.file_index.damages, lost_end)
                form = form._replace(file_index=msgspec.structs.replace(form.file_index, damages=damages))
            for damage in form.file_index.damages:
                _log.warning("%s: %s; what can be read is kept", open_name, damage)
            write_closed(
                self._disk, FileName(self._series, number, Suffix.CLOSED), form.data, form.file_index, form.names
            )
            self.closed[number] = form.file_index
        elif lost_end:
            self._missing.add(number)  # Nothing is left of it.
        else:
            write_manifest(self._disk, self._series, set(read_manifest(self._disk, self._series)).difference([number]))
        self._disk.remove(open_name)
        self._helped = None
        return True

    def _find_lost_end(self, number: int, open_name: str) -> str:
        """What cannot be read any more, though it was there when the process before this one ended."""
        if self._found_end is None or self._found_end.number != number:
            return ""
        return describe_lost_end(self._found_end, number, read_frames(self._disk.read(open_name)).end)

    def _build_closed(self, number: int, open_name: str) -> ClosedSegment | None:
        if self._helped is not None and self._helped[0] == number and self._helped[1].is_there:
            try:
                return read_result(self._helped[1])
            except (OSError, msgspec.MsgspecError) as error:
                self._helped = None
                _log.warning("the helper failed; closing a segment of the journal in this process: %s", error)
        return closed(self._series, number, self._disk.read(open_name))

    def _read_index(self, number: int) -> FileIndex:
        index, is_good = read_file_index(self._disk, FileName(self._series, number, Suffix.CLOSED))
        if not is_good:
            with contextlib.suppress(DiskFull, OSError):
                replace_file(self._disk, self._name(number, Suffix.INDEX), index_file(index))
        return index


def write_closed(disk: Disk, name: FileName, data: bytes, index: FileIndex, names: bytes) -> None:
    """Write a closed file and what helps to read it. Raises `DiskFull`, `OSError`: then it is not there."""
    replace_file(disk, str(name), data)
    # Nothing depends on these two, so that a disk which is full just now does not matter.
    with contextlib.suppress(DiskFull, OSError):
        replace_file(disk, str(name._replace(suffix=Suffix.NAMES)), names_file(names))
        replace_file(disk, str(name._replace(suffix=Suffix.INDEX)), index_file(index))


def replace_file(disk: Disk, name: str, data: bytes) -> None:
    """Write a whole file: it has its name only once all of it is durable."""
    given = parsed_name(name)
    if given is None:
        raise ValueError(f"{name} is not a name of a journal file")
    new = str(given._replace(suffix=Suffix.NEW))
    if new in disk.names():
        disk.remove(new)
    try:
        disk.append(new, data)
        disk.sync(new)
    except (DiskFull, OSError):
        with contextlib.suppress(OSError):
            disk.remove(new)
        raise
    disk.rename(new, name)


def remove_all(disk: Disk, series: Series, number: int) -> None:
    """Remove a closed file, first that which others are only a help for: what is left over then means nothing."""
    for suffix in (Suffix.CLOSED, Suffix.INDEX, Suffix.NAMES):
        with contextlib.suppress(FileNotFoundError):
            disk.remove(str(FileName(series, number, suffix)))


def read_file_index(disk: Disk, name: FileName) -> tuple[FileIndex, bool]:
    """The index of a closed file, and whether it was found where it should be. Raises `FileNotFoundError`."""
    try:
        return read_index(disk.read(str(name._replace(suffix=Suffix.INDEX)))), True
    except (CorruptFile, FileNotFoundError):
        pass
    data = disk.read(str(name))
    try:
        return index_in(data), False
    except CorruptFile:
        return rebuilt_index(name, data), False


def _describe_removed(name: str) -> str:
    return (
        f"{name} was removed while it was being written: what it held is missing from the journal; keep other programs"
        " from removing files there"
    )
