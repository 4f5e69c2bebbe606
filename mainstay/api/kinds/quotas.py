"""ResourceQuota and LimitRange."""

from collections.abc import Sequence

from mainstay.api import kind_names
from mainstay.api.errors import StatusCause, duplicate, invalid_value, not_supported, required
from mainstay.api.kind import STATUS, Object
from mainstay.api.kinds.amounts import check_amount
from mainstay.api.kinds.checks import check_qualified, invalid_json
from mainstay.api.kinds.declare import builtin, child, fill, own_status
from mainstay.api.quantity import parse

_STANDARD = frozenset(
    {"cpu", "memory", "ephemeral-storage", "storage", "pods", "services", "replicationcontrollers", "secrets"}
    | {"resourcequotas", "configmaps", "persistentvolumeclaims", "services.nodeports", "services.loadbalancers"}
)
_PREFIXES = ("requests.", "limits.", "count/")
_SCOPES = (
    *("BestEffort", "CrossNamespacePodAffinity", "NotBestEffort", "NotTerminating", "PriorityClass", "Terminating"),
    "VolumeAttributesClass",
)
_BOUNDS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def _default_quota(new: Object) -> None:
    child(new, "spec")


def _validate_quota(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    spec = new["spec"]
    for name, value in (spec.get("hard") or {}).items():
        path = f"spec.hard[{name}]"
        check_quota_name(name, path, causes)
        check_amount(value, path, causes)
    scopes = spec.get("scopes") or []
    for scope in scopes:
        if scope not in _SCOPES:
            causes.append(invalid_json("spec.scopes", scopes, "unsupported scope"))
    for one, other in (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")):
        if one in scopes and other in scopes:
            causes.append(invalid_json("spec.scopes", scopes, "conflicting scopes"))
    for number, wanted in enumerate((spec.get("scopeSelector") or {}).get("matchExpressions") or ()):
        here = f"spec.scopeSelector.matchExpressions[{number}]"
        if wanted.get("scopeName") not in _SCOPES:
            causes.append(not_supported(f"{here}.scopeName", wanted.get("scopeName") or "", _SCOPES))
        if wanted.get("operator") not in ("In", "NotIn", "Exists", "DoesNotExist"):
            causes.append(
                invalid_value(f"{here}.operator", wanted.get("operator") or "", "not a valid selector operator")
            )
    if old is not None and scopes != ((old.get("spec") or {}).get("scopes") or []):
        causes.append(invalid_json("spec.scopes", scopes, "field is immutable"))
    return causes


def check_quota_name(name: str, path: str, causes: list[StatusCause]) -> None:
    """Of something that can be counted: a standard resource, `requests.cpu`, `count/pods`, or one with a domain."""
    if name in _STANDARD or name.startswith(_PREFIXES):
        return
    if "/" in name:
        check_qualified(name, path, causes)
    elif "." not in name:
        detail = "must be a standard resource type or fully qualified"
        causes += [
            invalid_value(path, name, detail),
            invalid_value(path, name, "must be a standard resource for quota"),
        ]
    else:
        causes.append(invalid_value(path, name, "must be a standard resource for quota"))


def _default_limits(new: Object) -> None:
    spec = child(new, "spec")
    fill(spec, limits=[])
    for item in spec["limits"]:
        if item.get("type") == "Container":
            _default_container_limits(item)


def _default_container_limits(item: Object) -> None:
    """Where only the most is said, it is the default too. The default request is the least, or else the default."""
    for name, value in (item.get("max") or {}).items():
        child(item, "default").setdefault(name, value)
    for name, value in (item.get("default") or {}).items():
        if name not in (item.get("min") or {}):
            child(item, "defaultRequest").setdefault(name, value)
    for name, value in (item.get("min") or {}).items():
        child(item, "defaultRequest").setdefault(name, value)


def _validate_limits(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    seen: set[str] = set()
    for number, item in enumerate(new["spec"]["limits"]):
        here = f"spec.limits[{number}]"
        kind = item.get("type") or ""
        if not kind:
            causes.append(required(f"{here}.type"))
        if kind in seen:
            causes.append(duplicate(f"{here}.type", kind))
        seen.add(kind)
        found = len(causes)
        for bound in _BOUNDS:
            for name, value in (item.get(bound) or {}).items():
                check_amount(value, f"{here}.{bound}[{name}]", causes)
        if len(causes) == found:
            _check_order(item, here, causes)
    return causes


def _check_order(item: Object, here: str, causes: list[StatusCause]) -> None:
    """The least is at most the default request, that at most the default, that at most the most."""
    order = ("min", "defaultRequest", "default", "max")
    words = {"min": "min", "defaultRequest": "default request", "default": "default", "max": "max"}
    for low, lower in enumerate(order):
        for higher in order[low + 1 :]:
            for name, value in (item.get(lower) or {}).items():
                limit = (item.get(higher) or {}).get(name)
                if limit is not None and parse(value) > parse(limit):
                    detail = f"{words[lower]} value {value} is greater than {words[higher]} value {limit}"
                    causes.append(invalid_value(f"{here}.{lower}[{name}]", value, detail))


RESOURCE_QUOTA = builtin(
    kind_names.RESOURCE_QUOTAS,
    short_names=("quota",),
    subresources=(STATUS,),
    defaults=_default_quota,
    prepare=own_status(),
    validate=_validate_quota,
    has_generation=False,
    delete_returns_object=True,
)

LIMIT_RANGE = builtin(
    kind_names.LIMIT_RANGES,
    short_names=("limits",),
    defaults=_default_limits,
    validate=_validate_limits,
    has_generation=False,
    put_creates=True,
)

KINDS = (RESOURCE_QUOTA, LIMIT_RANGE)
