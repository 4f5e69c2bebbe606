"""SQLite's write-ahead file, as far as it takes to say where it is damaged.

A header, then frames, each with a page. The checksum of a frame goes on from that of the frame before it, so SQLite
reads up to the first that does not match. What is there of an earlier round of the file has another salt. A frame of
this round that does not match is damage, or the write that a crash cut short: the caller knows which.
"""

from struct import Struct
from typing import Final

_HEADER: Final = Struct(">IIIIIIII")  # Magic, format, page size, sequence, two salts, two checksums.
_FRAME: Final = Struct(">IIIIII")  # Page, size of the database, two salts, two checksums.
_MAGIC: Final = 0x377F0682  # The lowest bit says in which byte order checksums are made.
_WORD: Final = 0xFFFFFFFF


def find_wal_damage(data: bytes) -> int | None:
    """Where the first frame begins that does not match its checksum, with this round's salt there or later. None: no
    frame does."""
    if not data:
        return None
    if len(data) < _HEADER.size:
        return 0
    magic, _, page_bytes, _, *salts, first, second = _HEADER.unpack_from(data)
    if magic & ~1 != _MAGIC or not 512 <= page_bytes <= 65536:
        return 0
    words = Struct(">II" if magic & 1 else "<II")
    sums = _sum(data[: _HEADER.size - 8], (0, 0), words)
    if sums != (first, second):
        return 0
    size = _FRAME.size + page_bytes
    for start in range(_HEADER.size, len(data) - size + 1, size):
        frame = data[start : start + size]
        _, _, *found_salts, first, second = _FRAME.unpack_from(frame)
        sums = _sum(frame[_FRAME.size :], _sum(frame[:8], sums, words), words)
        if found_salts != salts or sums != (first, second):
            later = range(start, len(data) - _FRAME.size + 1, size)
            has_more = any(list(_FRAME.unpack_from(data, at)[2:4]) == salts for at in later)
            return start if has_more else None
    return None


def _sum(data: bytes, sums: tuple[int, int], words: Struct) -> tuple[int, int]:
    one, two = sums
    for left, right in words.iter_unpack(data):
        one = (one + left + two) & _WORD
        two = (two + right + one) & _WORD
    return one, two
