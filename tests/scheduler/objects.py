"""Nodes, pods, reservations and quotas to decide about. Mention only what matters."""

from collections.abc import Mapping, Sequence
from typing import Any

Object = dict[str, Any]


def a_node(
    name: str = "n1",
    *,
    cpu: str = "4",
    memory: str = "8Gi",
    pods: str = "110",
    labels: Mapping[str, str] | None = None,
    zone: str | None = None,
    taints: Sequence[str] = (),
    unschedulable: bool = False,
    resources: Mapping[str, str] | None = None,
) -> Object:
    """Taints as text: `key=value:Effect` or `key:Effect`."""
    labels = {"kubernetes.io/hostname": name, **(labels or {})}
    if zone is not None:
        labels["topology.kubernetes.io/zone"] = zone
    spec: Object = {"taints": [a_taint(text) for text in taints]}
    if unschedulable:
        spec["unschedulable"] = True
    allocatable = {"cpu": cpu, "memory": memory, "pods": pods, **(resources or {})}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"allocatable": allocatable},
    }


def a_taint(text: str) -> dict[str, str]:
    left, effect = text.rsplit(":", 1)
    key, _, value = left.partition("=")
    return {"key": key, "value": value, "effect": effect} if value else {"key": key, "effect": effect}


def a_pod(
    name: str = "p",
    *,
    namespace: str = "default",
    uid: str | None = None,
    node: str = "",
    labels: Mapping[str, str] | None = None,
    cpu: str | None = None,
    memory: str | None = None,
    ports: Sequence[Mapping[str, Any]] = (),
    phase: str = "Pending",
    deleting: bool = False,
    reservation: str = "",
    requests: Mapping[str, str] | None = None,
    owner: str = "",
    **spec: Any,
) -> Object:
    """`owner` is the uid of the ReplicaSet that controls it."""
    wanted = dict(requests or {})
    if cpu is not None:
        wanted["cpu"] = cpu
    if memory is not None:
        wanted["memory"] = memory
    metadata: Object = {"namespace": namespace, "name": name, "uid": uid or f"uid-{namespace}-{name}"}
    if labels is not None:
        metadata["labels"] = dict(labels)
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if owner:
        reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}
        metadata["ownerReferences"] = [reference]
    if reservation:
        metadata["annotations"] = {"mainstay.dev/reservation": reservation}
    container = {"name": "main", "resources": {"requests": wanted}, "ports": list(ports)}
    if node:
        spec["nodeName"] = node
    return {
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], **spec},
        "status": {"phase": phase},
    }


def a_reservation(
    name: str, node: str, *, namespace: str = "default", phase: str = "Active", **resources: str
) -> Object:
    return {
        "kind": "Reservation",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"nodeName": node, "resources": resources},
        "status": {"phase": phase},
    }


def a_zone_quota(zone: str, *, name: str = "quota", namespace: str = "default", **hard: str) -> Object:
    return {
        "kind": "ZoneQuota",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"zone": zone, "hard": {key.replace("__", "."): value for key, value in hard.items()}},
    }


def spread_over(key: str, *, max_skew: int = 1, hard: bool = True, app: str | None = "web", **more: Any) -> Object:
    constraint: Object = {
        "topologyKey": key,
        "maxSkew": max_skew,
        "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
        **more,
    }
    if app is not None:
        constraint["labelSelector"] = {"matchLabels": {"app": app}}
    return constraint


def required_affinity(*terms: Sequence[tuple[str, str, Sequence[str]]], fields: Sequence[Any] = ()) -> Object:
    """Terms as lists of (key, operator, values); `fields` is one more term, of fields."""
    found: list[Object] = [{"matchExpressions": [_expression(*each) for each in term]} for term in terms]
    if fields:
        found.append({"matchFields": [_expression(*each) for each in fields]})
    required = {"nodeSelectorTerms": found}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def preferred_affinity(*preferences: tuple[int, Sequence[tuple[str, str, Sequence[str]]]]) -> Object:
    found = [
        {"weight": weight, "preference": {"matchExpressions": [_expression(*each) for each in term]}}
        for weight, term in preferences
    ]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": found}}


def _expression(key: str, operator: str, values: Sequence[str]) -> Object:
    found: Object = {"key": key, "operator": operator}
    if values:
        found["values"] = list(values)
    return found
