"""What is preferred among the nodes that can take a pod.

A policy is a frozen value, so that a decision can name the one it was made by. The default is what a Kubernetes
scheduler does: spread the load (least allocated), keep CPU and memory in balance, and weigh what the pod asks for
higher. Weights are whole numbers; each score goes from 0 to 100 before it is weighed.

A PlacementPolicy object says it by name: `scores: {MostAllocated: 1, NodeAffinity: 5}`. What it does not name keeps its
default; `resources` names all that fullness is measured by. Filters are constraints, and not a matter of policy, with
two exceptions (policy_class.py): a policy may bound the skew over zones, and may make spread constraints preferences.

Which policy a pod goes by is in active_policies.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.pod_resources import CPU, MEMORY
from mainstay.api.policy_names import LEAST_ALLOCATED, MOST_ALLOCATED, SPREAD_FILTER


class Allocation(StrEnum):
    """Which node is preferred by how full it is."""

    LEAST = LEAST_ALLOCATED
    MOST = MOST_ALLOCATED


@dataclass(frozen=True, slots=True)
class Policy:
    name: str = "default"
    version: str = ""
    allocation: Allocation = Allocation.LEAST
    resources: tuple[tuple[str, int], ...] = ((CPU, 1), (MEMORY, 1))
    """What fullness is measured by, with weights. Balance is kept among the same resources."""
    allocation_weight: int = 1
    balance_weight: int = 1
    affinity_weight: int = 2
    taints_weight: int = 3
    spread_weight: int = 2
    max_zone_skew: int = 0
    """How much more pods of one workload may be in one zone than in another; 0: as many as there are."""
    enforces_spread: bool = True
    """Whether hard spread constraints of pods are constraints, and not preferences."""


DEFAULT: Final = Policy()

_WEIGHTS: Final = {
    "BalancedAllocation": "balance_weight",
    "NodeAffinity": "affinity_weight",
    "TaintToleration": "taints_weight",
    "PodTopologySpread": "spread_weight",
}


def parse_policy(placement_policy: Object) -> Policy:
    """What a PlacementPolicy object says. The API server has refused names that are not known here."""
    spec: Mapping[str, Any] = placement_policy.get("spec") or {}
    scores: Mapping[str, int] = spec.get("scores") or {}
    changed: dict[str, Any] = {field: scores[name] for name, field in _WEIGHTS.items() if name in scores}
    if scores.get(Allocation.MOST):
        changed |= {"allocation": Allocation.MOST, "allocation_weight": scores[Allocation.MOST]}
    elif Allocation.LEAST in scores:
        changed |= {"allocation_weight": scores[Allocation.LEAST]}
    if spec.get("resources"):
        changed |= {"resources": tuple(sorted(spec["resources"].items()))}
    filters = spec.get("filters")
    if isinstance(filters, dict):  # Version 0.2 stored lists of any names, without effect.
        changed |= {"enforces_spread": filters.get(SPREAD_FILTER, True)}
    return Policy(
        name=placement_policy["metadata"]["name"],
        version=spec.get("policyVersion") or "",
        max_zone_skew=spec.get("maxZoneSkew") or 0,
        **changed,
    )
