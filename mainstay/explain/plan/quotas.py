"""How much of a namespace's ResourceQuotas is used, counted on: who would still be let in, and who not.

The server refuses what a quota does not allow when it commits (server/quota/resource_quota.py). Here the same is added
up in memory, from what each quota says is used (its status), by the same rules of what an object takes
(api/quota_usage.py), and in the same words.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.quantity import ZERO, Quantity, parse
from mainstay.api.quota_refusal import QuotaRefusal, build_amount_missing, build_exceeded
from mainstay.api.quota_usage import (
    PODS,
    QuotaTerm,
    Resource,
    count_usage,
    find_missing,
    is_about,
    parse_terms,
    resources_behind,
)

_NAMED_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class ProjectedQuota:
    """One quota."""

    namespace: str
    name: str
    hard: Mapping[str, Quantity]
    used: Mapping[str, Quantity]
    terms: tuple[QuotaTerm, ...] = ()


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """Of one name that a quota limits: how it was, and how it would be. Encodable."""

    namespace: str
    quota: str
    resource: str
    used_before: str
    used_after: str
    hard_before: str
    """Empty: the quota is new."""
    hard_after: str

    @property
    def is_full(self) -> bool:
        return parse(self.used_after) >= parse(self.hard_after)

    @property
    def is_changed(self) -> bool:
        return self.used_before != self.used_after or self.hard_before != self.hard_after


def read_limit(quota: Object, counted: Iterable[tuple[Resource, Object]] | None = None) -> ProjectedQuota:
    """What a quota limits. What is used it says itself; or it is counted from objects, for one that is new."""
    metadata = quota["metadata"]
    hard = {name: parse(amount) for name, amount in ((quota.get("spec") or {}).get("hard") or {}).items()}
    said = (quota.get("status") or {}).get("used") or {}
    limit = ProjectedQuota(
        metadata.get("namespace") or "",
        metadata["name"],
        hard,
        {name: parse(said[name]) if name in said else ZERO for name in hard},
        parse_terms(quota),
    )
    if counted is None:
        return limit
    limit = replace(limit, used=dict.fromkeys(hard, ZERO))
    for resource, obj in counted:
        if (obj["metadata"].get("namespace") or "") == limit.namespace:
            limit = _changed(limit, resource, obj, None)
    return limit


def kinds_behind(quotas: Iterable[Object]) -> list[Resource]:
    """Of which kinds objects have to be known to count what quotas limit."""
    names = [name for quota in quotas for name in ((quota.get("spec") or {}).get("hard") or {})]
    return resources_behind(names)


class QuotaBook:
    """All quotas. Changed as objects come and go."""

    def __init__(self, limits: Iterable[ProjectedQuota] = ()) -> None:
        self._limits: dict[str, dict[str, ProjectedQuota]] = {}
        for limit in limits:
            self.put(limit)

    def put(self, limit: ProjectedQuota) -> None:
        self._limits.setdefault(limit.namespace, {})[limit.name] = limit

    def has(self, namespace: str) -> bool:
        return namespace in self._limits

    def get(self, namespace: str, name: str) -> ProjectedQuota | None:
        return self._limits.get(namespace, {}).get(name)

    def all(self) -> list[ProjectedQuota]:
        return [limits[name] for _, limits in sorted(self._limits.items()) for name in sorted(limits)]

    def refusal(self, kind: KindName, new: Object, old: Object | None) -> QuotaRefusal | None:
        """Why an object may not be made or changed, as the server says it; None if it may."""
        resource = (kind.group, kind.plural)
        limits = self._limits.get(new["metadata"].get("namespace") or "", {})
        for name in sorted(limits):
            limit = limits[name]
            if old is None and resource == PODS and is_about(limit.terms, resource, new):
                missing = find_missing(limit.hard, new)
                if missing:
                    return build_amount_missing(name, missing)
            more = {each: amount for each, amount in _difference(limit, resource, new, old).items() if amount > ZERO}
            over = {each: more[each] for each in more if limit.used[each] + more[each] > limit.hard[each]}
            if over:
                return build_exceeded(name, over, limit.used, limit.hard)
        return None

    def change(self, kind: KindName, new: Object | None, old: Object | None) -> bool:
        """An object was made, changed or removed. True if more of something is left now."""
        given = new if new is not None else old
        if given is None:
            return False
        namespace = given["metadata"].get("namespace") or ""
        is_more = False
        for name, limit in self._limits.get(namespace, {}).items():
            after = _changed(limit, (kind.group, kind.plural), new, old)
            is_more = is_more or any(after.used[each] < limit.used[each] for each in limit.used)
            self._limits[namespace][name] = after
        return is_more


def uses(before: QuotaBook, after: QuotaBook, new: Iterable[ProjectedQuota] = ()) -> list[QuotaUse]:
    """What became of each name that is limited. `new` are quotas that were not there, with what was used of them."""
    found = []
    counted = {(limit.namespace, limit.name): limit for limit in new}
    for limit in after.all():
        was = before.get(limit.namespace, limit.name)
        begun = was or counted.get((limit.namespace, limit.name))
        for resource in sorted(limit.hard):
            found.append(
                QuotaUse(
                    limit.namespace,
                    limit.name,
                    resource,
                    str(begun.used.get(resource, ZERO)) if begun is not None else str(ZERO),
                    str(limit.used[resource]),
                    str(was.hard[resource]) if was is not None and resource in was.hard else "",
                    str(limit.hard[resource]),
                )
            )
    return found


def _changed(limit: ProjectedQuota, resource: Resource, new: Object | None, old: Object | None) -> ProjectedQuota:
    difference = _difference(limit, resource, new, old)
    if not difference:
        return limit
    used = {name: max(amount + difference.get(name, ZERO), ZERO) for name, amount in limit.used.items()}
    return replace(limit, used=used)


def _difference(
    limit: ProjectedQuota, resource: Resource, new: Object | None, old: Object | None
) -> dict[str, Quantity]:
    after, before = _part(limit, resource, new), _part(limit, resource, old)
    found = {name: after.get(name, ZERO) - before.get(name, ZERO) for name in limit.hard}
    return {name: amount for name, amount in found.items() if amount}


def _part(limit: ProjectedQuota, resource: Resource, obj: Object | None) -> Mapping[str, Quantity]:
    return count_usage(resource, obj) if obj is not None and is_about(limit.terms, resource, obj) else {}
