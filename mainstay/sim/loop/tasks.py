"""Tasks, futures and handles of the simulated loop: asyncio's own, with nothing in them that differs from run to run.

A task or future hashes by a number that its loop counts up, where asyncio's hash by address: the sets that
`asyncio.wait`, `TaskGroup` and others keep them in are then in the same order in each process. Everything else is
asyncio's C code.

Not covered: a future that a program makes by itself with `asyncio.Future()`. It hashes by address, as ever.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from mainstay.sim.loop.loop import SimLoop
    from mainstay.sim.process_table import SimProcess

T = TypeVar("T")


class SimFuture(asyncio.Future[T]):
    __slots__ = ("_number",)

    def __hash__(self) -> int:
        # Counted when first asked for: few futures are ever put into a set, and all of them are made on the hot path.
        try:
            return self._number
        except AttributeError:
            loop: SimLoop = self.get_loop()  # type: ignore[assignment]
            self._number: int = loop.next_number()
            return self._number


class SimTask(asyncio.Task[T]):
    """`number` is the task's in its loop, and its name in the trace. `process` is whose code it runs."""

    __slots__ = ("number", "process")

    def __init__(
        self,
        work: Coroutine[Any, Any, T],
        loop: "SimLoop",
        name: str,
        number: int,
        context: Context | None,
        process: "SimProcess | None" = None,
    ) -> None:
        self.number = number  # First: asyncio puts the task into a set while it is being made.
        self.process = process
        super().__init__(work, loop=loop, name=name, context=context)

    def __hash__(self) -> int:
        return self.number


class SimHandle(asyncio.Handle):
    """A callback that waits for its turn. Without the parts of asyncio's handle that serve its debug mode."""

    __slots__ = ()
    _source_traceback = None
    _repr = None

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], loop: "SimLoop", context: Context | None
    ) -> None:
        self._callback: Callable[..., object] | None = callback
        self._args = args
        self._loop = loop
        self._context = copy_context() if context is None else context
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True
        # Let go of what the callback holds: a cancelled timer stays in the loop's heap until its time.
        self._callback = None
        self._args = ()


class SimTimer(SimHandle, asyncio.TimerHandle):
    """A callback that waits for a time."""

    __slots__ = ()

    def __init__(
        self,
        when_ns: int,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: "SimLoop",
        context: Context | None,
    ) -> None:
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = copy_context() if context is None else context
        self._cancelled = False
        self._when = when_ns

    def when(self) -> float:
        return self._when / 1_000_000_000
