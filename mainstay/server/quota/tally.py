"""How much of each quota of a namespace is used: values and plain functions.

A namespace with quotas has one key beside its objects. It says of each quota what it limits and how much of that is
used, so a write of an object reads and writes one key, however many quotas there are. It is the truth;
what a ResourceQuota has in its status is a copy for people to read. A namespace without quotas has no such key, and
writes in it only check that.

A quota that comes later has to count what is there, while others go on making and removing. So it first says that it is
counting: from that revision on, all that changes is noted for it. Then it counts what was there at that revision, and
what it noted since belongs to that.

    revision 70   counting {3: +0}             the pods at revision 70 are counted: 5
    revision 71   counting {3: +1}             a client creates one
    revision 72   quotas {team: 6 of 10}       5 + 1
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from mainstay.api.kind import Object
from mainstay.api.quantity import ZERO, Quantity, parse
from mainstay.api.quota_refusal import QuotaRefusal, build_amount_missing, build_exceeded
from mainstay.api.quota_usage import (
    PODS,
    Amounts,
    QuotaTerm,
    Resource,
    count_usage,
    find_missing,
    is_about,
    parse_terms,
)
from mainstay.server.storage.keyspace import INTERNAL_PREFIX
from mainstay.store.interface import DeleteEntry, Entry, Put, Write

TALLIES: Final = f"{INTERNAL_PREFIX}quota/"
COUNTING_MAX: Final = 8  # At once. Those of a server that has gone away are forgotten when there are newer ones.


class QuotaLimit(msgspec.Struct, frozen=True):
    """One quota."""

    uid: str
    hard: dict[str, str]
    used: dict[str, str]
    """Of each name in `hard`. While it is being counted: how much it has changed since."""
    terms: tuple[QuotaTerm, ...] = ()


class QuotaTally(msgspec.Struct, frozen=True, omit_defaults=True):
    """None of its dictionaries is ever changed."""

    quotas: dict[str, QuotaLimit] = {}
    """By name."""
    counting: dict[int, QuotaLimit] = {}
    """Quotas, or new versions of them, that do not limit anything yet. By number."""
    begun: int = 0
    """The number of the last one that began to count."""


EMPTY: Final = QuotaTally()
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(QuotaTally).decode


def tally_key(namespace: str) -> str:
    return TALLIES + namespace


def tally_in(entry: Entry | None) -> QuotaTally:
    """What an entry says. What is not there says nothing."""
    return EMPTY if entry is None else _decode(entry.value)


def build_write(key: str, tally: QuotaTally) -> Write:
    """What keeps a tally, or removes one of a namespace without quotas."""
    return Put(key, _encode(tally)) if tally.quotas or tally.counting else DeleteEntry(key)


def parse_limit(quota: Object) -> QuotaLimit:
    """What a ResourceQuota limits. Nothing is used yet."""
    hard = dict((quota.get("spec") or {}).get("hard") or {})
    return QuotaLimit(quota["metadata"]["uid"], hard, dict.fromkeys(hard, "0"), parse_terms(quota))


def is_counted_like(one: QuotaLimit, other: QuotaLimit) -> bool:
    """Whether the same objects count, by the same names: then what is used of one is used of the other."""
    return one.hard.keys() == other.hard.keys() and one.terms == other.terms


def beginning(tally: QuotaTally, limit: QuotaLimit) -> QuotaTally:
    """One more that counts, with the number `begun`."""
    number = tally.begun + 1
    counting = {**tally.counting, number: limit}
    for oldest in sorted(counting)[:-COUNTING_MAX]:
        del counting[oldest]
    return replace(tally, counting=counting, begun=number)


def finished(tally: QuotaTally, number: int, name: str, limit: QuotaLimit) -> QuotaTally:
    """One that has counted and begins to limit."""
    counting = {each: other for each, other in tally.counting.items() if each != number}
    return replace(tally, quotas={**tally.quotas, name: limit}, counting=counting)


def given_up(tally: QuotaTally, number: int) -> QuotaTally:
    """One that will not finish."""
    return replace(tally, counting={each: other for each, other in tally.counting.items() if each != number})


def without(tally: QuotaTally, name: str) -> QuotaTally:
    """A quota that is gone."""
    return replace(tally, quotas={each: limit for each, limit in tally.quotas.items() if each != name})


def changed(tally: QuotaTally, resource: Resource, new: Object | None, old: Object | None) -> QuotaTally:
    """After an object was made, changed or removed, whether or not there is enough left for it."""
    quotas = {name: _not_negative(_with(limit, resource, new, old)) for name, limit in tally.quotas.items()}
    counting = {number: _with(limit, resource, new, old) for number, limit in tally.counting.items()}
    return replace(tally, quotas=quotas, counting=counting)


def find_exceeded(tally: QuotaTally, resource: Resource, new: Object, old: Object | None) -> QuotaRefusal | None:
    """Which quota does not allow an object to be made or changed. The first by name."""
    for name in sorted(tally.quotas):
        limit = tally.quotas[name]
        if old is None and resource == PODS and is_about(limit.terms, resource, new):
            missing = find_missing(limit.hard, new)
            if missing:
                return build_amount_missing(name, missing)
        more = {each: amount for each, amount in _difference(limit, resource, new, old).items() if amount > ZERO}
        over = {each: more[each] for each in more if parse(limit.used[each]) + more[each] > parse(limit.hard[each])}
        if over:
            return build_exceeded(name, over, limit.used, limit.hard)
    return None


def affected(tally: QuotaTally, after: QuotaTally) -> list[str]:
    """The names of the quotas of which more or less is used now, sorted."""
    return [name for name in sorted(after.quotas) if after.quotas[name] != tally.quotas.get(name)]


def plus(limit: QuotaLimit, more: Mapping[str, Quantity]) -> QuotaLimit:
    """With so much more of it used."""
    used = {name: str(parse(amount) + more[name]) if name in more else amount for name, amount in limit.used.items()}
    return replace(limit, used=used)


def _with(limit: QuotaLimit, resource: Resource, new: Object | None, old: Object | None) -> QuotaLimit:
    difference = _difference(limit, resource, new, old)
    return plus(limit, difference) if difference else limit


def _difference(limit: QuotaLimit, resource: Resource, new: Object | None, old: Object | None) -> Amounts:
    """How much more, or less, of a quota is used after a change. Nothing that is 0."""
    after, before = _part(limit, resource, new), _part(limit, resource, old)
    found: Amounts = {}
    for name in limit.hard:
        amount = after.get(name, ZERO) - before.get(name, ZERO)
        if amount:
            found[name] = amount
    return found


def _not_negative(limit: QuotaLimit) -> QuotaLimit:
    """What was counted by other rules, of an older build, must not become a gift to those who come later."""
    if not any(amount.startswith("-") for amount in limit.used.values()):
        return limit
    return replace(limit, used={name: "0" if used.startswith("-") else used for name, used in limit.used.items()})


def _part(limit: QuotaLimit, resource: Resource, obj: Object | None) -> Amounts:
    if obj is None or not is_about(limit.terms, resource, obj):
        return {}
    return count_usage(resource, obj)
