"""What is preferred among the nodes that can take a pod.

A policy is a frozen value, so that a decision can name the one it was made by. The default is what a Kubernetes
scheduler does: spread the load (least allocated), keep CPU and memory in balance, and weigh what the pod asks for
higher. Weights are whole numbers; each score goes from 0 to 100 before it is weighed.

A PlacementPolicy object says it by name: `scores: {MostAllocated: 1, NodeAffinity: 5}`. What it does not name keeps its
default. Which filters hold is not a matter of policy: they are constraints.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.pod_resources import CPU, MEMORY


class Allocation(StrEnum):
    """Which node is preferred by how full it is."""

    LEAST = "LeastAllocated"
    MOST = "MostAllocated"


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


DEFAULT: Final = Policy()

_WEIGHTS: Final = {
    "BalancedAllocation": "balance_weight",
    "NodeAffinity": "affinity_weight",
    "TaintToleration": "taints_weight",
    "PodTopologySpread": "spread_weight",
}


def parse_policy(placement_policy: Object) -> Policy:
    """What a PlacementPolicy object prefers. Names of scores that are not known here are left to others."""
    spec: Mapping[str, Any] = placement_policy.get("spec") or {}
    scores: Mapping[str, int] = spec.get("scores") or {}
    changed: dict[str, Any] = {field: scores[name] for name, field in _WEIGHTS.items() if name in scores}
    if scores.get(Allocation.MOST):
        changed |= {"allocation": Allocation.MOST, "allocation_weight": scores[Allocation.MOST]}
    elif Allocation.LEAST in scores:
        changed |= {"allocation_weight": scores[Allocation.LEAST]}
    return Policy(name=placement_policy["metadata"]["name"], version=spec.get("policyVersion") or "", **changed)
