"""Doing several things at once: spawn, sleep, time limits, and blocking calls off the loop.

A thin layer over asyncio, there for three reasons. A spawned task is held until it ends (asyncio itself keeps only a
weak reference) and its failure is never silent. Durations are `timedelta`, so no number is without a unit. And there
is one place to look for everything that waits.

The running event loop is the seam: under the simulator the same calls wait in virtual time, and `Worker` runs its
calls inline, as steps of the simulated schedule.
"""

import asyncio
import contextlib
import types
from collections.abc import Callable, Coroutine, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any, ParamSpec, TypeVar

import uvloop

P = ParamSpec("P")
T = TypeVar("T")

# The running tasks of each loop. The sets are only added to and removed from, never iterated, so their order has no
# effect.
_held: dict[asyncio.AbstractEventLoop, set[asyncio.Task[Any]]] = {}


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a program's main coroutine on the production loop, until it returns."""
    return uvloop.run(main)


def spawn(work: Coroutine[Any, Any, T], *, name: str, expected: type[Exception] | tuple[()] = ()) -> asyncio.Task[T]:
    """Start a task that lives until it ends or is cancelled. If it fails, the loop's exception handler hears of it;
    not of what is `expected`. A task that must not end is spawned by vital.py.
    """
    loop = asyncio.get_running_loop()
    task = loop.create_task(work, name=name)
    _held_on(loop).add(task)
    task.add_done_callback(partial(_ended, expected) if expected else _ended_at_all)
    return task


def begin(work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
    """As `spawn`, at half the price, for what is done thousands of times a second: the caller holds the task until it
    ends. If it fails and is not awaited, the loop's exception handler is called when the task is released."""
    return asyncio.get_running_loop().create_task(work, name=name)


def _held_on(loop: asyncio.AbstractEventLoop) -> set[asyncio.Task[Any]]:
    held = _held.get(loop)
    if held is None:
        # Simulated loops are closed with their tasks unfinished, thousands in one process: do not hold those for ever.
        for closed in [other for other in _held if other.is_closed()]:
            del _held[closed]
        held = _held[loop] = set()
    return held


def _ended_at_all(task: asyncio.Task[Any]) -> None:
    _ended((), task)


def _ended(expected: type[Exception] | tuple[()], task: asyncio.Task[Any]) -> None:
    _held_on(task.get_loop()).discard(task)
    if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, expected):
        task.get_loop().call_exception_handler(
            {"message": f"task {task.get_name()!r} failed", "exception": error, "task": task}
        )


async def together(works: Iterable[Coroutine[Any, Any, None]], *, name: str) -> None:
    """Run all of them until all have ended. When one fails, the others are cancelled and its exception is raised."""
    loop = asyncio.get_running_loop()
    running = [loop.create_task(work, name=f"{name} {number}") for number, work in enumerate(works)]
    if not running:
        return
    try:
        await asyncio.wait(running, return_when=asyncio.FIRST_EXCEPTION)
        for task in running:
            if task.done() and not task.cancelled():
                task.result()
    finally:
        for task in running:
            task.cancel()
        await asyncio.wait(running)
        for task in running:
            if not task.cancelled():
                task.exception()  # Of several failures the first is raised; the rest has now been heard of.


async def until_one_ends(works: Iterable[Coroutine[Any, Any, Any]], *, name: str) -> None:
    """Run all of them until one has ended. The others are cancelled, and waited for. What it raised is raised."""
    loop = asyncio.get_running_loop()
    running = [loop.create_task(work, name=f"{name} {number}") for number, work in enumerate(works)]
    try:
        await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for task in running:
            if task.done() and not task.cancelled():
                task.result()
    finally:
        for task in running:
            task.cancel()
        await asyncio.wait(running)
        for task in running:
            if not task.cancelled():
                task.exception()


async def stop(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait until it has ended, however it ends. A failure was already reported by `spawn`."""
    task.cancel()
    await asyncio.wait([task])


async def shielded(work: Coroutine[Any, Any, T], *, name: str) -> T:
    """Wait for some work that goes on to its end even if the caller is cancelled."""
    return await asyncio.shield(spawn(work, name=name))


async def sleep(duration: timedelta) -> None:
    await asyncio.sleep(duration.total_seconds())


@types.coroutine
def turns(count: int) -> Generator[None, None, None]:
    """Let all others that are ready have so many turns. The same as sleeping for no time, for what is done often."""
    for _ in range(count):
        yield


def timeout(duration: timedelta | None) -> contextlib.AbstractAsyncContextManager[asyncio.Timeout]:
    """Limit the time of the block; `None` is no limit. Raises `TimeoutError` from the block."""
    return asyncio.timeout(None if duration is None else duration.total_seconds())


class Worker:
    """Runs blocking calls one after the other on a thread of its own, in the order they were asked for."""

    def __init__(self, name: str) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)

    def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """Start a call. Cancelling the returned future does not stop a call that has begun."""
        if kwargs:
            raise TypeError("Worker.run takes positional arguments only")
        return asyncio.get_running_loop().run_in_executor(self._executor, call, *args)

    def close(self) -> None:
        """Let the thread go once its calls are done. Does not wait."""
        self._executor.shutdown(wait=False)
