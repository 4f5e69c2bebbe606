"""Quorum reads: repeated while etcd cannot be reached, and with its errors made ours.

A read may be repeated, because it changes nothing. It is, with growing pauses, for at most `READ_LIMIT`; then the
caller gets `StoreUnavailable`.

Also kept here is what this process has learned on the way: the latest revision it has seen, and how far the history has
been compacted.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from random import Random
from typing import Final, TypeVar

from mainstay.env import tasks
from mainstay.store.errors import (
    Compacted,
    Corrupt,
    FutureRevision,
    InvalidStoreRequest,
    StoreAccessDenied,
    StoreClosed,
    StoreError,
    StoreUnavailable,
    TransactionTooLarge,
)
from mainstay.store.etcd.backoff import delay_after
from mainstay.store.etcd.kv import (
    CorruptCluster,
    EtcdDenied,
    EtcdError,
    EtcdKv,
    EtcdNotSent,
    NoAnswer,
    RangeResult,
    RequestTooLarge,
    RevisionCompacted,
    RevisionInFuture,
    TooManyRequests,
)

T = TypeVar("T")

READ_LIMIT: Final = timedelta(seconds=15)  # Enough for an election, or for etcd to be started again.
PROBE_LIMIT: Final = timedelta(seconds=1)


class EtcdReader:
    def __init__(self, kv: EtcdKv, root: bytes, jitter: Random) -> None:
        self._kv = kv
        self._root = root
        """A key that is never there: a store's keys begin with it and are longer."""
        self._jitter = jitter
        self.seen = 0
        """The latest revision that any answer to this process has told."""
        self.compacted = 0
        """How far history is compacted, as far as we know: etcd does not say so, and others compact too."""
        self.closed = False

    async def range(
        self, key: bytes, end: bytes = b"", *, revision: int = 0, limit: int = 0, count_only: bool = False
    ) -> RangeResult:
        """As `EtcdKv.range`. Raises `Compacted`, `FutureRevision`, `StoreUnavailable`."""

        async def read() -> RangeResult:
            return await self._kv.range(key, end, revision=revision, limit=limit, count_only=count_only)

        while True:
            try:
                result = await self.persist(read)
            except RevisionCompacted:
                raise await self.compacted_error(revision) from None
            except RevisionInFuture:
                latest = await self.revision()
                if latest < revision:
                    raise FutureRevision(revision, latest) from None
                # It has happened in the meantime.
            else:
                self.seen = max(self.seen, result.revision)
                return result

    async def revision(self) -> int:
        """The latest one, of all clients."""
        return (await self.range(self._root, count_only=True)).revision

    async def require_kept(self, revision: int) -> None:
        """Raise unless all history after this revision is still there, and this one has happened."""
        await self.range(self._root, revision=max(revision, 1), count_only=True)

    async def persist(self, call: Callable[[], Awaitable[T]]) -> T:
        """The answer to a call that may be repeated. Raises what etcd refuses it with, or `StoreUnavailable`."""
        try:
            return await call()
        except (NoAnswer, EtcdNotSent, TooManyRequests) as error:
            last: EtcdError = error
        except EtcdError as error:
            raise refusal(error) from None
        try:
            async with tasks.timeout(READ_LIMIT):
                failures = 0
                while True:
                    failures += 1
                    await tasks.sleep(delay_after(failures, self._jitter))
                    if self.closed:
                        raise StoreClosed("the store was closed")
                    try:
                        return await call()
                    except (NoAnswer, EtcdNotSent, TooManyRequests) as error:
                        last = error
                    except EtcdError as error:
                        raise refusal(error) from None
        except TimeoutError:
            raise StoreUnavailable(f"etcd does not answer: {last}") from None

    async def compacted_error(self, revision: int) -> Compacted:
        """The error for someone who asked for this revision and was told that it is gone."""
        if self.compacted <= revision:
            # etcd tells how far it has compacted only to a watch that begins too early.
            self.compacted = revision + 1
            stream = self._kv.watch(self._root, b"", start_revision=max(revision, 1))
            try:
                async with tasks.timeout(PROBE_LIMIT):
                    while (answer := await stream.next()).compact_revision == 0:
                        pass
                self.compacted = max(self.compacted, answer.compact_revision)
            except (EtcdError, TimeoutError):
                pass  # Then we only know that it is more than was asked for.
            finally:
                stream.cancel()
        return Compacted(self.compacted)


def refusal(error: EtcdError) -> EtcdError | StoreError:
    """What etcd refused, as an error of the store; as it is, if that depends on what was asked for."""
    if isinstance(error, RevisionCompacted | RevisionInFuture):
        return error
    if isinstance(error, CorruptCluster):
        return Corrupt(str(error))
    if isinstance(error, EtcdDenied):
        return StoreAccessDenied(str(error))
    if isinstance(error, RequestTooLarge):
        return TransactionTooLarge(str(error))
    return InvalidStoreRequest(str(error))
