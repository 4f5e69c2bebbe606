"""Prefer nodes on which the pod brings the use of CPU and memory closer together.

Balance is 1 less the standard deviation of the parts taken of each resource, times 100. The score says what the pod
changes: 75 if nothing, up to 100 if all is in balance with it and nothing without it.

The parts are floating-point numbers, computed by the same operations in the same order for one node and for many: the
results are equal, and whole.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mainstay.scheduler.cache.arrays import Numbers
from mainstay.scheduler.scores import SCORE_MAX
from mainstay.scheduler.scores.room import ScoredResource

_HALF = SCORE_MAX // 2
_PAIR = 2


def of_rows(used: Numbers, allocatable: Numbers, measured: Sequence[ScoredResource]) -> Numbers:
    """For many nodes, whose columns are given: one array each."""
    if not measured:
        return np.zeros(used.shape[1], np.int64)
    numbers = [each.column for each in measured]
    limits, without = allocatable[numbers], used[numbers]
    with_pod = without + np.array([[each.amount] for each in measured], np.int64)
    # Both at once: for few nodes, calling costs more than computing.
    both = _balances(np.concatenate((with_pod, without), axis=1), np.concatenate((limits, limits), axis=1))
    nodes = used.shape[1]
    return _HALF + (_HALF + both[:nodes] - both[nodes:]) // 2


def _balances(taken: Numbers, limits: Numbers) -> Numbers:
    is_there = limits > 0
    parts = np.minimum(taken / np.maximum(limits, 1), 1.0)
    if len(parts) == _PAIR:
        deviation = np.abs((parts[0] - parts[1]) / 2) * (is_there[0] & is_there[1])
    else:
        deviation = _deviations(np.where(is_there, parts, 0.0), is_there, is_there.sum(axis=0))
    found: Numbers = ((1 - deviation) * float(SCORE_MAX)).astype(np.int64)
    return found


def _deviations(
    parts: NDArray[np.float64], is_there: NDArray[np.bool_], count: NDArray[np.intp]
) -> NDArray[np.float64]:
    total, squares = np.zeros(parts.shape[1]), np.zeros(parts.shape[1])
    for part in parts:
        total += part
    mean = total / np.maximum(count, 1)
    for part, here in zip(parts, is_there, strict=True):
        squares += np.where(here, (part - mean) * (part - mean), 0.0)
    most = np.where(is_there, parts, -np.inf).max(axis=0)
    least = np.where(is_there, parts, np.inf).min(axis=0)
    of_pairs = np.where(count == _PAIR, np.abs((most - least) / 2), 0.0)
    return np.where(count > _PAIR, np.sqrt(squares / np.maximum(count, 1)), of_pairs)


def of_row(used: Sequence[int], allocatable: Sequence[int], measured: Sequence[ScoredResource]) -> int:
    """The same for one node, whose columns are given: one number each."""
    if not measured:
        return 0
    with_pod, without = [], []
    for each in measured:
        limit = allocatable[each.column]
        if limit > 0:
            taken = used[each.column]
            with_pod.append(min((taken + each.amount) / limit, 1.0))
            without.append(min(taken / limit, 1.0))
    return _HALF + (_HALF + _balance(with_pod) - _balance(without)) // 2


def _balance(parts: Sequence[float]) -> int:
    deviation = 0.0
    if len(parts) == _PAIR:
        deviation = abs((parts[0] - parts[1]) / 2)
    elif len(parts) > _PAIR:
        total = 0.0
        for part in parts:
            total += part
        mean, squares = total / len(parts), 0.0
        for part in parts:
            squares += (part - mean) * (part - mean)
        deviation = math.sqrt(squares / len(parts))
    return int((1 - deviation) * SCORE_MAX)
