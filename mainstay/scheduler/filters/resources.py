"""A node must have room for all that a pod asks for.

Room is what is allocatable, less what placed pods and unconfirmed charges take and reservations hold. What the pod's
own reservation holds is room to it. A resource that a pod does not ask for is not looked at, even if there is less than
nothing of it.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from mainstay.scheduler.cache.arrays import Numbers, Rows, Truths
from mainstay.scheduler.cache.columns import NodeColumns
from mainstay.scheduler.cache.ring import Ring
from mainstay.scheduler.filters.refused import refused
from mainstay.scheduler.pod_class import PodClass
from mainstay.scheduler.reasons import Cure, Refusal, RefusalReason

PLUGIN: Final = "NodeResourcesFit"

Needs = tuple[tuple[int, int], ...]
"""Column and amount of each resource that is asked for."""


def build_needs(columns: NodeColumns, pod: PodClass) -> Needs:
    return tuple((columns.find_column(resource), amount) for resource, amount in pod.requests.items() if amount > 0)


def passing(columns: NodeColumns, pod: PodClass, rows: Rows) -> Truths:
    found = np.ones(len(rows), np.bool_)
    for column, amount in build_needs(columns, pod):
        found &= _free(columns, pod, rows, column) >= amount
    return found


def fitting(needs: Needs, used: Numbers, allocatable: Numbers) -> Truths:
    """The same for nodes whose columns are given, one array each. It knows of no reservation."""
    found = np.ones(used.shape[1], np.bool_)
    for column, amount in needs:
        found &= used[column] + amount <= allocatable[column]
    return found


def fits(needs: Needs, used: Sequence[int], allocatable: Sequence[int]) -> bool:
    """The same for one node, whose columns are given: one number each."""
    for column, amount in needs:  # noqa: SIM110 - asked for every node that changes: twice as fast as `all`
        if used[column] + amount > allocatable[column]:
            return False
    return True


def refusals(columns: NodeColumns, pod: PodClass, ring: Ring) -> Iterator[Refusal]:
    more_room = (Cure.NODE_ADDED, Cure.NODE_ALLOCATABLE, Cure.POD_REMOVED, Cure.RESERVATION_RELEASED)
    larger = (Cure.NODE_ADDED, Cure.NODE_ALLOCATABLE)
    for resource in sorted(pod.requests):
        amount, column = pod.requests[resource], columns.find_column(resource)
        if amount <= 0:
            continue
        free = _free(columns, pod, ring.rows, column)
        never = columns.allocatable[ring.rows, column] < amount
        short = (free < amount) & ~never
        if columns.has_unconfirmed:
            is_unconfirmed = short & (free + columns.unconfirmed[ring.rows, column] >= amount)
            yield from refused(
                ring,
                is_unconfirmed,
                RefusalReason.HELD_BY_GHOSTS,
                PLUGIN,
                (*more_room, Cure.GHOSTS_GONE),
                detail=resource,
                wanted=amount,
                free=free,
            )
            short &= ~is_unconfirmed
        yield from refused(
            ring,
            short,
            RefusalReason.INSUFFICIENT_RESOURCE,
            PLUGIN,
            more_room,
            detail=resource,
            wanted=amount,
            free=free,
        )
        yield from refused(
            ring,
            never & (free < amount),
            RefusalReason.NODE_TOO_SMALL,
            PLUGIN,
            larger,
            detail=resource,
            wanted=amount,
            free=free,
        )


def _free(columns: NodeColumns, pod: PodClass, rows: Rows, column: int) -> Numbers:
    free: Numbers = columns.allocatable[rows, column] - columns.used[rows, column]
    held = columns.reservation(pod.namespace, pod.reservation) if pod.reservation else None
    if held is not None and held.is_counted:
        free[rows == held.row] += columns.vector(held.charge)[column]
    return free
