"""A client of ours against a real API server, both in the simulator; and a gate between them that can misbehave.

    async with a_world(sim) as world:
        await world.client.create(PODS, a_pod("one"), "default")

The server is on the host `server`, clients on `client`, the gate on `gate`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

from mainstay.client.client import Client
from mainstay.client.config import Config
from mainstay.client.limits import ClientLimits
from mainstay.env import network
from mainstay.sim.simulation import Simulation
from mainstay.store.interface import Store
from tests.server.world import PORT, a_server
from tests.server.world import Client as Asking

GATE_PORT = 7000


@dataclass
class World:
    sim: Simulation
    client: Client
    asking: Asking
    """Asks the same server by other means (aiohttp), for what a test wants to know besides."""


def a_client(
    sim: Simulation,
    *servers: str,
    name: str = "client",
    token: str = "admintoken",
    limits: ClientLimits | None = None,
    user_agent: str = "test/1",
) -> Client:
    """A client on whatever host the running code is. Servers are `host` or `host:port`; without any, `server`.

    Close it, or use it as a context manager.
    """
    urls = tuple(f"http://{each if ':' in each else f'{each}:{PORT}'}" for each in servers or ("server",))
    return Client(Config(urls, token=token), sim.env(name), user_agent=user_agent, limits=limits)


@asynccontextmanager
async def a_world(
    sim: Simulation, *, store: Store | None = None, token: str = "admintoken", limits: ClientLimits | None = None
) -> AsyncIterator[World]:
    """One server and one client. The code of the test is on the client's host."""
    async with a_server(sim, "server", store) as asking, a_client(sim, token=token, limits=limits) as client:
        yield World(sim, client, asking)


class Gate:
    """Passes everything on between clients and a server, and can be told to lose, hold or close."""

    def __init__(self) -> None:
        self.accepted = 0
        """Connections so far."""
        self.open: dict[_Inside, None] = {}
        self.answers_to_lose = 0
        """So many pieces of answers are not passed on; the connection is broken off instead."""
        self.holds_answers = False
        """Answers are neither passed on nor lost: silence."""
        self.requests: list[bytes] = []
        """What clients sent, piece by piece."""

    def close_all(self) -> None:
        """Close all connections in order, as a server does with those that are idle."""
        for inside in list(self.open):
            inside.transport.close()

    def break_all(self) -> None:
        for inside in list(self.open):
            inside.transport.abort()

    def count(self, start: bytes) -> int:
        """How many requests began like this."""
        return sum(1 for piece in self.requests if piece.startswith(start))


class _Inside(asyncio.Protocol):
    """Towards the client."""

    transport: asyncio.Transport

    def __init__(self, gate: Gate, server: str) -> None:
        self._gate = gate
        self._server = server
        self._outside: asyncio.Transport | None = None
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._gate.accepted += 1
        self._gate.open[self] = None
        self._task = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        transport, _ = await network.connect(lambda: _Outside(self._gate, self), self._server, PORT)
        self._outside = transport
        for piece in self._early:
            transport.write(piece)

    def data_received(self, data: bytes) -> None:
        self._gate.requests.append(data)
        if self._outside is None:
            self._early.append(data)
        else:
            self._outside.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._gate.open.pop(self, None)
        if self._outside is not None:
            self._outside.close()


class _Outside(asyncio.Protocol):
    """Towards the server."""

    def __init__(self, gate: Gate, inside: _Inside) -> None:
        self._gate = gate
        self._inside = inside

    def data_received(self, data: bytes) -> None:
        if self._gate.answers_to_lose > 0:
            self._gate.answers_to_lose -= 1
            self._inside.transport.abort()
        elif not self._gate.holds_answers:
            self._inside.transport.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._inside.transport.close()


@asynccontextmanager
async def a_gate(sim: Simulation, server: str = "server", *, name: str = "gate") -> AsyncIterator[Gate]:
    """A gate on a host of its own. Clients connect to `gate:7000`."""
    gate = Gate()
    with sim.network.host(name).active():
        listening = await network.listen(lambda: _Inside(gate, server), "0.0.0.0", GATE_PORT)
    try:
        yield gate
    finally:
        listening.close()
        gate.break_all()


Answering = Callable[[bytes, asyncio.Transport], None]
"""What a scripted server does with a request that it was sent: all of it, in the pieces that came."""


class Scripted(asyncio.Protocol):
    """Does what it is told with each piece that comes. For answers that no proper server gives."""

    transport: asyncio.Transport

    def __init__(self, answer: Answering) -> None:
        self._answer = answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._answer(data, self.transport)


@asynccontextmanager
async def a_scripted_server(sim: Simulation, answer: Answering, name: str = "server") -> AsyncIterator[None]:
    """A server on the host `name`; the code of the test is on `client`."""
    with sim.network.host(name).active():
        listening = await network.listen(lambda: Scripted(answer), "0.0.0.0", PORT)
    with sim.network.host("client").active():
        try:
            yield
        finally:
            listening.close()


def an_answer(status: str, body: bytes, *headers: str) -> bytes:
    lines = "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers))
    return f"{lines}\r\n".encode() + body


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)
