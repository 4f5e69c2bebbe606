"""The order in which equally good nodes are considered: around a ring, beginning at the pod's own place.

Every node has a point on the ring, from a hash of its name, and every pod, from a hash of the seed and its uid. Among
equals the first node at or after the pod's point is chosen: that is, the one with the smallest

    hash(seed, pod uid, node name) = (point of the node − point of the pod) mod 2⁶⁴

and, should two be equal, the smaller name. It spreads ties over all nodes, is the same in every process and every
replay, and does not depend on the order in which nodes became known. Vectors of scores are kept in the order of the
ring, so that the first of the largest values is the answer and no hash is computed for each node and pod.

What it costs: the neighbours on the ring are the same for all pods, so of many equal nodes some are chosen more often
than others. Their scores fall as they fill, which levels it.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from mainstay.scheduler.cache.arrays import Rows


def hash_node(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8, person=b"node").digest())


Stop = tuple[int, str, int]
"""Point, name and row of a node."""


def build_stop(name: str, row: int) -> Stop:
    return hash_node(name), name, row


def hash_pod(seed: str, uid: str) -> int:
    return int.from_bytes(hashlib.blake2b(f"{seed}\0{uid}".encode(), digest_size=8, person=b"pod").digest())


class Ring:
    """The nodes that are there, in the order of their points."""

    __slots__ = ("_by_name", "names", "places", "points", "rows")

    def __init__(self, order: Sequence[Stop]) -> None:
        """From the stops in their order."""
        self.rows: Rows = np.array([stop[2] for stop in order], np.intp)
        """By place on the ring, the node's row in the columns."""
        self.names = [stop[1] for stop in order]
        self.points = [stop[0] for stop in order]
        self.places = {stop[2]: place for place, stop in enumerate(order)}
        """By row, the place on the ring."""
        self._by_name: Rows | None = None

    def __len__(self) -> int:
        return len(self.names)

    @property
    def by_name(self) -> Rows:
        """All places, in the order of the nodes' names."""
        if self._by_name is None:
            self._by_name = np.array(sorted(range(len(self)), key=self.names.__getitem__), np.intp)
        return self._by_name

    def start_for(self, seed: str, uid: str) -> int:
        """The place at which to begin for a pod. May be one past the last, which means the first."""
        return bisect_left(self.points, hash_pod(seed, uid))
