"""What a decision may read: the caches as they are at this moment, and the time.

A view is consistent because nothing is awaited while it is read: each cache is its kind as completely applied up to one
revision, and stays so until the decision is made. Afterwards the view is closed, and reading it is a bug. It names its
input by the revision of each kind, and notes what was looked at; with the history of revisions the same view can be
built again (`View.of`), and then `decide` must say the same.

A decision can read only what its controller declares, so that the declaration is true.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.object_key import ObjectKey
from mainstay.client.cache import Cache
from mainstay.client.entry import CachedObject
from mainstay.client.indexes import OWNER, Index

NO_SUBJECT: Final = ObjectKey("", "")

_encode = msgspec.json.Encoder().encode


class Undeclared(Exception):
    """A decision reads something that its controller does not declare. Add it to `reads`."""


class ViewClosed(Exception):
    """A view is read after the decision was made. What it showed may not be so any more."""


@dataclass(frozen=True, slots=True)
class Look:
    """Something that was read: one object (revision 0: it was not there), or a list of `count`."""

    kind: KindName
    namespace: str = ""
    name: str = ""
    revision: int = 0
    index: str = ""
    value: str = ""
    count: int = 0


class View:
    """Given to `decide`, and only for as long as that runs. What it returns is the caller's own."""

    __slots__ = ("_caches", "_closed_at", "looks", "now", "seed", "subject")

    def __init__(
        self, caches: Mapping[KindName, Cache], now: datetime, seed: str = "", subject: ObjectKey = NO_SUBJECT
    ) -> None:
        self._caches = caches
        self._closed_at: dict[KindName, int] | None = None
        """Once it is closed: how far each cache was then."""
        self.now = now
        """What this decision takes for the present."""
        self.seed = seed
        """Where ties may be broken by a hash: `hash(seed, uid, name)`, the same in every replay."""
        self.subject = subject
        """Which object is decided about; none, if the decision is about everything."""
        self.looks: list[Look] = []

    @classmethod
    def of(
        cls,
        objects: Mapping[KindName, Iterable[Object]],
        now: datetime,
        *,
        indexes: Mapping[KindName, Sequence[Index]] | None = None,
        seed: str = "",
    ) -> "View":
        """A view of plain objects: in a test, or built again from history. Objects without a version get one."""
        caches = {}
        for kind, each_of in objects.items():
            cache = caches[kind] = Cache(kind, (indexes or {}).get(kind, ()))
            entries = [cache.read_item(_encode(_complete(obj, number))) for number, obj in enumerate(each_of, 1)]
            cache.replace(entries, max((entry.revision for entry in entries), default=0))
        return cls(caches, now, seed)

    @property
    def revisions(self) -> dict[KindName, int]:
        """The name of this view: what each kind was completely applied up to. The caches go on; a closed view keeps its
        name."""
        if self._closed_at is not None:
            return self._closed_at
        return {kind: cache.revision for kind, cache in self._caches.items()}

    def get(self, kind: KindName, key: ObjectKey) -> Object | None:
        """One object; None if it is not there."""
        entry = self._cache(kind).entry(key)
        self.looks.append(Look(kind, *key, revision=0 if entry is None else entry.revision))
        return None if entry is None else entry.object()

    def all(self, kind: KindName) -> list[Object]:
        """All objects of a kind, sorted by key."""
        return self._list(kind, list(self._cache(kind).entries()), "", "")

    def by(self, kind: KindName, index: str, value: str) -> list[Object]:
        """Those found under a value of an index, sorted by key."""
        cache = self._cache(kind)
        return self._list(kind, [entry for key in cache.by(index, value) if (entry := cache.entry(key))], index, value)

    def by_all(self, kind: KindName, wanted: Mapping[str, Collection[str]]) -> list[Object]:
        """Those found under one of the values of each index, sorted by key. No others are decoded."""
        cache = self._cache(kind)
        entries = [entry for key in cache.by_all(wanted) if (entry := cache.entry(key))]
        values = [f"{index}={','.join(sorted(of))}" for index, of in sorted(wanted.items())]
        return self._list(kind, entries, ";".join(sorted(wanted)), ";".join(values))

    def find_values(self, kind: KindName, key: ObjectKey, index: str) -> tuple[str, ...]:
        """What one object is found under, without decoding it. It has been looked at, as by `get`."""
        cache = self._cache(kind)
        entry = cache.entry(key)
        self.looks.append(Look(kind, *key, revision=0 if entry is None else entry.revision))
        return cache.find_values(key, index)

    def owned_by(self, kind: KindName, uid: str) -> list[Object]:
        """Those that have an owner of this uid. The kind must be declared with the index `OWNER`."""
        return self.by(kind, OWNER.name, uid)

    def cache(self, kind: KindName) -> Cache:
        """All of a kind with its indexes, for decisions about everything. What is read there is not noted."""
        return self._cache(kind)

    @property
    def kinds(self) -> tuple[KindName, ...]:
        """Of what it shows objects."""
        return tuple(self._caches)

    def close(self) -> None:
        self._closed_at = self.revisions

    def _list(self, kind: KindName, entries: list[CachedObject], index: str, value: str) -> list[Object]:
        latest = max((entry.revision for entry in entries), default=0)
        self.looks.append(Look(kind, revision=latest, index=index, value=value, count=len(entries)))
        return [entry.object() for entry in entries]

    def _cache(self, kind: KindName) -> Cache:
        if self._closed_at is not None:
            raise ViewClosed(f"{kind} was read after the decision was made")
        cache = self._caches.get(kind)
        if cache is None:
            raise Undeclared(f"{kind} is not declared; declared are {', '.join(map(str, self._caches)) or 'none'}")
        return cache


def _complete(obj: Object, number: int) -> Object:
    metadata: dict[str, Any] = {"uid": f"uid-{number}", "resourceVersion": str(number), **obj["metadata"]}
    return {**obj, "metadata": metadata}
