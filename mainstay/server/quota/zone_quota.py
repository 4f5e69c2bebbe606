"""ZoneQuotas: how much the pods of a namespace may take in one zone, whichever scheduler binds them.

A namespace with quotas for a zone has one key for that zone, with the limits of all of them and what is used. A pod
that comes to a node of the zone is counted there in the transaction that charges it to the node
(server/placement/charges.py), and what its charge says is given back with the charge. A binding that would take more
than any of the quotas allows is refused: 409 `QuotaExceeded`. A pod that is made on a node is counted, and not
asked. Pods count in the zone that their node had when they came, until they go; nodes without a zone are in none. A
reservation does not count; its pod will.

Where there is no quota there is no key, and who is bound only checks that. The first quota for a zone has to count what
is there, as ResourceQuotas do (tally.py): it says that it is counting, counts the charges of that revision, and
adds what has been noted since. The status is a copy that follows (status.py).
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from mainstay.api.causes import BindingCause
from mainstay.api.kind import Object
from mainstay.api.pod_resources import parse_amounts
from mainstay.env import tasks
from mainstay.server.placement.ledger.charge import CHARGES, Charge, decode_charge
from mainstay.server.placement.ledger.refusals import LedgerRefusal, refused, shown
from mainstay.server.storage.commit_points import NOTHING, Intended, TransactionParts
from mainstay.server.storage.keyspace import INTERNAL_PREFIX
from mainstay.server.storage.shared_writes import SharedWrite, SharedWrites
from mainstay.store.interface import ABSENT, Check, Committed, DeleteEntry, Entry, Put, Store, Write

ZONES: Final = f"{INTERNAL_PREFIX}zone-quota/"
PAGE_ENTRIES: Final = 1000  # Of what is counted, at a time.
_REQUESTS: Final = "requests."


class ZoneUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """None of its dictionaries is ever changed."""

    quotas: dict[str, dict[str, int]] = {}
    """By name: how much of each resource is allowed. All must hold."""
    used: dict[str, int] = {}
    """By the pods of the namespace in this zone. While a count is under way: how much that has changed since."""
    counting: str = ""
    """Who is counting, while there is no quota yet."""


EMPTY: Final = ZoneUse()
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ZoneUse).decode


def zone_key(namespace: str, zone: str) -> str:
    return f"{ZONES}{namespace}/{zone}"


def use_in(entry: Entry | None) -> ZoneUse:
    return EMPTY if entry is None else _decode(entry.value)


def build_write(key: str, use: ZoneUse) -> Write:
    return Put(key, _encode(use)) if use.quotas or use.counting else DeleteEntry(key)


def parse_hard(quota: Object) -> dict[str, int]:
    """What a ZoneQuota allows, in base units. `requests.cpu` is the same as `cpu`: the smaller one counts."""
    found: dict[str, int] = {}
    for name, quantity in ((quota.get("spec") or {}).get("hard") or {}).items():
        resource = name.removeprefix(_REQUESTS)
        amount = parse_amounts({resource: quantity})[resource]
        found[resource] = min(amount, found.get(resource, amount))
    return found


def moved(use: ZoneUse, before: Mapping[str, int], after: Mapping[str, int]) -> ZoneUse:
    """With a pod that takes `after` in place of `before`."""
    used = dict(use.used)
    for resource in {**before, **after}:
        used[resource] = used.get(resource, 0) + after.get(resource, 0) - before.get(resource, 0)
    # Once all is counted there is never less than nothing: that would be a gift to those who come later.
    return replace(use, used={name: amount for name, amount in used.items() if amount > 0 or (amount and use.counting)})


def find_refusal(use: ZoneUse, zone: str, wanted: Mapping[str, int]) -> LedgerRefusal | None:
    """Which quota does not leave enough for a pod; the first by name."""
    for name in sorted(use.quotas):
        hard = use.quotas[name]
        for resource in sorted(hard):
            asked, left = wanted.get(resource, 0), hard[resource] - use.used.get(resource, 0)
            if asked > 0 and asked > left:
                amounts = f"requested {shown(resource, asked)}, left {shown(resource, max(left, 0))}"
                text = f"zone quota {name} does not leave enough in zone {zone}: {resource}: {amounts}"
                return LedgerRefusal(BindingCause.QUOTA_EXCEEDED, f"{text} of {shown(resource, hard[resource])}")
    return None


class ZoneTally:
    """Implements `ChargeCounter` (server/placement/charges.py)."""

    def __init__(self, shared: SharedWrites) -> None:
        self._shared = shared

    async def counted(self, before: Charge | None, after: Charge | None, *, is_checked: bool) -> TransactionParts:
        charge = after or before
        if charge is None or not charge.zone:
            return NOTHING
        namespace, _, name = charge.pod.partition("/")
        key = zone_key(namespace, charge.zone)
        if await self._shared.latest(key) is None:
            return TransactionParts(checks=[Check(key, ABSENT)])

        def change(entry: Entry | None) -> Sequence[Write]:
            use = use_in(entry)
            if entry is None:
                return ()
            refusal = find_refusal(use, charge.zone, charge.amounts) if is_checked else None
            if refusal is not None:
                raise refused(name, refusal)
            taken = after.amounts if after is not None else {}
            return (build_write(key, moved(use, before.amounts if before is not None else {}, taken)),)

        return TransactionParts(shared=[SharedWrite(key, change)])


class ZoneQuotaPoint:
    """Implements `CommitPoint`, for ZoneQuota."""

    def __init__(self, store: Store, shared: SharedWrites) -> None:
        self._store = store
        self._shared = shared
        self._counts = 0

    def applies_to(self, intended: Intended) -> bool:
        new, old = intended.new, intended.old
        return new is None or old is None or new.get("spec") != old.get("spec")

    async def parts_for(self, intended: Intended) -> TransactionParts:
        quota = intended.new or intended.old
        if quota is None:
            raise AssertionError("a write has an object before it, or after it, or both")
        name, namespace, zone = quota["metadata"]["name"], quota["metadata"]["namespace"], quota["spec"]["zone"]
        key = zone_key(namespace, zone)
        if intended.new is None:
            return TransactionParts(shared=[SharedWrite(key, lambda entry: _without(key, use_in(entry), name))])
        is_known = bool(use_in(await self._shared.latest(key)).quotas)
        count = None if is_known else await self._count(key, intended.new)
        hard = parse_hard(intended.new)

        def change(entry: Entry | None) -> Sequence[Write] | None:
            use = use_in(entry)
            if not use.quotas:
                if count is None or use.counting != count.counting:
                    return None
                use = replace(moved(use, {}, count.used), counting="")
            return (build_write(key, replace(use, quotas={**use.quotas, name: hard})),)

        return TransactionParts(shared=[SharedWrite(key, change)])

    async def _count(self, key: str, quota: Object) -> ZoneUse | None:
        """Note that a count has begun, and count the charges as they were then. None if it has become needless."""
        self._counts += 1
        counting = ZoneUse(counting=f"{quota['metadata']['uid']}/{self._counts}")

        def change(entry: Entry | None) -> Sequence[Write] | None:
            return None if use_in(entry).quotas else (build_write(key, counting),)

        answer = await self._shared.commit([], [], [SharedWrite(key, change)])
        if not isinstance(answer, Committed):
            return None
        namespace, zone = quota["metadata"]["namespace"], quota["spec"]["zone"]
        return replace(counting, used=await count_charges(self._store, namespace, zone, answer.revision))


def _without(key: str, use: ZoneUse, name: str) -> Sequence[Write]:
    left = {each: hard for each, hard in use.quotas.items() if each != name}
    return (build_write(key, replace(use, quotas=left)),)


async def count_charges(store: Store, namespace: str, zone: str, at: int) -> dict[str, int]:
    """What the pods of a namespace took in a zone at a revision, by their charges."""
    use, after = ZoneUse(counting="now"), None
    while True:
        page = await store.range(f"{CHARGES}{namespace}/", at=at, limit=PAGE_ENTRIES, after=after)
        for entry in page.entries:
            charge = decode_charge(entry.value)
            if charge.zone == zone:
                use = moved(use, {}, charge.amounts)
        if not page.remaining:
            return use.used
        after = page.entries[-1].key
        await tasks.turns(1)
