"""How traffic comes in, and what may talk to what."""

from collections.abc import Sequence

from mainstay.api import kind_names
from mainstay.api.errors import StatusCause, forbidden_value, invalid_value, not_supported, required
from mainstay.api.kind import STATUS, Object
from mainstay.api.kinds.checks import (
    PROTOCOLS,
    check_label,
    check_port,
    check_port_or_name,
    check_selector,
    check_subdomain,
    invalid_json,
)
from mainstay.api.kinds.declare import builtin, child, own_status

_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")


def _default_ingress(new: Object) -> None:
    child(new, "spec")


def _validate_ingress(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    spec = new["spec"]
    if not spec.get("rules") and not spec.get("defaultBackend"):
        causes.append(invalid_json("spec", spec, "either `defaultBackend` or `rules` must be specified"))
    if spec.get("defaultBackend"):
        _check_backend(spec["defaultBackend"], "spec.defaultBackend", causes)
    if spec.get("ingressClassName"):
        check_subdomain(spec["ingressClassName"], "spec", ".ingressClassName", causes)
    for number, rule in enumerate(spec.get("rules") or ()):
        here = f"spec.rules[{number}]"
        host = rule.get("host")
        if host:
            check_subdomain(host.removeprefix("*."), here, ".host", causes)
        http = rule.get("http")
        if http is None:
            continue
        if not http.get("paths"):
            causes.append(required(f"{here}.http.paths"))
        for index, path in enumerate(http.get("paths") or ()):
            _check_path(path, f"{here}.http.paths[{index}]", causes)
    return causes


def _check_path(path: Object, here: str, causes: list[StatusCause]) -> None:
    kind, text = path.get("pathType"), path.get("path") or ""
    if not kind:
        causes.append(required(f"{here}.pathType", "pathType must be specified"))
    elif kind not in _PATH_TYPES:
        causes.append(not_supported(f"{here}.pathType", kind, _PATH_TYPES))
    elif (kind != "ImplementationSpecific" or text) and not text.startswith("/"):
        causes.append(invalid_value(f"{here}.path", text, "must be an absolute path"))
    _check_backend(path.get("backend") or {}, f"{here}.backend", causes)


def _check_backend(backend: Object, here: str, causes: list[StatusCause]) -> None:
    service, resource = backend.get("service"), backend.get("resource")
    if service is None and resource is None:
        causes.append(required(here, "port name or number is required"))
        return
    if service is not None and resource is not None:
        detail = "cannot set both resource and service backends"
        causes.append(invalid_value(here, "", detail))
    if service is not None:
        if not service.get("name"):
            causes.append(required(f"{here}.service.name"))
        else:
            check_label(service["name"], here, ".service.name", causes)
        port = service.get("port") or {}
        if port.get("name") and port.get("number"):
            causes.append(invalid_value(here, "", "cannot set both port name & port number"))
        elif port.get("name"):
            check_port_or_name(port["name"], f"{here}.service.port.name", causes)
        elif port.get("number"):
            check_port(port["number"], f"{here}.service.port.number", causes)
        else:
            causes.append(required(here, "port name or number is required"))


def _default_ingress_class(new: Object) -> None:
    parameters = child(new, "spec").get("parameters")
    if parameters is not None and not parameters.get("scope"):
        parameters["scope"] = "Cluster"


def _validate_ingress_class(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    controller = new["spec"].get("controller") or ""
    if not controller and old is None:
        causes.append(required("spec.controller"))
    if old is not None and controller != ((old.get("spec") or {}).get("controller") or ""):
        causes.append(invalid_value("spec.controller", controller, "field is immutable"))
    return causes


def _default_policy(new: Object) -> None:
    spec = child(new, "spec")
    child(spec, "podSelector")
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for direction in ("ingress", "egress"):
        for rule in spec.get(direction) or ():
            for port in rule.get("ports") or ():
                if not port.get("protocol"):
                    port["protocol"] = "TCP"


def _validate_policy(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    spec = new["spec"]
    check_selector(spec["podSelector"], "spec.podSelector", causes)
    for kind in spec["policyTypes"]:
        if kind not in ("Egress", "Ingress"):
            causes.append(not_supported("spec.policyTypes", kind, ("Egress", "Ingress")))
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for number, rule in enumerate(spec.get(direction) or ()):
            here = f"spec.{direction}[{number}]"
            for index, port in enumerate(rule.get("ports") or ()):
                _check_policy_port(port, f"{here}.ports[{index}]", causes)
            for index, peer in enumerate(rule.get(peers) or ()):
                _check_peer(peer, f"{here}.{peers}[{index}]", causes)
    return causes


def _check_policy_port(port: Object, here: str, causes: list[StatusCause]) -> None:
    if port.get("protocol") not in PROTOCOLS:
        causes.append(not_supported(f"{here}.protocol", port.get("protocol"), PROTOCOLS))
    if port.get("port") is not None:
        check_port_or_name(port["port"], f"{here}.port", causes)
    last = port.get("endPort")
    if last is not None:
        first = port.get("port")
        if not isinstance(first, int):
            detail = "may not be specified when `port` is " + ("non-numeric" if first else "not specified")
            causes.append(invalid_value(f"{here}.endPort", last, detail))
        elif last < first:
            causes.append(invalid_value(f"{here}.endPort", last, "must be greater than or equal to `port`"))


def _check_peer(peer: Object, here: str, causes: list[StatusCause]) -> None:
    selectors = [name for name in ("podSelector", "namespaceSelector") if peer.get(name) is not None]
    for name in selectors:
        check_selector(peer[name], f"{here}.{name}", causes)
    block = peer.get("ipBlock")
    if block is not None:
        if selectors:
            causes.append(forbidden_value(here, "may not specify both ipBlock and another peer"))
        if not block.get("cidr"):
            causes.append(required(f"{here}.ipBlock.cidr"))
    elif not selectors:
        causes.append(required(here, "must specify a peer"))


INGRESS = builtin(
    kind_names.INGRESSES,
    short_names=("ing",),
    subresources=(STATUS,),
    defaults=_default_ingress,
    prepare=own_status(lambda: {"loadBalancer": {}}),
    validate=_validate_ingress,
)
INGRESS_CLASS = builtin(kind_names.INGRESS_CLASSES, defaults=_default_ingress_class, validate=_validate_ingress_class)
NETWORK_POLICY = builtin(
    kind_names.NETWORK_POLICIES, short_names=("netpol",), defaults=_default_policy, validate=_validate_policy
)

KINDS = (INGRESS, INGRESS_CLASS, NETWORK_POLICY)
