"""The high-water mark: the newest revision that a store has acknowledged, in a file of its own.

A log whose end was damaged looks like one that ends earlier: SQLite takes a damaged write-ahead file for the end of it,
and so does any reader of a file that was cut short. The mark says where the end was. It is durable before a commit is
acknowledged, and after the commit itself is, so it is never ahead of what a power cut can leave.

The file has two slots, far enough apart that no write to one can damage the other, and marks go to them in turn. A
power cut in the middle of a write leaves the mark before it. A file with no whole slot is damage. The file is written
whole when the store is made, so overwriting it needs no room on the disk. The calls block: use a `tasks.Worker`.

What a mark is compared with: log_chain.py.
"""

import struct
import zlib
from typing import Final

from mainstay.env.disk import Disk
from mainstay.store.errors import Corrupt
from mainstay.store.log_chain import HighWater

SLOT_BYTES: Final = 4096  # What a disk writes at once, at most.
NEW_SUFFIX: Final = ".new"

_SLOT: Final = struct.Struct(">8sQI")
_CHECKSUM: Final = struct.Struct(">I")
_MAGIC: Final = b"MSTYMARK"


class HighWaterFile:
    def __init__(self, disk: Disk, name: str) -> None:
        self._disk = disk
        self._name = name
        self._next = 0
        """The slot that is written next: the other one has the mark that counts."""
        self._is_whole = False
        """Both slots are there, whatever is in them."""

    def create(self, mark: HighWater) -> None:
        """Make the file, or replace it by another one. Raises `DiskFull`, `OSError`: then it is as it was."""
        new = self._name + NEW_SUFFIX
        if new in self._disk.names():
            self._disk.remove(new)
        slot = _encode(mark).ljust(SLOT_BYTES, b"\0")
        self._disk.append(new, slot * 2)
        self._disk.sync(new)
        self._disk.rename(new, self._name)
        self._next = 0
        self._is_whole = True

    def read(self) -> HighWater | None:
        """The mark; None: there is no such file. Raises `Corrupt`."""
        if self._name not in self._disk.names():
            return None
        data = self._disk.read(self._name)
        slots = [_decode(data[start : start + SLOT_BYTES]) for start in (0, SLOT_BYTES)]
        marks = [mark for mark in slots if mark is not None]
        if not marks:
            raise Corrupt(f"{self._name} is damaged: it does not tell which revision was acknowledged last")
        newest = max(marks)
        self._next = 1 - slots.index(newest)
        self._is_whole = len(data) == 2 * SLOT_BYTES
        return newest

    def settle(self, found: HighWater | None, mark: HighWater) -> None:
        """The log was read, and ends here: let the file say so, in which `found` was. Raises `DiskFull`, `OSError`."""
        if not self._is_whole:
            self.create(mark)
        elif found != mark:
            self.write(mark)

    def write(self, mark: HighWater) -> None:
        """Durable when it returns. Raises `OSError`, `DiskFull`: then it is unknown which of the two marks is there."""
        self._disk.overwrite(self._name, self._next * SLOT_BYTES, _encode(mark))
        self._disk.sync(self._name)
        self._next = 1 - self._next


def _encode(mark: HighWater) -> bytes:
    data = _SLOT.pack(_MAGIC, *mark)
    return data + _CHECKSUM.pack(zlib.crc32(data))


def _decode(slot: bytes) -> HighWater | None:
    end = _SLOT.size + _CHECKSUM.size
    if len(slot) < end or _CHECKSUM.unpack(slot[_SLOT.size : end]) != (zlib.crc32(slot[: _SLOT.size]),):
        return None
    magic, revision, chain = _SLOT.unpack(slot[: _SLOT.size])
    return HighWater(revision, chain) if magic == _MAGIC else None
