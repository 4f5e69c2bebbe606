"""Keys in order, where adding, removing and finding one costs little whatever their number.

A list of short sorted lists. A single sorted list would do up to some ten thousand keys; beyond that each insertion
moves megabytes. A tree would be slower than both: slicing lists is what Python does best.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable

CHUNK_MAX = 1024  # A chunk that grows past this is split in two.


def prefix_end(prefix: str) -> str | None:
    """The first text that is after everything that begins with `prefix`; None if there is none."""
    trimmed = prefix.rstrip("\U0010ffff")
    return trimmed[:-1] + chr(ord(trimmed[-1]) + 1) if trimmed else None


class SortedKeys:
    """A set of keys that can be read in order."""

    __slots__ = ("_chunks", "_firsts")

    def __init__(self) -> None:
        self._chunks: list[list[str]] = []
        self._firsts: list[str] = []
        """The first key of each chunk. No chunk is empty."""

    def __len__(self) -> int:
        return sum(map(len, self._chunks))

    def __contains__(self, key: str) -> bool:
        index = bisect_right(self._firsts, key) - 1
        if index < 0:
            return False
        chunk = self._chunks[index]
        position = bisect_left(chunk, key)
        return chunk[position : position + 1] == [key]

    def add(self, key: str) -> None:
        """Add a key that is not there yet."""
        if not self._chunks:
            self._chunks.append([key])
            self._firsts.append(key)
            return
        index = max(bisect_right(self._firsts, key) - 1, 0)
        chunk = self._chunks[index]
        insort(chunk, key)
        self._firsts[index] = chunk[0]
        if len(chunk) > CHUNK_MAX:
            half = len(chunk) // 2
            self._chunks[index : index + 1] = [chunk[:half], chunk[half:]]
            self._firsts.insert(index + 1, chunk[half])

    def remove(self, key: str) -> None:
        """Remove a key that is there."""
        index = bisect_right(self._firsts, key) - 1
        chunk = self._chunks[index]
        position = bisect_left(chunk, key)
        if chunk[position : position + 1] != [key]:
            raise KeyError(key)
        del chunk[position]
        if chunk:
            self._firsts[index] = chunk[0]
        else:
            del self._chunks[index], self._firsts[index]

    def under(self, prefix: str, *, after: str | None = None, limit: int | None = None) -> tuple[list[str], int]:
        """The first `limit` keys that begin with `prefix` and are greater than `after`, and how many more there are."""
        if not self._chunks:
            return [], 0
        skipped = after is not None and after >= prefix
        index, start = self._position(after if skipped and after else prefix, bisect_right if skipped else bisect_left)
        end = prefix_end(prefix)
        last, stop = (len(self._chunks), 0) if end is None else self._position(end, bisect_left)
        total = sum(len(chunk) for chunk in self._chunks[index:last]) - start + stop
        wanted = total if limit is None else min(limit, total)
        keys: list[str] = []
        while len(keys) < wanted:
            keys += self._chunks[index][start : start + wanted - len(keys)]
            index, start = index + 1, 0
        return keys, max(total - wanted, 0)

    def _position(self, key: str, side: Callable[[list[str], str], int]) -> tuple[int, int]:
        index = max(bisect_right(self._firsts, key) - 1, 0)
        return index, side(self._chunks[index], key)
