"""The schedule of loops that look at everything, every so often: node health, repair, pod garbage.

    pause ─► look: view and memory ─► decide ─► steps ─► act on each, in order ─► record ─┐
      ▲                                                                                  │
      └──────────────────────────────────────────────────────────────────────────────────┘

A pass decides without awaiting: what the caches show then is its view, and what else it goes by (when a node was last
heard, what was found before) its memory. Each of its steps is about another object and has a record of its own, which
its writes name: `NAME-….3` is the fourth step. What fails is found again by a later pass.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Generic, TypeVar

from mainstay.client.call import WriteOptions
from mainstay.client.errors import ApiError, Fenced, Throttled, Unavailable
from mainstay.client.informer import Informer
from mainstay.env import tasks
from mainstay.journal.record import Ending, Outcome, RecordedMemory, Subject, ViewPart, WriteResult, micros
from mainstay.loop.act import OwnWrite
from mainstay.loop.freshness import Freshness, find_behind
from mainstay.loop.kernel import Kernel, LoopContext
from mainstay.loop.own_writes import OwnWrites
from mainstay.loop.record import Decided, make_record, name_view, pack_memory
from mainstay.loop.view import NO_SUBJECT

_logger = logging.getLogger(__name__)

Writes = Callable[[], WriteOptions]
"""What the next write of a step carries. One that names neither a uid nor a version is an operation of its own."""

S = TypeVar("S")
"""A step: a frozen value."""


@dataclass(slots=True)
class Pass:
    """One look at everything: its name, its view, and when."""

    name: str
    view: tuple[ViewPart, ...]
    now: datetime
    known: Any
    """What it went by besides the view: a frozen value."""
    _memory: RecordedMemory | None = field(default=None, repr=False)

    def step(self, number: int) -> str:
        return f"{self.name}.{number}"

    @property
    def memory(self) -> RecordedMemory:
        if self._memory is None:
            self._memory = pack_memory(self.known)
        return self._memory


class PeriodicLoop(Generic[S]):
    """Subclass it: `look` decides and calls `carry_out`, `act` does one step, `describe` tells of it."""

    name: str
    every: timedelta
    first_after: timedelta = timedelta(0)
    step_within: timedelta = timedelta(seconds=10)
    """How long one step may take."""
    freshness: Mapping[type[Any], Freshness]
    """By the type of a step: whether it may be carried out on a view that is old (freshness.py). What a `FRESH_READ`
    follows from, `act` reads from the server."""
    pass_within: timedelta | None = None
    """Steps that were decided on longer ago are not begun any more. None: all are."""

    def __init__(self, context: LoopContext, informers: Sequence[Informer]) -> None:
        self.kernel = Kernel(self.name, context)
        self.informers = informers
        self.wrote_ns = 0
        """When the last write was answered, on the monotonic clock."""
        self._own_writes = OwnWrites({each.cache.kind: each.cache for each in informers})

    # What a subclass says.

    async def look(self) -> None:
        """Decide about everything, and act. Raises `ApiError`: what is left will be found again."""
        raise NotImplementedError

    async def act(self, step: S, write: Writes) -> Sequence[OwnWrite] | None:
        """Carry out one step. None: there was nothing to do after all. Raises `ApiError`."""
        raise NotImplementedError

    def describe(self, step: S) -> Decided:
        """A step as its record has it, with its subject."""
        raise NotImplementedError

    def may_act(self, step: S) -> bool:
        """Whether a step that was decided on may still be carried out."""
        return True

    def ends_pass(self, error: ApiError, is_late: bool) -> bool:
        """Whether no further step is tried after a failure. `is_late`: the step took longer than it may."""
        return isinstance(error, (Unavailable, Throttled))

    @property
    def waits_for(self) -> Sequence[Informer]:
        """The caches that have to be filled: those of the view, and what else is read."""
        return self.informers

    def begin(self) -> None:
        """Called when the caches are filled."""

    def end(self) -> None:
        """Called at the end, if `begin` was."""

    def paused(self, took: timedelta) -> None:
        """Called after each pause, which should have taken `every`."""

    # What they share.

    async def run(self) -> None:
        """Until cancelled. Raises `Deposed` when the term is over, `CacheStopped` when a cache is not fed any more."""
        await self.kernel.ready(self.waits_for)
        self.begin()
        try:
            with self.kernel.gate:
                if self.first_after:
                    await self._pause(self.first_after)
                while True:
                    if self.kernel.gate.held is None:
                        await self._look()
                    await self._pause(self.every)
        finally:
            self.end()

    async def _look(self) -> None:
        self.kernel.require()
        try:
            with self.kernel.fencing():
                await self.look()
        except ApiError as error:
            _logger.warning("%s: pass incomplete: %s", self.name, error)

    async def _pause(self, length: timedelta) -> None:
        before_ns = self.kernel.clock.monotonic_ns()
        await tasks.sleep(length)
        self.paused(timedelta(microseconds=(self.kernel.clock.monotonic_ns() - before_ns) // 1000))

    def sees_own_writes(self) -> bool:
        """Whether the caches show all that was written here."""
        return self._own_writes.is_seen(NO_SUBJECT)

    def begin_pass(self, known: Any, now: datetime) -> Pass:
        """Name what is decided on at this moment."""
        return Pass(self.kernel.next_decision(), name_view(self.informers), now, known)

    async def carry_out(self, looked: Pass, steps: Sequence[S]) -> bool:
        """In order. False: not all were tried; what is left will be found again."""
        clock = self.kernel.clock
        until_ns = None if self.pass_within is None else clock.monotonic_ns() + _ns(self.pass_within)
        for number, step in enumerate(steps):
            self.kernel.require()
            left_ns = _ns(self.step_within)
            if until_ns is not None:
                left_ns = min(left_ns, until_ns - clock.monotonic_ns())
            if left_ns <= 0 or self.kernel.gate.held is not None:
                return False
            if self._is_fresh(step) and self.may_act(step) and not await self._try(looked, number, step, left_ns):
                return False
        return True

    def _is_fresh(self, step: S) -> bool:
        """Whether a step may be tried on this view. One that may not is found again by a later pass."""
        if self.freshness[type(step)] is not Freshness.FRESH_READ:
            return True
        behind = find_behind(self.informers)
        if behind:
            _logger.info("%s: %s waits for a newer view: %s", self.name, type(step).__name__, behind)
        return not behind

    async def _try(self, looked: Pass, number: int, step: S, left_ns: int) -> bool:
        """Carry out a step and record what came of it. False: the pass ends with it."""
        decision, is_late = looked.step(number), False
        try:
            async with tasks.timeout(timedelta(microseconds=left_ns // 1000)):
                wrote = await self.act(step, self._writes(decision, self.freshness[type(step)]))
        except TimeoutError:
            is_late = True
            failure: ApiError = Unavailable(f"no answer within {left_ns / 1e9:g}s")
        except Fenced:
            raise
        except ApiError as error:
            failure = error
        else:
            if wrote is not None:
                self._done(looked, decision, step, wrote)
            return True
        self.kernel.counters.failures += 1
        _logger.warning("%s: %s failed: %s", self.name, type(step).__name__, failure)
        self._record(looked, decision, step, Outcome(Ending.RETRY, type(failure).__name__, str(failure)))
        return not self.ends_pass(failure, is_late)

    def _done(self, looked: Pass, decision: str, step: S, wrote: Sequence[OwnWrite]) -> None:
        self.kernel.counters.actions += 1
        for each in wrote:
            self._own_writes.wrote(NO_SUBJECT, each)
            self.wrote_ns = self.kernel.clock.monotonic_ns()
        self._record(looked, decision, step, Outcome(Ending.DONE), wrote)

    def _writes(self, decision: str, freshness: Freshness) -> Writes:
        return lambda: self.kernel.write(decision, freshness=freshness)

    def _record(self, looked: Pass, decision: str, step: S, outcome: Outcome, wrote: Sequence[OwnWrite] = ()) -> None:
        if self.kernel.recorder is None:
            return
        decided = self.describe(step)
        made = make_record(
            self.kernel.origin,
            decision,
            decided.subject or _NO_ONE,
            outcome,
            micros(self.kernel.clock.wall()),
            micros(looked.now),
            view=looked.view,
            memory=looked.memory,
            reasons=decided.reasons,
            actions=decided.actions,
            writes=tuple([WriteResult(each.kind.text, *each.key, each.revision) for each in wrote]),
        )
        self.kernel.recorder(made)


_NO_ONE: Final = Subject("", "", "")


def _ns(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1) * 1000
