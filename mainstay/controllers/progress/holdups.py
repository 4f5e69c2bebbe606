"""What holds up the replicas of a workload: before which boundary they stand, who would have to let them, and why.

Read from the pods alone, as everybody has left them: nothing is asked and nothing is guessed. `find_limit` names the
one boundary before which most of them stand; of several the first, since what is behind it cannot come either.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.progress import PendingReason, ProgressLimit, ProgressVerdict
from mainstay.api.stages import SCHEDULING_RETRYING, SERVING_CONDITION, PodStage, find_stage

MESSAGE_LENGTH_MAX: Final = 256

HOPELESS: Final = frozenset(
    {
        "CommandRequired",
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RunContainerError",
    }
)
"""Why a container does not run: it will be tried again, and there is no reason why that should help."""

_ORDER: Final = tuple(PodStage)
_PENDING: Final = (PodStage.ADMITTED, PodStage.QUEUED, PodStage.SCHEDULED)
_NOTHING: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class Holdup:
    """Why one pod is no further. `stage` is what it does not reach."""

    stage: PodStage
    component: str
    reason: str
    message: str = ""
    verdict: ProgressVerdict = ProgressVerdict.PROGRESSING
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Replicas:
    """The pods of a workload that are there to stay, by how far they are. See api/progress.py for the words."""

    admitted: int = 0
    pending: int = 0
    bound: int = 0
    starting: int = 0
    ready: int = 0
    serving: int = 0
    holdups: tuple[Holdup, ...] = ()
    """One for each pod that waits."""


def count_replicas(pods: Iterable[Object]) -> Replicas:
    """Count pods. Those that are over, or leaving, do not count."""
    found: dict[PodStage, int] = dict.fromkeys(PodStage, 0)
    holdups = []
    for pod in pods:
        at = find_stage(pod)
        if at is not None:
            found[at[0]] += 1
            if (holdup := find_holdup(pod, at[0])) is not None:
                holdups.append(holdup)
    pending = sum(found[stage] for stage in _PENDING)
    starting, ready = found[PodStage.BOUND] + found[PodStage.STARTING], found[PodStage.READY] + found[PodStage.SERVING]
    return Replicas(
        admitted=pending + starting + ready,
        pending=pending,
        bound=starting + ready,
        starting=starting,
        ready=ready,
        serving=found[PodStage.SERVING],
        holdups=tuple(holdups),
    )


def find_holdup(pod: Object, stage: PodStage) -> Holdup | None:
    """Why a pod that is in this stage is no further. None: nothing is missing."""
    match stage:
        case PodStage.ADMITTED:
            gates = ", ".join(str(each.get("name")) for each in pod["spec"]["schedulingGates"])
            return Holdup(
                PodStage.QUEUED,
                "gates",
                "SchedulingGated",
                f"waiting for scheduling gates {gates}",
                ProgressVerdict.WAITING,
            )
        case PodStage.QUEUED:
            return _queued(pod)
        case PodStage.SCHEDULED:
            retrying = pod_state.find_condition(pod, SCHEDULING_RETRYING) or _NOTHING
            if retrying.get("status") == "True":
                message = str(retrying.get("message") or "")[:MESSAGE_LENGTH_MAX]
                return Holdup(PodStage.BOUND, "scheduler", str(retrying.get("reason") or ""), message)
            node = (pod.get("status") or _NOTHING).get("nominatedNodeName")
            return Holdup(PodStage.BOUND, "scheduler", "MakingRoom", f"preempting pods on {node}")
        case PodStage.BOUND:
            return Holdup(PodStage.STARTING, "agent", "NotTakenOn", f"by {pod_state.get_node_name(pod)}")
        case PodStage.STARTING:
            return _starting(pod)
        case PodStage.READY:
            said = pod_state.find_condition(pod, SERVING_CONDITION) or _NOTHING
            if said.get("status") != "False":
                return None  # No Service routes to it, as far as is known, and none has to.
            reason, message = str(said.get("reason") or ""), str(said.get("message") or "")
            return Holdup(PodStage.SERVING, "endpoint-slice", reason, message, ProgressVerdict.WAITING)
        case _:
            return None


def _queued(pod: Object) -> Holdup:
    said = pod_state.find_condition(pod, "PodScheduled") or _NOTHING
    if said.get("status") != "False":
        return Holdup(PodStage.SCHEDULED, "scheduler", "Queued")
    reason, message = str(said.get("reason") or "Unschedulable"), str(said.get("message") or "")
    message, cause = message[:MESSAGE_LENGTH_MAX], str(said.get("cause") or "")
    return Holdup(PodStage.SCHEDULED, "scheduler", reason, message, ProgressVerdict.WAITING, cause)


def _starting(pod: Object) -> Holdup:
    status = pod.get("status") or _NOTHING
    statuses = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    waiting = [(each.get("state") or _NOTHING).get("waiting") or _NOTHING for each in statuses]
    for each in waiting:
        if each.get("reason") in HOPELESS:
            message = str(each.get("message") or "")[:MESSAGE_LENGTH_MAX]
            return Holdup(PodStage.READY, "agent", each["reason"], message, ProgressVerdict.STUCK)
    first = next((each for each in waiting if each.get("reason")), None)
    if first is not None:
        message = str(first.get("message") or "")[:MESSAGE_LENGTH_MAX]
        return Holdup(PodStage.READY, "agent", str(first["reason"]), message)
    said = pod_state.find_condition(pod, "Ready") or _NOTHING
    return Holdup(PodStage.READY, "agent", str(said.get("reason") or "Starting"))


def pending_reasons(holdups: Iterable[Holdup]) -> tuple[PendingReason, ...]:
    """Why pods have no node, most frequent first. Of the messages for one reason the first is kept."""
    counts: dict[str, int] = {}
    messages: dict[str, str] = {}
    for each in holdups:
        if _ORDER.index(each.stage) <= _ORDER.index(PodStage.BOUND):
            counts[each.reason] = counts.get(each.reason, 0) + 1
            messages.setdefault(each.reason, each.message)
    order = sorted(counts, key=lambda reason: (-counts[reason], reason))
    return tuple([PendingReason(reason, counts[reason], messages[reason]) for reason in order])


def find_limit(holdups: Sequence[Holdup]) -> tuple[ProgressLimit, ProgressVerdict] | None:
    """The boundary that most of them stand before, and what to make of it. None if nothing holds them up."""
    counts: dict[PodStage, int] = {}
    for each in holdups:
        counts[each.stage] = counts.get(each.stage, 0) + 1
    if not counts:
        return None
    stage = max(counts, key=lambda each: (counts[each], -_ORDER.index(each)))
    here = [each for each in holdups if each.stage == stage]
    reasons: dict[str, int] = {}
    for each in here:
        reasons[each.reason] = reasons.get(each.reason, 0) + 1
    # The gravest, and of those the one of most pods: a crash says more than a start that is under way.
    worst = max(here, key=lambda each: (_GRAVITY.index(each.verdict), reasons[each.reason]))
    limit = ProgressLimit(stage, worst.component, worst.reason, counts[stage], worst.message, worst.cause)
    return limit, worst.verdict


_GRAVITY: Final = (
    ProgressVerdict.COMPLETE,
    ProgressVerdict.PROGRESSING,
    ProgressVerdict.WAITING,
    ProgressVerdict.STUCK,
    ProgressVerdict.FAILED,
)
