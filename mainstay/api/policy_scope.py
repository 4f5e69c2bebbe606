"""Which pods a PlacementPolicy applies to, and which of several policies a pod goes by: plain functions over values.

A scope names namespaces (or one tenant, which is a namespace), labels of the pod, priority classes, zones and regions.
What it does not name it does not restrict: an empty scope selects every pod. A pod is *in* a zone or region by what it
requires: if its node selector, or each term of its required node affinity, allows only zones that the scope names. So
whether a policy applies follows from the pod alone, at any time and in any replay, and one decision is never made by
two policies that weigh nodes differently.

    scope: {namespaces: [risk], selector: {matchLabels: {app: risk-api}}, regions: [eu-central]}

Of several active policies whose scopes select a pod, the most specific one applies (`specificity`). Two that are
equally specific must not select the same pod: the API server refuses to activate the second (`overlap`).

A policy may be limited to a part of its scope, while it is rolled out: to a share of the workloads in it, or to the
pods that a second scope selects as well.

    limit: {percent: 10}                 limit: {scope: {tenant: canary}}

The share goes by a hash of the policy's name and the workload, so that all pods of a workload go by one policy, in all
revisions of a Deployment, and a larger share contains the smaller one. Of two policies with equally specific scopes
the limited one is the more specific: a candidate takes its share from the version before it and no pod from policies
with narrower scopes, at each stage as it will at the end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.labels import EVERYTHING, LabelSelector, Operator, from_object
from mainstay.api.owners import find_controller
from mainstay.api.well_known_labels import HASH_LABEL

_WIDEST: Final = -1_000_000  # What a list that is absent counts as: wider than any list.
_BUCKETS: Final = 10_000


@dataclass(frozen=True, slots=True)
class WorkloadShare:
    """So many percent of the workloads, as one policy divides them."""

    policy: str
    percent: int


@dataclass(frozen=True, slots=True)
class PolicyScope:
    """An empty part restricts nothing. Lists are sorted."""

    selector: LabelSelector = EVERYTHING
    priority_classes: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    limit: "PolicyScope | WorkloadShare | None" = None


@dataclass(frozen=True, slots=True)
class ScopedPod:
    """What scopes look at in a pod."""

    namespace: str
    labels: Mapping[str, str]
    priority_class: str
    zones: tuple[str, ...] | None
    """The only zones that it may run in; None if it does not say."""
    regions: tuple[str, ...] | None
    workload: str = ""
    """Names its workload, as `find_workload` does."""


def parse_scope(policy: Object) -> PolicyScope | None:
    """The scope of a PlacementPolicy. None: it has none, and applies where a scheduler names it."""
    spec: Mapping[str, Any] = policy.get("spec") or {}
    if spec.get("scope") is None:
        return None
    limit = spec.get("limit") or {}
    if limit.get("scope") is not None:
        return _parse(spec["scope"], _parse(limit["scope"]))
    if limit.get("percent") is not None:
        return _parse(spec["scope"], WorkloadShare(policy["metadata"]["name"], limit["percent"]))
    return _parse(spec["scope"])


def _parse(scope: Mapping[str, Any], limit: PolicyScope | WorkloadShare | None = None) -> PolicyScope:
    tenant = scope.get("tenant")
    return PolicyScope(
        selector=from_object(scope.get("selector") or {}),
        priority_classes=_listed(scope, "priorityClasses"),
        zones=_listed(scope, "zones"),
        regions=_listed(scope, "regions"),
        namespaces=(tenant,) if tenant else _listed(scope, "namespaces"),
        limit=limit,
    )


def find_workload(pod: Object) -> str:
    """The workload that a pod belongs to: namespace, kind and name of the owner that controls it. All ReplicaSets of a
    Deployment are one workload, and a pod that no owner controls is its own."""
    metadata = pod["metadata"]
    owner, namespace = find_controller(pod), metadata.get("namespace") or ""
    if owner is None:
        return f"{namespace}/Pod/{metadata['name']}"
    name = str(owner.get("name") or "")
    template = (metadata.get("labels") or {}).get(HASH_LABEL)
    if template and owner.get("kind") == "ReplicaSet":
        name = name.removesuffix(f"-{template}")
    return f"{namespace}/{owner.get('kind') or ''}/{name}"


def is_active(policy: Object) -> bool:
    """Whether decisions go by it: it is active, and not about to be removed."""
    return bool((policy.get("spec") or {}).get("active")) and "deletionTimestamp" not in policy["metadata"]


def find_shadow_percent(policy: Object) -> int:
    """Of how many percent of the decisions it is tried out on, without effect; 0: it is not in shadow."""
    spec: Mapping[str, Any] = policy.get("spec") or {}
    if spec.get("active") or "deletionTimestamp" in policy["metadata"]:
        return 0
    return int((spec.get("shadow") or {}).get("percent") or 0)


def selects(scope: PolicyScope, pod: ScopedPod) -> bool:
    return (
        (not scope.namespaces or pod.namespace in scope.namespaces)
        and (not scope.priority_classes or pod.priority_class in scope.priority_classes)
        and (not scope.zones or _is_within(pod.zones, scope.zones))
        and (not scope.regions or _is_within(pod.regions, scope.regions))
        and scope.selector.matches(pod.labels)
        and (scope.limit is None or _is_within_limit(scope.limit, pod))
    )


def has_workload(share: WorkloadShare, workload: str) -> bool:
    """Whether a workload is in the share."""
    return is_in_share(share.policy, workload, share.percent)


def is_in_share(policy: str, name: str, percent: int) -> bool:
    """Whether what has this name is among so many percent, as a policy divides them. What is in a share is also in each
    larger one of the same policy."""
    digest = blake2b(f"{policy}\0{name}".encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) % _BUCKETS * 100 < percent * _BUCKETS


def specificity(scope: PolicyScope) -> tuple[int, ...]:
    """Larger is more specific. Parts are compared in this order, and the first difference decides: labels (more
    requirements), priority classes, zones, regions, namespaces (a shorter list; no list is the widest), a limit.

    A scope that restricts more, or the same to fewer values, is always the larger one."""
    lists = (scope.priority_classes, scope.zones, scope.regions, scope.namespaces)
    found = (-len(each) if each else _WIDEST for each in lists)
    return (len(scope.selector.requirements), *found, int(scope.limit is not None))


def overlap(one: PolicyScope, other: PolicyScope) -> bool:
    """Whether there can be a pod that both select. In the shares of two policies there can always be the same
    workload."""
    all_of = (*_with_limit(one), *_with_limit(other))
    for lists in (
        [each.namespaces for each in all_of],
        [each.priority_classes for each in all_of],
        [each.zones for each in all_of],
        [each.regions for each in all_of],
    ):
        named = [set(each) for each in lists if each]
        if named and not set.intersection(*named):
            return False
    return _is_satisfiable([each.selector for each in all_of])


def _with_limit(scope: PolicyScope) -> tuple[PolicyScope, ...]:
    return (scope, scope.limit) if isinstance(scope.limit, PolicyScope) else (scope,)


def _is_within_limit(limit: PolicyScope | WorkloadShare, pod: ScopedPod) -> bool:
    return has_workload(limit, pod.workload) if isinstance(limit, WorkloadShare) else selects(limit, pod)


def _is_satisfiable(selectors: Sequence[LabelSelector]) -> bool:
    """Whether some labels match all selectors: key by key, because requirements are of one key each."""
    requirements = [each for selector in selectors for each in selector.requirements]
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
