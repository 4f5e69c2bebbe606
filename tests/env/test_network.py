"""Connecting and listening, on the simulated network and on the machine's own."""

import asyncio
import socket
from datetime import timedelta
from typing import cast

import pytest

from mainstay.env import network, tasks

LOCALHOST = "127.0.0.1"
TIMEOUT = timedelta(seconds=10)


class Echo(asyncio.Protocol):
    """Sends back what it gets."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's only behave like one.

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Caller(asyncio.Protocol):
    """Collects what it gets, and knows when the connection is over."""

    def __init__(self) -> None:
        self.received = b""
        self.something_came = asyncio.Event()
        self.is_over = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.something_came.set()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_over.set()


def port_of(server: asyncio.Server) -> int:
    port: int = server.sockets[0].getsockname()[1]
    return port


async def test_what_is_sent_arrives_and_is_answered(either_loop):
    server = await network.listen(Echo, LOCALHOST, 0)
    transport, caller = await network.connect(Caller, LOCALHOST, port_of(server))

    transport.write(b"hello")
    async with tasks.timeout(TIMEOUT):
        await caller.something_came.wait()

    assert caller.received == b"hello"
    transport.close()
    server.close()


async def test_each_connection_has_a_protocol_of_its_own(either_loop):
    accepted: list[Echo] = []

    def accept() -> Echo:
        accepted.append(Echo())
        return accepted[-1]

    server = await network.listen(accept, LOCALHOST, 0)
    callers = [await network.connect(Caller, LOCALHOST, port_of(server)) for _ in range(3)]
    for number, (transport, _) in enumerate(callers):
        transport.write(b"%d" % number)
    async with tasks.timeout(TIMEOUT):
        for _, caller in callers:
            await caller.something_came.wait()

    assert [caller.received for _, caller in callers] == [b"0", b"1", b"2"]
    assert len(accepted) == 3
    for transport, _ in callers:
        transport.close()
    server.close()


async def test_port_zero_takes_any_free_port(either_loop):
    servers = [await network.listen(Echo, LOCALHOST, 0) for _ in range(3)]

    ports = {port_of(server) for server in servers}

    assert len(ports) == 3
    assert 0 not in ports
    for server in servers:
        server.close()


async def test_a_port_that_is_taken_is_refused(either_loop):
    server = await network.listen(Echo, LOCALHOST, 0)

    with pytest.raises(OSError, match=r"(?i)in use"):
        await network.listen(Echo, LOCALHOST, port_of(server))
    server.close()


async def test_a_closed_port_refuses_connections(either_loop):
    server = await network.listen(Echo, LOCALHOST, 0)
    port = port_of(server)
    server.close()
    await server.wait_closed()

    with pytest.raises(ConnectionRefusedError):
        await network.connect(Caller, LOCALHOST, port)


async def test_the_caller_notices_when_the_other_side_hangs_up(either_loop):
    class Rude(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            transport.close()

    server = await network.listen(Rude, LOCALHOST, 0)
    _, caller = await network.connect(Caller, LOCALHOST, port_of(server))

    async with tasks.timeout(TIMEOUT):
        await caller.is_over.wait()
    server.close()


@pytest.mark.real_loop
async def test_both_ends_of_a_real_connection_look_whether_the_other_is_still_there():
    accepted: asyncio.Future[asyncio.BaseTransport] = asyncio.get_running_loop().create_future()

    class Acceptor(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            accepted.set_result(transport)

    server = await network.listen(Acceptor, LOCALHOST, 0)
    opened, _ = await network.connect(Caller, LOCALHOST, port_of(server))
    async with tasks.timeout(TIMEOUT):
        ends = [opened, await accepted]

    for end in ends:
        get = end.get_extra_info("socket").getsockopt
        assert get(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        knocking_s = get(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) * get(socket.IPPROTO_TCP, socket.TCP_KEEPCNT)
        assert get(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) + knocking_s == network.PEER_SILENT_S_MAX
        assert get(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == network.PEER_SILENT_S_MAX * 1000
        end.close()
    server.close()
