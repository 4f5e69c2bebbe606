"""Connecting and listening. The only module that asks the loop for a socket.

The running event loop is the seam: on the production loop this is TCP, under the simulator it is the simulated
network, with the same transports and protocols on top.

A peer may vanish without a word: its machine loses power, or the network between drops its packets. This process would
never hear of it on a connection on which nothing is sent, so the system is asked to knock now and then (TCP
keep-alive), and to give up on what was sent and not taken. After about `PEER_SILENT_S_MAX` the connection is lost like
any other.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Final, TypeVar

TLS_GOODBYE_S_MAX: Final = 1.0

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


async def listen(
    protocol: Callable[[], asyncio.BaseProtocol], host: str, port: int, *, tls: ssl.SSLContext | None = None
) -> asyncio.Server:
    """Accept connections until the server is closed. Port 0 takes any free one."""
    loop = asyncio.get_running_loop()
    if tls is None:
        server = await loop.create_server(protocol, host, port)
    else:
        # A client that is gone, or does not read, cannot be waited for when the connection ends.
        server = await loop.create_server(protocol, host, port, ssl=tls, ssl_shutdown_timeout=TLS_GOODBYE_S_MAX)
    for listening in server.sockets:
        _notice_when_silent(listening)  # The connections that it accepts have it from there.
    return server


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
