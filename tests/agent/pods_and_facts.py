"""Pods, facts about them, and short names for what containers do: for tests of what the agent decides."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from mainstay.agent.pod.facts import PodFacts
from mainstay.agent.runner import ContainerId, Exited, Running, Starting, State
from mainstay.api import times
from mainstay.api.kind import Object
from mainstay.api.tables import TABLES
from tests.api.builders import a_container

NOON = datetime(2026, 11, 16, 12, 0, 0, tzinfo=UTC)
UID = "u-1"


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def after(number: float) -> datetime:
    return NOON + seconds(number)


def text(number: float) -> str:
    """So many seconds after noon, as the API writes it."""
    return times.format_time(after(number))


def a_pod(
    *containers: Object | str,
    init: tuple[Object, ...] = (),
    status: Object | None = None,
    deleted_at: float | None = None,
    grace: int = 30,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Object:
    """A pod bound to a node, as it is stored. `deleted_at`: in seconds after noon; it then has its grace to end."""
    metadata: Object = {
        "name": "web",
        "namespace": "default",
        "uid": UID,
        "generation": 1,
        "creationTimestamp": text(-10),
        "annotations": annotations or {},
    }
    if deleted_at is not None:
        metadata["deletionTimestamp"] = text(deleted_at + grace)
        metadata["deletionGracePeriodSeconds"] = grace
    listed = [a_container(each) if isinstance(each, str) else each for each in containers or ("app",)]
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": text(-1)}
    return {
        "metadata": metadata,
        "spec": {
            "containers": listed,
            **({"initContainers": list(init)} if init else {}),
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "nodeName": "n",
            **spec,
        },
        "status": status or {"phase": "Pending", "qosClass": "BestEffort", "conditions": [scheduled]},
    }


def a_sidecar(name: str, **fields: Any) -> Object:
    return a_container(name, restartPolicy="Always", **fields)


def some_facts(instances: Mapping[ContainerId, State] | None = None, **fields: Any) -> PodFacts:
    given = {"address": "127.64.0.2", "host_address": "10.0.0.1", "accepted_at": NOON, "is_placed": True}
    return PodFacts(instances=dict(sorted((instances or {}).items())), **{**given, **fields})


def an_id(name: str = "app", attempt: int = 0) -> ContainerId:
    return ContainerId(UID, name, attempt)


def instances(**states: State | list[State]) -> dict[ContainerId, State]:
    """By the container's name: its state, or those of all its attempts."""
    return {
        an_id(name, number): state
        for name, given in states.items()
        for number, state in enumerate(given if isinstance(given, list) else [given])
    }


STARTING = Starting()


def running(since: float = 0) -> Running:
    return Running(after(since))


def ended(code: int = 0, *, since: float = 0, at: float = 1, **fields: Any) -> Exited:
    return Exited(code=code, started_at=after(since), finished_at=after(at), **fields)


def with_status(pod: Object, status: Object) -> Object:
    """The pod as it is after the status was written."""
    return {**pod, "status": status}


def row(pod: Object, *, at: float = 60) -> list[str]:
    """READY, STATUS and RESTARTS as `kubectl get pods` shows them."""
    shown = {"kind": "Pod", "apiVersion": "v1", **pod}
    return [str(cell) for cell in TABLES["", "Pod"].cells(shown, after(at))[1:4]]


def state_of(status: Object, name: str = "app") -> Object:
    """The status of one container."""
    everyone = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    found: Object = next(each for each in everyone if each["name"] == name)
    return found


def condition(status: Object, kind: str) -> Object:
    found: Object = next(each for each in status["conditions"] if each["type"] == kind)
    return found
