"""What a pool of connections counts, and that it notices when it has counted wrong."""

import pytest

from mainstay.client.client import Client
from mainstay.client.dispatch import Sender
from mainstay.client.pool import ConnectionPool
from mainstay.env.invariants import BrokenInvariant
from tests.client.world import a_world


def the_pool(client: Client) -> ConnectionPool:
    sender = client._sender
    assert isinstance(sender, Sender)
    return sender._servers[0].pool


async def test_a_connection_that_is_given_back_twice_is_noticed(sim):
    async with a_world(sim) as world:
        await world.client.request("GET", "/version")
        pool = the_pool(world.client)
        connection = pool.take()
        assert connection is not None
        pool.give_back(connection)

        with pytest.raises(BrokenInvariant, match="given back once"):
            pool.give_back(connection)


async def test_more_connections_than_allowed_are_noticed(sim):
    async with a_world(sim) as world:
        await world.client.request("GET", "/version")
        pool = the_pool(world.client)

        pool._connecting = 32
        with pytest.raises(BrokenInvariant, match=r"within their limit: pool of .*: open=1, connecting=32"):
            pool._check_counts()
        pool._connecting = 0
        with pytest.raises(BrokenInvariant, match="connecting=-1"):
            pool._leave_room()
        pool._connecting = 0
