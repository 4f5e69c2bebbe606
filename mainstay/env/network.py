"""Connecting and listening. The only module that asks the loop for a socket.

The running event loop is the seam: on the production loop this is TCP, under the simulator it is the simulated
network, with the same transports and protocols on top.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Final, TypeVar

TLS_GOODBYE_S_MAX: Final = 1.0

ProtocolT = TypeVar("ProtocolT", bound=asyncio.BaseProtocol)


async def connect(
    protocol: Callable[[], ProtocolT], host: str, port: int, *, tls: ssl.SSLContext | None = None
) -> tuple[asyncio.Transport, ProtocolT]:
    """Open a connection. Raises `OSError` when there is none to be had."""
    return await asyncio.get_running_loop().create_connection(protocol, host, port, ssl=tls)


async def listen(
    protocol: Callable[[], asyncio.BaseProtocol], host: str, port: int, *, tls: ssl.SSLContext | None = None
) -> asyncio.Server:
    """Accept connections until the server is closed. Port 0 takes any free one."""
    loop = asyncio.get_running_loop()
    if tls is None:
        return await loop.create_server(protocol, host, port)
    # A client that is gone, or does not read, cannot be waited for when the connection ends.
    return await loop.create_server(protocol, host, port, ssl=tls, ssl_shutdown_timeout=TLS_GOODBYE_S_MAX)
