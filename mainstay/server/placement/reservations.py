"""Reservations: room on a node that is held for one pod, from the moment the reservation is made until it is over.

A commit point of Reservations. One that is made is held in the ledger of its node in the same transaction, or refused
(409) if there is no room; one that is let go, expires or is removed gives the room back in the transaction that says
so. A pod that names its reservation when it is bound takes the room over: the ledger, the pod and the reservation
change together (`held_room`). Each of these is conditional on the reservation as it was read, so the room is given back
once.

There is at most one for each intent, because its name follows from the intent (api/reservations.py): a client that
tries again after a lost answer meets the first attempt at its name, even if that is still on its way. Over means over:
a reservation never becomes active again.

That its time is over is a commit like any other (`Expiry`): a reader of a reservation goes by its phase, and never by
a clock. Finalizers are not needed, as removal and release are one; if others set some, the room is held until the end.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from mainstay.api.causes import BindingCause
from mainstay.api.errors import StatusError, StatusReason, object_details
from mainstay.api.kind import Object
from mainstay.api.kinds.mainstay import RESERVATION
from mainstay.api.reservations import ReservationPhase, is_active, read_phase
from mainstay.api.times import parse_time
from mainstay.env import Clock, tasks, vital
from mainstay.env.failed_objects import FailedObjects
from mainstay.env.invariants import broken
from mainstay.server.placement.charges import NO_ROOM_HELD, HeldRoom
from mainstay.server.placement.ledger.charge import charge_for
from mainstay.server.placement.ledger.history import LedgerPart
from mainstay.server.placement.ledger.ledger import LedgerMismatch, build_write, held, ledger_in, ledger_key, let_go
from mainstay.server.placement.ledger.recount import recount
from mainstay.server.placement.ledger.refusals import LedgerRefusal
from mainstay.server.placement.ledger.room import BindOptions, find_refusal
from mainstay.server.storage.commit_points import Intended, TransactionParts
from mainstay.server.storage.keyspace import CORE, build_key, build_prefix
from mainstay.server.storage.shared_writes import SharedWrite, SharedWrites
from mainstay.server.storage.stored import read, stored
from mainstay.store.errors import StoreError
from mainstay.store.interface import Check, Committed, Entry, Put, Store, Write

RETRY_AFTER: Final = timedelta(seconds=1)
LOOK_AGAIN_AFTER: Final = timedelta(minutes=1)  # Clocks are set, and then it may be later than it seemed.

_logger = logging.getLogger(__name__)


class ReservationPoint:
    """Implements `CommitPoint`, for Reservation."""

    def __init__(self, store: Store, shared: SharedWrites) -> None:
        self._store = store
        self._shared = shared

    def applies_to(self, intended: Intended) -> bool:
        if intended.old is None:
            return True
        was, is_now = is_active(intended.old), is_active(intended.new)
        if is_now and not was:
            story = {"before": read_phase(intended.old), "after": read_phase(intended.new or {})}
            raise broken("a reservation that is over stays over", f"key {intended.key}", **story)
        return was and not is_now

    async def parts_for(self, intended: Intended) -> TransactionParts:
        if intended.old is None and intended.new is not None:
            await self._require_ledger(intended.new["spec"]["nodeName"])
            return TransactionParts(shared=[holding(intended.new)])
        if intended.old is None:
            raise AssertionError("a write has an object before it, or after it, or both")
        return TransactionParts(shared=[letting_go(intended.old)])

    async def _require_ledger(self, node: str) -> None:
        """A Node from before there were ledgers has none yet."""
        key = ledger_key(node)
        if not ledger_in(await self._shared.latest(key)).node_uid and await self._store.get(f"{CORE}/nodes/{node}"):
            await recount(self._store, node)
            self._shared.forget(key)


def holding(reservation: Object) -> SharedWrite:
    """Hold the room for a reservation. Raises `StatusError` (409) at the commit if there is none."""
    key = ledger_key(reservation["spec"]["nodeName"])
    charge = charge_for(reservation)

    def change(entry: Entry | None) -> Sequence[Write]:
        ledger = ledger_in(entry)
        refusal = find_refusal(ledger, 0 if entry is None else entry.revision, charge, BindOptions(needs_node=True))
        if refusal is not None:
            raise _refused(reservation["metadata"]["name"], refusal)
        now_held = held(ledger, charge.amounts, charge.ports)
        return (build_write(key, now_held, entry, LedgerPart.RESERVATIONS),)

    return SharedWrite(key, change)


def letting_go(reservation: Object) -> SharedWrite:
    """Give back the room of a reservation that was active."""
    key = ledger_key(reservation["spec"]["nodeName"])
    charge = charge_for(reservation)

    def change(entry: Entry | None) -> Sequence[Write]:
        try:
            return (build_write(key, let_go(ledger_in(entry), charge.amounts, charge.ports), entry),)
        except LedgerMismatch as problem:
            # Another write has just given it back, and then the reservation is not what it was: the commit will see to
            # that. Or it was never there: then a reservation that cannot end would only make things worse.
            _logger.info("resources for reservation %s are not held: %s", charge.pod, problem)
            return ()

    return SharedWrite(key, change)


class Claims:
    """Implements `Reservations` (binding.py)."""

    def __init__(self, shared: SharedWrites) -> None:
        self._shared = shared

    async def claimed(self, name: str, pod: Object, node: str) -> HeldRoom:
        entry = await self._shared.latest(build_key(RESERVATION, pod["metadata"]["namespace"], name)) if name else None
        return NO_ROOM_HELD if entry is None else held_room(entry, name, pod, node)


def held_room(entry: Entry, name: str, pod: Object, node: str) -> HeldRoom:
    """What a pod takes over from its reservation when it is bound, and how that ends the reservation.

    Nothing if the reservation is over: then the pod is bound like any other. Raises `StatusError` (409) if the
    reservation is active, but for another node or another pod: to bind it here would leave the room held there.
    """
    metadata = pod["metadata"]
    reservation = read(RESERVATION, entry)
    if not is_active(reservation):
        return NO_ROOM_HELD
    spec = reservation["spec"]
    if spec["nodeName"] != node:
        raise _held_elsewhere(metadata["name"], name, f"holds room on node {spec['nodeName']}, not on {node}")
    wanted = spec.get("pod") or {}
    if (
        wanted.get("name", metadata["name"]) != metadata["name"]
        or wanted.get("uid", metadata["uid"]) != metadata["uid"]
    ):
        raise _held_elsewhere(metadata["name"], name, f"holds room for another pod, {wanted.get('name')}")
    confirmed = ended(reservation, ReservationPhase.CONFIRMED, pod={"name": metadata["name"], "uid": metadata["uid"]})
    parts = TransactionParts([Check(entry.key, entry.revision)], [Put(entry.key, stored(confirmed))])
    charge = charge_for(reservation)
    return HeldRoom(charge.amounts, charge.ports, parts)


def ended(reservation: Object, phase: ReservationPhase, **more: Object) -> Object:
    """A reservation that is over."""
    return {**reservation, "status": {**(reservation.get("status") or {}), "phase": str(phase), **more}}


class Expiry:
    """Ends reservations whose time is over. Several servers may do so at once: one of them commits it."""

    def __init__(self, store: Store, shared: SharedWrites, clock: Clock) -> None:
        self._store = store
        self._shared = shared
        self._clock = clock
        self._due: dict[str, datetime] = {}
        """When the time of each active reservation is over, by key."""
        self._has_changed = asyncio.Event()
        self._failed = FailedObjects("reservations")
        self._tasks = [
            vital.spawn(self._follow(), name="reservation-follower"),
            vital.spawn(self._run(), name="reservation-expiry"),
        ]

    async def stop(self) -> None:
        for task in self._tasks:
            await tasks.stop(task)

    async def _follow(self) -> None:
        """Know all that are active."""
        prefix = build_prefix(RESERVATION)
        while True:
            try:
                page = await self._store.range(prefix)
                self._due.clear()
                for entry in page.entries:
                    self._take(entry.key, entry)
                with self._store.watch(prefix, after=page.revision) as watch:
                    async for batch in watch:
                        for change in batch.changes:
                            self._take(change.key, change.entry)
            except StoreError as error:
                _logger.warning("cannot watch reservations; relisting in %s: %s", RETRY_AFTER, error)
            await tasks.sleep(RETRY_AFTER)

    def _take(self, key: str, entry: Entry | None) -> None:
        self._due.pop(key, None)
        with self._failed.guard(key):
            reservation = None if entry is None else read(RESERVATION, entry)
            if reservation is not None and is_active(reservation):
                self._due[key] = parse_time(reservation["spec"]["expiresAt"])
        self._has_changed.set()

    async def _run(self) -> None:
        while True:
            self._has_changed.clear()
            now = self._clock.wall()
            over = [key for key in sorted(self._due) if self._due[key] <= now]
            for key in over:
                try:
                    with self._failed.guard(key, StoreError, StatusError):
                        await self.expire(key)
                except (StoreError, StatusError) as error:
                    _logger.warning("cannot end reservation %s; retrying in %s: %s", key, RETRY_AFTER, error)
            # What was ended is told by the watch; if it is not, it is tried again.
            wait = RETRY_AFTER if over else min((*self._due.values(), now + LOOK_AGAIN_AFTER)) - now
            with contextlib.suppress(TimeoutError):
                async with tasks.timeout(wait if self._due else None):
                    await self._has_changed.wait()

    async def expire(self, key: str) -> bool:
        """End one reservation, if it is active and its time is over."""
        entry = await self._store.get(key)
        if entry is None:
            return False
        reservation = read(RESERVATION, entry)
        if not is_active(reservation) or parse_time(reservation["spec"]["expiresAt"]) > self._clock.wall():
            return False
        write = Put(key, stored(ended(reservation, ReservationPhase.EXPIRED)))
        answer = await self._shared.commit([Check(key, entry.revision)], [write], [letting_go(reservation)])
        return isinstance(answer, Committed)


def _refused(name: str, refusal: LedgerRefusal) -> StatusError:
    """Room that others have reserved is no more there than room that is used."""
    cause = refusal.cause
    if cause is BindingCause.RESERVATION_HELD:
        cause = BindingCause.CAPACITY_CHANGED
    return _conflict("reservations", "mainstay.dev", name, cause, refusal.message)


def _held_elsewhere(pod: str, name: str, why: str) -> StatusError:
    return _conflict("pods/binding", "", pod, BindingCause.RESERVATION_HELD, f"its reservation {name} {why}")


def _conflict(resource: str, group: str, name: str, cause: BindingCause, message: str) -> StatusError:
    what = f"{resource}.{group}" if group else resource
    text = f'Operation cannot be fulfilled on {what} "{name}": {message}'
    causes = [{"reason": str(cause), "message": message}]
    return StatusError(409, StatusReason.CONFLICT, text, {**object_details(resource, group, name), "causes": causes})
