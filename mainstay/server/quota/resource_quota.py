"""ResourceQuotas: a namespace never has more than its quotas allow, however many servers there are.

A commit point of every namespaced kind. Whatever makes, changes or removes an object changes the tally of its
namespace (tally.py) in the same transaction, or is refused: 403, in the words of Kubernetes. The status of a
ResourceQuota is written along. But a transaction changes at most one object of a kind, or caches could be inside a
revision: when several quotas count the same object, the first by name is written along and the others follow
(status.py).

A ResourceQuota that is made, or that comes to limit something else, counts what is there before it is written. This is
the one thing that is committed ahead of the write itself: that a count has begun. By itself it changes nothing for
other writes, and one that never finishes is forgotten.

Of the scopes of Kubernetes all are known. Not done: quotas over what ResourceClaims ask for, and what a pod takes while
it is being resized.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from mainstay.api.errors import StatusError, forbidden
from mainstay.api.kind import Kind, Object
from mainstay.api.quantity import ZERO, parse
from mainstay.api.quota_usage import (
    QUOTAS,
    Amounts,
    Resource,
    count_usage,
    is_about,
    is_counted,
    may_take_other,
    needs_reading,
    resources_behind,
)
from mainstay.env import tasks
from mainstay.server.quota.tally import (
    QuotaLimit,
    QuotaTally,
    affected,
    beginning,
    build_write,
    changed,
    find_exceeded,
    finished,
    is_counted_like,
    parse_limit,
    plus,
    tally_in,
    tally_key,
    without,
)
from mainstay.server.storage.commit_points import Intended, TransactionParts
from mainstay.server.storage.keyspace import CORE, build_resource_prefix
from mainstay.server.storage.shared_writes import SharedWrite, SharedWrites
from mainstay.server.storage.stored import stored
from mainstay.server.storage.transact import too_many_conflicts
from mainstay.store.interface import ABSENT, Check, Committed, DeleteEntry, Entry, Put, Store, Write

PAGE_ENTRIES: Final = 1000  # Of what is counted, at a time.
REMEMBERED_MAX: Final = 100  # Counts that are under way.

_decode = msgspec.json.Decoder().decode


class Quotas:
    """Implements `CommitPoint`, for all kinds."""

    def __init__(self, store: Store, shared: SharedWrites) -> None:
        self._store = store
        self._shared = shared
        self._counted: dict[str, tuple[int, QuotaLimit]] = {}
        """By uid of the quota: as which number it counts, and what it found. So a write that is tried again goes on."""

    def applies_to(self, intended: Intended) -> bool:
        kind, new, old = intended.kind, intended.new, intended.old
        if not is_counted(kind):
            return _is_end_of_namespace(intended)
        if new is None or old is None:
            return True
        if _is_quota(kind):
            return new.get("spec") != old.get("spec") or new.get("status") != old.get("status")
        return may_take_other((kind.group, kind.plural), new, old)

    async def parts_for(self, intended: Intended) -> TransactionParts:
        if not is_counted(intended.kind):
            return TransactionParts(writes=[DeleteEntry(tally_key(intended.key.rpartition("/")[2]))])
        if _is_quota(intended.kind) and intended.new is not None:
            return await self._of_quota(intended, intended.new)
        return await self._of_object(intended)

    async def _of_object(self, intended: Intended) -> TransactionParts:
        """What an object that is made, changed or removed takes of quotas, or gives back."""
        key = tally_key(_namespace(intended))
        entry = await self._shared.latest(key)
        if entry is None:
            return TransactionParts(checks=[Check(key, ABSENT)])  # Most namespaces have no quotas: no turns for these.
        return TransactionParts(shared=_Charge(key, intended, tally_in(entry)).shared)

    async def _of_quota(self, intended: Intended, quota: Object) -> TransactionParts:
        """A ResourceQuota is made or changed: it limits from this write on, and knows how much is used."""
        key, name = tally_key(_namespace(intended)), quota["metadata"]["name"]
        tally = tally_in(await self._shared.latest(key))
        limit, known = parse_limit(quota), tally.quotas.get(name)
        number = 0
        if known is not None and known.uid == limit.uid and is_counted_like(limit, known):
            limit = msgspec.structs.replace(limit, used=known.used)
        else:
            number, limit, tally = await self._count(key, limit)
        after = _with_quota(tally, number, name, limit, intended)
        status = {"hard": limit.hard, "used": after.quotas[name].used}

        def change(entry: Entry | None) -> Sequence[Write] | None:
            now = tally_in(entry)
            if now != tally:
                # The status says what is used. If that has changed since, it is no longer right.
                return None
            _require_allowed(now, intended)
            return [build_write(key, after)]

        return TransactionParts(shared=[SharedWrite(key, change)], object={**quota, "status": status})

    async def _count(self, key: str, limit: QuotaLimit) -> tuple[int, QuotaLimit, QuotaTally]:
        """What is used of a quota that limits nothing yet, as of the tally that is returned with it."""
        found = self._counted.get(limit.uid)
        tally = tally_in(await self._shared.latest(key))
        if found is None or _noted(tally, found[0], limit) is None:
            found = self._counted[limit.uid] = await begin_to_count(self._store, self._shared, key, limit)
            if len(self._counted) > REMEMBERED_MAX:
                del self._counted[next(iter(self._counted))]
            tally = tally_in(await self._shared.latest(key))
        number, base = found
        counted = counted_by_now(tally, number, base, limit)
        if counted is None:
            raise _busy()
        return number, counted, tally


async def begin_to_count(store: Store, shared: SharedWrites, key: str, limit: QuotaLimit) -> tuple[int, QuotaLimit]:
    """Say that a quota is counting, and count: as which number, and what was used when it said so."""
    numbers: list[int] = []

    def change(entry: Entry | None) -> Sequence[Write]:
        begun = beginning(tally_in(entry), limit)
        numbers.append(begun.begun)
        return [build_write(key, begun)]

    answer = await shared.commit([], [], [SharedWrite(key, change)])
    if not isinstance(answer, Committed):
        raise _busy()
    base = await count(store, key.rpartition("/")[2], limit, answer.revision)
    return numbers[-1], plus(limit, base)


def counted_by_now(tally: QuotaTally, number: int, base: QuotaLimit, limit: QuotaLimit) -> QuotaLimit | None:
    """What is used of a quota that has counted `base`, with what was noted since. None if no notes were taken."""
    noted = _noted(tally, number, limit)
    if noted is None:
        return None
    since = {name: parse(amount) for name, amount in noted.used.items()}
    return msgspec.structs.replace(plus(base, since), hard=limit.hard)


async def count(store: Store, namespace: str, limit: QuotaLimit, at: int) -> Amounts:
    """How much of a quota was used at a revision, from the objects themselves."""
    total: Amounts = dict.fromkeys(limit.hard, ZERO)
    for resource in resources_behind(limit.hard):
        prefix, after = build_resource_prefix(resource, namespace), None
        while True:
            page = await store.range(prefix, at=at, limit=PAGE_ENTRIES, after=after)
            for entry in page.entries:
                obj = _decode(entry.value) if needs_reading(resource) else {}
                if not is_about(limit.terms, resource, obj):
                    continue
                for name, amount in count_usage(resource, obj).items():
                    if name in total:
                        total[name] += amount
            if not page.remaining:
                break
            after = page.entries[-1].key
            await tasks.turns(1)
    return total


class _Charge:
    """What one write does to the tally of its namespace, and to the status of a quota."""

    def __init__(self, key: str, intended: Intended, seen: QuotaTally) -> None:
        self._key = key
        self._intended = intended
        self._resource: Resource = (intended.kind.group, intended.kind.plural)
        self._quota = self._first(seen, changed(seen, self._resource, intended.new, intended.old))
        self._used: QuotaLimit | None = None

    @property
    def shared(self) -> list[SharedWrite]:
        """In this order: the status is written by what the tally has become in the same attempt."""
        found = [SharedWrite(self._key, self._tally)]
        if self._quota:
            namespace = self._key.rpartition("/")[2]
            found.append(SharedWrite(f"{CORE}/resourcequotas/{namespace}/{self._quota}", self._status))
        return found

    def _first(self, before: QuotaTally, after: QuotaTally) -> str:
        """The quota whose status goes along. None for a quota itself: it would be the second object of its kind."""
        return "" if self._resource == QUOTAS else next(iter(affected(before, after)), "")

    def _tally(self, entry: Entry | None) -> Sequence[Write] | None:
        before = tally_in(entry)
        _require_allowed(before, self._intended)
        after = changed(before, self._resource, self._intended.new, self._intended.old)
        if self._resource == QUOTAS:
            after = without(after, self._intended.key.rpartition("/")[2])
        if self._first(before, after) != self._quota:
            return None
        self._used = after.quotas.get(self._quota)
        return [] if after == before else [build_write(self._key, after)]

    def _status(self, entry: Entry | None) -> Sequence[Write] | None:
        if entry is None or self._used is None:
            return []  # It is just being removed.
        quota: Object = _decode(entry.value)
        status = {**(quota.get("status") or {}), "hard": self._used.hard, "used": self._used.used}
        return [Put(entry.key, stored({**quota, "status": status}))]


def _noted(tally: QuotaTally, number: int, limit: QuotaLimit) -> QuotaLimit | None:
    """What has changed since a quota began to count, if it is still doing so."""
    noted = tally.counting.get(number)
    return noted if noted is not None and noted.uid == limit.uid and is_counted_like(noted, limit) else None


def _with_quota(tally: QuotaTally, number: int, name: str, limit: QuotaLimit, intended: Intended) -> QuotaTally:
    """With a quota that limits from now on, and is itself an object that quotas may count."""
    after = finished(tally, number, name, limit)
    return changed(after, QUOTAS, intended.new, None) if intended.old is None else after


def _require_allowed(tally: QuotaTally, intended: Intended) -> None:
    new, old, kind = intended.new, intended.old, intended.kind
    if new is None or (old is not None and (intended.subresource == "status" or _is_quota(kind))):
        return
    exceeded = find_exceeded(tally, (kind.group, kind.plural), new, old)
    if exceeded is not None:
        name = new["metadata"].get("name", "")
        raise forbidden(kind.plural, kind.group, name, exceeded.message, exceeded.causes)


def _is_quota(kind: Kind) -> bool:
    return (kind.group, kind.plural) == QUOTAS


def _is_end_of_namespace(intended: Intended) -> bool:
    return intended.new is None and (intended.kind.group, intended.kind.kind) == ("", "Namespace")


def _namespace(intended: Intended) -> str:
    namespace: str = ((intended.new or intended.old) or {})["metadata"]["namespace"]
    return namespace


def _busy() -> StatusError:
    return too_many_conflicts("the quotas of this namespace")
