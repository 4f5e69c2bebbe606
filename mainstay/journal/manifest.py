"""The manifest of a series: which of its segments are there, so that one that is gone is noticed.

A file that lists the numbers of all segments, rewritten and synced when one is begun, and before one is removed. It
is not a part of what it lists: without it, or if it is damaged, nothing is expected. If it cannot be written, on a full
disk for example, it is removed instead, which needs no room: a list that is out of date would raise false alarms.

    history.manifest, decisions.manifest
"""

import contextlib
from collections.abc import Iterable
from typing import Final

import msgspec

from mainstay.env import frames
from mainstay.env.disk import Disk, DiskFull
from mainstay.journal.files import FileName, Series, Suffix, parsed_name

MAGIC: Final = b"MAINSTAY SEGMENTS 1\n"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[int]).decode


def name_manifest(series: Series) -> str:
    return f"{series}.manifest"


def read_manifest(disk: Disk, series: Series) -> list[int]:
    """The numbers of the segments that should be there. Empty: nothing is known. Blocks."""
    try:
        data = disk.read(name_manifest(series))
        for content, _ in frames.read(data, len(MAGIC)) if data.startswith(MAGIC) else ():
            return _decode(content)
    except (FileNotFoundError, frames.Damaged, msgspec.MsgspecError):
        pass
    return []


def write_manifest(disk: Disk, series: Series, numbers: Iterable[int]) -> None:
    """Let it list these. Blocks."""
    name = name_manifest(series)
    new = f"{name}.new"
    try:
        with contextlib.suppress(FileNotFoundError):
            disk.remove(new)
        disk.append(new, MAGIC + frames.frame(_encode(sorted(numbers))))
        disk.sync(new)
        disk.rename(new, name)
    except (DiskFull, OSError):
        for each in (name, new):
            with contextlib.suppress(OSError):
                disk.remove(each)


def find_missing(disk: Disk, series: Series) -> list[FileName]:
    """The segments that should be there and are not. Others may write the series meanwhile. Blocks."""
    expected = read_manifest(disk, series)
    there = {name.number for name in map(parsed_name, disk.names()) if name is not None and name.series == series}
    missing = [number for number in expected if number not in there]
    if missing:
        # One that was removed in between is in the list no longer.
        still = read_manifest(disk, series)
        missing = [number for number in missing if number in still]
    return [FileName(series, number, Suffix.CLOSED) for number in missing]
