"""The rows of how pods are reached."""

from mainstay.api.kind import Object
from mainstay.api.tables.fields import has, mapping, objects, text, texts, whole
from mainstay.api.tables.table import AGE, NAME, filled, of, of_field, table, text_at
from mainstay.api.tables.texts import NONE, UNKNOWN, UNSET, endpoint, ingress_points, labels, selector, shortened

_SHOWN_MAX = 3


def _cluster_ip(service: Object) -> str:
    return next(iter(texts(service, "spec.clusterIPs")), "") or text(service, "spec.clusterIP", NONE)


def _external_ip(service: Object) -> str:
    given = texts(service, "spec.externalIPs")
    match text(service, "spec.type"):
        case "ClusterIP" | "NodePort":
            return ",".join(given) or NONE
        case "LoadBalancer":
            points = ingress_points(service)
            return ",".join([points, *given] if points else given) or "<pending>"
        case "ExternalName":
            return text(service, "spec.externalName")
    return UNKNOWN


def _service_ports(service: Object) -> str:
    return ",".join(_service_port(port) for port in objects(service, "spec.ports")) or NONE


def _service_port(port: Object) -> str:
    on_node = whole(port, "nodePort")
    numbers = f"{whole(port, 'port')}:{on_node}" if on_node > 0 else str(whole(port, "port"))
    return f"{numbers}/{text(port, 'protocol', 'TCP')}"


def _endpoints(endpoints: Object) -> str:
    subsets = objects(endpoints, "subsets")
    if not subsets:
        return NONE
    found: list[str] = []
    for subset in subsets:
        addresses = [text(each, "ip") for each in objects(subset, "addresses")]
        ports = objects(subset, "ports")
        found += [endpoint(address, whole(port, "port")) for port in ports for address in addresses]
        if not ports:  # A service may have none, if its pods are looked up by name only.
            found += addresses
    return shortened(found, _SHOWN_MAX)


def _slice_ports(endpoint_slice: Object) -> str:
    ports = objects(endpoint_slice, "ports")
    return shortened([_slice_port(port) for port in ports], _SHOWN_MAX) or UNSET


def _slice_port(port: Object) -> str:
    return str(whole(port, "port")) if has(port, "port") else text(port, "name", "*")


def _slice_endpoints(endpoint_slice: Object) -> str:
    addresses = [each for found in objects(endpoint_slice, "endpoints") for each in texts(found, "addresses")]
    return shortened(addresses, _SHOWN_MAX) or UNSET


def _hosts(ingress: Object) -> str:
    """The hosts of the rules. Once three are shown the rest is counted in rules, with or without a host."""
    rules = objects(ingress, "spec.rules")
    shown: list[str] = []
    for rule in rules:
        if len(shown) == _SHOWN_MAX:
            return f"{','.join(shown)} + {len(rules) - _SHOWN_MAX} more..."
        if host := text(rule, "host"):
            shown.append(host)
    return ",".join(shown) or "*"


def _parameters(ingress_class: Object) -> str:
    if not has(ingress_class, "spec.parameters"):
        return NONE
    found = mapping(ingress_class, "spec.parameters")
    group = text(found, "apiGroup")
    return f"{text(found, 'kind')}{f'.{group}' if group else ''}/{text(found, 'name')}"


def _parent(address: Object) -> str:
    """What an address belongs to: `services/default/web`."""
    parent = mapping(address, "spec.parentRef")
    if not parent:
        return NONE
    group, namespace = text(parent, "group"), text(parent, "namespace")
    resource = text(parent, "resource") + (f".{group}" if group else "")
    return "/".join(each for each in (resource.lower(), namespace, text(parent, "name")) if each)


TABLES = {
    ("", "Service"): table(
        NAME,
        filled("Type", text_at("spec.type"), "How it is exposed."),
        filled("Cluster-IP", of(_cluster_ip), "Its address inside the cluster."),
        filled("External-IP", of(_external_ip), "Its addresses from outside."),
        filled("Port(s)", of(_service_ports), "Its ports; after a colon the port on each node."),
        AGE,
        filled("Selector", of_field("spec.selector", labels), "The pods it leads to.", wide=True),
    ),
    ("", "Endpoints"): table(NAME, filled("Endpoints", of(_endpoints), "Where the service is answered."), AGE),
    ("discovery.k8s.io", "EndpointSlice"): table(
        NAME,
        filled("AddressType", text_at("addressType"), "What kind of addresses these are."),
        filled("Ports", of(_slice_ports), "The ports of each endpoint."),
        filled("Endpoints", of(_slice_endpoints), "The addresses."),
        AGE,
    ),
    ("networking.k8s.io", "Ingress"): table(
        NAME,
        filled("Class", text_at("spec.ingressClassName", NONE), "The IngressClass that serves it."),
        filled("Hosts", of(_hosts), "The hosts that its rules are for."),
        filled("Address", of(ingress_points), "Where its load balancer is reached."),
        filled("Ports", of(lambda found: "80, 443" if objects(found, "spec.tls") else "80"), "The ports it opens."),
        AGE,
    ),
    ("networking.k8s.io", "IngressClass"): table(
        NAME,
        filled("Controller", text_at("spec.controller"), "Who serves this class."),
        filled("Parameters", of(_parameters), "An object with more settings."),
        AGE,
    ),
    ("networking.k8s.io", "NetworkPolicy"): table(
        NAME, filled("Pod-Selector", of_field("spec.podSelector", selector), "The pods it is for."), AGE
    ),
    ("networking.k8s.io", "ServiceCIDR"): table(
        NAME, filled("CIDRs", of(lambda found: ",".join(texts(found, "spec.cidrs"))), "The ranges it gives out."), AGE
    ),
    ("networking.k8s.io", "IPAddress"): table(NAME, filled("ParentRef", of(_parent), "What it was given to.")),
}
