"""Bugs that quotas, reservations and evictions could have: what is counted and what is there would come apart."""

from collections.abc import Callable, Sequence

import pytest

from mainstay.api.kind import Kind, Object
from mainstay.api.kinds.mainstay import RESERVATION
from mainstay.api.quota_usage import Amounts, Resource, is_about
from mainstay.api.reservations import ReservationPhase, is_active
from mainstay.server.placement import eviction, reservations
from mainstay.server.placement.ledger.charge import Charge
from mainstay.server.placement.reservations import Expiry, ReservationPoint
from mainstay.server.quota import recount, resource_quota, zone_quota
from mainstay.server.quota import tally as quota_tally
from mainstay.server.quota.tally import QuotaLimit, QuotaTally
from mainstay.server.quota.zone_quota import ZoneTally
from mainstay.server.request.options import DeleteOptions
from mainstay.server.storage.commit_points import Intended, TransactionParts
from mainstay.server.storage.keyspace import build_key
from mainstay.server.storage.shared_writes import SharedWrites
from mainstay.server.storage.stored import StoredWrite, read, stored
from mainstay.server.storage.write_context import NO_CONTEXT, WriteContext
from mainstay.server.storage.writes import ObjectWriter, PartsFor
from mainstay.store.interface import ABSENT, Check, Committed, Entry, Put, Store

Twin = Callable[[pytest.MonkeyPatch], None]


def does_not_check_that_there_is_no_quota(patch: pytest.MonkeyPatch) -> None:
    """A pod that was decided on before a quota came is never counted by it."""
    honest = resource_quota.Quotas.parts_for

    async def parts_for(self: resource_quota.Quotas, intended: Intended) -> TransactionParts:
        found = await honest(self, intended)
        return TransactionParts(shared=found.shared, object=found.object, writes=found.writes)

    patch.setattr(resource_quota.Quotas, "parts_for", parts_for)


def counts_what_is_there_later(patch: pytest.MonkeyPatch) -> None:
    """Not as of the revision at which it began to count: what comes in between is counted twice."""
    honest = resource_quota.count

    async def count(store: Store, namespace: str, limit: QuotaLimit, at: int) -> Amounts:
        return await honest(store, namespace, limit, await store.revision())

    patch.setattr(resource_quota, "count", count)


def judges_by_what_it_remembers(patch: pytest.MonkeyPatch) -> None:
    """The commit does not check the tally it was decided from."""

    def no_checks(found: dict[str, Entry | None]) -> list[Check]:
        return []

    patch.setattr("mainstay.server.storage.shared_writes._checks", no_checks)


def forgets_what_is_removed(patch: pytest.MonkeyPatch) -> None:
    honest = quota_tally.changed

    def changed(tally: QuotaTally, resource: Resource, new: Object | None, old: Object | None) -> QuotaTally:
        return honest(tally, resource, new, None) if new is not None else tally

    patch.setattr(resource_quota, "changed", changed)


def takes_no_note_while_it_counts(patch: pytest.MonkeyPatch) -> None:
    honest = quota_tally.changed

    def changed(tally: QuotaTally, resource: Resource, new: Object | None, old: Object | None) -> QuotaTally:
        after = honest(tally, resource, new, old)
        return QuotaTally(after.quotas, tally.counting, after.begun)

    patch.setattr(resource_quota, "changed", changed)


def judges_scopes_by_the_newest_state(patch: pytest.MonkeyPatch) -> None:
    """What leaves a scope by a change stays counted."""
    honest = quota_tally._difference

    def difference(limit: QuotaLimit, resource: Resource, new: Object | None, old: Object | None) -> Amounts:
        if new is not None and old is not None and not is_about(limit.terms, resource, new):
            return {}
        return honest(limit, resource, new, old)

    patch.setattr(quota_tally, "_difference", difference)


TWINS: Sequence[Twin] = [
    does_not_check_that_there_is_no_quota,
    counts_what_is_there_later,
    judges_by_what_it_remembers,
    forgets_what_is_removed,
    takes_no_note_while_it_counts,
]


# Of reservations.


def expires_what_it_once_read(patch: pytest.MonkeyPatch) -> None:
    """Without a check that the reservation is still what it was."""

    async def expire(self: Expiry, key: str) -> bool:
        entry = await self._store.get(key)
        if entry is None or not is_active(reservation := read(RESERVATION, entry)):
            return False
        write = Put(key, stored(reservations.ended(reservation, ReservationPhase.EXPIRED)))
        await self._shared.commit([], [write], [reservations.letting_go(reservation)])
        return True

    patch.setattr(Expiry, "expire", expire)


def gives_back_what_was_given_back(patch: pytest.MonkeyPatch) -> None:
    """By the end of the object, whatever its phase."""

    def applies_to(self: ReservationPoint, intended: Intended) -> bool:
        return intended.old is None or intended.new is None

    patch.setattr(ReservationPoint, "applies_to", applies_to)


def lets_a_clock_decide(patch: pytest.MonkeyPatch) -> None:
    """The expiry is not committed."""

    async def expire(self: Expiry, key: str) -> bool:
        return False

    patch.setattr(Expiry, "expire", expire)


RESERVATION_TWINS: Sequence[Twin] = [
    expires_what_it_once_read,
    gives_back_what_was_given_back,
    lets_a_clock_decide,
]


# Of the quotas of zones.


def binds_without_a_look_at_the_zone(patch: pytest.MonkeyPatch) -> None:
    """A pod that was decided on before the quota came is never counted by it."""
    honest = ZoneTally.counted

    async def counted(
        self: ZoneTally, before: Charge | None, after: Charge | None, *, is_checked: bool
    ) -> TransactionParts:
        found = await honest(self, before, after, is_checked=is_checked)
        return TransactionParts(shared=found.shared)

    patch.setattr(ZoneTally, "counted", counted)


def counts_the_charges_of_now(patch: pytest.MonkeyPatch) -> None:
    honest = zone_quota.count_charges

    async def count_charges(store: Store, namespace: str, zone: str, at: int) -> dict[str, int]:
        return await honest(store, namespace, zone, await store.revision())

    patch.setattr(zone_quota, "count_charges", count_charges)


def gives_nothing_back(patch: pytest.MonkeyPatch) -> None:
    honest = ZoneTally.counted

    async def counted(
        self: ZoneTally, before: Charge | None, after: Charge | None, *, is_checked: bool
    ) -> TransactionParts:
        return TransactionParts() if after is None else await honest(self, before, after, is_checked=is_checked)

    patch.setattr(ZoneTally, "counted", counted)


def asks_when_it_reads_and_not_when_it_commits(patch: pytest.MonkeyPatch) -> None:
    """What was left at the time of reading may be gone at the commit."""
    honest = ZoneTally.counted

    async def counted(
        self: ZoneTally, before: Charge | None, after: Charge | None, *, is_checked: bool
    ) -> TransactionParts:
        found = await honest(self, before, after, is_checked=is_checked)
        for each in found.shared:
            each.change(await self._shared.latest(each.key))
        return found if not found.shared else await honest(self, before, after, is_checked=False)

    patch.setattr(ZoneTally, "counted", counted)


ZONE_TWINS: Sequence[Twin] = [
    binds_without_a_look_at_the_zone,
    counts_the_charges_of_now,
    gives_nothing_back,
    asks_when_it_reads_and_not_when_it_commits,
]


# Of evictions.


def pays_first_and_deletes_then(patch: pytest.MonkeyPatch) -> None:
    """In two transactions. It is seen between them, and when only one of them happens."""
    honest = ObjectWriter.delete

    async def delete(
        self: ObjectWriter,
        kind: Kind,
        namespace: str,
        name: str,
        options: DeleteOptions,
        context: WriteContext = NO_CONTEXT,
        also: PartsFor | None = None,
    ) -> StoredWrite:
        if also is not None and not options.dry_run:
            entry = await self._store.get(build_key(kind, namespace, name))
            if entry is not None:
                paid = await also(read(kind, entry))
                await self._committer._shared.commit([], [], paid.shared)
        return await honest(self, kind, namespace, name, options, context)

    patch.setattr(ObjectWriter, "delete", delete)


def pays_from_what_it_once_read(patch: pytest.MonkeyPatch) -> None:
    """Not from what is left at the commit: of two payments one is lost."""
    honest = eviction._payment

    async def payment(store: Store, budgets: Kind, pod: Object, now: str) -> TransactionParts:
        found = await honest(store, budgets, pod, now)
        writes = [write for each in found.shared for write in each.change(await store.get(each.key)) or ()]
        return TransactionParts(writes=writes)

    patch.setattr(eviction, "_payment", payment)


EVICTION_TWINS: Sequence[Twin] = [pays_first_and_deletes_then, pays_from_what_it_once_read]


# Of recounts.


def writes_what_it_counted_whatever_came_since(patch: pytest.MonkeyPatch) -> None:
    """Without the condition that the use of the zone has not changed."""

    def unchanged(key: str, entry: Entry | None) -> Sequence[Check]:
        return []

    patch.setattr(recount, "_unchanged", unchanged)


def counts_in_one_look(patch: pytest.MonkeyPatch) -> None:
    """A snapshot, written without a condition and without notes of what came since."""

    async def put_right(store: Store, shared: SharedWrites, namespace: str, name: str, limit: QuotaLimit) -> bool:
        key = quota_tally.tally_key(namespace)
        base = await resource_quota.count(store, namespace, limit, await store.revision())
        tally = quota_tally.tally_in(await store.get(key))
        right = quota_tally.finished(tally, 0, name, quota_tally.plus(limit, base))
        await store.commit([], [quota_tally.build_write(key, right)])
        shared.forget(key)
        return True

    patch.setattr(recount, "_put_right", put_right)


def counts_if_the_tally_has_not_changed(patch: pytest.MonkeyPatch) -> None:
    """With a condition, but a write that a wrong tally does not notice does not change it."""

    async def put_right(store: Store, shared: SharedWrites, namespace: str, name: str, limit: QuotaLimit) -> bool:
        key = quota_tally.tally_key(namespace)
        at = await store.revision()
        entry = await store.get(key, at=at)
        base = await resource_quota.count(store, namespace, limit, at)
        right = quota_tally.finished(quota_tally.tally_in(entry), 0, name, quota_tally.plus(limit, base))
        check = Check(key, ABSENT if entry is None else entry.revision)
        answer = await store.commit([check], [quota_tally.build_write(key, right)])
        shared.forget(key)
        return isinstance(answer, Committed)

    patch.setattr(recount, "_put_right", put_right)


def forgets_its_notes(patch: pytest.MonkeyPatch) -> None:
    honest = resource_quota.counted_by_now

    def counted_by_now(tally: QuotaTally, number: int, base: QuotaLimit, limit: QuotaLimit) -> QuotaLimit | None:
        return None if honest(tally, number, base, limit) is None else base

    patch.setattr(recount, "counted_by_now", counted_by_now)


RECOUNT_TWINS: Sequence[Twin] = [
    writes_what_it_counted_whatever_came_since,
    counts_in_one_look,
    counts_if_the_tally_has_not_changed,
    forgets_its_notes,
]
