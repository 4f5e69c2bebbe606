"""Charges, ledgers and Nodes for tests, and what must hold of a store's whole history."""

from collections.abc import Iterable
from typing import Any

import msgspec

from mainstay.server.placement.ledger.charge import CHARGES, Charge, build_charge, decode_charge
from mainstay.server.placement.ledger.ledger import LEDGERS, Ledger, charged, ledger_in
from mainstay.server.placement.ledger.nodes import read_facts
from mainstay.server.placement.ledger.room import shortages
from mainstay.store.interface import Entry, KeyChange, Store

NODES = "/api/v1/nodes"


class Broken(AssertionError):
    """A promise of the ledger was broken."""


def a_charge(uid: str, cpu: int = 1000, *ports: str, node: str = "n1", **more: int) -> Charge:
    return Charge(uid, f"default/{uid}", node, {"cpu": cpu, "pods": 1, **more}, ports)


def a_ledger(cpu: int = 4000, pods: int = 10, **rest: Any) -> Ledger:
    return Ledger(node_uid="u-n1", allocatable={"cpu": cpu, "pods": pods}, **rest)


def a_node(name: str = "n1", cpu: str = "4", pods: str = "10", zone: str = "", **spec: Any) -> dict[str, Any]:
    labels = {"topology.kubernetes.io/zone": zone} if zone else {}
    allocatable = {"cpu": cpu, "memory": "8Gi", "pods": pods}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"allocatable": allocatable}}


def a_sized_pod(name: str, cpu: str = "1", port: int = 0, **spec: Any) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "c", "image": "x:1", "resources": {"requests": {"cpu": cpu}}}
    if port:
        container["ports"] = [{"containerPort": port, "hostPort": port}]
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


async def history_of(store: Store) -> list[KeyChange]:
    """All that ever happened in a store."""
    latest = await store.revision()
    changes: list[KeyChange] = []
    with store.watch("", after=0) as watch:
        async for batch in watch:
            changes += batch.changes
            if batch.revision >= latest:
                return changes
    raise AssertionError("a watch ended by itself")


def require_ledgers(changes: Iterable[KeyChange]) -> int:
    """Raise `Broken` unless at every revision the ledgers were right. Returns how many pods were bound.

    Right is: what is used is the sum of the charges and the ghosts; exactly those pods are charged that are on a node
    and have not ended; and no pod was bound to a Node that had no room for it.
    """
    told: dict[str, Entry] = {}
    bindings = 0
    by_revision: dict[int, list[KeyChange]] = {}
    for change in changes:
        by_revision.setdefault(change.revision, []).append(change)
    for revision, together in by_revision.items():
        for change in together:
            if change.entry is None:
                told.pop(change.key, None)
            else:
                told[change.key] = change.entry
        if not any(change.key.startswith((LEDGERS, CHARGES, "core/pods/", "core/nodes/")) for change in together):
            continue
        nodes = require_sums(told, revision)
        for change in together:
            if change.key.startswith("core/pods/") and change.entry and change.previous:
                before, after = _object(change.previous), _object(change.entry)
                if after["spec"].get("nodeName") and not before["spec"].get("nodeName"):
                    bindings += 1
                    _require_room(nodes.get(after["spec"]["nodeName"], Ledger()), after, revision)
    return bindings


def require_sums(told: dict[str, Entry], revision: int) -> dict[str, Ledger]:
    """The ledgers as of one revision, by node, if they are right. `told` is all that is in the store, by key."""
    ledgers = {key.removeprefix(LEDGERS): ledger_in(each) for key, each in told.items() if key.startswith(LEDGERS)}
    charges = {key.removeprefix(CHARGES): decode_charge(e.value) for key, e in told.items() if key.startswith(CHARGES)}
    pods = {key.removeprefix("core/pods/"): _object(e) for key, e in told.items() if key.startswith("core/pods/")}
    nodes = {key.removeprefix("core/nodes/"): _object(e) for key, e in told.items() if key.startswith("core/nodes/")}
    wanted = {place: charge.uid for place, pod in pods.items() if (charge := build_charge(pod)) is not None}
    if wanted != {place: charge.uid for place, charge in charges.items()}:
        raise Broken(f"revision {revision}: charged are {sorted(charges)}, and should be {sorted(wanted)}")
    for name in sorted({*ledgers, *nodes, *(charge.node for charge in charges.values())}):
        ledger = ledgers.get(name, Ledger())
        counted = Ledger()
        for charge in (*(each for each in charges.values() if each.node == name), *ledger.ghosts.values()):
            counted = charged(counted, charge)
        if (counted.used, counted.ports) != (ledger.used, ledger.ports):
            raise Broken(f"revision {revision}: of {name} {ledger.used} is used, and {counted.used} is charged")
        if name in nodes:
            facts = read_facts(nodes[name])
            known = (ledger.node_uid, ledger.is_accepting, ledger.zone, ledger.allocatable)
            if known != (facts.uid, facts.is_accepting, facts.zone, facts.allocatable):
                raise Broken(f"revision {revision}: the ledger of {name} says {known} of its Node, which is {facts}")
        elif ledger.node_uid or ledger.ghosts:
            raise Broken(f"revision {revision}: there is no Node {name}, but its ledger knows one")
    return ledgers


def _require_room(ledger: Ledger, pod: dict[str, Any], revision: int) -> None:
    charge = build_charge(pod)
    if charge is None or not ledger.node_uid:
        return
    short = {name: free for name, (_, free) in shortages(ledger, dict.fromkeys(charge.amounts, 0)).items()}
    if short:
        raise Broken(f"revision {revision}: {charge.pod} was bound to {charge.node}, which then had {short} left")
    if any(count > 1 for port, count in ledger.ports.items() if port in charge.ports):
        raise Broken(f"revision {revision}: {charge.pod} was given a port of {charge.node} that another pod has")


def _object(entry: Entry) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(entry.value)
    return found
