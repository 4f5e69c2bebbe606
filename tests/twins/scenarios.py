"""Bugs that the scenarios of a cluster must find, besides those in caches.py and sim.py."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from weakref import WeakKeyDictionary

import pytest

from mainstay.api import times
from mainstay.api.errors import StatusError, StatusReason
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import LEASES, NODES
from mainstay.api.object_key import ObjectKey
from mainstay.client.cache import Cache
from mainstay.client.call import WriteOptions
from mainstay.client.errors import ApiError, Conflict, NotFound
from mainstay.client.informer import Informer, Subscriber
from mainstay.client.reflector import Instructions, OpenWatch, Reflector
from mainstay.env import Clock
from mainstay.loop.act import OwnWrite
from mainstay.loop.controller import Reads
from mainstay.loop.fencing import holder_times
from mainstay.loop.kernel import Kernel
from mainstay.loop.lease import Leader
from mainstay.loop.own_writes import OwnWrites
from mainstay.loop.term import Deposed, Term
from mainstay.scenarios import _task_scheduler
from mainstay.scenarios._task_scheduler import TaskScheduler, find_node
from mainstay.server.placement import binding, charges
from mainstay.server.storage.operations import Operation
from mainstay.server.watch.feed import Window
from mainstay.server.watch.session import _bookmark, _Session
from mainstay.store.interface import ABSENT, Check
from tests.twins import scheduling

Twin = Callable[[pytest.MonkeyPatch], None]


# Nodes and tasks


def does_not_look_again_when_a_node_goes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TaskScheduler, "reads", (Reads(NODES),))


def expects_every_node_to_be_known(patch: pytest.MonkeyPatch) -> None:
    def loads(nodes: Iterable[str], tasks: Iterable[Object]) -> Mapping[str, int]:
        counts = dict.fromkeys(nodes, 0)
        for task in tasks:
            if node := find_node(task):
                counts[node] += 1
        return counts

    patch.setattr(_task_scheduler, "loads", loads)


# Leaders


def tells_a_new_leader_only_what_is_new(patch: pytest.MonkeyPatch) -> None:
    def subscribe(self: Informer, subscriber: Subscriber) -> None:
        self._subscribers += (subscriber,)

    patch.setattr(Informer, "subscribe", subscribe)


def goes_on_one_change_too_late(patch: pytest.MonkeyPatch) -> None:
    honest = Reflector._resume

    def resume(self: Reflector) -> Instructions:
        honest(self)
        return (OpenWatch(self.revision + 1),)

    patch.setattr(Reflector, "_resume", resume)


def restarts_operation_ids_in_each_term(patch: pytest.MonkeyPatch) -> None:
    honest = Kernel.write
    written: WeakKeyDictionary[Kernel, int] = WeakKeyDictionary()

    def write(self: Kernel, *args: Any, **options: Any) -> WriteOptions:
        written[self] = written.get(self, 0) + 1
        return replace(honest(self, *args, **options), operation=f"{self.name}-{written[self]}")

    patch.setattr(Kernel, "write", write)


def leads_with_caches_from_before_its_time(patch: pytest.MonkeyPatch) -> None:
    honest = Term.__init__

    def begin(self: Term, lease: str, revision: int, clock: Clock) -> None:
        honest(self, lease, revision, clock)
        self.revision = 0

    patch.setattr(Term, "__init__", begin)


def trusts_the_times_in_the_lease(patch: pytest.MonkeyPatch) -> None:
    async def acquire(self: Leader) -> Term:
        while True:
            try:
                lease = await self._client.get(LEASES, self._name, self._namespace)
                if _has_ended(lease["spec"], self._clock.wall()):
                    return await self._taken(lease)
            except NotFound:
                with suppress(ApiError):
                    return await self._taken(None)
            except ApiError:
                pass
            await self._pause(self._settings.retry_every)

    patch.setattr(Leader, "_acquire", acquire)


def _has_ended(spec: Object, now: datetime) -> bool:
    renewed = times.parse_time(spec["renewTime"])
    return not spec["holderIdentity"] or renewed + timedelta(seconds=spec["leaseDurationSeconds"]) < now


def counts_from_when_it_finds_its_renewal(patch: pytest.MonkeyPatch) -> None:
    """A conflict shows that a renewal was committed whose answer was lost. It does not show when that was sent."""

    async def renew(self: Leader, term: Term) -> None:
        try:
            await self._write_renewal(term)
        except Conflict:
            found_ns = self._clock.monotonic_ns()
            self._held = await self._client.get(LEASES, self._name, self._namespace)
            if (self._held.get("spec") or {}).get("holderIdentity") != self._identity:
                raise Deposed("the lease is held by another process") from None
            term.until(holder_times(found_ns, self._settings.times).begin_stopping_at_ns)

    patch.setattr(Leader, "_renew", renew)


def never_stops_leading_by_itself(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Term, "left", property(lambda self: timedelta(minutes=0 if self._is_over else 10)))


# Own writes


def decides_without_having_seen_its_own_writes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OwnWrites, "is_seen", lambda self, key: True)


def waits_for_the_first_of_its_writes_only(patch: pytest.MonkeyPatch) -> None:
    honest = OwnWrites.wrote

    def wrote(self: OwnWrites, key: ObjectKey, wrote: OwnWrite) -> None:
        own = self._keys.get(key)
        if own is None or wrote.kind not in own.reach:
            honest(self, key, wrote)

    patch.setattr(OwnWrites, "wrote", wrote)


def waits_until_it_has_seen_each_child(patch: pytest.MonkeyPatch) -> None:
    """Not until the cache is past the write: until the child is there. It may have gone again meanwhile."""
    expected: dict[tuple[int, ObjectKey], dict[tuple[KindName, ObjectKey], None]] = {}
    honest = OwnWrites.wrote

    def wrote(self: OwnWrites, key: ObjectKey, wrote: OwnWrite) -> None:
        honest(self, key, wrote)
        if wrote.revision and wrote.key != key:
            expected.setdefault((id(self), key), {})[(wrote.kind, wrote.key)] = None

    def is_seen(self: OwnWrites, key: ObjectKey) -> bool:
        waiting = expected.get((id(self), key), {})
        for kind, child in list(waiting):
            if child in self._caches[kind]:
                del waiting[(kind, child)]
        return not waiting

    async def seen(self: OwnWrites, key: ObjectKey) -> None:
        while not is_seen(self, key):
            for cache in self._caches.values():
                await cache.wait_until(cache.revision + 1)

    patch.setattr(OwnWrites, "wrote", wrote)
    patch.setattr(OwnWrites, "is_seen", is_seen)
    patch.setattr(OwnWrites, "seen", seen)


# Caches and servers


def knows_nothing_of_what_goes(patch: pytest.MonkeyPatch) -> None:
    """A delete that is told is taken for a bookmark."""
    honest = Cache.apply

    def apply(self: Cache, entry: Any, *, is_deleted: bool = False) -> Any:
        if is_deleted:
            self._reach(entry.revision)
            return ()
        return honest(self, entry)

    patch.setattr(Cache, "apply", apply)


def does_not_say_that_history_is_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Window, "lose", lambda self, revision: self.changes.clear())


def begins_a_watch_where_it_is_itself(patch: pytest.MonkeyPatch) -> None:
    honest = _Session.run

    async def run(self: _Session, stream: Any, start: int, *more: Any) -> None:
        await honest(self, stream, min(start, self._feed.revision), *more)

    patch.setattr(_Session, "run", run)


def says_how_far_it_is_itself(patch: pytest.MonkeyPatch) -> None:
    def bookmark(self: _Session) -> None:
        if self._told is not None and self._feed.revision != self._told:
            self._told = self._feed.revision
            self.tell(_bookmark(self._selection.kind, self._told))

    patch.setattr(_Session, "bookmark", bookmark)


def has_one_change_less_than_it_says(patch: pytest.MonkeyPatch) -> None:
    """A watch from right before the change that was forgotten last is not told to list again."""
    honest = Window.drop_oldest

    def drop_oldest(self: Window) -> None:
        honest(self)
        self.complete_after -= 1

    patch.setattr(Window, "drop_oldest", drop_oldest)


def sends_bookmarks_while_it_catches_up(patch: pytest.MonkeyPatch) -> None:
    honest = _Session._follow

    async def follow(self: _Session, stream: Any, start: int) -> None:
        self._told = start
        await honest(self, stream, start)

    patch.setattr(_Session, "_follow", follow)


def tells_a_repeat_that_the_name_is_taken(patch: pytest.MonkeyPatch) -> None:
    def outcome_in(self: Operation, entry: Any) -> Any:
        raise StatusError(409, StatusReason.ALREADY_EXISTS, "it is there already")

    patch.setattr(Operation, "outcome_in", outcome_in)


# Schedulers and reservations


def binds_a_pod_wherever_it_is(patch: pytest.MonkeyPatch) -> None:
    """The scheduler takes no answer for a no, and the server does not look whether the pod has a node already."""
    scheduling.takes_no_answer_for_a_no(patch)
    patch.setattr(binding, "_require_free", lambda pod, wish: None)
    patch.setattr(charges, "Check", lambda key, revision: Check(_UNUSED, ABSENT))


_UNUSED = "~unused"
