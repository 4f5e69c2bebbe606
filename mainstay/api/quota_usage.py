"""What an object takes of a namespace's quotas: plain functions, by the rules of Kubernetes.

A ResourceQuota limits names, and an object has an amount of some of them: every object one of `count/PLURAL.GROUP`; a
pod `pods`, `requests.cpu` (also called `cpu`), `limits.memory` and so on until it has ended; a Service its node ports
and load balancers; a claim its storage. A quota with scopes is about some pods only.

Amounts are sums over the spec, and nothing else: an object takes the same as long as its spec and, for a pod, whether
it has ended stay the same. A pod that is being resized takes what its spec asks for.

The server refuses by these functions, and `plan` counts by them before anything is sent.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from mainstay.api.kind import Kind, Object
from mainstay.api.kinds.pods import qos_class
from mainstay.api.pod_resources import is_over
from mainstay.api.quantity import ZERO, Quantity, parse

Resource = tuple[str, str]
"""Of what kind an object is: group and plural."""
Amounts = dict[str, Quantity]

PODS: Final = ("", "pods")
SERVICES: Final = ("", "services")
CLAIMS: Final = ("", "persistentvolumeclaims")
QUOTAS: Final = ("", "resourcequotas")
_MEASURED: Final = (PODS, SERVICES, CLAIMS)
# Kinds that had a name to be counted by before there was `count/`.
_OLD_NAMES: Final = ("configmaps", "replicationcontrollers", "resourcequotas", "secrets")
_NOT_COUNTED: Final = (("", "events"), ("events.k8s.io", "events"))  # There would be no end to them, as in Kubernetes.

_COUNT: Final = "count/"
_REQUESTS, _LIMITS = "requests.", "limits."
_STANDARD: Final = ("cpu", "memory", "ephemeral-storage")
_HUGE_PAGES: Final = "hugepages-"
_BY_CLASS: Final = ".storageclass.storage.k8s.io/"
_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
# A quota for one of these wants every container to say how much it needs. An old mistake that clients rely on.
_MUST_BE_SAID: Final = ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")

# What of a pod's spec decides what it takes, and in which scopes it is.
_PARTS: Final = (
    *("containers", "initContainers", "overhead", "resources", "activeDeadlineSeconds", "priorityClassName"),
    "affinity",
)

_ONE: Final = Quantity(10**9)
_NOTHING: Final[Mapping[str, Any]] = {}
_decode = msgspec.json.Decoder().decode


class QuotaTerm(msgspec.Struct, frozen=True):
    """A condition for an object to be one that a quota is about."""

    scope: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()


def parse_terms(quota: Object) -> tuple[QuotaTerm, ...]:
    """All must hold."""
    spec = quota.get("spec") or _NOTHING
    selector = (spec.get("scopeSelector") or _NOTHING).get("matchExpressions") or ()
    plain = [QuotaTerm(scope) for scope in spec.get("scopes") or ()]
    told = [QuotaTerm(each["scopeName"], each["operator"], tuple(each.get("values") or ())) for each in selector]
    return (*plain, *told)


def is_counted(kind: Kind) -> bool:
    """Whether quotas can be about a kind at all."""
    return kind.namespaced and (kind.group, kind.plural) not in _NOT_COUNTED


def may_take_other(resource: Resource, new: Object, old: Object) -> bool:
    """Whether an update could change what an object takes. Costs little where it could not."""
    if resource not in _MEASURED:
        return False
    if resource == PODS and is_over(new) != is_over(old):
        return True
    spec, before = new.get("spec") or _NOTHING, old.get("spec") or _NOTHING
    if resource == CLAIMS:
        return spec != before or new.get("status") != old.get("status")
    if resource == PODS:
        # A write of the status has the same spec, in bytes. A binding changes nothing of this.
        return spec is not before and any(spec.get(part) != before.get(part) for part in _PARTS)
    return bool(spec != before)


def count_usage(resource: Resource, obj: Object) -> Amounts:
    """What an object takes of each name."""
    group, plural = resource
    used = {f"{_COUNT}{plural}.{group}" if group else f"{_COUNT}{plural}": _ONE}
    if not group and plural in _OLD_NAMES:
        used[plural] = _ONE
    if resource == PODS:
        used |= _of_pod(obj)
    elif resource == SERVICES:
        used |= _of_service(obj.get("spec") or _NOTHING)
    elif resource == CLAIMS:
        used |= _of_claim(obj)
    return used


def resources_behind(names: Iterable[str]) -> list[Resource]:
    """The kinds of which objects take some of these names, sorted."""
    found: dict[Resource, None] = {}
    for name in names:
        if name.startswith(_COUNT):
            plural, _, group = name.removeprefix(_COUNT).partition(".")
            found[group, plural] = None
        elif name.startswith("services"):
            found[SERVICES] = None
        elif name in ("persistentvolumeclaims", "requests.storage") or _BY_CLASS in name:
            found[CLAIMS] = None
        elif name in _OLD_NAMES:
            found["", name] = None
        else:
            found[PODS] = None
    return sorted(each for each in found if each not in _NOT_COUNTED)


def needs_reading(resource: Resource) -> bool:
    """Whether an object of this kind takes more than to be one."""
    return resource in _MEASURED


def is_about(terms: Iterable[QuotaTerm], resource: Resource, obj: Object) -> bool:
    """Whether an object is one that a quota with these scopes is about."""
    return all(_holds(term, resource, obj) for term in terms)


def find_missing(names: Iterable[str], pod: Object) -> dict[str, list[str]]:
    """What a pod's containers have to say for a quota over these names, and do not: by resource, the containers."""
    spec = _spec(pod)
    said_of_pod = spec.get("resources") or _NOTHING
    if any(said_of_pod.get(field) for field in ("requests", "limits")):
        return {}
    wanted = [name for name in sorted(names) if name in _MUST_BE_SAID]
    missing: dict[str, list[str]] = {}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container.get("resources") or _NOTHING
        said = _named(_read(resources.get("requests")), _read(resources.get("limits")))
        for name in wanted:
            if name not in said:
                missing.setdefault(name, []).append(container.get("name", ""))
    return {name: sorted(missing[name]) for name in wanted if name in missing}


# Pods.


def _of_pod(pod: Object) -> Amounts:
    if is_over(pod):
        return {}
    spec = _spec(pod)
    return {"pods": _ONE, **_named(_sum_requests(spec, "requests"), _sum_requests(spec, "limits"))}


def _spec(pod: Object) -> Mapping[str, Any]:
    """A write of the status leaves the spec as it is stored."""
    spec = pod.get("spec") or _NOTHING
    return _decode(spec) if isinstance(spec, msgspec.Raw) else spec


def _named(requests: Amounts, limits: Amounts) -> Amounts:
    """By the names that quotas have for them."""
    found: Amounts = {}
    for name, amount in requests.items():
        if name in _STANDARD or name.startswith(_HUGE_PAGES):
            found[name] = amount
            found[_REQUESTS + name] = amount
        elif "/" in name:
            found[_REQUESTS + name] = amount
    for name, amount in limits.items():
        if name in _STANDARD:
            found[_LIMITS + name] = amount
    return found


def _sum_requests(spec: Mapping[str, Any], field: str) -> Amounts:
    """The larger of what runs in the end and what runs at each step of the start, or what is said of the whole pod."""
    total: Amounts = {}
    for container in spec.get("containers") or ():
        _add(total, _said(container, field))
    sidecars: Amounts = {}
    largest: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = _said(container, field)
        if container.get("restartPolicy") == "Always":
            _add(total, own)
            _add(sidecars, own)
            own = dict(sidecars)
        else:
            _add(own, sidecars)
        _raise_to(largest, own)
    _raise_to(total, largest)
    for name, amount in _read((spec.get("resources") or _NOTHING).get(field)).items():
        if name in ("cpu", "memory") or name.startswith(_HUGE_PAGES):
            total[name] = amount
    for name, amount in _read(spec.get("overhead")).items():
        if field == "requests" or total.get(name):  # Without a limit there is nothing to add to.
            total[name] = total.get(name, ZERO) + amount
    return total


def _said(container: Mapping[str, Any], field: str) -> Amounts:
    return _read((container.get("resources") or _NOTHING).get(field))


def _read(amounts: Mapping[str, Any] | None) -> Amounts:
    return {name: parse(amount) for name, amount in (amounts or _NOTHING).items()}


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def _raise_to(total: Amounts, least: Amounts) -> None:
    for name, amount in least.items():
        if name not in total or amount > total[name]:
            total[name] = amount


# Services and claims.


def _of_service(spec: Mapping[str, Any]) -> Amounts:
    kind, ports = spec.get("type"), spec.get("ports") or ()
    outside = 0
    if kind == "NodePort" or (kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts", True)):
        outside = len(ports)
    elif kind == "LoadBalancer":
        outside = sum(1 for port in ports if port.get("nodePort"))
    return {
        "services": _ONE,
        "services.nodeports": Quantity(outside * _ONE.nano),
        "services.loadbalancers": _ONE if kind == "LoadBalancer" else ZERO,
    }


def _of_claim(claim: Object) -> Amounts:
    spec = claim.get("spec") or _NOTHING
    asked = ((spec.get("resources") or _NOTHING).get("requests") or _NOTHING).get("storage")
    used = {"persistentvolumeclaims": _ONE}
    if asked is not None:
        allocated = _allocated(claim)
        amount = parse(asked) if allocated is None else max(parse(asked), parse(allocated))
        used["requests.storage"] = Quantity(amount.to_int() * _ONE.nano, amount.format)
    annotations = claim["metadata"].get("annotations") or _NOTHING
    storage_class = annotations.get(_CLASS_ANNOTATION) or spec.get("storageClassName")
    if storage_class:
        used |= {f"{storage_class}{_BY_CLASS}{name}": amount for name, amount in used.items()}
    return used


def _allocated(claim: Object) -> Any:
    return ((claim.get("status") or _NOTHING).get("allocatedResources") or _NOTHING).get("storage")


# Scopes.


def _holds(term: QuotaTerm, resource: Resource, obj: Object) -> bool:
    if resource == CLAIMS and term.scope == "VolumeAttributesClass":
        return _is_selected(term, _attribute_classes(obj))
    if resource != PODS:
        return False
    spec = _spec(obj)
    match term.scope:
        case "Terminating":
            return _has_deadline(spec)
        case "NotTerminating":
            return not _has_deadline(spec)
        case "BestEffort":
            return qos_class(dict(spec)) == "BestEffort"
        case "NotBestEffort":
            return qos_class(dict(spec)) != "BestEffort"
        case "PriorityClass":
            name = spec.get("priorityClassName")
            return _is_selected(term, [name] if name else [])
        case "CrossNamespacePodAffinity":
            return _looks_elsewhere(spec)
        case _:
            return False


def _has_deadline(spec: Mapping[str, Any]) -> bool:
    return (spec.get("activeDeadlineSeconds") or -1) >= 0


def _is_selected(term: QuotaTerm, found: list[str]) -> bool:
    match term.operator:
        case "Exists":
            return bool(found)
        case "DoesNotExist":
            return not found
        case "In":
            return any(each in term.values for each in found)
        case "NotIn":
            return not found or any(each not in term.values for each in found)
        case _:
            return False


def _attribute_classes(claim: Object) -> list[str]:
    spec, status = claim.get("spec") or _NOTHING, claim.get("status") or _NOTHING
    wanted = (status.get("modifyVolumeStatus") or _NOTHING).get("targetVolumeAttributesClassName")
    names = (spec.get("volumeAttributesClassName"), status.get("currentVolumeAttributesClassName"), wanted)
    return [name for name in names if name]


def _looks_elsewhere(spec: Mapping[str, Any]) -> bool:
    """Whether a pod asks about pods of other namespaces."""
    affinity = spec.get("affinity") or _NOTHING
    for field in ("podAffinity", "podAntiAffinity"):
        said = affinity.get(field) or _NOTHING
        terms = list(said.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        preferred = said.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [each.get("podAffinityTerm") or _NOTHING for each in preferred]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False
