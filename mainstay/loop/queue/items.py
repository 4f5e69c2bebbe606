"""What goes into a work queue and comes out of it: priorities, items, outcomes, settings, and figures for people.

Plain values without behaviour. The words of `EnqueueReason` and `KeyState` reach users: only add. The settings are one
frozen value, so that a component can publish what it runs with; docs/guides/work-queue.md explains how to choose them.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Final, Generic, TypeVar

import msgspec

from mainstay.api.retry_shape import RetryShape

K = TypeVar("K", bound=Hashable)

REVISIONS_MAX: Final = 8  # Of what woke a key. The count goes on.


class Priority(IntEnum):
    """Who goes first. More urgent is greater."""

    BACKGROUND = 0
    """What no user waits for: resync, clean-up."""
    NORMAL = 1
    HIGH = 2
    """Repair of what users depend on."""
    URGENT = 3


class EnqueueReason(StrEnum):
    """Why a key is handed out. If several reasons came together, the first of these that applies."""

    CHANGE = "Change"
    TIMER = "Timer"
    RETRY = "Retry"
    RESYNC = "Resync"


class KeyState(StrEnum):
    """Where a key is."""

    READY = "Ready"
    """Queued for a worker."""
    PROCESSING = "Processing"
    """A worker has it. If it is enqueued meanwhile, it is queued again when the worker is done."""
    WAITING = "Waiting"
    """For a change, or for its next retry, timer or resync."""
    BACKING_OFF = "BackingOff"
    """It failed and waits for its next attempt."""
    TERMINAL = "Terminal"
    """It failed too often, or for good. Only a change brings it back: neither a timer nor resync."""
    FORGOTTEN = "Forgotten"
    """The queue does not know it."""


class Item(msgspec.Struct, Generic[K], frozen=True, gc=False):
    """A key that a worker processes, and why."""

    key: K
    tenant: str
    priority: Priority
    because: EnqueueReason
    woken_by: tuple[int, ...]
    """The revisions that woke the key since it was last worked on: all of them up to 8, else the first 7 and the
    latest. What woke a decision is not its cause. After a failure, those of the failed attempt are still among them."""
    wakes: int
    """How many times it was woken: those revisions that are not listed count, too."""
    attempt: int
    """1, and one more for each counted failure in a row."""
    is_last_attempt: bool
    """If this one fails, the key is terminal: the worker should say so in the object's status while it has the key."""
    waited_ns: int
    """How long it was in line."""
    taken_ns: int
    is_past_deadline: bool = False
    """It is the last attempt because the deadline of its retries has come."""
    failures: int = 0
    """In a row, counted or not: what its backoff has grown with."""


@dataclass(frozen=True, slots=True)
class KeyDone:
    """All is as it should be. Come again when something changes, or for resync."""


@dataclass(frozen=True, slots=True)
class WakeAfter:
    """The same, but look again after this time at the latest. Takes the place of what an earlier outcome has said."""

    delay: timedelta


@dataclass(frozen=True, slots=True)
class KeyRetry:
    """It failed; try again after the backoff."""

    at_least: timedelta = timedelta()
    """Not before this: a server has asked for it."""
    counts: bool = True
    """False when it failed through no fault of the key: no server answered. The backoff grows, but the key does not
    become terminal for it; else an outage would leave every key terminal, and nothing would bring them back."""
    seen: int = 0
    """As for `KeyTerminal`, in case that this was the last attempt."""


@dataclass(frozen=True, slots=True)
class KeyTerminal:
    """No retry can help. Leave it until it changes."""

    seen: int = 0
    """Changes up to this revision are no news. The worker's own write, which tells users that it gave up, comes back as
    a change; without this it would bring the key back, to fail and become terminal for ever."""


@dataclass(frozen=True, slots=True)
class KeyGone:
    """The object is no more: forget the key, its failures and its resync. If it was woken meanwhile, it is looked at
    once more."""


Outcome = KeyDone | WakeAfter | KeyRetry | KeyTerminal | KeyGone

DONE: Final = KeyDone()
GONE: Final = KeyGone()


@dataclass(frozen=True, slots=True)
class KeyFigures:
    """What there is to know about one key."""

    state: KeyState
    tenant: str
    priority: Priority
    failures: int
    """In a row, counted or not."""
    attempts_left: int
    wakes: int
    """Since it was last handed out."""
    since_ns: int | None
    """When it got in line, or was handed out."""
    due_ns: int | None
    """When it gets in line by itself, at the latest."""


@dataclass(frozen=True, slots=True)
class TenantFigures:
    """How one tenant fares. `oldest_age` beside that of others is how starved it is."""

    tenant: str
    ready: int
    processing: int
    oldest_age: timedelta
    """Of its keys in line."""
    taken: int
    wait_total: timedelta
    wait_max: timedelta
    is_held_back: bool
    """It has ready keys, and already as many being processed as a tenant may have."""


@dataclass(frozen=True, slots=True)
class Durations:
    """How long things took. `buckets[n]` counts those below 2ⁿ nanoseconds and not below 2ⁿ⁻¹."""

    count: int
    total: timedelta
    longest: timedelta
    buckets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Figures:
    """The state of a queue for metrics and for `mainstay top queues`. Totals count since the queue was made."""

    ready: int
    """The depth: keys in line."""
    ready_by_priority: dict[Priority, int]
    processing: int
    waiting: int
    """Known, and not due: for a change, a timer, a retry or resync."""
    backing_off: int
    """Of those waiting, the ones that failed last time."""
    terminal: int
    oldest_age: timedelta
    """Of the keys in line."""
    oldest_processing_age: timedelta
    """A worker that hangs shows here."""
    added: int
    merged: int
    """Adds that found the key in line already, or being processed and added already."""
    refused: int
    """Adds that came while draining."""
    taken: int
    retries: int
    became_terminal: int
    resyncs: int
    passed_over: int
    """Turns that a priority had only because it had been passed over often enough."""
    wait: Durations
    work: Durations
    is_draining: bool
    tenants: tuple[TenantFigures, ...]
    """Sorted by name."""


DEFAULT_RETRY: Final = RetryShape(
    attempts_max=12,
    first_delay=timedelta(milliseconds=100),
    delay_max=timedelta(minutes=5),
    deadline=timedelta(minutes=15),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """How a queue paces its keys. The defaults suit a controller with up to some tens of thousands of objects."""

    retry: RetryShape = DEFAULT_RETRY
    """How a failing key is tried again. It is terminal after `attempts_max` counted failures in a row, or at the first
    one after the deadline."""

    change_after_failure: timedelta = timedelta(seconds=1)
    """A failing key that changes need not wait for its whole backoff: the change may be the cure. It is tried again
    this long after its last failure. Not at once, or a key that changes all the time would never back off."""

    retries_per_second: int = 100
    """How many retries of all keys together are started each second once `retries_burst` is used up. When everything
    fails at once, because the API server is away, per-key backoff alone still makes a storm."""

    retries_burst: int = 1000
    """How many retries may come together before `retries_per_second` holds."""

    resync: timedelta | None = timedelta(minutes=30)
    """A key is looked at again at the latest this long after the last look, whether anything changed or not: the way
    back from a change that was missed. None: never; then the queue forgets a key as soon as it is done."""

    resync_spread: float = 0.2
    """The share of `resync` by which a look may come earlier, by chance: keys that came together go apart."""

    passed_over_max: int = 32
    """A priority with ready keys is passed over by more urgent ones at most so many times in a row, then it has a turn.
    Counted in turns, not in time: in an overload time goes by while no key is served."""

    weights: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """How many keys in a row a tenant may have when others of the same priority wait. 1 for those not named."""

    processing_per_tenant_max: int | None = None
    """How many keys of one tenant are worked on at once. None: as many as there are workers. Turns are shared by count;
    where the work of one tenant takes much longer than that of others, only this keeps workers free for them."""

    def __post_init__(self) -> None:
        if self.retries_per_second < 1 or self.retries_burst < 1:
            raise ValueError("retries_per_second and retries_burst must be at least 1")
        if self.resync is not None and self.resync <= timedelta():
            raise ValueError(f"a resync every {self.resync} would never end")
        if not 0 <= self.resync_spread < 1:
            raise ValueError(f"the spread is a share below 1, not {self.resync_spread}")
        if self.change_after_failure < timedelta():
            raise ValueError(f"change_after_failure is {self.change_after_failure}, which is in the past")
        if self.passed_over_max < len(Priority):
            # The bound that lines.py states counts on it.
            raise ValueError(f"passed_over_max is at least {len(Priority)}, or priorities would mean nothing")
        if any(weight < 1 for weight in self.weights.values()):
            raise ValueError("a tenant without weight would never have a turn")
        if self.processing_per_tenant_max is not None and self.processing_per_tenant_max < 1:
            raise ValueError("processing_per_tenant_max must be at least 1, or a tenant would never have a turn")
