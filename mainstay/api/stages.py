"""How far a pod has come on its way into service (SPEC F4), read from the pod alone.

    admitted ─► queued ─► scheduled ─► bound ─► starting ─► ready ─► serving

Each stage is recorded by who brings it about: the server admits, the scheduler chooses a node (`scheduledAt`) and binds
(`PodScheduled`), the agent starts (`startTime`) and says what is ready (`Ready`), and who routes traffic says what is
served (`mainstay.dev/Serving`). A pod that stops being ready is starting again. One that is over, or on its way out,
has no stage.

Between being scheduled and bound is the time of one request. So that no pod needs a write of its own for it, the
binding carries the time of the choice, and the commit keeps it in `PodScheduled`. While a binding has no answer, the
scheduler reports it (`SchedulingRetrying`), and the pod is seen to be scheduled. A pod for which others are preempted
(`nominatedNodeName`) is scheduled, too.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from mainstay.api import times
from mainstay.api.kind import Object
from mainstay.api.pod_resources import is_over

SERVING_CONDITION: Final = "mainstay.dev/Serving"
SCHEDULING_RETRYING: Final = "SchedulingRetrying"
"""While it is true, a binding of the pod was sent that has no answer."""

_NOTHING: Final[Mapping[str, Any]] = {}


class PodStage(StrEnum):
    """In this order. Shown to users: only add."""

    ADMITTED = "admitted"
    """It may not be scheduled yet: it has scheduling gates."""
    QUEUED = "queued"
    """It waits for a node."""
    SCHEDULED = "scheduled"
    """A node was chosen for it, and it is not known to be bound."""
    BOUND = "bound"
    """It is bound to the node, and the agent has not acknowledged it yet."""
    STARTING = "starting"
    READY = "ready"
    SERVING = "serving"
    """It receives traffic."""


def find_stage(pod: Object) -> tuple[PodStage, datetime] | None:
    """The stage a pod is in, and since when. None: it is over, or about to be."""
    metadata, spec, status = pod["metadata"], pod.get("spec") or _NOTHING, pod.get("status") or _NOTHING
    if is_over(pod) or metadata.get("deletionTimestamp"):
        return None
    conditions = {each.get("type"): each for each in status.get("conditions") or ()}
    created = times.parse_time(metadata["creationTimestamp"])

    def since(kind: str, otherwise: datetime) -> datetime:
        said = conditions.get(kind, _NOTHING).get("lastTransitionTime")
        return times.parse_time(said) if said else otherwise

    def holds(kind: str) -> bool:
        return bool(conditions.get(kind, _NOTHING).get("status") == "True")

    if not spec.get("nodeName"):
        if spec.get("schedulingGates"):
            return PodStage.ADMITTED, created
        if holds(SCHEDULING_RETRYING):
            chosen_at = _parse_scheduled_at(conditions[SCHEDULING_RETRYING])
            return PodStage.SCHEDULED, chosen_at or since(SCHEDULING_RETRYING, created)
        if status.get("nominatedNodeName"):
            return PodStage.SCHEDULED, since("PodScheduled", created)
        return PodStage.QUEUED, created
    bound_at = since("PodScheduled", created)
    if not status.get("startTime"):
        return PodStage.BOUND, bound_at
    started_at = times.parse_time(status["startTime"])
    if not holds("Ready"):
        return PodStage.STARTING, max(started_at, since("Ready", started_at))
    ready_at = since("Ready", started_at)
    if not holds(SERVING_CONDITION):
        return PodStage.READY, ready_at
    return PodStage.SERVING, max(ready_at, since(SERVING_CONDITION, ready_at))


def find_scheduled_at(pod: Object) -> datetime | None:
    """When the node of a bound pod was chosen. None: it is not bound, or its scheduler did not say."""
    for each in (pod.get("status") or _NOTHING).get("conditions") or ():
        if each.get("type") == "PodScheduled" and each.get("status") == "True":
            return _parse_scheduled_at(each)
    return None


def _parse_scheduled_at(condition: Mapping[str, Any]) -> datetime | None:
    said = condition.get("scheduledAt")
    return times.parse_time(said) if said else None
