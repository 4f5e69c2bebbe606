"""How many pods that a spread constraint speaks of are in each domain.

A domain is a value of the constraint's label. Only nodes count that have the labels of all constraints of the same
kind, and that the constraint's policies include; a domain exists if it has such a node, full or not. Counts are kept
up to date from the rows that changed.
"""

import numpy as np

from mainstay.scheduler.cache.arrays import Numbers, Rows, Truths
from mainstay.scheduler.cache.columns import NodeColumns
from mainstay.scheduler.cache.label_column import ABSENT
from mainstay.scheduler.cache.match_counts import MatchCount
from mainstay.scheduler.cache.ring import Ring
from mainstay.scheduler.filters import node_affinity, taints
from mainstay.scheduler.pod_class import PodClass, SpreadConstraint


class Domains:
    """Of one constraint of one class of pods. All arrays by place are in the order of the ring."""

    __slots__ = (
        "_count",
        "_counted_to",
        "_included",
        "_on_place",
        "_places",
        "by_place",
        "constraint",
        "count",
        "is_there",
        "pods",
    )

    def __init__(self, columns: NodeColumns, pod: PodClass, constraint: SpreadConstraint, ring: Ring) -> None:
        self.constraint = constraint
        column = columns.label(constraint.key)
        self.by_place: Rows = column.numbers[ring.rows]
        """The domain of each node, as the number of the label's value."""
        self._included = has_all_labels(columns, pod, constraint.is_hard, ring.rows)
        if constraint.honors_affinity:
            allowed = node_affinity.passing(columns, pod, ring.rows)
            self._included = self._included if allowed is None else self._included & allowed
        if constraint.honors_taints:
            tolerated = taints.passing(columns, pod, ring.rows)
            self._included = self._included if tolerated is None else self._included & tolerated
        self._places = ring.places
        self._count: MatchCount | None = None
        self._counted_to = 0
        self._on_place: Numbers = np.zeros(len(ring), np.int64)
        if constraint.selector is not None:
            self._count = columns.follow(pod.namespace, constraint.selector)
            self._on_place = self._count.counts[ring.rows]
            self._counted_to = self._count.changes
        domains = len(column.values)
        self.pods: Numbers = np.zeros(domains, np.int64)
        """By domain."""
        np.add.at(self.pods, self.by_place[self._included], self._on_place[self._included])
        self.is_there: Truths = np.zeros(domains, np.bool_)
        self.is_there[self.by_place[self._included]] = True
        self.count = int(np.count_nonzero(self.is_there))

    @property
    def on_place(self) -> Numbers:
        """Pods on each node itself, whether it is included or not."""
        return self._on_place

    def is_behind(self) -> bool:
        """Whether a pod that counts came or left since this was last asked. If so, pass on all rows that changed.
        Mostly only other pods came or left, and there is nothing to do."""
        if self._count is None or self._count.changes == self._counted_to:
            return False
        self._counted_to = self._count.changes
        return True

    def row_changed(self, row: int) -> None:
        """Something was placed on a node, or taken away."""
        place = self._places.get(row)
        if place is None or self._count is None:
            return
        now = int(self._count.counts[row])
        difference = now - int(self._on_place[place])
        if difference:
            self._on_place[place] = now
            if self._included[place]:
                self.pods[self.by_place[place]] += difference

    def close(self, columns: NodeColumns) -> None:
        """Release what it follows: it is not used any more."""
        if self._count is not None:
            columns.unfollow(self._count)
            self._count = None

    # Of a hard constraint.

    def skews(self) -> Numbers:
        """By domain, the skew that there would be with the pod in it."""
        least = 0
        if self.count and self.count >= self.constraint.min_domains:
            least = int(self.pods[self.is_there].min())
        return self.pods + (int(self.constraint.matches_itself) - least)

    def allowed(self) -> Truths | None:
        """By domain, whether the pod may go there. None: to all that have the label."""
        found: Truths = self.skews() <= self.constraint.max_skew
        found[ABSENT] = True  # Nodes without the label are refused for that reason, and by another function.
        return None if found.all() else found


def has_all_labels(columns: NodeColumns, pod: PodClass, is_hard: bool, rows: Rows) -> Truths:
    """For which rows the node has the labels of all constraints of one kind."""
    found = np.ones(len(rows), np.bool_)
    for each in pod.spread:
        if each.is_hard is is_hard:
            found &= columns.label(each.key).numbers[rows] != ABSENT
    return found
