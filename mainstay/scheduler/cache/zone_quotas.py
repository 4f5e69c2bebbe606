"""How much the pods of a namespace may use in a zone, and how much they do.

Limits come from ZoneQuota objects; several for one zone must all hold. Use is counted from the placed pods themselves,
assumed ones too, so that a quota is not overrun by what is decided but not yet bound. `requests.cpu` limits the same as
`cpu`. Other names with a dot in front of a resource (`limits.cpu`) are for the server alone, which has the last word.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from mainstay.api.kind import Object
from mainstay.api.pod_resources import parse_amounts
from mainstay.scheduler.cache.charge import CachedCharge

_REQUESTS = "requests."
_LIMITS = "limits."


@dataclass(frozen=True, slots=True)
class ZoneLimit:
    zone: str
    hard: tuple[tuple[str, int], ...]
    """By resource, sorted."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """A zone's quota does not leave enough of a resource."""

    zone: str
    resource: str
    wanted: int
    left: int


class ZoneQuotas:
    __slots__ = ("_limits", "_used")

    def __init__(self) -> None:
        self._limits: dict[str, dict[str, ZoneLimit]] = {}
        """By namespace, then by name of the quota."""
        self._used: dict[tuple[str, str], dict[str, int]] = {}
        """By namespace and zone, of those namespaces that have limits."""

    def has(self, namespace: str) -> bool:
        return namespace in self._limits

    def put(self, quota: Object) -> bool:
        """Take over a quota. True if the namespace had none before: then its pods have to be counted."""
        metadata, spec = quota["metadata"], quota.get("spec") or {}
        namespace = metadata.get("namespace") or ""
        is_first = namespace not in self._limits
        self._limits.setdefault(namespace, {})[metadata["name"]] = ZoneLimit(
            spec.get("zone") or "", tuple(sorted(_hard(spec.get("hard") or {}).items()))
        )
        return is_first

    def remove(self, namespace: str, name: str) -> None:
        limits = self._limits.get(namespace, {})
        limits.pop(name, None)
        if not limits:
            self._limits.pop(namespace, None)
            self._used = {place: used for place, used in self._used.items() if place[0] != namespace}

    def add(self, charge: CachedCharge, zone: str, times: int) -> None:
        """A pod came to a zone, or left it (-1)."""
        if charge.namespace in self._limits:
            used = self._used.setdefault((charge.namespace, zone), {})
            for resource, amount in charge.requests.items():
                used[resource] = used.get(resource, 0) + times * amount

    def shortages(self, namespace: str, requests: Mapping[str, int]) -> list[Shortage]:
        """In which zones there is too little left for a pod, and of what. Sorted by zone and resource."""
        found: dict[tuple[str, str], Shortage] = {}
        for limit in self._limits.get(namespace, {}).values():
            used = self._used.get((namespace, limit.zone), {})
            for resource, hard in limit.hard:
                wanted = requests.get(resource, 0)
                left = hard - used.get(resource, 0)
                if wanted > 0 and wanted > left:
                    known = found.get((limit.zone, resource))
                    if known is None or left < known.left:
                        found[limit.zone, resource] = Shortage(limit.zone, resource, wanted, left)
        return [found[place] for place in sorted(found)]


def _hard(amounts: Mapping[str, str]) -> dict[str, int]:
    """The smallest limit of each resource."""
    plain: dict[str, int] = {}
    for name, quantity in amounts.items():
        resource = name.removeprefix(_REQUESTS)
        if not name.startswith(_LIMITS):
            amount = parse_amounts({resource: quantity})[resource]
            plain[resource] = min(amount, plain.get(resource, amount))
    return plain
