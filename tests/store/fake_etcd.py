"""A pretend etcd in virtual time: one cluster, any number of clients, and whatever can go wrong between them.

`FakeEtcd` is the cluster: its history, its limits and its watches. `FakeEtcd.client()` is one process's connection to
it and implements `EtcdKv`. What it does is what Debian's etcd 3.4.23 does, down to those of its faults that a client
has to know of; tests/store/test_etcd_kv.py holds both to the same account.

Faults are probabilities in `faults`, all 0 at first, drawn from the run's choices; and things that a test does to the
cluster: `kill`, `cut_watches`, `fall_behind`, `is_full`. A request that has left its client lives on by itself: it is
carried out even if the caller has given up, or is gone.

Not modelled: leases, authentication, elections, and members that disagree. One member serves all watches; the others
are there only to be ahead of it.
"""

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from operator import attrgetter
from typing import Any, Final, TypeVar, assert_never

import msgspec

from mainstay.env import tasks
from mainstay.sim.run.choices import Choices
from mainstay.store.etcd.kv import (
    Compare,
    DeleteKey,
    EtcdError,
    EtcdEvent,
    EtcdNotSent,
    EtcdRejected,
    GetKey,
    KeyValue,
    NoAnswer,
    NoSpace,
    Operation,
    PutKey,
    RangeResult,
    RequestTooLarge,
    RevisionCompacted,
    RevisionInFuture,
    TxnResult,
    WatchResponse,
)

T = TypeVar("T")

REQUEST_BYTES_MAX: Final = 1_572_864
OPERATIONS_MAX: Final = 128
WATCH_QUEUE_MAX: Final = 128  # Responses that etcd keeps for one stream; a reader that is slower has to catch up.
WATCH_BATCH_REVISIONS_MAX: Final = 1000
WATCH_SYNC_INTERVAL: Final = timedelta(milliseconds=100)

LATENCY: Final = timedelta(microseconds=500)  # Each way.
REQUEST_LIMIT: Final = timedelta(seconds=5)  # Then a client stops waiting for the answer.
# How late a request, an answer or an event may be. The first is benign; the last ones are later than a client waits.
DELAYS: Final = tuple(timedelta(milliseconds=ms) for ms in (0, 5, 50, 200, 1000, 4000, 6000, 20000))

_by_revision = attrgetter("mod_revision")


@dataclass
class Faults:
    """How likely each of these is, each time it could happen."""

    lose_request: float = 0.0
    lose_response: float = 0.0
    delay_request: float = 0.0
    delay_response: float = 0.0
    cut_watch: float = 0.0
    """Instead of a response, a watch gets an error, and has to be opened again."""
    delay_watch: float = 0.0


class _Transaction(msgspec.Struct, frozen=True):
    """What one revision wrote. A deletion is a `KeyValue` of version 0."""

    mod_revision: int
    kvs: list[KeyValue]


class _Queued(msgspec.Struct, frozen=True):
    """A response that waits to be sent. What was there before each event is looked up only then."""

    revision: int
    kvs: list[KeyValue]
    compact_revision: int = 0


class FakeEtcd:
    def __init__(self, choices: Choices | None = None) -> None:
        self.choices = Choices() if choices is None else choices
        self.faults = Faults()
        self.is_up = True
        self.is_full = False
        """Then every transaction that puts something is refused,"""
        self.fills_up_at_next_put = False
        """but the one that reaches the limit is done, and still answered with `NoSpace`."""
        self.revision = 1
        self.compacted = 0
        self._keys: list[bytes] = []  # Sorted; all that still have a version.
        self._versions: dict[bytes, list[KeyValue]] = {}
        self._log: list[_Transaction] = []
        self._watchers: dict[_Watcher, None] = {}
        self._watch_revision: int | None = None
        """What the member that serves the watches has applied, if it is behind,"""
        self._missed: list[_Transaction] = []
        """and what it has yet to apply."""
        self._syncing: asyncio.Task[None] | None = None
        self._clients = 0

    def client(self) -> "FakeEtcdKv":
        """A connection of its own."""
        self._clients += 1
        return FakeEtcdKv(self, f"etcd client {self._clients}")

    # What a test may do to it.

    def kill(self) -> None:
        """Be gone for everybody: connections break, and requests on their way get no answer."""
        self.is_up = False
        self.cut_watches()

    def start(self) -> None:
        """Be back, with all that was committed."""
        self.is_up = True

    def cut_watches(self) -> None:
        """Break every watch stream that is open."""
        for watcher in list(self._watchers):
            watcher.cut()

    def fall_behind(self) -> None:
        """From now on, the member that serves the watches learns of nothing."""
        self._watch_revision = self.revision

    def catch_up(self) -> None:
        """That member has applied everything again."""
        self._watch_revision = None
        missed, self._missed = self._missed, []
        for transaction in missed:
            self._notify(transaction)

    # Requests. Each is carried out at one moment, or refused.

    def range(self, key: bytes, end: bytes, revision: int, limit: int, count_only: bool) -> RangeResult:
        if not key:
            raise EtcdRejected("etcdserver: key is not provided")
        if revision > self.revision:
            raise RevisionInFuture("etcdserver: mvcc: required revision is a future revision")
        if 0 < revision < self.compacted:
            raise RevisionCompacted("etcdserver: mvcc: required revision has been compacted")
        at = revision or self.revision
        keys = self._keys[bisect_left(self._keys, key) : bisect_left(self._keys, end)] if end else [key]
        found = [kv for key in keys if (kv := self._version(key, at)) is not None]
        return RangeResult([] if count_only else found[: limit or None], len(found), self.revision)

    def txn(self, compares: Sequence[Compare], success: Sequence[Operation], failure: Sequence[Operation]) -> TxnResult:
        _require_transaction(compares, success, failure)
        puts = any(isinstance(operation, PutKey) for operation in (*success, *failure))
        if puts and self.is_full:
            raise NoSpace("etcdserver: mvcc: database space exceeded")
        succeeded = all(_mod_revision(self._version(each.key, self.revision)) == each.mod_revision for each in compares)
        gets = self._apply(success if succeeded else failure)
        if puts and self.fills_up_at_next_put:
            self.fills_up_at_next_put, self.is_full = False, True
            raise NoSpace("etcdserver: mvcc: database space exceeded")
        return TxnResult(succeeded, self.revision, gets)

    def compact(self, revision: int) -> None:
        if revision <= self.compacted:
            raise RevisionCompacted("etcdserver: mvcc: required revision has been compacted")
        if revision > self.revision:
            raise RevisionInFuture("etcdserver: mvcc: required revision is a future revision")
        self.compacted = revision
        for key, versions in list(self._versions.items()):
            current = bisect_right(versions, revision, key=_by_revision) - 1
            if current >= 0:
                # A deletion goes as well, also one at this very revision: etcd issue 18089.
                del versions[: current if versions[current].version else current + 1]
            if not versions:
                del self._versions[key]
                self._keys.remove(key)
        self._log = [
            transaction if transaction.mod_revision > revision else _without_deletions(transaction)
            for transaction in self._since(revision)
        ]

    def _apply(self, operations: Sequence[Operation]) -> list[KeyValue | None]:
        """Do them one after the other, as one revision. Returns what was got."""
        revision = self.revision + 1
        kvs: list[KeyValue] = []
        gets: list[KeyValue | None] = []
        for operation in operations:
            old = self._version(operation.key, revision)
            match operation:
                case PutKey(key=key, value=value):
                    created, version = (revision, 1) if old is None else (old.create_revision, old.version + 1)
                    kvs.append(KeyValue(key, value, created, revision, version))
                    self._add(kvs[-1])
                case DeleteKey(key=key):
                    if old is not None:
                        kvs.append(KeyValue(key, b"", 0, revision, 0))
                        self._add(kvs[-1])
                case GetKey():
                    gets.append(old)
                case _:
                    assert_never(operation)
        if kvs:
            self.revision = revision
            self._log.append(_Transaction(revision, kvs))
            if self._watch_revision is None:
                self._notify(self._log[-1])
            else:
                self._missed.append(self._log[-1])
        return gets

    def _add(self, kv: KeyValue) -> None:
        if kv.key not in self._versions:
            insort(self._keys, kv.key)
        self._versions.setdefault(kv.key, []).append(kv)

    def _version(self, key: bytes, at: int) -> KeyValue | None:
        versions = self._versions.get(key, ())
        index = bisect_right(versions, at, key=_by_revision) - 1
        return versions[index] if index >= 0 and versions[index].version else None

    def _since(self, revision: int) -> list[_Transaction]:
        return self._log[bisect_left(self._log, revision, key=_by_revision) :]

    # Watches: what has just happened is queued for those that are up to date, the others catch up from the history.

    @property
    def watch_revision(self) -> int:
        return self.revision if self._watch_revision is None else self._watch_revision

    def add_watcher(self, watcher: "_Watcher") -> None:
        self._watchers[watcher] = None
        watcher.is_synced = watcher.next_revision > self.watch_revision
        if not watcher.is_synced:
            self._start_syncing()

    def remove_watcher(self, watcher: "_Watcher") -> None:
        self._watchers.pop(watcher, None)

    def _notify(self, transaction: _Transaction) -> None:
        for watcher in self._watchers:
            kvs = watcher.matching(transaction)
            if not (kvs and watcher.is_synced and transaction.mod_revision >= watcher.next_revision):
                continue
            if watcher.is_full:
                watcher.is_synced, watcher.next_revision = False, transaction.mod_revision
                self._start_syncing()
            else:
                watcher.put(_Queued(transaction.mod_revision, kvs))

    def _start_syncing(self) -> None:
        if self._syncing is None:
            self._syncing = tasks.spawn(self._sync(), name="etcd watch sync")

    async def _sync(self) -> None:
        while not all(watcher.is_synced for watcher in self._watchers):
            await tasks.sleep(WATCH_SYNC_INTERVAL)
            for watcher in [each for each in self._watchers if not each.is_synced]:
                self._sync_watcher(watcher)
        self._syncing = None

    def _sync_watcher(self, watcher: "_Watcher") -> None:
        reached = self.watch_revision
        if watcher.next_revision < self.compacted:
            if watcher.is_full:
                # etcd issue 17529: it cannot be told now, and is never told later.
                watcher.next_revision, watcher.is_synced = reached + 1, True
            else:
                watcher.put(_Queued(0, [], compact_revision=self.compacted))
                self.remove_watcher(watcher)
            return
        if watcher.is_full:
            return
        pending = [each for each in self._since(watcher.next_revision) if each.mod_revision <= reached]
        pending = [each for each in pending if watcher.matching(each)]
        batch, rest = pending[:WATCH_BATCH_REVISIONS_MAX], pending[WATCH_BATCH_REVISIONS_MAX:]
        watcher.next_revision = rest[0].mod_revision if rest else reached + 1
        watcher.is_synced = not rest
        if batch:
            watcher.put(_Queued(reached, [kv for each in batch for kv in watcher.matching(each)]))

    def response(self, queued: _Queued) -> WatchResponse:
        """What is sent for something that was queued, as of now."""
        events = [EtcdEvent(kv.version == 0, kv, self._previous(kv)) for kv in queued.kvs]
        return WatchResponse(queued.revision, False, queued.compact_revision != 0, queued.compact_revision, events)

    def _previous(self, kv: KeyValue) -> KeyValue | None:
        # etcd reads it as of the revision before. If that is compacted by now, it is silently left out.
        return self._version(kv.key, kv.mod_revision - 1) if kv.mod_revision - 1 >= self.compacted else None


class _Watcher:
    """etcd's side of one watch."""

    def __init__(self, key: bytes, end: bytes, next_revision: int) -> None:
        self._key = key
        self._end = end
        self.next_revision = next_revision
        """The first one that may be sent."""
        self.is_synced = True
        self._queue: deque[_Queued] = deque()
        self._is_cut = False
        self._waiter: asyncio.Future[None] | None = None

    def matching(self, transaction: _Transaction) -> list[KeyValue]:
        return [kv for kv in transaction.kvs if (self._key <= kv.key < self._end if self._end else kv.key == self._key)]

    @property
    def is_full(self) -> bool:
        return len(self._queue) >= WATCH_QUEUE_MAX

    def put(self, queued: _Queued) -> None:
        self._queue.append(queued)
        self._wake()

    def cut(self) -> None:
        self._is_cut = True
        self._wake()

    async def take(self) -> _Queued:
        while not (self._queue or self._is_cut):
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self._is_cut:
            raise NoAnswer("the watch was cut")
        return self._queue.popleft()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class FakeEtcdKv:
    """Implements `EtcdKv` (mainstay/store/etcd/kv.py)."""

    def __init__(self, etcd: FakeEtcd, name: str) -> None:
        self.etcd = etcd
        self.name = name
        self._awaited: dict[asyncio.Future[Any], None] = {}
        self._is_closed = False

    async def range(
        self, key: bytes, end: bytes = b"", *, revision: int = 0, limit: int = 0, count_only: bool = False
    ) -> RangeResult:
        return await self._request("range", lambda: self.etcd.range(key, end, revision, limit, count_only))

    async def txn(
        self, compares: Sequence[Compare], success: Sequence[Operation], failure: Sequence[Operation]
    ) -> TxnResult:
        return await self._request("txn", lambda: self.etcd.txn(compares, success, failure))

    async def compact(self, revision: int) -> None:
        await self._request("compact", lambda: self.etcd.compact(revision))

    def watch(self, key: bytes, end: bytes, *, start_revision: int) -> "FakeWatchStream":
        return FakeWatchStream(self, _Watcher(key, end, start_revision))

    async def close(self) -> None:
        self._is_closed = True
        if self._awaited:
            await asyncio.wait(list(self._awaited), timeout=REQUEST_LIMIT.total_seconds())

    def require_connected(self) -> None:
        if self._is_closed or not self.etcd.is_up:
            raise EtcdNotSent("no connection to the pretend etcd")

    def occurs(self, what: str, probability: float) -> bool:
        return probability > 0 and self.etcd.choices.occurs(f"{self.name}: {what}", probability)

    def delay(self, what: str, probability: float) -> timedelta:
        if not self.occurs(what, probability):
            return LATENCY
        return LATENCY + DELAYS[self.etcd.choices.choose(f"{self.name}: {what}, how long", len(DELAYS))]

    async def _request(self, what: str, carry_out: Callable[[], T]) -> T:
        self.require_connected()
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._awaited[answer] = None
        _ = tasks.spawn(self._carry(what, carry_out, answer), name=f"{self.name}: {what}")
        try:
            async with tasks.timeout(REQUEST_LIMIT):
                return await answer
        except TimeoutError:
            raise NoAnswer("no answer in time") from None
        finally:
            del self._awaited[answer]

    async def _carry(self, what: str, carry_out: Callable[[], T], answer: asyncio.Future[T]) -> None:
        """Take a request there and its answer back. The caller may be gone by then."""
        try:
            result = await self._there_and_back(what, carry_out)
        except _Lost:
            # Either the connection breaks, which the caller notices, or nothing ever comes.
            is_silent = self.etcd.choices.choose(f"{self.name}: {what} is lost silently", 2)
            if not (is_silent or answer.done()):
                answer.set_exception(NoAnswer("the connection broke"))
        except EtcdError as refusal:
            if not answer.done():
                answer.set_exception(refusal)
        else:
            if not answer.done():
                answer.set_result(result)

    async def _there_and_back(self, what: str, carry_out: Callable[[], T]) -> T:
        faults = self.etcd.faults
        await self._travel(what, faults.lose_request, faults.delay_request)
        try:
            return carry_out()
        finally:  # A refusal is an answer too.
            await self._travel(f"the answer to {what}", faults.lose_response, faults.delay_response)

    async def _travel(self, what: str, lose: float, delay: float) -> None:
        if self.occurs(f"lose {what}", lose):
            raise _Lost
        await tasks.sleep(self.delay(f"delay {what}", delay))
        if not self.etcd.is_up:
            raise _Lost


class _Lost(Exception):
    """It did not arrive."""


class FakeWatchStream:
    """Implements `WatchStream` (mainstay/store/etcd/kv.py)."""

    def __init__(self, client: FakeEtcdKv, watcher: _Watcher) -> None:
        self._client = client
        self._watcher = watcher
        self._is_created = False

    async def next(self) -> WatchResponse:
        client, etcd = self._client, self._client.etcd
        if not self._is_created:
            client.require_connected()
            await tasks.sleep(client.delay("delay watch creation", etcd.faults.delay_watch))
            client.require_connected()
            self._is_created = True
            etcd.add_watcher(self._watcher)
            return WatchResponse(etcd.watch_revision, True, False, 0, [])
        queued = await self._watcher.take()
        if client.occurs("cut watch", etcd.faults.cut_watch):
            self._watcher.cut()
            raise NoAnswer("the watch was cut")
        await tasks.sleep(client.delay("delay watch", etcd.faults.delay_watch))
        return etcd.response(queued)

    def cancel(self) -> None:
        self._client.etcd.remove_watcher(self._watcher)


def _require_transaction(
    compares: Sequence[Compare], success: Sequence[Operation], failure: Sequence[Operation]
) -> None:
    size = sum(len(compare.key) for compare in compares)
    for operations in (success, failure):
        puts: dict[bytes, None] = {}
        deletes: dict[bytes, None] = {}
        for operation in operations:
            if not operation.key:
                raise EtcdRejected("etcdserver: key is not provided")
            size += len(operation.key)
            match operation:
                case PutKey(key=key, value=value):
                    size += len(value)
                    if key in puts:
                        raise EtcdRejected("etcdserver: duplicate key given in txn request")
                    puts[key] = None
                case DeleteKey(key=key):
                    deletes[key] = None
                case GetKey():
                    pass
                case _:
                    assert_never(operation)
        if puts.keys() & deletes.keys():
            raise EtcdRejected("etcdserver: duplicate key given in txn request")
    if max(len(compares), len(success), len(failure)) > OPERATIONS_MAX:
        raise EtcdRejected("etcdserver: too many operations in txn request")
    if size > REQUEST_BYTES_MAX:
        raise RequestTooLarge("etcdserver: request is too large")


def _without_deletions(transaction: _Transaction) -> _Transaction:
    return _Transaction(transaction.mod_revision, [kv for kv in transaction.kvs if kv.version])


def _mod_revision(kv: KeyValue | None) -> int:
    return 0 if kv is None else kv.mod_revision
