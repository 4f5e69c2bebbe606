"""The best node but for some: for a pod whose binding was refused there.

The server knew something that the columns do not know yet. Until they do, deciding again would name the same node, so
it is left out for the next tries of this pod, and of no other.
"""

from collections.abc import Iterable

from mainstay.scheduler.cache.vectors import Vectors
from mainstay.scheduler.choose import choose
from mainstay.scheduler.pod_class import PodToPlace
from mainstay.scheduler.policy import Policy
from mainstay.scheduler.reasons import Placed


def decide_without(
    vectors: Vectors, pod: PodToPlace, policy: Policy, seed: str, without: Iterable[str]
) -> Placed | None:
    """As `decide`, on nodes other than these. None: no other node can take it."""
    ring, totals = vectors.of(pod.pod_class, policy).totals()
    left = totals.copy()
    for name in without:
        row = vectors.columns.row_of(name)
        place = None if row is None else ring.places.get(row)
        if place is not None:
            left[place] = -1
    place = choose(left, ring.start_for(seed, pod.uid))
    return None if place is None else Placed(ring.names[place], int(left[place]))
