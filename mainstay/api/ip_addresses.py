"""Which IP addresses may be given as those of pods, endpoints and nodes: what others will connect to.

As upstream's check of endpoints, except that loopback is allowed: pods of the process runner have addresses in
127.0.0.0/8. Other programs of the machine listen there too, so an agent may use it only inside the subnet of its Node
(server/auth/node_restriction.py).
"""

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from mainstay.api.errors import StatusCause, invalid_value
from mainstay.api.kind import Object

NOT_AN_ADDRESS: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


@lru_cache(maxsize=10_000)
def find_problem(text: str) -> str:
    """Why an address cannot be that of something to connect to. Empty: it can."""
    try:
        address = ip_address(text)
    except ValueError:
        return NOT_AN_ADDRESS
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            return "may not have a zone"
        if address.ipv4_mapped is not None:
            return "may not be an IPv4-mapped IPv6 address"
    return _find_special(address)


def _find_special(address: IPv4Address | IPv6Address) -> str:
    if address.is_unspecified:
        return f"may not be unspecified ({address})"
    if address.is_link_local:
        return "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
    if address.is_multicast:
        return "may not be in the multicast range (224.0.0.0/4, ff00::/8)"
    if address == _BROADCAST:
        return "may not be the broadcast address"
    return ""


_BROADCAST: Final = IPv4Address("255.255.255.255")


def find_special(text: str) -> str:
    """Why nothing may be connected to at an address. Empty for others, and for what is no address but a name."""
    problem = find_problem(text)
    return "" if problem == NOT_AN_ADDRESS else problem


def check_target(address: str, path: str, causes: list[StatusCause]) -> None:
    if problem := find_problem(address):
        causes.append(invalid_value(path, address, problem))


def check_pair(status: Object, field: str, path: str, causes: list[StatusCause]) -> None:
    """An address that is there twice, alone (`podIP`) and as the first of a list with one of each family (`podIPs`)."""
    alone: str = status.get(field) or ""
    listed = list_addresses(status, field)
    if alone and not listed:
        check_target(alone, f"{path}.{field}", causes)
    for number, address in enumerate(listed):
        check_target(address, f"{path}.{field}s[{number}]", causes)
    if len(listed) > 1 and sorted(":" in each for each in listed) != [False, True]:
        detail = "may specify no more than one IP for each IP family"
        causes.append(invalid_value(f"{path}.{field}s", ",".join(listed), detail))
    if alone and listed and listed[0] != alone:
        causes.append(invalid_value(f"{path}.{field}s[0].ip", listed[0], f"must be equal to `{field}`"))


def list_addresses(status: Object, field: str) -> Sequence[str]:
    return [each.get("ip") or "" for each in status.get(f"{field}s") or ()]
