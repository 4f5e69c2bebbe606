"""Prefer nodes in domains with few pods, by the pod's soft spread constraints.

For each constraint the number of matching pods in the node's domain is weighed with the logarithm of the number of
domains, so that zones do not count for less than hosts only because there are few of them; `maxSkew - 1` is added,
which waters differences down. Nodes without the labels of all soft constraints get 0.
"""

import math
from collections.abc import Sequence

import numpy as np

from mainstay.api.well_known_labels import HOSTNAME
from mainstay.scheduler.cache.arrays import Numbers, Truths
from mainstay.scheduler.cache.domains import Domains
from mainstay.scheduler.cache.label_column import ABSENT
from mainstay.scheduler.scores import SCORE_MAX


def scores(soft: Sequence[Domains], feasible: Truths) -> Numbers:
    """From 0 to 100, for all places on the ring. Only nodes that can take the pod matter, and are compared."""
    judged = feasible.copy()
    for domains in soft:
        judged &= domains.by_place != ABSENT
    found = np.zeros(len(feasible), np.int64)
    places = np.flatnonzero(judged)
    if not len(places):
        return found
    load = np.zeros(len(places))
    for domains in soft:
        own = domains.by_place[places]
        if domains.constraint.key == HOSTNAME:
            size, pods = len(places), domains.on_place[places]
        else:
            size, pods = int(np.count_nonzero(np.bincount(own))), domains.pods[own]
        load += pods * math.log(size + 2) + (domains.constraint.max_skew - 1)
    rounded = np.floor(load + 0.5).astype(np.int64)
    least, most = int(rounded.min()), int(rounded.max())
    found[places] = SCORE_MAX if most == 0 else SCORE_MAX * (most + least - rounded) // most
    return found
