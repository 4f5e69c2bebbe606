"""What is heard of nodes, and when, by one's own monotonic clock.

A heartbeat is a *change that we see*: the node has renewed its Lease, or written its status. The times that stand in
there are for people; clocks are set, and differ. So a node is silent for as long as we have listened and heard nothing,
and a process that has just begun to listen, or was isolated for a while, has heard nothing *yet*.

For the fencing of at-most-one pods (loop/fencing.py) every change of a Lease counts, from any writer; as a
heartbeat, only one that the node made itself.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.loop.fencing import LeaseTimes, MayStart, ObservedLease, may_start

LEASE_DURATION: Final = timedelta(seconds=40)
"""Of a lease that does not say how long it lasts. As Kubernetes' nodes have it."""
DURATION_MAX: Final = timedelta(hours=1)
SOUND_AGAIN: Final = timedelta(seconds=2)
"""A gap in hearing that is shorter than this is none: what was missed is told at once."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What is known of one node by listening."""

    first_ns: int
    """Since when we listen to it."""
    heartbeat_ns: int | None = None
    """When we last saw it do something; None: we have not."""
    status_marker: str = ""
    """What it last wrote into its status as the time of that."""
    holder: str = ""
    lease: ObservedLease | None = None
    """Its Lease; None: there is none, and there was none."""
    has_lease: bool = False
    duration: timedelta = LEASE_DURATION
    removed_ns: int | None = None
    """When we last saw that its Node was removed; None: we have not."""


def first_heard(now_ns: int) -> Heard:
    return Heard(now_ns)


def with_lease(heard: Heard, node: str, lease: Object | None, now_ns: int) -> Heard:
    """After the Lease was seen like this; None: it is gone."""
    if lease is None:
        # Its holder may have renewed it just before. From now on it cannot.
        return replace(heard, lease=ObservedLease(0, now_ns), has_lease=False, holder="")
    revision, spec = int(lease["metadata"]["resourceVersion"]), lease.get("spec") or {}
    if heard.has_lease and heard.lease is not None and revision <= heard.lease.revision:
        return heard
    holder = str(spec.get("holderIdentity") or "")
    # The first one that is seen may be from long ago.
    is_heartbeat = heard.lease is not None and holder == node
    return replace(
        heard,
        lease=ObservedLease(revision, now_ns),
        has_lease=True,
        holder=holder,
        duration=parse_duration(spec),
        heartbeat_ns=now_ns if is_heartbeat else heard.heartbeat_ns,
    )


def with_status(heard: Heard, marker: str, now_ns: int) -> Heard:
    """After the Node was seen with this as the time of its last status."""
    if marker == heard.status_marker:
        return heard
    is_heartbeat = bool(heard.status_marker)
    return replace(heard, status_marker=marker, heartbeat_ns=now_ns if is_heartbeat else heard.heartbeat_ns)


def without_node(heard: Heard, now_ns: int) -> Heard:
    """After its Node was removed."""
    return replace(heard, removed_ns=now_ns)


def parse_duration(spec: Any) -> timedelta:
    """How long a lease lasts, at least: agents write whole seconds, and may have meant a part of one more."""
    seconds = spec.get("leaseDurationSeconds")
    if not isinstance(seconds, int) or seconds <= 0:
        return LEASE_DURATION
    return min(timedelta(seconds=seconds), DURATION_MAX)


def silent_for(heard: Heard, since_ns: int, now_ns: int) -> timedelta:
    """How long we have listened to it without hearing anything."""
    last_ns = max(heard.first_ns, since_ns, heard.heartbeat_ns or 0)
    return timedelta(microseconds=max(0, now_ns - last_ns) // 1000)


def is_heard(heard: Heard, since_ns: int) -> bool:
    """Whether it has done something since we listen."""
    return heard.heartbeat_ns is not None and heard.heartbeat_ns >= since_ns


def fence(heard: Heard, now_ns: int) -> MayStart | None:
    """The revision at which its Lease may be taken, if its at-most-one pods must have ended by now. 0: there is no
    Lease, and has not been for long enough."""
    observed = heard.lease or ObservedLease(0, heard.first_ns)
    duration = heard.duration + timedelta(seconds=1)
    answer = may_start(observed, now_ns, LeaseTimes(duration=duration, renew_every=duration / 4))
    return answer if isinstance(answer, MayStart) else None


@dataclass(frozen=True, slots=True)
class Listening:
    """Since when nothing has come between us and the nodes."""

    since_ns: int
    broken_at_ns: int | None = None
    """Since when something does; None: nothing does."""


def listening(before: Listening | None, is_sound: bool, now_ns: int) -> Listening:
    """How it is now. After a gap we start to listen again: what was said meanwhile we may not have heard."""
    if before is None:
        return Listening(now_ns, None if is_sound else now_ns)
    if not is_sound:
        return before if before.broken_at_ns is not None else replace(before, broken_at_ns=now_ns)
    if before.broken_at_ns is None:
        return before
    return Listening(now_ns if _is_gap(before.broken_at_ns, now_ns) else before.since_ns)


@dataclass(frozen=True, slots=True)
class Isolation:
    """Nothing came between us and the nodes that we know of, and yet so many were silent that it is more likely that we
    did not hear: from the first look at which that was so to the last."""

    first_ns: int
    last_ns: int


def extend_isolation(before: Isolation | None, now_ns: int) -> Isolation:
    """After a look at which it is so."""
    return Isolation(now_ns if before is None else before.first_ns, now_ns)


def listen_after_isolation(before: Listening, isolation: Isolation | None) -> Listening:
    """When nodes are heard again. We start to listen again, too: the first that is heard must not bring down all
    others, which are about to be."""
    if isolation is None or not _is_gap(isolation.first_ns, isolation.last_ns):
        return before
    return Listening(max(before.since_ns, isolation.last_ns))


def _is_gap(begin_ns: int, end_ns: int) -> bool:
    return end_ns - begin_ns > SOUND_AGAIN // timedelta(microseconds=1) * 1000
