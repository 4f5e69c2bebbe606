"""Rules of roles: what they allow, and whether some rules are covered by others. As Kubernetes reads them.

A rule is about resources or about paths, never both: verbs × API groups × resources (× names), or verbs × paths. A
subresource is written `pods/log`; `*` stands for everything, `*/scale` for one subresource of all resources, and a path
may end in `*`.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, compress, islice, product
from typing import Any, Final

from msgspec import Struct

ANY: Final = "*"
LINES_MAX: Final = 10
LINE_MAX: Final = 500
"""Characters."""
DESCRIBED_PARTS_MAX: Final = 1_000
_FIELDS: Final = ("verbs", "groups", "resources", "names", "paths")


class PolicyRule(Struct, frozen=True):
    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    """Empty: objects of every name."""
    paths: tuple[str, ...] = ()

    def allows_resource(self, verb: str, group: str, resource: str, subresource: str) -> bool:
        """Whatever the name of the object is: see `names`."""
        if verb not in self.verbs and ANY not in self.verbs:
            return False
        if group not in self.groups and ANY not in self.groups:
            return False
        mine = self.resources
        if not subresource:
            return resource in mine or ANY in mine
        return f"{resource}/{subresource}" in mine or ANY in mine or f"*/{subresource}" in mine

    def allows_path(self, verb: str, path: str) -> bool:
        if verb not in self.verbs and ANY not in self.verbs:
            return False
        return any(_covers_path(mine, path) for mine in self.paths)

    def as_object(self) -> dict[str, list[str]]:
        """As the API shows it."""
        shown = {"verbs": list(self.verbs)}
        for field, values in _fields(self):
            if values:
                shown[field] = list(values)
        return shown


def parse_rule(rule: dict[str, Any]) -> PolicyRule:
    """Raises `TypeError`, `AttributeError` for what is no rule."""
    return PolicyRule(
        verbs=tuple(rule.get("verbs") or ()),
        groups=tuple(rule.get("apiGroups") or ()),
        resources=tuple(rule.get("resources") or ()),
        names=tuple(rule.get("resourceNames") or ()),
        paths=tuple(rule.get("nonResourceURLs") or ()),
    )


FULL_ACCESS: Final = (
    PolicyRule((ANY,), (ANY,), (ANY,)),
    PolicyRule((ANY,), paths=(ANY,)),
)


def _fields(rule: PolicyRule) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return (
        ("apiGroups", rule.groups),
        ("resources", rule.resources),
        ("resourceNames", rule.names),
        ("nonResourceURLs", rule.paths),
    )


class TooManyValues(Exception):
    """To compare rules takes too long."""


class Looks:
    """How many looks at a verb, resource or other value it may take to compare rules. None: any number."""

    def __init__(self, at_most: int | None = None) -> None:
        self._left = at_most

    def spend(self, count: int) -> None:
        """Raises `TooManyValues`."""
        if self._left is not None:
            self._left -= count
            if self._left < 0:
                raise TooManyValues


def find_uncovered(
    owned: Sequence[PolicyRule], wanted: Iterable[PolicyRule], looks_max: int | None = None
) -> list[PolicyRule]:
    """What of the wanted rules the owned ones do not allow. Raises `TooManyValues` if it would take more than so many
    looks."""
    return find_covering([owned], wanted, Looks(looks_max))[1]


def find_covering(
    owned: Iterable[Sequence[PolicyRule]], wanted: Iterable[PolicyRule], looks: Looks
) -> tuple[list[int], list[PolicyRule]]:
    """Of several lists of rules, the numbers of those that it takes to allow the wanted ones, and what none of them
    allows. The first that allows something counts. Raises `TooManyValues`."""
    remaining = dict.fromkeys(part for rule in wanted for part in _each_once(rule))
    taken: list[int] = []
    for number, rules in enumerate(owned):
        before = remaining
        for mine in map(_Allowed, rules):
            looks.spend(sum(mine.count_looks(each) for each in remaining))
            remaining = dict.fromkeys(rest for each in remaining for rest in mine.take_from(each))
        if remaining != before:
            taken.append(number)
        if not remaining:
            break
    return taken, list(remaining)


def _each_once(rule: PolicyRule) -> list[PolicyRule]:
    """The rule with each value once, that of resources apart from that of paths. None that allows nothing."""
    verbs, groups, resources, names, paths = (tuple(dict.fromkeys(getattr(rule, field))) for field in _FIELDS)
    found = [PolicyRule(verbs, groups, resources, names)] if verbs and groups and resources else []
    return [*found, PolicyRule(verbs, paths=paths)] if verbs and paths else found


class _Allowed:
    """What a rule allows, for questions about many values."""

    def __init__(self, rule: PolicyRule) -> None:
        self._verbs, self._groups = frozenset(rule.verbs), frozenset(rule.groups)
        self._resources, self._names = frozenset(rule.resources), frozenset(rule.names)
        self._paths = rule.paths

    def count_looks(self, rule: PolicyRule) -> int:
        if rule.paths:
            return len(rule.verbs) + len(rule.paths) * len(self._paths)
        return len(rule.verbs) + len(rule.groups) + len(rule.resources) + len(rule.names)

    def take_from(self, rule: PolicyRule) -> list[PolicyRule]:
        """What is left of a rule (about resources, or about paths) without what this one allows."""
        verbs, other_verbs = _part(rule.verbs, lambda verb: ANY in self._verbs or verb in self._verbs)
        if not verbs:
            return [rule]
        if rule.paths:
            paths, other_paths = _part(rule.paths, lambda path: any(_covers_path(mine, path) for mine in self._paths))
            left = [PolicyRule(rule.verbs, paths=other_paths), PolicyRule(other_verbs, paths=paths)]
            return [each for each in left if each.verbs and each.paths]
        groups, other_groups = _part(rule.groups, lambda group: ANY in self._groups or group in self._groups)
        resources, other_resources = _part(rule.resources, self._has_resource) if groups else ((), ())
        names, other_names = _part(rule.names, lambda name: name in self._names) if self._names else (rule.names, ())
        if not resources or (self._names and not names):
            return [rule]
        left = [
            PolicyRule(rule.verbs, other_groups, rule.resources, rule.names),
            PolicyRule(rule.verbs, groups, other_resources, rule.names),
            PolicyRule(other_verbs, groups, resources, names),
        ]
        if other_names:
            left.append(PolicyRule(rule.verbs, groups, resources, other_names))
        return [each for each in left if each.verbs and each.groups and each.resources]

    def _has_resource(self, resource: str) -> bool:
        if ANY in self._resources or resource in self._resources:
            return True
        _, slash, subresource = resource.partition("/")
        return bool(slash) and f"*/{subresource}" in self._resources


def _part(values: tuple[str, ...], is_in: Callable[[str], bool]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    found = [is_in(value) for value in values]
    return tuple(compress(values, found)), tuple(value for value, mine in zip(values, found, strict=True) if not mine)


def _covers_path(mine: str, path: str) -> bool:
    return mine == path or (mine.endswith(ANY) and path.startswith(mine.rstrip(ANY)))


def describe_rules(rules: Iterable[PolicyRule]) -> str:
    """What rules allow, in the words of Kubernetes: a line for each group, resource and name, or path. The first few
    lines, if there are many."""
    verbs: dict[tuple[tuple[str, ...], ...], dict[str, None]] = {}
    parts = chain.from_iterable(map(split_rule, rules))
    for part in islice(parts, DESCRIBED_PARTS_MAX):
        verbs.setdefault((part.groups, part.resources, part.names, part.paths), {}).update(dict.fromkeys(part.verbs))
    lines = sorted(_describe(PolicyRule(tuple(mine), *rest)) for rest, mine in verbs.items())
    shown = [line if len(line) <= LINE_MAX else f"{line[:LINE_MAX]}..." for line in lines[:LINES_MAX]]
    if next(parts, None) is not None or len(lines) > LINES_MAX:
        shown.append("and more")
    return "\n".join(shown)


def split_rule(rule: PolicyRule) -> Iterator[PolicyRule]:
    """In parts: one verb, group and resource each, and one name if it has names; or one verb and path."""
    for path, verb in product(rule.paths, rule.verbs):
        yield PolicyRule((verb,), paths=(path,))
    names: list[tuple[str, ...]] = [(name,) for name in rule.names] or [()]
    for group, resource, name, verb in product(rule.groups, rule.resources, names, rule.verbs):
        yield PolicyRule((verb,), (group,), (resource,), name)


def count_parts(rules: Iterable[PolicyRule]) -> int:
    """How many `split_rule` would make of rules, each about resources or about paths."""
    return sum(
        len(rule.verbs) * (len(rule.paths) or len(rule.groups) * len(rule.resources) * max(1, len(rule.names)))
        for rule in rules
    )


def _describe(rule: PolicyRule) -> str:
    titles = ("APIGroups", "Resources", "ResourceNames", "NonResourceURLs")
    shown = [f"{title}:{quote_all(values)}" for title, (_, values) in zip(titles, _fields(rule), strict=True) if values]
    return "{" + ", ".join([*shown, f"Verbs:{quote_all(rule.verbs)}"]) + "}"


def quote_all(values: Iterable[str]) -> str:
    """As Go prints a list of quoted texts."""
    return "[" + " ".join(json.dumps(value, ensure_ascii=False) for value in values) + "]"
