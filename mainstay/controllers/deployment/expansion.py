"""Whether a rollout may expand: the evidence about it, what the table allows, and what limits the new ReplicaSet.

Two things keep a rollout from taking its next step, and neither removes anything:

*Evidence* (loop/evidence.py). Its deadline has passed while the new pods do not work; a set does not observe what it
was told; the controller that would have to act has keys in its queue for a minute, or all its decisions fail; the
error budget of an objective burns on the pods of the new template. If the table allows `PauseRollout`, the sets stay as
they are, and the condition `ExpansionPaused` says which signals did that. Only a rollout is paused: a Deployment
without old pods, or with another number of replicas, is not one.

*Progress* (`status.progress` of the new set). While its replicas are refused by admission, a quota or the scheduler,
more of them would be refused, too; so the new set does not grow. Old sets still shrink within `maxUnavailable`, which
may be just what makes room. So a rollout into a full cluster goes on, without a line of pods that wait.

A report that is missing pauses nothing here: what a rollout needs to know it reads from its sets, and goes on only when
these have observed their size.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from mainstay.api import times
from mainstay.api.kind import Object
from mainstay.api.progress import ProgressLimit, ProgressVerdict, read_progress
from mainstay.api.stages import PodStage
from mainstay.loop.conditions import Truth
from mainstay.loop.evidence import Evidence, EvidenceResponse, allowed
from mainstay.loop.signals import (
    collect_controller_errors,
    collect_queue_age,
    collect_unobserved_generation,
    describe_evidence,
)

EXPANSION_PAUSED: Final = "ExpansionPaused"
LOOK_AGAIN: Final = timedelta(seconds=10)
"""Neither the reports of other controllers nor the passing of time enqueue a Deployment."""
ACTING: Final = ("replicaset",)
"""Whose work a rollout waits for."""
_BEFORE_A_NODE: Final = (PodStage.ADMITTED, PodStage.QUEUED, PodStage.SCHEDULED, PodStage.BOUND)
_MESSAGE_LENGTH_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class UnobservedSet:
    """A set that has not observed its generation, and since when that is seen."""

    name: str
    generation: int
    since: datetime


@dataclass(frozen=True, slots=True)
class RolloutMemory:
    """Recorded with the decision. A controller that starts sees each of them for the first time."""

    unobserved: tuple[UnobservedSet, ...] = ()


def remember_unobserved(sets: Iterable[Object], memory: RolloutMemory | None, now: datetime) -> RolloutMemory | None:
    """The sets that have not observed what they were last told. None: all have."""
    before = {(each.name, each.generation): each.since for each in (memory.unobserved if memory else ())}
    found = []
    for each in sets:
        if collect_unobserved_generation(each, None, now):
            name, generation = each["metadata"]["name"], int(each["metadata"].get("generation") or 0)
            found.append(UnobservedSet(name, generation, min(before.get((name, generation), now), now)))
    return RolloutMemory(tuple(found)) if found else None


def collect_about_sets(sets: Iterable[Object], memory: RolloutMemory | None, now: datetime) -> tuple[Evidence, ...]:
    """What the sets of a rollout do not observe."""
    since = {each.name: each.since for each in (memory.unobserved if memory else ())}
    return tuple(
        [
            piece
            for each in sets
            for piece in collect_unobserved_generation(each, since.get(each["metadata"]["name"]), now)
        ]
    )


def collect_about_controllers(states: Sequence[Object], now: datetime) -> tuple[Evidence, ...]:
    """What reports say of the controllers whose work a rollout waits for."""
    return (*collect_queue_age(states, ACTING, now), *collect_controller_errors(states, ACTING, now))


@dataclass(frozen=True, slots=True)
class ExpansionPause:
    """Why a rollout takes no step."""

    evidence: tuple[Evidence, ...]
    """What allows it."""

    @property
    def reason(self) -> str:
        return str(max(self.evidence, key=lambda each: (each.strength, each.signal)).signal)

    @property
    def message(self) -> str:
        return f"the rollout does not expand: {describe_evidence(self.evidence)}"[:_MESSAGE_LENGTH_MAX]


def find_pause(evidence: Sequence[Evidence]) -> ExpansionPause | None:
    """What the table allows."""
    signals = allowed(evidence).because.get(EvidenceResponse.PAUSE_ROLLOUT, ())
    found = tuple([each for each in evidence if each.signal in signals])
    return ExpansionPause(found) if found else None


def find_growth_limit(new: Object) -> ProgressLimit | None:
    """What refuses the replicas that the new set has asked for already. None: nothing, or nothing that is known for its
    generation. What starts slowly or crashes is not refused: how many of those there may be, `maxUnavailable` says."""
    progress, metadata, status = read_progress(new), new["metadata"], new.get("status") or {}
    if progress is None or progress.limited_by is None or progress.observed_generation != metadata.get("generation"):
        return None
    if int(status.get("availableReplicas") or 0) >= int(new["spec"].get("replicas", 1)):
        return None  # The record is older than this.
    is_refused = progress.verdict in (ProgressVerdict.WAITING, ProgressVerdict.STUCK)
    return progress.limited_by if is_refused and progress.limited_by.stage in _BEFORE_A_NODE else None


def say_pause(status: dict[str, Any], pause: ExpansionPause | None, now: datetime) -> dict[str, Any]:
    """The status of a Deployment with the condition `ExpansionPaused` while it is so, and without it else."""
    conditions: list[Mapping[str, Any]] = list(status.get("conditions") or ())
    old = next((each for each in conditions if each.get("type") == EXPANSION_PAUSED), None)
    others = [each for each in conditions if each.get("type") != EXPANSION_PAUSED]
    if pause is None:
        return status if old is None else {**status, "conditions": others}
    if old is not None and old.get("reason") == pause.reason:
        return status  # What was measured changes all the time. That is in the record of each decision.
    at = times.format_time(now)
    said = {
        "type": EXPANSION_PAUSED,
        "status": str(Truth.TRUE),
        "lastUpdateTime": at,
        "lastTransitionTime": at if old is None else old.get("lastTransitionTime", at),
        "reason": pause.reason,
        "message": pause.message,
    }
    return {**status, "conditions": [*others, said]}
