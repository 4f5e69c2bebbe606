"""The node itself: what it says of its machine, and that it stays what it is."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from mainstay.agent.node.node import LEASE_NAMESPACE
from mainstay.agent.runner import CannotRun
from mainstay.agent.settings import TaintSetting
from mainstay.api.annotations import AGENT_CERTIFICATE
from mainstay.api.kind_names import LEASES, NODES, PODS
from mainstay.client.client import Client
from mainstay.client.errors import NotFound
from mainstay.env import tasks
from mainstay.env.machine import SystemMachine
from mainstay.sim.simulation import Simulation
from tests.agent.cluster import a_cluster, a_pod, an_agent, an_at_most_one, begun, ended, seconds, writes_of


async def the_node(client: Client) -> dict[str, Any]:
    return await client.get(NODES, "node-0")


def conditions(node: dict[str, Any]) -> dict[str, str]:
    return {each["type"]: each["status"] for each in node["status"]["conditions"]}


async def test_a_node_tells_what_its_machine_has_and_where_it_is(sim: Simulation):
    settings = an_agent(
        zone="a",
        region="r",
        labels={"disk": "ssd"},
        capacity={"example.com/gpu": "2"},
        taints=(TaintSetting("dedicated", "NoSchedule", "db"),),
        serving_port=4711,
        host_address="127.0.0.9",
        certificate_digest="ab" * 32,
        isolation="isolated: processes; shared: network",
        pods_max=50,
    )
    async with a_cluster(sim, "node-0", settings=settings) as (_, client):
        node = await the_node(client)

    labels, status = node["metadata"]["labels"], node["status"]
    assert (labels["topology.kubernetes.io/zone"], labels["topology.kubernetes.io/region"]) == ("a", "r")
    assert (labels["kubernetes.io/hostname"], labels["disk"]) == ("node-0", "ssd")
    assert status["capacity"] == {
        "cpu": "8",
        "memory": "32Gi",
        "ephemeral-storage": "100Gi",
        "pods": "50",
        "example.com/gpu": "2",
    }
    assert conditions(node) == {
        "Ready": "True",
        "MemoryPressure": "False",
        "DiskPressure": "False",
        "PIDPressure": "False",
    }
    assert status["addresses"][0] == {"type": "InternalIP", "address": "127.0.0.9"}
    assert status["daemonEndpoints"]["kubeletEndpoint"]["Port"] == 4711
    assert node["metadata"]["annotations"] == {
        AGENT_CERTIFICATE: "sha256:" + "ab" * 32,
        "mainstay.dev/isolation": "isolated: processes; shared: network",
    }
    assert node["spec"]["podCIDR"] == "127.64.0.0/24"
    # The one that a new node has until it is ready is gone.
    assert node["spec"]["taints"] == [{"key": "dedicated", "effect": "NoSchedule", "value": "db"}]


async def test_a_machine_that_gets_full_says_so_at_once(sim: Simulation):
    async with a_cluster(sim, "node-0", settings=an_agent()) as (world, client):
        machine = world.machines["node-0"]
        before, facts = await the_node(client), machine.facts()
        machine.facts = lambda: replace(facts, disk_free_bytes=facts.disk_bytes // 100)  # type: ignore[method-assign]
        await tasks.sleep(seconds(15))
        full = await the_node(client)
        machine.facts = lambda: facts  # type: ignore[method-assign]
        await tasks.sleep(seconds(15))
        after = await the_node(client)

    assert [conditions(node)["DiskPressure"] for node in (before, full, after)] == ["False", "True", "False"]

    def ready_since(node: dict[str, Any]) -> str:
        return next(str(each["lastTransitionTime"]) for each in node["status"]["conditions"] if each["type"] == "Ready")

    assert ready_since(before) == ready_since(after)


async def test_a_new_incarnation_takes_its_node_over(sim: Simulation):
    async with a_cluster(sim, "node-0", settings=an_agent(labels={"disk": "ssd"})) as (world, client):
        first = await the_node(client)
        await client.patch(NODES, "node-0", "", {"metadata": {"labels": {"by-hand": "yes"}}})
        world.programs["node-0"].crash()
        await tasks.sleep(seconds(5))
        world.programs["node-0"].start()
        await tasks.sleep(seconds(5))
        second = await the_node(client)

    assert first["metadata"]["uid"] == second["metadata"]["uid"]
    assert (second["metadata"]["labels"]["by-hand"], second["metadata"]["labels"]["disk"]) == ("yes", "ssd")
    assert conditions(second)["Ready"] == "True"


async def test_a_deleted_node_stays_away_until_its_agent_is_restarted(sim: Simulation):
    async with a_cluster(sim, "node-0", settings=an_agent()) as (world, client):
        await client.delete(NODES, "node-0")
        await tasks.sleep(timedelta(minutes=20))
        try:
            await the_node(client)
            is_there = True
        except NotFound:
            is_there = False
        world.programs["node-0"].crash()
        world.programs["node-0"].start()
        await tasks.sleep(seconds(5))
        node = await the_node(client)

    assert not is_there
    assert conditions(node)["Ready"] == "True"


async def test_a_status_that_cannot_be_written_holds_up_no_renewal(sim: Simulation):
    """They go to the same servers, one after the other would do; and then the lease would be lost with it."""
    async with a_cluster(sim, "node-0", settings=an_agent(), servers=2) as (world, client):
        for _ in range(20):
            sim.network.cut("node-0", "server-0")
            await tasks.sleep(seconds(20))
            sim.network.heal("node-0", "server-0")
            await tasks.sleep(seconds(20))
            lease = await client.get(LEASES, "node-0", LEASE_NAMESPACE)
            assert lease["spec"]["holderIdentity"] == "node-0"

    assert len(writes_of(world, "node-0", "/leases/")) >= 60


async def test_a_node_whose_runner_cannot_note_the_lease_goes_on_without(sim: Simulation):
    async with a_cluster(sim, "node-0", settings=an_agent()) as (world, client):
        containers = world.machines["node-0"].containers
        note = containers.hold_until

        def cannot(monotonic_ns: int, stopping: timedelta) -> None:
            raise CannotRun("LeaseNotRecorded", "the disk is full")

        await client.create(PODS, an_at_most_one("one"), "default")
        await client.create(PODS, a_pod("two"), "default")
        await tasks.sleep(seconds(10))
        containers.hold_until = cannot  # type: ignore[method-assign]
        await tasks.sleep(timedelta(minutes=2))
        during, renewals = ended(world), len(writes_of(world, "node-0", "/leases/"))
        containers.hold_until = note  # type: ignore[method-assign]
        await tasks.sleep(timedelta(minutes=2))

    assert [pod for _, pod, _, _ in during] == ["one"]
    assert renewals >= 12
    assert begun(world)[-1] == ("node-0", "one", 1)


def test_this_machine_has_something():
    facts = SystemMachine().facts()

    assert facts.cpus >= 1
    assert facts.memory_bytes > facts.memory_free_bytes > 0
    assert facts.disk_bytes > 0
    assert facts.boot_id
