"""How many pods that a selector matches, or that belong to one workload, are on each node. For spread constraints.

A selector is followed from when a class of pods first needs it until the last such class is dropped. Pods are looked at
by their labels, and each different set of labels is matched once.
"""

from collections.abc import Iterable

import numpy as np

from mainstay.api.labels import LabelSelector
from mainstay.scheduler.cache.arrays import Numbers
from mainstay.scheduler.cache.charge import CachedCharge, WorkloadPods

_GROUPS_MAX = 50_000  # Different sets of labels remembered; then all are matched again.


class MatchCount:
    """The pods of one namespace that one selector matches, by row."""

    __slots__ = ("changes", "counts", "namespace", "selector", "users")

    def __init__(self, namespace: str, selector: LabelSelector | WorkloadPods, capacity: int) -> None:
        self.namespace = namespace
        self.selector = selector
        self.counts: Numbers = np.zeros(capacity, np.int64)
        self.changes = 0
        """Another number after any change of `counts`."""
        self.users = 0

    def matches(self, charge: CachedCharge) -> bool:
        if not charge.is_counted or charge.namespace != self.namespace:
            return False
        if isinstance(self.selector, WorkloadPods):
            return charge.workload == self.selector.uid
        return self.selector.matches(charge.labels)


class MatchCounts:
    """All selectors that are followed."""

    __slots__ = ("_by_charge", "_followed")

    def __init__(self) -> None:
        self._followed: dict[tuple[str, LabelSelector | WorkloadPods], MatchCount] = {}
        self._by_charge: dict[bytes, tuple[MatchCount, ...]] = {}

    def follow(
        self,
        namespace: str,
        selector: LabelSelector | WorkloadPods,
        placed: Iterable[tuple[int, CachedCharge]],
        capacity: int,
    ) -> MatchCount:
        """Count what a selector matches among all placed pods, given as row and charge, and go on doing so."""
        count = self._followed.get((namespace, selector))
        if count is None:
            count = MatchCount(namespace, selector, capacity)
            for row, charge in placed:
                if count.matches(charge):
                    count.counts[row] += 1
            self._followed[namespace, selector] = count
            self._by_charge.clear()
        count.users += 1
        return count

    def drop(self, count: MatchCount) -> None:
        """One user less; a count without users is dropped."""
        count.users -= 1
        if count.users == 0:
            del self._followed[count.namespace, count.selector]
            self._by_charge.clear()

    def add(self, charge: CachedCharge, row: int, pods: int) -> None:
        """Some pods came to a node, or left it."""
        if not self._followed:
            return
        found = self._by_charge.get(charge.key)
        if found is None:
            if len(self._by_charge) >= _GROUPS_MAX:
                self._by_charge.clear()
            found = tuple(count for count in self._followed.values() if count.matches(charge))
            self._by_charge[charge.key] = found
        for count in found:
            count.counts[row] += pods
            count.changes += 1

    def grow(self, capacity: int) -> None:
        for count in self._followed.values():
            grown = np.zeros(capacity, np.int64)
            grown[: len(count.counts)] = count.counts
            count.counts = grown
