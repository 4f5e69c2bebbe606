"""What the tests of the simulated network share: listening, connecting, and what fails."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mainstay.sim.net.hosts import Host
from mainstay.sim.net.network import Network

PORT = 6443
HOUR_S = 3600.0

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def now_ns() -> int:
    return round(asyncio.get_running_loop().time() * 1e9)


class Listener:
    """Listens on a host and keeps what it accepts."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.accepted: asyncio.Queue[Streams] = asyncio.Queue()

    async def start(self, address: str = "0.0.0.0", port: int = PORT) -> Any:
        with self.host.active():
            self.server = await asyncio.start_server(self._accept, address, port)
        return self

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted.put_nowait((reader, writer))


async def connect(host: Host, to: str, port: int = PORT) -> Streams:
    with host.active():
        return await asyncio.open_connection(to, port)


@asynccontextmanager
async def a_connection(network: Network) -> AsyncIterator[tuple[Streams, Streams]]:
    """From host `agent` to host `server`, where another connection can be made at any time."""
    listener = await Listener(network.host("server")).start()
    client = await connect(network.host("agent"), "server")
    yield client, await listener.accepted.get()


async def failure_of(operation: Any) -> OSError:
    try:
        await operation
    except OSError as error:
        return error
    pytest.fail("it did not fail")
