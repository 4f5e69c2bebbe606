"""Mainstay's own kinds, group mainstay.dev/v1.

No message describes their fields, so that they may grow: what is known is looked at here, other fields are kept as they
are. The spec is what is wanted and the status what has come of it. A ComponentState, in which a component says how
far it has come, has only a status.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mainstay.api import kind_names, policy_rollout
from mainstay.api.errors import StatusCause, forbidden_value, invalid_value, not_supported, required
from mainstay.api.kind import STATUS, Kind, Object, no_defaults
from mainstay.api.kind_name import KindName
from mainstay.api.kinds.amounts import check_amount
from mainstay.api.kinds.checks import check_qualified, check_selector, check_subdomain, wrong_type
from mainstay.api.kinds.declare import child, declare, fill, own_status, set_status
from mainstay.api.policy_names import (
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    OPTIONAL_FILTERS,
    REQUIRED_FILTERS,
    RESOURCES,
    SCORES,
    WEIGHT_MAX,
)
from mainstay.api.quantity import canonical
from mainstay.api.reservations import ReservationPhase, read_phase, reservation_name
from mainstay.api.times import SECONDS_MAX, parse_time

_PERCENT_MAX = 100
_SKEW_MAX = 2**31 - 1
_SAMPLES_MAX = 100_000
_PORT_MAX = 65_535
_PORTS_MAX = 50  # Of one reservation: all of them are in the ledger of its node.
_PROTOCOLS = ("SCTP", "TCP", "UDP")

Check = Callable[[Any, str, list[StatusCause]], None]


def _text(value: Any, path: str, causes: list[StatusCause]) -> None:
    if not isinstance(value, str):
        causes.append(wrong_type(path, value, "string"))


def _name(value: Any, path: str, causes: list[StatusCause]) -> None:
    if not isinstance(value, str):
        causes.append(wrong_type(path, value, "string"))
    else:
        check_subdomain(value, path, "", causes)


def _truth(value: Any, path: str, causes: list[StatusCause]) -> None:
    if not isinstance(value, bool):
        causes.append(wrong_type(path, value, "boolean"))


def _number(least: int, most: int | None = None) -> Check:
    def check(value: Any, path: str, causes: list[StatusCause]) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            causes.append(wrong_type(path, value, "integer"))
        elif value < least:
            causes.append(invalid_value(path, value, f"must be greater than or equal to {least}"))
        elif most is not None and value > most:
            causes.append(invalid_value(path, value, f"must be less than or equal to {most}"))

    return check


def _moment(value: Any, path: str, causes: list[StatusCause]) -> None:
    if not isinstance(value, str):
        causes.append(wrong_type(path, value, "string"))
        return
    try:
        parse_time(value)
    except ValueError as problem:
        causes.append(invalid_value(path, value, str(problem)))


def _amounts(value: Any, path: str, causes: list[StatusCause]) -> None:
    if not isinstance(value, dict):
        causes.append(wrong_type(path, value, "object"))
        return
    for name, amount in value.items():
        check_amount(amount, f"{path}[{name}]", causes)


def _selector(value: Any, path: str, causes: list[StatusCause]) -> None:
    if not isinstance(value, dict):
        causes.append(wrong_type(path, value, "object"))
    else:
        check_selector(value, path, causes)


def _numbers(value: Any, path: str, causes: list[StatusCause], *, least: int = 0, most: int) -> None:
    """A map from names to numbers, such as weights."""
    if not isinstance(value, dict):
        causes.append(wrong_type(path, value, "object"))
        return
    for name, number in value.items():
        _number(least, most)(number, f"{path}[{name}]", causes)


def _check_each(one: Check) -> Check:
    def check(value: Any, path: str, causes: list[StatusCause]) -> None:
        if not isinstance(value, list):
            causes.append(wrong_type(path, value, "array"))
            return
        for number, each in enumerate(value):
            one(each, f"{path}[{number}]", causes)

    return check


def _object(wanted: Sequence[str] = (), **fields: Check) -> Check:
    """An object with some known fields, of which some must be there. Others are kept and not looked at."""

    def check(value: Any, path: str, causes: list[StatusCause]) -> None:
        if not isinstance(value, dict):
            causes.append(wrong_type(path, value, "object"))
            return
        for name in wanted:
            if value.get(name) in (None, "", [], {}):
                causes.append(required(f"{path}.{name}"))
        for name, look in fields.items():
            if value.get(name) is not None:
                look(value[name], f"{path}.{name}", causes)

    return check


def _host_ports(value: Any, path: str, causes: list[StatusCause]) -> None:
    _check_each(_object(("hostPort",), hostPort=_number(1, _PORT_MAX), hostIP=_text, protocol=_protocol))(
        value, path, causes
    )
    if isinstance(value, list) and len(value) > _PORTS_MAX:
        causes.append(invalid_value(path, len(value), f"must have at most {_PORTS_MAX} ports"))


def _protocol(value: Any, path: str, causes: list[StatusCause]) -> None:
    if value not in _PROTOCOLS:
        causes.append(not_supported(path, value, _PROTOCOLS))


def _requests(value: Any, path: str, causes: list[StatusCause]) -> None:
    """Amounts of what pods ask for. What they are limited to says nothing about the room that they take."""
    _amounts(value, path, causes)
    for name in value if isinstance(value, dict) else ():
        if name.startswith("limits."):
            causes.append(forbidden_value(f"{path}[{name}]", "must be a resource that pods request"))


# Room that is held on a node for one pod of a workload, until it is used or the time is over. There is at most one for
# a workload, generation and intent: a retry finds the first, because its name follows from them.
_RESERVATION = _object(
    ("nodeName", "workload", "intent", "resources", "expiresAt"),
    nodeName=_name,
    workload=_object(("kind", "name", "uid"), apiVersion=_text, kind=_text, name=_text, uid=_text),
    generation=_number(0),
    intent=_text,
    pod=_object(("name",), name=_text, uid=_text),
    gang=_text,
    resources=_amounts,
    ports=_host_ports,
    expiresAt=_moment,
)
_RESERVATION_FIXED = ("nodeName", "workload", "generation", "intent", "gang", "resources", "ports")

# How much the pods of a namespace may use in one zone.
_ZONE_QUOTA = _object(("zone", "hard"), zone=_text, hard=_requests)


def _closed(check: Check, *fields: str) -> Check:
    """An object without other fields: a misspelt one would make it mean something else, such as a wider scope."""

    def closed(value: Any, path: str, causes: list[StatusCause]) -> None:
        check(value, path, causes)
        for name in value if isinstance(value, dict) else ():
            if name not in fields:
                causes.append(forbidden_value(f"{path}.{name}", f"unknown field; known fields: {', '.join(fields)}"))

    return closed


def _policy_scope(value: Any, path: str, causes: list[StatusCause]) -> None:
    _closed(_POLICY_SCOPE, "namespaces", "selector", "priorityClasses", "zones", "regions", "tenant")(
        value, path, causes
    )
    if isinstance(value, dict) and value.get("tenant") and value.get("namespaces"):
        causes.append(forbidden_value(f"{path}.tenant", "a tenant is a namespace: use either tenant or namespaces"))


def _scores(value: Any, path: str, causes: list[StatusCause]) -> None:
    _numbers(value, path, causes, most=WEIGHT_MAX)
    if not isinstance(value, dict):
        return
    for name in value:
        if name not in SCORES:
            causes.append(not_supported(f"{path}[{name}]", name, SCORES))
    if value.get(LEAST_ALLOCATED) and value.get(MOST_ALLOCATED):
        detail = f"{LEAST_ALLOCATED} and {MOST_ALLOCATED} contradict each other: give a weight to one of them"
        causes.append(forbidden_value(f"{path}[{MOST_ALLOCATED}]", detail))


def _filters(value: Any, path: str, causes: list[StatusCause]) -> None:
    if not isinstance(value, dict):
        causes.append(wrong_type(path, value, "object"))
        return
    for name, is_on in value.items():
        if name in REQUIRED_FILTERS:
            detail = f"this filter is always on; optional filters: {', '.join(OPTIONAL_FILTERS)}"
            causes.append(forbidden_value(f"{path}[{name}]", detail))
        elif name not in OPTIONAL_FILTERS:
            causes.append(not_supported(f"{path}[{name}]", name, OPTIONAL_FILTERS))
        _truth(is_on, f"{path}[{name}]", causes)


def _resource_weights(value: Any, path: str, causes: list[StatusCause]) -> None:
    _numbers(value, path, causes, least=1, most=WEIGHT_MAX)
    for name in value if isinstance(value, dict) else ():
        if "/" in name:
            check_qualified(name, f"{path}[{name}]", causes)
        elif name not in RESOURCES and not name.startswith("hugepages-"):
            causes.append(not_supported(f"{path}[{name}]", name, (*RESOURCES, "an extended resource (domain/name)")))


_POLICY_SCOPE = _object(
    (),
    namespaces=_check_each(_name),
    selector=_selector,
    priorityClasses=_check_each(_name),
    zones=_check_each(_text),
    regions=_check_each(_text),
    tenant=_name,
)


def _limit(value: Any, path: str, causes: list[StatusCause]) -> None:
    fields = _object((), percent=_number(1, _PERCENT_MAX), scope=_policy_scope)
    _closed(fields, "percent", "scope")(value, path, causes)
    if isinstance(value, dict) and (value.get("percent") is None) == (value.get("scope") is None):
        causes.append(invalid_value(path, ", ".join(sorted(value)) or "{}", "must have either percent or scope"))


_PLACEMENT_POLICY = _closed(
    _object(
        ("policyVersion",),
        policyVersion=_text,
        scope=_policy_scope,
        active=_truth,
        limit=_limit,
        shadow=_closed(_object(("percent",), percent=_number(1, _PERCENT_MAX)), "percent"),
        maxZoneSkew=_number(1, _SKEW_MAX),
        filters=_filters,
        scores=_scores,
        resources=_resource_weights,
    ),
    *("policyVersion", "scope", "active", "limit", "shadow", "maxZoneSkew", "filters", "scores", "resources"),
)

_STAGE = _closed(
    _object(
        ("name",),
        name=_name,
        shadowPercent=_number(1, _PERCENT_MAX),
        percent=_number(1, _PERCENT_MAX),
        scope=_policy_scope,
        holdSeconds=_number(0, SECONDS_MAX),
    ),
    *("name", "shadowPercent", "percent", "scope", "holdSeconds"),
)
_GATE = _closed(
    _object(
        (),
        minSamples=_number(1, _SAMPLES_MAX),
        significancePercent=_number(1, 50),
        maxIncreasePercent=_number(0, _PERCENT_MAX),
        boundWithinSeconds=_number(1, SECONDS_MAX),
        maxShadowDifferentPercent=_number(0, _PERCENT_MAX),
        maxShadowUnplacedPercent=_number(0, _PERCENT_MAX),
    ),
    *policy_rollout.GATE_DEFAULTS,
)
_POLICY_ROLLOUT = _closed(
    _object(
        ("policy",),
        policy=_name,
        previous=_name,
        paused=_truth,
        aborted=_truth,
        stages=_check_each(_STAGE),
        freshnessSeconds=_number(policy_rollout.FRESHNESS_S_MIN, SECONDS_MAX),
        deadlineSeconds=_number(1, SECONDS_MAX),
        gate=_GATE,
    ),
    *("policy", "previous", "paused", "aborted", "stages", "freshnessSeconds", "deadlineSeconds", "gate"),
)

_COMPONENT_STATE = _object((), component=_text)


def _validator(
    name: KindName, spec: Check, fixed: Sequence[str] = (), *, needs_spec: bool = True
) -> Callable[[Object, Object | None], Sequence[StatusCause]]:
    def validate(new: Object, old: Object | None) -> Sequence[StatusCause]:
        causes: list[StatusCause] = []
        if new.get("spec") is None and needs_spec:
            return [required("spec")]
        if new.get("spec") is not None:
            spec(new["spec"], "spec", causes)
        if new.get("status") is not None and not isinstance(new["status"], dict):
            causes.append(wrong_type("status", new["status"], "object"))
        if old is not None and not causes:
            was = old.get("spec") or {}
            for field in fixed:
                if new["spec"].get(field) != was.get(field):
                    causes.append(forbidden_value(f"spec.{field}", f"field is immutable; create another {name.kind}"))
        return causes

    return validate


def _validate_policy(new: Object, old: Object | None) -> Sequence[StatusCause]:
    """What a version says does not change under those who decide by it: once it was active, only how far it is rolled
    out changes."""
    causes = list(_PLACEMENT_VALID(new, old))
    if not causes:
        causes += _check_stage(new["spec"])
        _check_lists(new["spec"], (old or {}).get("spec") or {}, "spec", causes)
    if old is None or causes or not _was_active(old):
        return causes
    spec, was = new["spec"], old.get("spec") or {}
    for field in sorted({*spec, *was}):
        if field not in _ROLLED_OUT_BY and spec.get(field) != was.get(field):
            version = was.get("policyVersion")
            detail = f"version {version} has been active and is immutable: create a new PlacementPolicy"
            causes.append(forbidden_value(f"spec.{field}", detail))
    if not (new.get("status") or {}).get("wasActive"):
        causes.append(forbidden_value("status.wasActive", "the API server sets it when the policy becomes active"))
    return causes


def _check_lists(spec: Mapping[str, Any], was: Mapping[str, Any], path: str, causes: list[StatusCause]) -> None:
    """Refuse an empty list in a scope: it would read as "none", and means "all". One that was stored before this check
    stays, or its policy could not be deactivated."""
    for field in ("scope", "limit"):
        value: Any = spec.get(field)
        if value is None or value == was.get(field):
            continue
        if field == "limit":
            _check_lists(value, {}, f"{path}.{field}", causes)
            continue
        for name in ("namespaces", "priorityClasses", "zones", "regions"):
            if value.get(name) == []:
                detail = "must not be empty: list what the scope selects, or remove the field to select all"
                causes.append(invalid_value(f"{path}.{field}.{name}", [], detail))


def _check_stage(spec: Mapping[str, Any]) -> list[StatusCause]:
    """How far a policy is rolled out."""
    causes = []
    for field in ("limit", "shadow"):
        if spec.get(field) is not None and spec.get("scope") is None:
            causes.append(
                forbidden_value(f"spec.{field}", "the policy has no scope: add scope: {}, which selects all pods")
            )
    if spec.get("shadow") is not None and spec.get("active"):
        causes.append(forbidden_value("spec.shadow", "the policy is active: remove shadow, or deactivate it"))
    return causes


def _was_active(policy: Object | None) -> bool:
    """Whether it is active, or has been."""
    if policy is None:
        return False
    spec, status = policy.get("spec"), policy.get("status") or {}
    return bool(status.get("wasActive")) or (isinstance(spec, dict) and spec.get("active") is True)


def _prepare_policy(new: Object, old: Object | None) -> None:
    """Note in the status that a version has been active, which it stays noted for."""
    set_status(new, old)
    if _was_active(new) or _was_active(old):
        new["status"] = {**(new.get("status") or {}), "wasActive": True}


_PLACEMENT_VALID = _validator(kind_names.PLACEMENT_POLICIES, _PLACEMENT_POLICY)
_ROLLED_OUT_BY = ("active", "limit", "shadow")


def _default_amounts(*fields: str) -> Callable[[Object], None]:
    """Write amounts in canonical form. The decoder has not, because no message says where they are."""

    def defaults(new: Object) -> None:
        spec = new.get("spec")
        for field in fields:
            amounts = spec.get(field) if isinstance(spec, dict) else None
            if isinstance(amounts, dict):
                for name, value in amounts.items():
                    try:
                        amounts[name] = canonical(value)
                    except ValueError:
                        continue  # Validation will say so.

    return defaults


def _default_reservation(new: Object) -> None:
    """Its name follows from what it is for; it holds the place of one pod; and it goes with its workload."""
    _default_amounts("resources")(new)
    spec, metadata = new.get("spec"), child(new, "metadata")
    if not isinstance(spec, dict) or not isinstance(spec.get("workload"), dict):
        return  # Validation will say so.
    fill(spec, generation=0)
    if isinstance(spec.get("resources"), dict) and spec["resources"]:
        fill(spec["resources"], pods="1")
    workload = spec["workload"]
    if not metadata.get("name") and not metadata.get("generateName"):
        metadata["name"] = _read_name(spec)
    owner = {field: workload.get(field) for field in ("apiVersion", "kind", "name", "uid")}
    if not metadata.get("ownerReferences") and all(isinstance(each, str) and each for each in owner.values()):
        metadata["ownerReferences"] = [owner]


def _read_name(spec: Mapping[str, Any]) -> str:
    return reservation_name(spec["workload"], spec.get("generation") or 0, str(spec.get("intent") or ""))


def _validate_reservation(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes = list(_RESERVATION_VALID(new, old))
    if causes:
        return causes
    name = _read_name(new["spec"])
    if old is None and new["metadata"].get("name") != name:
        detail = f"must be {name}, which follows from the workload's uid, the generation and the intent"
        causes.append(invalid_value("metadata.name", new["metadata"].get("name") or "", detail))
    phase = (new.get("status") or {}).get("phase") or ReservationPhase.ACTIVE
    if phase not in list(ReservationPhase):
        causes.append(not_supported("status.phase", phase, list(ReservationPhase)))
    elif old is not None and phase != read_phase(old):
        if read_phase(old) is not ReservationPhase.ACTIVE:
            causes.append(
                forbidden_value("status.phase", f"the phase of a reservation that is {read_phase(old)} cannot change")
            )
        elif phase == ReservationPhase.CONFIRMED:
            causes.append(forbidden_value("status.phase", "a reservation can only be confirmed by binding its pod"))
    return causes


_RESERVATION_VALID = _validator(kind_names.RESERVATIONS, _RESERVATION, _RESERVATION_FIXED)


def _default_active(new: Object) -> None:
    spec = child(new, "spec")
    if isinstance(spec, dict):
        fill(spec, active=False)


def _default_rollout(new: Object) -> None:
    """Write out what holds if nothing is said, so that users read it in the object."""
    spec: Any = child(new, "spec")
    if not isinstance(spec, dict):
        return  # Validation will say so.
    fill(spec, **policy_rollout.DEFAULTS, stages=[dict(each) for each in policy_rollout.DEFAULT_STAGES])
    for stage in spec["stages"] if isinstance(spec["stages"], list) else ():
        if isinstance(stage, dict):
            fill(stage, holdSeconds=policy_rollout.HOLD_S)
    gate: Any = child(spec, "gate")
    if isinstance(gate, dict):
        fill(gate, **policy_rollout.GATE_DEFAULTS)


def _validate_rollout(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes = list(_ROLLOUT_VALID(new, old))
    if not causes:
        policy_rollout.check_rollout(new["spec"], causes)
        for number, stage in enumerate(new["spec"].get("stages") or () if old is None else ()):
            _check_lists(stage, {}, f"spec.stages[{number}]", causes)
    return causes


_ROLLOUT_VALID = _validator(kind_names.POLICY_ROLLOUTS, _POLICY_ROLLOUT, ("policy", "previous", "stages"))


def _own(
    name: KindName,
    validate: Callable[[Object, Object | None], Sequence[StatusCause]],
    defaults: Callable[[Object], None] = no_defaults,
    status: Callable[[], Object] = dict,
    **rest: Any,
) -> Kind:
    rest.setdefault("prepare", own_status(status))
    return declare(name, categories=("mainstay",), subresources=(STATUS,), defaults=defaults, validate=validate, **rest)


def _place(reservation: Mapping[str, Any]) -> str:
    spec = reservation.get("spec")
    node = spec.get("nodeName") if isinstance(spec, dict) else None
    return node if isinstance(node, str) else ""


RESERVATION = _own(
    kind_names.RESERVATIONS,
    _validate_reservation,
    _default_reservation,
    lambda: {"phase": str(ReservationPhase.ACTIVE)},
    short_names=("rsv",),
    selectable={"spec.nodeName": _place},
)
ZONE_QUOTA = _own(
    kind_names.ZONE_QUOTAS,
    _validator(kind_names.ZONE_QUOTAS, _ZONE_QUOTA, ("zone",)),
    _default_amounts("hard"),
    short_names=("zq",),
)
PLACEMENT_POLICY = _own(kind_names.PLACEMENT_POLICIES, _validate_policy, _default_active, prepare=_prepare_policy)
POLICY_ROLLOUT = _own(kind_names.POLICY_ROLLOUTS, _validate_rollout, _default_rollout)
COMPONENT_STATE = _own(
    kind_names.COMPONENT_STATES, _validator(kind_names.COMPONENT_STATES, _COMPONENT_STATE, needs_spec=False)
)

KINDS = (RESERVATION, ZONE_QUOTA, PLACEMENT_POLICY, POLICY_ROLLOUT, COMPONENT_STATE)
