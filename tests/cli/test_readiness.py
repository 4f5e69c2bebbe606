"""When a cluster on one machine counts as ready."""

from datetime import UTC, datetime, timedelta

from mainstay.cli.readiness import NodeState, find_ready, wait_for_server
from mainstay.client.config import Config
from mainstay.env import tasks

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def a_node(*, is_ready: bool = True, renewed: datetime | None = NOW) -> NodeState:
    return NodeState("node-a1", is_ready, "zone-a", renewed)


def test_a_node_is_up_when_it_says_so_and_has_renewed_its_lease_since_its_agent_was_started():
    assert find_ready(["node-a1"], {"node-a1": a_node()}, {"node-a1": NOW - SECOND}) == ["node-a1"]


def test_what_a_node_said_before_its_agent_was_started_does_not_count():
    assert find_ready(["node-a1"], {"node-a1": a_node()}, {"node-a1": NOW + SECOND}) == []


def test_a_node_without_an_agent_is_not_up():
    assert find_ready(["node-a1"], {"node-a1": a_node()}, {}) == []


def test_a_node_that_is_not_ready_or_has_no_lease_is_not_up():
    since = {"node-a1": NOW - SECOND}

    assert find_ready(["node-a1"], {"node-a1": a_node(is_ready=False)}, since) == []
    assert find_ready(["node-a1"], {"node-a1": a_node(renewed=None)}, since) == []
    assert find_ready(["node-a1"], {}, since) == []


async def test_a_server_that_does_not_come_is_not_waited_for_for_ever(sim):
    began_ns = sim.clock.monotonic_ns()

    with sim.network.host("agent").active():
        await wait_for_server(Config(("http://agent:1",)), timedelta(seconds=10))

    assert timedelta(microseconds=(sim.clock.monotonic_ns() - began_ns) // 1000) == timedelta(seconds=10)


async def test_a_server_that_comes_is_noticed_soon(sim):
    import asyncio

    from mainstay.env import network

    host = sim.network.host("server")
    with host.active():
        waiting = tasks.spawn(wait_for_server(Config(("http://server:1",)), timedelta(seconds=10)), name="wait")
        await tasks.sleep(timedelta(seconds=3))
        assert not waiting.done()
        server = await network.listen(asyncio.Protocol, "0.0.0.0", 1)
        await tasks.sleep(timedelta(milliseconds=100))
        assert waiting.done()
        server.close()
