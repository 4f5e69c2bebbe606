"""Prefer nodes that meet the pod's preferred node affinity: by the sum of the weights of the terms that hold."""

import numpy as np

from mainstay.scheduler.cache.arrays import Numbers, Rows
from mainstay.scheduler.cache.columns import NodeColumns
from mainstay.scheduler.filters.node_affinity import term_matching
from mainstay.scheduler.pod_class import PodClass
from mainstay.scheduler.scores import SCORE_MAX


def sums(columns: NodeColumns, pod: PodClass, rows: Rows) -> Numbers | None:
    """The sums of weights. None: the pod prefers nothing."""
    if not pod.preferences:
        return None
    found = np.zeros(len(rows), np.int64)
    for preference in pod.preferences:
        found += preference.weight * term_matching(columns, preference.term, rows)
    return found


def scaled(found: Numbers, largest: int) -> Numbers:
    """From 0 to 100, where `largest` is the largest sum among nodes that can take the pod."""
    return found * 0 if largest == 0 else found * SCORE_MAX // largest
