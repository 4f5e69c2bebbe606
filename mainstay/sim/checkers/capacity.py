"""No pod is ever on two nodes, no binding takes room that is not there, and the books agree with the pods.

Four promises, judged by what was committed and by nothing that the servers say:

- a pod, told by its uid, is on one node for as long as it is there;
- when a pod is bound, what all pods on the node ask for is not more than the node has at that revision. Counted from
  the pods themselves, not from the ledger. A node may shrink or go afterwards: no binding did that;
- a node that is closed to new pods at that revision gets none but those that tolerate it;
- at each revision the ledger of a node takes exactly what the charges to it and its ghosts do, and in the end each
  charge is that of a pod which is there and has not ended.

What is held by reservations is no business of this one; see reserved.py.
"""

from typing import TYPE_CHECKING, Final

import msgspec

from mainstay.api.pod_resources import count_requests, is_over, read_allocatable
from mainstay.server.placement.ledger.charge import CHARGES, Charge, decode_charge
from mainstay.server.placement.ledger.ledger import LEDGERS, Ledger, ledger_in, plus
from mainstay.server.placement.ledger.room import bears_cordon
from mainstay.server.storage.keyspace import CORE
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.decoded import decode_commit
from mainstay.sim.cluster.history import Event, RevisionCommitted
from mainstay.store.interface import Entry

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

_PODS: Final = f"{CORE}/pods/"
_NODES: Final = f"{CORE}/nodes/"
_NO_LEDGER: Final = Ledger()


class OnNode(msgspec.Struct, frozen=True):
    """A pod that takes something of a node."""

    uid: str
    node: str
    wants: dict[str, int]
    commit: RevisionCommitted


class CapacityChecker:
    name = "capacity"

    def __init__(self) -> None:
        self.allocatable: dict[str, dict[str, int]] = {}
        """Of the nodes that are there, by name."""
        self._closed: dict[str, RevisionCommitted] = {}  # By name: nodes that take no more pods.
        self._pods: dict[str, OnNode] = {}  # By namespace/name: those that have a node and have not ended.
        self._node_of: dict[str, tuple[str, RevisionCommitted]] = {}  # By uid of a pod, of all there ever were.
        self._charges: dict[str, Charge] = {}
        self._ledgers: dict[str, Ledger] = {}
        self._revision = 0
        self._touched: dict[str, RevisionCommitted] = {}  # Nodes whose books were changed by that revision.

    def saw(self, event: Event) -> None:
        if not isinstance(event, RevisionCommitted):
            return
        if event.revision != self._revision:
            self._require_agreement()
            self._revision = event.revision
        if event.key.startswith(_PODS):
            self._pod(event.key.removeprefix(_PODS), event)
        elif event.key.startswith(_NODES):
            self._node(event.key.removeprefix(_NODES), event)
        elif event.key.startswith(CHARGES):
            self._charge(event.key.removeprefix(CHARGES), event)
        elif event.key.startswith(LEDGERS):
            self._ledger(event.key.removeprefix(LEDGERS), event)

    async def at_end(self, world: "World") -> None:
        self._require_agreement()
        for place, pod in self._pods.items():
            charge = self._charges.get(place)
            if charge is None or charge.uid != pod.uid:
                raise Violated(self.name, f"{place} is on {pod.node} but is not charged at the end", [pod.commit])
        for place, charge in self._charges.items():
            if place not in self._pods:
                raise Violated(self.name, f"{place} is still charged to {charge.node} at the end")

    def count_used(self, node: str) -> dict[str, int]:
        """What is taken of a node by the pods that are on it, as they say themselves."""
        total: dict[str, int] = {}
        for pod in self._pods.values():
            if pod.node == node:
                total = plus(total, pod.wants)
        return total

    def _pod(self, place: str, commit: RevisionCommitted) -> None:
        if commit.value is None:
            self._pods.pop(place, None)
            return
        pod = decode_commit(commit.value)
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
        if not node:
            return
        first, bound_by = self._node_of.setdefault(uid, (node, commit))
        if first != node:
            raise Violated(self.name, f"{place} was bound to {first} and to {node}", [bound_by, commit])
        if is_over(pod):
            self._pods.pop(place, None)
            return
        self._pods[place] = OnNode(uid, node, {name: of for name, of in count_requests(pod).items() if of}, commit)
        was_bound = commit.previous is not None and not decode_commit(commit.previous)["spec"].get("nodeName")
        if was_bound:
            self._require_room(place, self._pods[place])
            if node in self._closed and not bears_cordon(pod):
                text = f"{place} was bound to {node}, which accepts no more pods"
                raise Violated(self.name, text, [self._closed[node], commit])

    def _require_room(self, place: str, pod: OnNode) -> None:
        """A pod was bound by this commit. Where there is no Node, its capacity is unknown."""
        has = self.allocatable.get(pod.node)
        if has is None:
            return
        used = self.count_used(pod.node)
        for resource in pod.wants:
            if used[resource] > has.get(resource, 0):
                text = f"{place} was bound to {pod.node}, where {used[resource]} of {has.get(resource, 0)} {resource} "
                others = [each.commit for each in self._pods.values() if each.node == pod.node]
                raise Violated(self.name, f"{text}are then used", others)

    def _node(self, name: str, commit: RevisionCommitted) -> None:
        self._closed.pop(name, None)
        if commit.value is None:
            self.allocatable.pop(name, None)
            return
        node = decode_commit(commit.value)
        self.allocatable[name] = read_allocatable(node)
        if (node.get("spec") or {}).get("unschedulable"):
            self._closed[name] = commit

    def _charge(self, place: str, commit: RevisionCommitted) -> None:
        before = self._charges.pop(place, None)
        if before is not None:
            self._touched[before.node] = commit
        if commit.value is not None:
            charge = self._charges[place] = decode_charge(commit.value)
            self._touched[charge.node] = commit

    def _ledger(self, node: str, commit: RevisionCommitted) -> None:
        entry = None if commit.value is None else Entry(commit.key, commit.value, commit.revision, commit.revision, 1)
        self._ledgers[node] = ledger_in(entry)
        self._touched[node] = commit

    def _require_agreement(self) -> None:
        """The revision before this one is complete: is it right about the nodes that it touched?"""
        for node, commit in self._touched.items():
            ledger = self._ledgers.get(node, _NO_LEDGER)
            total: dict[str, int] = {}
            for charge in (*self._charges.values(), *ledger.ghosts.values()):
                if charge.node == node:
                    total = plus(total, charge.amounts)
            if total != ledger.used:
                text = f"the ledger of {node} says that {ledger.used} are used, but the charges add up to {total}"
                raise Violated(self.name, text, [commit])
        self._touched.clear()
