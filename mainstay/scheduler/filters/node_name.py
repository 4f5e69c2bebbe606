"""A pod that names its node goes to no other."""

from collections.abc import Iterator
from typing import Final

from mainstay.scheduler.cache.arrays import Rows, Truths
from mainstay.scheduler.cache.columns import NodeColumns
from mainstay.scheduler.cache.ring import Ring
from mainstay.scheduler.filters.refused import refused
from mainstay.scheduler.pod_class import PodClass
from mainstay.scheduler.reasons import Cure, Refusal, RefusalReason

PLUGIN: Final = "NodeName"


def passing(columns: NodeColumns, pod: PodClass, rows: Rows) -> Truths | None:
    if not pod.node_name:
        return None
    row = columns.find_row(pod.node_name)
    found: Truths = rows == (-1 if row is None else row)
    return found


def refusals(columns: NodeColumns, pod: PodClass, ring: Ring) -> Iterator[Refusal]:
    found = passing(columns, pod, ring.rows)
    if found is not None:
        yield from refused(
            ring, ~found, RefusalReason.OTHER_NODE_NAMED, PLUGIN, (Cure.NODE_ADDED,), detail=pod.node_name
        )
