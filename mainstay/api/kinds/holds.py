"""The kind Hold, `mainstay.dev/v1`: an operator pauses something. What it means is in mainstay/api/holds.py.

    spec:
      what: Rollout
      target: {kind: Deployment, namespace: shop, name: web}
      owner: anna
      reason: the new version loses orders
      expiresAt: 2026-01-01T12:00:00Z

What is held stays the same for as long as the Hold is there, so that a Hold never becomes another one; who answers for
it, why and until when may change. That it ends in time, by the server's clock, is seen to when it is committed
(server/placement/holds.py): nothing here knows what time it is.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from mainstay.api import kind_names, names
from mainstay.api.errors import StatusCause, forbidden_value, invalid_value, not_supported, required, too_long
from mainstay.api.holds import HoldScope
from mainstay.api.kind import STATUS, Object
from mainstay.api.kinds.declare import at, declare, fill, own_status
from mainstay.api.times import canonical_time, parse_time

TEXT_LENGTH_MAX: Final = 500
"""Of a reason or an owner. Users read it in error messages."""
_DEPLOYMENT: Final = "Deployment"
_FIXED: Final = ("what", "target")
_TARGET_FIELDS: Final[Mapping[HoldScope, tuple[str, ...]]] = {
    HoldScope.CONTROLLER: ("name",),
    HoldScope.EVICTIONS: ("namespace",),
    HoldScope.ROLLOUT: ("kind", "name", "namespace"),
}
_NEEDED: Final[Mapping[HoldScope, tuple[str, ...]]] = {
    HoldScope.CONTROLLER: ("name",),
    HoldScope.EVICTIONS: (),
    HoldScope.ROLLOUT: ("namespace", "name"),
}


def _defaults(new: Object) -> None:
    spec = new.get("spec")
    if not isinstance(spec, dict):
        return  # Validation will say so.
    if spec.get("what") == HoldScope.EVICTIONS and spec.get("target") is None:
        spec["target"] = {}
    if spec.get("what") == HoldScope.ROLLOUT and isinstance(spec.get("target"), dict):
        fill(spec["target"], kind=_DEPLOYMENT)
    until = spec.get("expiresAt")
    if isinstance(until, str):
        with suppress(ValueError):  # Validation will say so.
            spec["expiresAt"] = canonical_time(until)


def _validate(new: Object, old: Object | None) -> Sequence[StatusCause]:
    spec = new.get("spec")
    if spec is None:
        return [required("spec")]
    if not isinstance(spec, dict):
        return [invalid_value("spec", spec, "must be an object")]
    causes: list[StatusCause] = []
    for field in ("owner", "reason"):
        _check_text(spec.get(field), f"spec.{field}", causes)
    _check_time(spec.get("expiresAt"), causes)
    what = spec.get("what")
    if not what:
        causes.append(required("spec.what"))
    elif what not in list(HoldScope):
        causes.append(not_supported("spec.what", what, list(HoldScope)))
    else:
        _check_target(HoldScope(what), spec.get("target"), causes)
    if new.get("status") is not None and not isinstance(new["status"], dict):
        causes.append(invalid_value("status", new["status"], "must be an object"))
    if old is not None and not causes:
        was = old.get("spec") or {}
        for field in _FIXED:
            if spec.get(field) != was.get(field):
                causes.append(forbidden_value(f"spec.{field}", "field is immutable; create another Hold"))
    return causes


def _check_text(value: Any, path: str, causes: list[StatusCause]) -> None:
    if not isinstance(value, str) or not value.strip():
        detail = "must name who is responsible for the Hold" if path.endswith("owner") else "must say why"
        causes.append(required(path, detail) if value in (None, "") else invalid_value(path, value, detail))
    elif len(value) > TEXT_LENGTH_MAX:
        causes.append(too_long(path, f"may not be more than {TEXT_LENGTH_MAX} characters"))
    elif not value.isprintable():
        causes.append(invalid_value(path, value, "must be one line of text"))


def _check_time(value: Any, causes: list[StatusCause]) -> None:
    path = "spec.expiresAt"
    if value in (None, ""):
        causes.append(required(path, "a Hold must expire"))
        return
    try:
        parse_time(str(value))
    except ValueError as problem:
        causes.append(invalid_value(path, value, str(problem)))


def _check_target(what: HoldScope, target: Any, causes: list[StatusCause]) -> None:
    path = "spec.target"
    if target is None:
        causes.append(required(path))
        return
    if not isinstance(target, dict):
        causes.append(invalid_value(path, target, "must be an object"))
        return
    for field in sorted(target):
        if field not in _TARGET_FIELDS[what]:
            causes.append(forbidden_value(f"{path}.{field}", f"not supported for {what}"))
    for field in _NEEDED[what]:
        if not target.get(field):
            causes.append(required(f"{path}.{field}"))
    for field, rule in (("namespace", names.label), ("name", names.subdomain)):
        value = target.get(field)
        if value in (None, "") or field not in _TARGET_FIELDS[what]:
            continue
        if not isinstance(value, str):
            causes.append(invalid_value(f"{path}.{field}", value, "must be a string"))
        else:
            causes.extend(invalid_value(f"{path}.{field}", value, problem) for problem in rule(value))
    if what is HoldScope.ROLLOUT and target.get("kind") != _DEPLOYMENT:
        causes.append(not_supported(f"{path}.kind", target.get("kind"), (_DEPLOYMENT,)))


HOLD: Final = declare(
    kind_names.HOLDS,
    categories=("mainstay",),
    subresources=(STATUS,),
    defaults=_defaults,
    prepare=own_status(dict),
    validate=_validate,
    selectable={
        "spec.what": at("spec", "what"),
        "spec.owner": at("spec", "owner"),
        "spec.target.name": at("spec", "target", "name"),
        "spec.target.namespace": at("spec", "target", "namespace"),
    },
)

KINDS: Final = (HOLD,)
