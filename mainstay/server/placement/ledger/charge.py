"""What one pod takes of its node, as it is written down when it begins to.

A charge lies beside its pod, at a key of its own, for as long as the pod counts: from the moment it is on a node until
it has ended or is gone. It is given back as it was written down, whatever the pod says by then, and only in a commit
that also removes it: so it is given back once.
"""

from typing import Final

import msgspec

from mainstay.api.kind import Object
from mainstay.api.pod_resources import HostPort, count_requests, is_over, list_host_ports
from mainstay.api.reservations import count_resources, list_ports
from mainstay.server.storage.keyspace import INTERNAL_PREFIX

CHARGES: Final = f"{INTERNAL_PREFIX}charges/"


class Charge(msgspec.Struct, frozen=True, omit_defaults=True):
    uid: str
    """Of the pod."""
    pod: str
    """Its namespace and name, as in `shop/web-1`."""
    node: str
    amounts: dict[str, int]
    """In base units, as `api/pod_resources.py` has them; nothing that is 0."""
    ports: tuple[str, ...] = ()
    """Ports of the machine, as `port_text` writes them."""
    zone: str = ""
    """Of the node, when the pod came there: where quotas count it until it goes."""


encode_charge = msgspec.msgpack.Encoder().encode
decode_charge = msgspec.msgpack.Decoder(Charge).decode


def charge_key(namespace: str, name: str) -> str:
    return f"{CHARGES}{namespace}/{name}"


def build_charge(pod: Object) -> Charge | None:
    """What a pod has to be charged with, as it is now. None if it is on no node, or has ended."""
    node = pod["spec"].get("nodeName")
    if not node or is_over(pod):
        return None
    return charge_on(pod, node)


def charge_on(pod: Object, node: str, zone: str = "") -> Charge:
    """What a pod would take on a node."""
    metadata = pod["metadata"]
    amounts = {resource: amount for resource, amount in count_requests(pod).items() if amount}
    ports = tuple(port_text(port) for port in list_host_ports(pod))
    return Charge(metadata["uid"], f"{metadata['namespace']}/{metadata['name']}", node, amounts, ports, zone)


def charge_for(reservation: Object) -> Charge:
    """What a reservation holds, in the form in which ledgers are asked."""
    metadata = reservation["metadata"]
    amounts = {resource: amount for resource, amount in count_resources(reservation).items() if amount}
    ports = tuple(port_text(port) for port in list_ports(reservation))
    name = f"{metadata['namespace']}/{metadata['name']}"
    return Charge(metadata["uid"], name, reservation["spec"]["nodeName"], amounts, ports)


def port_text(port: HostPort) -> str:
    """A port as it is written down: `TCP/80/0.0.0.0`."""
    return f"{port.protocol}/{port.port}/{port.ip}"


def parse_port(text: str) -> HostPort:
    protocol, number, ip = text.split("/", 2)
    return HostPort(ip, protocol, int(number))
