"""The status of a pod: what its agent reports, from what its containers do. Plain functions.

The phase is worked out as the kubelet does. A pod is reported as Succeeded or Failed only when nothing of it runs any
more, because others then take its room and its name; once it was, it stays so.

What the agent does not know of (the QoS class, the nominated node, conditions of others) is kept as it is stored. If
nothing has changed, the outcome is equal to what is stored, so nothing is written.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from mainstay.agent.pod.attempts import Container, PodContainers, Role
from mainstay.agent.pod.conditions import CAN_START, build_conditions, has_started, is_true
from mainstay.agent.pod.container_status import container_status
from mainstay.agent.pod.facts import ContainerWaiting, PodFacts
from mainstay.agent.pod.restarts import latest_verdicts, restarts
from mainstay.api import times
from mainstay.api.kind import Object

PENDING: Final = "Pending"
RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
TERMINAL: Final = (SUCCEEDED, FAILED)

_NOTHING: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class PodVerdict:
    """The pod is over, or about to be."""

    phase: str | None = None
    """What becomes of it, if that does not follow from its containers alone."""
    reason: str = ""
    message: str = ""


def build_status(
    pod: Object,
    facts: PodFacts,
    containers: PodContainers,
    *,
    holds: Mapping[str, ContainerWaiting],
    over: PodVerdict | None,
    now: datetime,
) -> Object:
    """The whole status the pod should have. `holds` says what keeps containers from being started; `over`, that
    nothing is started any more."""
    stored: Object = pod.get("status") or {}
    statuses = {
        each.name: container_status(each, facts, holds, has_init=bool(containers.init), is_over=over is not None)
        for each in containers
    }
    comes_again = any(each.is_live or restarts(each, latest_verdicts(each, facts)) for each in containers.main)
    phase = _phase(containers, statuses, over, stored, comes_again=comes_again)
    # The old volumes are there until the new ones are made.
    was_there = is_true(stored.get("conditions"), CAN_START)
    is_there = bool(facts.address) and (facts.is_placed or was_there) and phase not in TERMINAL
    status: Object = {
        **stored,
        **({"observedGeneration": pod["metadata"]["generation"]} if "generation" in pod["metadata"] else {}),
        "phase": phase,
        "conditions": build_conditions(
            pod, containers, statuses, phase=phase, can_start=is_there, is_over=over is not None, now=now
        ),
        "startTime": stored.get("startTime") or times.format_time(facts.accepted_at),
    }
    _explain(status, stored, over)
    if facts.host_address:
        status["hostIP"] = facts.host_address
        status["hostIPs"] = [{"ip": facts.host_address}]
    if is_there:
        status["podIP"] = facts.address
        status["podIPs"] = [{"ip": facts.address}]
    is_rejected = over is not None and over.phase is not None and not any(each.attempts for each in containers)
    if not is_rejected or "containerStatuses" in stored:
        if containers.init:
            status["initContainerStatuses"] = [statuses[each.name] for each in containers.init]
        status["containerStatuses"] = [statuses[name] for name in sorted(each.name for each in containers.main)]
    return status


def _explain(status: Object, stored: Object, over: PodVerdict | None) -> None:
    """The pod's own reason and message: kept on a pod that is over, else only those of the verdict."""
    if stored.get("phase") in TERMINAL:
        return
    said = over if over is not None and status["phase"] in TERMINAL else None
    for field, text in (("reason", said.reason if said else ""), ("message", said.message if said else "")):
        if text:
            status[field] = text
        else:
            status.pop(field, None)


def _phase(
    containers: PodContainers,
    statuses: Mapping[str, Object],
    over: PodVerdict | None,
    stored: Object,
    *,
    comes_again: bool,
) -> str:
    before: str = stored.get("phase") or PENDING
    if before in TERMINAL:
        return before
    is_over = over is not None and not containers.is_live
    phase = _natural_phase(containers, statuses, comes_again=comes_again and not is_over)
    if over is not None:
        phase = over.phase or phase
        if not containers.is_live:
            # Nothing of it will ever run again. If it never ran at all, it did not succeed.
            return phase if phase in TERMINAL else FAILED
    return before if phase in TERMINAL and containers.is_live else phase


def _natural_phase(containers: PodContainers, statuses: Mapping[str, Object], *, comes_again: bool) -> str:
    """What follows from the containers' states. `comes_again`: a main container runs, or is to be started again."""
    if any(fails_for_good(each) for each in containers.init):
        return FAILED
    was_initialized = any(has_started(statuses[each.name]) for each in containers.main)
    lasting = [statuses[each.name] for each in containers if each.role is not Role.INIT]
    if any(_is_initializing(each, statuses[each.name], was_initialized) for each in containers.init) or any(
        _is(each, "waiting") and "terminated" not in each["lastState"] for each in lasting
    ):
        return PENDING
    if comes_again or any(_is(each, "running") for each in lasting):
        return RUNNING
    is_success = all(_end(statuses[each.name])["exitCode"] == 0 for each in containers.main)
    return SUCCEEDED if is_success else FAILED


def fails_for_good(container: Container) -> bool:
    """Whether an init container has failed and is not tried again."""
    exited = container.exited
    return container.role is Role.INIT and exited is not None and exited.code != 0 and container.policy == "Never"


def _is_initializing(container: Container, status: Object, was_initialized: bool) -> bool:
    if container.role is Role.SIDECAR:
        is_pending = _is(status, "waiting") and "terminated" not in status["lastState"]
        return not was_initialized and (is_pending or (_is(status, "running") and not status["started"]))
    if _is(status, "terminated"):
        return False
    return not (_is(status, "waiting") and (status["lastState"].get("terminated") or _NOTHING).get("exitCode"))


def _end(status: Object) -> Mapping[str, Any]:
    ended: Mapping[str, Any] = status["state"].get("terminated") or status["lastState"]["terminated"]
    return ended


def _is(status: Object, state: str) -> bool:
    return state in status["state"]
