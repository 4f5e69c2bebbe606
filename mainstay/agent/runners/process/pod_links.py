"""How a pod is linked to its machine: the names, and the lines that the program `ip` is given. Plain functions.

Each pod has a network namespace, and in it one end of a virtual cable, `eth0`, with the pod's address. The other end is
on the machine, which has a route to that one address. From inside, everything else is behind the machine, whose end of
every cable has the same made-up addresses. There is no bridge, and no translation of addresses: a packet arrives with
the addresses it was sent with, from the same machine or another.

    pod    eth0 10.244.1.7 ─── default via 169.254.1.1 ───► machine
    pod    eth0 10.244.1.7 ◄── 10.244.1.7 dev m3f9a… ────── machine ◄─── 10.244.1.0/24 via 192.0.2.11 ─── other machines
"""

import hashlib
from ipaddress import IPv4Network
from typing import Final

ROUTE_PROTOCOL: Final = 119
"""By this number, which no routing program of Linux has, an agent knows routes for its own."""
_GATEWAY: Final = "169.254.1.1"
_GATEWAY_HARDWARE: Final = "02:6d:73:00:00:01"
_PREFIX: Final = "m"
_DIGITS: Final = 6
"""Of each half of a name: the kernel has room for 15 characters."""


def find_prefix(directory: str) -> str:
    """How the names of all links of one agent begin: several agents may share a machine."""
    return _PREFIX + hashlib.sha256(directory.encode()).hexdigest()[:_DIGITS]


def find_link(prefix: str, pod_uid: str) -> str:
    """The name of a pod's link on the machine."""
    return prefix + hashlib.sha256(pod_uid.encode()).hexdigest()[:_DIGITS]


def build_inside(link: str, address: str, machine: int) -> list[str]:
    """What is done inside a pod's new namespace. `machine` is a process that is in the namespace of the machine."""
    return [
        "link set lo up",
        f"link add eth0 type veth peer name {link} netns {machine}",
        f"address add {address}/32 dev eth0",
        "link set eth0 up",
        # As a fact, so that the machine need not answer for an address that it does not have.
        f"neighbour add {_GATEWAY} lladdr {_GATEWAY_HARDWARE} dev eth0 nud permanent",
        f"route add {_GATEWAY} dev eth0 scope link",
        f"route add default via {_GATEWAY} dev eth0",
    ]


def build_outside(link: str, address: str) -> list[str]:
    """What is done on the machine then."""
    return [
        f"link set {link} address {_GATEWAY_HARDWARE} up",
        f"route replace {address}/32 dev {link} protocol {ROUTE_PROTOCOL}",
    ]


def build_closed(subnet: IPv4Network) -> list[str]:
    """Addresses of the node that no pod has are refused here, and not sent elsewhere."""
    return [f"route replace unreachable {subnet} protocol {ROUTE_PROTOCOL}"]
