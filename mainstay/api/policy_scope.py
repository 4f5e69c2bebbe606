"""Which pods a PlacementPolicy applies to, and which of several policies a pod goes by: plain functions over values.

A scope names namespaces (or one tenant, which is a namespace), labels of the pod, priority classes, zones and regions.
What it does not name it does not restrict: an empty scope selects every pod. A pod is *in* a zone or region by what it
requires: if its node selector, or each term of its required node affinity, allows only zones that the scope names. So
whether a policy applies follows from the pod alone, at any time and in any replay, and one decision is never made by
two policies that weigh nodes differently.

    scope: {namespaces: [risk], selector: {matchLabels: {app: risk-api}}, regions: [eu-central]}

Of several active policies whose scopes select a pod, the most specific one applies (`specificity`). Two that are
equally specific must not select the same pod: the API server refuses to activate the second (`overlap`).

A share of the workloads in a scope, by a hash of the pod's owner, would be one more restriction here, and the first
number of `specificity`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.labels import EVERYTHING, LabelSelector, Operator, from_object

_WIDEST: Final = -1_000_000  # What a list that is absent counts as: wider than any list.


@dataclass(frozen=True, slots=True)
class PolicyScope:
    """An empty part restricts nothing. Lists are sorted."""

    selector: LabelSelector = EVERYTHING
    priority_classes: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScopedPod:
    """What scopes look at in a pod."""

    namespace: str
    labels: Mapping[str, str]
    priority_class: str
    zones: tuple[str, ...] | None
    """The only zones that it may run in; None if it does not say."""
    regions: tuple[str, ...] | None


def parse_scope(policy: Object) -> PolicyScope | None:
    """The scope of a PlacementPolicy. None: it has none, and applies where a scheduler names it."""
    scope: Mapping[str, Any] | None = (policy.get("spec") or {}).get("scope")
    if scope is None:
        return None
    tenant = scope.get("tenant")
    return PolicyScope(
        selector=from_object(scope.get("selector") or {}),
        priority_classes=_listed(scope, "priorityClasses"),
        zones=_listed(scope, "zones"),
        regions=_listed(scope, "regions"),
        namespaces=(tenant,) if tenant else _listed(scope, "namespaces"),
    )


def is_active(policy: Object) -> bool:
    """Whether decisions go by it: it is active, and not about to be removed."""
    return bool((policy.get("spec") or {}).get("active")) and "deletionTimestamp" not in policy["metadata"]


def selects(scope: PolicyScope, pod: ScopedPod) -> bool:
    return (
        (not scope.namespaces or pod.namespace in scope.namespaces)
        and (not scope.priority_classes or pod.priority_class in scope.priority_classes)
        and (not scope.zones or _is_within(pod.zones, scope.zones))
        and (not scope.regions or _is_within(pod.regions, scope.regions))
        and scope.selector.matches(pod.labels)
    )


def specificity(scope: PolicyScope) -> tuple[int, ...]:
    """Larger is more specific. Parts are compared in this order, and the first difference decides: labels (more
    requirements), priority classes, zones, regions, namespaces (a shorter list; no list is the widest).

    A scope that restricts more, or the same to fewer values, is always the larger one."""
    lists = (scope.priority_classes, scope.zones, scope.regions, scope.namespaces)
    return (len(scope.selector.requirements), *(-len(each) if each else _WIDEST for each in lists))


def overlap(one: PolicyScope, other: PolicyScope) -> bool:
    """Whether there can be a pod that both select."""
    pairs = (
        (one.namespaces, other.namespaces),
        (one.priority_classes, other.priority_classes),
        (one.zones, other.zones),
        (one.regions, other.regions),
    )
    if any(left and right and not set(left) & set(right) for left, right in pairs):
        return False
    return _is_satisfiable(one.selector, other.selector)


def _is_satisfiable(one: LabelSelector, other: LabelSelector) -> bool:
    """Whether some labels match both selectors: key by key, because requirements are of one key each."""
    requirements = (*one.requirements, *other.requirements)
    for key in dict.fromkeys(each.key for each in requirements):
        allowed: set[str] | None = None
        forbidden: set[str] = set()
        must_exist = must_be_absent = False
        for each in requirements:
            if each.key != key:
                continue
            match each.operator:
                case Operator.DOES_NOT_EXIST:
                    must_be_absent = True
                case Operator.EXISTS:
                    must_exist = True
                case Operator.NOT_IN | Operator.NOT_EQUALS:
                    forbidden |= set(each.values)
                case _:
                    must_exist = True
                    allowed = set(each.values) if allowed is None else allowed & set(each.values)
        if (must_exist and must_be_absent) or (allowed is not None and not allowed - forbidden):
            return False
    return True


def _is_within(required: tuple[str, ...] | None, named: tuple[str, ...]) -> bool:
    return bool(required) and all(each in named for each in required or ())


def _listed(scope: Mapping[str, Any], field: str) -> tuple[str, ...]:
    return tuple(sorted(set(scope.get(field) or ())))
