"""Follows CustomResourceDefinitions: serves the kinds they define, writes their status, and clears up behind them.

Observe, decide, act. A view is one definition with all others; `decide` says what it must become and what is served of
it; acting is a conditional write. Every server does this. They do not get in each other's way: the second
finds the definition as it wants it, and writes nothing.

Two servers might still give one name to two definitions, each before it hears of the other. So a server that gives
names also writes the group's entry under `NAMES`, on condition that it has not changed since it looked.

    a new definition     names are accepted, kinds served here, status and finalizer written
    a changed one        its kinds are served as they are now, or no longer
    one being deleted    no more objects can be made; those that are there are deleted; then the finalizer goes
    one that is gone     its kinds are no longer served; objects that came too late are removed

How a definition becomes kinds, and which status it gets, is in api/custom.py.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum
from functools import partial
from typing import Final

from mainstay.api import times
from mainstay.api.crd_rules import is_usable
from mainstay.api.custom import (
    CLEANUP,
    TERMINATING,
    CustomVersion,
    acceptance,
    build_versions,
    defaults_for_crd,
    is_established,
    is_terminating,
    with_condition,
)
from mainstay.api.json_values import copied
from mainstay.api.kind import Kind, Object
from mainstay.api.kinds.apiextensions import CUSTOM_RESOURCE_DEFINITION
from mainstay.env import tasks, vital
from mainstay.env.clock import Clock
from mainstay.env.failed_objects import FailedObjects
from mainstay.env.invariants import broken
from mainstay.server.request.served_kinds import Registry
from mainstay.server.storage.keyspace import build_prefix
from mainstay.server.storage.stored import read, stored
from mainstay.server.storage.transact import transact
from mainstay.server.watch.feed import Feed
from mainstay.server.watch.follower import PrefixFollower
from mainstay.store.errors import InvalidStoreRequest, OutcomeUnknown, StorageFull, StoreError, StoreUnavailable
from mainstay.store.interface import ABSENT, Check, Committed, DeleteEntry, Entry, Put, Store, TransactionRefused, Write

NAMES: Final = "apiextensions.k8s.io/acceptednames/"
ATTEMPTS_MAX: Final = 10  # To bring one definition to rest against others who write it, before it has to wait.
BATCH: Final = 40  # Objects deleted in one transaction. Each is a check and a write.
RETRY_AFTER: Final = timedelta(
    seconds=1
)  # After a failure, and to look again for objects with finalizers of their own.

_PREFIX: Final = build_prefix(CUSTOM_RESOURCE_DEFINITION)


class ServedVerbs(Enum):
    """What is served of a definition."""

    NONE = "none"
    ALL = "all"
    WITHOUT_CREATE = "without create"


@dataclass(frozen=True, slots=True)
class DefinitionView:
    """A definition and what its fate depends on."""

    crd: Object
    others: tuple[Object, ...]
    builtin: tuple[Kind, ...]
    has_objects: bool
    now: str


@dataclass(frozen=True, slots=True)
class DefinitionPlan:
    service: ServedVerbs
    wanted: Object | None
    """The definition as it must be stored; None if it must go."""
    clears_objects: bool = False


def decide(view: DefinitionView) -> DefinitionPlan:
    """Say what a definition must become, and what is served of it."""
    crd = view.crd
    if not is_usable(crd):
        return DefinitionPlan(ServedVerbs.NONE, _without_cleanup(crd) if is_terminating(crd) else crd)
    if is_terminating(crd):
        return _decide_end(view)
    status = acceptance(crd, view.others, view.builtin, view.now)
    finalizers = crd["metadata"].get("finalizers") or []
    metadata = crd["metadata"] if CLEANUP in finalizers else {**crd["metadata"], "finalizers": [*finalizers, CLEANUP]}
    wanted = {**crd, "metadata": metadata, "status": status}
    is_served = is_established(wanted) and not overlaps(crd, view.builtin)
    return DefinitionPlan(ServedVerbs.ALL if is_served else ServedVerbs.NONE, wanted)


def _decide_end(view: DefinitionView) -> DefinitionPlan:
    crd = view.crd
    if CLEANUP not in (crd["metadata"].get("finalizers") or []):
        return DefinitionPlan(ServedVerbs.NONE, crd)  # It waits for others.
    status = crd.get("status") or {}
    if overlaps(crd, view.builtin):
        reason, message = "OverlappingBuiltInResource", "instances overlap with built-in resources in storage"
    elif not is_established(crd):
        reason, message = "NeverEstablished", "resource was never established"
    elif view.has_objects:
        reason, message = "InstanceDeletionInProgress", "CustomResource deletion is in progress"
        status = with_condition(status, TERMINATING, "True", reason, message, view.now)
        return DefinitionPlan(ServedVerbs.WITHOUT_CREATE, {**crd, "status": status}, clears_objects=True)
    else:
        reason, message = "InstanceDeletionCompleted", "removed all instances"
    status = with_condition(status, TERMINATING, "False", reason, message, view.now)
    return DefinitionPlan(ServedVerbs.NONE, _without_cleanup({**crd, "status": status}))


def overlaps(crd: Object, builtin: Iterable[Kind]) -> bool:
    """Whether the objects of a definition would be where those of another kind are."""
    place = (crd["spec"]["group"], crd["spec"]["names"]["plural"])
    return any((kind.group, kind.plural) == place for kind in builtin)


def _without_cleanup(crd: Object) -> Object | None:
    """The definition without our finalizer: None if nothing else holds it."""
    finalizers = [each for each in crd["metadata"].get("finalizers") or [] if each != CLEANUP]
    if not finalizers:
        return None
    return {**crd, "metadata": {**crd["metadata"], "finalizers": finalizers}}


@dataclass(frozen=True, slots=True)
class _Known:
    """A definition as it was last read."""

    entry: Entry
    crd: Object
    is_usable: bool


@dataclass(frozen=True, slots=True)
class _Served:
    """What was made of a definition, and from what."""

    source: tuple[object, ...]
    versions: tuple[CustomVersion, ...]


class Definitions:
    """Keeps the registry's custom kinds as the definitions in the store have them."""

    def __init__(self, store: Store, feed: Feed, registry: Registry, clock: Clock) -> None:
        self._store = store
        self._feed = feed
        self._registry = registry
        self._clock = clock
        self._builtin = tuple(kind for kind in registry if not kind.is_custom)
        self._known: dict[str, _Known] = {}
        self._served: dict[str, _Served] = {}
        self._versions: dict[tuple[str, str, str], CustomVersion] = {}
        self._stale: dict[str, None] = {}  # Keys that have changed since they were read.
        self._waiting: dict[str, None] = {}  # Keys to be settled, in the order in which that was asked for.
        self._later: dict[str, None] = {}  # Keys to be settled when it is `_later_ns`.
        self._later_ns = 0
        self._awake = asyncio.Event()
        self._follower = PrefixFollower(
            store, feed, _PREFIX, lambda change: self._mark_stale((change.key,)), self._reset
        )
        self._following: asyncio.Task[None] | None = None
        self._failed = FailedObjects("crd-definitions")

    async def start(self) -> None:
        """Serve what is defined already. What else there is to do for it is done in the background."""
        for entry in await self._follower.start():
            self._learn(entry)
        for key, known in self._known.items():
            if known.is_usable and is_established(known.crd) and not overlaps(known.crd, self._builtin):
                self._serve(
                    key, known.crd, ServedVerbs.WITHOUT_CREATE if is_terminating(known.crd) else ServedVerbs.ALL
                )
        self._ask_for(self._known)
        self._following = vital.spawn(self._follow(), name="crd-definitions")

    async def stop(self) -> None:
        await self._follower.stop()
        if self._following is not None:
            await tasks.stop(self._following)

    def find_version(self, kind: Kind) -> CustomVersion | None:
        """The schema and the scale paths behind a custom kind. None if nothing defines it any more."""
        return self._versions.get((kind.group, kind.version, kind.plural))

    def _reset(self, entries: Sequence[Entry]) -> None:
        """Changes were missed: everything that is, or was, defined has to be looked at again."""
        self._mark_stale((*self._known, *(entry.key for entry in entries)))

    def _mark_stale(self, keys: Iterable[str]) -> None:
        """Definitions are not as we have read them."""
        keys = list(keys)
        self._stale.update(dict.fromkeys(keys))
        self._ask_for(keys)

    def _ask_for(self, keys: Iterable[str]) -> None:
        self._waiting.update(dict.fromkeys(keys))
        self._awake.set()

    def _put_off(self, key: str) -> None:
        if not self._later:
            self._later_ns = self._clock.monotonic_ns() + RETRY_AFTER // timedelta(microseconds=1) * 1000
        self._later[key] = None

    async def _follow(self) -> None:
        while True:
            wait_ns = max(self._later_ns - self._clock.monotonic_ns(), 0)
            try:
                async with tasks.timeout(timedelta(microseconds=wait_ns / 1000) if self._later else None):
                    await self._awake.wait()
            except TimeoutError:
                self._waiting.update(self._later)
                self._later = {}
            self._awake.clear()
            while self._waiting:
                await tasks.turns(1)  # One change of names asks for all definitions of its group.
                key = next(iter(self._waiting))
                del self._waiting[key]
                try:
                    with self._failed.guard(key, StoreError):  # What fails is looked at again when it changes.
                        await self._settle(key)
                except (StoreUnavailable, OutcomeUnknown, StorageFull):
                    self._put_off(key)  # Then it is read again: what is unknown now will be known.
                except InvalidStoreRequest:
                    pass  # With a status it is larger than the store takes. It is looked at again when it changes.

    async def _settle(self, key: str) -> None:
        """Bring one definition to rest, or put it off."""
        if not await transact(partial(self._try_to_settle, key), ATTEMPTS_MAX):
            self._put_off(key)

    async def _try_to_settle(self, key: str) -> bool | None:
        """Whether it is at rest now, or has to wait for finalizers of its objects. None if another writer was faster,
        or its objects have just been deleted."""
        names = await self._store.get(_names_key(key))
        await self._feed.reach(names.revision if names else 0)  # So that we hear of all who have got names by then.
        for each in list(self._stale):
            await self._observe(each)
        known = await self._observe(key)
        if known is None:
            await self._remove(key)
            return True
        plan = decide(await self._view(key, known))
        if plan.service is not ServedVerbs.NONE:
            self._serve(key, plan.wanted or known.crd, plan.service)  # First: who reads the status may rely on it.
        if plan.wanted != known.crd and not await self._write(known, plan.wanted, names):
            return None
        if plan.wanted is None:
            await self._remove(key)
            return True
        if plan.service is ServedVerbs.NONE:
            self._stop_serving(key)
        if not plan.clears_objects:
            return True
        return False if await self._clear(_objects_prefix(known.crd)) else None

    async def _observe(self, key: str) -> _Known | None:
        self._stale.pop(key, None)  # Before we read: what changes from here on is told again.
        entry = await self._store.get(key)
        if entry is None:
            self._known.pop(key, None)
            return None
        return self._learn(entry)

    def _learn(self, entry: Entry) -> _Known:
        known = self._known.get(entry.key)
        if known is None or known.entry.revision != entry.revision:
            crd = _read(entry)
            known = self._known[entry.key] = _Known(entry, crd, is_usable(crd))
        return known

    async def _view(self, key: str, known: _Known) -> DefinitionView:
        has_objects = False
        if known.is_usable and is_terminating(known.crd):
            has_objects = bool((await self._store.range(_objects_prefix(known.crd), limit=1)).entries)
        others = tuple(each.crd for name, each in sorted(self._known.items()) if name != key and each.is_usable)
        return DefinitionView(known.crd, others, self._builtin, has_objects, times.format_time(self._clock.wall()))

    async def _write(self, known: _Known, wanted: Object | None, names: Entry | None) -> bool:
        """Store the definition as it must be. False if another writer was faster."""
        key = known.entry.key
        checks = [Check(key, known.entry.revision)]
        writes: list[Write] = [DeleteEntry(key) if wanted is None else Put(key, stored(wanted))]
        gets_names = wanted is not None and _accepted(wanted) != _accepted(known.crd)
        if gets_names:
            checks.append(Check(_names_key(key), names.revision if names else ABSENT))
            writes.append(Put(_names_key(key), key.encode()))
        if isinstance(await self._store.commit(checks, writes), TransactionRefused):
            return False
        await self._observe(key)
        if gets_names:
            self._ask_for_group(key)  # Others may have become free.
        return True

    async def _remove(self, key: str) -> None:
        """A definition is gone. Objects that came while it went are of no kind: no client could ever delete them."""
        served = self._served.get(key)
        self._stop_serving(key)
        self._ask_for_group(key)
        if served is not None and served.versions:
            await self._clear(build_prefix(served.versions[0].kind), without=key)

    def _ask_for_group(self, key: str) -> None:
        self._ask_for([each for each in self._known if each != key and _names_key(each) == _names_key(key)])

    def _serve(self, key: str, crd: Object, service: ServedVerbs) -> None:
        source = (crd["spec"], _accepted(crd), service)
        served = self._served.get(key)
        if served is not None and served.source == source:
            return
        versions = build_versions(crd)
        if service is ServedVerbs.WITHOUT_CREATE:
            versions = [replace(each, kind=_without_create(each.kind)) for each in versions]
        places = [_place(each.kind) for each in versions]
        for each in served.versions if served is not None else ():
            if _place(each.kind) not in places:
                self._registry.remove(each.kind)
                self._versions.pop(_place(each.kind), None)
        for each in versions:
            self._versions[_place(each.kind)] = each
            self._registry.add(each.kind)
        self._served[key] = _Served(source, tuple(versions))
        self._check_served(key)

    def _check_served(self, key: str) -> None:
        """What was made of a definition is what is served, and what is found for it."""
        for each in self._served[key].versions if key in self._served else ():
            place = _place(each.kind)
            is_found, is_served = self._versions.get(place) is each, self._registry.find(*place) is each.kind
            if not is_found or not is_served:
                story = {"is_found": is_found, "is_served": is_served}
                raise broken("a custom kind is served as its definition says", f"{key} {place}", **story)

    def _stop_serving(self, key: str) -> None:
        self._check_served(key)
        served = self._served.pop(key, None)
        for each in served.versions if served is not None else ():
            self._registry.remove(each.kind)
            self._versions.pop(_place(each.kind), None)

    async def _clear(self, prefix: str, *, without: str = "") -> bool:
        """Delete all objects under a prefix. Whether some are left, for they wait for finalizers of their own.

        With `without`, only as long as there is no such definition, and then nothing is waited for.
        """
        guards = [Check(without, ABSENT)] if without else []
        now = times.format_time(self._clock.wall())
        after: str | None = None
        are_left = False
        while True:
            page = await self._store.range(prefix, limit=BATCH, after=after)
            gone = []
            for entry in page.entries:
                obj = _read(entry)
                if without or not obj["metadata"].get("finalizers"):
                    gone.append(entry)
                    continue
                are_left = True
                if "deletionTimestamp" not in obj["metadata"]:
                    await self._store.commit([Check(entry.key, entry.revision)], [Put(entry.key, _deleting(obj, now))])
            if not await self._delete(gone, guards):
                are_left = True
            if not page.remaining:
                return are_left
            after = page.entries[-1].key

    async def _delete(self, entries: list[Entry], guards: list[Check]) -> bool:
        """All together; one by one if some of them have changed. False if one is still there."""
        checks = [Check(entry.key, entry.revision) for entry in entries]
        writes = [DeleteEntry(entry.key) for entry in entries]
        if not entries or isinstance(await self._store.commit([*guards, *checks], writes), Committed):
            return True
        answers = [
            await self._store.commit([*guards, check], [write]) for check, write in zip(checks, writes, strict=True)
        ]
        return all(isinstance(answer, Committed) for answer in answers)


def _read(entry: Entry) -> Object:
    """An object without its resource version, which is the entry's."""
    obj = read(CUSTOM_RESOURCE_DEFINITION, entry)
    del obj["metadata"]["resourceVersion"]
    if entry.key.startswith(_PREFIX):
        defaults_for_crd(obj)
    return obj


def _deleting(obj: Object, now: str) -> bytes:
    new = copied(obj)
    new["metadata"]["deletionTimestamp"] = now
    new["metadata"]["deletionGracePeriodSeconds"] = 0
    if "generation" in new["metadata"]:
        new["metadata"]["generation"] += 1
    return stored(new)


def _without_create(kind: Kind) -> Kind:
    return replace(kind, verbs=tuple(verb for verb in kind.verbs if verb != "create"))


def _place(kind: Kind) -> tuple[str, str, str]:
    return kind.group, kind.version, kind.plural


def _objects_prefix(crd: Object) -> str:
    return f"{crd['spec']['group']}/{crd['spec']['names']['plural']}/"


def _names_key(key: str) -> str:
    """The entry of a definition's group, from the definition's key: it is called `plural.group`."""
    return NAMES + key.removeprefix(_PREFIX).partition(".")[2]


def _accepted(crd: Object) -> object:
    return (crd.get("status") or {}).get("acceptedNames")
