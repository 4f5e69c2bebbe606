"""Which routes a machine needs to the pods of others. A plain function of the Nodes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import AddressValueError, IPv4Address, IPv4Network, NetmaskValueError

from mainstay.api.kind import Object


@dataclass(frozen=True, slots=True)
class NodeRoutes:
    """What is wanted, and what cannot be had."""

    via: Mapping[str, str] = field(default_factory=dict)
    """By the pods' network: the machine behind which it is."""
    own_problem: str = ""
    """Why other machines do not reach the pods of this node, as far as that is its own fault."""
    problems: tuple[str, ...] = ()
    """Whose pods are not reached from here, and why."""


def decide_routes(nodes: Iterable[Object], own_name: str, own_subnet: IPv4Network, own_address: str) -> NodeRoutes:
    """Of two Nodes whose networks overlap, the older one keeps its own. Nodes that share this machine's address are on
    this machine, which has routes to their pods already."""
    via: dict[str, str] = {}
    taken: list[tuple[IPv4Network, str]] = []
    own_problem, problems = "", []
    for node in sorted(nodes, key=_read_age):
        name = node["metadata"]["name"]
        subnet, address = own_subnet if name == own_name else _read_subnet(node), _read_address(node)
        if subnet is None or subnet.is_loopback:
            if address != own_address:
                problems.append(f"{name}: its pods have no network of their own; start its agent with --pod-cidr")
            continue
        if other := next((whose for found, whose in taken if found.overlaps(subnet)), ""):
            overlap = (
                f"podCIDR {subnet} overlaps that of node {other}: delete the Node and start its agent with another"
            )
            if name == own_name:
                own_problem = f"{overlap} --pod-cidr"
            else:
                problems.append(f"{name}: its {overlap} --pod-cidr")
            continue
        taken.append((subnet, name))
        if name == own_name or address == own_address:
            continue
        if address is None or IPv4Address(address).is_loopback:
            problems.append(f"{name}: no other machine reaches its InternalIP; start its agent with --address")
        else:
            via[str(subnet)] = address
    return NodeRoutes(via, own_problem, tuple(problems))


def _read_age(node: Object) -> tuple[str, str]:
    metadata = node["metadata"]
    return str(metadata.get("creationTimestamp") or ""), str(metadata["name"])


def _read_subnet(node: Object) -> IPv4Network | None:
    try:
        return IPv4Network((node.get("spec") or {}).get("podCIDR") or "")
    except (AddressValueError, NetmaskValueError, ValueError):
        return None


def _read_address(node: Object) -> str | None:
    for each in (node.get("status") or {}).get("addresses") or ():
        if each.get("type") == "InternalIP":
            try:
                return str(IPv4Address(each.get("address")))
            except AddressValueError:
                continue
    return None
