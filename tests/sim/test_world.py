"""A world is a cluster of production parts in which everything that happens is written down."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest

from mainstay.api.kind_names import CONFIG_MAPS, PODS
from mainstay.api.object_key import ObjectKey
from mainstay.client.call import WriteOptions
from mainstay.client.client import Client
from mainstay.client.errors import ApiError
from mainstay.client.informer import Informers
from mainstay.env import Env, tasks
from mainstay.sim.cluster.history import (
    ProgramCrashed,
    ProgramStarted,
    RequestReceived,
    ResponseSent,
    RevisionCommitted,
    WatchDelivered,
    WatchEnded,
    WatchOpened,
)
from mainstay.sim.cluster.program_lifecycle import ProgramStep
from mainstay.sim.cluster.world import NotQuiet, World
from mainstay.sim.simulation import Simulation

pytestmark = pytest.mark.slow


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def a_configmap(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


@asynccontextmanager
async def booted(sim: Simulation, *, servers: int = 1, disk: bool = False) -> AsyncIterator[tuple[World, Client]]:
    """A world with servers and nothing else, and a client on a host of its own."""
    world = World(sim, disk=disk)
    for number in range(servers):
        world.add_server(f"server-{number}")
    world.know("admin")
    await world.boot()
    with sim.network.host("admin").active():
        async with world.client_for("admin", sim.env("admin")) as client:
            yield world, client


async def test_what_is_asked_answered_and_committed_is_written_down_together(sim: Simulation):
    async with booted(sim) as (world, client):
        await tasks.sleep(seconds(1))
        before = len(world.history.events)
        said = WriteOptions(operation="op-1", decision="d-1", cause="c-1")
        made = await client.create(CONFIG_MAPS, a_configmap("one"), "default", write=said)
        asked, committed, *aside, answered = world.history.events[before:]

    revision = int(made["metadata"]["resourceVersion"])
    assert isinstance(asked, RequestReceived)
    assert (asked.who, asked.server, asked.method) == ("admin", "server-0", "POST")
    assert asked.path == "/api/v1/namespaces/default/configmaps"
    assert (asked.decision, asked.cause, asked.operation) == ("d-1", "c-1", "op-1")
    assert isinstance(committed, RevisionCommitted)
    assert (committed.revision, committed.key) == (revision, "core/configmaps/default/one")
    assert (committed.previous, committed.request) == (None, asked.request)
    assert "~operations" in [event.key.split("/")[0] for event in aside if isinstance(event, RevisionCommitted)]
    assert isinstance(answered, ResponseSent)
    assert (answered.request, answered.status, answered.revision) == (asked.request, 201, revision)
    assert answered.is_delivered


async def test_what_a_server_does_by_itself_has_no_request(sim: Simulation):
    async with booted(sim) as (world, _):
        made = [event for event in world.history.events if isinstance(event, RevisionCommitted)]

    assert "core/namespaces/default" in [event.key for event in made]
    assert {event.request for event in made} == {None}


async def test_a_refused_write_is_written_down_with_its_status(sim: Simulation):
    async with booted(sim) as (world, client):
        await client.create(CONFIG_MAPS, a_configmap("one"), "default")
        with pytest.raises(Exception, match="already exists"):
            await client.create(CONFIG_MAPS, a_configmap("one"), "default")

        answers = [event for event in world.history.events if isinstance(event, ResponseSent)]
    assert [event.status for event in answers] == [201, 409]


async def test_what_a_watch_delivers_is_written_down(sim: Simulation):
    async with booted(sim) as (world, client):
        first = await client.create(CONFIG_MAPS, a_configmap("one"), "default")
        async with client.watch(CONFIG_MAPS, "default", initial_events=True) as watch:
            await watch.fetch()
            await client.delete(CONFIG_MAPS, "one", "default")
            await watch.fetch()
        await tasks.sleep(seconds(1))

        opened = next(event for event in world.history.events if isinstance(event, WatchOpened))
        told = [event for event in world.history.events if isinstance(event, WatchDelivered)]
        ended = [event for event in world.history.events if isinstance(event, WatchEnded)]
    revision = int(first["metadata"]["resourceVersion"])
    assert (opened.prefix, opened.after, opened.wants_state) == ("core/configmaps/default/", 0, True)
    assert [(event.type, event.key, event.revision, event.is_end_of_state) for event in told] == [
        ("ADDED", "core/configmaps/default/one", revision, False),
        ("BOOKMARK", "", revision, True),
        ("DELETED", "core/configmaps/default/one", revision + 1, False),
    ]
    assert [event.watch for event in ended] == [opened.watch]


async def test_subscribers_are_told_at_once_and_in_order(sim: Simulation):
    async with booted(sim) as (world, client):
        seen: list[object] = []
        before = len(world.history.events)
        world.history.subscribe(seen.append)
        await client.create(CONFIG_MAPS, a_configmap("one"), "default")

        assert seen == world.history.events[before:]


async def test_servers_share_a_store_and_survive_each_other(sim: Simulation):
    async with booted(sim, servers=2) as (world, client):
        await client.create(CONFIG_MAPS, a_configmap("one"), "default")
        busy = next(event.server for event in world.history.events if isinstance(event, RequestReceived))
        world.servers[busy].crash()
        await client.get(CONFIG_MAPS, "one", "default")
        await client.create(CONFIG_MAPS, a_configmap("two"), "default")
        world.servers[busy].start()
        await tasks.sleep(seconds(1))

        assert busy in world.gates


async def test_a_commit_that_was_asked_for_happens_though_the_server_dies_and_the_store_goes_on(sim: Simulation):
    async with booted(sim, servers=2, disk=True) as (world, client):
        sim.loop.executors.delays_ns = (1_000_000,)  # The disk takes its time.
        asking = asyncio.ensure_future(client.create(CONFIG_MAPS, a_configmap("one"), "default"))
        while not any(isinstance(event, RequestReceived) for event in world.history.events):
            await tasks.sleep(seconds(0.0001))
        asked = next(event for event in world.history.events if isinstance(event, RequestReceived))
        world.servers[asked.server].crash()
        with pytest.raises(Exception, match="POST"):
            await asking
        await tasks.sleep(seconds(1))

        assert await client.get(CONFIG_MAPS, "one", "default")
        await client.create(CONFIG_MAPS, a_configmap("two"), "default")


async def test_a_program_asks_under_its_own_name_and_is_part_of_the_history(sim: Simulation):
    world = World(sim)
    world.add_server("server-0")

    async def main(env: Env) -> None:
        async with world.client_for("worker", env) as client:
            await client.create(CONFIG_MAPS, a_configmap(f"made-{env.chance.suffix('x', 0)}"), "default")
            await asyncio.Event().wait()

    program = world.add_program("worker", main)
    await world.boot()
    await tasks.sleep(seconds(1))
    program.crash()
    program.start()
    await tasks.sleep(seconds(1))

    asked = [event.who for event in world.history.events if isinstance(event, RequestReceived)]
    steps = [event for event in world.history.events if isinstance(event, ProgramStarted | ProgramCrashed)]
    assert asked == ["worker", "worker"]
    assert [(type(event).__name__, event.program, event.incarnation) for event in steps] == [
        ("ProgramStarted", "server-0", 0),
        ("ProgramStarted", "worker", 0),
        ("ProgramCrashed", "worker", 0),
        ("ProgramStarted", "worker", 1),
    ]


async def test_a_client_under_an_unknown_name_is_rejected(sim: Simulation):
    async with booted(sim) as (world, _):
        with pytest.raises(ValueError, match="stranger is not a program"):
            world.client_for("stranger", sim.env("stranger"))


async def test_rest_is_found_when_writing_ends_and_missed_when_it_does_not(sim: Simulation):
    async with booted(sim) as (world, client):
        for number in range(5):
            await client.create(CONFIG_MAPS, a_configmap(f"map-{number}"), "default")
            await tasks.sleep(seconds(1))
        began = sim.loop.time()
        await world.quiet(seconds(60), calm=seconds(10))
        assert sim.loop.time() - began == pytest.approx(10, abs=0.1)

        async def writing() -> None:
            for number in range(100):
                await client.create(CONFIG_MAPS, a_configmap(f"more-{number}"), "default")
                await tasks.sleep(seconds(5))

        busy = asyncio.ensure_future(writing())
        with pytest.raises(NotQuiet, match="core/configmaps/default/more-"):
            await world.quiet(seconds(60), calm=seconds(10))
        busy.cancel()


async def test_heartbeats_disturb_no_rest(sim: Simulation):
    world = World(sim)
    world.add_server("server-0")
    world.add_node("node-0")
    await world.boot()

    await world.quiet(seconds(60), calm=seconds(30))

    leases = [each for each in world.history.events if isinstance(each, RevisionCommitted) and "/leases/" in each.key]
    assert len(leases) >= 3


async def test_healing_starts_what_has_crashed_and_wakes_what_is_paused(sim: Simulation):
    world = World(sim)
    world.add_server("server-0")
    nodes = [world.add_node(f"node-{number}") for number in range(3)]
    await world.boot()
    await tasks.sleep(seconds(1))
    nodes[0].crash(silently=True)
    nodes[1].pause()
    sim.network.cut("node-2", "server-0")

    await world.heal()

    assert [(node.is_running, node.is_paused) for node in nodes] == [(True, False)] * 3
    assert sim.network.link("node-2", "server-0").is_open


async def test_a_world_stops_in_order(sim: Simulation):
    world = World(sim)
    world.add_server("server-0")
    world.add_node("node-0")
    await world.boot()
    await tasks.sleep(seconds(5))

    await world.stop()

    assert world.programs["node-0"].ended is ProgramStep.STOPPED
    assert world.servers["server-0"].ended is ProgramStep.STOPPED


def test_the_same_seed_gives_the_same_run_with_all_faults():
    def digest(seed: int) -> str:
        with Simulation(seed) as sim:
            sim.run(a_small_life(sim))
            return sim.digest

    assert digest(5) == digest(5)
    assert digest(5) != digest(6)


async def a_small_life(sim: Simulation) -> World:
    """Two servers, three nodes and a user who keeps six pods there, for a minute of faults."""
    world = World(sim)
    world.add_server("server-0")
    world.add_server("server-1")
    for number in range(3):
        world.add_node(f"node-{number}")

    async def keep_pods(env: Env) -> None:
        async with world.client_for("keeper", env) as client:
            informers = Informers(client, env)
            pods = informers.get(PODS)
            await informers.synced()
            while True:
                for number in range(6):
                    if pods.cache.get(ObjectKey("default", f"pod-{number}")) is None:
                        await _ensure_pod(client, number)
                await tasks.sleep(seconds(2))

    world.add_program("keeper", keep_pods)
    await world.boot()
    world.faults.start()
    await tasks.sleep(seconds(60))
    await world.heal()
    await world.quiet(seconds(600), calm=seconds(120))
    return world


async def _ensure_pod(client: Client, number: int) -> None:
    spec = {"nodeName": f"node-{number % 3}", "containers": [{"name": "c", "image": "x:1"}]}
    with suppress(ApiError):  # It is there, or will be tried again.
        await client.create(PODS, {"metadata": {"name": f"pod-{number}"}, "spec": spec}, "default")


@pytest.mark.parametrize("seed", range(10))
def test_after_faults_all_pods_run(seed: int):
    async def run(sim: Simulation) -> list[str]:
        world = await a_small_life(sim)
        with sim.network.host("admin").active():
            world.know("admin")
            async with world.client_for("admin", sim.env("admin")) as client:
                pods = (await client.list(PODS)).items
        return [pod["status"]["phase"] for pod in pods]

    with Simulation(seed) as sim:
        assert sim.run(run(sim)) == ["Running"] * 6
