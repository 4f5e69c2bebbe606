"""Prefer nodes with few taints of the effect PreferNoSchedule that the pod does not tolerate."""

import numpy as np

from mainstay.api.taints import PREFER_NO_SCHEDULE, untolerated
from mainstay.scheduler.cache.arrays import Numbers, Rows
from mainstay.scheduler.cache.columns import NodeColumns
from mainstay.scheduler.pod_class import PodClass
from mainstay.scheduler.scores import SCORE_MAX


def counts(columns: NodeColumns, pod: PodClass, rows: Rows) -> Numbers | None:
    """The numbers of such taints. None: no node has any."""
    by_set = np.array(
        [len(untolerated(taints, pod.tolerations, (PREFER_NO_SCHEDULE,))) for taints in columns.taint_sets], np.int64
    )
    if not by_set.any():
        return None
    found: Numbers = by_set[columns.taints[rows]]
    return found


def scaled(found: Numbers, largest: int) -> Numbers:
    """From 100 down to 0, where `largest` is the largest number among nodes that can take the pod."""
    return SCORE_MAX - (found * 0 if largest == 0 else found * SCORE_MAX // largest)
