"""A store in one process: the commit pipeline over a log.

A commit walks through here:

    checks    looked up in what is there *including* what is staged but not yet durable: the order of revisions is
              the order in which commits arrive, and no commit waits for a disk to learn whether its checks hold
    stage     it gets its revision, and what it changes is staged
    append    whatever is staged goes to the log as one group: many transactions, one sync
    publish   once durable: into the index, to the watches, and the answer to the caller

Reads and watches only ever see the index, so nothing can be read that a crash might take back. For the same reason a
refusal that was caused by something staged waits until that is durable: it tells the caller what is there.

When the log is full, everything staged is taken back and its callers are told so; the store goes on. When an append
fails in any other way, whether it reached the disk is unknown: those callers get `OutcomeUnknown`, and the store
takes no more writes until it is opened again, which reads the truth from the log.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Sequence
from typing import Final, Self

import msgspec

from mainstay.env import tasks
from mainstay.env.invariants import broken
from mainstay.store.errors import (
    Compacted,
    FutureRevision,
    OutcomeUnknown,
    StorageFull,
    StoreClosed,
    StoreError,
    StoreUnavailable,
)
from mainstay.store.holds import RevisionHold, RevisionHolds
from mainstay.store.index import StoreIndex, Transaction, replay
from mainstay.store.interface import (
    ABSENT,
    FIRST_REVISION,
    Check,
    Committed,
    Entry,
    KeyChange,
    Put,
    RangePage,
    TransactionRefused,
    Write,
)
from mainstay.store.limits import require_key, require_prefix, require_range, require_revision, require_transaction
from mainstay.store.local_watch import LocalWatch, Watches
from mainstay.store.log import AuditedRows, DeletedVersion, Log, LogRow
from mainstay.store.sealer import Sealer

_logger = logging.getLogger(__name__)

GROUP_TRANSACTIONS_MAX: Final = 256  # More than this in one append would only lengthen the wait of the first one.
GROUP_BYTES_MAX: Final = 4_000_000
# Turns of the loop before a group is appended. Each takes microseconds when there is nothing to do, and when there is,
# it would be done anyway. In the meantime those who were answered with the last group ask again: half as many appends.
JOINING_TURNS: Final = 3
AUDIT_STEP_ROWS: Final = 250  # The same.
COMPACTION_STEP_CHANGES: Final = 500  # Small enough that a commit behind one step waits a few milliseconds.


class _Staged(msgspec.Struct):
    """A commit on its way: what it changes (nothing, if it only waits for those before it) and who waits for it."""

    transaction: Transaction | None
    answer: Committed | TransactionRefused
    waiter: asyncio.Future[Committed | TransactionRefused]


class LocalStore:
    """Implements `Store` and `LocalReads` (interface.py) over any `Log`. Make one with `await LocalStore.open(log)`."""

    def __init__(self, log: Log, index: StoreIndex) -> None:
        self._log = log
        self._index = index
        self._holds = RevisionHolds()
        self._watches = Watches(index)
        self._staged: list[_Staged] = []
        self._staged_entries: dict[str, Entry | DeletedVersion] = {}
        """What the staged transactions make of each key they touch: the newest of them wins."""
        self._next_revision = index.revision + 1
        self._durable = index.revision
        """The newest revision that the log has taken."""
        self._flushing: asyncio.Task[None] | None = None
        self._compacting = asyncio.Lock()
        self._rows_to_replace: dict[int, LogRow] = {}
        """What compaction has dropped from the index but could not yet drop from the log."""
        self._broken: str | None = None
        """Why the log can no longer be trusted, once an append has failed."""
        self._breaking = asyncio.Event()
        self._closed = False
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, log: Log) -> Self:
        """Take over a log and read it. Raises `StoreInUse`, `Corrupt`."""
        try:
            recovered = await log.open()
            index, left_over = replay(recovered.compacted, recovered.rows)
            store = cls(log, index)
            store._rows_to_replace.update((row.revision, row) for row in left_over)
            # A crash may have cut a compaction short; the rest of it is done now. If there is no room for that, the
            # store can be used all the same, and the next compaction makes up for it.
            with contextlib.suppress(StorageFull):
                await store._finish_compaction()
        except BaseException:
            # Also if we were cancelled: what was begun must not go on holding the directory.
            await log.close()
            raise
        return store

    @property
    def sealer(self) -> Sealer:
        """What seals values on the disk."""
        return self._log.sealer

    @property
    def memory(self) -> Self:
        return self

    @property
    def local(self) -> Self:
        return self

    async def get(self, key: str, *, at: int | None = None) -> Entry | None:
        self._require_open()
        require_key(key)
        if at is not None:
            require_revision(at, least=FIRST_REVISION)
        return self._index.get(key, at)

    def look(self, key: str) -> Entry | None:
        self._require_open()
        require_key(key)
        return self._index.live.get(key)

    def count(self, prefix: str) -> int:
        self._require_open()
        return self._index.count(prefix)

    async def range(
        self, prefix: str, *, at: int | None = None, limit: int | None = None, after: str | None = None
    ) -> RangePage:
        self._require_open()
        require_range(prefix, at, limit, after)
        return self._index.range(prefix, at, limit, after)

    def watch(self, prefix: str, *, after: int) -> LocalWatch:
        self._require_open()
        require_prefix(prefix)
        require_revision(after, least=0)
        return self._watches.open(prefix, after)

    async def revision(self) -> int:
        self._require_open()
        return self._index.revision

    async def commit(self, checks: Sequence[Check], writes: Sequence[Write]) -> Committed | TransactionRefused:
        self._require_open()
        require_transaction(checks, writes)
        self._require_writable()

        found = {check.key: entry for check in checks if _revision(entry := self._newest(check.key)) != check.revision}
        transaction = None if found else self._transaction(writes)
        if transaction is not None:
            self._stage(transaction)
        answer = TransactionRefused(found) if found else Committed(self._next_revision - 1)
        if transaction is None and self._flushing is None:
            return answer  # It rests on nothing that is not durable yet.

        waiter: asyncio.Future[Committed | TransactionRefused] = asyncio.get_running_loop().create_future()
        self._staged.append(_Staged(transaction, answer, waiter))
        if self._flushing is None:
            self._flushing = tasks.begin(self._flush(), name="store flush")
        return await waiter

    def newest(self, key: str) -> Entry | None:
        self._require_open()
        return self._newest(key)

    def is_durable(self, key: str) -> bool:
        return key not in self._staged_entries

    async def settled(self) -> None:
        if self._flushing is not None:
            waiter: asyncio.Future[Committed | TransactionRefused] = asyncio.get_running_loop().create_future()
            self._staged.append(_Staged(None, Committed(self._next_revision - 1), waiter))
            await waiter

    def _newest(self, key: str) -> Entry | None:
        """What is at a key once all that is staged has happened."""
        staged = self._staged_entries.get(key)
        if staged is None:
            return self._index.live.get(key)
        return staged if isinstance(staged, Entry) else None

    def _transaction(self, writes: Sequence[Write]) -> Transaction | None:
        """What these writes do to what is there; None if that is nothing."""
        revision = self._next_revision
        changes = []
        for write in writes:
            previous = self._newest(write.key)
            if isinstance(write, Put):
                created, version = (revision, 1) if previous is None else (previous.created, previous.version + 1)
                entry = Entry(write.key, write.value, created, revision, version)
                changes.append(KeyChange(revision, write.key, entry, previous))
            elif previous is not None:
                changes.append(KeyChange(revision, write.key, None, previous))
        return Transaction(revision, tuple(changes)) if changes else None

    def _stage(self, transaction: Transaction) -> None:
        for change in transaction.changes:
            self._staged_entries[change.key] = change.entry or DeletedVersion(change.key, change.revision)
        self._next_revision += 1

    async def _flush(self) -> None:
        """Append what is staged, group by group, until there is nothing left."""
        try:
            while self._staged:
                group: list[_Staged] = []
                try:
                    # Callers that are about to commit as well come into the same group.
                    await tasks.turns(JOINING_TURNS)
                    group = self._take_group()
                    rows = [_row(staged.transaction) for staged in group if staged.transaction is not None]
                    if rows:
                        await self._log.append(rows)
                        self._durable = rows[-1].revision
                    if self._broken is not None:
                        raise OutcomeUnknown(self._broken)
                    self._publish(group)
                except StorageFull as error:
                    self._take_back(group, error)
                except OutcomeUnknown as error:
                    _logger.error("the store takes no more writes until it is opened again: %s", error)
                    self._break(group, error)
                except (
                    BaseException
                ) as error:  # A bug, or we are being stopped: also then no caller must wait for ever.
                    self._break(group, error)
                    raise
        finally:
            self._flushing = None

    def _take_group(self) -> list[_Staged]:
        count = size = 0
        for staged in self._staged[:GROUP_TRANSACTIONS_MAX]:
            count += 1
            if staged.transaction is not None:
                size += sum(len(change.entry.value) for change in staged.transaction.changes if change.entry)
            if size > GROUP_BYTES_MAX:
                break
        group, self._staged = self._staged[:count], self._staged[count:]
        return group

    def _publish(self, group: Sequence[_Staged]) -> None:
        transactions = [staged.transaction for staged in group if staged.transaction is not None]
        entries = self._staged_entries
        for transaction in transactions:
            revision = transaction.revision
            if revision != self._index.revision + 1 or revision > self._durable:
                story = {"published": self._index.revision, "durable": self._durable}
                raise broken("what is durable is published in order", f"revision {revision}", **story)
            self._index.apply(transaction)
            for change in transaction.changes:
                entry = entries.get(change.key)
                if entry is not None and entry.revision == revision:
                    del entries[change.key]
                elif entry is None or entry.revision < revision:  # A later one may have staged something else there.
                    story = {"staged": ABSENT if entry is None else entry.revision, "published": revision}
                    raise broken("a staged key belongs to the last one that writes it", f"key {change.key}", **story)
        if entries and not self._staged:
            raise broken("a staged key has a transaction that writes it", f"keys {sorted(entries)[:9]}")
        self._watches.publish(transactions)
        for staged in group:
            if not staged.waiter.done():
                staged.waiter.set_result(staged.answer)
            elif not staged.waiter.cancelled():  # A caller that was cancelled no longer wants to know.
                raise broken("a commit is answered once", f"revision {self._index.revision}", staged=len(self._staged))

    def _take_back(self, group: Sequence[_Staged], error: StoreError) -> None:
        """Nothing of what is staged has happened, nor will it: later ones built on those that did not fit."""
        _fail([*group, *self._staged], error)
        self._staged = []
        self._staged_entries.clear()
        self._next_revision = self._index.revision + 1

    def _break(self, group: Sequence[_Staged], error: BaseException) -> None:
        self._broken = str(error) or type(error).__name__
        self._breaking.set()
        _fail(group, OutcomeUnknown(f"the log failed while this was being written: {self._broken}"))
        self._take_back((), StoreUnavailable(f"the log failed before this was written: {self._broken}"))

    async def compact(self, revision: int, *, ignores_holds: bool = False) -> int:
        """`ignores_holds`: there is no memory for more, so those who hold history lose it."""
        self._require_open()
        require_revision(revision, least=FIRST_REVISION)
        self._require_writable()
        if revision > self._index.revision:
            raise FutureRevision(revision, self._index.revision)
        async with self._compacting:
            if ignores_holds:
                self._holds.give_up(revision)
            target = self._holds.limit(revision)
            if target > self._index.compacted:
                self._index.begin_compaction(target)
            # Also if there is nothing new to forget: an earlier attempt may have found no room, or was given up.
            await self._finish_compaction()
            return self._index.compacted

    async def _finish_compaction(self) -> None:
        """Forget what may be forgotten, step by step, each behind the commits that came before it."""
        while True:
            self._holds.check_kept(self._index.compacted)
            rows = self._index.compact_step(COMPACTION_STEP_CHANGES)
            if rows is None and not self._rows_to_replace:
                return
            # What the log had no room for comes first when it has: rows must be replaced in ascending order.
            self._rows_to_replace.update((row.revision, row) for row in rows or ())
            next_ones = sorted(self._rows_to_replace)[:COMPACTION_STEP_CHANGES]
            try:
                await self._log.compact(self._index.compacted, [self._rows_to_replace[each] for each in next_ones])
            except OutcomeUnknown as error:
                self._break((), error)
                raise
            for revision in next_ones:
                del self._rows_to_replace[revision]

    async def scrub(self) -> None:
        """Leave nothing on the disk of what compaction has removed. Commits wait until it is done."""
        self._require_open()
        self._require_writable()
        async with self._compacting:
            try:
                await self._log.scrub()
            except OutcomeUnknown as error:
                self._break((), error)
                raise

    async def count_rows(self) -> int:
        """How many rows the log has. 0: it keeps nothing."""
        self._require_open()
        return len(await self._log.revisions())

    async def audit(self) -> AsyncGenerator[AuditedRows, None]:
        """Read every row of the log again, some at a time, and compare them with what is served. Raises what `commit`
        raises if the log cannot be read any more."""
        self._require_open()
        index, latest = self._index, self._index.revision
        revisions = await self._log.revisions()
        for start in range(0, len(revisions), AUDIT_STEP_ROWS):
            audited = await self._log.audit(revisions[start : start + AUDIT_STEP_ROWS])
            strange = [write for row in audited.rows for write in row.writes if not index.has(write)]
            faults = [f"{each.key} at revision {each.revision} is not what is served" for each in strange]
            yield AuditedRows(audited.rows, [*audited.faults, *faults])
        kept = frozenset(revisions)
        lost = [each for each in index.live.values() if each.revision <= latest and each.revision not in kept]
        if revisions and lost:
            yield AuditedRows([], [f"{each.key} at revision {each.revision} is in no row" for each in lost])

    def hold(self, revision: int) -> RevisionHold:
        self._require_open()
        require_revision(revision, least=0)
        if revision < self._index.compacted:
            raise Compacted(self._index.compacted)
        return self._holds.take(revision)

    @property
    def history_bytes(self) -> int:
        """How much memory the history takes, besides what is there now."""
        return self._index.history_bytes

    def find_recent(self, bytes_max: int) -> int:
        """The revision to compact to, so that no more than so many bytes of history are left."""
        return self._index.find_recent(bytes_max)

    @property
    def failure(self) -> str:
        """Why the store takes no more writes. Empty: it does."""
        return self._broken or ""

    async def broken(self) -> str:
        """Wait until the log cannot be trusted any more, and return why. Such a store takes no more writes: the process
        that has opened it must end, and open it again."""
        await self._breaking.wait()
        return self._broken or ""

    async def close(self) -> None:
        self._closed = True
        if self._closing is None:
            self._closing = tasks.spawn(self._close(), name="store close")
        # One task for all callers, so that one that is cancelled does not leave it half closed.
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        if self._flushing is not None:
            await asyncio.wait([self._flushing])
        async with self._compacting:
            self._watches.close()
            await self._log.close()

    def _require_writable(self) -> None:
        if self._broken is not None:
            raise StoreUnavailable(f"the store takes no more writes until it is opened again: {self._broken}")

    def _require_open(self) -> None:
        if self._closed:
            raise StoreClosed("the store is closed")


def _revision(entry: Entry | None) -> int:
    return ABSENT if entry is None else entry.revision


def _row(transaction: Transaction) -> LogRow:
    return LogRow(
        transaction.revision,
        tuple(change.entry or DeletedVersion(change.key, change.revision) for change in transaction.changes),
    )


def _fail(group: Sequence[_Staged], error: StoreError) -> None:
    for staged in group:
        if not staged.waiter.done():
            staged.waiter.set_exception(error)
