"""What is known of all nodes for one class of pods: who can take it, and how good each is. Kept from decision to
decision.

All vectors are in the order of the ring. Between two decisions usually a single row has changed, and only that one is
looked at again: a few by plain numbers, more by arrays, and after a change of nodes everything. `totals` gives the
scores of all nodes, -1 for those that cannot take the pod; the first of the largest, seen from the pod's place, is the
answer.

What is judged for whole domains, skews and zone quotas, is judged at each `totals`, and so is what those that remain
are compared by: preferences are scaled by the largest among the nodes that can take the pod.

These are only caches. Thrown away and rebuilt they are the same.
"""

from typing import Final

import numpy as np

from mainstay.scheduler.cache.arrays import Numbers, Rows, Truths
from mainstay.scheduler.cache.columns import NodeColumns, ReservedRoom
from mainstay.scheduler.cache.domains import Domains
from mainstay.scheduler.cache.ring import Ring
from mainstay.scheduler.filters import host_ports, resources, table, zone_quota
from mainstay.scheduler.pod_class import PodClass
from mainstay.scheduler.policy import Policy
from mainstay.scheduler.scores import SCORE_MAX, allocation, balance, node_affinity, taints, topology_spread
from mainstay.scheduler.scores.room import measured_for_allocation, measured_for_balance

_FEW: Final = 24  # Up to so many rows, plain numbers are faster than arrays: 2 µs for each, or 50 µs in all.


class ClassVectors:
    def __init__(self, columns: NodeColumns, pod: PodClass, policy: Policy, only: Ring | None = None) -> None:
        """With `only` nodes that are named, for one decision and not for longer."""
        self._columns = columns
        self._pod = pod
        self._policy = policy
        self._only = only
        self._domains: tuple[Domains, ...] = ()
        self._hard: tuple[Domains, ...] = ()
        self._soft: tuple[Domains, ...] = ()
        self._charged_to = self._rebuilt_to = 0
        self._build()

    def totals(self) -> tuple[Ring, Numbers]:
        """The nodes in the order of the ring, and their scores: -1 for those that cannot take the pod. Read only, and
        only until something changes."""
        self._catch_up()
        mask = self._mask_of_domains()
        if self._preferred is not None or self._disliked is not None:
            self._scale(mask)
        totals = self._ranked if mask is None else np.where(mask, self._ranked, -1)
        if self._soft:
            feasible = totals >= 0
            spread = self._policy.spread_weight * topology_spread.scores(self._soft, feasible)
            totals = np.where(feasible, totals + spread, -1)
        return self._ring, totals

    def close(self) -> None:
        """Release what it follows: it is not used any more."""
        for each in self._domains:
            each.close(self._columns)
        self._domains = self._hard = self._soft = ()

    # Catching up.

    def _catch_up(self) -> None:
        columns = self._columns
        if self._only is not None:
            return
        if columns.ring is not self._ring or self._held is not self._own_reservation():
            self._build()
            return
        if columns.rebuilt.end != self._rebuilt_to:
            changed = columns.rebuilt.since(self._rebuilt_to)
            if changed is None or len(changed) * 4 > len(self._ring):
                self._build()
                return
            self._nodes_changed(changed)
        if columns.charged.end != self._charged_to:
            charged = columns.charged.since(self._charged_to)
            if charged is None:
                self._build()
                return
            self._charged_to = columns.charged.end
            self._room_changed(charged)

    def _nodes_changed(self, rows: list[int]) -> None:
        """Some nodes are not what they were. Domains may be others now, and are rebuilt."""
        columns = self._columns
        self._rebuilt_to = columns.rebuilt.end
        places = self._find_places(rows)
        self._write_nodes(places)
        self._write_room(places)
        self._make_domains()

    def _room_changed(self, rows: list[int]) -> None:
        if len(rows) > 1:
            rows = list(dict.fromkeys(rows))
        for domains in self._domains:
            if domains.is_behind():
                for row in rows:
                    domains.row_changed(row)
        if len(rows) > _FEW or self._held is not None:
            self._write_room(self._find_places(rows))
            return
        for row in rows:
            place = self._ring.places.get(row)
            if place is not None and self._is_allowed[place]:
                self._write_room_of_one(row, place)

    def _find_places(self, rows: list[int]) -> Rows:
        places = self._ring.places
        found = [places[row] for row in dict.fromkeys(rows) if row in places]
        return np.array(found, np.intp)

    # Making vectors.

    def _build(self) -> None:
        columns, pod = self._columns, self._pod
        self._needs = resources.build_needs(columns, pod)
        self._measured = measured_for_allocation(columns, pod, self._policy)
        self._balanced = measured_for_balance(columns, pod, self._policy)
        self._ring = columns.ring if self._only is None else self._only
        self._held = self._own_reservation()
        self._charged_to, self._rebuilt_to = columns.charged.end, columns.rebuilt.end
        size = len(self._ring)
        self._is_allowed: Truths = np.zeros(size, np.bool_)
        self._room: Numbers = np.zeros(size, np.int64)
        """Weighed scores of room; -1 where a node cannot take the pod."""
        self._ranked: Numbers = self._room
        """The same with what is preferred. Of most classes nothing is, and it is the same array."""
        self._preferred: Numbers | None = None
        self._disliked: Numbers | None = None
        self._preferred_most = self._disliked_most = 0
        everything = np.arange(size, dtype=np.intp)
        self._write_nodes(everything)
        self._write_room(everything)
        self._make_domains()

    def _make_domains(self) -> None:
        old = self._domains
        pod = self._pod
        self._domains = tuple(Domains(self._columns, pod, each, self._ring) for each in pod.spread)
        self._hard = tuple(each for each in self._domains if each.constraint.is_hard)
        self._soft = tuple(each for each in self._domains if not each.constraint.is_hard)
        for each in old:  # Not before: what both follow need not be counted again.
            each.close(self._columns)

    def _write_nodes(self, places: Rows) -> None:
        """What follows from the nodes alone."""
        columns, pod, rows = self._columns, self._pod, self._ring.rows[places]
        self._is_allowed[places] = table.allowed_by_node(columns, pod, rows)
        preferred, disliked = node_affinity.sums(columns, pod, rows), taints.counts(columns, pod, rows)
        if preferred is not None:
            self._preferred = _written(self._preferred, places, preferred, len(self._ring))
        if disliked is not None or self._disliked is not None:
            self._disliked = _written(self._disliked, places, 0 if disliked is None else disliked, len(self._ring))
        if self._ranked is self._room and (self._preferred is not None or self._disliked is not None):
            self._ranked = self._room.copy()
            self._rank()

    def _write_room(self, places: Rows) -> None:
        """What follows from what is placed on the nodes."""
        columns, pod, policy, rows = self._columns, self._pod, self._policy, self._ring.rows[places]
        used, allocatable = columns.used[rows].T, columns.allocatable[rows].T
        passing = self._is_allowed[places]
        if self._held is None:
            passing &= resources.fitting(self._needs, used, allocatable)
        else:
            passing &= resources.passing(columns, pod, rows)
        if pod.ports:
            passing &= host_ports.passing(columns, pod, rows)
        points = policy.allocation_weight * allocation.of_rows(used, allocatable, self._measured, policy.allocation)
        points += policy.balance_weight * balance.of_rows(used, allocatable, self._balanced)
        points += policy.taints_weight * SCORE_MAX
        self._room[places] = np.where(passing, points, -1)
        if self._ranked is not self._room:
            self._ranked[places] = self._with_preferences(places)

    def _write_room_of_one(self, row: int, place: int) -> None:
        """The same for one node."""
        columns, policy = self._columns, self._policy
        used, allocatable = columns.used[row].tolist(), columns.allocatable[row].tolist()
        points = -1
        if resources.fits(self._needs, used, allocatable) and (
            not self._pod.ports or host_ports.passes(columns, self._pod, row)
        ):
            points = (
                policy.allocation_weight * allocation.of_row(used, allocatable, self._measured, policy.allocation)
                + policy.balance_weight * balance.of_row(used, allocatable, self._balanced)
                + policy.taints_weight * SCORE_MAX
            )
        self._room[place] = points
        if self._ranked is not self._room:
            self._ranked[place] = -1 if points < 0 else points + self._preference_of_one(place)

    # What is preferred, scaled by the largest among the nodes that can take the pod.

    def _scale(self, mask: Truths | None) -> None:
        feasible = self._room >= 0
        if mask is not None:
            feasible &= mask
        preferred_most, disliked_most = _most(self._preferred, feasible), _most(self._disliked, feasible)
        if (preferred_most, disliked_most) != (self._preferred_most, self._disliked_most):
            self._preferred_most, self._disliked_most = preferred_most, disliked_most
            self._rank()

    def _rank(self) -> None:
        self._ranked[:] = self._with_preferences(np.arange(len(self._ring), dtype=np.intp))

    def _with_preferences(self, places: Rows) -> Numbers:
        """The room's points are made for nodes without taints: these are taken off, not added."""
        points = self._room[places]
        more = np.zeros(len(places), np.int64)
        if self._preferred is not None:
            more += self._policy.affinity_weight * node_affinity.scaled(self._preferred[places], self._preferred_most)
        if self._disliked is not None:
            scaled = taints.scaled(self._disliked[places], self._disliked_most)
            more += self._policy.taints_weight * (scaled - SCORE_MAX)
        return np.where(points < 0, -1, points + more)

    def _preference_of_one(self, place: int) -> int:
        more = 0
        if self._preferred is not None and self._preferred_most:
            scaled = int(self._preferred[place]) * SCORE_MAX // self._preferred_most
            more += self._policy.affinity_weight * scaled
        if self._disliked is not None and self._disliked_most:
            scaled = int(self._disliked[place]) * SCORE_MAX // self._disliked_most
            more -= self._policy.taints_weight * scaled
        return more

    # What is judged for whole domains.

    def _mask_of_domains(self) -> Truths | None:
        """Where skews and quotas allow the pod to go; None: anywhere."""
        mask: Truths | None = None
        for domains in self._hard:
            allowed = domains.allowed()
            if allowed is not None:
                places = allowed[domains.by_place]
                mask = places if mask is None else mask & places
        if self._columns.quotas.has(self._pod.namespace):
            places_left = zone_quota.passing(self._columns, self._pod, self._ring.rows)
            if places_left is not None:
                mask = places_left if mask is None else mask & places_left
        return mask

    def _own_reservation(self) -> ReservedRoom | None:
        pod = self._pod
        return self._columns.reservation(pod.namespace, pod.reservation) if pod.reservation else None


def _written(array: Numbers | None, places: Rows, values: Numbers | int, size: int) -> Numbers:
    if array is None:
        array = np.zeros(size, np.int64)
    array[places] = values
    return array


def _most(values: Numbers | None, feasible: Truths) -> int:
    if values is None or not len(values):
        return 0
    return int((values * feasible).max())
