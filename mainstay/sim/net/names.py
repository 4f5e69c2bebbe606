"""The name service of a simulated network: names and addresses to hosts, in the forms that `socket` uses.

Each host is known by its name, to all others. `localhost` and 127.0.0.0/8 are the host that asks. There is no IPv6, but
a program that insists is served: `::1` is the loopback, `::` any address, and others are written as mapped ones."""

import errno
import ipaddress
import socket
from typing import TYPE_CHECKING, Any, Final

from mainstay.sim.net.hosts import LOOPBACK, WILDCARD, Host, is_loopback, os_error

if TYPE_CHECKING:
    from mainstay.sim.loop.loop import SimLoop

LOCALHOST: Final = "localhost"

_NETWORK: Final = ipaddress.IPv4Address("10.0.0.0")
_SERVICES: Final = {"http": 80, "https": 443}
_FROM_IPV6: Final = {"::1": LOOPBACK, "::": WILDCARD}
_TO_IPV6: Final = {address: text for text, address in _FROM_IPV6.items()}

AddressInfo = tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[Any, ...]]


class NameService:
    """All hosts of a network, by name and by address."""

    def __init__(self, loop: "SimLoop") -> None:
        self._loop = loop
        self._by_name: dict[str, Host] = {}
        self._by_address: dict[str, Host] = {}
        self.localhost = self.host(LOCALHOST)

    def host(self, name: str) -> Host:
        """The host of this name, made if it is not there."""
        name = name.lower()
        if (known := self._by_name.get(name)) is not None:
            return known
        host = Host(self._loop, name, str(_NETWORK + len(self._by_name) + 1))
        self._by_name[name] = self._by_address[host.address] = host
        return host

    def all(self) -> list[Host]:
        """All hosts, in the order in which they were made."""
        return list(self._by_name.values())

    def at(self, address: str, *, seen_from: Host) -> Host:
        """The host that an address leads to."""
        host = seen_from if is_loopback(address) else self._by_address.get(address)
        if host is None:
            raise os_error(errno.EHOSTUNREACH, address)
        return host

    def find_address(self, name: str) -> str:
        """The address that a name or the text of an address stands for. Raises `socket.gaierror`."""
        if (address := numeric(name)) is not None:
            return address
        name = name.rstrip(".").lower()
        if name == LOCALHOST:
            return LOOPBACK
        if (host := self._by_name.get(name)) is not None:
            return host.address
        raise socket.gaierror(socket.EAI_NONAME, f"Name or service not known: {name}")

    def address_info(
        self, name: str | bytes | None, port: str | bytes | int | None, family: int, kind: int, flags: int
    ) -> list[AddressInfo]:
        """What `socket.getaddrinfo` answers. One entry at most, because all is TCP and a host has one address."""
        if isinstance(name, bytes):
            name = name.decode()
        if kind not in (0, socket.SOCK_STREAM):
            raise socket.gaierror(socket.EAI_SOCKTYPE, "only TCP is simulated")
        if not name:
            name = ""
            address = WILDCARD if flags & socket.AI_PASSIVE else LOOPBACK
        elif flags & socket.AI_NUMERICHOST and numeric(name) is None:
            raise socket.gaierror(socket.EAI_NONAME, f"Name or service not known: {name}")
        else:
            address = self.find_address(name)
        shown_as = socket.AF_INET6 if ":" in name or family == socket.AF_INET6 else socket.AF_INET
        has_none = shown_as == socket.AF_INET6 and ":" not in name and address not in _TO_IPV6
        if has_none or family not in (socket.AF_UNSPEC, shown_as):
            raise socket.gaierror(socket.EAI_NODATA, f"No address associated with hostname: {name}")
        canonical = name if flags & socket.AI_CANONNAME else ""
        sockaddr = format_address(shown_as, address, _port_number(port))
        return [(shown_as, socket.SOCK_STREAM, socket.IPPROTO_TCP, canonical, sockaddr)]

    def name_info(self, sockaddr: tuple[Any, ...], flags: int, *, seen_from: Host) -> tuple[str, str]:
        """What `socket.getnameinfo` answers."""
        address = numeric(sockaddr[0])
        if address is None:
            raise socket.gaierror(socket.EAI_NONAME, "sockaddr resolved to multiple addresses")
        if flags & socket.NI_NUMERICHOST:
            return sockaddr[0], str(sockaddr[1])
        if is_loopback(address):
            return LOCALHOST, str(sockaddr[1])
        try:
            return self.at(address, seen_from=seen_from).name, str(sockaddr[1])
        except OSError:
            return sockaddr[0], str(sockaddr[1])


def numeric(text: str) -> str | None:
    """The IPv4 address that this text is, or stands for. `None` if it is a name."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    # Other IPv6 addresses belong to no host; they stay as they are and are found unreachable.
    return _FROM_IPV6.get(str(address), str(address))


def format_address(family: int, address: str, port: int) -> tuple[Any, ...]:
    """An address as sockets of this family show it."""
    if family != socket.AF_INET6:
        return (address, port)
    return (_TO_IPV6.get(address) or f"::ffff:{address}", port, 0, 0)


def _port_number(port: str | bytes | int | None) -> int:
    if isinstance(port, bytes):
        port = port.decode()
    if isinstance(port, str):
        if not port.isdigit() and port not in _SERVICES:
            raise socket.gaierror(socket.EAI_SERVICE, "Servname not supported for ai_socktype")
        return _SERVICES.get(port) or int(port)
    return port or 0
