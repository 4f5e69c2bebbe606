"""All filters, in the order in which their refusals are told.

Those `OF_NODES` look only at the node itself. Resources and ports depend on what is placed there; topology spread and
zone quota judge whole domains of nodes, and are asked at every decision. See scheduler/cache/class_vectors.py.
"""

from types import ModuleType
from typing import Final

import numpy as np

from mainstay.scheduler.cache.arrays import Rows, Truths
from mainstay.scheduler.cache.columns import NodeColumns
from mainstay.scheduler.filters import (
    host_ports,
    node_affinity,
    node_name,
    reservation,
    resources,
    taints,
    topology_spread,
    unschedulable,
    zone_quota,
)
from mainstay.scheduler.pod_class import PodClass
from mainstay.scheduler.reasons import Cure, Refusal, RefusalReason

# Of topology spread, only whether nodes have the labels.
OF_NODES: Final[tuple[ModuleType, ...]] = (
    node_name,
    reservation,
    unschedulable,
    taints,
    node_affinity,
    topology_spread,
)
ALL: Final[tuple[ModuleType, ...]] = (
    node_name,
    reservation,
    unschedulable,
    taints,
    node_affinity,
    host_ports,
    resources,
    topology_spread,
    zone_quota,
)


def allowed_by_node(columns: NodeColumns, pod: PodClass, rows: Rows) -> Truths:
    """Which of the rows all filters `OF_NODES` let pass."""
    found = np.ones(len(rows), np.bool_)
    for each in OF_NODES:
        passed: Truths | None = each.passing(columns, pod, rows)
        if passed is not None:
            found &= passed
    return found


def refusals(columns: NodeColumns, pod: PodClass) -> tuple[Refusal, ...]:
    """Every reason on every node, filter by filter."""
    ring = columns.ring
    if not len(ring):
        return (Refusal(RefusalReason.NO_NODES, "", (), (Cure.NODE_ADDED,)),)
    return tuple(refusal for each in ALL for refusal in each.refusals(columns, pod, ring))


def refusals_by_policy(columns: NodeColumns, pod: PodClass) -> tuple[Refusal, ...]:
    """The same of the only filter that policies change (../policy_class.py): spread constraints."""
    return tuple(topology_spread.refusals(columns, pod, columns.ring))
