"""Recounting a node's ledger, from the pods and the reservations themselves.

The ledger, the charges, the pods and the reservations are written together, so they agree at every revision. Should
they not (a mistake of ours, a hand in the store, a store from before there were ledgers) this puts them right:
`compute_drift` says what is wrong, from a snapshot; `recount` writes what it should be, each part only if what it was
made from has not changed since.

What is promised is not counted here: no object says so.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from mainstay.api.kind import Object
from mainstay.api.kinds.mainstay import RESERVATION
from mainstay.api.reservations import is_active
from mainstay.server.placement.ledger.charge import (
    CHARGES,
    Charge,
    build_charge,
    charge_for,
    charge_key,
    decode_charge,
    encode_charge,
)
from mainstay.server.placement.ledger.ledger import Ledger, build_write, charged, held, ledger_in, ledger_key, released
from mainstay.server.placement.ledger.nodes import read_facts, with_node, without_node
from mainstay.server.storage.keyspace import CORE, build_prefix
from mainstay.server.storage.shared_writes import SharedWrites
from mainstay.server.storage.transact import transact
from mainstay.store.interface import ABSENT, Check, Committed, DeleteEntry, Entry, Put, Store, Write

ATTEMPTS_MAX: Final = 10  # Against others who write the same node. Repair comes again.
STEP: Final = 30  # Charges put right in one transaction: each is a check of the pod, one of the charge, and a write.

HOLDS_MAX: Final = 90
"""Reservations of a node that are checked when what is held is written. Should one beyond these end in that very moment
then too much is held, until the next recount: nothing is given away twice."""

_PODS: Final = f"{CORE}/pods/"
_NODES: Final = f"{CORE}/nodes/"
_RESERVATIONS: Final = build_prefix(RESERVATION)
_decode = msgspec.json.Decoder().decode


class LedgerDrift(msgspec.Struct, frozen=True):
    """What is wrong about a node."""

    node: str
    missing: tuple[Charge, ...] = ()
    """Pods that are on the node and not charged, or not with what they were charged with before."""
    left_over: tuple[Charge, ...] = ()
    """Charges of pods that are not there, have ended, or are others."""
    ledger: Ledger | None = None
    """What the ledger should be once that is put right; None if it is so already."""

    @property
    def is_none(self) -> bool:
        return not self.missing and not self.left_over and self.ledger is None


def compute_drift(
    node: str,
    ledger: Ledger,
    node_object: Object | None,
    pods: Mapping[str, Object],
    charges: Mapping[str, Charge],
    holds: Sequence[Charge] = (),
) -> LedgerDrift:
    """Compare a ledger with what it is the sum of: the pods on the node and the charges to it, by `namespace/name`, and
    what active reservations hold there."""
    wanted = {place: charge for place, pod in pods.items() if (charge := build_charge(pod)) is not None}
    kept = {
        place: charge
        for place, charge in charges.items()
        if place in wanted and wanted[place].uid == charge.uid and wanted[place].node == charge.node
    }
    left_over = tuple(charge for place, charge in sorted(charges.items()) if place not in kept)
    empty = replace(ledger, used={}, ports={}, held={}, held_ports={}, ghosts={})
    counted = without_node(empty) if node_object is None else with_node(empty, read_facts(node_object))
    missing = tuple(replace(charge, zone=counted.zone) for place, charge in sorted(wanted.items()) if place not in kept)
    for charge in (*kept.values(), *missing):
        counted = charged(counted, charge)
    for hold in holds:
        counted = held(counted, hold.amounts, hold.ports)
    if node_object is not None and ledger.node_uid in ("", counted.node_uid):
        for ghost in ledger.ghosts.values():
            counted = charged(counted, ghost)
        counted = replace(counted, ghosts=ledger.ghosts)
    return LedgerDrift(node, missing, left_over, None if counted == ledger else counted)


async def find_drift(store: Store, node: str) -> tuple[LedgerDrift, Entry | None, Mapping[str, Entry]]:
    """What is wrong about a node as of one revision, with its ledger and the entries that this was found from."""
    pods = await store.range(_PODS)
    at = pods.revision
    charges = await store.range(CHARGES, at=at)
    reservations = await store.range(_RESERVATIONS, at=at)
    ledger = await store.get(ledger_key(node), at=at)
    node_entry = await store.get(_NODES + node, at=at)
    needle = f'"nodeName":"{node}"'.encode()
    on_node: dict[str, Object] = {}
    entries: dict[str, Entry] = {} if node_entry is None else {node_entry.key: node_entry}
    for entry in pods.entries:
        if needle in entry.value:
            pod: dict[str, Any] = _decode(entry.value)
            if pod["spec"].get("nodeName") == node:
                on_node[entry.key.removeprefix(_PODS)] = pod
                entries[entry.key] = entry
    charged_to: dict[str, Charge] = {}
    for entry in charges.entries:
        charge = decode_charge(entry.value)
        place = entry.key.removeprefix(CHARGES)
        if charge.node == node or place in on_node:
            entries[entry.key] = entry
            if charge.node == node:
                charged_to[place] = charge
    holds: list[Charge] = []
    for entry in reservations.entries:
        if needle in entry.value:
            reservation: dict[str, Any] = _decode(entry.value)
            if reservation["spec"]["nodeName"] == node and is_active(reservation):
                holds.append(charge_for(reservation))
                entries[entry.key] = entry
    node_object = None if node_entry is None else _decode(node_entry.value)
    return compute_drift(node, ledger_in(ledger), node_object, on_node, charged_to, holds), ledger, entries


async def answer_recount(store: Store, shared: SharedWrites, node: str) -> dict[str, Any]:
    """Recount, and say what was wrong: `POST /api/v1/nodes/NAME/recount`.

    Also for a node that does not exist any more: what is left of its ledger is what pods are charged to it. To ask
    twice does no harm, and what is right is not written.
    """
    drift, _, _ = await find_drift(store, node)
    is_right = True
    if not drift.is_none:
        is_right = await recount(store, node)
        shared.forget(ledger_key(node))
    return {
        "kind": "NodeRecount",
        "apiVersion": "mainstay.dev/v1",
        "metadata": {"name": node},
        "wasWrong": not drift.is_none,
        "isRight": is_right,
        "missing": sorted(charge.pod for charge in drift.missing),
        "leftOver": sorted(charge.pod for charge in drift.left_over),
    }


async def recount(store: Store, node: str) -> bool:
    """Put right what is wrong about a node, if anything is. True if all of it is right now.

    A node that others write all the time is left as it is after some attempts: come again. Raises what stores raise.
    """

    async def attempt() -> bool | None:
        drift, ledger, entries = await find_drift(store, node)
        if drift.is_none:
            return True
        checks, writes = _parts(drift, ledger, entries)
        answer = await store.commit(checks, writes)
        is_done = isinstance(answer, Committed) and _is_all_at_once(drift, ledger_in(ledger))
        return True if is_done else None

    return bool(await transact(attempt, ATTEMPTS_MAX))


def _parts(
    drift: LedgerDrift, ledger: Entry | None, entries: Mapping[str, Entry]
) -> tuple[Sequence[Check], Sequence[Write]]:
    """As much of it as goes into one transaction. The ledger that is written is the sum of what is charged by then."""
    key, node_key = ledger_key(drift.node), _NODES + drift.node
    checks = [Check(key, ABSENT if ledger is None else ledger.revision), _as_found(node_key, entries)]
    writes: list[Write] = []
    now, later = drift.missing[:STEP], drift.missing[STEP:]
    places = [charge_key(*charge.pod.split("/", 1)) for charge in now]
    for place, charge in zip(places, now, strict=True):
        # What a pod takes may only be written down while it is as it was: it may have ended.
        checks += [_as_found(place, entries), _as_found(_PODS + charge.pod, entries)]
        writes.append(Put(place, encode_charge(charge)))
    for charge in drift.left_over[: max(STEP - len(drift.missing), 0)]:
        place = charge_key(*charge.pod.split("/", 1))
        if place not in places:  # Else another pod of that name has just been charged there.
            checks.append(_as_found(place, entries))
            writes.append(DeleteEntry(place))
    before = ledger_in(ledger)
    counted = before if drift.ledger is None else drift.ledger
    if writes:  # What is held goes into a transaction of its own.
        counted = replace(counted, held=before.held, held_ports=before.held_ports)
    elif _holds_other(drift, before):
        # One that ends writes the ledger, but not if its room was not held there.
        active = [place for place in sorted(entries) if place.startswith(_RESERVATIONS)]
        checks += [_as_found(place, entries) for place in active[:HOLDS_MAX]]
    for charge in later:
        counted = released(counted, charge)
    writes.append(build_write(key, counted, ledger))
    return checks, writes


def _is_all_at_once(drift: LedgerDrift, before: Ledger) -> bool:
    charges = len(drift.missing) + len(drift.left_over)
    return charges <= STEP and not (charges and _holds_other(drift, before))


def _holds_other(drift: LedgerDrift, before: Ledger) -> bool:
    right = before if drift.ledger is None else drift.ledger
    return (right.held, right.held_ports) != (before.held, before.held_ports)


def _as_found(key: str, entries: Mapping[str, Entry]) -> Check:
    return Check(key, entries[key].revision if key in entries else ABSENT)
