"""A node with a taint that keeps pods away takes only those that tolerate it.

Nodes have few different sets of taints, so each set is judged once. The reason names the first taint of a node that is
not tolerated, as Kubernetes does.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from mainstay.api.taints import KEEPS_AWAY, untolerated
from mainstay.scheduler.cache.arrays import Rows, Truths
from mainstay.scheduler.cache.columns import NodeColumns
from mainstay.scheduler.cache.ring import Ring
from mainstay.scheduler.filters.refused import refused
from mainstay.scheduler.pod_class import PodClass
from mainstay.scheduler.reasons import Cure, Refusal, RefusalReason

PLUGIN: Final = "TaintToleration"


def passing(columns: NodeColumns, pod: PodClass, rows: Rows) -> Truths | None:
    tolerated = np.array(
        [not untolerated(taints, pod.tolerations, KEEPS_AWAY) for taints in columns.taint_sets], np.bool_
    )
    if tolerated.all():
        return None
    found: Truths = tolerated[columns.taints[rows]]
    return found


def refusals(columns: NodeColumns, pod: PodClass, ring: Ring) -> Iterator[Refusal]:
    sets: dict[str, list[int]] = {}
    for number, taints in enumerate(columns.taint_sets):
        found = untolerated(taints, pod.tolerations, KEEPS_AWAY)
        if found:
            sets.setdefault(str(found[0]), []).append(number)
    cures = (Cure.NODE_ADDED, Cure.NODE_TAINTS)
    for taint in sorted(sets):
        refuses = np.isin(columns.taints[ring.rows], sets[taint])
        yield from refused(ring, refuses, RefusalReason.UNTOLERATED_TAINT, PLUGIN, cures, detail=taint)
