"""What the scheduler reads of a node. Two versions of a node that agree in this are the same to it: a heartbeat changes
nothing here."""

from collections.abc import Mapping
from dataclasses import dataclass

from mainstay.api.kind import Object
from mainstay.api.pod_resources import read_allocatable
from mainstay.api.taints import Taint, parse_taints
from mainstay.scheduler.reasons import Cure


@dataclass(frozen=True, slots=True)
class NodeFacts:
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    is_unschedulable: bool
    allocatable: Mapping[str, int]
    uid: str = ""


def read_facts(node: Object) -> NodeFacts:
    return NodeFacts(
        labels=node["metadata"].get("labels") or {},
        taints=parse_taints(node),
        is_unschedulable=bool((node.get("spec") or {}).get("unschedulable")),
        allocatable=read_allocatable(node),
        uid=node["metadata"].get("uid") or "",
    )


def find_cures(old: NodeFacts | None, new: NodeFacts | None) -> tuple[Cure, ...]:
    """What may be worth another try after a node changed."""
    if old is None:
        return () if new is None else (Cure.NODE_ADDED,)
    if new is None:
        return (Cure.NODE_REMOVED,)
    found = []
    if any(amount > old.allocatable.get(resource, 0) for resource, amount in new.allocatable.items()):
        found.append(Cure.NODE_ALLOCATABLE)
    if new.labels != old.labels:
        found.append(Cure.NODE_LABELS)
    if new.taints != old.taints or (old.is_unschedulable and not new.is_unschedulable):
        found.append(Cure.NODE_TAINTS)
    return tuple(found)
