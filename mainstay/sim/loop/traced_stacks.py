"""A trace that also remembers, for one batch of its events, which code was at work at each: to find a leak.

For what is noted that is the stack of the code that noted it. A step of the loop has none of its own, so there it is
the stack of the code that had it wait for its turn: set the timer, woke the task. To know that, `watch_origins` notes
it for each callback of the process, which costs more than the callbacks themselves: only for processes that do nothing
else."""

import asyncio
import sys
from collections.abc import Callable
from contextvars import Context
from types import CodeType, FrameType
from typing import Any, Final, SupportsIndex

import msgspec

from mainstay.sim.loop.loop import SimLoop
from mainstay.sim.loop.trace import Event, Trace

DEPTH_MAX: Final = 12
# Between the code that does something and the place where it is noted.
_PLUMBING: Final = tuple(
    f"mainstay/sim/{name}.py"
    for name in (
        *("run/choices", "run/run", "loop/loop", "loop/tasks", "loop/trace", "loop/traced_stacks"),
        *("cluster/program", "processes", "simulation"),
    )
)

Stack = tuple[tuple[CodeType, int], ...]

_origins: dict[int, Stack] = {}  # By address of the handle. One that takes the place of another takes its entry, too.


class TracedEvent(msgspec.Struct, frozen=True):
    """An event, and the code that was at work, the innermost call first."""

    event: Event
    stack: list[str]


class StackTrace(Trace):
    """Of the batch with this number `seen` has everything; it counts from 0."""

    __slots__ = ("_batch", "_now_ns", "_stacks", "before", "seen")

    def __init__(self, batch: int) -> None:
        super().__init__()
        self.buffer = _Watched(self.recorded)
        self.before = 0
        """How many events came before the batch."""
        self.seen: list[TracedEvent] = []
        self._batch = batch
        self._now_ns = 0
        self._stacks: list[Stack] = []

    def recorded(self, entry: int, frame: FrameType) -> None:
        if len(self.checkpoints) < self._batch:
            if entry < 0:
                self._now_ns = ~entry
            else:
                self.before += 1
        elif entry >= 0 and len(self.checkpoints) == self._batch:
            self._stacks.append(_origins.get(id(frame.f_locals.get("handle")), ()) if entry else _stack_from(frame))

    def end_batch(self) -> None:
        self.finish()
        super().end_batch()

    def finish(self) -> None:
        """The run is over, or the batch is."""
        if len(self.checkpoints) == self._batch and not self.seen:
            events = self.decode_events(self.buffer, self.notes, self._now_ns)
            self.seen = [TracedEvent(event, _shown(stack)) for event, stack in zip(events, self._stacks, strict=True)]


class _Watched(list[int]):
    """A list that tells what is put into it, and by whom."""

    def __init__(self, tell: Callable[[int, FrameType], None]) -> None:
        super().__init__()
        self._tell = tell

    def append(self, entry: SupportsIndex) -> None:
        super().append(int(entry))
        self._tell(int(entry), sys._getframe(1))


def watch_origins() -> None:
    """From now on, in this process and for good, know for each callback of simulated loops who had it wait."""
    soon, later = SimLoop.call_soon, SimLoop._call_at_ns

    def call_soon(
        self: SimLoop, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = soon(self, callback, *args, context=context)
        _origins[id(handle)] = _stack_from(sys._getframe(1))
        return handle

    def call_at(
        self: SimLoop, when_ns: int, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> Any:
        timer = later(self, when_ns, callback, args, context)
        _origins[id(timer)] = _stack_from(sys._getframe(1))
        return timer

    SimLoop.call_soon = call_soon  # type: ignore[method-assign,assignment]
    SimLoop._call_at_ns = call_at  # type: ignore[method-assign]


def _stack_from(frame: FrameType | None) -> Stack:
    stack: list[tuple[CodeType, int]] = []
    while frame is not None and len(stack) < DEPTH_MAX:
        code = frame.f_code
        if not code.co_filename.endswith(_PLUMBING):
            stack.append((code, frame.f_lineno))
        elif code.co_name == "_run" and code.co_filename.endswith("loop.py"):
            break  # Beyond is the code that made the run.
        frame = frame.f_back
    return tuple(stack)


def _shown(stack: Stack) -> list[str]:
    return [f"{'/'.join(code.co_filename.split('/')[-3:])}:{line} {code.co_qualname}" for code, line in stack]
