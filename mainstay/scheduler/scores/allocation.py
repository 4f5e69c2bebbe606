"""Prefer nodes with much room left (least allocated), or with little (most allocated).

For each resource the part that is free, or taken, with the pod on the node; then their weighted mean. Resources that a
node does not have are left out of it.
"""

from collections.abc import Sequence

import numpy as np

from mainstay.scheduler.cache.arrays import Numbers
from mainstay.scheduler.policy import Allocation
from mainstay.scheduler.scores import SCORE_MAX
from mainstay.scheduler.scores.room import ScoredResource


def of_rows(used: Numbers, allocatable: Numbers, measured: Sequence[ScoredResource], allocation: Allocation) -> Numbers:
    """For many nodes, whose columns are given: one array each."""
    total = np.zeros(used.shape[1], np.int64)
    weights = np.zeros(used.shape[1], np.int64)
    for each in measured:
        limit = allocatable[each.column]
        taken = used[each.column] + each.amount
        left = np.maximum(limit - taken, 0) if allocation is Allocation.LEAST else np.minimum(taken, limit)
        # Where a node has none of it, nothing is left either, and it has no weight.
        total += left * SCORE_MAX // np.maximum(limit, 1) * each.weight
        weights += (limit > 0) * each.weight
    return total // np.maximum(weights, 1)


def of_row(
    used: Sequence[int], allocatable: Sequence[int], measured: Sequence[ScoredResource], allocation: Allocation
) -> int:
    """The same for one node, whose columns are given: one number each."""
    total = weights = 0
    for each in measured:
        limit = allocatable[each.column]
        if limit <= 0:
            continue
        taken = used[each.column] + each.amount
        weights += each.weight
        if allocation is Allocation.LEAST:
            if taken < limit:
                total += (limit - taken) * SCORE_MAX // limit * each.weight
        else:
            total += min(taken, limit) * SCORE_MAX // limit * each.weight
    return total // weights if weights else 0
