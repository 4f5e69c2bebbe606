"""The simulated network: the loop's own networking, and the faults that tests inject into it.

The loop hands its networking calls to this class, so every library that uses the loop's networking (asyncio streams,
aiohttp, httpx, …) runs over it unmodified. Each connection lies between two hosts (hosts.py, names.py) and uses the two
links between them (links.py); what it does there is TCP's business (wire.py), and how a program sees it is asyncio's
(transport.py, servers.py).

Connecting takes a round trip. While nothing gets through, it is tried again when Linux would, and given up after about
two minutes. An address that no host has is unreachable at once.

Faults are named after hosts. Each lasts until the one who made it lets go of it, by what it was given back
(sim/active_faults.py), so that several can overlap; cuts last until they are healed at the latest. They are the same
call whether a test makes it or a schedule of faults. Not simulated: UDP, Unix sockets, TLS, the length of a listener's
queue, and bandwidth.
"""

import asyncio
import errno
import itertools
from collections.abc import Callable, Iterable
from datetime import timedelta
from socket import AF_INET, AF_INET6, SOCK_STREAM
from typing import TYPE_CHECKING, Any, Final, TypeVar

from mainstay.sim.active_faults import Release, release_all
from mainstay.sim.errors import Unsimulated
from mainstay.sim.net.hosts import LOOPBACK, WILDCARD, Host, current_host, os_error
from mainstay.sim.net.links import NetworkLink
from mainstay.sim.net.names import AddressInfo, NameService
from mainstay.sim.net.servers import SimServer
from mainstay.sim.net.sockets import FIRST_FILENO, SimSocket
from mainstay.sim.net.transport import SimTransport
from mainstay.sim.net.wire import connect

if TYPE_CHECKING:
    from mainstay.sim.loop.loop import SimLoop

ProtocolT = TypeVar("ProtocolT", bound=asyncio.BaseProtocol)

# When Linux sends a SYN: at once, then after 1, 3, 7, … seconds (tcp_syn_retries), and when it gives up.
SYN_AFTER_NS: Final = tuple((1_000_000_000 << n) - 1_000_000_000 for n in range(7))
CONNECT_GIVEN_UP_AFTER_NS: Final = 127_000_000_000


class Network:
    """All hosts and connections of one run."""

    def __init__(self, loop: "SimLoop") -> None:
        self._loop = loop
        self.names = NameService(loop)
        self._links: dict[tuple[Host, Host], NetworkLink] = {}
        self._sockets: dict[int, SimSocket] = {}
        self._filenos = itertools.count(FIRST_FILENO)
        self._connections = itertools.count(1)

    # Hosts.

    def host(self, name: str) -> Host:
        """The host of this name, made if it is not there."""
        return self.names.host(name)

    def here(self) -> Host:
        """The host that the running code is on."""
        host = current_host()
        # A context can outlive the run it comes from, and then its host is nowhere.
        return host if host is not None and host.loop is self._loop else self.names.localhost

    # What the loop delegates.

    async def getaddrinfo(
        self,
        host: str | bytes | None,
        port: str | bytes | int | None,
        *,
        family: int = 0,
        type: int = 0,  # noqa: A002
        proto: int = 0,
        flags: int = 0,
    ) -> list[AddressInfo]:
        return self.names.address_info(host, port, family, type, flags)

    async def getnameinfo(self, sockaddr: tuple[Any, ...], flags: int = 0) -> tuple[str, str]:
        return self.names.name_info(sockaddr, flags, seen_from=self.here())

    async def sock_connect(self, sock: Any, address: tuple[Any, ...]) -> None:
        sock = _simulated(sock)
        if sock.end is not None:
            raise os_error(errno.EISCONN)
        remote, port = self.names.find_address(address[0]) if address[0] else LOOPBACK, int(address[1])
        if remote == WILDCARD:
            remote = LOOPBACK
        target = self.names.at(remote, seen_from=sock.host)
        local = sock.bind_for(remote)
        out, back = self.link(sock.host, target), self.link(target, sock.host)
        listener = await self._handshake(out, back, remote, port)
        ordinal = next(self._connections)
        self._loop.trace.note("net.connected", str(out), ordinal, port)
        contexts = sock.host.context(), listener.context_for_connection()
        sock.end = connect(
            self._loop, ordinal, (out, back), (local, (remote, port)), contexts, accept=listener.establish
        )

    async def create_connection(
        self,
        protocol_factory: Callable[[], ProtocolT],
        host: str | None = None,
        port: int | None = None,
        *,
        ssl: None = None,
        family: int = 0,
        proto: int = 0,
        flags: int = 0,
        sock: Any = None,
        local_addr: tuple[str, int] | None = None,
        server_hostname: str | None = None,
        ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
        happy_eyeballs_delay: float | None = None,
        interleave: int | None = None,
        all_errors: bool = False,
    ) -> tuple[SimTransport, ProtocolT]:
        if (host is not None or port is not None) == (sock is not None):
            raise ValueError("either host and port or sock must be specified, and not both")
        if sock is None:
            info = self.names.address_info(host, port, family, 0, flags)[0]
            sock = SimSocket(*info[:3])
            try:
                if local_addr is not None:
                    sock.bind(local_addr)
                await self.sock_connect(sock, info[4])
            except BaseException:
                sock.close()
                raise
        else:
            sock = _simulated(sock)
        if sock.end is None:
            raise os_error(errno.ENOTCONN)
        # Not where the connecting was done, which may have been in a task of its own.
        sock.end.context = sock.host.context()
        protocol = protocol_factory()
        waiter = self._loop.create_future()
        transport = SimTransport(self._loop, sock, sock.end, protocol, waiter=waiter)
        try:
            await waiter
        except BaseException:
            transport.close()
            raise
        return transport, protocol

    async def create_server(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | Iterable[str] | None = None,
        port: int | None = None,
        *,
        family: int = 0,
        flags: int = 0,
        sock: Any = None,
        backlog: int = 100,
        ssl: None = None,
        reuse_address: bool | None = None,
        reuse_port: bool | None = None,
        keep_alive: bool | None = None,
        ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
        start_serving: bool = True,
    ) -> SimServer:
        if (host is not None or port is not None) == (sock is not None):
            raise ValueError("either host and port or sock must be specified, and not both")
        sockets = [_simulated(sock)] if sock is not None else self._listening_sockets(host, port or 0)
        for listener in sockets:
            self._loop.trace.note("net.listening", listener.host.name, *listener.getsockname()[:2])
        server = SimServer(self._loop, sockets, protocol_factory, sockets[0].host.context())
        if start_serving:
            await server.start_serving()
        return server

    def _listening_sockets(self, host: str | Iterable[str] | None, port: int) -> list[SimSocket]:
        names = [host or WILDCARD] if host is None or isinstance(host, str) else list(host)
        # By address: programs that ask for both kinds of "any address" mean one and the same here.
        families = {self.names.find_address(name or WILDCARD): AF_INET6 if ":" in name else AF_INET for name in names}
        sockets: list[SimSocket] = []
        try:
            for address, family in families.items():
                sockets.append(SimSocket(family, SOCK_STREAM))
                sockets[-1].bind((address, port))
        except OSError:
            for sock in sockets:
                sock.close()
            raise
        return sockets

    async def _handshake(self, out: NetworkLink, back: NetworkLink, address: str, port: int) -> SimSocket:
        began = self._loop.time_ns()
        for after in SYN_AFTER_NS:
            await self._wait_until(began + after)
            await self._wait_until(self._loop.time_ns() + out.transit_ns())
            if not out.is_open or out.loses():
                continue
            listener = out.target.bound_to(address, port)
            is_served = listener is not None and listener.is_serving
            await self._wait_until(self._loop.time_ns() + back.transit_ns())
            if not back.is_open or back.loses():
                continue
            if listener is None or not is_served:
                self._loop.trace.note("net.refused", str(out), port)
                raise OSError(errno.ECONNREFUSED, f"Connect call failed {(address, port)}")
            return listener
        await self._wait_until(began + CONNECT_GIVEN_UP_AFTER_NS)
        self._loop.trace.note("net.unanswered", str(out), port)
        raise OSError(errno.ETIMEDOUT, f"Connect call failed {(address, port)}")

    async def _wait_until(self, when_ns: int) -> None:
        waiter: asyncio.Future[None] = self._loop.create_future()
        timer = self._loop.call_at_ns(when_ns, _wake, waiter)
        try:
            await waiter
        finally:
            timer.cancel()

    # Sockets.

    def register(self, sock: SimSocket) -> int:
        number = next(self._filenos)
        self._sockets[number] = sock
        return number

    def unregister(self, sock: SimSocket) -> None:
        self._sockets.pop(hash(sock), None)

    def socket(self, fileno: int) -> SimSocket | None:
        return self._sockets.get(fileno)

    # Faults.

    def link(self, source: Host | str, target: Host | str) -> NetworkLink:
        """The direction from one host to another."""
        key = self._named(source), self._named(target)
        link = self._links.get(key)
        if link is None:
            link = self._links[key] = NetworkLink(self._loop, *key, self._cuts_changed)
        return link

    def set_latency(
        self, a: Host | str, b: Host | str, latency: timedelta, *, jitter: timedelta = timedelta(0)
    ) -> None:
        """How long a segment takes either way if nothing goes wrong: this long, and up to `jitter` more as drawn for
        each."""
        for link in (self.link(a, b), self.link(b, a)):
            link.latency_ns = _nanoseconds(latency)
            link.jitter_ns = _nanoseconds(jitter)

    def slow_down(
        self, a: Host | str, b: Host | str, latency: timedelta, *, jitter: timedelta = timedelta(0)
    ) -> Release:
        """Let a segment take so long either way, if it would not take longer anyway."""
        delay = _nanoseconds(latency), _nanoseconds(jitter)
        return release_all([link.delays.add(delay) for link in (self.link(a, b), self.link(b, a))])

    def lose_packets(self, a: Host | str, b: Host | str, probability: float) -> Release:
        """Let a packet get lost so likely, either way. TCP repeats it, so it comes late."""
        return release_all([link.losses.add(probability) for link in (self.link(a, b), self.link(b, a))])

    def lose_connections(self, a: Host | str, b: Host | str, *, telling: Host | str | None = None) -> None:
        """From now on nothing gets through on the connections that are there between two hosts, and they do not know;
        only the ends at the host `telling` are told. New connections work. So it is when something on the way, that
        has to know each connection, has forgotten them."""
        told = None if telling is None else self._named(telling)
        for link in (self.link(a, b), self.link(b, a)):
            for end in list(link.ends):
                end.lose_way()
                if link.source is told:
                    self._loop.call_soon(end.fail, os_error(errno.ECONNRESET), context=end.context)

    def cut(self, a: Host | str, b: Host | str, *, one_way: bool = False) -> Release:
        """Let nothing through between two hosts, or only nothing from `a` to `b`. TCP repeats, and gives up at last.

        What is given back ends this cut and no other; `heal` ends all."""
        links = [self.link(a, b)] if one_way else [self.link(a, b), self.link(b, a)]
        return release_all([link.cuts.add(None) for link in links])

    def heal(self, a: Host | str, b: Host | str) -> None:
        """Let everything through again, both ways, whichever fault has cut it."""
        self.link(a, b).cuts.clear()
        self.link(b, a).cuts.clear()

    def heal_all(self) -> None:
        """Undo all cuts. Hosts that vanished stay away, and delays stay as they are."""
        for link in list(self._links.values()):
            link.cuts.clear()

    def reset(self, a: Host | str, b: Host | str) -> None:
        """Break all connections between two hosts, for both ends to see."""
        self._loop.trace.note("net.reset", self._named(a).name, self._named(b).name)
        for link in (self.link(a, b), self.link(b, a)):
            for end in list(link.ends):
                self._loop.call_soon(end.fail, os_error(errno.ECONNRESET), context=end.context)

    def forget(self) -> None:
        """The run is over: let go of what its programs had open, which would be held for as long as the loop is."""
        self._sockets.clear()
        self._links.clear()

    def vanish(self, host: Host | str) -> None:
        """The power of a host fails: its ports and connections are gone, without notice.

        Its code is not stopped by this, but its protocols are never called again, and it cannot connect or listen.
        """
        host = self._named(host)
        self._loop.trace.note("net.vanished", host.name)
        host.is_up = False
        host.release_all()
        for link in self._find_links(host):
            if link.source is host:
                for end in list(link.ends):
                    end.lose_power()
            self._refresh(link)

    def end_process(self, host: Host | str) -> None:
        """The process on a host has ended without closing anything: its ports are free, and its peers are told."""
        host = self._named(host)
        self._loop.trace.note("net.ended", host.name)
        host.release_all()
        for link in self._find_links(host):
            if link.source is host:
                for end in list(link.ends):
                    end.break_off()

    def come_back(self, host: Host | str) -> None:
        """The host is on again, with nothing listening. What belongs to an old connection is answered by a reset."""
        host = self._named(host)
        self._loop.trace.note("net.came_back", host.name)
        host.is_up = True
        for link in self._find_links(host):
            self._refresh(link)

    def _named(self, host: Host | str) -> Host:
        return host if isinstance(host, Host) else self.names.host(host)

    def _find_links(self, host: Host) -> list[NetworkLink]:
        return [link for link in self._links.values() if host in (link.source, link.target)]

    def _cuts_changed(self, link: NetworkLink) -> None:
        is_cut = bool(link.cuts)
        if link.is_cut != is_cut:
            self._loop.trace.note("net.cut" if is_cut else "net.healed", str(link))
            link.is_cut = is_cut
            self._refresh(link)

    def _refresh(self, link: NetworkLink) -> None:
        if link.refresh():
            # Those that send the other way are concerned too: their acknowledgements come back over this link.
            for end in (*link.ends, *self.link(link.target, link.source).ends):
                end.link_changed()


def _simulated(sock: Any) -> SimSocket:
    if not isinstance(sock, SimSocket):
        raise Unsimulated("a real socket cannot take part in a simulation: create it inside the run")
    return sock


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _nanoseconds(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1) * 1000
