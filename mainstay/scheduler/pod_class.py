"""What matters of a pod when a node is chosen for it. Pods with equal answers form a class, and share what is computed.

`pod_to_place` takes a pod apart once. Its class holds whatever a filter or a score may ask for, and nothing else: not
its name, not its images. Its labels belong to the class only if it has spread constraints, which may ask whether the
pod itself is among those to be spread. A pod's uid takes part in the very last step only, the breaking of ties. What a
placement policy adds to a class is in policy_class.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.labels import LabelSelector, build_selector, from_labels, from_object
from mainstay.api.memo import Memo, encoded
from mainstay.api.node_terms import NodeRequirements, Preference, parse_preferences, parse_requirements
from mainstay.api.pod_resources import HostPort
from mainstay.api.policy_scope import ScopedPod, find_workload
from mainstay.api.taints import Toleration, parse_tolerations
from mainstay.api.well_known_labels import REGION_LABEL, ZONE_LABEL
from mainstay.scheduler.cache.charge import CachedCharge, WorkloadPods, build_charge, find_reservation, spec_parts

_NOTHING: Final[Mapping[str, Any]] = {}
_memo: Memo["PodClass"] = Memo()


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """Pods that match a selector should be spread evenly over the values of a node label."""

    key: str
    max_skew: int
    is_hard: bool
    selector: LabelSelector | WorkloadPods | None
    """None matches no pod."""
    min_domains: int
    honors_affinity: bool
    """Only nodes count that the pod's node selector and affinity allow."""
    honors_taints: bool
    """Only nodes count whose taints the pod tolerates."""
    matches_itself: bool
    policy: str = ""
    """The PlacementPolicy that asks for it; empty if the pod itself does."""


@dataclass(frozen=True, slots=True, eq=False)
class PodClass:
    """Two classes are equal if their keys are."""

    key: bytes
    namespace: str
    requests: Mapping[str, int]
    scored_cpu: int
    scored_memory: int
    ports: tuple[HostPort, ...]
    node_name: str
    """The only node it may go to, if one is named."""
    nodes: NodeRequirements
    named_nodes: tuple[str, ...] | None
    """If it can only go to nodes that it names, their names."""
    preferences: tuple[Preference, ...]
    tolerations: tuple[Toleration, ...]
    spread: tuple[SpreadConstraint, ...]
    reservation: str
    """The name of the reservation, in the pod's namespace, that holds room for it; or nothing."""
    zones: tuple[str, ...] | None
    """The only zones that it may run in, by what it requires of nodes; None if it does not say."""
    regions: tuple[str, ...] | None
    is_exclusive: bool
    """It takes devices, or room that was reserved: it is bound only by a view that shows its node as it is."""

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, PodClass) and self.key == other.key)

    def __hash__(self) -> int:
        return hash(self.key)


@dataclass(frozen=True, slots=True)
class PodToPlace:
    """A pod that has no node yet."""

    namespace: str
    name: str
    uid: str
    pod_class: PodClass
    charge: CachedCharge
    """What it will take on its node."""
    priority_class: str = ""
    workload: str = ""
    """Names the workload it belongs to, over all revisions of a Deployment (api/policy_scope.py)."""

    @property
    def scoped(self) -> ScopedPod:
        """What scopes of policies look at."""
        kept = self.pod_class
        return ScopedPod(
            self.namespace, self.charge.labels, self.priority_class, kept.zones, kept.regions, self.workload
        )


def pod_to_place(pod: Object) -> PodToPlace:
    """Take a pod apart for placing it, as it stands in the store."""
    metadata = pod["metadata"]
    return PodToPlace(
        metadata.get("namespace") or "",
        metadata["name"],
        metadata.get("uid") or "",
        build_class(pod),
        build_charge(pod),
        (pod.get("spec") or _NOTHING).get("priorityClassName") or "",
        find_workload(pod),
    )


def build_class(pod: Object) -> PodClass:
    metadata, spec = pod["metadata"], pod.get("spec") or _NOTHING
    spread = spec.get("topologySpreadConstraints")
    reservation = find_reservation(pod)
    affinity = spec.get("affinity")
    key = encoded(
        [
            metadata.get("namespace"),
            spec_parts(spec),
            spec.get("nodeName"),
            spec.get("nodeSelector"),
            affinity and affinity.get("nodeAffinity"),
            spec.get("tolerations"),
            spread and [spread, metadata.get("labels")],
            reservation,
        ]
    )
    found = _memo.get(key)
    if found is None:
        charge, nodes, node_name = build_charge(pod), parse_requirements(spec), spec.get("nodeName") or ""
        found = PodClass(
            key=key,
            namespace=charge.namespace,
            requests=charge.requests,
            scored_cpu=charge.scored_cpu,
            scored_memory=charge.scored_memory,
            ports=charge.ports,
            node_name=node_name,
            nodes=nodes,
            named_nodes=(node_name,) if node_name else nodes.names,
            preferences=parse_preferences(spec),
            tolerations=parse_tolerations(spec),
            spread=tuple(_constraint(each, metadata.get("labels") or _NOTHING) for each in spread or ()),
            reservation=reservation,
            zones=nodes.find_values(ZONE_LABEL),
            regions=nodes.find_values(REGION_LABEL),
            is_exclusive=bool(reservation) or any("/" in resource for resource in charge.requests),
        )
        _memo.put(key, found)
    return found


def _constraint(constraint: Mapping[str, Any], labels: Mapping[str, str]) -> SpreadConstraint:
    said = constraint.get("labelSelector")
    selector = None if said is None else from_object(said)
    own = {key: labels[key] for key in constraint.get("matchLabelKeys") or () if key in labels}
    if own:
        # A selector that is absent matches nothing, but these labels beside it match what has them.
        more = () if selector is None else selector.requirements
        selector = build_selector((*from_labels(own).requirements, *more))
    return SpreadConstraint(
        key=constraint["topologyKey"],
        max_skew=constraint["maxSkew"],
        is_hard=constraint.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule",
        selector=selector,
        min_domains=constraint.get("minDomains") or 1,
        honors_affinity=(constraint.get("nodeAffinityPolicy") or "Honor") == "Honor",
        honors_taints=(constraint.get("nodeTaintsPolicy") or "Ignore") == "Honor",
        matches_itself=selector is not None and selector.matches(labels),
    )
