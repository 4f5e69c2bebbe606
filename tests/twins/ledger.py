"""Bugs that binding, and charging nodes, could have."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from mainstay.server.placement import charges
from mainstay.server.placement.charges import Charging
from mainstay.server.placement.ledger import room
from mainstay.server.placement.ledger.charge import Charge
from mainstay.server.placement.ledger.history import LedgerHistory, find_unseen
from mainstay.server.placement.ledger.ledger import Ledger
from mainstay.server.placement.ledger.room import BindOptions, find_refusal
from mainstay.server.placement.observed import Observed
from mainstay.server.storage import shared_writes
from mainstay.server.storage.commit_points import TransactionParts
from mainstay.server.storage.shared_writes import SharedWrites
from mainstay.store.interface import Entry

Twin = Callable[[pytest.MonkeyPatch], None]


def forgets_to_check_the_room(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(charges, "find_refusal", lambda ledger, revision, charge, asked: None)


def is_strict_about_pods_only(patch: pytest.MonkeyPatch) -> None:
    """Does not look at when the Node itself changed."""

    def find(history: LedgerHistory, revision: int, observed: Observed) -> tuple[str, int, int] | None:
        return find_unseen(history, revision, msgspec.structs.replace(observed, nodes=None))

    patch.setattr(room, "find_unseen", find)


def forgets_what_is_taken(patch: pytest.MonkeyPatch) -> None:
    """Looks at what a node has, not at what is left of it."""
    honest = find_refusal

    def forgetful(ledger: Ledger, revision: int, charge: Charge, asked: BindOptions) -> Any:
        return honest(
            Ledger(ledger.node_uid, ledger.is_accepting, allocatable=ledger.allocatable), revision, charge, asked
        )

    patch.setattr(charges, "find_refusal", forgetful)


def releases_twice(patch: pytest.MonkeyPatch) -> None:
    """Gives the charge back without taking it away: the next who ends the pod gives it back again."""
    honest = Charging._gone

    async def gone(self: Charging, before: Entry, charge: Charge, shared: Any) -> TransactionParts:
        parts = await honest(self, before, charge, shared)
        return TransactionParts(parts.checks, (), parts.shared)

    patch.setattr(Charging, "_gone", gone)


def charges_without_the_ledger_check(patch: pytest.MonkeyPatch) -> None:
    """Writes the ledger over whatever has been written there since it was read."""
    patch.setattr(shared_writes, "_checks", lambda found: [])
    reads_what_is_durable(patch)


def reads_what_is_durable(patch: pytest.MonkeyPatch) -> None:
    honest = SharedWrites.__init__

    def init(self: SharedWrites, store: Any) -> None:
        honest(self, store)
        self._local = None

    patch.setattr(SharedWrites, "__init__", init)


def believes_that_a_pod_removed_by_force_is_gone(patch: pytest.MonkeyPatch) -> None:
    """Forgets its ghost, but not that there was one."""
    patch.setattr(charges, "mark_unconfirmed", lambda ledger, charge: ledger)


def forgets_what_is_charged_beside(patch: pytest.MonkeyPatch) -> None:
    """The ledger is written, and the charge is not."""
    honest = Charging._came

    async def came(self: Charging, *args: Any, **rest: Any) -> TransactionParts:
        parts = await honest(self, *args, **rest)
        return TransactionParts(parts.checks, (), parts.shared)

    patch.setattr(Charging, "_came", came)


TWINS: Sequence[Twin] = [
    forgets_to_check_the_room,
    forgets_what_is_taken,
    releases_twice,
    charges_without_the_ledger_check,
    believes_that_a_pod_removed_by_force_is_gone,
    forgets_what_is_charged_beside,
]


def binds_to_nodes_that_are_closed(patch: pytest.MonkeyPatch) -> None:
    honest = find_refusal

    def careless(ledger: Ledger, revision: int, charge: Charge, asked: BindOptions) -> Any:
        return honest(msgspec.structs.replace(ledger, is_accepting=True), revision, charge, asked)

    patch.setattr(charges, "find_refusal", careless)
