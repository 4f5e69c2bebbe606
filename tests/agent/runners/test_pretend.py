"""A pretend node looks like a node: it registers, stays alive, and reports its pods from start to end."""

from datetime import timedelta

import pytest

from mainstay.agent.fleet import PretendSettings, run_pretend_nodes
from mainstay.agent.node.node import LEASE_NAMESPACE
from mainstay.agent.runners.pretend import Delays
from mainstay.agent.runners.pretend_containers import Behaviour
from mainstay.api.kind_names import LEASES, NODES, PODS
from mainstay.client.errors import NotFound
from mainstay.env import Env, tasks
from mainstay.sim.cluster.history import RequestReceived, RevisionCommitted
from mainstay.sim.cluster.world import World
from mainstay.sim.simulation import Simulation
from tests.agent.cluster import a_cluster, a_pod, begun, readiness, seconds, state_of, writes_of


async def test_a_node_registers_itself_as_ready(sim: Simulation):
    settings = PretendSettings(capacity={"cpu": "4"}, labels={"topology.kubernetes.io/zone": "a"})
    async with a_cluster(sim, "node-0", settings=settings) as (_, client):
        node = await client.get(NODES, "node-0")

    assert node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "a"
    assert node["status"]["allocatable"] == {"cpu": "4", "pods": "110"}
    assert [(each["type"], each["status"]) for each in node["status"]["conditions"]] == [("Ready", "True")]
    assert not node["spec"].get("taints")


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
        writes = [
            event for event in world.history.events[began:] if isinstance(event, RequestReceived) and event.is_write
        ]

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
        writes = writes_of(world, "node-0")

    assert (starting["status"]["phase"], readiness(starting)) == ("Pending", "False")
    assert starting["status"]["podIP"] == running["status"]["podIP"]
    assert (running["status"]["phase"], readiness(running)) == ("Running", "True")
    assert running["status"]["podIP"].startswith("10.128.0.")
    assert (ending["status"]["phase"], readiness(ending)) == ("Running", "False")
    # Starting, running, not ready, ended, gone.
    assert writes == ["PATCH", "PATCH", "PATCH", "PATCH", "DELETE"]


async def test_a_pod_that_runs_is_left_alone(sim: Simulation):
    async with a_cluster(sim, "node-0") as (world, client):
        await client.create(PODS, a_pod("one"), "default")
        await tasks.sleep(timedelta(hours=1))

    assert writes_of(world, "node-0") == ["PATCH", "PATCH"]


async def test_a_pod_that_ends_while_it_is_reported_as_running_is_reported_again(sim: Simulation):
    async with a_cluster(sim, "node-0") as (world, client):
        world.machines["node-0"].behave = lambda _: Behaviour(seconds(0.5), seconds(0.5), seconds(2), 0)
        sim.network.slow_down("node-0", "server-0", seconds(2))
        await client.create(PODS, a_pod("one", restartPolicy="Never"), "default")
        await tasks.sleep(seconds(5))
        for tap in world.gates["server-0"].find_taps("node-0"):
            tap.hold()  # So that the answer to its report is all that it hears.
        await tasks.sleep(timedelta(minutes=1))
        ended = await client.get(PODS, "one", "default")

    assert ended["status"]["phase"] == "Succeeded"


async def test_containers_fail_as_often_as_one_likes(sim: Simulation):
    settings = PretendSettings(failure_rate=1.0)
    async with a_cluster(sim, "node-0", settings=settings) as (world, client):
        await client.create(PODS, a_pod("one", restartPolicy="Never"), "default")
        await client.create(PODS, a_pod("again"), "default")
        await tasks.sleep(seconds(120))
        once = await client.get(PODS, "one", "default")
        again = await client.get(PODS, "again", "default")

    assert once["status"]["phase"] == "Failed"
    # At once, and then after 10, 20 and 40 s, and a second each to start.
    assert [attempt for _, pod, attempt in begun(world) if pod == "again"] == [0, 1, 2, 3, 4]
    assert state_of(again)["state"]["waiting"]["reason"] == "CrashLoopBackOff"


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


@pytest.mark.parametrize("fault", ["request-lost", "answer-lost", "crash-before", "crash-after"])
@pytest.mark.parametrize("nth", range(1, 10))
def test_one_fault_at_any_of_its_writes_keeps_no_pod_from_running_and_ending(fault: str, nth: int):
    """Node, no taint, lease, starting, running, not ready, ended, delete: each of them once."""

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
                assert begun(world) == [("node-0", "one", 0)]

    with Simulation() as sim:
        sim.run(run(sim))


def a_fleet(world: World, names: list[str], settings: PretendSettings | None = None) -> None:
    async def main(env: Env) -> None:
        async with world.client_for("fleet", env) as client:
            await run_pretend_nodes(names, client, env, settings or PretendSettings())

    world.add_program("fleet", main)


async def test_one_process_may_be_many_nodes(sim: Simulation):
    world = World(sim)
    world.add_server("server-0")
    names = [f"node-{number}" for number in range(50)]
    a_fleet(world, names, PretendSettings(zones=("a", "b")))
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
    assert {node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in nodes} == {"a", "b"}
    assert {pod["status"]["phase"] for pod in pods} == {"Running"}
    assert len({pod["status"]["podIP"] for pod in pods}) == 50


async def test_a_process_that_pretends_goes_on_with_what_statuses_say_was_so(sim: Simulation):
    """It remembers nothing itself."""
    world = World(sim)
    world.add_server("server-0")
    a_fleet(world, ["node-0", "node-1"], PretendSettings(delays=Delays(start=seconds(3))))
    world.know("admin")
    await world.boot()
    await tasks.sleep(seconds(2))
    with sim.network.host("admin").active():
        async with world.client_for("admin", sim.env("admin")) as client:
            await client.create(PODS, a_pod("running"), "default")
            await client.create(PODS, a_pod("going", node="node-1"), "default")
            await tasks.sleep(seconds(5))
            before = await client.get(PODS, "running", "default")
            await client.create(PODS, a_pod("starting"), "default")
            await tasks.sleep(seconds(0.5))
            world.programs["fleet"].crash()
            await client.delete(PODS, "going", "default")
            await tasks.sleep(seconds(5))
            world.programs["fleet"].start()
            await tasks.sleep(seconds(10))
            pods = {pod["metadata"]["name"]: pod for pod in (await client.list(PODS)).items}
            written = [
                each for each in world.history.events if isinstance(each, RevisionCommitted) and "/going" in each.key
            ]

    assert pods["running"]["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert {name: pod["status"]["phase"] for name, pod in pods.items()} == {"running": "Running", "starting": "Running"}
    assert written[-1].value is None
