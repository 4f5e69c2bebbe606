"""Where the open segment of a series ends, in a small file beside it: an end that is gone looks like a torn write else.

Written over in place after each append that was synced, and not synced itself: after a crash of the process it is
exact, after a power cut it may be behind, and never ahead. One that cannot be read promises nothing.

    history.end, decisions.end
"""

import contextlib
import struct
import zlib
from typing import Final, NamedTuple

from mainstay.env.disk import Disk, DiskFull
from mainstay.journal.files import Series

_END: Final = struct.Struct(">QQ")
_CHECKSUM: Final = struct.Struct(">I")


class SegmentEnd(NamedTuple):
    number: int
    """Of the segment."""
    size: int
    """What was synced of it."""


def name_end(series: Series) -> str:
    return f"{series}.end"


def read_end(disk: Disk, series: Series) -> SegmentEnd | None:
    """None: it is not known. Read it before the segment, if that may grow. Blocks."""
    try:
        data = disk.read(name_end(series))
    except FileNotFoundError:
        return None
    content, checksum = data[: _END.size], data[_END.size :]
    if len(content) < _END.size or checksum != _CHECKSUM.pack(zlib.crc32(content)):
        return None
    return SegmentEnd(*_END.unpack(content))


def describe_lost_end(end: SegmentEnd | None, number: int, found: int) -> str:
    """What is missing of a segment that can be read up to here. Empty: nothing."""
    if end is None or end.number != number or end.size <= found:
        return ""
    return f"its last {end.size - found} bytes cannot be read"


class SegmentEndFile:
    def __init__(self, disk: Disk, series: Series) -> None:
        self._disk = disk
        self._name = name_end(series)
        self._is_there = False

    def write(self, end: SegmentEnd) -> None:
        """A disk that does not take it is no reason to stop: then there is none."""
        data = _END.pack(*end)
        data += _CHECKSUM.pack(zlib.crc32(data))
        try:
            if self._is_there:
                self._disk.overwrite(self._name, 0, data)
            else:
                with contextlib.suppress(FileNotFoundError):
                    self._disk.remove(self._name)
                self._disk.append(self._name, data)
                self._disk.sync(self._name)
                self._is_there = True
        except (DiskFull, OSError):
            self._is_there = False
            with contextlib.suppress(OSError):
                self._disk.remove(self._name)
