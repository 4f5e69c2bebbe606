"""All that speaks against each node, and how far that puts it from taking a pod. Plain functions over refusals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, auto
from typing import Final

from mainstay.api.kind import Object
from mainstay.api.node_health import OUT_OF_SERVICE, SUSPECTED, UNREACHABLE
from mainstay.api.pod_resources import amount
from mainstay.api.taints import KEEPS_AWAY, parse_taints, parse_tolerations, untolerated
from mainstay.api.well_known_labels import UNSCHEDULABLE_TAINT, ZONE_LABEL
from mainstay.explain.why.answer import NodeVerdict, Verdicts
from mainstay.explain.why.found import NOTHING
from mainstay.scheduler.policy import Policy
from mainstay.scheduler.reasons import Placed, Refusal, RefusalReason
from mainstay.scheduler.what_if import Objects, what_if

HEALTH_TAINTS: Final = (SUSPECTED.key, UNREACHABLE.key, OUT_OF_SERVICE, "node.kubernetes.io/")


class Distance(IntEnum):
    """How far a reason puts a node from taking the pod, furthest first."""

    OTHER_NODE_NAMED = auto()
    NODE_AFFINITY = auto()
    RESERVED_ELSEWHERE = auto()
    TAINT = auto()
    TOPOLOGY_LABEL = auto()
    TOO_SMALL = auto()
    PORT = auto()
    ROOM = auto()
    SPREAD = auto()
    POLICY_SPREAD = auto()
    """The pod's author did not ask for it."""
    QUOTA = auto()
    CORDON = auto()
    GHOSTS = auto()
    HEALTH = auto()
    """It would be taken at once if its node were well."""


_DISTANCES: Final[Mapping[RefusalReason, Distance]] = {
    RefusalReason.OTHER_NODE_NAMED: Distance.OTHER_NODE_NAMED,
    RefusalReason.NODE_AFFINITY: Distance.NODE_AFFINITY,
    RefusalReason.RESERVED_ELSEWHERE: Distance.RESERVED_ELSEWHERE,
    RefusalReason.UNTOLERATED_TAINT: Distance.TAINT,
    RefusalReason.TOPOLOGY_LABEL_MISSING: Distance.TOPOLOGY_LABEL,
    RefusalReason.NODE_TOO_SMALL: Distance.TOO_SMALL,
    RefusalReason.PORT_TAKEN: Distance.PORT,
    RefusalReason.INSUFFICIENT_RESOURCE: Distance.ROOM,
    RefusalReason.SKEW_TOO_LARGE: Distance.SPREAD,
    RefusalReason.ZONE_SKEW_TOO_LARGE: Distance.POLICY_SPREAD,
    RefusalReason.ZONE_QUOTA_EXCEEDED: Distance.QUOTA,
    RefusalReason.UNSCHEDULABLE_NODE: Distance.CORDON,
    RefusalReason.HELD_BY_GHOSTS: Distance.GHOSTS,
}
_SKEWS: Final = (RefusalReason.SKEW_TOO_LARGE, RefusalReason.ZONE_SKEW_TOO_LARGE)


@dataclass(frozen=True, slots=True)
class Against:
    """One thing that speaks against one node."""

    reason: RefusalReason
    detail: str
    wanted: int | None
    free: int | None
    plugin: str
    distance: Distance


@dataclass(frozen=True, slots=True)
class PodView:
    objects: Objects
    pod: Object
    policy: Policy
    seed: str
    nodes: Mapping[str, Object]
    against: Mapping[str, tuple[Against, ...]]

    @property
    def namespace(self) -> str:
        return str(self.pod["metadata"].get("namespace") or "")

    def of(self, name: str, distance: Distance) -> list[Against]:
        return [each for each in self.against[name] if each.distance is distance]

    def would_place(self, objects: Objects) -> str:
        [decision] = what_if(objects, [self.pod], self.policy, self.seed)
        return decision.node if isinstance(decision, Placed) else ""


def against(refusals: Sequence[Refusal], nodes: Mapping[str, Object], pod: Object) -> dict[str, tuple[Against, ...]]:
    found: dict[str, list[Against]] = {}
    for refusal in refusals:
        free = refusal.free or (None,) * len(refusal.nodes)
        for name, left in zip(refusal.nodes, free, strict=True):
            distance = _DISTANCES.get(refusal.reason, Distance.ROOM)
            if refusal.reason is RefusalReason.UNTOLERATED_TAINT:
                distance = _distance_of_taints(nodes[name], pod)
            found.setdefault(name, []).append(
                Against(refusal.reason, refusal.detail, refusal.wanted, left, refusal.plugin, distance)
            )
    return {name: tuple(each) for name, each in found.items()}


def _distance_of_taints(node: Object, pod: Object) -> Distance:
    """Taints that say how a node is are no policy: they go when it is healthy again."""
    found = untolerated(parse_taints(node), parse_tolerations(pod["spec"]), KEEPS_AWAY)
    if any(not taint.key.startswith(HEALTH_TAINTS) for taint in found):
        return Distance.TAINT
    if all(taint.key == UNSCHEDULABLE_TAINT for taint in found):
        return Distance.CORDON
    return Distance.HEALTH


# In words.


def label(node: Object, key: str) -> str:
    return str((node["metadata"].get("labels") or NOTHING).get(key) or "")


def short(each: Against) -> str:
    match each.reason:
        case RefusalReason.INSUFFICIENT_RESOURCE:
            return f"insufficient {each.detail}"
        case RefusalReason.NODE_TOO_SMALL:
            return f"too small in {each.detail}"
        case RefusalReason.NODE_AFFINITY:
            return "node affinity/selector does not match"
        case RefusalReason.UNTOLERATED_TAINT:
            return f"untolerated taint {each.detail}"
        case RefusalReason.UNSCHEDULABLE_NODE:
            return "cordoned"
        case RefusalReason.PORT_TAKEN:
            return f"port {each.detail} in use"
        case RefusalReason.ZONE_QUOTA_EXCEEDED:
            return f"zone quota {each.detail} exceeded"
        case RefusalReason.RESERVED_ELSEWHERE:
            return "its Reservation is on another node"
        case RefusalReason.SKEW_TOO_LARGE:
            return f"maxSkew over {each.detail} exceeded"
        case RefusalReason.ZONE_SKEW_TOO_LARGE:
            return f"maxZoneSkew of PlacementPolicy {each.detail} exceeded"
        case RefusalReason.TOPOLOGY_LABEL_MISSING:
            return f"no label {each.detail}"
        case RefusalReason.HELD_BY_GHOSTS:
            return f"{each.detail} held for force-deleted pods"
        case RefusalReason.OTHER_NODE_NAMED:
            return "not the node that it requires"
        case _:
            return str(each.reason)


def by_reason(refusals: Sequence[Refusal], view: PodView) -> tuple[Verdicts, ...]:
    found = []
    for refusal in sorted(refusals, key=lambda each: (-len(each.nodes), each.reason, each.detail)):
        first = next(
            each
            for each in view.against[refusal.nodes[0]]
            if (each.reason, each.detail) == (refusal.reason, refusal.detail)
        )
        numbers = ""
        if refusal.wanted is not None and refusal.free and refusal.reason not in _SKEWS:
            resource = refusal.detail.rpartition("/")[2]
            most = max(max(refusal.free), 0)
            numbers = f", {amount(resource, refusal.wanted)} requested, at most {amount(resource, most)} free"
        found.append(
            Verdicts(
                str(refusal.reason), short(first) + numbers, refusal.nodes, len(refusal.nodes), filter=refusal.plugin
            )
        )
    return tuple(found)


def each_node(view: PodView) -> tuple[NodeVerdict, ...]:
    return tuple(
        NodeVerdict(
            name, label(view.nodes[name], ZONE_LABEL), tuple(_with_numbers(each) for each in view.against.get(name, ()))
        )
        for name in sorted(view.nodes)
    )


def _with_numbers(each: Against) -> str:
    if each.wanted is None or each.free is None:
        return short(each)
    if each.reason in _SKEWS:
        return f"{short(each)} (skew would be {each.free}, {each.wanted} allowed)"
    resource = each.detail.rpartition("/")[2]
    return f"{short(each)} ({amount(resource, each.wanted)} requested, {amount(resource, max(each.free, 0))} free)"
