"""The part of `socket` that foreign code uses besides the loop: sockets to hand to it, and the machine's own name.

Names are those of the simulated hosts (hosts.py), so that a program's idea of "this machine" does not depend on where
the run takes place. Sockets are described in sockets.py.
"""

import select
import socket
from typing import Any

from mainstay.sim.names import AddressInfo
from mainstay.sim.sockets import SimPoll, SimSocket
from mainstay.sim.surroundings import Replacement, Surroundings


def replacements() -> dict[tuple[str, str], Any]:
    """By module and name, what stands there during a run."""
    return {
        ("socket", "socket"): SimSocket,
        ("socket", "getaddrinfo"): Replacement(socket.getaddrinfo, _getaddrinfo),
        ("socket", "getnameinfo"): Replacement(socket.getnameinfo, _getnameinfo),
        ("socket", "gethostbyname"): Replacement(socket.gethostbyname, _gethostbyname),
        ("socket", "gethostname"): Replacement(socket.gethostname, _gethostname),
        ("socket", "getfqdn"): Replacement(socket.getfqdn, _getfqdn),
        ("select", "poll"): Replacement(select.poll, _poll),
    }


def _getaddrinfo(
    run: Surroundings,
    host: str | bytes | None,
    port: str | bytes | int | None,
    family: int = 0,
    type: int = 0,  # noqa: A002
    proto: int = 0,
    flags: int = 0,
) -> list[AddressInfo]:
    return run.loop.network.names.address_info(host, port, family, type, flags)


def _getnameinfo(run: Surroundings, sockaddr: tuple[Any, ...], flags: int) -> tuple[str, str]:
    network = run.loop.network
    return network.names.name_info(sockaddr, flags, seen_from=network.here())


def _gethostbyname(run: Surroundings, hostname: str) -> str:
    return run.loop.network.names.address_of(hostname)


def _gethostname(run: Surroundings) -> str:
    return run.loop.network.here().name


def _getfqdn(run: Surroundings, name: str = "") -> str:
    return name or _gethostname(run)


def _poll(run: Surroundings) -> SimPoll:
    return SimPoll()
