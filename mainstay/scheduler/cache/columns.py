"""Nodes as columns: what each has, what is taken there, how it is labelled. Kept up to date change by change.

A row belongs to a node's name, and stays for as long as there is the node, or a pod on a node of that name. Pods count
on their node from when they are bound, or assumed to be, until they are over or gone. A reservation that is active
holds its room as a pod would, and so does an unconfirmed charge: of a pod that was deleted by force and may still run
(unconfirmed.py).

Each change takes plain objects as caches give them, changes only the rows it is about, and says which cures it may be
(reasons.Cure). It notes the row in one of two logs, from which class_vectors.py catches up: `charged`, if only room was
taken or given back; `rebuilt`, if the node itself is another.

The feed must not await between reading a cache and passing the change on. Nothing in it depends on the order in which
objects arrive: columns made from a view alone (scheduler/what_if.py) lead to the same decisions. Row numbers mean
nothing.
"""

from bisect import bisect_left
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from mainstay.api.kind import Object
from mainstay.api.labels import LabelSelector
from mainstay.api.pod_resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, is_over
from mainstay.api.taints import Taint
from mainstay.api.well_known_labels import ZONE_LABEL
from mainstay.env.invariants import broken
from mainstay.scheduler.cache.arrays import Numbers, Rows, Truths
from mainstay.scheduler.cache.change_log import ChangeLog
from mainstay.scheduler.cache.charge import (
    CachedCharge,
    WorkloadPods,
    build_charge,
    build_reservation_charge,
    changes,
)
from mainstay.scheduler.cache.label_column import LabelColumn
from mainstay.scheduler.cache.match_counts import MatchCount, MatchCounts
from mainstay.scheduler.cache.node_facts import NodeFacts, find_cures, read_facts
from mainstay.scheduler.cache.ports_in_use import PortsInUse
from mainstay.scheduler.cache.ring import Ring, Stop, build_stop
from mainstay.scheduler.cache.zone_quotas import ZoneQuotas
from mainstay.scheduler.pod_class import PodToPlace
from mainstay.scheduler.reasons import Cure, merged

_CAPACITY_LEAST: Final = 64
_VALUES_SPARE: Final = 1000
_VECTORS_MAX: Final = 20_000  # Different charges remembered as vectors.

# Columns that are always there. The scored ones hold what scores take pods to need, which may be more than they ask
# for.
SCORED_CPU: Final = "scored cpu"
SCORED_MEMORY: Final = "scored memory"
_FIRST_COLUMNS: Final = (CPU, MEMORY, EPHEMERAL_STORAGE, PODS, SCORED_CPU, SCORED_MEMORY)
_SAME_LIMIT: Final = {SCORED_CPU: CPU, SCORED_MEMORY: MEMORY}


@dataclass(frozen=True, slots=True, eq=False)
class ReservedRoom:
    """An active reservation."""

    row: int
    node: str
    charge: CachedCharge
    is_counted: bool
    """Whether its room is taken. It is not, once a pod that names it is on the node and takes the room itself: by the
    bind that puts it there the reservation is over, which the watches may show a little later."""

    def is_counted_on(self, row: int) -> bool:
        return self.is_counted and self.row == row


@dataclass(frozen=True, slots=True, eq=False)
class _Placement:
    row: int
    charge: CachedCharge
    is_assumed: bool


class NodeColumns:
    def __init__(self) -> None:
        self._resources: dict[str, int] = {name: number for number, name in enumerate(_FIRST_COLUMNS)}
        self.used: Numbers = np.zeros((_CAPACITY_LEAST, len(_FIRST_COLUMNS)), np.int64)
        """By row and resource, what pods, reservations and unconfirmed charges take."""
        self.unconfirmed: Numbers = np.zeros_like(self.used)
        """What unconfirmed charges alone take of that."""
        self.allocatable: Numbers = np.zeros_like(self.used)
        self.taints: Rows = np.zeros(_CAPACITY_LEAST, np.intp)
        """By row, which of `taint_sets` the node has."""
        self.taint_sets: list[tuple[Taint, ...]] = [()]
        self.is_unschedulable: Truths = np.zeros(_CAPACITY_LEAST, np.bool_)
        self.ports = PortsInUse()
        self.quotas = ZoneQuotas()
        self.charged = ChangeLog()
        self.rebuilt = ChangeLog()
        self._taint_numbers: dict[tuple[Taint, ...], int] = {(): 0}
        self._labels: dict[str, LabelColumn] = {}
        self._match_counts = MatchCounts()
        self._rows: dict[str, int] = {}
        self._names: list[str] = []
        self._free_rows: list[int] = []
        self._facts: list[NodeFacts | None] = []
        self._pods_on: list[dict[str, CachedCharge]] = []
        self._held_on: list[int] = []
        self._placements: dict[str, _Placement] = {}
        self._reservations: dict[tuple[str, str], ReservedRoom] = {}
        self._claims: dict[tuple[str, str], dict[int, int]] = {}
        """By reservation, then by row: how many pods there name it."""
        self._unconfirmed: dict[int, dict[str, CachedCharge]] = {}
        """By row, then by uid. One that still counts as a pod is not counted a second time."""
        self._unconfirmed_rows: dict[str, int] = {}
        self._vectors: dict[bytes, Numbers] = {}
        self._stops: list[Stop] = []
        self._ring: Ring | None = None
        self._quota_changes = 0
        self._checked = -1

    # Telling what changed.

    def node_changed(self, node: Object | None, name: str) -> tuple[Cure, ...]:
        """A node is now like this, or gone."""
        new = None if node is None else read_facts(node)
        row = self._rows.get(name)
        if row is None:
            if new is None:
                return ()
            row = self._new_row(name)
        old = self._facts[row]
        if new == old:
            return ()
        if old is not None and (new is None or new.uid != old.uid):
            self._replace_unconfirmed(row, {})  # They end with their node.
        self._facts[row] = new
        if (old is None) != (new is None):
            self._ring = None
            stop = build_stop(name, row)
            at = bisect_left(self._stops, stop)
            if old is None:
                self._stops.insert(at, stop)
            else:
                del self._stops[at]
        self._write_node(row, new)
        self._move_quota(row, old, new)
        self.rebuilt.add(row, len(self._rows))
        self._release_row_if_unused(row)
        return find_cures(old, new)

    def pod_changed(self, old: Object | None, new: Object | None) -> tuple[Cure, ...]:
        """A pod was written, or is gone. A pod that is not bound yet counts nowhere, unless it is assumed to be."""
        cures: tuple[Cure, ...] = ()
        uid = "" if new is None else new["metadata"]["uid"]
        if old is not None and old["metadata"]["uid"] != uid:
            cures = self._remove(old["metadata"]["uid"])
        if new is None:
            return cures
        node = (new.get("spec") or {}).get("nodeName")
        if is_over(new):
            return merged((*cures, *self._remove(uid)))
        if node:
            return merged((*cures, *self._place(uid, node, build_charge(new), is_assumed=False)))
        return cures

    def assume(self, pod: PodToPlace, node: str) -> tuple[Cure, ...]:
        """Count a pod on a node before it is bound there. The bound pod takes its place; `forget` undoes it."""
        return self._place(pod.uid, node, pod.charge, is_assumed=True)

    def forget(self, uid: str) -> tuple[Cure, ...]:
        """A pod was not bound after all. One that is known to be bound stays, whatever became of the request."""
        placement = self._placements.get(uid)
        if placement is None or not placement.is_assumed:
            return ()
        return self._remove(uid)

    def reservation_changed(self, old: Object | None, new: Object | None) -> tuple[Cure, ...]:
        """A reservation was written, or is gone. It holds room while it is active."""
        given = new if new is not None else old
        if given is None:
            return ()
        metadata = given["metadata"]
        key = (metadata.get("namespace") or "", metadata["name"])
        held = self._reservations.get(key)
        is_active = new is not None and ((new.get("status") or {}).get("phase") or "Active") == "Active"
        node = ((new or {}).get("spec") or {}).get("nodeName") or ""
        charge = build_reservation_charge(new) if new is not None and is_active and node else None
        if held is not None and charge is not None and held.node == node and held.charge.same(charge):
            return ()
        cures = []
        if held is not None:
            del self._reservations[key]
            if held.is_counted:
                self._take(held.row, held.charge, -1)
            self._held_on[held.row] -= 1
            self._release_row_if_unused(held.row)
            cures.append(Cure.RESERVATION_RELEASED)
        if charge is not None:
            row = self._row(node)
            self._held_on[row] += 1
            self._reservations[key] = ReservedRoom(row, node, charge, is_counted=False)
            self._review(key)
            cures.append(Cure.RESERVATION_MADE)
        return merged(cures)

    def zone_quota_changed(self, old: Object | None, new: Object | None) -> tuple[Cure, ...]:
        """A ZoneQuota was written, or is gone."""
        self._quota_changes += 1
        if new is not None:
            if self.quotas.put(new):
                namespace = new["metadata"].get("namespace") or ""
                for row, charge in self._placed():
                    zone = self._zone(self._facts[row])
                    if charge.namespace == namespace and zone is not None:
                        self.quotas.add(charge, zone, 1)
        elif old is not None:
            self.quotas.remove(old["metadata"].get("namespace") or "", old["metadata"]["name"])
        return (Cure.ZONE_QUOTA,)

    def unconfirmed_changed(self, node: str, charges: Mapping[str, CachedCharge]) -> tuple[Cure, ...]:
        """These pods, by uid, were removed by force from a node and may still run there; no others. Of a node that is
        not there nothing is remembered."""
        row = self.find_row(node)
        if row is None or not self._replace_unconfirmed(row, charges):
            return ()
        return (Cure.POD_REMOVED, Cure.GHOSTS_GONE)

    def take_memory_from(self, other: "NodeColumns", assumed: Container[str]) -> None:
        """Take over unconfirmed charges, and assume these pods, by uid, to be where the other has them: what no view
        shows. Nodes must be there before, and what the view says of a pod stands."""
        for row, charges in other._unconfirmed.items():
            self.unconfirmed_changed(other._names[row], charges)
        for uid, placement in other._placements.items():
            if uid in assumed and uid not in self._placements:
                self._place(uid, other._names[placement.row], placement.charge, is_assumed=True)

    # Looking.

    @property
    def version(self) -> int:
        """Another number after any change."""
        return self.charged.end + self.rebuilt.end + self._quota_changes

    @property
    def ring(self) -> Ring:
        """The nodes that are there. Another object as soon as a node comes or goes."""
        if self._ring is None:
            self._ring = Ring(self._stops)
        return self._ring

    def find_row(self, node: str) -> int | None:
        """The row of a node that is there."""
        row = self._rows.get(node)
        return None if row is None or self._facts[row] is None else row

    def find_column(self, resource: str) -> int:
        """The number of a resource's column in `used` and `allocatable`. Makes a missing one."""
        number = self._resources.get(resource)
        if number is None:
            number = self._resources[resource] = len(self._resources)
            self._vectors.clear()
            self._widen(number + 1)
        return number

    def label(self, key: str) -> LabelColumn:
        """A label's column. Makes a missing one."""
        column = self._labels.get(key)
        if column is None:
            column = self._labels[key] = LabelColumn(key, len(self.taints))
            for row, facts in enumerate(self._facts):
                if facts is not None:
                    column.put(row, facts.labels.get(key))
        return column

    def follow(self, namespace: str, selector: LabelSelector | WorkloadPods) -> MatchCount:
        """How many pods a selector matches on each row, from now on. `unfollow` when done."""
        return self._match_counts.follow(namespace, selector, self._placed(), len(self.taints))

    def unfollow(self, count: MatchCount) -> None:
        self._match_counts.drop(count)

    def reservation(self, namespace: str, name: str) -> ReservedRoom | None:
        """An active reservation."""
        return self._reservations.get((namespace, name))

    def vector(self, charge: CachedCharge) -> Numbers:
        """A charge as numbers, by column."""
        found = self._vectors.get(charge.key)
        if found is None:
            columns = [(self.find_column(resource), amount) for resource, amount in charge.requests.items()]
            found = np.zeros(self.used.shape[1], np.int64)
            for column, amount in columns:
                found[column] = amount
            found[self._resources[SCORED_CPU]] = charge.scored_cpu
            found[self._resources[SCORED_MEMORY]] = charge.scored_memory
            if len(self._vectors) >= _VECTORS_MAX:
                self._vectors.clear()
            self._vectors[charge.key] = found
        return found

    @property
    def has_unconfirmed(self) -> bool:
        """Whether any are known, anywhere. Mostly there are none."""
        return bool(self._unconfirmed)

    @property
    def unconfirmed_nodes(self) -> list[str]:
        """The nodes that are known to have unconfirmed charges."""
        return [self._names[row] for row in self._unconfirmed]

    def unconfirmed_on(self, node: str) -> Mapping[str, CachedCharge]:
        """What is known to have been removed by force there, by uid."""
        row = self.find_row(node)
        return {} if row is None else self._unconfirmed.get(row, {})

    def find_node(self, uid: str) -> str | None:
        """Where a pod counts, bound or assumed."""
        placement = self._placements.get(uid)
        return None if placement is None else self._names[placement.row]

    # Invariants.

    def check_next_node(self) -> None:
        """Check one node, and the next one the next time: what is counted there is what is there."""
        if not self._names:
            return
        self._checked = (self._checked + 1) % len(self._names)
        self.check_row(self._checked)
        if self._checked == 0 and (counted := sum(map(len, self._pods_on))) != len(self._placements):
            raise broken("a pod counts on one node", "all nodes", counted=counted, placed=len(self._placements))

    def check_row(self, row: int) -> None:
        name, pods = self._names[row], self._pods_on[row]
        misplaced = [uid for uid, charge in pods.items() if not self._is_placed(uid, row, charge)]
        if misplaced:
            raise broken("a pod counts on one node", f"node {name}", misplaced=misplaced)
        charges = [*pods.values(), *[held.charge for held in self._reservations.values() if held.is_counted_on(row)]]
        doubtful = [charge for uid, charge in self._unconfirmed.get(row, {}).items() if uid not in self._placements]
        unconfirmed, total = np.zeros_like(self.used[row]), np.zeros_like(self.used[row])
        for charge in doubtful:
            unconfirmed += self.vector(charge)
        for charge in charges:
            total += self.vector(charge)
        total += unconfirmed
        if not (np.array_equal(total, self.used[row]) and np.array_equal(unconfirmed, self.unconfirmed[row])):
            raise broken(
                "a node's used room is the sum of its charges",
                f"node {name}",
                used=self.used[row].tolist(),
                sum=total.tolist(),
                unconfirmed=(self.unconfirmed[row].tolist(), unconfirmed.tolist()),
                resources=list(self._resources),
                pods=list(pods),
            )

    def _is_placed(self, uid: str, row: int, charge: CachedCharge) -> bool:
        placement = self._placements.get(uid)
        return placement is not None and placement.row == row and placement.charge is charge

    # Pods.

    def _placed(self) -> Iterator[tuple[int, CachedCharge]]:
        for placement in self._placements.values():
            yield placement.row, placement.charge

    def _place(self, uid: str, node: str, charge: CachedCharge, *, is_assumed: bool) -> tuple[Cure, ...]:
        was = self._placements.get(uid)
        was_here = was is not None and self._names[was.row] == node
        if was is not None:
            if was_here and was.charge.same(charge):
                if was.is_assumed != is_assumed:
                    self._placements[uid] = replace(was, is_assumed=is_assumed)
                return ()
            self._remove(uid)
        row = self._row(node)  # Not before: the last pod on a node that is not there takes its row with it.
        self._placements[uid] = _Placement(row, charge, is_assumed)
        self._count_unconfirmed(uid, -1)
        self._pods_on[row][uid] = charge
        self._count(row, charge, 1)
        if was is None:
            return (Cure.POD_PLACED,)
        return changes(was.charge, charge) if was_here else (Cure.POD_REMOVED, Cure.POD_PLACED)

    def _remove(self, uid: str) -> tuple[Cure, ...]:
        placement = self._placements.pop(uid, None)
        if placement is None:
            return ()
        del self._pods_on[placement.row][uid]
        self._count(placement.row, placement.charge, -1)
        self._count_unconfirmed(uid, 1)
        self._release_row_if_unused(placement.row)
        return (Cure.POD_REMOVED,)

    def _count(self, row: int, charge: CachedCharge, times: int) -> None:
        self._match_counts.add(charge, row, times)
        if self.quotas.has(charge.namespace):
            zone = self._zone(self._facts[row])
            if zone is not None:
                self.quotas.add(charge, zone, times)
        self._take(row, charge, times)
        if charge.reservation:
            key = (charge.namespace, charge.reservation)
            rows = self._claims.setdefault(key, {})
            rows[row] = rows.get(row, 0) + times
            self._review(key)
            if not any(rows.values()):
                del self._claims[key]

    def _review(self, key: tuple[str, str]) -> None:
        """Hold the room of a reservation, unless it is claimed by a pod that is there."""
        held = self._reservations.get(key)
        if held is None:
            return
        is_counted = not self._claims.get(key, {}).get(held.row)
        if is_counted != held.is_counted:
            self._reservations[key] = replace(held, is_counted=is_counted)
            self._take(held.row, held.charge, 1 if is_counted else -1)

    def _take(self, row: int, charge: CachedCharge, times: int) -> None:
        vector = self.vector(charge)
        if times > 0:
            self.used[row] += vector
        else:
            self.used[row] -= vector
        if charge.ports:
            self.ports.add(charge.ports, row, times)
        self.charged.add(row, len(self._rows))

    # Unconfirmed charges.

    def _replace_unconfirmed(self, row: int, charges: Mapping[str, CachedCharge]) -> bool:
        """Whether some of them are gone."""
        known = self._unconfirmed.pop(row, {})
        gone = [uid for uid in known if uid not in charges]
        for uid in gone:
            if uid not in self._placements:
                self._count_unconfirmed(uid, -1, known)
            del self._unconfirmed_rows[uid]
        if charges:
            self._unconfirmed[row] = dict(charges)
        for uid in charges:
            if uid not in known:
                self._unconfirmed_rows[uid] = row
                if uid not in self._placements:
                    self._count_unconfirmed(uid, 1)
        return bool(gone)

    def _count_unconfirmed(self, uid: str, times: int, known: Mapping[str, CachedCharge] | None = None) -> None:
        row = self._unconfirmed_rows.get(uid)
        if row is not None:
            charge = (known or self._unconfirmed[row])[uid]
            self._take(row, charge, times)
            self.unconfirmed[row] += times * self.vector(charge)

    # Nodes.

    def _write_node(self, row: int, facts: NodeFacts | None) -> None:
        amounts = {} if facts is None else facts.allocatable
        columns = {resource: self.find_column(resource) for resource in amounts}
        limits = np.zeros(self.allocatable.shape[1], np.int64)
        for resource, amount in amounts.items():
            limits[columns[resource]] = amount
        for scored, resource in _SAME_LIMIT.items():
            limits[self._resources[scored]] = amounts.get(resource, 0)
        self.allocatable[row] = limits
        taints = () if facts is None else facts.taints
        number = self._taint_numbers.get(taints)
        if number is None:
            number = self._taint_numbers[taints] = len(self.taint_sets)
            self.taint_sets.append(taints)
        self.taints[row] = number
        self.is_unschedulable[row] = facts is not None and facts.is_unschedulable
        labels = {} if facts is None else facts.labels
        for key, column in list(self._labels.items()):
            column.put(row, labels.get(key))
            if len(column.values) > 2 * len(self._rows) + _VALUES_SPARE:
                # Most of its values belong to nodes that are gone.
                del self._labels[key]

    def _move_quota(self, row: int, old: NodeFacts | None, new: NodeFacts | None) -> None:
        was, now = self._zone(old), self._zone(new)
        if was == now:
            return
        for charge in self._pods_on[row].values():
            if was is not None:
                self.quotas.add(charge, was, -1)
            if now is not None:
                self.quotas.add(charge, now, 1)

    @staticmethod
    def _zone(facts: NodeFacts | None) -> str | None:
        return None if facts is None else facts.labels.get(ZONE_LABEL)

    # Rows.

    def _row(self, name: str) -> int:
        row = self._rows.get(name)
        return self._new_row(name) if row is None else row

    def _new_row(self, name: str) -> int:
        if self._free_rows:
            row = self._free_rows.pop()
        else:
            row = len(self._facts)
            if row >= len(self.taints):
                self._lengthen(2 * row)
            self._names.append(name)
            self._facts.append(None)
            self._pods_on.append({})
            self._held_on.append(0)
        self._rows[name] = row
        self._names[row] = name
        return row

    def _release_row_if_unused(self, row: int) -> None:
        if self._facts[row] is not None or self._pods_on[row] or self._held_on[row]:
            return
        name = self._names[row]
        if self.used[row].any():
            raise broken("nothing is taken on a node without charges", f"node {name}", used=self.used[row].tolist())
        del self._rows[name]
        self._free_rows.append(row)

    def _lengthen(self, capacity: int) -> None:
        self.used = _grown(self.used, (capacity, self.used.shape[1]))
        self.allocatable = _grown(self.allocatable, self.used.shape)
        self.unconfirmed = _grown(self.unconfirmed, self.used.shape)
        self.taints = _grown_rows(self.taints, capacity)
        self.is_unschedulable = _grown_truths(self.is_unschedulable, capacity)
        self._match_counts.grow(capacity)
        for column in self._labels.values():
            column.grow(capacity)

    def _widen(self, width: int) -> None:
        self.used = _grown(self.used, (self.used.shape[0], width))
        self.allocatable = _grown(self.allocatable, self.used.shape)
        self.unconfirmed = _grown(self.unconfirmed, self.used.shape)


def _grown(array: Numbers, shape: tuple[int, ...]) -> Numbers:
    grown = np.zeros(shape, np.int64)
    grown[: array.shape[0], : array.shape[1]] = array
    return grown


def _grown_rows(array: Rows, capacity: int) -> Rows:
    grown = np.zeros(capacity, np.intp)
    grown[: len(array)] = array
    return grown


def _grown_truths(array: Truths, capacity: int) -> Truths:
    grown = np.zeros(capacity, np.bool_)
    grown[: len(array)] = array
    return grown
