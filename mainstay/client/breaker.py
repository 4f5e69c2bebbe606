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


class Condition(StrEnum):
    """How a server is doing, for metrics and for people. Shown to users: only add."""

    CLOSED = "Closed"
    """All is well: requests go through."""
    OPEN = "Open"
    """It failed again and again: nothing is sent to it."""
    PROBING = "Probing"
    """One request is on the way to see whether it is back."""


@dataclass(frozen=True, slots=True)
class Rules:
    failures_max: int = 5
    """So many in a row open it."""
    open_for: timedelta = timedelta(seconds=1)
    """How long at first. Twice as long after each probe that fails."""
    open_for_max: timedelta = timedelta(seconds=5)
    """Short against every lease: a server that is back must be found before a lease expires."""
    probe_within: timedelta = timedelta(seconds=30)
    """After this, a probe of which nothing was heard is lost."""


@dataclass(frozen=True, slots=True)
class Closed:
    failures: int = 0
    """In a row, up to now."""


@dataclass(frozen=True, slots=True)
class Open:
    until_ns: int
    trips: int
    """How many times it has opened since it was last closed."""


@dataclass(frozen=True, slots=True)
class Probing:
    until_ns: int
    trips: int


State = Closed | Open | Probing

HEALTHY = Closed()


def admit(state: State, now_ns: int, rules: Rules) -> State | None:
    """Ask to send one request. The state from now on; None if it must not be sent."""
    match state:
        case Closed():
            return state
        case Open(until_ns, trips) | Probing(until_ns, trips):
            return None if now_ns < until_ns else Probing(now_ns + _ns(rules.probe_within), trips)
        case _:
            assert_never(state)


def succeeded(state: State) -> State:
    """An answer came."""
    return HEALTHY


def failed(state: State, now_ns: int, rules: Rules) -> State:
    """None came, or one that says that the server can do nothing."""
    match state:
        case Closed(failures):
            if not 0 <= failures < rules.failures_max:
                raise broken("a closed breaker has failed less often than opens it", "breaker", failures=failures)
            if failures + 1 < rules.failures_max:
                return Closed(failures + 1)
            return _open(now_ns, 1, rules)
        case Probing(_, trips):
            return _open(now_ns, trips + 1, rules)
        case Open():
            return state  # Of a request that was sent before it opened: that is no news.
        case _:
            assert_never(state)


def condition(state: State) -> Condition:
    match state:
        case Closed():
            return Condition.CLOSED
        case Open():
            return Condition.OPEN
        case Probing():
            return Condition.PROBING
        case _:
            assert_never(state)


def _open(now_ns: int, trips: int, rules: Rules) -> Open:
    wanted_ns = _ns(rules.open_for) << min(trips - 1, 32)
    return Open(now_ns + min(wanted_ns, _ns(rules.open_for_max)), trips)


def _ns(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1) * 1000
