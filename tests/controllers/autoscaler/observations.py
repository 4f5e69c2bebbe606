"""Autoscalers, targets, pods and samples to decide about."""

from datetime import UTC, datetime, timedelta
from typing import Any

from mainstay.api import times
from mainstay.api.kind_names import DEPLOYMENTS
from mainstay.api.object_key import ObjectKey
from mainstay.controllers.autoscaler.observation import (
    NO_MEMORY,
    AutoscalerInput,
    AutoscalerMemory,
    ScaleTarget,
    UsageSample,
)
from mainstay.journal.record import micros

Object = dict[str, Any]
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
CORE = 10**9


def a_progress(desired: int, ready: int, *, generation: int = 1, **more: Any) -> Object:
    counts = dict.fromkeys(("admitted", "pending", "bound", "starting", "serving"), 0)
    verdict = "complete" if ready == desired else "waiting"
    base = {"observedGeneration": generation, "desired": desired, "ready": ready, "deadline": {"state": "none"}}
    return {**base, **counts, "verdict": verdict, **more}


def a_limit(stage: str, reason: str, *, component: str = "scheduler", cause: str = "") -> Object:
    return {"stage": stage, "component": component, "reason": reason, "count": 1, **({"cause": cause} if cause else {})}


def a_target(replicas: int, *, ready: int | None = None, limit: Object | None = None, **more: Any) -> ScaleTarget:
    found = replicas if ready is None else ready
    limited: Object = {} if limit is None else {"limitedBy": limit}
    progress = a_progress(replicas, found, **limited)
    given: Object = {"has_record": True, "generation": 1, "observed_generation": 1, "progress": progress, **more}
    return ScaleTarget(DEPLOYMENTS, ObjectKey("default", "web"), "7", replicas, found, "app=web", **given)


def a_pod(number: int, *, phase: str = "Running", ready: bool = True, age: timedelta = timedelta(hours=1)) -> Object:
    at = times.format_time(NOW - age)
    status: Object = {"phase": phase}
    if phase == "Running":
        condition = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": at}
        status |= {"startTime": at, "conditions": [condition]}
    container = {"name": "main", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    return {
        "metadata": {"name": f"web-{number}", "namespace": "default", "creationTimestamp": at},
        "spec": {"containers": [container]},
        "status": status,
    }


def samples(*percents: int) -> dict[str, UsageSample]:
    """Of the pods `web-0` and so on: how much of a core each uses."""
    return {
        f"web-{number}": UsageSample(micros(NOW), 10_000_000, {"main": {"cpu": CORE * percent // 100}})
        for number, percent in enumerate(percents)
    }


def cpu(percent: int) -> Object:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def an_input(
    target: ScaleTarget | None,
    used: dict[str, UsageSample] | None = None,
    *,
    memory: AutoscalerMemory = NO_MEMORY,
    now: datetime = NOW,
    status: Object | None = None,
    known: Object | None = None,
    **spec: Any,
) -> AutoscalerInput:
    told = {"minReplicas": 1, "maxReplicas": 10, "metrics": [cpu(50)], **spec}
    more: Object = known or {}
    return AutoscalerInput(micros(now), told, status or {}, 0, target=target, samples=used or {}, memory=memory, **more)
