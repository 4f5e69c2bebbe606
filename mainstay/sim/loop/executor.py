"""Blocking calls without threads.

A call given to an executor runs inline, as a step of its own, some time after it was asked for. An executor with n
threads has n calls under way at most: others wait for one of them to end. A call takes no virtual time, except that
`time.sleep` inside it does: the clock goes on for the rest of the call, and its result arrives when that time has come.

What this cannot show is a call that is overtaken while it runs: its effects all happen at the moment it starts.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakKeyDictionary

from mainstay.sim.errors import MachineDead
from mainstay.sim.loop.trace import name_callback
from mainstay.sim.net.hosts import Host, current_host

if TYPE_CHECKING:
    from mainstay.sim.loop.loop import SimLoop

T = TypeVar("T")

DEFAULT_THREADS: Final = 32  # What asyncio's own default executor has on a large machine.


class InlineExecutors:
    """All executors of one loop.

    `delays_ns` is what may pass between asking for a call and its start; with more than one entry each call chooses.
    """

    def __init__(self, loop: "SimLoop") -> None:
        self.delays_ns: tuple[int, ...] = (0,)
        self.slept_ns: int | None = None  # While a call runs: for how long it has slept so far.
        self._loop = loop
        self._pools: WeakKeyDictionary[Executor, _Pool] = WeakKeyDictionary()
        self._default_pool = _Pool(DEFAULT_THREADS)

    def submit(self, executor: Executor | None, call: Callable[..., T], args: tuple[Any, ...]) -> asyncio.Future[T]:
        pool = self._default_pool if executor is None else self._pool(executor)
        future: asyncio.Future[T] = self._loop.create_future()
        pool.waiting.append((future, current_host(), call, args))
        self._fill(pool)
        return future

    def sleep(self, seconds: float) -> bool:
        """`time.sleep` was called: say whether this was inside a call, which then ends later."""
        if self.slept_ns is None:
            return False
        self.slept_ns += max(0, round(seconds * 1e9))
        return True

    def _pool(self, executor: Executor) -> "_Pool":
        if getattr(executor, "_shutdown", False):
            raise RuntimeError("cannot schedule new futures after shutdown")
        pool = self._pools.get(executor)
        if pool is None:
            pool = self._pools[executor] = _Pool(getattr(executor, "_max_workers", DEFAULT_THREADS))
        return pool

    def _fill(self, pool: "_Pool") -> None:
        while pool.free and pool.waiting:
            pool.free -= 1
            delays = self.delays_ns
            delay = delays[self._loop.choices.choose("executor delay", len(delays)) if len(delays) > 1 else 0]
            when_ns = self._loop.time_ns() + delay
            # An empty context: a thread does not see the caller's context variables either.
            self._loop.call_at_ns(when_ns, self._run_call, pool, *pool.waiting.popleft(), context=Context())

    def _run_call(
        self,
        pool: "_Pool",
        future: asyncio.Future[T],
        host: Host | None,
        call: Callable[..., T],
        args: tuple[Any, ...],
    ) -> None:
        if future.cancelled():
            self._end_call(pool, future, None, None)
            return
        result: T | None = None
        error: BaseException | None = None
        self._loop.trace.note("executor", name_callback(call))
        self.slept_ns = 0
        asyncio._set_running_loop(None)  # As on a thread, where no loop is running.
        try:
            with contextlib.nullcontext() if host is None else host.active():
                result = call(*args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except MachineDead:
            return  # No caller is left to be answered, and no thread to run the next call.
        except BaseException as raised:  # noqa: BLE001 - belongs to the code that awaits the result
            error = raised
        finally:
            asyncio._set_running_loop(self._loop)
            slept_ns, self.slept_ns = self.slept_ns, None
        self._loop.call_at_ns(self._loop.time_ns() + slept_ns, self._end_call, pool, future, result, error)

    def _end_call(
        self, pool: "_Pool", future: asyncio.Future[T], result: T | None, error: BaseException | None
    ) -> None:
        if not future.done():
            if error is None:
                future.set_result(result)  # type: ignore[arg-type]  # None only if T is.
            else:
                future.set_exception(error)
        pool.free += 1
        self._fill(pool)


class _Pool:
    """The threads that an executor would have, and the calls waiting for one."""

    __slots__ = ("free", "waiting")

    def __init__(self, threads: int) -> None:
        self.free = threads
        self.waiting: deque[tuple[asyncio.Future[Any], Host | None, Callable[..., Any], tuple[Any, ...]]] = deque()
