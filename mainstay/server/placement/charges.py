"""How a pod is charged to its node and given back: the parts of a transaction, made from the rules in ledger/.

Every function here gives what goes beside the write of a pod: the charge at its own key, the change of the node's
ledger, and whatever else counts what pods take (`ChargeCounter`: quotas of zones).
"""

from collections.abc import Sequence
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from mainstay.api.errors import StatusError, StatusReason
from mainstay.server.placement.ledger.charge import Charge, encode_charge
from mainstay.server.placement.ledger.history import LedgerPart
from mainstay.server.placement.ledger.ledger import (
    GHOSTS_MAX,
    Ledger,
    LedgerMismatch,
    build_write,
    charged,
    ledger_in,
    ledger_key,
    let_go,
    mark_unconfirmed,
    released,
)
from mainstay.server.placement.ledger.refusals import refused
from mainstay.server.placement.ledger.room import BindOptions, find_refusal
from mainstay.server.storage.commit_points import NOTHING, TransactionParts, joined
from mainstay.server.storage.shared_writes import Change, SharedWrite, SharedWrites
from mainstay.store.interface import ABSENT, Check, DeleteEntry, Entry, Put, Write


class ChargeCounter(Protocol):
    """Something besides the ledger that counts what pods take on nodes."""

    async def counted(self, before: Charge | None, after: Charge | None, *, is_checked: bool) -> TransactionParts:
        """What goes along when a pod takes `after` in place of `before`. None: it took, or will take, nothing.

        Raises `StatusError` (409, see ledger/refusals.py) if that is too much. Where `is_checked` is not set room is
        not checked, as when a pod is made on a node: then it only counts.
        """


class HeldRoom(Struct, frozen=True):
    """Room that was reserved and is now used by the pod it was meant for."""

    amounts: dict[str, int] = {}
    ports: tuple[str, ...] = ()
    parts: TransactionParts = NOTHING
    """The end of the reservation."""


NO_ROOM_HELD: Final = HeldRoom()


class Charging:
    def __init__(self, shared: SharedWrites, tallies: Sequence[ChargeCounter] = ()) -> None:
        self._shared = shared
        self._tallies = tallies

    async def bound(
        self, key: str, charge: Charge, asked: BindOptions, held: HeldRoom = NO_ROOM_HELD, charge_revision: int = ABSENT
    ) -> TransactionParts:
        """A pod comes to a node, if that has room. Raises `StatusError` (409) at the commit if it has not.

        `key` is that of the charge; `charge_revision` is not 0 only where an old one was left behind.
        """
        name = charge.pod.partition("/")[2]

        def change(ledger: Ledger, revision: int) -> Ledger:
            if held is not NO_ROOM_HELD:
                ledger = let_go(ledger, held.amounts, held.ports)
            refusal = find_refusal(ledger, revision, charge, asked)
            if refusal is not None:
                raise refused(name, refusal)
            return charged(ledger, charge)

        by = "" if asked.observed is None else asked.observed.by
        parts = await self._came(key, charge_revision, charge, change, by, is_checked=True)
        return parts if held.parts is NOTHING else joined((parts, held.parts))

    async def came(self, key: str, charge: Charge, charge_revision: int = ABSENT) -> TransactionParts:
        """A pod is on a node, whether or not there is room."""

        def change(ledger: Ledger, revision: int) -> Ledger:
            return charged(ledger, charge)

        return await self._came(key, charge_revision, charge, change, is_checked=False)

    async def _came(
        self, key: str, charge_revision: int, charge: Charge, change: "_LedgerChange", by: str = "", *, is_checked: bool
    ) -> TransactionParts:
        place = ledger_key(charge.node)
        zone = ledger_in(await self._shared.read(place)).zone
        charge = replace(charge, zone=zone)
        written = Put(key, encode_charge(charge))

        def shared(entry: Entry | None) -> Sequence[Write] | None:
            ledger = ledger_in(entry)
            if ledger.zone != zone:
                return None  # Another quota's business: begin again.
            changed = change(ledger, ABSENT if entry is None else entry.revision)
            return (build_write(place, changed, entry, LedgerPart.PODS, by),)

        own = TransactionParts((Check(key, charge_revision),), (written,), (_shared(place, shared),))
        return await self._counted(own, None, charge, is_checked=is_checked)

    async def changed(self, before: Entry, old: Charge, new: Charge) -> TransactionParts:
        """A pod needs more or less than it is charged with (`before`)."""
        new = replace(new, zone=old.zone)
        place = ledger_key(old.node)

        def shared(entry: Entry | None) -> Sequence[Write]:
            changed = charged(released(ledger_in(entry), old), new)
            return (build_write(place, changed, entry, LedgerPart.PODS),)

        written = Put(before.key, encode_charge(new))
        own = TransactionParts((Check(before.key, before.revision),), (written,), (_shared(place, shared),))
        return await self._counted(own, old, new, is_checked=False)

    async def went(self, before: Entry, charge: Charge) -> TransactionParts:
        """A pod has ended, or its agent says that it is gone. What it was charged with is given back."""
        place = ledger_key(charge.node)

        def shared(entry: Entry | None) -> Sequence[Write]:
            return (build_write(place, released(ledger_in(entry), charge), entry),)

        return await self._gone(before, charge, shared)

    async def vanished(self, before: Entry, charge: Charge) -> TransactionParts:
        """A pod was removed by force: it is no object any more, but what it takes is only free when its agent says so.

        Raises `StatusError` (409) at the commit if there are too many of them.
        """
        place = ledger_key(charge.node)

        def shared(entry: Entry | None) -> Sequence[Write]:
            ledger = ledger_in(entry)
            if not ledger.node_uid:  # Nothing runs on a node that is not there.
                return (build_write(place, released(ledger, charge), entry),)
            if len(ledger.ghosts) >= GHOSTS_MAX:
                raise _too_many_ghosts(charge)
            return (build_write(place, mark_unconfirmed(ledger, charge), entry),)

        return await self._gone(before, charge, shared)

    async def _gone(self, before: Entry, charge: Charge, shared: Change) -> TransactionParts:
        own = TransactionParts(
            (Check(before.key, before.revision),),
            (DeleteEntry(before.key),),
            (_shared(ledger_key(charge.node), shared),),
        )
        return await self._counted(own, charge, None, is_checked=False)

    async def _counted(
        self, own: TransactionParts, before: Charge | None, after: Charge | None, *, is_checked: bool
    ) -> TransactionParts:
        if not self._tallies:
            return own
        others = [await each.counted(before, after, is_checked=is_checked) for each in self._tallies]
        return joined((own, *(each for each in others if each is not NOTHING)))


def _shared(key: str, change: Change) -> SharedWrite:
    """A change of a ledger by what was read before it: a charge, say, that another has given back meanwhile."""

    def changed(entry: Entry | None) -> Sequence[Write] | None:
        try:
            return change(entry)
        except LedgerMismatch:
            return None  # Read all of it again. If that does not help the ledger is wrong, and has to be recounted.

    return SharedWrite(key, changed)


class _LedgerChange(Protocol):
    def __call__(self, ledger: Ledger, revision: int) -> Ledger: ...


def _too_many_ghosts(charge: Charge) -> StatusError:
    text = f"{GHOSTS_MAX} force-deleted pods of node {charge.node} are not confirmed as terminated by its agent"
    text += "; wait for the agent, or delete the Node if the machine is gone"
    causes = [{"reason": "TooManyGhosts", "message": text}]
    name = charge.pod.partition("/")[2]
    return StatusError(409, StatusReason.CONFLICT, text, {"name": name, "kind": "pods", "causes": causes})
