"""A node that is marked as unschedulable takes no pods, but for those that tolerate the taint which stands for it."""

from collections.abc import Iterator
from typing import Final

from mainstay.api.taints import KEEPS_AWAY, UNSCHEDULABLE, untolerated
from mainstay.scheduler.cache.arrays import Rows, Truths
from mainstay.scheduler.cache.columns import NodeColumns
from mainstay.scheduler.cache.ring import Ring
from mainstay.scheduler.filters.refused import refused
from mainstay.scheduler.pod_class import PodClass
from mainstay.scheduler.reasons import Cure, Refusal, RefusalReason

PLUGIN: Final = "NodeUnschedulable"


def passing(columns: NodeColumns, pod: PodClass, rows: Rows) -> Truths | None:
    if not untolerated((UNSCHEDULABLE,), pod.tolerations, KEEPS_AWAY):
        return None
    return ~columns.is_unschedulable[rows]


def refusals(columns: NodeColumns, pod: PodClass, ring: Ring) -> Iterator[Refusal]:
    found = passing(columns, pod, ring.rows)
    if found is not None:
        cures = (Cure.NODE_ADDED, Cure.NODE_TAINTS)
        yield from refused(ring, ~found, RefusalReason.UNSCHEDULABLE_NODE, PLUGIN, cures)
