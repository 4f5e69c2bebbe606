"""Recounting what is used of the quotas of a namespace, from what is there.

What is used is written with every object that counts (resource_quota.py) and every charge (zone_quota.py), so it is
right at every revision. Should it not be (a mistake of ours, a hand in the store, a restored store) this puts
it right. Whether something is wrong is seen from a snapshot, in which nothing is under way: what is right is not
written.

A write that only has to be told to a quota that is wrong may not touch the tally at all: one that is not in it, or of
which less than nothing would be left. So it is not enough that a tally has not changed since it was counted. A quota
that is wrong counts like a new one (tally.py): what changes meanwhile is noted for it, and belongs to what it
counted. Its status is written along, as only one that is still there and limits the same is put right.

The use of a zone is written with every charge, if there is one to write: there it is enough that it has not changed.
Where there is none, a note that a count has begun comes first.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from mainstay.api.kind import Object
from mainstay.api.kinds.mainstay import ZONE_QUOTA
from mainstay.api.quantity import parse
from mainstay.api.quota_usage import QUOTAS
from mainstay.server.quota import tally as quota_tally
from mainstay.server.quota import zone_quota
from mainstay.server.quota.resource_quota import begin_to_count, count, counted_by_now
from mainstay.server.quota.tally import QuotaLimit, finished, given_up, parse_limit, tally_in, tally_key, without
from mainstay.server.quota.zone_quota import ZoneUse, count_charges, parse_hard, use_in, zone_key
from mainstay.server.storage.keyspace import build_prefix, build_resource_prefix
from mainstay.server.storage.shared_writes import SharedWrite, SharedWrites
from mainstay.server.storage.stored import stored
from mainstay.server.storage.transact import transact
from mainstay.store.interface import ABSENT, Check, Committed, Entry, Put, Store, Write

ATTEMPTS_MAX: Final = 10  # Against others who write the same. Repair comes again.
RECOUNT: Final = "recount"
"""Who is counting, where a zone has quotas but no use."""

_decode = msgspec.json.Decoder().decode


class QuotaDrift(msgspec.Struct, frozen=True):
    """What is wrong about the quotas of a namespace, as of one revision."""

    wrong: Mapping[str, QuotaLimit] = {}
    """What those ResourceQuotas limit whose limits or use are not what the tally says, by name."""
    left_over: Sequence[str] = ()
    """Names in the tally of which there is no ResourceQuota."""
    zones: Mapping[str, tuple[Entry | None, ZoneUse]] = {}
    """What there is of the use of a zone, and what should be, by zone."""

    @property
    def is_none(self) -> bool:
        return not self.wrong and not self.left_over and not self.zones


async def find_quota_drift(store: Store, namespace: str) -> QuotaDrift:
    quotas = await store.range(build_resource_prefix(QUOTAS, namespace))
    at = quotas.revision
    tally = tally_in(await store.get(tally_key(namespace), at=at))
    limits = {entry.key.rpartition("/")[2]: parse_limit(_decode(entry.value)) for entry in quotas.entries}
    wrong = {
        name: limit
        for name, limit in limits.items()
        if not await _is_right(store, namespace, limit, tally.quotas.get(name), at)
    }
    left_over = [name for name in sorted(tally.quotas) if name not in limits]
    return QuotaDrift(wrong, left_over, await _wrong_zones(store, namespace, at))


async def answer_recount(store: Store, shared: SharedWrites, namespace: str) -> dict[str, Any]:
    """Recount, and say what was wrong: `POST /api/v1/namespaces/NAME/recount`. To ask twice does no harm."""
    drift = await find_quota_drift(store, namespace)
    return {
        "kind": "NamespaceRecount",
        "apiVersion": "mainstay.dev/v1",
        "metadata": {"name": namespace},
        "wasWrong": not drift.is_none,
        "isRight": drift.is_none or await recount_quotas(store, shared, namespace),
        "quotas": sorted(drift.wrong),
        "leftOver": sorted(drift.left_over),
        "zones": sorted(drift.zones),
    }


async def recount_quotas(store: Store, shared: SharedWrites, namespace: str) -> bool:
    """Put right what is wrong about the quotas of a namespace, if anything is. True if all of it is right now.

    What others write all the time is left as it is after some attempts: come again. Raises `StatusError`, and what
    stores raise.
    """

    async def attempt() -> bool | None:
        drift = await find_quota_drift(store, namespace)
        if drift.is_none:
            return True
        for name, limit in drift.wrong.items():
            await _put_right(store, shared, namespace, name, limit)
        for name in drift.left_over:
            await _take_out(shared, namespace, name)
        for zone, (entry, right) in drift.zones.items():
            await _put_zone_right(store, zone_key(namespace, zone), entry, right)
            shared.forget(zone_key(namespace, zone))
        return None  # Whether it is right now, a new snapshot says.

    return bool(await transact(attempt, ATTEMPTS_MAX)) or (await find_quota_drift(store, namespace)).is_none


# ResourceQuotas.


async def _is_right(store: Store, namespace: str, limit: QuotaLimit, known: QuotaLimit | None, at: int) -> bool:
    if known is None or known.used.keys() != limit.hard.keys() or replace(known, used=limit.used) != limit:
        return False
    there = await count(store, namespace, limit, at)
    return all(parse(known.used[name]) == amount for name, amount in there.items())


async def _put_right(store: Store, shared: SharedWrites, namespace: str, name: str, limit: QuotaLimit) -> bool:
    key = tally_key(namespace)
    number, base = await begin_to_count(store, shared, key, limit)
    counted: list[QuotaLimit] = []

    def change_tally(entry: Entry | None) -> Sequence[Write] | None:
        tally = tally_in(entry)
        now = counted_by_now(tally, number, base, limit)
        if now is None:
            return None
        counted[:] = [now]
        return [quota_tally.build_write(key, finished(tally, number, name, now))]

    def change_quota(entry: Entry | None) -> Sequence[Write] | None:
        if entry is None:
            return None
        quota: Object = _decode(entry.value)
        if parse_limit(quota) != limit:
            return None  # Another one, or one that limits something else now.
        status = {**(quota.get("status") or {}), "hard": limit.hard, "used": counted[0].used}
        return [Put(entry.key, stored({**quota, "status": status}))]

    changes = [
        SharedWrite(key, change_tally),
        SharedWrite(build_resource_prefix(QUOTAS, namespace) + name, change_quota),
    ]
    if isinstance(await shared.commit([], [], changes), Committed):
        return True
    await shared.commit([], [], [SharedWrite(key, lambda entry: _given_up(key, entry, number))])
    return False


def _given_up(key: str, entry: Entry | None, number: int) -> Sequence[Write]:
    tally = tally_in(entry)
    return [quota_tally.build_write(key, given_up(tally, number))] if number in tally.counting else []


async def _take_out(shared: SharedWrites, namespace: str, name: str) -> None:
    """A limit of which there is no quota, if that is still so."""
    key, place = tally_key(namespace), build_resource_prefix(QUOTAS, namespace) + name

    def change(entry: Entry | None) -> Sequence[Write]:
        tally = tally_in(entry)
        return [quota_tally.build_write(key, without(tally, name))] if name in tally.quotas else []

    await shared.commit([Check(place, ABSENT)], [], [SharedWrite(key, change)])


# ZoneQuotas.


async def _wrong_zones(store: Store, namespace: str, at: int) -> dict[str, tuple[Entry | None, ZoneUse]]:
    allowed: dict[str, dict[str, dict[str, int]]] = {}
    for entry in (await store.range(build_prefix(ZONE_QUOTA, namespace), at=at)).entries:
        quota: Object = _decode(entry.value)
        allowed.setdefault(quota["spec"]["zone"], {})[quota["metadata"]["name"]] = parse_hard(quota)
    prefix = zone_key(namespace, "")
    entries = {each.key.removeprefix(prefix): each for each in (await store.range(prefix, at=at)).entries}
    found: dict[str, tuple[Entry | None, ZoneUse]] = {}
    for zone in sorted({*allowed, *entries}):
        use = use_in(entries.get(zone))
        if zone in allowed:
            right = ZoneUse(allowed[zone], await count_charges(store, namespace, zone, at))
        else:  # The creation of the first quota may be counting.
            right = replace(use, quotas={}, counting="" if use.counting == RECOUNT else use.counting)
        if use != right:
            found[zone] = (entries.get(zone), right)
    return found


async def _put_zone_right(store: Store, key: str, entry: Entry | None, right: ZoneUse) -> None:
    """If nothing has changed since. Where there was no use, charges did not write it: first they must, then count."""
    if entry is None:
        right = ZoneUse(counting=RECOUNT)
    await store.commit(_unchanged(key, entry), [zone_quota.build_write(key, right)])


def _unchanged(key: str, entry: Entry | None) -> Sequence[Check]:
    return [Check(key, ABSENT if entry is None else entry.revision)]
