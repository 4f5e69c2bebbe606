"""How well a cluster is filled: balance over the nodes, and fragmentation of what is free. Pure functions of columns.

*Balance* of a resource is how far apart the nodes are in what is requested of it, in percent of what each can allocate:
the standard deviation over the nodes, and the largest less the smallest. 0 is a level cluster.

*Fragmentation* of a resource is the share of what is free that no pod of the typical size can use, because it lies in
pieces too small for one, or on nodes where another resource is used up. The typical size is the median request of the
pods that arrived. On each node, as many typical pods fit as the scarcest of its CPU, memory and pod slots allows; what
they would leave is fragmented. 0: all that is free can be used.

Only nodes count that take pods: not cordoned, and with something to allocate.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median_low
from typing import Final

import numpy as np

from mainstay.api.pod_resources import CPU, MEMORY, PODS
from mainstay.scheduler.cache.columns import NodeColumns
from mainstay.scheduler.pod_class import PodToPlace

RESOURCES: Final = (CPU, MEMORY)


@dataclass(frozen=True, slots=True)
class ResourceMeasure:
    """Of one resource at one time. In percent."""

    deviation: float
    spread: float
    """The largest use of a node less the smallest."""
    fragmentation: float | None
    """None: no pod that arrived requests the resource."""


@dataclass(frozen=True, slots=True)
class TypicalPod:
    """The median request of each resource, of the pods that request it, in base units."""

    requests: tuple[tuple[str, int], ...]


def find_typical(pods: Iterable[PodToPlace]) -> TypicalPod:
    """Of no pods: one that requests nothing."""
    listed = [each.charge.requests for each in pods]
    amounts = {name: [each[name] for each in listed if each.get(name)] for name in RESOURCES}
    return TypicalPod(tuple((name, median_low(found) if found else 0) for name, found in amounts.items()))


def measure_columns(columns: NodeColumns, typical: TypicalPod) -> dict[str, ResourceMeasure]:
    """By resource."""
    rows = columns.ring.rows
    rows = rows[~columns.is_unschedulable[rows]]
    rows = rows[columns.allocatable[rows, columns.find_column(PODS)] > 0]
    used, allocatable = columns.used[rows], columns.allocatable[rows]
    free = np.maximum(allocatable - used, 0)
    fits = free[:, columns.find_column(PODS)].copy()
    for name, amount in typical.requests:
        if amount:
            fits = np.minimum(fits, free[:, columns.find_column(name)] // amount)
    found: dict[str, ResourceMeasure] = {}
    for name, amount in typical.requests:
        number = columns.find_column(name)
        there = allocatable[:, number] > 0
        use = 100 * used[there, number] / allocatable[there, number]
        total = int(free[:, number].sum())
        usable = int((fits * amount).sum())
        found[name] = ResourceMeasure(
            deviation=float(use.std()) if len(use) else 0.0,
            spread=float(use.max() - use.min()) if len(use) else 0.0,
            fragmentation=100 * (total - usable) / total if total and amount else (0.0 if amount else None),
        )
    return found
