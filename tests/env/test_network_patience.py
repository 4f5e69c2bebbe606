"""How long a peer that takes nothing is waited for. On real sockets: the simulator's have no such option."""

import asyncio
import socket

import pytest

from mainstay.env import network

pytestmark = pytest.mark.real_loop


async def test_a_peer_that_takes_nothing_is_given_up_unless_we_are_patient():
    server = await network.listen(asyncio.Protocol, "127.0.0.1", 0)
    transport, _ = await network.connect(asyncio.Protocol, "127.0.0.1", server.sockets[0].getsockname()[1])

    def limit_ms() -> int:
        found: int = transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        return found

    assert limit_ms() == network.PEER_SILENT_S_MAX * 1000
    network.be_patient(transport)
    assert limit_ms() == 0
    transport.close()
    server.close()
    await server.wait_closed()
