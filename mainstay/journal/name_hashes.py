"""The names in a closed file, as hashes: which blocks may be about an object or a decision, without reading them.

A file of names has, for each block in order, the sorted hashes of all names in it (`glance.list_names`). Two names may
have the same hash, so a block may turn out not to have what it may have; the other way round cannot be. Four bytes for
a name: about eight for each decision. Files of the first format have the hashes of all blocks together.
"""

import sys
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final
from zlib import crc32

MAGIC: Final = b"MAINSTAY JOURNAL NAMES 2\n"
"""The first format has that of all other files."""


def hashed(name: str) -> int:
    return crc32(name.encode())


def packed(blocks: Sequence[set[int]]) -> bytes:
    """The content of a file of names, from the hashes in each block."""
    numbers = array("I", [len(blocks), *map(len, blocks)])
    for each in blocks:
        numbers.extend(sorted(each))
    return _in_file_order(numbers).tobytes()


class NameHashes:
    """The names of one file."""

    __slots__ = ("_bounds", "_hashes", "size")

    def __init__(self, content: bytes, *, is_first_format: bool) -> None:
        """Raises `ValueError`."""
        self.size = len(content)
        numbers = array("I")
        numbers.frombytes(content)
        numbers = _in_file_order(numbers)
        if is_first_format:
            self._bounds: list[int] | None = None
            self._hashes = numbers
            return
        count = numbers[0] if numbers else 0
        if len(numbers) < 1 + count or len(numbers) != 1 + count + sum(numbers[1 : 1 + count]):
            raise ValueError("the number of names does not match its header")
        self._bounds = [1 + count]
        for each in numbers[1 : 1 + count]:
            self._bounds.append(self._bounds[-1] + each)
        self._hashes = numbers

    def may_have(self, block: int, wanted: int) -> bool:
        """Whether a block, by its place in the file, may have a name with this hash."""
        start, end = 0, len(self._hashes)
        if self._bounds is not None:
            if block + 1 >= len(self._bounds):
                return True  # Not of this file, it seems. Only a help: look.
            start, end = self._bounds[block], self._bounds[block + 1]
        place = bisect_left(self._hashes, wanted, start, end)
        return place < end and self._hashes[place] == wanted


def _in_file_order(numbers: "array[int]") -> "array[int]":
    """Little-endian, whatever the machine."""
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
