"""When to leave a server alone for a while: a circuit breaker, as plain functions over small states.

    Closed ──failures_max failures in a row──► Open ──its time is over──► Probing (one request may try)
      ▲                                          ▲                            │ │
      └────────────────── an answer ─────────────┼────────────────────────────┘ │
                                                 └────── no answer: twice as long

No clock and no chance: moments are nanoseconds of a monotonic clock that the caller reads. A probe that is never
reported, because its caller was cancelled, counts as lost when its time is over, and another one may go.

What a failure is, is for the caller to say. It is about the server as a whole: no connection, no answer, or an answer
that says it cannot do anything.
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import assert_never

from mainstay.env.invariants import broken


class BreakerState(StrEnum):
    """How a server is doing, for metrics and for people. Shown to users: only add."""

    CLOSED = "Closed"
    """All is well: requests go through."""
    OPEN = "Open"
    """It keeps failing: nothing is sent to it."""
    PROBING = "Probing"
    """One request is on the way to see whether it is back."""


@dataclass(frozen=True, slots=True)
class BreakerRules:
    failures_max: int = 5
    """So many in a row open it."""
    open_for: timedelta = timedelta(seconds=1)
    """How long at first. Twice as long after each probe that fails."""
    open_for_max: timedelta = timedelta(seconds=5)
    """Short against every lease: a server that is back must be found before a lease expires."""
    probe_within: timedelta = timedelta(seconds=30)
    """After this, a probe of which nothing was heard is lost."""


@dataclass(frozen=True, slots=True)
class BreakerClosed:
    failures: int = 0
    """In a row, up to now."""


@dataclass(frozen=True, slots=True)
class BreakerOpen:
    until_ns: int
    trips: int
    """How many times it has opened since it was last closed."""


@dataclass(frozen=True, slots=True)
class BreakerProbing:
    until_ns: int
    trips: int


State = BreakerClosed | BreakerOpen | BreakerProbing

HEALTHY = BreakerClosed()


def admit(state: State, now_ns: int, rules: BreakerRules) -> State | None:
    """Ask to send one request. The state from now on; None if it must not be sent."""
    match state:
        case BreakerClosed():
            return state
        case BreakerOpen(until_ns, trips) | BreakerProbing(until_ns, trips):
            return None if now_ns < until_ns else BreakerProbing(now_ns + _ns(rules.probe_within), trips)
        case _:
            assert_never(state)


def succeeded(state: State) -> State:
    """An answer came."""
    return HEALTHY


def failed(state: State, now_ns: int, rules: BreakerRules) -> State:
    """None came, or one that says that the server can do nothing."""
    match state:
        case BreakerClosed(failures):
            if not 0 <= failures < rules.failures_max:
                raise broken("a closed breaker has failed less often than opens it", "breaker", failures=failures)
            if failures + 1 < rules.failures_max:
                return BreakerClosed(failures + 1)
            return _open(now_ns, 1, rules)
        case BreakerProbing(_, trips):
            return _open(now_ns, trips + 1, rules)
        case BreakerOpen():
            return state  # Of a request that was sent before it opened: that is no news.
        case _:
            assert_never(state)


def condition(state: State) -> BreakerState:
    match state:
        case BreakerClosed():
            return BreakerState.CLOSED
        case BreakerOpen():
            return BreakerState.OPEN
        case BreakerProbing():
            return BreakerState.PROBING
        case _:
            assert_never(state)


def _open(now_ns: int, trips: int, rules: BreakerRules) -> BreakerOpen:
    wanted_ns = _ns(rules.open_for) << min(trips - 1, 32)
    return BreakerOpen(now_ns + min(wanted_ns, _ns(rules.open_for_max)), trips)


def _ns(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1) * 1000
