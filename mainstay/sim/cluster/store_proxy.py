"""The one store of a simulated cluster as each of its servers has it.

The store is a process of its own. What a server asks of it goes on there by itself: a commit that has been asked for
happens, also if the server is dead by then, and nothing that the store has begun ever depends on a server's living on.
Reads are answered at once from the store's memory, as they are within one process, unless a fault makes the way to the
store slow (faults/slow_store.py).

A port belongs to one incarnation of one server. When that is over, `close` lets go of its watches.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import Context, ContextVar
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from mainstay.sim.active_faults import ActiveFaults, Release
from mainstay.sim.process_table import SimProcess
from mainstay.store.errors import Compacted, OutcomeUnknown, StoreUnavailable
from mainstay.store.interface import Check, Committed, Entry, Hold, RangePage, TransactionRefused, WatchBatch, Write
from mainstay.store.local import LocalStore
from mainstay.store.local_watch import LocalWatch

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RequestContext:
    """A request that a server works for."""

    request: int
    """Its number."""
    who: str


REQUEST_CONTEXT: Final[ContextVar[RequestContext]] = ContextVar("mainstay.sim.asking")
"""What the running code of a server works for."""


@dataclass(frozen=True, slots=True)
class StaleReader:
    """A client that may be shown an old state, one that is at least of this revision."""

    oldest: int
    is_newcomer: bool = False
    """It has never been told of what it asks for, and cannot know that it is old."""


STALE_READER: Final[ContextVar[StaleReader]] = ContextVar("mainstay.sim.content")
"""For whom the running code of a server reads a state, if that may be old."""


@dataclass(frozen=True, slots=True)
class _Past:
    """An old state that is shown."""

    hold: Hold
    """It is not compacted while it is shown."""
    fools_newcomers: bool


Meddle = Callable[[str, Sequence[Check], Sequence[Write]], Awaitable[None] | None]
"""Called with who wants what committed, before it is."""


class StoreStep(StrEnum):
    """What takes time where the way to the store is slow."""

    READ = "read"
    """After the store has read, until the server has it."""
    COMMIT = "commit"
    """Before the store commits."""
    ANSWER = "answer"
    """After it has, until the server is told."""


DrawWait = Callable[[StoreStep], timedelta]
"""Says how long one step takes, each time."""


class StoreProcess:
    """The store itself, and which request each revision is due to. `end` is for one that is no more."""

    def __init__(self, store: LocalStore, process: SimProcess) -> None:
        self.store = store
        self.process = process
        self.requests: dict[int, int] = {}
        """By revision, for those that were not asked about yet."""
        self._context: Context = process.context()
        self._waiting: dict[asyncio.Future[Any], None] = {}
        self._is_dead = False

    async def commit(
        self, checks: Sequence[Check], writes: Sequence[Write], before_s: float = 0, after_s: float = 0
    ) -> Committed | TransactionRefused:
        """On behalf of the request that the caller works for, if it does for one. It takes so long until it is done,
        and until the caller is told."""
        asking = REQUEST_CONTEXT.get(None)
        request = None if asking is None else asking.request
        return await self._carry_out(self._commit(checks, writes, request, before_s, after_s), "store commit")

    async def compact(self, revision: int) -> int:
        return await self._carry_out(self.store.compact(revision), "store compact")

    def end(self) -> None:
        """The process is dead: callers that wait for it get `OutcomeUnknown`."""
        self._is_dead = True
        for waiter in list(self._waiting):
            if not waiter.done():
                waiter.set_exception(OutcomeUnknown("the store is gone"))
                waiter.exception()  # Those who wait may be dead too, which does no harm.

    async def _carry_out(self, work: Coroutine[Any, Any, T], name: str) -> T:
        if self._is_dead:
            work.close()
            raise StoreUnavailable("the store is gone")
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[T] = loop.create_future()
        self._waiting[waiter] = None

        def done(task: asyncio.Task[T]) -> None:
            self._waiting.pop(waiter, None)
            error = None if task.cancelled() else task.exception()
            if waiter.done():
                return  # The caller has given up; the work went on.
            if task.cancelled():
                waiter.cancel()
            elif error is not None:
                waiter.set_exception(error)
                waiter.exception()  # As in `end`.
            else:
                waiter.set_result(task.result())

        # In no process: the caller resumes in its own.
        loop.create_task(work, name=name, context=self._context).add_done_callback(done, context=Context())
        return await waiter

    async def _commit(
        self, checks: Sequence[Check], writes: Sequence[Write], request: int | None, before_s: float, after_s: float
    ) -> Committed | TransactionRefused:
        if before_s:
            await asyncio.sleep(before_s)
        answer = await self.store.commit(checks, writes)
        if request is not None and isinstance(answer, Committed):
            # If nothing had to change, the revision is that of an earlier writer.
            self.requests.setdefault(answer.revision, request)
        if after_s:
            await asyncio.sleep(after_s)
        return answer


class StoreProxy:
    """Implements `Store` (store/interface.py)."""

    def __init__(self, process: StoreProcess, meddle: Meddle | None = None) -> None:
        self._process = process
        self._meddle = meddle
        self._store = process.store
        self._watches: dict[StoreProxyWatch, None] = {}
        self.is_current = asyncio.Event()
        """Cleared while the server hears of nothing."""
        self.is_current.set()
        self._silences: ActiveFaults[None] = ActiveFaults(self._silences_changed)
        self._pasts: ActiveFaults[_Past] = ActiveFaults(_nothing)
        self._waits: ActiveFaults[DrawWait] = ActiveFaults(_nothing)

    @property
    def memory(self) -> LocalStore:
        return self._store

    @property
    def local(self) -> None:
        """Several servers write it."""

    async def get(self, key: str, *, at: int | None = None) -> Entry | None:
        entry = await self._store.get(key, at=at)
        if self._waits:
            await asyncio.sleep(self._draw_wait_s(StoreStep.READ))
        return entry

    async def range(
        self, prefix: str, *, at: int | None = None, limit: int | None = None, after: str | None = None
    ) -> RangePage:
        if at is None and limit is None and self._pasts:
            at = self._past_for(STALE_READER.get(None))
        page = await self._store.range(prefix, at=at, limit=limit, after=after)
        if self._waits:
            await asyncio.sleep(self._draw_wait_s(StoreStep.READ))
        return page

    def _past_for(self, content: StaleReader | None) -> int | None:
        """The revision that is shown to a client, if it is an old one."""
        if content is None:
            return None
        pasts = [past for past in self._pasts if past.fools_newcomers or not content.is_newcomer]
        return max(min(past.hold.revision for past in pasts), content.oldest) if pasts else None

    def watch(self, prefix: str, *, after: int) -> "StoreProxyWatch":
        watch = StoreProxyWatch(self, self._store.watch(prefix, after=after))
        self._watches[watch] = None
        return watch

    def forget(self, watch: "StoreProxyWatch") -> None:
        self._watches.pop(watch, None)

    async def commit(self, checks: Sequence[Check], writes: Sequence[Write]) -> Committed | TransactionRefused:
        asking = REQUEST_CONTEXT.get(None)
        if self._meddle is not None and asking is not None:
            meddling = self._meddle(asking.who, checks, writes)
            if meddling is not None:
                await meddling
        if not self._waits:
            return await self._process.commit(checks, writes)
        before_s, after_s = self._draw_wait_s(StoreStep.COMMIT), self._draw_wait_s(StoreStep.ANSWER)
        return await self._process.commit(checks, writes, before_s, after_s)

    def _draw_wait_s(self, step: StoreStep) -> float:
        return max(draw(step).total_seconds() for draw in self._waits)

    async def revision(self) -> int:
        return await self._store.revision()

    async def compact(self, revision: int) -> int:
        return await self._process.compact(revision)

    def hold(self, revision: int) -> Hold:
        return self._store.hold(revision)

    async def close(self) -> None:
        """The server is done with it. The store goes on for the others."""
        self.let_go()

    def let_go(self) -> None:
        """End what the server had open, also if it is dead."""
        for past in self._pasts:
            past.hold.release()
        self._pasts.clear()
        for watch in list(self._watches):
            watch.close()

    def hold_back(self, *, states_at: int | None = None, fools_newcomers: bool = True) -> Release:
        """Let the server hear of nothing that happens in the store, until it may catch up: when all have let go who
        hold it back. With `states_at`, a client that begins to watch meanwhile, or lists and is content with any
        version, is told the state as of that revision, as by a server that answers from what it has in memory; the
        oldest, if there are several. Other reads are as ever; and so is what newcomers are told, if they are not to be
        fooled. Raises `Compacted` if that state is gone; until then it is not compacted."""
        past = None if states_at is None else _Past(self._store.hold(states_at), fools_newcomers)
        hear_again = self._silences.add(None)
        forget = _nothing if past is None else self._pasts.add(past)

        def catch_up() -> None:
            forget()
            if past is not None:
                past.hold.release()
            hear_again()

        return catch_up

    def slow_down(self, draw_wait: DrawWait) -> Release:
        """Let each read take time after it was made, and each commit before it is made and until it is answered. The
        longest wait counts, if there are several. Commits of one server may overtake each other."""
        return self._waits.add(draw_wait)

    def _silences_changed(self) -> None:
        if self._silences:
            self.is_current.clear()
        else:
            self.is_current.set()

    def fall_behind(self, compacted: int) -> None:
        """As if this server had not been able to follow for so long that what it missed was compacted."""
        for watch in list(self._watches):
            watch.fail(Compacted(compacted))


class StoreProxyWatch:
    """Implements `StoreWatch` (store/interface.py)."""

    def __init__(self, port: StoreProxy, inner: LocalWatch) -> None:
        self._port = port
        self._inner = inner
        self._error: Compacted | None = None

    def fail(self, error: Compacted) -> None:
        """End it with this error."""
        self._error = error
        self._inner.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WatchBatch:
        try:
            batch = await self._inner.__anext__()
            await self._port.is_current.wait()
            return batch
        except StopAsyncIteration:
            if self._error is not None:
                raise self._error from None
            raise

    def close(self) -> None:
        self._port.forget(self)
        self._inner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _nothing() -> None:
    """There is nothing to do."""
