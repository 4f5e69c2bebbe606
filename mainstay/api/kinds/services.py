"""Service, and where it leads: Endpoints and EndpointSlice. Addresses are given out by the server, not here."""

from collections.abc import Sequence
from ipaddress import ip_address

from mainstay.api import kind_names
from mainstay.api.errors import StatusCause, duplicate, forbidden_value, invalid_value, not_supported, required
from mainstay.api.ip_addresses import NOT_AN_ADDRESS, check_target
from mainstay.api.kind import STATUS, Object, Subresource
from mainstay.api.kinds.checks import (
    PROTOCOLS,
    check_immutable,
    check_label,
    check_labels,
    check_one_of,
    check_port,
    check_port_or_name,
    check_subdomain,
    port_name_problems,
    too_many,
)
from mainstay.api.kinds.declare import at, builtin, child, fill, set_status

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_AFFINITIES = ("ClientIP", "None")
_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_STICKY_S_DEFAULT = 10_800
_ENDPOINTS_MAX = 1000
_SLICE_PORTS_MAX = 20_000
_ADDRESSES_MAX = 100


def _default_service(new: Object) -> None:
    spec = child(new, "spec")
    if not spec.get("sessionAffinity"):
        spec["sessionAffinity"] = "None"
    if spec["sessionAffinity"] == "ClientIP":
        fill(child(child(spec, "sessionAffinityConfig"), "clientIP"), timeoutSeconds=_STICKY_S_DEFAULT)
    if not spec.get("type"):
        spec["type"] = "ClusterIP"
    for port in spec.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.get("port") or 0
    kind = spec["type"]
    if kind in ("NodePort", "LoadBalancer"):
        if not spec.get("externalTrafficPolicy"):
            spec["externalTrafficPolicy"] = "Cluster"
        if kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is None:
            spec["allocateLoadBalancerNodePorts"] = True
    if kind != "ExternalName":
        fill(spec, internalTrafficPolicy="Cluster", ipFamilies=["IPv4"], ipFamilyPolicy="SingleStack")


def _prepare_service(new: Object, old: Object | None) -> None:
    set_status(new, old, lambda: {"loadBalancer": {}})
    if old is None:
        return
    spec, was = new["spec"], old.get("spec") or {}
    _drop_what_the_old_type_had(spec, was)
    # Who replaces a service without naming its addresses wants to keep them: clients know that they may leave them out.
    if spec.get("type") != "ExternalName" and was.get("type") != "ExternalName":
        for field in ("clusterIP", "clusterIPs", "ipFamilies"):
            if not spec.get(field) and was.get(field):
                spec[field] = was[field]
    if spec.get("type") in ("NodePort", "LoadBalancer") and was.get("type") in ("NodePort", "LoadBalancer"):
        taken = {(port.get("protocol"), port.get("port")): port.get("nodePort") for port in was.get("ports") or ()}
        for port in spec.get("ports") or ():
            kept = taken.get((port.get("protocol"), port.get("port")))
            if kept and not port.get("nodePort"):
                port["nodePort"] = kept


_EXTERNAL = ("LoadBalancer", "NodePort")


def _drop_what_the_old_type_had(spec: Object, was: Object) -> None:
    """Who changes the type and nothing else cannot mean to keep what the new type may not have."""
    kind, before = spec.get("type"), was.get("type")
    if kind == "ExternalName" and before != "ExternalName" and spec.get("clusterIP") == was.get("clusterIP"):
        for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"):
            if spec.get(field) == was.get(field):
                spec.pop(field, None)
    if before in _EXTERNAL and kind not in _EXTERNAL:
        if _node_ports(spec) == _node_ports(was):
            for port in spec.get("ports") or ():
                port.pop("nodePort", None)
        if spec.get("externalTrafficPolicy") == was.get("externalTrafficPolicy"):
            spec.pop("externalTrafficPolicy", None)
    if before == "LoadBalancer" and kind != "LoadBalancer":
        for field in ("allocateLoadBalancerNodePorts", "healthCheckNodePort", "loadBalancerClass"):
            if spec.get(field) == was.get(field):
                spec.pop(field, None)


def _node_ports(spec: Object) -> list[int]:
    return sorted(port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort"))


def _validate_service(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    spec = new["spec"]
    kind = spec.get("type")
    ports = spec.get("ports") or []
    is_headless = spec.get("clusterIP") == "None"
    if not ports and not is_headless and kind != "ExternalName":
        causes.append(required("spec.ports"))
    if kind not in _TYPES:
        causes.append(not_supported("spec.type", kind, _TYPES))
    if is_headless and kind in ("LoadBalancer", "NodePort"):
        causes.append(invalid_value("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services"))
    if kind == "ExternalName":
        name = spec.get("externalName") or ""
        if not name:
            causes.append(required("spec.externalName"))
        else:
            check_subdomain(name.removesuffix("."), "spec", ".externalName", causes)
        if spec.get("clusterIP"):
            detail = "may not be set when `type` is 'ExternalName'"
            causes.append(forbidden_value("spec.clusterIP", detail))
    check_one_of(spec, "sessionAffinity", _AFFINITIES, "spec", causes)
    _check_service_ports(ports, kind, causes)
    if spec.get("selector"):
        check_labels(spec["selector"], "spec.selector", causes)
    _check_given_address(spec, causes)
    for field in ("externalTrafficPolicy", "internalTrafficPolicy"):
        if spec.get(field):
            check_one_of(spec, field, ("Cluster", "Local"), "spec", causes)
    for number, address in enumerate(spec.get("externalIPs") or ()):
        check_target(address, f"spec.externalIPs[{number}]", causes)
    if old is not None:
        was = old.get("spec") or {}
        keeps_address = was.get("clusterIP") and "ExternalName" not in (kind, was.get("type"))
        if keeps_address and spec.get("clusterIP") != was["clusterIP"]:
            shown = spec.get("clusterIP") or ""
            causes.append(invalid_value("spec.clusterIPs[0]", shown, "may not change once set"))
    return causes


def _check_given_address(spec: Object, causes: list[StatusCause]) -> None:
    address = spec.get("clusterIP")
    listed = spec.get("clusterIPs") or []
    if address and address != "None":
        _check_address(address, "spec.clusterIPs[0]", causes)
    if listed and listed[0] != (address or ""):
        causes.append(invalid_value("spec.clusterIPs[0]", listed[0], "first value must match `clusterIP`"))


def _check_service_ports(ports: Sequence[Object], kind: object, causes: list[StatusCause]) -> None:
    names: set[str] = set()
    taken: set[tuple[object, object]] = set()
    for number, port in enumerate(ports):
        here = f"spec.ports[{number}]"
        name = port.get("name") or ""
        if not name and len(ports) > 1:
            causes.append(required(f"{here}.name"))
        elif name:
            check_label(name, here, ".name", causes)
            if name in names:
                causes.append(duplicate(f"{here}.name", name))
            names.add(name)
        check_port(port.get("port") or 0, f"{here}.port", causes)
        if port.get("protocol") not in PROTOCOLS:
            causes.append(not_supported(f"{here}.protocol", port.get("protocol"), PROTOCOLS))
        check_port_or_name(port.get("targetPort"), f"{here}.targetPort", causes)
        outside = port.get("nodePort")
        if outside:
            if kind == "ClusterIP":
                causes.append(forbidden_value(f"{here}.nodePort", "may not be used when `type` is 'ClusterIP'"))
            check_port(outside, f"{here}.nodePort", causes)
        this = (port.get("protocol"), port.get("port"))
        if this in taken:
            causes.append(duplicate(here, f"{this[0]}/{this[1]}"))
        taken.add(this)


def _check_address(address: object, path: str, causes: list[StatusCause]) -> None:
    try:
        ip_address(str(address))
    except ValueError:
        causes.append(invalid_value(path, address, NOT_AN_ADDRESS))


def _default_endpoints(new: Object) -> None:
    for subset in new.get("subsets") or ():
        for port in subset.get("ports") or ():
            if not port.get("protocol"):
                port["protocol"] = "TCP"


def _validate_endpoints(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    for number, subset in enumerate(new.get("subsets") or ()):
        here = f"subsets[{number}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            causes.append(required(here, "must specify `addresses` or `notReadyAddresses`"))
        for field in ("addresses", "notReadyAddresses"):
            for index, address in enumerate(subset.get(field) or ()):
                check_target(address.get("ip") or "", f"{here}.{field}[{index}].ip", causes)
        ports = subset.get("ports") or ()
        for index, port in enumerate(ports):
            path = f"{here}.ports[{index}]"
            if not port.get("name") and len(ports) > 1:
                causes.append(required(f"{path}.name"))
            elif port.get("name"):
                check_label(port["name"], path, ".name", causes)
            check_port(port.get("port") or 0, f"{path}.port", causes)
            if port.get("protocol") not in PROTOCOLS:
                causes.append(not_supported(f"{path}.protocol", port.get("protocol"), PROTOCOLS))
    return causes


def _default_slice(new: Object) -> None:
    fill(new, addressType="", endpoints=[], ports=[])
    for endpoint in new["endpoints"]:
        fill(endpoint, addresses=[], conditions={})
    for port in new["ports"]:
        fill(port, name="", protocol="TCP")


def _validate_slice(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    kind = new["addressType"]
    if not kind:
        causes.append(required("addressType"))
    elif kind not in _ADDRESS_TYPES:
        causes.append(not_supported("addressType", kind, _ADDRESS_TYPES))
    if old is not None:
        check_immutable(new, old, "addressType", "", causes)
    if len(new["endpoints"]) > _ENDPOINTS_MAX:
        causes.append(too_many("endpoints", len(new["endpoints"]), _ENDPOINTS_MAX))
    for number, endpoint in enumerate(new["endpoints"]):
        here = f"endpoints[{number}].addresses"
        addresses = endpoint["addresses"]
        if not addresses:
            causes.append(required(here, "must contain at least 1 address"))
        elif len(addresses) > _ADDRESSES_MAX:
            causes.append(too_many(here, len(addresses), _ADDRESSES_MAX))
        for index, address in enumerate(addresses):
            _check_slice_address(kind, address, f"{here}[{index}]", causes)
    if len(new["ports"]) > _SLICE_PORTS_MAX:
        causes.append(too_many("ports", len(new["ports"]), _SLICE_PORTS_MAX))
    names: set[str] = set()
    for number, port in enumerate(new["ports"]):
        name = port["name"]
        if name:
            causes += [invalid_value(f"ports[{number}].name", name, problem) for problem in port_name_problems(name)]
        if name in names:
            causes.append(duplicate(f"ports[{number}].name", name))
        names.add(name)
        if port["protocol"] not in PROTOCOLS:
            causes.append(not_supported(f"ports[{number}].protocol", port["protocol"], PROTOCOLS))
    return causes


def _check_slice_address(kind: str, address: str, path: str, causes: list[StatusCause]) -> None:
    if kind == "FQDN":
        check_subdomain(address, path, "", causes)
        return
    try:
        found = f"IPv{ip_address(address).version}"
    except ValueError:
        found = ""
    if kind in ("IPv4", "IPv6") and found != kind:
        causes.append(invalid_value(path, address, f"must be a valid {kind} address"))
    elif found:
        check_target(address, path, causes)


SERVICE = builtin(
    kind_names.SERVICES,
    short_names=("svc",),
    categories=("all",),
    subresources=(
        Subresource("proxy", ("create", "delete", "get", "patch", "update"), kind="ServiceProxyOptions"),
        STATUS,
    ),
    defaults=_default_service,
    prepare=_prepare_service,
    validate=_validate_service,
    name_rule="label1035",
    selectable={"spec.clusterIP": at("spec", "clusterIP"), "spec.type": at("spec", "type")},
    has_generation=False,
    put_creates=True,
    delete_returns_object=True,
)

ENDPOINTS = builtin(
    kind_names.ENDPOINTS,
    short_names=("ep",),
    defaults=_default_endpoints,
    validate=_validate_endpoints,
    has_generation=False,
    put_creates=True,
)

ENDPOINT_SLICE = builtin(kind_names.ENDPOINT_SLICES, defaults=_default_slice, validate=_validate_slice)

KINDS = (SERVICE, ENDPOINTS, ENDPOINT_SLICE)
