"""Pods, sets and deployments for tests. Only what matters has to be said."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from mainstay.api import times
from mainstay.api.annotations import REPLACES, SLOT
from mainstay.api.holds import HoldScope
from mainstay.api.kind_names import (
    COMPONENT_STATES,
    DEPLOYMENTS,
    HOLDS,
    NODES,
    PODS,
    REPLICASETS,
    SERVICE_LEVEL_OBJECTIVES,
)
from mainstay.api.object_key import ObjectKey
from mainstay.controllers.deployment.controller import Deployments
from mainstay.controllers.replicaset.controller import ReplicaSets
from mainstay.loop.controller import Controller
from mainstay.loop.view import View

Object = dict[str, Any]

NOON = times.parse_time("2026-03-01T12:00:00Z")
LABELS = {"app": "web"}
KEY = ObjectKey("default", "web")


def at(seconds: float) -> str:
    """So long after noon."""
    return times.format_time(NOON + timedelta(seconds=seconds))


def a_pod(
    name: str,
    *,
    owner: str = "set",
    slot: int | None = None,
    replaces: str = "",
    node: str = "n1",
    phase: str = "Running",
    ready: bool | None = None,
    ready_at: float = -60,
    created_at: float = -120,
    leaving: bool = False,
    cost: int | None = None,
    restarts: int = 0,
    labels: dict[str, str] | None = None,
) -> Object:
    """A pod that runs and is ready. Its uid is its name."""
    annotations = {}
    if slot is not None:
        annotations[SLOT] = str(slot)
    if replaces:
        annotations[REPLACES] = replaces
    if cost is not None:
        annotations["controller.kubernetes.io/pod-deletion-cost"] = str(cost)
    is_ready = phase == "Running" if ready is None else ready
    metadata: Object = {
        "name": name,
        "namespace": "default",
        "uid": name,
        "labels": LABELS if labels is None else labels,
        "annotations": annotations,
        "creationTimestamp": at(created_at),
    }
    if owner:
        metadata["ownerReferences"] = [a_reference("ReplicaSet", owner)]
    if leaving:
        metadata["deletionTimestamp"] = at(30)
    condition = {"type": "Ready", "status": str(is_ready), "lastTransitionTime": at(ready_at)}
    status: Object = {"phase": phase, "conditions": [condition]}
    if restarts:
        status["containerStatuses"] = [{"restartCount": restarts}]
    return {"metadata": metadata, "spec": {"nodeName": node} if node else {}, "status": status}


def a_reference(kind: str, uid: str) -> Object:
    return {"apiVersion": "apps/v1", "kind": kind, "name": uid, "uid": uid, "controller": True}


def a_template(image: str = "web:1", labels: dict[str, str] | None = None) -> Object:
    return {"metadata": {"labels": labels or LABELS}, "spec": {"containers": [{"name": "main", "image": image}]}}


def a_set(
    name: str = "set",
    replicas: int = 3,
    *,
    image: str = "web:1",
    available: int | None = None,
    ready: int | None = None,
    has: int | None = None,
    owner: str = "",
    revision: int = 0,
    desired: int | None = None,
    most: int | None = None,
    created_at: float = -600,
    terminating: int = 0,
    generation: int = 1,
    observed: int | None = None,
    conditions: Sequence[Object] = (),
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Object:
    """A set whose uid is its name. By default all its pods are there and available."""
    has = replicas if has is None else has
    available = has if available is None else available
    notes = dict(annotations or {})
    if revision:
        notes["deployment.kubernetes.io/revision"] = str(revision)
    if desired is not None:
        notes["deployment.kubernetes.io/desired-replicas"] = str(desired)
    if most is not None:
        notes["deployment.kubernetes.io/max-replicas"] = str(most)
    metadata: Object = {
        "name": name,
        "namespace": "default",
        "uid": name,
        "labels": {**LABELS, "pod-template-hash": name},
        "annotations": notes,
        "creationTimestamp": at(created_at),
        "generation": generation,
    }
    if owner:
        metadata["ownerReferences"] = [a_reference("Deployment", owner)]
    status: Object = {
        "replicas": has,
        "readyReplicas": available if ready is None else ready,
        "availableReplicas": available,
        "terminatingReplicas": terminating,
        "observedGeneration": generation if observed is None else observed,
    }
    if conditions:
        status["conditions"] = list(conditions)
    labels = {**LABELS, "pod-template-hash": name} if owner else LABELS
    made = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": a_template(image, labels),
        **spec,
    }
    return {"metadata": metadata, "spec": made, "status": status}


def a_deployment(
    replicas: int = 3,
    *,
    image: str = "web:1",
    status: Object | None = None,
    annotations: dict[str, str] | None = None,
    generation: int = 1,
    surge: int | str = "25%",
    unavailable: int | str = "25%",
    **spec: Any,
) -> Object:
    """A Deployment `web` whose uid is `web`."""
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    return {
        "metadata": {
            "name": "web",
            "namespace": "default",
            "uid": "web",
            "generation": generation,
            "annotations": annotations or {},
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": LABELS},
            "template": a_template(image),
            "strategy": rolling,
            "progressDeadlineSeconds": 600,
            "revisionHistoryLimit": 10,
            **spec,
        },
        "status": status or {},
    }


def a_node(name: str, zone: str = "") -> Object:
    return {"metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone} if zone else {}}}


def a_hold(
    what: HoldScope, target: Object | None = None, *, ends: float = 3600, name: str = "hold", **spec: Any
) -> Object:
    """By anna, from noon on for an hour. Its uid is its name."""
    given = {"what": str(what), "target": target or {}, "owner": "anna", "reason": "a look", "expiresAt": at(ends)}
    return {"metadata": {"name": name, "uid": name, "generation": 1}, "spec": {**given, **spec}}


def a_view(
    controller: Controller,
    *,
    deployments: Iterable[Object] = (),
    sets: Iterable[Object] = (),
    pods: Iterable[Object] = (),
    nodes: Iterable[Object] = (),
    holds: Iterable[Object] = (),
    states: Iterable[Object] = (),
    slos: Iterable[Object] = (),
    now: datetime = NOON,
) -> View:
    indexes = {controller.kind: controller.indexes}
    for reads in controller.reads:
        indexes[reads.kind] = (*indexes.get(reads.kind, ()), *reads.indexes)
    objects = {PODS: pods, NODES: nodes, REPLICASETS: sets}
    if controller.kind == DEPLOYMENTS:
        objects |= {DEPLOYMENTS: deployments, HOLDS: holds, COMPONENT_STATES: states, SERVICE_LEVEL_OBJECTIVES: slos}
    return View.of(objects, now, indexes=indexes)


REPLICA_SETS = ReplicaSets()
DEPLOYMENT_CONTROLLER = Deployments()
