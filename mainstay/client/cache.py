"""A local copy of the objects of one kind: as bytes, with what they are found by.

The cache is always the collection *as completely applied up to one revision*, never inside one: a caller that reads it
without awaiting in between has read one state that really was. It sends no requests; pump.py feeds it.
Reading is synchronous and cheap; `get` decodes at each call, so what it returns is the caller's own and can be changed
freely.

Kept of each object: its bytes, its key, uid and revision, and its values in each index. Objects that were not changed
in their indexed fields share those values with what they replace. What that comes to is measured by bench/runtime.py.

A cache is not the truth but what was true at `revision`. What must not be claimed twice, capacity or a name, is decided
by the server at the commit; the cache only says what is worth trying.
"""

import asyncio
import heapq
import itertools
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.object_key import ObjectKey
from mainstay.client.entry import CachedObject, Change, ChangeType
from mainstay.client.indexes import Index
from mainstay.client.partial import Path, reader
from mainstay.client.tombstones import TOMBSTONES_MAX, Tombstone, Tombstones
from mainstay.env.invariants import Sample, broken

_NAMING: Final[tuple[Path, ...]] = (
    ("metadata", "namespace"),
    ("metadata", "name"),
    ("metadata", "uid"),
    ("metadata", "resourceVersion"),
)
_GROWS: Final = "the revision of a cache grows with each change"
_INDEXED: Final = "an index finds each object under its own values"
_CHECKED_ONE_IN: Final = 1000  # Changes. All values of each index are looked at.
_read_type = reader([("kind",), ("apiVersion",)])


class MalformedObject(Exception):
    """This is no object with a name, a uid and a numbered resource version."""


class CacheStopped(Exception):
    """The revision will not be reached: this cache is no longer fed."""


class Cache:
    """Objects of one kind. Changed only by `apply`, `replace` and `reached`, all of them synchronous."""

    def __init__(self, kind: KindName, indexes: Sequence[Index] = (), *, tombstones_max: int = TOMBSTONES_MAX) -> None:
        self.kind = kind
        self.revision = 0
        """Everything up to here has been applied, and nothing after it."""
        self.is_synced = False
        """Whether it has ever been filled. Before that, nothing being there means nothing."""
        self.rewinds = 0
        """How often the store was found to have gone back."""
        self.tombstones = Tombstones(tombstones_max)
        self._entries: dict[ObjectKey, CachedObject] = {}
        self._keys: tuple[ObjectKey, ...] | None = ()
        self._tables: list[_Table] = []
        self._numbers: dict[str, int] = {}
        self._paths: tuple[Path, ...] = _NAMING
        self._read_fields = reader(_NAMING)
        self._looks: tuple[tuple[int, Callable[[Any], Iterable[str]]], ...] = ()
        """Of each index: which of the fields that are read it looks at, and what it makes of it."""
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order_of_waiting = itertools.count()
        self._is_closed = False
        self._samples = Sample(_CHECKED_ONE_IN)
        self.add_indexes(indexes)

    # Looking.

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._entries

    def get(self, key: ObjectKey) -> Object | None:
        """The object, decoded for the caller; None if it is not there."""
        entry = self._entries.get(key)
        return None if entry is None else entry.object()

    def raw(self, key: ObjectKey) -> bytes | None:
        """The object as JSON."""
        entry = self._entries.get(key)
        return None if entry is None else entry.raw

    def entry(self, key: ObjectKey) -> CachedObject | None:
        """The object with its uid and revision, not decoded. It stays as it is when the cache goes on."""
        return self._entries.get(key)

    def keys(self) -> tuple[ObjectKey, ...]:
        """All keys, sorted."""
        if self._keys is None:
            self._keys = tuple(sorted(self._entries))
        return self._keys

    def entries(self) -> Iterator[CachedObject]:
        """All of them, sorted by key. Do not await while going through them."""
        return map(self._entries.__getitem__, self.keys())

    def by(self, index: str, value: str) -> tuple[ObjectKey, ...]:
        """The keys that are found under a value, sorted. Raises `KeyError` if there is no such index."""
        return self._table(index).keys(value)

    def by_all(self, wanted: Mapping[str, Collection[str]]) -> list[ObjectKey]:
        """The keys that are found under one of the values of each index, sorted. It goes through those alone that the
        index with the fewest finds."""
        if not wanted:
            return list(self.keys())
        tables = {self._number(index): frozenset(values) for index, values in wanted.items()}
        fewest = min(tables, key=lambda number: self._tables[number].count(tables[number]))
        found: dict[ObjectKey, None] = {}
        for value in sorted(tables[fewest]):
            found |= self._tables[fewest].found.get(value, {})
        return sorted(key for key in found if self._is_under(self._entries[key], tables))

    def find_values(self, key: ObjectKey, index: str) -> tuple[str, ...]:
        """What an object is found under, without decoding it; nothing if it is not there."""
        number, entry = self._number(index), self._entries.get(key)
        return () if entry is None else entry.values[number]

    def values(self, index: str) -> list[str]:
        """All values under which something is found, sorted."""
        return sorted(self._table(index).found)

    def known_at(self, key: ObjectKey) -> int:
        """The last revision at which something is known to have happened to this key; 0 if nothing is known of it."""
        entry, tombstone = self._entries.get(key), self.tombstones.get(key)
        return max(entry.revision if entry is not None else 0, tombstone.revision if tombstone is not None else 0)

    async def wait_until(self, revision: int) -> None:
        """Wait until everything up to a revision has been applied. Raises `CacheStopped` if that cannot happen.

        This is how to read one's own writes: wait for the resource version that a write has returned.
        """
        if self.is_synced and self.revision >= revision:
            return
        if self._is_closed:
            raise CacheStopped(f"the cache of {self.kind} stopped at {self.revision}, before {revision}")
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (revision, next(self._order_of_waiting), waiter))
        try:
            await waiter
        except asyncio.CancelledError:
            self._waiting = [each for each in self._waiting if each[2] is not waiter]
            heapq.heapify(self._waiting)
            raise

    # Declaring.

    @property
    def indexes(self) -> tuple[Index, ...]:
        return tuple(table.index for table in self._tables)

    def add_indexes(self, indexes: Iterable[Index]) -> None:
        """Find objects by these as well; those that are there already are looked at again. Raises `ValueError` if there
        is another index of that name."""
        added = [index for index in indexes if not self._has(index)]
        if not added:
            return
        for index in added:
            self._numbers[index.name] = len(self._tables)
            self._tables.append(_Table(index))
        # Several indexes may look at the same place, such as the labels: it is read once.
        self._paths = tuple(dict.fromkeys((*_NAMING, *(table.index.path for table in self._tables))))
        self._looks = tuple((self._paths.index(table.index.path), table.index.values) for table in self._tables)
        self._read_fields = reader(self._paths)
        held, self._entries = self._entries, {}
        for table in self._tables:
            table.clear()
        for key, entry in held.items():
            self._entries[key] = again = self.read(entry.raw)
            self._found_under(again)

    def _has(self, index: Index) -> bool:
        if index.name not in self._numbers:
            return False
        if self._tables[self._numbers[index.name]].index.path != index.path:
            raise ValueError(f"the cache of {self.kind} already has another index named {index.name!r}")
        return True

    # Feeding.

    def read(self, raw: bytes) -> CachedObject:
        """An object as this cache would keep it. Raises `MalformedObject`."""
        try:
            fields = self._read_fields(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise MalformedObject(f"{self.kind}: {error}") from None
        namespace, name, uid, version = fields[:4]
        if namespace is None:
            namespace = ""
        if type(name) is not str or type(uid) is not str or type(namespace) is not str or not name:
            raise MalformedObject(f"{self.kind}: not an object with a name and a uid: {raw[:200]!r}")
        try:
            # As good as a key, to look.
            held: CachedObject | None = self._entries.get((namespace, name))  # type: ignore[call-overload]
            revision = int(version)
        except (TypeError, ValueError):
            raise MalformedObject(f"{self.kind}: not an object with a name and a version: {raw[:200]!r}") from None
        if held is not None and held.revision == revision and held.raw == raw and len(held.values) == len(self._looks):
            return held  # After a relist most objects are unchanged, and need not be kept twice.
        values = tuple([() if fields[slot] is None else tuple(look(fields[slot])) for slot, look in self._looks])
        if held is not None:
            # Most changes leave most of this as it was: keep one copy of it.
            uid = held.uid if held.uid == uid else uid
            return CachedObject(
                held.key, uid, revision, raw, held.values if held.values == values else _interned(values)
            )
        return CachedObject(ObjectKey(sys.intern(namespace), name), uid, revision, raw, _interned(values))

    def read_item(self, raw: bytes) -> CachedObject:
        """The same from an item of a list, which may leave out what it is."""
        try:
            kind, _ = _read_type(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise MalformedObject(f"{self.kind}: {error}") from None
        if kind is None:
            said = b'{"kind":"%b","apiVersion":"%b",' % (self.kind.kind.encode(), self.kind.group_version.encode())
            raw = said + raw.lstrip()[1:]
        return self.read(raw)

    def apply(self, entry: CachedObject, *, is_deleted: bool = False) -> Sequence[Change]:
        """Take over one change, with which the cache reaches its revision. Says what that did: usually one change."""
        key = entry.key
        if entry.revision <= self.revision:
            raise broken(_GROWS, f"{self.kind} {key}", cache=self.revision, change=entry.revision)
        old = self._entries.get(key)
        changes: Sequence[Change]
        if is_deleted:
            changes = () if old is None else (self._delete(old, entry, entry.revision),)
        else:
            changes = self._put(old, entry, entry.revision)
        self._reach(entry.revision)
        if self._samples.take():
            self._check_indexes(key)
        return changes

    def replace(self, entries: Iterable[CachedObject], revision: int, *, is_rewind: bool = False) -> Sequence[Change]:
        """Take over all there is as of a revision. What is held and not among it is gone, and that is a change too.

        With `is_rewind` the revision may be lower than the one reached: the store itself has gone back.
        """
        self._require_forward(revision, is_rewind)
        if is_rewind:
            self.rewinds += 1
            self.tombstones.clear()  # They are about a time that has not come yet.
        given = {entry.key: self._indexed(entry) for entry in entries}
        changes: list[Change] = []
        for key in [key for key in self.keys() if key not in given]:
            changes.append(self._infer_delete(self._entries[key], revision))
        for key in sorted(given):
            entry, old = given[key], self._entries.get(key)
            if (
                old is None
                or old.revision != entry.revision
                or old.uid != entry.uid
                or (is_rewind and old is not entry)
            ):
                changes += self._put(old, entry, revision)
        self.is_synced = True
        self._reach(revision)
        return changes

    def reached(self, revision: int) -> None:
        """Nothing more happened up to this revision."""
        self._require_forward(revision, False)
        self._reach(revision)

    def close(self) -> None:
        """Feed this cache no longer. It stays readable; tasks that wait for a revision get `CacheStopped`."""
        self._is_closed = True
        waiting, self._waiting = self._waiting, []
        for revision, _, waiter in waiting:
            if not waiter.done():
                waiter.set_exception(
                    CacheStopped(f"the cache of {self.kind} stopped at {self.revision}, before {revision}")
                )

    def _require_forward(self, revision: int, is_rewind: bool) -> None:
        if revision < self.revision and not is_rewind:
            raise broken(_GROWS, f"{self.kind}", cache=self.revision, change=revision)

    def _reach(self, revision: int) -> None:
        self.revision = revision
        if not self.is_synced:
            return
        while self._waiting and self._waiting[0][0] <= revision:
            _, _, waiter = heapq.heappop(self._waiting)
            if not waiter.done():
                waiter.set_result(None)

    def _put(self, old: CachedObject | None, entry: CachedObject, revision: int) -> tuple[Change, ...]:
        key = entry.key
        if old is None:
            self._add(entry)
            return (Change(self.kind, key, ChangeType.ADDED, None, entry, revision),)
        if old.uid != entry.uid:
            # Another object of the same name. That the first one went away was not told, but it is gone.
            gone = self._infer_delete(old, revision)
            self._add(entry)
            return (gone, Change(self.kind, key, ChangeType.ADDED, None, entry, revision))
        self._entries[key] = entry
        if entry.values is not old.values:
            for table, was, now in zip(self._tables, old.values, entry.values, strict=True):
                if was != now:
                    table.remove(key, was)
                    table.add(key, now)
        return (Change(self.kind, key, ChangeType.MODIFIED, old, entry, revision),)

    def _add(self, entry: CachedObject) -> None:
        self._entries[entry.key] = entry
        self._keys = None
        self._found_under(entry)

    def _found_under(self, entry: CachedObject) -> None:
        for table, values in zip(self._tables, entry.values, strict=True):
            table.add(entry.key, values)

    def _indexed(self, entry: CachedObject) -> CachedObject:
        """An entry that was read before an index was added is read again."""
        return entry if len(entry.values) == len(self._tables) else self.read(entry.raw)

    def _infer_delete(self, old: CachedObject, revision: int) -> Change:
        return self._delete(old, old, revision, is_inferred=True)

    def _delete(self, old: CachedObject, last: CachedObject, revision: int, *, is_inferred: bool = False) -> Change:
        del self._entries[old.key]
        self._keys = None
        for table, values in zip(self._tables, old.values, strict=True):
            table.remove(old.key, values)
        self.tombstones.add(Tombstone(last, revision, is_inferred))
        return Change(self.kind, old.key, ChangeType.DELETED, old, None, revision, is_inferred)

    def _check_indexes(self, key: ObjectKey) -> None:
        """Every index finds the object under its values, and under no other."""
        entry = self._entries.get(key)
        for number, table in enumerate(self._tables):
            wanted = set() if entry is None else set(entry.values[number])
            found = {value for value, keys in table.found.items() if key in keys}
            if found != wanted:
                about = f"{self.kind} {key} in index {table.index.name}"
                raise broken(_INDEXED, about, found=sorted(found), wanted=sorted(wanted), revision=self.revision)

    def _is_under(self, entry: CachedObject, tables: Mapping[int, frozenset[str]]) -> bool:
        return all(not values.isdisjoint(entry.values[number]) for number, values in tables.items())

    def _table(self, index: str) -> "_Table":
        return self._tables[self._number(index)]

    def _number(self, index: str) -> int:
        if index not in self._numbers:
            raise KeyError(f"the cache of {self.kind} has no index {index!r}, only {sorted(self._numbers)}")
        return self._numbers[index]


class _Table:
    """One index: which keys are found under which value."""

    __slots__ = ("_sorted", "found", "index")

    def __init__(self, index: Index) -> None:
        self.index = index
        self.found: dict[str, dict[ObjectKey, None]] = {}
        self._sorted: dict[str, tuple[ObjectKey, ...]] = {}
        """Of what was asked for since it last changed."""

    def clear(self) -> None:
        self.found.clear()
        self._sorted.clear()

    def keys(self, value: str) -> tuple[ObjectKey, ...]:
        in_order = self._sorted.get(value)
        if in_order is None:
            found = self.found.get(value)
            if found is None:
                return ()
            in_order = self._sorted[value] = tuple(sorted(found))
        return in_order

    def count(self, values: Iterable[str]) -> int:
        return sum(len(self.found.get(value, ())) for value in values)

    def add(self, key: ObjectKey, values: tuple[str, ...]) -> None:
        for value in values:
            self.found.setdefault(value, {})[key] = None
            self._sorted.pop(value, None)

    def remove(self, key: ObjectKey, values: tuple[str, ...]) -> None:
        for value in dict.fromkeys(values):  # The same owner may be named twice.
            found = self.found[value]
            del found[key]
            if not found:
                del self.found[value]
            self._sorted.pop(value, None)


def _interned(values: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    return tuple([tuple([sys.intern(value) for value in each]) for each in values])
