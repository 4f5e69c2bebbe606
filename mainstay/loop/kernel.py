"""The kernel: what every loop does around its decisions, on whichever schedule it decides.

    ready      caches are filled, and have reached the start of the term; it is known which controllers are held
    gate       shut while a Hold holds the controller (holds.py)
    require    the leader may still act, as far as it knows (term.py)
    fencing    a write that the server refuses because its term is over ends the loop with `Deposed`
    write      what each write carries: decision, operation, cause, term, field manager
    record     the journal's record of a decision (record.py)
    warn       an Event that stands by itself
    counters   what the metrics show

There are three schedules. A decider says what it reads, decides and does; the schedule says when, and the kernel does
the rest:

    controller_loop.py   per key, from a queue that changes feed, on caches
    periodic.py          everything, every so often, on caches
    fresh_read.py        per key, from a queue, on what was just read from the server

The scheduler's cycle is a hot loop of its own (scheduler/cycle.py) under the same kernel.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from mainstay.api import times
from mainstay.api.feature_gates import DEFAULT_GATES, FeatureGates
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import EVENTS
from mainstay.client.call import WriteOptions
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, ApiError, Fenced
from mainstay.client.informer import Informer, Informers
from mainstay.client.intent import Intent
from mainstay.env import Env
from mainstay.loop.decider import Decider
from mainstay.loop.events import EventRecorder, InvolvedObject, ObjectEvent, build_event
from mainstay.loop.freshness import Freshness
from mainstay.loop.holds import Holding, known, make_gate
from mainstay.loop.queue.work_queue import WorkQueue
from mainstay.loop.queue_settings import LiveQueueSettings
from mainstay.loop.record import Origin, Recorder
from mainstay.loop.term import Deposed, Term

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoopContext:
    """What a loop is given by the process in which it runs, for one term."""

    client: Client
    informers: Informers
    """Shared by all loops of a process: one for each collection."""
    env: Env
    term: Term | None = None
    """None: there is no election, and every process acts."""
    recorder: Recorder | None = None
    build: str = ""
    events: EventRecorder | None = None
    """None: no Events are published."""
    holding: Holding | None = None
    queue_settings: LiveQueueSettings | None = None
    gates: FeatureGates = DEFAULT_GATES


@dataclass(slots=True)
class LoopCounters:
    """Since the loop was made."""

    decisions: int = 0
    actions: int = 0
    failures: int = 0
    bugs: int = 0
    """Times that `decide` has raised."""
    waits_for_own_writes: int = 0
    late_own_writes: int = 0
    """Times that a cache took longer than `caught_up_within`."""
    errors_in_a_row: int = 0
    """Decisions since the last good one that failed through no fault of their objects: `decide` raised, or no server
    took the write. Evidence `ControllerErrors` (signals.py)."""


class Kernel:
    """Of one loop, for one term."""

    def __init__(
        self,
        name: str,
        context: LoopContext,
        queue: WorkQueue[Any] | None = None,
        *,
        resumed: Callable[[], None] | None = None,
        component: str = "",
    ) -> None:
        """`queue` stands still while the loop is held. `component` is what its records are called by, if not `name`."""
        self.name = name
        self.client = context.client
        self.clock = context.env.clock
        self.events = context.events
        self.recorder = context.recorder
        self.queue = queue
        self.counters = LoopCounters()
        self.term_text = context.term.text if context.term is not None else ""
        self._origin = Origin(component or name, context.build, self.term_text, context.gates.changed)
        self._queue_settings = context.queue_settings
        # A process may lead again later, with another loop: no id of an earlier term may be used again.
        self.chance = context.env.chance.child(name, self.term_text)
        self._term = context.term
        self._holding = context.holding
        if queue is not None and context.queue_settings is not None:
            context.queue_settings.add(queue)
        pause = queue.pause if queue is not None else _do_nothing
        resume = resumed or (queue.resume if queue is not None else _do_nothing)
        self.gate = make_gate(context.holding, name, context.term, pause, resume, component)

    @property
    def origin(self) -> Origin:
        """Where its records come from, with the settings that its queue follows at this moment."""
        if self.queue is None or self._queue_settings is None:
            return self._origin
        followed = self._queue_settings.followed(self.queue.name)
        return replace(self._origin, flags=(*self._origin.flags, *followed)) if followed else self._origin

    async def ready(self, informers: Iterable[Informer], *, from_term: bool = True) -> None:
        """Wait until decisions may begin. Raises `CacheStopped` when a cache is not fed any more.

        A cache that is not filled shows what is missing in it as deleted; one from before this term does not show what
        the last leader did, which would be done again. A server that sends bookmarks once a minute, as Kubernetes does,
        lets a new leader wait for as long; decisions on fresh reads need not (`from_term=False`).
        """
        for informer in informers:
            await informer.synced()
            if self._term is not None and from_term:
                await informer.cache.wait_until(self._term.revision)
        await known(self._holding, self._term)

    def require(self) -> None:
        """Raise `Deposed` unless this leader may still act, as far as it knows."""
        if self._term is not None:
            self._term.require()

    @contextmanager
    def fencing(self) -> Iterator[None]:
        """Around what writes: `Fenced` means that the term is over, and becomes `Deposed`."""
        try:
            yield
        except Fenced as error:
            if self._term is not None:
                self._term.lost()
            raise Deposed(str(error)) from error

    def next_decision(self) -> str:
        """The id of the next decision."""
        self.counters.decisions += 1
        return f"{self.name}-{self.chance.uid('decision', self.counters.decisions)}"

    def write(
        self, decision: str = "", cause: str = "", *, seen: str = "", freshness: Freshness = Freshness.MAY_BE_STALE
    ) -> WriteOptions:
        """What a write carries besides the object. `seen` is what its decision has seen of the object, if the request
        does not say it (client/intent.py)."""
        return WriteOptions(
            field_manager=self.name,
            decision=decision,
            cause=cause,
            term=self.term_text,
            must_be_conditional=freshness is Freshness.SEEN_VERSION,
            intent=Intent(self.name, decision, seen),
        )

    async def warn(self, kind: KindName, about: Object, reason: str, message: str, write: WriteOptions) -> None:
        """Publish a warning about an object: an Event that stands by itself, best effort. The same about the same
        object at the same time is published once. What is done often goes through `events`, which combines it."""
        now = self.clock.wall()
        at = times.format_time(now)
        same = f"{message} at {at}"
        said = ObjectEvent(
            InvolvedObject.of(kind, about), reason, message, now, True, identity=same, decision=write.decision
        )
        try:
            await self.client.create(EVENTS, build_event(said, self.name, "", at), said.namespace, write=write)
        except AlreadyExists:
            pass
        except ApiError as error:
            _logger.warning("%s: failed to publish event %s: %s", self.name, reason, error)


class Loop(Protocol):
    """A loop for one term."""

    @property
    def kernel(self) -> Kernel: ...

    async def run(self) -> None:
        """Until cancelled. Raises `Deposed` when the term is over, `CacheStopped` when a cache is not fed any more."""


@dataclass(frozen=True, slots=True)
class LoopSpec:
    """A loop that a component makes for each of its terms: a line in the table of controllers."""

    name: str
    """For `--only` and `--without`, as a controller's name."""
    make: Callable[[LoopContext], Loop]
    decider: Decider | None = None
    """For replay. None: its decisions cannot be replayed."""


def _do_nothing() -> None:
    pass
