"""Where a Service leads: for each of its pods the addresses, the ports, and whether traffic should go there.

A pod without an address, or one that is over, is nowhere. One that is leaving still stands there and says so, so that
connections which it has can be kept; new ones go to it only if no other is ready. The words are upstream's.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from mainstay.api import pod_state
from mainstay.api.ip_addresses import find_problem
from mainstay.api.ip_addresses import list_addresses as list_status_addresses
from mainstay.api.kind import Object
from mainstay.loop.evidence import EvidenceResponse, allowed
from mainstay.loop.signals import collect_probe_transitions

HEADLESS: Final = "service.kubernetes.io/headless"
FAMILY_DEFAULT: Final = "IPv4"
_SIDECAR: Final = "Always"


class Port(NamedTuple):
    """A port as a slice has it."""

    name: str
    protocol: str
    port: int
    application: str = ""

    def as_object(self) -> Object:
        made: Object = {"name": self.name, "protocol": self.protocol, "port": self.port}
        if self.application:
            made["appProtocol"] = self.application
        return made


class EndpointGroup(NamedTuple):
    """What the endpoints of one slice have in common."""

    family: str
    """`IPv4` or `IPv6`."""
    ports: tuple[Port, ...]


@dataclass(frozen=True, slots=True)
class Endpoint:
    identity: str
    """The uid of its pod: an endpoint that changes is still the same."""
    body: Object
    """As it stands in a slice."""


def is_headless(service: Object) -> bool:
    return bool((service.get("spec") or {}).get("clusterIP") == "None")


def list_families(service: Object) -> list[str]:
    return list((service.get("spec") or {}).get("ipFamilies") or (FAMILY_DEFAULT,))


def is_routed(pod: Object, *, with_leaving: bool = True) -> bool:
    """Whether it has a place at all among the endpoints of a Service."""
    status = pod.get("status") or {}
    if pod_state.is_over(pod) or not (status.get("podIP") or status.get("podIPs")):
        return False
    return with_leaving or not pod_state.is_leaving(pod)


def list_addresses(pod: Object, family: str) -> list[str]:
    """Those that can stand in a slice. The server would refuse a slice with another one, and with it all other pods."""
    given = [each for each in _given_addresses(pod) if ("IPv6" if ":" in each else "IPv4") == family]
    return [address for address in given if not find_problem(address)]


def find_bad_address(pod: Object) -> str:
    """Why a pod is nowhere although it has an address. Empty: that is not so."""
    return next((f"{each}: {why}" for each in _given_addresses(pod) if (why := find_problem(each))), "")


def _given_addresses(pod: Object) -> list[str]:
    status: Object = pod.get("status") or {}
    given = list_status_addresses(status, "podIP") or [status.get("podIP") or ""]
    return [str(each) for each in given if each]


def resolve_ports(service: Object, pod: Object) -> tuple[Port, ...]:
    """The ports of a Service as this pod has them. One that is named, and that the pod has not, is left out."""
    found = []
    for port in (service.get("spec") or {}).get("ports") or ():
        protocol = str(port.get("protocol") or "TCP")
        number = resolve_target_port(port, protocol, pod)
        if number is not None:
            found.append(Port(str(port.get("name") or ""), protocol, number, str(port.get("appProtocol") or "")))
    return tuple(found)


def resolve_target_port(port: Mapping[str, Any], protocol: str, pod: Object) -> int | None:
    target = port.get("targetPort")
    if isinstance(target, int) and target:
        return target
    if not target:
        return int(port["port"])
    for container in _serving_containers(pod.get("spec") or {}):
        for each in container.get("ports") or ():
            if each.get("name") == target and (each.get("protocol") or "TCP") == protocol:
                return int(each["containerPort"])
    return None


def _serving_containers(spec: Object) -> Iterable[Object]:
    yield from spec.get("containers") or ()
    yield from (each for each in spec.get("initContainers") or () if each.get("restartPolicy") == _SIDECAR)


def takes_traffic(pod: Object) -> bool:
    """Whether nothing that is known of the pod allows to stop its traffic. That is all that its probes decide."""
    return EvidenceResponse.STOP_TRAFFIC not in allowed(collect_probe_transitions(pod))


def build_endpoint(service: Object, pod: Object, addresses: Sequence[str], zone: str = "") -> Endpoint:
    metadata = pod["metadata"]
    serves, leaves = takes_traffic(pod), pod_state.is_leaving(pod)
    publishes_all = bool((service.get("spec") or {}).get("publishNotReadyAddresses"))
    body: Object = {
        "addresses": list(addresses),
        "conditions": {
            "ready": publishes_all or (serves and not leaves),
            "serving": serves,
            "terminating": leaves,
        },
        "targetRef": reference_to_pod(pod),
    }
    if name := find_hostname(service, pod):
        body["hostname"] = name
    if node := pod_state.get_node_name(pod):
        body["nodeName"] = node
    if zone:
        body["zone"] = zone
    return Endpoint(metadata["uid"], body)


def reference_to_pod(pod: Object) -> Object:
    metadata = pod["metadata"]
    return {"kind": "Pod", "namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"]}


def find_hostname(service: Object, pod: Object) -> str:
    """Its own name below that of the Service, if it asks for one."""
    spec = pod.get("spec") or {}
    return str(spec.get("hostname") or "") if spec.get("subdomain") == service["metadata"]["name"] else ""


def wanted(service: Object, pods: Iterable[Object], zones: Mapping[str, str]) -> dict[EndpointGroup, list[Endpoint]]:
    """All endpoints of a Service, by what goes into one slice. Sorted, but for the pods, which come as given."""
    found: dict[EndpointGroup, list[Endpoint]] = {}
    routed = [pod for pod in pods if is_routed(pod)]
    for family in list_families(service):
        for pod in routed:
            addresses = list_addresses(pod, family)
            ports = resolve_ports(service, pod)
            if addresses:
                endpoint = build_endpoint(service, pod, addresses, zones.get(pod_state.get_node_name(pod), ""))
                found.setdefault(EndpointGroup(family, ports), []).append(endpoint)
    return {group: found[group] for group in sorted(found)}
