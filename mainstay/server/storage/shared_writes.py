"""Keys that many writes share, such as the ledger of a node or the use of a quota, and how not to fight over them.

A write that touches one does not say what it puts there but how it changes what is there: a plain function of the
entry at the moment of the commit. So a write that was too late for a shared key, and for nothing else, is worked out
again from what the store has just said and sent again, without reading or judging its object a second time.

A store in our own process has what is staged and not yet durable at hand (`newest`). A change is worked out from that
and staged behind it in the same turn of the loop: no change is ever too late, and many changes of one key go to the
disk together. A refusal waits until what it rests on is durable: clients never see what may not have happened.

Over etcd there is a *lane* for each key, in which the writers of this server take turns: of many servers each sends at
most one commit for a key at a time, and of these always one succeeds. What the last one left there is remembered, so a
turn costs one request. What is remembered may be old, which a commit finds out; a refusal is never based on it.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Final

from msgspec import Struct

from mainstay.api.errors import StatusError
from mainstay.env.invariants import broken
from mainstay.server.storage.keyspace import INTERNAL_PREFIX
from mainstay.server.storage.transact import too_many_conflicts, transact
from mainstay.store.interface import (
    ABSENT,
    Check,
    Committed,
    DeleteEntry,
    Entry,
    LocalReads,
    Put,
    Store,
    TransactionRefused,
    Write,
)

ATTEMPTS_MAX: Final = 50  # Of one write. Each in vain means that another server has succeeded.
WAITING_MAX: Final = 1000  # In one lane.
REMEMBERED_MAX: Final = 10_000  # Entries.

Change = Callable[[Entry | None], Sequence[Write] | None]
"""What a write makes of the entry that is there: what is to be written, to that key and others.

Raises `StatusError` to refuse the write; None if the write must be decided again from the beginning. May be called
often.
"""


class SharedWrite(Struct, frozen=True):
    """The change of one shared key, as part of a commit."""

    key: str
    change: Change


class SharedWrites:
    """Commits what touches shared keys. One for each store: it is where the lanes are."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._local = store.local
        self._lanes: dict[str, _Lane] = {}
        self._remembered: dict[str, Entry | None] = {}
        self.on_commit: Callable[[Sequence[SharedWrite], int], None] | None = None
        """Is called with what was committed, and at which revision. It must cost next to nothing."""

    async def read(self, key: str) -> Entry | None:
        """What is at a shared key, more or less: enough to prepare a change, not to refuse one."""
        if self._local is not None:
            return self._local.newest(key)
        if key in self._remembered:
            return self._remembered[key]
        entry = await self._store.get(key)
        self._remember(key, entry)
        return entry

    async def latest(self, key: str) -> Entry | None:
        """What is at a shared key now, with what is staged: to decide a commit from that checks it.

        Unlike `read` it does not use what is remembered: a write that is decided again has to see what has changed.
        """
        return await self._store.get(key) if self._local is None else self._local.newest(key)

    def forget(self, key: str) -> None:
        """This key was written by other means."""
        self._remembered.pop(key, None)

    async def rehearse(self, shared: Sequence[SharedWrite]) -> None:
        """For a dry run: raises `StatusError` if one of the changes would be refused now. Changes nothing."""
        for each in shared:
            each.change(await self._store.get(each.key))

    async def commit(
        self, checks: Sequence[Check], writes: Sequence[Write], shared: Sequence[SharedWrite]
    ) -> Committed | TransactionRefused:
        """Commit a decision with its changes of shared keys. Raises `StatusError`, and what stores raise.

        `TransactionRefused`: something else has changed too, decide again.
        """
        if not shared:
            return await self._store.commit(checks, writes)
        if self._local is not None:
            answer = await self._at_once(self._local, checks, writes, shared)
        else:
            async with AsyncExitStack() as turns:
                for key in sorted({each.key for each in shared}):  # All in one order, so that none waits for the other.
                    await turns.enter_async_context(self._lane(key))
                answer = await self._in_turn(checks, writes, shared)
        if self.on_commit is not None and isinstance(answer, Committed):
            self.on_commit(shared, answer.revision)
        return answer

    async def _at_once(
        self, local: LocalReads, checks: Sequence[Check], writes: Sequence[Write], shared: Sequence[SharedWrite]
    ) -> Committed | TransactionRefused:
        async def attempt() -> Committed | TransactionRefused | None:
            found = {each.key: local.newest(each.key) for each in shared}
            try:
                decided = _decided(shared, found)
            except StatusError:
                if any(not local.is_durable(key) for key in found):
                    await local.settled()
                    return None
                raise
            if decided is None:
                await local.settled()  # So that a caller that decides again sees what this has seen.
                return TransactionRefused(found)
            answer = await self._store.commit([*checks, *_checks(found)], [*writes, *decided])
            return None if isinstance(answer, TransactionRefused) and _explains_refusal(answer, found) else answer

        return _require_done(await transact(attempt, ATTEMPTS_MAX), shared)

    async def _in_turn(
        self, checks: Sequence[Check], writes: Sequence[Write], shared: Sequence[SharedWrite]
    ) -> Committed | TransactionRefused:
        stale = [each.key for each in shared if each.key in self._remembered]
        found = {each.key: await self.read(each.key) for each in shared}

        async def attempt() -> Committed | TransactionRefused | None:
            nonlocal stale
            try:
                decided = _decided(shared, found)
            except StatusError:
                if not stale:
                    raise
                decided = None
            if decided is None and stale:
                found.update({key: await self._store.get(key) for key in stale})
                stale = []
                return None
            if decided is None:
                return TransactionRefused(found)
            try:
                answer = await self._store.commit([*checks, *_checks(found)], [*writes, *decided])
            except BaseException:
                for key in found:  # What is there now is unknown.
                    self._remembered.pop(key, None)
                raise
            if isinstance(answer, Committed):
                self._learn(found, decided, answer.revision)
                return answer
            for key in found:
                if key in answer.found:
                    found[key] = answer.found[key]
                    self._remember(key, answer.found[key])
            stale = [key for key in stale if key not in answer.found]
            return None if _explains_refusal(answer, found) else answer

        return _require_done(await transact(attempt, ATTEMPTS_MAX), shared)

    def _learn(self, found: dict[str, Entry | None], decided: Sequence[Write], revision: int) -> None:
        for write in decided:
            if write.key in found:
                match write:
                    case Put(key, value):
                        self._remember(key, Entry(key, value, revision, revision, 1))
                    case DeleteEntry(key):
                        self._remember(key, None)

    def _remember(self, key: str, entry: Entry | None) -> None:
        self._remembered.pop(key, None)
        self._remembered[key] = entry
        if len(self._remembered) > REMEMBERED_MAX:
            del self._remembered[next(iter(self._remembered))]

    def _lane(self, key: str) -> "_Lane":
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane(self._lanes, key)
        return lane


class _Lane:
    """Where the writers of one key take turns, in the order in which they came. It is there while it has writers."""

    __slots__ = ("_count", "_key", "_lanes", "_lock")

    def __init__(self, lanes: dict[str, "_Lane"], key: str) -> None:
        self._lanes = lanes
        self._key = key
        self._lock = asyncio.Lock()
        self._count = 0

    async def __aenter__(self) -> None:
        if self._count >= WAITING_MAX:
            raise _contended(self._key)
        self._count += 1
        try:
            await self._lock.acquire()
        except BaseException:
            self._leave()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()
        self._leave()

    def _leave(self) -> None:
        self._count -= 1
        if self._count < 0 or self._lanes.get(self._key) is not self:
            story = {"writers": self._count, "is_known": self._key in self._lanes}
            raise broken("a shared key has one lane while there are writers in it", f"key {self._key}", **story)
        if not self._count:
            del self._lanes[self._key]


def _decided(shared: Sequence[SharedWrite], found: dict[str, Entry | None]) -> list[Write] | None:
    writes: list[Write] = []
    for each in shared:
        more = each.change(found[each.key])
        if more is None:
            return None
        writes += more
    return writes


def _checks(found: dict[str, Entry | None]) -> list[Check]:
    return [Check(key, ABSENT if entry is None else entry.revision) for key, entry in found.items()]


def _explains_refusal(answer: TransactionRefused, found: dict[str, Entry | None]) -> bool:
    """Whether nothing but shared keys was in the way."""
    return all(key in found for key in answer.found)


def _require_done(
    answer: Committed | TransactionRefused | None, shared: Sequence[SharedWrite]
) -> Committed | TransactionRefused:
    if answer is None:
        raise _contended(shared[0].key)
    return answer


def _contended(key: str) -> StatusError:
    return too_many_conflicts(key.removeprefix(INTERNAL_PREFIX))
