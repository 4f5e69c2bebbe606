"""Which nodes a pod may go to, or prefers, by their labels and names.

A term holds if all its requirements do; of several required terms one must hold. A term without requirements holds
nowhere, and so does one that cannot be read: Kubernetes ignores it as well. `metadata.name` is the only field that can
be asked for, with `In` or `NotIn` and one value.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mainstay.api.labels import LabelSelector, Operator, Requirement, from_labels

_OPERATORS: Final = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
    "Gt": Operator.GREATER,
    "Lt": Operator.LESS,
}
_COMPARING: Final = (Operator.GREATER, Operator.LESS)
_OF_SETS: Final = (Operator.IN, Operator.NOT_IN)
NAME_FIELD: Final = "metadata.name"


class _Unreadable(Exception):
    """No node matches this term."""


@dataclass(frozen=True, slots=True)
class NameRequirement:
    name: str
    is_wanted: bool
    """Else any other name is."""


@dataclass(frozen=True, slots=True)
class NodeTerm:
    labels: tuple[Requirement, ...] = ()
    names: tuple[NameRequirement, ...] = ()

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        return all(each.matches(labels) for each in self.labels) and all(
            (each.name == name) is each.is_wanted for each in self.names
        )


@dataclass(frozen=True, slots=True)
class Preference:
    weight: int
    term: NodeTerm


@dataclass(frozen=True, slots=True)
class NodeRequirements:
    """What a pod's `nodeSelector` and required node affinity ask for together."""

    selector: LabelSelector
    terms: tuple[NodeTerm, ...] | None
    """None: there is no required affinity. Empty: there is one that no node can meet."""

    @property
    def is_empty(self) -> bool:
        return self.selector.is_empty and self.terms is None

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        if not self.selector.matches(labels):
            return False
        return self.terms is None or any(term.matches(name, labels) for term in self.terms)

    def find_values(self, key: str) -> tuple[str, ...] | None:
        """The only values that a label of the node may have, sorted. None: others may do, or nodes without it."""
        own = _find_values(self.selector.requirements, key)
        if self.terms is None:
            return None if own is None else tuple(sorted(own))
        found: set[str] = set()
        for term in self.terms:
            by_term = _find_values(term.labels, key)
            both = own if by_term is None else by_term if own is None else own & by_term
            if both is None:
                return None
            found |= both
        return tuple(sorted(found))

    @property
    def names(self) -> tuple[str, ...] | None:
        """If only named nodes can match, their names, sorted."""
        if self.terms is None:
            return None
        found: set[str] = set()
        for term in self.terms:
            wanted = {each.name for each in term.names if each.is_wanted}
            if not wanted:
                return None
            if len(wanted) == 1:
                found |= wanted
        return tuple(sorted(found))


def _find_values(requirements: Sequence[Requirement], key: str) -> set[str] | None:
    found: set[str] | None = None
    for each in requirements:
        if each.key == key and each.operator in (Operator.IN, Operator.EQUALS):
            found = set(each.values) if found is None else found & set(each.values)
    return found


def parse_requirements(spec: Mapping[str, Any]) -> NodeRequirements:
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    terms = None if affinity is None else _terms(affinity.get("nodeSelectorTerms") or ())
    return NodeRequirements(from_labels(spec.get("nodeSelector") or {}), terms)


def parse_preferences(spec: Mapping[str, Any]) -> tuple[Preference, ...]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    found = []
    for each in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
        for term in _terms((each.get("preference") or {},)) if each.get("weight") else ():
            found.append(Preference(each["weight"], term))
    return tuple(found)


def _terms(terms: Sequence[Mapping[str, Any]]) -> tuple[NodeTerm, ...]:
    found = []
    for term in terms:
        expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
        if not expressions and not fields:
            continue
        try:
            found.append(NodeTerm(tuple(map(_requirement, expressions)), tuple(map(_name, fields))))
        except _Unreadable:
            continue
    return tuple(found)


def _requirement(expression: Mapping[str, Any]) -> Requirement:
    operator = _OPERATORS.get(expression.get("operator") or "")
    values = tuple(sorted(set(expression.get("values") or ())))
    if operator is None:
        raise _Unreadable
    if operator in _OF_SETS:
        is_readable = bool(values)
    elif operator in _COMPARING:
        is_readable = len(values) == 1 and _is_integer(values[0])
    else:
        is_readable = not values
    if not is_readable:
        raise _Unreadable
    return Requirement(expression.get("key") or "", operator, values)


def _name(field: Mapping[str, Any]) -> NameRequirement:
    values: Sequence[str] = field.get("values") or ()
    if field.get("key") != NAME_FIELD or field.get("operator") not in ("In", "NotIn") or len(values) != 1:
        raise _Unreadable
    return NameRequirement(values[0], field["operator"] == "In")


def _is_integer(text: str) -> bool:
    digits = text[1:] if text[:1] in ("+", "-") else text
    return digits.isascii() and digits.isdigit()
