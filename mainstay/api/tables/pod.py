"""The row of a pod: one word for how it is doing, out of all that its containers say.

The word is the pod's own reason or phase, unless a container has more to tell. While init containers run, the first one
that has not finished speaks (`Init:0/2`, `Init:Error`); afterwards the first container that waits or has ended does
(`CrashLoopBackOff`, `Error`). Being deleted is said before anything else, except of a pod that is already over.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mainstay.api.kind import Column, Object
from mainstay.api.tables.fields import flag, has, is_true, mapping, moment, objects, text, whole
from mainstay.api.tables.table import AGE, NAME, Table
from mainstay.api.tables.texts import NONE
from mainstay.api.times import age

_OVER = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}
"""The phases of a pod that is over, and what is said of it then."""
_SIDECAR_POLICY = "Always"  # An init container with it keeps running beside the others.


@dataclass(frozen=True, slots=True)
class _Summary:
    status: str
    ready: int
    restarted: tuple[Object, ...]
    """The container statuses whose restarts count."""


@dataclass(frozen=True, slots=True)
class _Initialization:
    blocked_by: str
    """What the first init container that is in the way says. Empty: none is."""
    ready: int
    """Sidecars only."""
    seen: tuple[Object, ...]
    sidecars: tuple[Object, ...]


def _row(pod: Object, now: datetime) -> list[Any]:
    summary = _summary(pod)
    sidecars = _sidecar_names(pod)
    containers = len(objects(pod, "spec.containers")) + len(sidecars)
    return [
        NAME.cell(pod, now),
        f"{summary.ready}/{containers}",
        _deletion(pod) or summary.status,
        _restarts(summary.restarted, now),
        AGE.cell(pod, now),
        text(pod, "status.podIP") or next((text(each, "ip") for each in objects(pod, "status.podIPs")), "") or NONE,
        text(pod, "spec.nodeName", NONE),
        text(pod, "status.nominatedNodeName", NONE),
        _readiness_gates(pod),
    ]


def _summary(pod: Object) -> _Summary:
    initialization = _initialization(pod)
    if initialization.blocked_by and not is_true(pod, "Initialized"):
        return _Summary(initialization.blocked_by, initialization.ready, initialization.seen)

    containers = objects(pod, "status.containerStatuses")
    running = [each for each in containers if not _ending(each) and flag(each, "ready") and has(each, "state.running")]
    # A pod that was initialized once may still have a sidecar in trouble. That is told if no container has more to say.
    status = initialization.blocked_by or _own_status(pod)
    status = next((ending for each in containers if (ending := _ending(each))), status)
    if status == "Completed":
        status = _partly_completed(pod, containers, any_running=bool(running))
    return _Summary(status, initialization.ready + len(running), (*initialization.sidecars, *containers))


def _own_status(pod: Object) -> str:
    conditions = objects(pod, "status.conditions")
    if any(each.get("type") == "PodScheduled" and each.get("reason") == "SchedulingGated" for each in conditions):
        return "SchedulingGated"
    return text(pod, "status.reason") or text(pod, "status.phase")


def _initialization(pod: Object) -> _Initialization:
    sidecar_names = _sidecar_names(pod)
    seen: list[Object] = []
    sidecars: list[Object] = []
    ready = 0
    blocked_by = ""
    for position, container in enumerate(objects(pod, "status.initContainerStatuses")):
        is_sidecar = text(container, "name") in sidecar_names
        seen.append(container)
        if is_sidecar:
            sidecars.append(container)
        if has(container, "state.terminated") and whole(container, "state.terminated.exitCode") == 0:
            continue
        if is_sidecar and flag(container, "started"):
            ready += flag(container, "ready")
            continue
        ending = _ending(container)
        if ending in ("", "PodInitializing") and not has(container, "state.terminated"):
            ending = f"{position}/{len(objects(pod, 'spec.initContainers'))}"
        blocked_by = f"Init:{ending}"
        break
    return _Initialization(blocked_by, ready, tuple(seen), tuple(sidecars))


def _sidecar_names(pod: Object) -> list[str]:
    declared = objects(pod, "spec.initContainers")
    return [text(each, "name") for each in declared if each.get("restartPolicy") == _SIDECAR_POLICY]


def _ending(container: Object) -> str:
    """Why a container does not run: what it waits for, or how it ended. Empty if it says neither."""
    waits_for = text(container, "state.waiting.reason")
    if waits_for or not has(container, "state.terminated"):
        return waits_for
    ended = mapping(container, "state.terminated")
    signal = whole(ended, "signal")
    return text(ended, "reason") or (f"Signal:{signal}" if signal else f"ExitCode:{whole(ended, 'exitCode')}")


def _partly_completed(pod: Object, containers: Sequence[Object], *, any_running: bool) -> str:
    """One container has completed. What is to be said of the pod depends on the others."""
    if any_running and any(
        each.get("type") == "Ready" and each.get("status") == "True" for each in objects(pod, "status.conditions")
    ):
        return "Running"
    failed = (each for each in containers if whole(each, "state.terminated.exitCode") != 0)
    return next(map(_ending, failed), "NotReady" if any_running else "Completed")


def _deletion(pod: Object) -> str:
    if not has(pod, "metadata.deletionTimestamp"):
        return ""
    if text(pod, "status.reason") == "NodeLost":
        return "Unknown"
    return "" if text(pod, "status.phase") in _OVER else "Terminating"


def _restarts(containers: Iterable[Object], now: datetime) -> str:
    count = 0
    last: datetime | None = None
    for container in containers:
        count += whole(container, "restartCount")
        ended = moment(mapping(container, "lastState.terminated").get("finishedAt"))
        if ended is not None and (last is None or ended > last):
            last = ended
    return f"{count} ({age(now, last)} ago)" if count and last is not None else str(count)


def _readiness_gates(pod: Object) -> str:
    gates = objects(pod, "spec.readinessGates")
    passed = [gate for gate in gates if has(gate, "conditionType") and is_true(pod, text(gate, "conditionType"))]
    return f"{len(passed)}/{len(gates)}" if gates else NONE


def _conditions(pod: Object) -> Sequence[Object]:
    """That a pod is over: clients may then leave its row out."""
    phase = text(pod, "status.phase")
    if phase not in _OVER:
        return ()
    return ({"type": "Completed", "status": "True", "reason": phase, "message": _OVER[phase]},)


_COLUMNS = (
    NAME.column,
    Column("Ready", description="How many of its containers are ready, of how many."),
    Column("Status", description="How it is doing, in a word."),
    Column("Restarts", description="How often its containers were started again, and when last."),
    AGE.column,
    Column("IP", description="The address of the pod.", priority=1),
    Column("Node", description="The node it is bound to.", priority=1),
    Column("Nominated Node", description="The node where room is being made for it.", priority=1),
    Column("Readiness Gates", description="How many further conditions hold that it needs to be ready.", priority=1),
)

TABLES = {("", "Pod"): Table(_COLUMNS, _row, _conditions)}
