"""The store over etcd: what `Store` promises, from what etcd offers.

A revision is etcd's own, and a commit is one etcd transaction: it compares the revision of each checked key, does the
writes if all agree, and else reads the checked keys, so that a refusal says what was there at that very moment. Reads
are quorum reads. Other clusters may live in the same etcd under other roots; they use up revisions too, so revisions
have gaps.

What is certain and what is not: a commit that was never sent, or that etcd refused, has not happened. One that was
sent and not answered may happen at any time until etcd has forgotten it, and is `OutcomeUnknown`. When etcd says that
it is full, the transaction may have been done all the same; we look before we believe it.

Not promised here: holds bind this process alone. Other processes, and etcd's own auto-compaction, compact as they like;
a user who relies on a hold must have the only compacting process. And one word of care from etcd's bug list (issue
17780): if etcd crashes while it compacts to the very latest revision, and that was a deletion, its revision may go
back. Keep at least one revision.
"""

import asyncio
import itertools
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from random import Random
from typing import Final

from mainstay.env import Chance, tasks
from mainstay.store.errors import (
    Compacted,
    FutureRevision,
    OutcomeUnknown,
    StorageFull,
    StoreAccessDenied,
    StoreClosed,
    StoreError,
    StoreUnavailable,
)
from mainstay.store.etcd.access import NO_ACCESS_CONTROL, EtcdAccess
from mainstay.store.etcd.backoff import delay_after
from mainstay.store.etcd.keyspace import Keyspace
from mainstay.store.etcd.kv import (
    Compare,
    DeleteKey,
    EtcdDenied,
    EtcdError,
    EtcdKv,
    EtcdNotSent,
    EtcdUntrusted,
    GetKey,
    KeyValue,
    NoAnswer,
    NoSpace,
    Operation,
    PutKey,
    RevisionCompacted,
    TooManyRequests,
    TxnResult,
)
from mainstay.store.etcd.reads import EtcdReader, refusal
from mainstay.store.etcd.watch import EtcdWatch
from mainstay.store.holds import RevisionHold, RevisionHolds
from mainstay.store.interface import (
    ABSENT,
    FIRST_REVISION,
    Check,
    Committed,
    Entry,
    Put,
    RangePage,
    TransactionRefused,
    Write,
)
from mainstay.store.limits import require_key, require_prefix, require_range, require_revision, require_transaction
from mainstay.store.sealer import AS_STORED, PLAIN, Sealer

DEFAULT_PREFIX: Final = "/mainstay/"
OPEN_LIMIT: Final = timedelta(seconds=3)
NEVER: Final = 2**62
"""A revision at which no key is."""

# A range is read in chunks of about this size: large enough that the calls do not matter, small enough that neither
# side is held up for long.
CHUNK_BYTES: Final = 4_000_000
CHUNK_ENTRIES_FIRST: Final = 500
CHUNK_ENTRIES_MIN: Final = 20
CHUNK_ENTRIES_MAX: Final = 4000
SNAPSHOT_ATTEMPTS: Final = 3


class EtcdStore:
    """Implements `Store` (interface.py)."""

    memory: Final = None  # Its state is in other processes,
    local: Final = None  # which other servers write as well.

    def __init__(self, kv: EtcdKv, prefix: str = DEFAULT_PREFIX, *, chance: Chance, sealer: Sealer = PLAIN) -> None:
        self._kv = kv
        self._keyspace = Keyspace(prefix, sealer)
        self._jitter = chance.stream("etcd", prefix)
        self._reads = EtcdReader(kv, self._keyspace.root, self._jitter)
        self._holds = RevisionHolds()
        self._given_up = 0
        """How far we have asked etcd to compact."""
        self._watches: list[EtcdWatch] = []
        self._closing: asyncio.Task[None] | None = None

    @property
    def sealer(self) -> Sealer:
        """What seals values in etcd."""
        return self._keyspace.sealer

    async def get(self, key: str, *, at: int | None = None) -> Entry | None:
        self._require_open()
        require_key(key)
        if at is not None:
            require_revision(at, least=FIRST_REVISION)
        result = await self._reads.range(self._keyspace.encode(key), revision=at or 0)
        return self._keyspace.entry(result.kvs[0]) if result.kvs else None

    async def range(
        self, prefix: str, *, at: int | None = None, limit: int | None = None, after: str | None = None
    ) -> RangePage:
        self._require_open()
        require_range(prefix, at, limit, after)
        for _ in range(SNAPSHOT_ATTEMPTS):
            try:
                return await self._snapshot(prefix, at, limit, after)
            except Compacted:
                if at is not None:
                    raise
                # The snapshot we had begun to read was compacted. Any other one will do as well.
        raise StoreUnavailable(f"{prefix!r} was compacted {SNAPSHOT_ATTEMPTS} times while it was being read")

    async def _snapshot(self, prefix: str, at: int | None, limit: int | None, after: str | None) -> RangePage:
        start, end = self._keyspace.span(prefix)
        if after is not None:
            start = max(start, self._keyspace.encode(after) + b"\0")
        if start >= end:
            nothing = await self._reads.range(self._keyspace.root, revision=at or 0, count_only=True)
            return RangePage([], at or nothing.revision, 0)
        entries: list[Entry] = []
        chunk = CHUNK_ENTRIES_FIRST
        while True:
            wanted = chunk if limit is None else min(chunk, limit - len(entries))
            result = await self._reads.range(start, end, revision=at or 0, limit=wanted)
            # What follows is read from the same snapshot as this.
            at = at or result.revision
            entries += map(self._keyspace.entry, result.kvs)
            remaining = result.count - len(result.kvs)
            if remaining == 0 or len(entries) == limit:
                return RangePage(entries, at, remaining)
            start = result.kvs[-1].key + b"\0"
            chunk = _chunk_after(result.kvs)

    def watch(self, prefix: str, *, after: int) -> EtcdWatch:
        self._require_open()
        require_prefix(prefix)
        require_revision(after, least=0)
        watch = EtcdWatch(self._kv, self._reads, self._keyspace, prefix, after, self._jitter)
        self._watches = [*(each for each in self._watches if not each.has_ended), watch]
        return watch

    async def commit(self, checks: Sequence[Check], writes: Sequence[Write]) -> Committed | TransactionRefused:
        self._require_open()
        require_transaction(checks, writes, may_be_sealed=self.sealer is AS_STORED)
        encode = self._keyspace.encode
        compares = [Compare(encode(check.key), check.revision) for check in checks]
        operations: list[Operation] = [
            self._keyspace.put(write.key, write.value) if isinstance(write, Put) else DeleteKey(encode(write.key))
            for write in writes
        ]
        seen = self._reads.seen
        try:
            result = await self._kv.txn(compares, operations, [GetKey(compare.key) for compare in compares])
        except NoSpace as error:
            raise await self._without_space(error, compares, operations, seen) from None
        except EtcdError as error:
            raise _commit_error(error) from None
        self._reads.seen = max(seen, result.revision, self._reads.seen)
        return Committed(result.revision) if result.succeeded else self._refused(checks, result)

    def _refused(self, checks: Sequence[Check], result: TxnResult) -> TransactionRefused:
        found = {
            check.key: None if kv is None else self._keyspace.entry(kv)
            for check, kv in zip(checks, result.gets, strict=True)
            if (ABSENT if kv is None else kv.mod_revision) != check.revision
        }
        if not found:
            raise AssertionError(f"etcd refused a transaction whose checks all hold: {checks} against {result}")
        return TransactionRefused(found)

    async def _without_space(
        self, error: NoSpace, compares: Sequence[Compare], operations: Sequence[Operation], seen: int
    ) -> StoreError:
        """What to make of a transaction that etcd says it has no room for. It may have been among the last to fit.

        It was not done if one of the keys it would have written is still at a revision from before: the one it was
        checked for, or one that we had seen before we sent it. Nor if there has been no later revision at all.
        """
        checked = {compare.key: compare.mod_revision for compare in compares}
        key = next((operation.key for operation in operations if operation.key in checked), operations[0].key)
        unknown = OutcomeUnknown(f"etcd is full, and has perhaps done this all the same: {error}")
        try:
            result = await self._reads.range(key)
        except StoreError:
            return unknown
        found = result.kvs[0].mod_revision if result.kvs else ABSENT
        if found == checked.get(key) or 0 < found <= seen or result.revision == seen:
            return StorageFull(str(error))
        return unknown

    async def revision(self) -> int:
        self._require_open()
        return await self._reads.revision()

    async def compact(self, revision: int) -> int:
        self._require_open()
        require_revision(revision, least=FIRST_REVISION)
        latest = await self._reads.revision()
        if revision > latest:
            raise FutureRevision(revision, latest)
        target = self._holds.limit(revision)
        if target <= self._reads.compacted:
            return self._reads.compacted
        # From here on no caller gets a hold on it, whether or not it works out.
        self._given_up = max(self._given_up, target)
        self._holds.check_kept(self._given_up)
        try:
            await self._reads.persist(partial(self._kv.compact, target))
        except RevisionCompacted:
            # By another process, or by ourselves when the first answer was lost. It is at least as far as this.
            await self._reads.compacted_error(target - 1)
        self._reads.compacted = max(self._reads.compacted, target)
        return self._reads.compacted

    def hold(self, revision: int) -> RevisionHold:
        """As `Store.hold`, as far as this process knows: others may have compacted more."""
        self._require_open()
        require_revision(revision, least=0)
        if revision < (gone := max(self._reads.compacted, self._given_up)):
            raise Compacted(gone)
        return self._holds.take(revision)

    async def close(self) -> None:
        self._reads.closed = True
        if self._closing is None:
            self._closing = tasks.spawn(self._close(), name="store close")
        # One task for all callers, so that one that is cancelled does not leave it half closed.
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        for watch in self._watches:
            watch.end(StoreClosed("the store was closed"))
        for watch in self._watches:
            await watch.ended()
        await self._kv.close()

    def _require_open(self) -> None:
        if self._reads.closed:
            raise StoreClosed("the store is closed")


async def open_etcd(
    endpoints: Sequence[str],
    prefix: str = DEFAULT_PREFIX,
    *,
    chance: Chance,
    access: EtcdAccess = NO_ACCESS_CONTROL,
    sealer: Sealer = PLAIN,
) -> EtcdStore:
    """A store over the etcd cluster whose members' client addresses are these, each `host:port`.

    Raises `StoreUnavailable` if none of them answers, `StoreAccessDenied` if they will not have us or are not trusted.
    """
    # Here and not above: gRPC takes a while to import, and the simulator has no use for it.
    from mainstay.store.etcd.grpc_kv import GrpcEtcdKv

    kv = GrpcEtcdKv(endpoints, access)
    store = EtcdStore(kv, prefix, chance=chance, sealer=sealer)
    try:
        await _require_access(kv, prefix.encode(), chance.stream("etcd", "open"))
        async with tasks.timeout(OPEN_LIMIT):
            await store.revision()
    except TimeoutError:
        await store.close()
        raise StoreUnavailable(f"no etcd answers at {', '.join(endpoints)}") from None
    except BaseException:
        await store.close()
        raise
    return store


async def _require_access(kv: EtcdKv, root: bytes, jitter: Random) -> None:
    """Raise unless etcd lets us read and write under the root. An etcd that is just starting is waited for a little.

    The write is never done: its comparison cannot hold. etcd looks at the rights for it all the same.
    """
    last: EtcdError | None = None
    try:
        async with tasks.timeout(OPEN_LIMIT):
            for failures in itertools.count(1):
                try:
                    await kv.txn([Compare(root, NEVER)], [PutKey(root, b"")], [GetKey(root)])
                    return
                except (EtcdUntrusted, EtcdDenied) as error:
                    raise StoreAccessDenied(_advise(error)) from None
                except (EtcdNotSent, NoAnswer, TooManyRequests) as error:
                    last = error
                except EtcdError as error:
                    raise _commit_error(error) from None
                await tasks.sleep(delay_after(failures, jitter))
    except TimeoutError:
        raise StoreUnavailable(str(last or "no etcd answers")) from None


def _advise(error: EtcdError) -> str:
    if isinstance(error, EtcdUntrusted):
        return str(error)
    return (
        f"etcd denies access: {error}. Check --etcd-user and --etcd-password-file, and that the user has a role with"
        " permission readwrite on the prefix of the store"
    )


def _chunk_after(kvs: Sequence[KeyValue]) -> int:
    """How many entries to ask for next, if they are as large as these."""
    size = sum(len(kv.key) + len(kv.value) for kv in kvs) // len(kvs)
    return max(CHUNK_ENTRIES_MIN, min(CHUNK_BYTES // max(size, 1), CHUNK_ENTRIES_MAX))


def _commit_error(error: EtcdError) -> StoreError:
    match error:
        case NoAnswer():
            return OutcomeUnknown(str(error))
        case EtcdNotSent() | TooManyRequests():
            return StoreUnavailable(str(error))
        case _:
            refused = refusal(error)
            if not isinstance(refused, StoreError):
                raise AssertionError(f"a commit asks for no revision, yet etcd says {error!r}")
            return refused
