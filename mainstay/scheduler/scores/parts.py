"""The scores of all nodes that can take a pod, reason by reason: what `ClassVectors` adds up, taken apart again.

For explanations. The parts of a node add up to its total, to the last point; a test holds both to it.
"""

from mainstay.scheduler.cache.arrays import Numbers
from mainstay.scheduler.cache.columns import NodeColumns
from mainstay.scheduler.cache.domains import Domains
from mainstay.scheduler.cache.ring import Ring
from mainstay.scheduler.cache.vectors import Vectors
from mainstay.scheduler.pod_class import PodClass
from mainstay.scheduler.policy import Policy
from mainstay.scheduler.scores import SCORE_MAX, allocation, balance, node_affinity, taints, topology_spread
from mainstay.scheduler.scores.room import measured_for_allocation, measured_for_balance


def score_parts(vectors: Vectors, pod: PodClass, policy: Policy) -> dict[str, dict[str, int]]:
    """By node, then by the name that a PlacementPolicy has for a score: its points, weighed."""
    ring, totals = vectors.of(pod, policy).totals()
    columns, feasible = vectors.columns, totals >= 0
    parts = _parts(columns, pod, policy, ring, totals)
    return {
        ring.names[place]: {name: int(points[place]) for name, points in parts.items()}
        for place in ring.by_name.tolist()
        if feasible[place]
    }


def _parts(columns: NodeColumns, pod: PodClass, policy: Policy, ring: Ring, totals: Numbers) -> dict[str, Numbers]:
    rows, feasible = ring.rows, totals >= 0
    used, allocatable = columns.used[rows].T, columns.allocatable[rows].T
    measured = measured_for_allocation(columns, pod, policy)
    balanced = measured_for_balance(columns, pod, policy)
    parts = {
        str(policy.allocation): policy.allocation_weight
        * allocation.of_rows(used, allocatable, measured, policy.allocation),
        "BalancedAllocation": policy.balance_weight * balance.of_rows(used, allocatable, balanced),
        "TaintToleration": (totals * 0 + SCORE_MAX) * policy.taints_weight,
    }
    disliked = taints.counts(columns, pod, rows)
    if disliked is not None and len(rows):
        most = int((disliked * feasible).max())
        parts["TaintToleration"] = policy.taints_weight * taints.scaled(disliked, most)
    preferred = node_affinity.sums(columns, pod, rows)
    if preferred is not None and len(rows):
        most = int((preferred * feasible).max())
        parts["NodeAffinity"] = policy.affinity_weight * node_affinity.scaled(preferred, most)
    soft = [Domains(columns, pod, each, ring) for each in pod.spread if not each.is_hard]
    if soft:
        parts["PodTopologySpread"] = policy.spread_weight * topology_spread.scores(soft, feasible)
        for each in soft:
            each.close(columns)
    return parts
