"""What goes into a work queue and comes out of it: priorities, items, outcomes, and figures for people.

Plain values without behaviour. The words of `Because` and `State` reach users: only add.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum, StrEnum
from typing import Final, Generic, TypeVar

import msgspec

K = TypeVar("K", bound=Hashable)

REVISIONS_MAX: Final = 8  # Of what woke a key. The count goes on.


class Priority(IntEnum):
    """Who goes first. More urgent is greater."""

    BACKGROUND = 0
    """What nobody waits for: resync, clean-up."""
    NORMAL = 1
    HIGH = 2
    """Repair of what users depend on."""
    URGENT = 3


class Because(StrEnum):
    """Why a key is handed out. If several reasons came together, the first of these that applies."""

    CHANGE = "Change"
    TIMER = "Timer"
    RETRY = "Retry"
    RESYNC = "Resync"


class State(StrEnum):
    """Where a key is."""

    READY = "Ready"
    """In line for a worker."""
    IN_HAND = "InHand"
    """A worker has it. If it is woken meanwhile, it gets back in line when the worker is done."""
    WAITING = "Waiting"
    """For a change, or for its next retry, timer or resync."""
    BACKING_OFF = "BackingOff"
    """It failed, and waits until it is tried again."""
    GIVEN_UP = "GivenUp"
    """It failed too often, or for good. Only a change brings it back: neither a timer nor resync."""
    FORGOTTEN = "Forgotten"
    """The queue does not know it."""


class Item(msgspec.Struct, Generic[K], frozen=True, gc=False):
    """A key in the hands of a worker, and why it is there."""

    key: K
    tenant: str
    priority: Priority
    because: Because
    woken_by: tuple[int, ...]
    """The revisions that woke the key since it was last worked on: all of them up to 8, else the first 7 and the
    latest. What woke a decision is not its cause. After a failure, those of the failed attempt are still among them."""
    wakes: int
    """How many times it was woken: those revisions that are not listed count, too."""
    attempt: int
    """1, and one more for each counted failure in a row."""
    is_last_attempt: bool
    """If this one fails, the key is given up: the worker should say so in the object's status while it has the key."""
    waited_ns: int
    """How long it was in line."""
    taken_ns: int


@dataclass(frozen=True, slots=True)
class Done:
    """All is as it should be. Come again when something changes, or for resync."""


@dataclass(frozen=True, slots=True)
class WakeAfter:
    """The same, but look again after this time at the latest. Takes the place of what an earlier outcome has said."""

    delay: timedelta


@dataclass(frozen=True, slots=True)
class Retry:
    """It failed; try again after the backoff."""

    at_least: timedelta = timedelta()
    """Not before this: a server has asked for it."""
    counts: bool = True
    """False when it failed through no fault of the key: nobody was there to ask. The backoff grows, but the key is not
    given up for it; else an outage would leave every key given up, and nothing would bring them back."""
    seen: int = 0
    """As for `GiveUp`, in case that this was the last attempt."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """No retry can help. Leave it until it changes."""

    seen: int = 0
    """Changes up to this revision are no news. The worker's own write, which tells users that it gave up, comes back as
    a change; without this it would bring the key back, to fail and be given up for ever."""


@dataclass(frozen=True, slots=True)
class Gone:
    """The object is no more: forget the key, its failures and its resync. If it was woken meanwhile, it is looked at
    once more."""


Outcome = Done | WakeAfter | Retry | GiveUp | Gone

DONE: Final = Done()
GONE: Final = Gone()


@dataclass(frozen=True, slots=True)
class KeyFigures:
    """What there is to know about one key."""

    state: State
    tenant: str
    priority: Priority
    failures: int
    """In a row, counted or not."""
    attempts_left: int
    wakes: int
    """Since it was last handed out."""
    since_ns: int | None
    """When it got in line, or in hand."""
    due_ns: int | None
    """When it gets in line by itself, at the latest."""


@dataclass(frozen=True, slots=True)
class TenantFigures:
    """How one tenant fares. `oldest_age` beside that of others is how starved it is."""

    tenant: str
    ready: int
    in_hand: int
    oldest_age: timedelta
    """Of its keys in line."""
    taken: int
    wait_total: timedelta
    wait_max: timedelta
    is_held_back: bool
    """It has ready keys, and already as many in hand as a tenant may have."""


@dataclass(frozen=True, slots=True)
class Durations:
    """How long things took. `buckets[n]` counts those below 2ⁿ nanoseconds and not below 2ⁿ⁻¹."""

    count: int
    total: timedelta
    longest: timedelta
    buckets: tuple[int, ...]

    def quantile(self, share: float) -> timedelta:
        """Not exact: at least this share took no longer than that, which is at most twice as long as it had to be."""
        wanted = share * self.count
        seen = 0
        for bits, count in enumerate(self.buckets):
            seen += count
            if count and seen >= wanted:
                return min(timedelta(microseconds=(1 << bits) / 1000), self.longest)
        return self.longest


@dataclass(frozen=True, slots=True)
class Figures:
    """The state of a queue for metrics and for `mainstay top queues`. Totals count since the queue was made."""

    ready: int
    """The depth: keys in line."""
    ready_by_priority: dict[Priority, int]
    in_hand: int
    waiting: int
    """Known, and not due: for a change, a timer, a retry or resync."""
    backing_off: int
    """Of those waiting, the ones that failed last time."""
    given_up: int
    oldest_age: timedelta
    """Of the keys in line."""
    oldest_in_hand_age: timedelta
    """A worker that hangs shows here."""
    added: int
    merged: int
    """Adds that found the key in line already, or in hand and woken already."""
    refused: int
    """Adds that came while draining."""
    taken: int
    retries: int
    gave_up: int
    resyncs: int
    passed_over: int
    """Turns that a priority had only because it had been passed over often enough."""
    wait: Durations
    work: Durations
    is_draining: bool
    tenants: tuple[TenantFigures, ...]
    """Sorted by name."""
