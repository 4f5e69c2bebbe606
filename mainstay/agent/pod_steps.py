"""What a pretend agent does next about one of its pods, and what it reports of it. Plain functions.

    bound ─► starting ─► running and ready ─► (deletion) not ready ─► removed

Where a pod is in this is read from its status, as it is stored; only how long ago something was first seen is the
agent's own. So an agent that was started again goes on where the last one left it.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from mainstay.api.kind import Object

_TERMINAL: Final = ("Succeeded", "Failed")
_READY_TYPES: Final = ("Ready", "ContainersReady")


@dataclass(frozen=True, slots=True)
class Delays:
    """How long a pod takes."""

    start: timedelta = timedelta(seconds=1)
    """From when the agent has seen it to being ready."""
    stop: timedelta = timedelta(milliseconds=500)
    """From being asked to end to having done so; never longer than its grace."""


@dataclass(frozen=True, slots=True)
class Report:
    """Write this status, which is of this stage."""

    stage: str
    status: Object


@dataclass(frozen=True, slots=True)
class Remove:
    """The pod has ended and is to go: delete it without grace."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing before this moment, on the monotonic clock, unless the pod changes."""

    until_ns: int


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing until the pod changes."""


Step = Report | Remove | Wait | Done


@dataclass(frozen=True, slots=True)
class Known:
    """What the agent knows of a pod besides what is stored."""

    address: str
    host_address: str
    seen_ns: int
    """When this agent first saw it,"""
    ending_ns: int | None
    """and when it first saw that it is to end."""


def decide(pod: Object, known: Known, delays: Delays, now_ns: int, now: str) -> Step:
    """What to do next. `now` is the same moment as people read it."""
    status = pod.get("status") or {}
    phase = status.get("phase") or "Pending"
    if pod["metadata"].get("deletionTimestamp"):
        return _ending(pod, status, phase, known, delays, now_ns, now)
    if phase in _TERMINAL or (phase == "Running" and is_ready(pod)):
        return Done()
    if not status.get("startTime"):
        return Report("starting", _starting(pod, known, now))
    ready_at_ns = known.seen_ns + _nanoseconds(delays.start)
    if now_ns < ready_at_ns:
        return Wait(ready_at_ns)
    return Report("running", _running(pod, known, now))


def _ending(pod: Object, status: Object, phase: str, known: Known, delays: Delays, now_ns: int, now: str) -> Step:
    grace = timedelta(seconds=pod["metadata"].get("deletionGracePeriodSeconds") or 0)
    if phase != "Running" or not grace:
        return Remove()
    if is_ready(pod):
        return Report("ending", {"conditions": [_condition(kind, "False", now) for kind in _READY_TYPES]})
    gone_at_ns = (now_ns if known.ending_ns is None else known.ending_ns) + _nanoseconds(min(delays.stop, grace))
    return Wait(gone_at_ns) if now_ns < gone_at_ns else Remove()


def is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def _starting(pod: Object, known: Known, now: str) -> Object:
    return {
        "phase": "Pending",
        "startTime": now,
        "hostIP": known.host_address,
        "conditions": [
            _condition("Initialized", "True", now),
            *(_condition(kind, "False", now) for kind in _READY_TYPES),
            _condition("PodScheduled", "True", now),
        ],
        "containerStatuses": [
            _container(each, {"waiting": {"reason": "ContainerCreating"}}, is_running=False)
            for each in _containers(pod)
        ],
    }


def _running(pod: Object, known: Known, now: str) -> Object:
    return {
        "phase": "Running",
        "hostIP": known.host_address,
        "podIP": known.address,
        "podIPs": [{"ip": known.address}],
        "conditions": [_condition(kind, "True", now) for kind in _READY_TYPES],
        "containerStatuses": [
            _container(each, {"running": {"startedAt": now}}, is_running=True) for each in _containers(pod)
        ],
    }


def _containers(pod: Object) -> list[Object]:
    containers: list[Object] = (pod.get("spec") or {}).get("containers") or []
    return containers


def _container(container: Object, state: Object, *, is_running: bool) -> Object:
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "restartCount": 0,
        "ready": is_running,
        "started": is_running,
        "state": state,
    }


def _condition(kind: str, status: str, now: str) -> dict[str, Any]:
    return {"type": kind, "status": status, "lastTransitionTime": now}


def _nanoseconds(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1) * 1000
