"""The one store of a simulated cluster as each of its servers has it.

The store is a process of its own. What a server asks of it goes on there by itself: a commit that has been asked for
happens, also if the server is dead by then, and nothing that the store has begun ever depends on a server's living on.
Reads are answered at once from the store's memory, as they are within one process.

A port belongs to one incarnation of one server. When that is over, `close` lets go of its watches.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from contextvars import Context, ContextVar
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from mainstay.sim.processes import Process
from mainstay.store.errors import Compacted
from mainstay.store.interface import Batch, Check, Committed, Entry, Hold, Page, Refused, Write
from mainstay.store.local import LocalStore
from mainstay.store.local_watch import LocalWatch

T = TypeVar("T")

REQUEST: Final[ContextVar[int]] = ContextVar("mainstay.sim.request")
"""The number of the request that the running code of a server works for."""


class StoreProcess:
    """The store itself, and which request each revision is due to."""

    def __init__(self, store: LocalStore, process: Process) -> None:
        self.store = store
        self.requests: dict[int, int] = {}
        """By revision, for those that nobody has asked about yet."""
        self._context: Context = process.context()

    async def commit(self, checks: Sequence[Check], writes: Sequence[Write]) -> Committed | Refused:
        return await self._carry_out(self._commit(checks, writes, REQUEST.get(None)), "store commit")

    async def compact(self, revision: int) -> int:
        return await self._carry_out(self.store.compact(revision), "store compact")

    async def _carry_out(self, work: Coroutine[Any, Any, T], name: str) -> T:
        task = asyncio.get_running_loop().create_task(work, name=name, context=self._context)
        return await asyncio.shield(task)  # Whoever waits may give up; the work goes on.

    async def _commit(
        self, checks: Sequence[Check], writes: Sequence[Write], request: int | None
    ) -> Committed | Refused:
        answer = await self.store.commit(checks, writes)
        if request is not None and isinstance(answer, Committed):
            # If nothing had to change, the revision is that of somebody else, who was here before.
            self.requests.setdefault(answer.revision, request)
        return answer


class StorePort:
    """Implements `Store` (store/interface.py)."""

    def __init__(self, process: StoreProcess) -> None:
        self._process = process
        self._store = process.store
        self._watches: dict[PortWatch, None] = {}
        self.is_current = asyncio.Event()
        """Cleared while the server hears of nothing."""
        self.is_current.set()
        self._states_at: int | None = None
        self.look = self._store.look  # What a store in memory can do besides (server/app.py).

    async def get(self, key: str, *, at: int | None = None) -> Entry | None:
        return await self._store.get(key, at=at)

    async def range(
        self, prefix: str, *, at: int | None = None, limit: int | None = None, after: str | None = None
    ) -> Page:
        if at is None and limit is None:
            at = self._states_at
        return await self._store.range(prefix, at=at, limit=limit, after=after)

    def watch(self, prefix: str, *, after: int) -> "PortWatch":
        watch = PortWatch(self, self._store.watch(prefix, after=after))
        self._watches[watch] = None
        return watch

    def forget(self, watch: "PortWatch") -> None:
        self._watches.pop(watch, None)

    async def commit(self, checks: Sequence[Check], writes: Sequence[Write]) -> Committed | Refused:
        return await self._process.commit(checks, writes)

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
        for watch in list(self._watches):
            watch.close()

    def hold_back(self, *, states_at: int | None = None) -> None:
        """Let the server hear of nothing that happens in the store, until it may catch up. With `states_at`, whoever
        begins to watch meanwhile is told the state as of that revision, as by a server that answers from what it has in
        memory. What is read piece by piece, or one by one, is as ever."""
        self.is_current.clear()
        self._states_at = states_at

    def catch_up(self) -> None:
        self._states_at = None
        self.is_current.set()

    def fall_behind(self, compacted: int) -> None:
        """As if this server had not been able to follow for so long that what it missed was compacted."""
        for watch in list(self._watches):
            watch.fail(Compacted(compacted))


class PortWatch:
    """Implements `Watch` (store/interface.py)."""

    def __init__(self, port: StorePort, inner: LocalWatch) -> None:
        self._port = port
        self._inner = inner
        self._error: Compacted | None = None

    def fail(self, error: Compacted) -> None:
        """End it with this error."""
        self._error = error
        self._inner.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
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
