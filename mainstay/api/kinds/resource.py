"""Devices: what there is (ResourceSlice), what kinds of it (DeviceClass), and who asks for it (ResourceClaim)."""

from collections.abc import Sequence

from mainstay.api import kind_names
from mainstay.api.errors import StatusCause, duplicate, invalid_value, not_supported, required
from mainstay.api.kind import STATUS, Object
from mainstay.api.kinds.checks import check_immutable, check_label, check_subdomain, invalid_json, too_many
from mainstay.api.kinds.declare import at, builtin, child, own_status

_REQUESTS_MAX = 32
_DEVICES_MAX = 128
_PLACES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")


def _default_spec(spec: Object) -> None:
    for request in child(spec, "devices").get("requests") or ():
        exactly = request.get("exactly")
        if exactly is not None:
            _default_count(exactly)
        for choice in request.get("firstAvailable") or ():
            _default_count(choice)


def _default_count(request: Object) -> None:
    if not request.get("allocationMode"):
        request["allocationMode"] = "ExactCount"
    if request["allocationMode"] == "ExactCount" and not request.get("count"):
        request["count"] = 1
    for toleration in request.get("tolerations") or ():
        if not toleration.get("operator"):
            toleration["operator"] = "Equal"


def _default_claim(new: Object) -> None:
    _default_spec(child(new, "spec"))


def _default_template(new: Object) -> None:
    _default_spec(child(child(new, "spec"), "spec"))


def _check_spec(spec: Object, path: str, causes: list[StatusCause]) -> None:
    requests = (spec.get("devices") or {}).get("requests") or ()
    if len(requests) > _REQUESTS_MAX:
        causes.append(too_many(f"{path}.devices.requests", len(requests), _REQUESTS_MAX))
    seen: set[str] = set()
    for number, request in enumerate(requests):
        here = f"{path}.devices.requests[{number}]"
        name = request.get("name")
        if not name:
            causes.append(required(f"{here}.name"))
        else:
            check_label(name, here, ".name", causes)
            if name in seen:
                causes.append(duplicate(f"{here}.name", name))
            seen.add(name)
        exactly, choices = request.get("exactly"), request.get("firstAvailable")
        if bool(exactly) == bool(choices):
            detail = "exactly one of `exactly` or `firstAvailable` is required"
            causes.append(required(here, detail) if not exactly else invalid_json(here, request, detail))
        elif exactly:
            _check_request(exactly, f"{here}.exactly", causes)
        for index, choice in enumerate(choices or ()):
            _check_request(choice, f"{here}.firstAvailable[{index}]", causes)


def _check_request(request: Object, here: str, causes: list[StatusCause]) -> None:
    if not request.get("deviceClassName"):
        causes.append(required(f"{here}.deviceClassName"))
    else:
        check_subdomain(request["deviceClassName"], here, ".deviceClassName", causes)
    mode, count = request.get("allocationMode"), request.get("count") or 0
    if mode not in ("All", "ExactCount"):
        causes.append(not_supported(f"{here}.allocationMode", mode, ("All", "ExactCount")))
    elif mode == "ExactCount" and count <= 0:
        causes.append(invalid_value(f"{here}.count", count, "must be greater than zero"))
    elif mode == "All" and count:
        causes.append(invalid_value(f"{here}.count", count, "must not be specified when allocationMode is 'All'"))


def _validate_claim(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    _check_spec(new["spec"], "spec", causes)
    if old is not None:
        check_immutable(new, old, "spec", "", causes)
    return causes


def _validate_template(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    _check_spec(new["spec"]["spec"], "spec.spec", causes)
    if old is not None:
        check_immutable(new, old, "spec", "", causes)
    return causes


def _default_class(new: Object) -> None:
    child(new, "spec")


def _validate_slice(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    spec = new.get("spec") or {}
    if not spec.get("driver"):
        causes.append(required("spec.driver"))
    else:
        check_subdomain(spec["driver"], "spec", ".driver", causes)
    if not (spec.get("pool") or {}).get("name"):
        causes.append(required("spec.pool.name"))
    given = [name for name in _PLACES if spec.get(name)]
    if len(given) != 1:
        words = ", ".join(f"`{name}`" for name in _PLACES[:-1]) + f" or `{_PLACES[-1]}`"
        detail = f"exactly one of {words} is required"
        causes.append(required("spec", detail) if not given else invalid_json("spec", given, detail))
    devices = spec.get("devices") or ()
    if len(devices) > _DEVICES_MAX:
        causes.append(too_many("spec.devices", len(devices), _DEVICES_MAX))
    seen: set[str] = set()
    for number, device in enumerate(devices):
        name = device.get("name") or ""
        check_label(name, f"spec.devices[{number}]", ".name", causes)
        if name in seen:
            causes.append(duplicate(f"spec.devices[{number}].name", name))
        seen.add(name)
    if old is not None:
        was = old.get("spec") or {}
        check_immutable(spec, was, "driver", "spec", causes)
        check_immutable(spec, was, "nodeName", "spec", causes)
    return causes


DEVICE_CLASS = builtin(kind_names.DEVICE_CLASSES, defaults=_default_class)
RESOURCE_CLAIM = builtin(
    kind_names.RESOURCE_CLAIMS,
    subresources=(STATUS,),
    defaults=_default_claim,
    prepare=own_status(),
    validate=_validate_claim,
    has_generation=False,
)
RESOURCE_CLAIM_TEMPLATE = builtin(
    kind_names.RESOURCE_CLAIM_TEMPLATES, defaults=_default_template, validate=_validate_template, has_generation=False
)
RESOURCE_SLICE = builtin(
    kind_names.RESOURCE_SLICES,
    validate=_validate_slice,
    selectable={"spec.nodeName": at("spec", "nodeName"), "spec.driver": at("spec", "driver")},
)

KINDS = (DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, RESOURCE_SLICE)
