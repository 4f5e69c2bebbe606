"""When may a replacement start? The arithmetic of leases, in one place.

A process holds a lease and renews it: a leader, or an agent for the pods of which there must never be two. When
renewals stop, another process wants to take over, and must be sure that the holder has stopped by then. The two share
no clock. They share one thing: a renewal was *sent* by the holder before it could be *seen* by the observer. So each
counts from its own end of the same renewal, on its own monotonic clock:

    holder     sent ───── duration / (1 + difference) ─────► has stopped      (begins to stop `stopping` before that)
    store          committed
    observer           seen ───── duration · (1 + difference) ─────► may start

Only durations are compared, never what two clocks show. What is assumed is a bound on the *rates* of clocks: over any
span of time, none goes on by more than `1 + difference` times as much as another. Then, when the observer's clock has
gone on by `duration · (1 + difference)`, the holder's has gone on by at least `duration`; and as the observer began to
count later, the holder has stopped. Either of the two margins is enough. Both are kept, because either side may be
another program that knows only of the duration, such as one written with client-go.

Further assumptions, without which none of this holds:

1. The holder counts from when it *sent* the last renewal that was acknowledged. Counting from the acknowledgement, or
   from a renewal that was not acknowledged, promises more than it has.
2. The observer counts from when it first saw the latest renewal, whenever that was made. The times that are written
   in the lease are for people.
3. The takeover is *committed on condition* that no later renewal was: `MayStart.revision` is the revision of the lease
   that must still be there, checked in the same transaction, and the replacement starts after that was acknowledged.
   What the observer sees may be old; the store's check makes up for it. From then on the holder's renewals are refused.
4. The holder's monotonic clock goes on while its machine sleeps, and the holder has really stopped `stopping` after it
   began to. A machine that is suspended, or a virtual one that is paused together with its clock, breaks this.

What is not promised: a process that is paused for longer than the lease does not stop in time, because it does nothing
at all. Its writes through the API are refused afterwards, by the term that they carry. What it does elsewhere, such as
a packet to a third party that knows nothing of terms, no server can refuse. To prevent that, fence the machine.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

_MILLION: Final = 1_000_000
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimes:
    """What the holder and the observers of a lease agree on."""

    duration: timedelta
    """How long a renewal lasts. If two sides might differ, the observer must take the greater one."""
    renew_every: timedelta
    """How often the holder renews."""
    stopping: timedelta = timedelta()
    """How long the holder takes to stop, at most: for its pods to end, or to finish a write."""
    rate_difference_ppm: int = 1_000
    """By how much one clock may go faster than another, in millionths. Quartz differs by less than 200, and time
    services slew by up to 500, so there is room. It costs a replacement a thousandth of the duration."""

    def __post_init__(self) -> None:
        if self.rate_difference_ppm < 0:
            raise ValueError(f"a difference of {self.rate_difference_ppm} ppm is none")
        if self.renew_every <= timedelta():
            raise ValueError(f"renewing every {self.renew_every} would never end")
        if self.stopping < timedelta():
            raise ValueError(f"stopping must take more than no time, not {self.stopping}")
        if 2 * _nanoseconds(self.renew_every) + _nanoseconds(self.stopping) > self.hold_ns:
            # One lost renewal must not cost the lease.
            raise ValueError(f"{self.duration} leaves no time for two renewals and for stopping")

    @property
    def hold_ns(self) -> int:
        """How long after sending a renewal the holder has stopped, on its own clock. Whole microseconds, as timers have
        them, rounded down."""
        return self.duration // _MICROSECOND * _MILLION // self._faster_ppm * 1000

    @property
    def wait_ns(self) -> int:
        """How long after seeing a renewal an observer waits, on its own clock. Whole microseconds, rounded up."""
        return -(-(self.duration // _MICROSECOND) * self._faster_ppm // _MILLION) * 1000

    @property
    def _faster_ppm(self) -> int:
        """How much the fastest clock shows, in millionths of what the slowest one does."""
        return _MILLION + self.rate_difference_ppm


@dataclass(frozen=True, slots=True)
class ObservedLease:
    """A lease as an observer knows it."""

    revision: int
    """The latest that it has seen."""
    seen_ns: int
    """When it first saw that one, on its own monotonic clock."""


def observed(before: ObservedLease | None, revision: int, now_ns: int) -> ObservedLease:
    """What is known of a lease after seeing it at this revision. The same one again changes nothing, and neither does
    an older one, which comes from a server that is behind."""
    return before if before is not None and revision <= before.revision else ObservedLease(revision, now_ns)


@dataclass(frozen=True, slots=True)
class MayStart:
    """Take over with a write that is refused unless the lease is still at this revision. Start when it is committed."""

    revision: int


@dataclass(frozen=True, slots=True)
class NotBefore:
    """Wait until the observer's own monotonic clock shows this, and then look again."""

    time_ns: int


def may_start(lease: ObservedLease, now_ns: int, times: LeaseTimes) -> MayStart | NotBefore:
    """May a replacement of the lease's holder start? See the module for what this rests on.

    `now_ns` is of the clock that `lease` was observed with, in the same process: after a restart an observer begins to
    count again.
    """
    time_ns = lease.seen_ns + times.wait_ns
    return MayStart(lease.revision) if now_ns >= time_ns else NotBefore(time_ns)


@dataclass(frozen=True, slots=True)
class HolderTimes:
    """When a holder has to do what, on its own monotonic clock, if no later renewal is acknowledged."""

    renew_at_ns: int
    begin_stopping_at_ns: int
    """From here on it begins nothing new."""
    stopped_at_ns: int


def holder_times(renewal_sent_ns: int, times: LeaseTimes) -> HolderTimes:
    """What the holder has to do, given when it *sent* the last renewal that was acknowledged, on its own clock."""
    stopped_ns = renewal_sent_ns + times.hold_ns
    return HolderTimes(
        renew_at_ns=renewal_sent_ns + _nanoseconds(times.renew_every),
        begin_stopping_at_ns=stopped_ns - _nanoseconds(times.stopping),
        stopped_at_ns=stopped_ns,
    )


def _nanoseconds(length: timedelta) -> int:
    return length // _MICROSECOND * 1000
