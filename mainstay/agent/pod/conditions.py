"""The conditions that the agent keeps on its pods, in the kubelet's words.

PodReadyToStartContainers, Initialized, Ready, ContainersReady, PodScheduled. What others keep (readiness gates,
DisruptionTarget, …) is left alone. A condition's time changes only when its status does.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from mainstay.agent.pod.attempts import PodContainers, Role
from mainstay.api import times
from mainstay.api.kind import Object

READY: Final = "Ready"
CONTAINERS_READY: Final = "ContainersReady"
INITIALIZED: Final = "Initialized"
CAN_START: Final = "PodReadyToStartContainers"
SCHEDULED: Final = "PodScheduled"

ENDING_REASON: Final = "Terminating"
_OVER_REASONS: Final = {"Failed": "PodFailed", "Succeeded": "PodCompleted"}


def find(conditions: Sequence[Mapping[str, Any]] | None, kind: str) -> Mapping[str, Any] | None:
    for each in conditions or ():
        if each.get("type") == kind:
            return each
    return None


def is_true(conditions: Sequence[Mapping[str, Any]] | None, kind: str) -> bool:
    found = find(conditions, kind)
    return found is not None and found.get("status") == "True"


def build_conditions(
    pod: Object,
    containers: PodContainers,
    statuses: Mapping[str, Object],
    *,
    phase: str,
    can_start: bool,
    is_over: bool,
    now: datetime,
) -> list[Object]:
    """All conditions the pod should have: the agent's, in the kubelet's order, then those of others."""
    stored: list[Object] = (pod.get("status") or {}).get("conditions") or []
    containers_ready = _containers_ready(containers, statuses, phase)
    own = [
        _condition(CAN_START, holds=can_start),
        _initialized(containers, statuses, phase),
        _ready(pod, containers_ready, stored, is_over=is_over),
        containers_ready,
        _condition(SCHEDULED, holds=True),
    ]
    generation = pod["metadata"].get("generation")
    before = {each["type"]: each for each in stored}
    dated = [_dated(each, before.pop(each["type"], None), generation, now) for each in own]
    return [*dated, *before.values()]


def _containers_ready(containers: PodContainers, statuses: Mapping[str, Object], phase: str) -> Object:
    if phase in _OVER_REASONS:
        return _condition(CONTAINERS_READY, holds=False, reason=_OVER_REASONS[phase])
    counted = [each for each in containers if each.role is not Role.INIT]
    unready = [each.name for each in counted if not statuses[each.name]["ready"]]
    if unready:
        message = f"containers with unready status: [{' '.join(unready)}]"
        return _condition(CONTAINERS_READY, holds=False, reason="ContainersNotReady", message=message)
    return _condition(CONTAINERS_READY, holds=True)


def _ready(pod: Object, containers_ready: Object, stored: Sequence[Object], *, is_over: bool) -> Object:
    if containers_ready["status"] != "True":
        return {**containers_ready, "type": READY}
    if is_over:
        # Before any container is ended, so that no client sends requests to it any more.
        return _condition(READY, holds=False, reason=ENDING_REASON, message="the pod is about to end")
    missing = []
    for gate in pod["spec"].get("readinessGates") or ():
        kind = gate["conditionType"]
        condition = find(stored, kind)
        if condition is None:
            missing.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif condition.get("status") != "True":
            missing.append(f'the status of pod readiness gate "{kind}" is not "True", but {condition.get("status")}')
    if missing:
        return _condition(READY, holds=False, reason="ReadinessGatesNotReady", message=", ".join(missing))
    return _condition(READY, holds=True)


def _initialized(containers: PodContainers, statuses: Mapping[str, Object], phase: str) -> Object:
    if phase == "Succeeded":
        return _condition(INITIALIZED, holds=True, reason=_OVER_REASONS[phase])
    incomplete = [
        each.name
        for each in containers.init
        if not statuses[each.name]["started" if each.role is Role.SIDECAR else "ready"]
    ]
    if not incomplete or any(has_started(statuses[each.name]) for each in containers.main):
        return _condition(INITIALIZED, holds=True)
    message = f"containers with incomplete status: [{' '.join(incomplete)}]"
    return _condition(INITIALIZED, holds=False, reason="ContainersNotInitialized", message=message)


def has_started(status: Mapping[str, Any]) -> bool:
    """Whether a container runs, or ran once."""
    state = status["state"]
    return "running" in state or "terminated" in state or "terminated" in status["lastState"]


def _condition(kind: str, *, holds: bool, reason: str = "", message: str = "") -> Object:
    condition: Object = {"type": kind, "status": "True" if holds else "False"}
    if reason:
        condition["reason"] = reason
    if message:
        condition["message"] = message
    return condition


def _dated(wanted: Object, stored: Mapping[str, Any] | None, generation: int | None, now: datetime) -> Object:
    if stored is not None and stored.get("status") == wanted["status"]:
        if wanted["type"] == SCHEDULED:
            return dict(stored)  # The scheduler's, who may have said more.
        since = stored.get("lastTransitionTime") or times.format_time(now)
    else:
        since = times.format_time(now)
    dated = {**wanted, "lastTransitionTime": since}
    if generation is not None:
        dated["observedGeneration"] = generation
    return dated
