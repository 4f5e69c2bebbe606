"""What is remembered of objects that are gone: their last known state, for a while.

A controller may find that the object of its key is no longer there and still need to know what it was: which node it
was on, what it had reserved, whether it is the same one (uid) that an order was about. A tombstone tells that it *was
seen to be deleted*, which is another thing than *not known*: a cache that has neither an object nor a tombstone says
nothing about the past.

There are at most so many of them; the oldest go first. Callers may not depend on one being there: what must not be
missed is read from the store. One key has one tombstone, that of the object which had the name last.
"""

from typing import Final

import msgspec

from mainstay.api.object_key import ObjectKey
from mainstay.client.entry import CachedObject

TOMBSTONES_MAX: Final = 1000  # Some megabytes of pods.


class Tombstone(msgspec.Struct, frozen=True, gc=False):
    last: CachedObject
    """The last state that was seen, which for an inferred delete need not be the last that was."""
    revision: int
    """The delete happened at this revision; an inferred one, at this or an earlier one after `last`."""
    is_inferred: bool = False


class Tombstones:
    """By key, in the order of the deletes."""

    def __init__(self, count_max: int = TOMBSTONES_MAX) -> None:
        self._count_max = count_max
        self._by_key: dict[ObjectKey, Tombstone] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def get(self, key: ObjectKey) -> Tombstone | None:
        return self._by_key.get(key)

    def add(self, tombstone: Tombstone) -> None:
        key = tombstone.last.key
        self._by_key.pop(key, None)  # So that it goes to the end.
        self._by_key[key] = tombstone
        if len(self._by_key) > self._count_max:
            del self._by_key[next(iter(self._by_key))]

    def clear(self) -> None:
        self._by_key.clear()
