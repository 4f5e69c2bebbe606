"""A pretend node looks like a node: it registers, stays alive, and reports its pods from start to end."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from mainstay.agent.pod_steps import Delays, Done, Known, Remove, Report, Wait, decide
from mainstay.agent.pretend import LEASE_NAMESPACE, LEASES, NODES, PODS, NodeSettings, run_nodes
from mainstay.client.client import Client
from mainstay.client.errors import NotFound
from mainstay.env import Env, tasks
from mainstay.sim.history import Asked, Committed
from mainstay.sim.simulation import Simulation
from mainstay.sim.world import World

KNOWN = Known(address="10.128.0.1", host_address="10.128.0.0", seen_ns=0, ending_ns=None)
NOW = "2026-01-01T00:00:00Z"


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def a_pod(name: str, node: str = "node-0", **metadata: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "x:1"}]
    return {"metadata": {"name": name, **metadata}, "spec": {"nodeName": node, "containers": containers}}


@asynccontextmanager
async def a_cluster(
    sim: Simulation, *nodes: str, settings: NodeSettings | None = None
) -> AsyncIterator[tuple[World, Client]]:
    world = World(sim)
    world.add_server("server-0")
    for node in nodes:
        world.add_node(node, settings)
    world.know("admin")
    await world.boot()
    await tasks.sleep(seconds(1))
    with sim.network.host("admin").active():
        async with world.client_for("admin", sim.env("admin")) as client:
            yield world, client


# Deciding.


def stored(status: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    return {**a_pod("one", **metadata), "status": status or {}}


READY = {"type": "Ready", "status": "True"}
UNREADY = {"type": "Ready", "status": "False"}
ENDING = {"deletionTimestamp": NOW, "deletionGracePeriodSeconds": 30}


def step(pod: dict[str, Any], at_s: float = 0, known: Known = KNOWN) -> Any:
    return decide(pod, known, Delays(start=seconds(2), stop=seconds(3)), int(at_s * 10**9), NOW)


def test_a_new_pod_is_reported_as_starting():
    report = step(stored())

    assert isinstance(report, Report)
    assert (report.stage, report.status["phase"], report.status["startTime"]) == ("starting", "Pending", NOW)
    assert [each["ready"] for each in report.status["containerStatuses"]] == [False]


def test_a_pod_that_is_starting_is_waited_for_and_then_runs():
    pod = stored({"phase": "Pending", "startTime": NOW})

    assert step(pod, at_s=1) == Wait(2 * 10**9)
    report = step(pod, at_s=2)
    assert isinstance(report, Report)
    assert (report.status["phase"], report.status["podIP"]) == ("Running", "10.128.0.1")
    assert {each["type"]: each["status"] for each in report.status["conditions"]}["Ready"] == "True"


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_is_left_alone(phase: str):
    assert step(stored({"phase": phase})) == Done()


def test_a_pod_that_runs_is_left_alone():
    assert step(stored({"phase": "Running", "conditions": [READY]})) == Done()


def test_a_pod_that_is_to_go_is_first_not_ready_then_given_time_then_removed():
    known = Known("10.128.0.1", "10.128.0.0", 0, ending_ns=10 * 10**9)

    report = step(stored({"phase": "Running", "conditions": [READY]}, **ENDING), 10, known)
    assert isinstance(report, Report)
    assert {each["status"] for each in report.status["conditions"]} == {"False"}

    unready = stored({"phase": "Running", "conditions": [UNREADY]}, **ENDING)
    assert step(unready, 10, known) == Wait(13 * 10**9)
    assert step(unready, 13, known) == Remove()


def test_no_pod_takes_longer_to_end_than_its_grace():
    known = Known("10.128.0.1", "10.128.0.0", 0, ending_ns=0)
    short = {"deletionTimestamp": NOW, "deletionGracePeriodSeconds": 1}

    assert step(stored({"phase": "Running", "conditions": [UNREADY]}, **short), 0, known) == Wait(10**9)


@pytest.mark.parametrize(("phase", "grace_s"), [("Pending", 30), ("Succeeded", 30), ("Failed", 30), ("Running", 0)])
def test_a_pod_that_has_nothing_to_end_or_no_time_for_it_is_removed_at_once(phase: str, grace_s: int):
    ending = {"deletionTimestamp": NOW, "deletionGracePeriodSeconds": grace_s}

    assert step(stored({"phase": phase, "conditions": [READY]}, **ending)) == Remove()


# Living in a cluster.


async def test_a_node_registers_itself_as_ready(sim: Simulation):
    settings = NodeSettings(capacity={"cpu": "4"}, labels={"topology.kubernetes.io/zone": "a"})
    async with a_cluster(sim, "node-0", settings=settings) as (_, client):
        node = await client.get(NODES, "node-0")

    assert node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "a"
    assert node["status"]["allocatable"] == {"cpu": "4"}
    assert [(each["type"], each["status"]) for each in node["status"]["conditions"]] == [("Ready", "True")]


async def test_a_node_renews_its_lease(sim: Simulation):
    async with a_cluster(sim, "node-0") as (_, client):
        before = await client.get(LEASES, "node-0", LEASE_NAMESPACE)
        await tasks.sleep(seconds(15))
        after = await client.get(LEASES, "node-0", LEASE_NAMESPACE)

    assert before["spec"]["holderIdentity"] == "node-0"
    assert before["metadata"]["ownerReferences"][0]["kind"] == "Node"
    assert after["spec"]["renewTime"] > before["spec"]["renewTime"]
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


async def test_a_node_that_is_not_used_writes_little(sim: Simulation):
    async with a_cluster(sim, "node-0") as (world, _):
        began = len(world.history.events)
        await tasks.sleep(timedelta(minutes=10))
        writes = [event for event in world.history.events[began:] if isinstance(event, Asked) and event.is_write]

    assert len([event for event in writes if "/leases/" in event.path]) == pytest.approx(60, abs=7)
    assert len([event for event in writes if "/nodes/" in event.path]) in (1, 2)
    assert len([event for event in writes if "/leases/" not in event.path and "/nodes/" not in event.path]) == 0


async def test_a_pod_starts_runs_and_ends_in_order(sim: Simulation):
    async with a_cluster(sim, "node-0") as (world, client):
        await client.create(PODS, a_pod("one"), "default")
        await tasks.sleep(seconds(0.5))
        starting = await client.get(PODS, "one", "default")
        await tasks.sleep(seconds(1))
        running = await client.get(PODS, "one", "default")
        await client.delete(PODS, "one", "default")
        await tasks.sleep(seconds(0.2))
        ending = await client.get(PODS, "one", "default")
        await tasks.sleep(seconds(1))
        with pytest.raises(NotFound):
            await client.get(PODS, "one", "default")
        writes = [
            event.method
            for event in world.history.events
            if isinstance(event, Asked) and event.who == "node-0" and "/pods/" in event.path and event.is_write
        ]

    assert (starting["status"]["phase"], readiness(starting)) == ("Pending", "False")
    assert (running["status"]["phase"], readiness(running)) == ("Running", "True")
    assert running["status"]["podIP"].startswith("10.128.0.")
    assert (ending["status"]["phase"], readiness(ending)) == ("Running", "False")
    assert writes == ["PATCH", "PATCH", "PATCH", "DELETE"]


def readiness(pod: dict[str, Any]) -> str:
    return next(str(each["status"]) for each in pod["status"]["conditions"] if each["type"] == "Ready")


async def test_a_pod_of_another_node_is_not_touched(sim: Simulation):
    async with a_cluster(sim, "node-0") as (_, client):
        await client.create(PODS, a_pod("one", node="elsewhere"), "default")
        await tasks.sleep(seconds(10))
        pod = await client.get(PODS, "one", "default")

    assert pod["status"]["phase"] == "Pending"
    assert "startTime" not in pod["status"]


async def test_pods_have_addresses_of_their_own(sim: Simulation):
    async with a_cluster(sim, "node-0", "node-1") as (_, client):
        for number in range(20):
            await client.create(PODS, a_pod(f"pod-{number}", node=f"node-{number % 2}"), "default")
        await tasks.sleep(seconds(5))
        pods = (await client.list(PODS)).items

    assert len({pod["status"]["podIP"] for pod in pods}) == 20


async def test_a_restarted_agent_goes_on_with_the_pods_it_had(sim: Simulation):
    async with a_cluster(sim, "node-0") as (world, client):
        await client.create(PODS, a_pod("running"), "default")
        await tasks.sleep(seconds(5))
        before = await client.get(PODS, "running", "default")
        await client.create(PODS, a_pod("starting"), "default")
        await tasks.sleep(seconds(0.5))
        world.programs["node-0"].crash()
        await client.delete(PODS, "running", "default")
        await tasks.sleep(seconds(5))
        world.programs["node-0"].start()
        await tasks.sleep(seconds(5))
        pods = (await client.list(PODS)).items
        written = [event for event in world.history.events if isinstance(event, Committed) and "/running" in event.key]

    assert before["status"]["phase"] == "Running"
    assert [(pod["metadata"]["name"], pod["status"]["phase"]) for pod in pods] == [("starting", "Running")]
    assert written[-1].value is None


async def test_a_new_pod_under_the_name_of_one_that_goes_is_started_and_not_removed(sim: Simulation):
    async with a_cluster(sim, "node-0") as (_, client):
        await client.create(PODS, a_pod("one"), "default")
        await tasks.sleep(seconds(5))
        first = await client.get(PODS, "one", "default")
        sim.network.cut("node-0", "server-0")
        await client.delete(PODS, "one", "default", grace_s=0)
        second = await client.create(PODS, a_pod("one"), "default")
        await tasks.sleep(seconds(5))
        sim.network.heal("node-0", "server-0")
        await tasks.sleep(timedelta(minutes=3))
        pod = await client.get(PODS, "one", "default")

    assert first["metadata"]["uid"] != second["metadata"]["uid"] == pod["metadata"]["uid"]
    assert readiness(pod) == "True"


@pytest.mark.parametrize("fault", ["request-lost", "answer-lost", "crash-before", "crash-after"])
@pytest.mark.parametrize("nth", range(1, 8))
def test_one_fault_at_any_of_its_writes_keeps_no_pod_from_running_and_ending(fault: str, nth: int):
    """Node, lease, starting, running, not ready, delete: each of them once."""

    async def run(sim: Simulation) -> None:
        world = World(sim)
        world.add_server("server-0")
        world.add_node("node-0")
        world.faults.at_write("node-0", nth, fault)
        world.know("admin")
        await world.boot()
        with sim.network.host("admin").active():
            async with world.client_for("admin", sim.env("admin")) as client:
                await client.create(PODS, a_pod("one"), "default")
                await tasks.sleep(timedelta(minutes=2))
                assert readiness(await client.get(PODS, "one", "default")) == "True"
                await client.delete(PODS, "one", "default")
                await tasks.sleep(timedelta(minutes=2))
                assert (await client.list(PODS)).items == []

    with Simulation() as sim:
        sim.run(run(sim))


async def test_one_process_may_be_many_nodes(sim: Simulation):
    world = World(sim)
    world.add_server("server-0")
    names = [f"node-{number}" for number in range(50)]

    async def main(env: Env) -> None:
        async with world.client_for("fleet", env) as client:
            await run_nodes(names, client, env, NodeSettings())

    world.add_program("fleet", main)
    world.know("admin")
    await world.boot()
    await tasks.sleep(seconds(2))
    with sim.network.host("admin").active():
        async with world.client_for("admin", sim.env("admin")) as client:
            for name in names:
                await client.create(PODS, a_pod(f"on-{name}", node=name), "default")
            await tasks.sleep(seconds(5))
            nodes = (await client.list(NODES)).items
            pods = (await client.list(PODS)).items

    assert [node["metadata"]["name"] for node in nodes] == sorted(names)
    assert {pod["status"]["phase"] for pod in pods} == {"Running"}
    assert len({pod["status"]["podIP"] for pod in pods}) == 50
