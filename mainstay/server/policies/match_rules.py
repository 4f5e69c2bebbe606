"""Which writes a policy or a binding is about: `matchConstraints`, `matchResources`.

Kubernetes has several versions of some resources, and `matchPolicy: Equivalent` means any of them. Here an object is
seen in the version of the request; so `Equivalent` only means that the version of a rule is not looked at.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mainstay.api.kind import Kind, Object
from mainstay.api.labels import LabelSelector, from_object

ANY: Final = "*"
CREATE: Final = "CREATE"
UPDATE: Final = "UPDATE"
DELETE: Final = "DELETE"
_NO_LABELS: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class PolicyWrite:
    """A write, as policies see it. `new` is None for a deletion, `old` for a creation."""

    kind: Kind
    operation: str
    namespace: str
    name: str
    new: Object | None
    old: Object | None
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class ResourceRule:
    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    """Empty: any."""
    resources: tuple[tuple[str, str], ...]
    """Each with its subresource."""
    scope: str
    names: frozenset[str]

    def covers(self, group: str, resource: str) -> bool:
        """Whether it can be about a resource at all."""
        if ANY not in self.groups and group not in self.groups:
            return False
        return any(each in (ANY, resource) for each, _ in self.resources)

    def matches(self, write: PolicyWrite) -> bool:
        kind = write.kind
        if ANY not in self.operations and write.operation not in self.operations:
            return False
        if ANY not in self.groups and kind.group not in self.groups:
            return False
        if self.versions and ANY not in self.versions and kind.version not in self.versions:
            return False
        if self.scope != ANY and (self.scope == "Namespaced") is not kind.namespaced:
            return False
        if self.names and write.name not in self.names:
            return False
        return any(
            resource in (ANY, kind.plural) and part in (ANY, write.subresource) for resource, part in self.resources
        )


@dataclass(frozen=True, slots=True)
class MatchRules:
    rules: tuple[ResourceRule, ...]
    """Empty: everything, which a binding may say."""
    excluded: tuple[ResourceRule, ...]
    namespaces: LabelSelector
    objects: LabelSelector

    def covers(self, group: str, resource: str) -> bool:
        return not self.rules or any(each.covers(group, resource) for each in self.rules)

    def matches(self, write: PolicyWrite, namespace: Object | None) -> bool:
        """`namespace` is the one that the object is in; or that it is, if it is one."""
        if self.rules and not any(each.matches(write) for each in self.rules):
            return False
        if any(each.matches(write) for each in self.excluded):
            return False
        if namespace is not None and not self.namespaces.matches(_labels(namespace)):
            return False
        return any(self.objects.matches(_labels(each)) for each in (write.new, write.old) if each is not None)


def parse_match(match: Mapping[str, Any] | None) -> MatchRules:
    match = match or {}
    with_version = match.get("matchPolicy") == "Exact"
    return MatchRules(
        _parse_rules(match.get("resourceRules") or (), with_version),
        _parse_rules(match.get("excludeResourceRules") or (), with_version),
        from_object(match.get("namespaceSelector")),
        from_object(match.get("objectSelector")),
    )


def _parse_rules(rules: Sequence[Mapping[str, Any]], with_version: bool) -> tuple[ResourceRule, ...]:
    return tuple(
        ResourceRule(
            frozenset(each.get("operations") or ()),
            frozenset(each.get("apiGroups") or ()),
            frozenset(each.get("apiVersions") or () if with_version else ()),
            tuple(_split(resource) for resource in each.get("resources") or ()),
            each.get("scope") or ANY,
            frozenset(each.get("resourceNames") or ()),
        )
        for each in rules
    )


def _split(resource: str) -> tuple[str, str]:
    name, _, part = resource.partition("/")
    return name, part


def _labels(obj: Object) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or _NO_LABELS
