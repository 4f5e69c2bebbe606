"""A pod for which room is reserved goes where it is reserved.

The room that other reservations hold is missing from a node's free room (resources.py). When a reservation is over,
used or not, its pod is free to go anywhere again.
"""

from collections.abc import Iterator
from typing import Final

from mainstay.scheduler.cache.arrays import Rows, Truths
from mainstay.scheduler.cache.columns import NodeColumns
from mainstay.scheduler.cache.ring import Ring
from mainstay.scheduler.filters.refused import refused
from mainstay.scheduler.pod_class import PodClass
from mainstay.scheduler.reasons import Cure, Refusal, RefusalReason

PLUGIN: Final = "Reservations"


def passing(columns: NodeColumns, pod: PodClass, rows: Rows) -> Truths | None:
    held = columns.reservation(pod.namespace, pod.reservation) if pod.reservation else None
    return None if held is None else rows == held.row


def refusals(columns: NodeColumns, pod: PodClass, ring: Ring) -> Iterator[Refusal]:
    held = columns.reservation(pod.namespace, pod.reservation) if pod.reservation else None
    if held is not None:
        cures = (Cure.NODE_ADDED, Cure.RESERVATION_RELEASED, Cure.RESERVATION_MADE)
        yield from refused(
            ring, ring.rows != held.row, RefusalReason.RESERVED_ELSEWHERE, PLUGIN, cures, detail=held.node
        )
