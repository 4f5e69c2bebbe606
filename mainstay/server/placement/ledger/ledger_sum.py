"""What the ledger of a node is the sum of: the charges to it, its ghosts, and the active reservations on it."""

from typing import Final

import msgspec

from mainstay.api.kind import Object
from mainstay.api.kinds.mainstay import RESERVATION
from mainstay.api.reservations import is_active
from mainstay.env import tasks
from mainstay.server.placement.ledger.charge import CHARGES, charge_for, decode_charge
from mainstay.server.placement.ledger.ledger import LEDGERS, Ledger, charged, held, ledger_in
from mainstay.server.storage.keyspace import build_prefix
from mainstay.server.storage.sums import AddedUp, Sum
from mainstay.store.interface import Store

STEP: Final = 5000  # Entries that are skimmed at a time; then others get their turn.

_decode = msgspec.json.Decoder().decode


async def add_up_ledger(store: Store, key: str, at: int) -> AddedUp:
    node = key.removeprefix(LEDGERS)
    ledger = ledger_in(await store.get(key, at=at))
    charges = (await store.range(CHARGES, at=at)).entries
    reservations = (await store.range(build_prefix(RESERVATION), at=at)).entries
    counted, needle = Ledger(), node.encode()
    for ghost in ledger.ghosts.values():
        counted = charged(counted, ghost)
    for start in range(0, len(charges), STEP):
        for entry in charges[start : start + STEP]:
            if needle in entry.value and (charge := decode_charge(entry.value)).node == node:
                counted = charged(counted, charge)
        await tasks.turns(1)
    for entry in reservations:
        if needle in entry.value:
            reservation: Object = _decode(entry.value)
            if reservation["spec"]["nodeName"] == node and is_active(reservation):
                hold = charge_for(reservation)
                counted = held(counted, hold.amounts, hold.ports)
    return AddedUp(_amounts(ledger), _amounts(counted), len(charges) + len(reservations))


def _amounts(ledger: Ledger) -> dict[str, dict[str, int]]:
    return {"used": ledger.used, "ports": ledger.ports, "held": ledger.held, "held_ports": ledger.held_ports}


LEDGER_SUM: Final = Sum("the ledger of a node is the sum of its charges", add_up_ledger)
