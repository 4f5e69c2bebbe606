"""The ledger of a node: what it has, what is taken of it, and whether it takes more.

There is one for each name of a node, at a key of its own. Whatever changes it (a binding, the end of a pod, a change of
the Node) writes it in its own transaction, on condition that it has not changed since it was read. So no number of
schedulers, however late their view, can give away the same room twice, and at any revision the ledger is the sum of
the charges of that revision.

    room = allocatable - used - held - promised, for each resource

A ledger outlives its Node: pods may be on a node that is not there, as in Kubernetes, and are still there when a node
of that name comes back. One that says nothing is not kept.

Only arithmetic here. What may be bound is in room.py, what a Node changes in nodes.py, who is charged in charge.py.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from mainstay.server.placement.ledger.charge import Charge
from mainstay.server.placement.ledger.history import NO_HISTORY, LedgerHistory, LedgerPart, note_change
from mainstay.server.storage.keyspace import INTERNAL_PREFIX
from mainstay.store.interface import DeleteEntry, Entry, Put, Write

LEDGERS: Final = f"{INTERNAL_PREFIX}ledger/"
GHOSTS_MAX: Final = 500  # On one node. Each is kept in the ledger, which is written with every binding.

Amounts = Mapping[str, int]


class Ledger(msgspec.Struct, frozen=True, omit_defaults=True):
    """None of its dictionaries is ever changed, and none of them has an amount of 0."""

    node_uid: str = ""
    """Empty while there is no Node of that name."""
    is_accepting: bool = True
    """Whether the Node takes more pods, as far as it says so itself (`spec.unschedulable`)."""
    zone: str = ""
    allocatable: dict[str, int] = {}
    used: dict[str, int] = {}
    """By pods: the sum of their charges, those of ghosts among them."""
    held: dict[str, int] = {}
    """By reservations that no pod has used yet."""
    promised: dict[str, int] = {}
    """The room of pods that are being removed in favour of another one."""
    ports: dict[str, int] = {}
    """By how many pods each port of the machine is taken. More than one for pods that skip the check (`spec.nodeName`).
    """
    held_ports: dict[str, int] = {}
    ghosts: dict[str, Charge] = {}
    """Of pods that were removed although they may still run there, by uid, until the agent says that they do not."""
    history: LedgerHistory = NO_HISTORY


EMPTY: Final = Ledger()

encode_ledger = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Ledger).decode


class LedgerMismatch(AssertionError):
    """A ledger does not contain what is to be taken out of it: a mistake of ours, or a hand in the store. Recount."""


def ledger_key(node: str) -> str:
    return LEDGERS + node


def ledger_in(entry: Entry | None) -> Ledger:
    """What an entry says. What is not there says nothing."""
    return EMPTY if entry is None else _decode(entry.value)


def build_write(
    key: str, ledger: Ledger, before: Entry | None, part: LedgerPart = LedgerPart.NOTHING, by: str = ""
) -> Write:
    """What keeps a ledger that was made of the entry before, or removes one that says nothing. `part` is what changed
    it, and `by` who bound the pod that did."""
    if replace(ledger, history=NO_HISTORY) == EMPTY:
        return DeleteEntry(key)
    history = note_change(ledger.history, 0 if before is None else before.revision, part, by)
    return Put(key, encode_ledger(replace(ledger, history=history)))


def charged(ledger: Ledger, charge: Charge) -> Ledger:
    """With one more pod, whether or not there is room for it."""
    ports = plus(ledger.ports, _counted(charge.ports)) if charge.ports else ledger.ports
    return replace(ledger, used=plus(ledger.used, charge.amounts), ports=ports)


def released(ledger: Ledger, charge: Charge) -> Ledger:
    """Without a pod that was charged. Raises `LedgerMismatch`."""
    ports = minus(ledger.ports, _counted(charge.ports)) if charge.ports else ledger.ports
    return replace(ledger, used=minus(ledger.used, charge.amounts), ports=ports)


def held(ledger: Ledger, amounts: Amounts, ports: Iterable[str] = ()) -> Ledger:
    """With room held for a reservation, whether or not it is there."""
    return replace(ledger, held=plus(ledger.held, amounts), held_ports=plus(ledger.held_ports, _counted(ports)))


def let_go(ledger: Ledger, amounts: Amounts, ports: Iterable[str] = ()) -> Ledger:
    """Without room that was held. Raises `LedgerMismatch`."""
    return replace(ledger, held=minus(ledger.held, amounts), held_ports=minus(ledger.held_ports, _counted(ports)))


def mark_unconfirmed(ledger: Ledger, charge: Charge) -> Ledger:
    """A pod that was charged has been removed, but may still run: what it takes stays taken."""
    return replace(ledger, ghosts={**ledger.ghosts, charge.uid: charge})


def confirm_gone(ledger: Ledger, uids: Iterable[str]) -> Ledger:
    """Those of these uids that are ghosts no longer run, so what they took is free. Raises `LedgerMismatch`."""
    gone = [uid for uid in dict.fromkeys(uids) if uid in ledger.ghosts]
    for uid in gone:
        ledger = released(ledger, ledger.ghosts[uid])
    return replace(ledger, ghosts={uid: each for uid, each in ledger.ghosts.items() if uid not in gone})


def plus(one: dict[str, int], other: Amounts) -> dict[str, int]:
    total = dict(one)
    for name, amount in other.items():
        if amount:
            total[name] = total.get(name, 0) + amount
    return total


def minus(one: dict[str, int], other: Amounts) -> dict[str, int]:
    total = dict(one)
    for name, amount in other.items():
        left = total.get(name, 0) - amount
        if left < 0:
            raise LedgerMismatch(f"{amount} of {name} are to be given back, but only {total.get(name, 0)} are taken")
        if left:
            total[name] = left
        else:
            total.pop(name, None)
    return total


def _counted(ports: Iterable[str]) -> dict[str, int]:
    return dict.fromkeys(ports, 1)
