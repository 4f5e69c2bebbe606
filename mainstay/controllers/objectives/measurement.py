"""What was measured of a workload for its objectives, and how fast their budgets burn. Plain functions over values.

All figures are about one template: the ReplicaSet of the target's present one. What an earlier template did is neither
good nor bad news about this one, so with another set counting starts again.

*Times*: each pod counts once, when it has got as far as the objective says, or has not within its time. As long as it
has not, it counts as late in every window: a rollout that is stuck does not become better by waiting. Only pods whose
time ends after counting began are counted, because what happened to the others was not seen. *Availability* is the
share of desired replicas that were ready, in replica microseconds, so that nothing is lost however often the controller
looks. The time between two looks counts as it was at the first of them; if they are too far apart, the controller does
not know how it was, and it counts as nothing.

Counts are kept per minute for an hour. That is all of the memory; it is lost with the process, and `since` says from
when on there are figures.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Final

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kinds.objectives import ObjectiveSpec
from mainstay.api.objectives import ObjectiveType
from mainstay.api.stages import SERVING_CONDITION
from mainstay.loop.objectives import WINDOWS

STEP: Final = timedelta(minutes=1)
GAP_MAX: Final = timedelta(seconds=150)
"""Between two looks. Every look asks for another one within a minute."""
PODS_MIN: Final = 3
"""With fewer, one slow pod would be all there is to know."""
REPLICA_TIME_MIN: Final = timedelta(seconds=60)
"""Of all desired replicas together."""
_MICROSECOND: Final = timedelta(microseconds=1)
_LONGEST: Final = max(WINDOWS.values())
_CONDITIONS: Final = {
    ObjectiveType.TIME_TO_BOUND: "PodScheduled",
    ObjectiveType.TIME_TO_READY: "Ready",
    ObjectiveType.TIME_TO_SERVING: SERVING_CONDITION,
}


@dataclass(frozen=True, slots=True)
class MinuteCount:
    """Of pods, or of replica microseconds."""

    at: datetime
    all: int
    late: int


@dataclass(frozen=True, slots=True)
class Measured:
    """Of one objective."""

    type: ObjectiveType
    minutes: tuple[MinuteCount, ...] = ()
    counted: tuple[str, ...] = ()
    """Pods that are there and were counted, by uid."""
    overdue: tuple[str, ...] = ()
    """Pods that are late and have not got there yet: counted when they have, or are gone."""


@dataclass(frozen=True, slots=True)
class ObjectiveMemory:
    """Recorded with the decision."""

    set_uid: str
    since: datetime
    looked_at: datetime
    ready: int
    desired: int
    measured: tuple[Measured, ...] = ()


@dataclass(frozen=True, slots=True)
class TargetView:
    """A target as it is now."""

    set_uid: str
    """Of the ReplicaSet of its present template."""
    desired: int
    pods: Sequence[Object]
    """Of that set."""
    ready: int
    """Of all its sets."""


def measure(
    target: TargetView, objectives: Iterable[ObjectiveSpec], memory: ObjectiveMemory | None, now: datetime
) -> ObjectiveMemory:
    """What is known after one more look."""
    if memory is None or memory.set_uid != target.set_uid or memory.looked_at > now:
        memory = ObjectiveMemory(target.set_uid, now, now, target.ready, target.desired)
    before = {each.type: each for each in memory.measured}
    found = []
    for each in objectives:
        measured = before.get(each.type, Measured(each.type))
        if each.type is ObjectiveType.AVAILABILITY:
            measured = _add_time(measured, memory, now)
        else:
            measured = _add_pods(measured, each, target.pods, memory.since, now)
        found.append(replace(measured, minutes=_recent(measured.minutes, now)))
    return replace(memory, looked_at=now, ready=target.ready, desired=target.desired, measured=tuple(found))


def _add_time(measured: Measured, memory: ObjectiveMemory, now: datetime) -> Measured:
    passed = now - memory.looked_at
    if passed > GAP_MAX or memory.desired <= 0:
        return measured
    passed_us = passed // _MICROSECOND
    missing = max(0, memory.desired - memory.ready)
    return _count(measured, now, passed_us * memory.desired, passed_us * missing)


def _add_pods(
    measured: Measured, objective: ObjectiveSpec, pods: Sequence[Object], since: datetime, now: datetime
) -> Measured:
    within = timedelta(seconds=objective.within_seconds or 0)
    there = {pod["metadata"]["uid"]: pod for pod in pods}
    counted = [uid for uid in measured.counted if uid in there]
    gone_late = [uid for uid in measured.overdue if uid not in there]
    measured = _count(measured, now, len(gone_late), len(gone_late))
    known, overdue = set(counted), []
    for uid, pod in sorted(there.items()):
        created = pod_state.created_at(pod)
        if uid in known or created + within < since or pod_state.is_over(pod):
            continue
        reached = _find_reached(pod, objective.type, now)
        is_late = uid in measured.overdue or (reached or now) - created > within
        if reached is not None:
            measured = _count(measured, now, 1, int(is_late))
            counted.append(uid)
        elif is_late:
            overdue.append(uid)
    return replace(measured, counted=tuple(sorted(counted)), overdue=tuple(overdue))


def _find_reached(pod: Object, kind: ObjectiveType, now: datetime) -> datetime | None:
    said = pod_state.find_condition(pod, _CONDITIONS[kind]) or {}
    if said.get("status") != "True":
        return None
    return pod_state.parse_time_or_none(said.get("lastTransitionTime")) or now


def _count(measured: Measured, now: datetime, all_: int, late: int) -> Measured:
    if not all_:
        return measured
    at = now.replace(second=0, microsecond=0)
    last = measured.minutes[-1] if measured.minutes else None
    if last is not None and last.at == at:
        minutes = (*measured.minutes[:-1], MinuteCount(at, last.all + all_, last.late + late))
    else:
        minutes = (*measured.minutes, MinuteCount(at, all_, late))
    return replace(measured, minutes=minutes)


def _recent(minutes: tuple[MinuteCount, ...], now: datetime) -> tuple[MinuteCount, ...]:
    return tuple([each for each in minutes if each.at + STEP > now - _LONGEST])


# Burns.


@dataclass(frozen=True, slots=True)
class ObjectiveBurn:
    """How one objective fares."""

    all: int
    """Within the longest window: pods, or replica microseconds."""
    late: int
    burns: Mapping[str, float | None]
    """By window, in budgets: at 1 the budget lasts exactly as long as it should. None: nothing was measured."""
    is_enough: bool
    """Whether so much was measured that it says something."""

    @property
    def rate(self) -> float:
        """The least of the windows: it burns now, and has for long enough to matter. 0 if one is not known."""
        known = [each for each in self.burns.values() if each is not None]
        return min(known) if len(known) == len(self.burns) and self.is_enough else 0.0

    @property
    def budget_left_percent(self) -> int | None:
        """Of the budget of the longest window; None: nothing was measured."""
        longest = self.burns[max(WINDOWS, key=lambda each: WINDOWS[each])]
        return None if longest is None else max(0, round(100 * (1 - longest)))


def compute_burn(measured: Measured, percent: Fraction, now: datetime) -> ObjectiveBurn:
    """`percent`: how many of a hundred should be good."""
    budget = float(1 - percent / 100)
    burns: dict[str, float | None] = {}
    for window, length in WINDOWS.items():
        all_, late = _sum(measured, now - length)
        burns[window] = late / all_ / budget if all_ else None
    all_, late = _sum(measured, now - _LONGEST)
    is_time = measured.type is ObjectiveType.AVAILABILITY
    least = REPLICA_TIME_MIN // _MICROSECOND if is_time else PODS_MIN
    return ObjectiveBurn(all_, late, burns, all_ >= least)


def _sum(measured: Measured, since: datetime) -> tuple[int, int]:
    recent = [each for each in measured.minutes if each.at + STEP > since]
    overdue = len(measured.overdue)
    return sum(each.all for each in recent) + overdue, sum(each.late for each in recent) + overdue


def find_next_deadline(target: TargetView, objectives: Iterable[ObjectiveSpec], now: datetime) -> datetime | None:
    """When the next pod will be late, unless it gets there before."""
    found = [
        at
        for each in objectives
        if each.within_seconds is not None
        for pod in target.pods
        if _find_reached(pod, each.type, now) is None
        and (at := pod_state.created_at(pod) + timedelta(seconds=each.within_seconds + 1)) > now
    ]
    return min(found, default=None)
