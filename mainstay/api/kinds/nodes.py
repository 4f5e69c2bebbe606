"""Node, and the classes of runtimes that nodes offer."""

from collections.abc import Sequence
from ipaddress import ip_network

from mainstay.api import kind_names
from mainstay.api.errors import StatusCause, duplicate, forbidden_value, invalid_value, not_supported, required
from mainstay.api.ip_addresses import find_special
from mainstay.api.kind import STATUS, Object, Subresource
from mainstay.api.kinds.amounts import check_amounts
from mainstay.api.kinds.checks import check_immutable, check_label, check_port, check_qualified, check_selector
from mainstay.api.kinds.declare import builtin, child, flag_at, set_status
from mainstay.api.kinds.placement import EFFECTS, check_tolerations
from mainstay.api.names import label_value
from mainstay.api.well_known_labels import NOT_READY_TAINT

_NOT_READY = {"key": NOT_READY_TAINT, "effect": "NoSchedule"}
_NODE_INFO = (
    *("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion"),
    *("kubeProxyVersion", "operatingSystem", "architecture"),
)


def _default_node(new: Object) -> None:
    child(new, "spec")
    status = child(new, "status")
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])
    # Go has no way to leave these out, and clients have come to expect them.
    endpoints = child(status, "daemonEndpoints")
    endpoint = child(endpoints, "kubeletEndpoint")
    if endpoint.get("Port") is None:
        endpoint["Port"] = 0
    info = child(status, "nodeInfo")
    for name in _NODE_INFO:
        if info.get(name) is None:
            info[name] = ""


def _prepare_node(new: Object, old: Object | None) -> None:
    """A node comes with its status, which it alone knows. It gets no pods before it was observed to be ready."""
    if old is not None:
        set_status(new, old)
    else:
        spec = new["spec"]
        taints = spec.get("taints") or []
        if not any((t.get("key"), t.get("effect")) == (_NOT_READY["key"], _NOT_READY["effect"]) for t in taints):
            spec["taints"] = [*taints, dict(_NOT_READY)]


def _validate_node(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    spec, status = new["spec"], new["status"]
    seen: set[tuple[str, str]] = set()
    for number, taint in enumerate(spec.get("taints") or ()):
        _check_taint(taint, f"spec.taints[{number}]", seen, causes)
    for name in ("capacity", "allocatable"):
        if status.get(name):
            check_amounts(status[name], f"status.{name}", causes)
    addresses: set[tuple[str | None, str | None]] = set()
    for number, address in enumerate(status.get("addresses") or ()):
        shown = (address.get("type"), address.get("address"))
        if shown in addresses:
            causes.append(duplicate(f"status.addresses[{number}]", address.get("address")))
        addresses.add(shown)
        if problem := find_special(shown[1] or ""):
            causes.append(invalid_value(f"status.addresses[{number}].address", shown[1], problem))
    port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port") or 0
    if port:  # Without an agent that serves it is 0.
        check_port(port, "status.daemonEndpoints.kubeletEndpoint.Port", causes)
    _check_subnets(spec, (old or {}).get("spec") or {}, causes)
    if old is not None:
        was = old.get("spec") or {}
        if was.get("providerID") and spec.get("providerID") != was["providerID"]:
            detail = 'node updates may not change providerID except from "" to valid'
            causes.append(forbidden_value("spec.providerID", detail))
        for field in ("podCIDR", "podCIDRs"):
            if was.get(field) and spec.get(field) != was[field]:
                detail = 'node updates may not change podCIDR except from "" to valid'
                causes.append(forbidden_value(f"spec.{field}", detail))
    return causes


def _check_subnets(spec: Object, was: Object, causes: list[StatusCause]) -> None:
    alone, listed = spec.get("podCIDR"), spec.get("podCIDRs") or []
    if (alone, listed) == (was.get("podCIDR"), was.get("podCIDRs") or []):
        return
    for number, subnet in enumerate(listed or ([alone] if alone else [])):
        try:
            ip_network(subnet, strict=False)
        except ValueError:
            detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
            causes.append(invalid_value(f"spec.podCIDRs[{number}]", subnet, detail))
    if alone and listed and listed[0] != alone:
        causes.append(invalid_value("spec.podCIDRs[0]", listed[0], "must be equal to `podCIDR`"))


def _check_taint(taint: Object, path: str, seen: set[tuple[str, str]], causes: list[StatusCause]) -> None:
    key, effect = taint.get("key") or "", taint.get("effect") or ""
    check_qualified(key, f"{path}.key", causes)
    value = taint.get("value")
    if value:
        causes.extend(invalid_value(f"{path}.value", value, problem) for problem in label_value(value))
    if not effect:
        causes.append(required(f"{path}.effect"))
    elif effect not in EFFECTS:
        causes.append(not_supported(f"{path}.effect", effect, EFFECTS))
    if (key, effect) in seen:
        causes.append(duplicate(path, f"{key}:{effect}"))
    seen.add((key, effect))


def _validate_runtime_class(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    handler = new.get("handler") or ""
    if not handler:
        causes.append(required("handler"))
    else:
        check_label(handler, "", "handler", causes)
    overhead = (new.get("overhead") or {}).get("podFixed")
    if overhead:
        check_amounts(overhead, "overhead.podFixed", causes)
    scheduling = new.get("scheduling") or {}
    if scheduling.get("nodeSelector"):
        check_selector({"matchLabels": scheduling["nodeSelector"]}, "scheduling.nodeSelector", causes)
    if scheduling.get("tolerations"):
        check_tolerations(scheduling["tolerations"], "scheduling.tolerations", causes)
    if old is not None:
        check_immutable(new, old, "handler", "", causes)
    return causes


NODE = builtin(
    kind_names.NODES,
    short_names=("no",),
    subresources=(
        # Pods that were removed by force and may still run: ours (server/placement/ghosts.py).
        Subresource("ghosts", ("get", "update"), "mainstay.dev", "v1", "NodeGhosts"),
        # Recounts its ledger: ours, too (server/placement/ledger/recount.py).
        Subresource("recount", ("create",), "mainstay.dev", "v1", "NodeRecount"),
        Subresource("proxy", ("create", "delete", "get", "patch", "update"), kind="NodeProxyOptions"),
        STATUS,
    ),
    defaults=_default_node,
    prepare=_prepare_node,
    validate=_validate_node,
    selectable={"spec.unschedulable": flag_at("spec", "unschedulable")},
    has_generation=False,
)

RUNTIME_CLASS = builtin(
    kind_names.RUNTIME_CLASSES, validate=_validate_runtime_class, has_generation=False, put_needs_version=True
)

KINDS = (NODE, RUNTIME_CLASS)
