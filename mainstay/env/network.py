"""Connecting and listening. The only module that asks the loop for a socket.

The running event loop is the seam: on the production loop this is TCP, under the simulator it is the simulated
network, with the same transports and protocols on top.

A peer may vanish without a word: its machine loses power, or the network between drops its packets. This process would
never hear of it on a connection on which nothing is sent, so the system is asked to knock now and then (TCP
keep-alive), and to give up on what was sent and not taken. After about `PEER_SILENT_S_MAX` the connection is lost like
any other.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Final, Generic, Protocol, TypeVar

from mainstay.env import tasks

TLS_GOODBYE_S_MAX: Final = 1.0

BACKLOG: Final = 1024
"""Connections that the system completes before this process accepts them."""
ACCEPTED_PER_TURN: Final = 16
"""Each begins a handshake, which costs the loop a millisecond or so."""
ACCEPT_AGAIN_AFTER: Final = timedelta(milliseconds=200)
"""When the system has no file left for a connection."""

PEER_SILENT_S_MAX: Final = 60
_KNOCK_AFTER_S: Final = 30
_KNOCK_EVERY_S: Final = 10
_KNOCKS: Final = (PEER_SILENT_S_MAX - _KNOCK_AFTER_S) // _KNOCK_EVERY_S
# Systems differ in what they have. The last one also ends a connection whose peer is there but takes nothing.
_TCP_OPTIONS: Final = {
    "TCP_KEEPIDLE": _KNOCK_AFTER_S,
    "TCP_KEEPALIVE": _KNOCK_AFTER_S,  # What macOS calls the same.
    "TCP_KEEPINTVL": _KNOCK_EVERY_S,
    "TCP_KEEPCNT": _KNOCKS,
    "TCP_USER_TIMEOUT": PEER_SILENT_S_MAX * 1000,
}

ProtocolT = TypeVar("ProtocolT", bound=asyncio.BaseProtocol)
EntryT = TypeVar("EntryT")

_log = logging.getLogger(__name__)


class PortListener(Protocol):
    """Accepts connections until it is closed."""

    @property
    def sockets(self) -> Iterable[socket.socket]: ...

    def close(self) -> None: ...


class ConnectionGuard(Protocol[EntryT]):
    """Admits connections before their handshake, and counts them."""

    def enter(self, address: str, handshake: "Handshake") -> EntryT | None:
        """A client at this address has connected. None: close the connection."""

    def leave(self, entry: EntryT) -> None:
        """Their handshake has failed."""

    def build_protocol(self, entry: EntryT) -> asyncio.BaseProtocol:
        """For what comes after the handshake."""


async def connect(
    protocol: Callable[[], ProtocolT],
    host: str,
    port: int,
    *,
    tls: ssl.SSLContext | None = None,
    server_name: str | None = None,
) -> tuple[asyncio.Transport, ProtocolT]:
    """Open a connection. Raises `OSError` when there is none to be had.

    Over TLS the other side has to show that it is `server_name`; if that is not said, `host`.
    """
    loop = asyncio.get_running_loop()
    expected = server_name if tls is not None else None
    transport, made = await loop.create_connection(protocol, host, port, ssl=tls, server_hostname=expected)
    opened = transport.get_extra_info("socket")
    if opened is not None:  # The simulator's connections have none: there, who vanishes is part of the plan.
        _notice_when_silent(opened)
    return transport, made


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host, in the order in which to try them. Raises `OSError` if it has none."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError:  # For an empty label, or one of more than 63 characters.
        raise OSError(f"{host}: not a host name") from None
    return list(dict.fromkeys(str(each[4][0]) for each in found))


async def listen(protocol: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> asyncio.Server:
    """Accept connections until the server is closed. Port 0 takes any free one."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(protocol, host, port, backlog=BACKLOG)
    for listening in server.sockets:
        _notice_when_silent(listening)  # The connections that it accepts have it from there.
    return server


async def listen_tls(
    guard: ConnectionGuard[EntryT], host: str, port: int, tls: ssl.SSLContext, handshake_within: timedelta
) -> "TlsListener[EntryT]":
    """The same for TLS, on the production loop only."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, _, _, _, address in dict.fromkeys(found):
            sockets.append(socket.create_server(address[:2], family=family, backlog=BACKLOG))
    except OSError:
        for opened in sockets:
            opened.close()
        raise
    return TlsListener(guard, sockets, tls, handshake_within)


class Handshake:
    """One that goes on. It can be given up for others."""

    is_busy: Final = False

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None

    def drop(self) -> None:
        if self.task is not None:
            self.task.cancel()


class TlsListener(Generic[EntryT]):
    """Made by `listen_tls`. A loop's own server would tell of a connection only after its handshake: until then those
    that never begin one would count nowhere, and could take all files of the process."""

    def __init__(
        self,
        guard: ConnectionGuard[EntryT],
        sockets: list[socket.socket],
        tls: ssl.SSLContext,
        handshake_within: timedelta,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._guard = guard
        self.sockets = sockets
        self._tls = tls
        self._handshake_within = handshake_within
        self._handshakes: dict[Handshake, None] = {}
        self._is_closed = False
        for listening in sockets:
            listening.setblocking(False)
            _notice_when_silent(listening)  # The connections that it accepts have it from there.
            self._loop.add_reader(listening, self._accept, listening)

    def close(self) -> None:
        """Accept no more. Handshakes that go on are given up."""
        if self._is_closed:
            return
        self._is_closed = True
        for listening in self.sockets:
            self._loop.remove_reader(listening)
            listening.close()
        for handshake in list(self._handshakes):
            handshake.drop()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTED_PER_TURN):
            try:
                connection, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # No file is left. The connection waits in the backlog, and would be reported again at once.
                _log.error("cannot accept connections: %s", error.strerror or error)
                self._loop.remove_reader(listening)
                self._loop.call_later(ACCEPT_AGAIN_AFTER.total_seconds(), self._accept_again, listening)
                return
            connection.setblocking(False)
            handshake = Handshake()
            entry = self._guard.enter(address[0], handshake)
            if entry is None:
                connection.close()
                continue
            self._handshakes[handshake] = None
            handshake.task = tasks.begin(self._shake(connection, entry, handshake), name="TLS handshake")

    def _accept_again(self, listening: socket.socket) -> None:
        if not self._is_closed:
            self._loop.add_reader(listening, self._accept, listening)

    async def _shake(self, connection: socket.socket, entry: EntryT, handshake: Handshake) -> None:
        try:
            await self._loop.connect_accepted_socket(
                lambda: self._guard.build_protocol(entry),
                connection,
                ssl=self._tls,
                ssl_handshake_timeout=self._handshake_within.total_seconds(),
                # A client that is gone, or does not read, cannot be waited for when the connection ends.
                ssl_shutdown_timeout=TLS_GOODBYE_S_MAX,
            )
        except (OSError, asyncio.CancelledError):  # `ssl.SSLError` and `TimeoutError` are of the former.
            connection.close()
            self._guard.leave(entry)
        finally:
            del self._handshakes[handshake]


def be_patient(transport: asyncio.Transport) -> None:
    """Wait for a peer that is there but takes nothing, for as long as it likes: a person reads a log page by page.

    One that has vanished is still noticed: soon if nothing is under way to it, after some minutes if something is.
    """
    opened = transport.get_extra_info("socket")
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    if opened is not None and option is not None:
        opened.setsockopt(socket.IPPROTO_TCP, option, 0)


def _notice_when_silent(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _TCP_OPTIONS.items():
        option = getattr(socket, name, None)
        if option is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
