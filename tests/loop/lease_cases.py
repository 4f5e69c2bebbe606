"""Histories of one lease: a holder and an observer, any clocks, any delays and losses. Plain arithmetic, exact.

Real time is a fraction of nanoseconds, and each side has a clock of its own.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum
from fractions import Fraction

from hypothesis import strategies as st

from mainstay.loop import fencing
from mainstay.loop.fencing import LeaseTimes, MayStart, NotBefore, ObservedLease, observed

S = 1_000_000_000
HOLDER_COUNTS_FROM = "sending"  # A twin changes it.


def times(ppm: int = 1000, stopping: timedelta = timedelta()) -> LeaseTimes:
    return LeaseTimes(
        duration=timedelta(seconds=15),
        renew_every=timedelta(seconds=3),
        stopping=stopping,
        rate_difference_ppm=ppm,
    )


class Clock:
    """Goes at different rates over time: `rates[i]` during the i-th span of real time. At first it shows anything."""

    def __init__(self, shows_ns: int, rates: list[Fraction], span_ns: int = 8 * S) -> None:
        self._start = Fraction(shows_ns)
        self._rates = rates
        self._span = span_ns

    def shows(self, real: Fraction) -> Fraction:
        shown, left = self._start, real
        for rate in self._rates:
            step = min(left, Fraction(self._span))
            shown += step * rate
            left -= step
        return shown + left * self._rates[-1]

    def when(self, shown: Fraction) -> Fraction:
        """The real time at which it shows this."""
        left, real = shown - self._start, Fraction(0)
        for rate in self._rates:
            if left <= self._span * rate:
                return real + left / rate
            left -= self._span * rate
            real += self._span
        return real + left / self._rates[-1]


@dataclass(frozen=True)
class Renewal:
    """One renewal and its fate, as delays in nanoseconds of real time."""

    pause: int
    """Before it is sent."""
    to_store: int
    to_holder: int
    to_observer: int
    is_lost: bool
    """It is never committed."""
    is_answer_lost: bool


class Foreign(Enum):
    """Which side knows only of the duration, and nothing of rates."""

    NEITHER = "neither"
    HOLDER = "holder"
    OBSERVER = "observer"


@dataclass(frozen=True)
class Case:
    renewals: list[Renewal]
    holder: Clock
    observer: Clock
    lease: LeaseTimes
    hesitates: int
    """How long the observer's takeover takes to commit."""
    foreign: Foreign

    @property
    def holder_lease(self) -> LeaseTimes:
        return replace(self.lease, rate_difference_ppm=0) if self.foreign is Foreign.HOLDER else self.lease

    @property
    def observer_lease(self) -> LeaseTimes:
        return replace(self.lease, rate_difference_ppm=0) if self.foreign is Foreign.OBSERVER else self.lease


# Nothing and the most are tried often: what goes wrong does so at the ends.
DELAYS = st.one_of(st.sampled_from([0, 12 * S]), st.integers(0, 12 * S))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    ppm = draw(st.integers(0, 300_000))
    # Any two rates at the same moment differ by the factor of 1 + ppm at most, and the extremes are tried often.
    most = 1 + Fraction(ppm, 1_000_000)
    share = st.one_of(st.sampled_from([0, 1000]), st.integers(0, 1000))
    base = draw(st.sampled_from([Fraction(1, 2), Fraction(1), Fraction(3, 2)]))

    def rates() -> list[Fraction]:
        return [base * (1 + (most - 1) * Fraction(draw(share), 1000)) for _ in range(6)]

    renewal = st.builds(Renewal, DELAYS, DELAYS, DELAYS, DELAYS, st.booleans(), st.booleans())
    return Case(
        renewals=draw(st.lists(renewal, min_size=1, max_size=5)),
        holder=Clock(draw(st.integers(0, 10**18)), rates()),
        observer=Clock(draw(st.integers(0, 10**18)), rates()),
        lease=times(ppm, timedelta(seconds=draw(st.integers(0, 5)))),
        hesitates=draw(DELAYS),
        foreign=draw(st.sampled_from(Foreign)),
    )


def stopped_and_started(case: Case) -> tuple[Fraction, Fraction | None]:
    """The real times at which the holder has stopped, and at which its replacement starts; None if it never does."""
    commits: list[tuple[Fraction, int]] = []  # When, and which revision.
    sightings: list[tuple[Fraction, int]] = []
    answers: list[tuple[Fraction, int]] = []  # What the holder counts from, and for which revision.
    now = committed = Fraction(0)
    for revision, renewal in enumerate(case.renewals, start=1):
        is_first = revision == 1  # This one makes the lease, so it must succeed.
        sent = now + renewal.pause
        arrives = max(sent + renewal.to_store, committed)
        now = arrives + renewal.to_holder
        if renewal.is_lost and not is_first:
            continue
        committed = arrives
        commits.append((committed, revision))
        sightings.append((committed + renewal.to_observer, revision))
        if is_first or not renewal.is_answer_lost:
            answers.append((sent if HOLDER_COUNTS_FROM == "sending" else now, revision))
    started = takeover(case, commits, sightings)
    # What would have been committed after the takeover is refused, and so is not acknowledged.
    valid = [revision for when, revision in commits if started is None or when <= started]
    return max(stop(case, since) for since, revision in answers if revision in valid), started


def stop(case: Case, since: Fraction) -> Fraction:
    """When a holder has stopped that counts from this real time."""
    answer = fencing.holder_times(int(case.holder.shows(since)), case.holder_lease)
    stopping_ns = case.lease.stopping // timedelta(microseconds=1) * 1000
    return case.holder.when(Fraction(answer.begin_stopping_at_ns + stopping_ns))


def takeover(case: Case, commits: list[tuple[Fraction, int]], sightings: list[tuple[Fraction, int]]) -> Fraction | None:
    """When the takeover is committed. The observer tries as soon as it may; what has been renewed since is refused."""
    seen: ObservedLease | None = None
    in_order = sorted(sightings)
    for place, (at, revision) in enumerate(in_order):
        # A clock that shows whole nanoseconds shows the next one at the latest.
        seen = observed(seen, revision, int(case.observer.shows(at)) + 1)
        answer = fencing.may_start(seen, seen.seen_ns, case.observer_lease)
        assert isinstance(answer, NotBefore)
        tries = case.observer.when(Fraction(answer.time_ns))
        if place + 1 < len(in_order) and in_order[place + 1][0] < tries:
            continue
        allowed = fencing.may_start(seen, answer.time_ns, case.observer_lease)
        assert isinstance(allowed, MayStart)
        lands = tries + case.hesitates
        latest = max(other for when, other in commits if when <= lands)
        if allowed.revision in (latest, -1):
            return lands
    return None
