"""What the use of quotas is the sum of: the objects of the namespace, or its charges in a zone."""

from typing import Final

from mainstay.api.quantity import Quantity, parse
from mainstay.api.quota_usage import Amounts, resources_behind
from mainstay.server.placement.ledger.charge import CHARGES
from mainstay.server.quota.resource_quota import count
from mainstay.server.quota.tally import TALLIES, tally_in
from mainstay.server.quota.zone_quota import ZONES, count_charges, use_in
from mainstay.server.storage.keyspace import build_resource_prefix
from mainstay.server.storage.sums import AddedUp, Sum
from mainstay.store.interface import Store

_OBJECT_COST: Final = 100  # An object is read as a whole, and what it uses worked out: so many times as long.
_CHARGE_COST: Final = 10


async def add_up_tally(store: Store, key: str, at: int) -> AddedUp:
    namespace = key.removeprefix(TALLIES)
    tally = tally_in(await store.get(key, at=at))
    said: dict[str, dict[str, str]] = {}
    there: dict[str, dict[str, str]] = {}
    objects = 0
    for name, limit in tally.quotas.items():
        said[name] = _written({resource: parse(amount) for resource, amount in limit.used.items()})
        there[name] = _written(await count(store, namespace, limit, at))
        for resource in resources_behind(limit.hard):
            objects += await _size(store, build_resource_prefix(resource, namespace), at)
    return AddedUp(said, there, objects * _OBJECT_COST)


async def add_up_zone(store: Store, key: str, at: int) -> AddedUp:
    namespace, _, zone = key.removeprefix(ZONES).partition("/")
    use = use_in(await store.get(key, at=at))
    if not use.quotas:  # Only what has changed since a count has begun.
        return AddedUp(None, None, 1)
    charges = await _size(store, f"{CHARGES}{namespace}/", at)
    return AddedUp(use.used, await count_charges(store, namespace, zone, at), charges * _CHARGE_COST)


def _written(amounts: Amounts) -> dict[str, str]:
    """Equal amounts in equal words, whatever unit they were given in."""
    return {name: str(Quantity(amount.nano)) for name, amount in amounts.items()}


async def _size(store: Store, prefix: str, at: int) -> int:
    page = await store.range(prefix, at=at, limit=1)
    return len(page.entries) + page.remaining


QUOTA_SUMS: Final = {
    TALLIES: Sum("what is used of a quota is the sum of the objects it counts", add_up_tally),
    ZONES: Sum("what is used of a zone quota is the sum of the charges there", add_up_zone),
}
