"""The part of `socket` that foreign code uses besides the loop: sockets to hand to it, and the machine's own name.

Names are those of the simulated hosts (sim/net/hosts.py), so that a program's idea of "this machine" does not depend on
where the run takes place. Sockets are described in sim/net/sockets.py. On other threads they are real.
"""

import select
import socket
from typing import Any

from mainstay.sim.foreign.context import Replacement, RunContext, current
from mainstay.sim.net.names import AddressInfo
from mainstay.sim.net.sockets import SimPoll, SimSocket


def replacements() -> dict[tuple[str, str], Any]:
    """By module and name, what stands there during a run."""
    return {
        ("socket", "socket"): SocketDuringRun,
        ("socket", "getaddrinfo"): Replacement(socket.getaddrinfo, _getaddrinfo),
        ("socket", "getnameinfo"): Replacement(socket.getnameinfo, _getnameinfo),
        ("socket", "gethostbyname"): Replacement(socket.gethostbyname, _gethostbyname),
        ("socket", "gethostname"): Replacement(socket.gethostname, _gethostname),
        ("socket", "getfqdn"): Replacement(socket.getfqdn, _getfqdn),
        ("select", "poll"): Replacement(select.poll, _poll),
    }


_RealSocket = socket.socket


class _SocketClass(type):
    """What makes a class answer as another one to threads that no run is on."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is not SocketDuringRun:
            return super().__call__(*args, **kwargs)  # A subclass that was made during the run, and belongs to it.
        return _RealSocket(*args, **kwargs) if current() is None else SimSocket(*args, **kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        if cls is not SocketDuringRun:
            return super().__instancecheck__(instance)
        return isinstance(instance, SimSocket) or (current() is None and isinstance(instance, _RealSocket))

    def __subclasscheck__(cls, subclass: type) -> bool:
        if cls is not SocketDuringRun:
            return super().__subclasscheck__(subclass)
        return issubclass(subclass, SimSocket) or (current() is None and issubclass(subclass, _RealSocket))


class SocketDuringRun(SimSocket, metaclass=_SocketClass):
    """What `socket.socket` is during a run: a class, since programs ask whether something is a socket."""


def _getaddrinfo(
    run: RunContext,
    host: str | bytes | None,
    port: str | bytes | int | None,
    family: int = 0,
    type: int = 0,  # noqa: A002
    proto: int = 0,
    flags: int = 0,
) -> list[AddressInfo]:
    return run.loop.network.names.address_info(host, port, family, type, flags)


def _getnameinfo(run: RunContext, sockaddr: tuple[Any, ...], flags: int) -> tuple[str, str]:
    network = run.loop.network
    return network.names.name_info(sockaddr, flags, seen_from=network.here())


def _gethostbyname(run: RunContext, hostname: str) -> str:
    return run.loop.network.names.find_address(hostname)


def _gethostname(run: RunContext) -> str:
    return run.loop.network.here().name


def _getfqdn(run: RunContext, name: str = "") -> str:
    return name or _gethostname(run)


def _poll(run: RunContext) -> SimPoll:
    return SimPoll()
