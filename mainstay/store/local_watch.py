"""Watches on a local store: cursors into its history.

A watch that waits is handed each new change as it is published, so an idle one costs a prefix comparison. A watch
that is still busy with the last batch is not waited for and nothing is queued for it: it later reads on in the
history from where it stopped. If compaction gets there first, it is told so.
"""

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from mainstay.env import tasks
from mainstay.env.invariants import broken
from mainstay.store.errors import Compacted, FutureRevision, StoreClosed
from mainstay.store.index import StoreIndex, Transaction
from mainstay.store.interface import KeyChange, WatchBatch

SCAN_TRANSACTIONS_MAX: Final = 1000  # Read from the history at a time; then others get their turn.
SCAN_BYTES_MAX: Final = 2 * 1024 * 1024  # And no more than one transaction beyond this.


class LocalWatch:
    """Implements `StoreWatch` (interface.py)."""

    def __init__(self, watches: "Watches", prefix: str, after: int) -> None:
        self._watches = watches
        self.prefix = prefix
        self.reached = after
        """Everything up to this revision has been delivered, or did not concern us."""
        self.waiter: asyncio.Future[WatchBatch | None] | None = None
        """A reader waits for the next batch. None for an answer: look again, something else has changed."""
        self._closed = False
        self._is_read = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WatchBatch:
        if self._is_read:
            raise RuntimeError("this watch is already being waited for by someone else")
        self._is_read = True
        try:
            return await self._next()
        finally:
            self._is_read = False

    async def _next(self) -> WatchBatch:
        while not self._closed:
            batch = self._watches.read(self)
            if batch is None:
                batch = await self._wait()
            else:
                await tasks.turns(1)
            if batch is not None and not self._closed:
                if batch.revision <= self.reached:
                    story = {"reached": self.reached, "batch": batch.revision}
                    raise broken("a watch goes forward", f"watch of {self.prefix!r}", **story)
                self.reached = batch.revision
                if batch.changes:
                    return batch
        raise StopAsyncIteration

    async def _wait(self) -> WatchBatch | None:
        self.waiter = asyncio.get_running_loop().create_future()
        try:
            return await self.waiter
        finally:
            self.waiter = None

    def close(self) -> None:
        self._closed = True
        self._watches.forget(self)
        self.wake(None)

    def wake(self, batch: WatchBatch | None) -> None:
        """Answer the reader that waits. If none does, it finds out when it comes back."""
        if self.is_waiting and self.waiter is not None:
            self.waiter.set_result(batch)

    @property
    def is_waiting(self) -> bool:
        return self.waiter is not None and not self.waiter.done()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Watches:
    """All watches on one index."""

    def __init__(self, index: StoreIndex) -> None:
        self._index = index
        self._open: dict[LocalWatch, None] = {}  # In the order they were opened: a set would have none.
        self._closed = False

    def open(self, prefix: str, after: int) -> LocalWatch:
        watch = LocalWatch(self, prefix, after)
        self._open[watch] = None
        return watch

    def forget(self, watch: LocalWatch) -> None:
        self._open.pop(watch, None)

    def read(self, watch: LocalWatch) -> WatchBatch | None:
        """The next part of the history for a watch that has fallen behind; None if it has not."""
        if self._closed:
            raise StoreClosed("the store was closed")
        index = self._index
        if watch.reached < index.compacted:
            self.forget(watch)  # It will never be told anything again.
            raise Compacted(index.compacted)
        if watch.reached > index.revision:
            raise FutureRevision(watch.reached, index.revision)
        if watch.reached == index.revision:
            return None
        transactions = _take_first(index.transactions_after(watch.reached, SCAN_TRANSACTIONS_MAX))
        return WatchBatch(transactions[-1].revision, _under(watch.prefix, transactions))

    def publish(self, transactions: Sequence[Transaction]) -> None:
        """Tell the watches that wait of transactions that have just become part of the history."""
        if not transactions:
            return
        reached, revision = transactions[0].revision - 1, transactions[-1].revision
        for watch in self._open:
            waiter = watch.waiter
            if waiter is None or waiter.done():  # It is not waiting. As `is_waiting`, with every commit.
                continue
            if watch.reached != reached:
                story = {"reached": watch.reached, "published": transactions[0].revision}
                raise broken("a watch that waits has missed nothing", f"watch of {watch.prefix!r}", **story)
            if changes := _under(watch.prefix, transactions):
                watch.wake(WatchBatch(revision, changes))
            else:
                watch.reached = revision

    def close(self) -> None:
        self._closed = True
        for watch in self._open:
            watch.wake(None)
        self._open.clear()


def _take_first(transactions: Sequence[Transaction]) -> Sequence[Transaction]:
    """As many as a reader looks at without holding up others."""
    size = 0
    for count, transaction in enumerate(transactions, 1):
        size += sum([len(change.entry.value) for change in transaction.changes if change.entry is not None])
        if size >= SCAN_BYTES_MAX:
            return transactions[:count]
    return transactions


def _under(prefix: str, transactions: Sequence[Transaction]) -> list[KeyChange]:
    if not prefix:
        return [change for each in transactions for change in each.changes]
    return [change for each in transactions for change in each.changes if change.key.startswith(prefix)]
