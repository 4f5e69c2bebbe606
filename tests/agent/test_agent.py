"""The agent at work on simulated machines: what becomes of pods there, whatever happens meanwhile."""

from collections.abc import Sequence
from datetime import timedelta
from ipaddress import IPv4Network
from typing import Any

import pytest

from mainstay.agent.runner import ContainerId, ContainerSpec, Exited
from mainstay.agent.runners.pretend_containers import Behaviour
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import CONFIG_MAPS, EVENTS, NODES, PODS
from mainstay.client.client import Client
from mainstay.client.errors import NotFound
from mainstay.env import tasks
from mainstay.sim.cluster.history import ContainerEnded, RequestReceived, RevisionCommitted
from mainstay.sim.cluster.world import World
from mainstay.sim.simulation import Simulation
from tests.agent.cluster import (
    a_cluster,
    a_container,
    a_pod,
    an_agent,
    an_at_most_one,
    begun,
    ended,
    readiness,
    seconds,
    state_of,
    writes_of,
)


async def the_pod(client: Client, name: str = "one") -> dict[str, Any]:
    return await client.get(PODS, name, "default")


async def reasons(client: Client) -> list[str]:
    return sorted({event["reason"] for event in (await client.list(EVENTS, "default")).items})


def build_container_spec(world: World, pod: str) -> ContainerSpec:
    for found in world.machines["node-0"].containers._pods.values():
        for container in found.values():
            if container.spec.pod_name == pod:
                return container.spec
    raise AssertionError(f"{pod} was never begun")


# What is run


async def test_a_container_gets_its_command_variables_and_address(sim: Simulation):
    env = [
        {"name": "COLOUR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "colour"}}},
        {"name": "WHERE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ]
    async with a_cluster(sim, "node-0", settings=an_agent()) as (world, client):
        await client.create(CONFIG_MAPS, {"metadata": {"name": "settings"}, "data": {"colour": "red"}}, "default")
        await client.create(PODS, a_pod("one", "node-0", a_container(env=env, args=["$(COLOUR)"])), "default")
        await tasks.sleep(seconds(5))
        pod = await the_pod(client)

    spec = build_container_spec(world, "one")
    assert spec.command == ("serve", "red")
    assert ("WHERE", "node-0") in spec.env
    assert ("POD_IP", pod["status"]["podIP"]) in spec.env
    assert spec.address == pod["status"]["podIP"]
    assert pod["status"]["podIP"].startswith("127.64.0.")


async def test_pods_that_are_over_need_no_address_any_more(sim: Simulation):
    """Finished jobs stay for as long as users want to look at them, and are many."""
    settings = an_agent(pod_cidr=IPv4Network("127.64.0.0/29"))  # Room for six.
    async with a_cluster(sim, "node-0", settings=settings) as (world, client):
        world.machines["node-0"].behave = lambda spec: Behaviour(lasts=seconds(1))
        for number in range(8):
            await client.create(PODS, a_pod(f"job-{number}", restartPolicy="Never"), "default")
            await tasks.sleep(seconds(10))
        world.programs["node-0"].crash()
        world.programs["node-0"].start()
        await client.create(PODS, a_pod("job-8", restartPolicy="Never"), "default")
        await tasks.sleep(seconds(10))
        pods = (await client.list(PODS)).items

    assert [pod["status"]["phase"] for pod in pods] == ["Succeeded"] * 9
    assert all(pod["status"]["podIP"] for pod in pods)


async def test_a_container_waits_for_what_it_refers_to(sim: Simulation):
    env_from = [{"configMapRef": {"name": "settings"}}]
    async with a_cluster(sim, "node-0", settings=an_agent()) as (world, client):
        await client.create(PODS, a_pod("one", "node-0", a_container(envFrom=env_from)), "default")
        await tasks.sleep(seconds(60))
        waiting = await the_pod(client)
        before = writes_of(world, "node-0")
        assert begun(world) == []
        await client.create(CONFIG_MAPS, {"metadata": {"name": "settings"}, "data": {"colour": "red"}}, "default")
        await tasks.sleep(seconds(10))
        running = await the_pod(client)
        said = await reasons(client)

    assert state_of(waiting)["state"]["waiting"]["reason"] == "CreateContainerConfigError"
    assert "settings" in state_of(waiting)["state"]["waiting"]["message"]
    assert len(before) <= 3  # It does not say the same again and again.
    assert readiness(running) == "True"
    assert {"Failed", "Started"} <= set(said)


async def test_a_container_without_a_command_is_not_guessed_at(sim: Simulation):
    container = {"name": "c", "image": "nginx:1"}
    async with a_cluster(sim, "node-0", settings=an_agent()) as (world, client):
        await client.create(PODS, a_pod("one", "node-0", container), "default")
        await tasks.sleep(seconds(30))
        pod = await the_pod(client)

    assert state_of(pod)["state"]["waiting"]["reason"] == "CommandRequired"
    assert begun(world) == []


def reads(world: World) -> int:
    asked = [event for event in world.history.events if isinstance(event, RequestReceived) and event.who == "node-0"]
    return len([event for event in asked if "/configmaps/settings" in event.path])


async def test_what_volumes_of_a_pod_that_is_over_were_made_of_is_not_read_again(sim: Simulation):
    volumes = [{"name": "v", "configMap": {"name": "settings"}}]
    async with a_cluster(sim, "node-0", settings=an_agent()) as (world, client):
        world.machines["node-0"].behave = lambda spec: Behaviour(lasts=seconds(1))
        await client.create(CONFIG_MAPS, {"metadata": {"name": "settings"}, "data": {"colour": "red"}}, "default")
        await client.create(PODS, a_pod("one", volumes=volumes, restartPolicy="Never"), "default")
        await tasks.sleep(seconds(10))
        first = reads(world)
        await tasks.sleep(timedelta(minutes=3))
        pod = await the_pod(client)

    assert pod["status"]["phase"] == "Succeeded"
    assert reads(world) == first


async def test_what_volumes_are_made_of_is_read_again_every_minute(sim: Simulation):
    volumes = [{"name": "v", "configMap": {"name": "settings"}}]
    async with a_cluster(sim, "node-0", settings=an_agent()) as (world, client):
        await client.create(CONFIG_MAPS, {"metadata": {"name": "settings"}, "data": {"colour": "red"}}, "default")
        await client.create(PODS, a_pod("one", volumes=volumes), "default")
        await tasks.sleep(seconds(5))
        first = reads(world)
        await tasks.sleep(timedelta(minutes=3))
        later = reads(world)

    assert first >= 1
    assert later == pytest.approx(first + 3, abs=1)


async def test_what_the_node_does_not_take_is_refused_for_good(sim: Simulation):
    async with a_cluster(sim, "node-0", settings=an_agent()) as (world, client):
        await client.create(PODS, a_pod("one"), "default")
        await client.create(PODS, a_pod("picky", nodeSelector={"disk": "ssd"}), "default")
        await tasks.sleep(seconds(5))
        refused = await the_pod(client, "picky")

    assert (refused["status"]["phase"], refused["status"]["reason"]) == ("Failed", "NodeAffinity")
    assert [pod for _, pod, _ in begun(world)] == ["one"]


async def test_a_node_never_runs_more_than_it_has(sim: Simulation):
    """Though it is bound: the server does not check its ledger for pods that are created with a node."""
    wants = a_container(resources={"requests": {"cpu": "1500m"}})
    async with a_cluster(sim, settings=an_agent()) as (world, client):
        for name in ("one", "two"):
            await client.create(PODS, a_pod(name, "node-0", wants), "default")
        world.add_node("node-0", an_agent(capacity={"cpu": "2"})).start()
        await tasks.sleep(seconds(10))
        pods = (await client.list(PODS)).items

    assert sorted((pod["status"]["phase"], pod["status"].get("reason", "")) for pod in pods) == [
        ("Failed", "OutOfcpu"),
        ("Running", ""),
    ]
    assert len(begun(world)) == 1


async def test_a_pod_that_came_unseen_gets_no_room_of_what_runs(sim: Simulation):
    wants = a_container(resources={"requests": {"cpu": "1500m"}})
    async with a_cluster(sim, "node-0", settings=an_agent(capacity={"cpu": "2"})) as (world, client):
        await client.create(PODS, a_pod("one", "node-0", wants), "default")
        await tasks.sleep(seconds(5))
        world.programs["node-0"].crash()
        await client.create(PODS, a_pod("a-new-one", "node-0", wants), "default")  # Looked at before the other.
        world.programs["node-0"].start()
        await tasks.sleep(seconds(10))
        refused = await the_pod(client, "a-new-one")

    assert (refused["status"]["phase"], refused["status"].get("reason")) == ("Failed", "OutOfcpu")
    assert begun(world) == [("node-0", "one", 0)]


async def test_what_was_taken_on_and_could_not_start_yet_keeps_its_room(sim: Simulation):
    wants = a_container(resources={"requests": {"cpu": "1500m"}}, envFrom=[{"configMapRef": {"name": "settings"}}])
    async with a_cluster(sim, "node-0", settings=an_agent(capacity={"cpu": "2"})) as (world, client):
        await client.create(PODS, a_pod("one", "node-0", wants), "default")
        await tasks.sleep(seconds(5))
        world.programs["node-0"].crash()
        await client.create(PODS, a_pod("a-new-one", "node-0", wants), "default")
        world.programs["node-0"].start()
        await tasks.sleep(seconds(10))
        pods = {pod["metadata"]["name"]: pod["status"]["phase"] for pod in (await client.list(PODS)).items}

    assert pods == {"one": "Pending", "a-new-one": "Failed"}


async def test_a_label_that_the_node_got_later_counts(sim: Simulation):
    async with a_cluster(sim, "node-0", settings=an_agent()) as (world, client):
        await client.patch(NODES, "node-0", "", {"metadata": {"labels": {"disk": "ssd"}}})
        await client.create(PODS, a_pod("picky", nodeSelector={"disk": "ssd"}), "default")
        await tasks.sleep(seconds(5))

    assert begun(world) == [("node-0", "picky", 0)]


# Probes, hooks and restarts


def answers(codes: dict[str, int]) -> Any:
    def answer(container: ContainerId, command: Sequence[str]) -> int:
        return codes.get(command[0], 0)

    return answer


def a_probe(command: str, **more: Any) -> dict[str, Any]:
    return {"exec": {"command": [command]}, "periodSeconds": 2, "failureThreshold": 2, **more}


async def test_a_container_that_is_not_alive_is_started_again(sim: Simulation):
    codes: dict[str, int] = {}
    container = a_container(livenessProbe=a_probe("alive"))
    async with a_cluster(sim, "node-0", settings=an_agent()) as (world, client):
        world.machines["node-0"].answer = answers(codes)
        await client.create(PODS, a_pod("one", "node-0", container), "default")
        await tasks.sleep(seconds(20))
        assert begun(world) == [("node-0", "one", 0)]
        codes["alive"] = 1
        await tasks.sleep(seconds(6))
        codes["alive"] = 0
        await tasks.sleep(seconds(10))
        pod = await the_pod(client)
        said = await reasons(client)
        events = (await client.list(EVENTS, "default")).items

    assert begun(world) == [("node-0", "one", 0), ("node-0", "one", 1)]
    assert (state_of(pod)["restartCount"], readiness(pod)) == (1, "True")
    assert {"Unhealthy", "Killing", "Started"} <= set(said)
    [unhealthy] = [each for each in events if each["reason"] == "Unhealthy"]
    assert (unhealthy["action"], unhealthy["type"]) == ("livenessProbe", "Warning")
    assert unhealthy["message"].startswith("Liveness probe failed: ")


async def test_readiness_comes_and_goes_with_its_probe(sim: Simulation):
    codes = {"ready": 1}
    container = a_container(readinessProbe=a_probe("ready"))
    seen = []
    async with a_cluster(sim, "node-0", settings=an_agent()) as (world, client):
        world.machines["node-0"].answer = answers(codes)
        await client.create(PODS, a_pod("one", "node-0", container), "default")
        for code in (1, 0, 1, 0):
            codes["ready"] = code
            await tasks.sleep(seconds(10))
            seen.append(readiness(await the_pod(client)))

    assert seen == ["False", "True", "False", "True"]
    assert begun(world) == [("node-0", "one", 0)]


async def test_nothing_else_is_asked_before_a_container_has_started(sim: Simulation):
    asked: list[str] = []
    codes = {"started": 1}

    def answer(container: ContainerId, command: Sequence[str]) -> int:
        asked.append(command[0])
        return codes.get(command[0], 0)

    container = a_container(startupProbe=a_probe("started", failureThreshold=30), livenessProbe=a_probe("alive"))
    async with a_cluster(sim, "node-0", settings=an_agent()) as (world, client):
        world.machines["node-0"].answer = answer
        await client.create(PODS, a_pod("one", "node-0", container), "default")
        await tasks.sleep(seconds(20))
        assert set(asked) == {"started"}
        assert readiness(await the_pod(client)) == "False"
        codes["started"] = 0
        await tasks.sleep(seconds(10))
        pod = await the_pod(client)

    assert readiness(pod) == "True"
    assert "alive" in asked


async def test_what_fails_waits_longer_each_time(sim: Simulation):
    async with a_cluster(sim, "node-0", settings=an_agent()) as (world, client):
        world.machines["node-0"].behave = lambda spec: Behaviour(seconds(1), lasts=seconds(1), code=3)
        await client.create(PODS, a_pod("one"), "default")
        await tasks.sleep(timedelta(minutes=5))
        pod = await the_pod(client)
        said = await reasons(client)

    # At once, then after 10, 20, 40, 80 s and 160 s; two seconds each to come and to fail.
    assert [attempt for _, _, attempt in begun(world)] == [0, 1, 2, 3, 4, 5]
    status = state_of(pod)
    assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert status["lastState"]["terminated"]["exitCode"] == 3
    assert "BackOff" in said


async def test_a_container_ends_after_its_hook(sim: Simulation):
    lifecycle = {"preStop": {"sleep": {"seconds": 7}}}
    async with a_cluster(sim, "node-0", settings=an_agent()) as (world, client):
        await client.create(PODS, a_pod("one", "node-0", a_container(lifecycle=lifecycle)), "default")
        await tasks.sleep(seconds(5))
        await client.delete(PODS, "one", "default")
        await tasks.sleep(seconds(6))
        assert ended(world) == []
        await tasks.sleep(seconds(4))
        with pytest.raises(NotFound):
            await the_pod(client)

    assert ended(world) == [("node-0", "one", 0, "Completed")]


async def test_a_container_whose_first_hook_fails_is_ended_and_started_again(sim: Simulation):
    codes = {"hello": 1}
    lifecycle = {"postStart": {"exec": {"command": ["hello"]}}}
    async with a_cluster(sim, "node-0", settings=an_agent()) as (world, client):
        world.machines["node-0"].answer = answers(codes)
        await client.create(PODS, a_pod("one", "node-0", a_container(lifecycle=lifecycle)), "default")
        await tasks.sleep(seconds(3))
        codes["hello"] = 0
        await tasks.sleep(seconds(30))
        pod = await the_pod(client)
        said = await reasons(client)

    assert [attempt for _, _, attempt in begun(world)][:2] == [0, 1]
    assert readiness(pod) == "True"
    assert "FailedPostStartHook" in said


# Crashes, partitions and reboots


async def test_a_new_incarnation_finds_what_the_last_one_left(sim: Simulation):
    async with a_cluster(sim, "node-0", settings=an_agent()) as (world, client):
        await client.create(PODS, a_pod("one"), "default")
        await client.create(PODS, a_pod("two"), "default")
        await tasks.sleep(seconds(5))
        before = await the_pod(client)
        world.programs["node-0"].crash()
        await client.delete(PODS, "two", "default")
        await client.create(PODS, a_pod("three"), "default")
        await tasks.sleep(seconds(5))
        assert len(begun(world)) == 2
        assert ended(world) == []  # Containers live on.
        world.programs["node-0"].start()
        await tasks.sleep(seconds(10))
        pods = {pod["metadata"]["name"]: pod for pod in (await client.list(PODS)).items}

    assert [(pod, attempt) for _, pod, attempt in begun(world)] == [("one", 0), ("two", 0), ("three", 0)]
    assert sorted(pods) == ["one", "three"]
    assert pods["one"]["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert len({pod["status"]["podIP"] for pod in pods.values()}) == 2


async def test_a_container_that_fails_while_the_node_is_cut_off_comes_again_at_once(sim: Simulation):
    async with a_cluster(sim, "node-0", settings=an_agent()) as (world, client):
        machine = world.machines["node-0"]
        machine.behave = lambda spec: Behaviour(seconds(1), lasts=seconds(10) if spec.id.attempt == 0 else None, code=1)
        await client.create(PODS, a_pod("one"), "default")
        await tasks.sleep(seconds(5))
        sim.network.cut("node-0", "server-0")
        await tasks.sleep(seconds(20))
        assert [attempt for _, _, attempt in begun(world)] == [0, 1]
        sim.network.heal("node-0", "server-0")
        await tasks.sleep(timedelta(minutes=2))
        pod = await the_pod(client)

    assert (state_of(pod)["restartCount"], readiness(pod)) == (1, "True")


async def test_after_a_reboot_everything_is_started_again(sim: Simulation):
    async with a_cluster(sim, "node-0", settings=an_agent()) as (world, client):
        await client.create(PODS, a_pod("one"), "default")
        await client.create(PODS, a_pod("once", restartPolicy="Never"), "default")
        await tasks.sleep(seconds(5))
        world.programs["node-0"].crash(silently=True)
        world.machines["node-0"].reboot()
        await tasks.sleep(seconds(5))
        world.programs["node-0"].start()
        await tasks.sleep(seconds(10))
        pod, once = await the_pod(client), await the_pod(client, "once")

    assert (state_of(pod)["restartCount"], readiness(pod)) == (1, "True")
    assert state_of(pod)["lastState"]["terminated"]["reason"] == "ContainerStatusUnknown"
    assert (once["status"]["phase"], state_of(once)["state"]["terminated"]["exitCode"]) == ("Failed", 137)


async def test_a_pod_of_the_same_name_starts_when_the_first_has_ended(sim: Simulation):
    async with a_cluster(sim, "node-0", settings=an_agent()) as (world, client):
        world.machines["node-0"].behave = lambda spec: Behaviour(seconds(1), stop=seconds(8))
        await client.create(PODS, a_pod("one"), "default")
        await tasks.sleep(seconds(5))
        await client.delete(PODS, "one", "default", grace_s=0)
        second = await client.create(PODS, a_pod("one"), "default")
        await tasks.sleep(seconds(5))
        assert len(begun(world)) == 1
        await tasks.sleep(seconds(10))
        pod = await the_pod(client)

    assert pod["metadata"]["uid"] == second["metadata"]["uid"]
    assert readiness(pod) == "True"
    assert ended(world) == [("node-0", "one", 0, "Completed")]


async def test_what_was_removed_by_force_is_ended_and_then_reported(sim: Simulation):
    async with a_cluster(sim, "node-0", settings=an_agent()) as (world, client):
        world.machines["node-0"].behave = lambda spec: Behaviour(seconds(1), stop=seconds(8))
        made = await client.create(PODS, a_pod("one"), "default")
        await tasks.sleep(seconds(5))
        await client.delete(PODS, "one", "default", grace_s=0)
        await tasks.sleep(seconds(5))
        during = await client.request("GET", "/api/v1/nodes/node-0/ghosts")
        await tasks.sleep(seconds(10))
        after = await client.request("GET", "/api/v1/nodes/node-0/ghosts")

    assert made["metadata"]["uid"].encode() in during.body
    assert made["metadata"]["uid"].encode() not in after.body
    assert world.machines["node-0"].containers.pods() == []


async def test_a_pod_that_the_server_does_not_have_is_ended(sim: Simulation):
    async with a_cluster(sim, "node-0", settings=an_agent()) as (world, client):
        await client.create(PODS, a_pod("one"), "default")
        await tasks.sleep(seconds(5))
        world.programs["node-0"].crash()
        await client.delete(PODS, "one", "default", grace_s=0)
        await client.create(PODS, a_pod("two"), "default")
        await tasks.sleep(seconds(5))
        world.programs["node-0"].start()
        await tasks.sleep(seconds(10))

    assert ended(world) == [("node-0", "one", 0, "Completed")]
    assert begun(world)[-1] == ("node-0", "two", 0)
    assert len(world.machines["node-0"].containers.pods()) == 1


# At most one


async def test_an_at_most_one_ends_with_the_lease_and_comes_back_with_it(sim: Simulation):
    async with a_cluster(sim, "node-0", settings=an_agent()) as (world, client):
        await client.create(PODS, an_at_most_one("single"), "default")
        await client.create(PODS, a_pod("plain"), "default")
        await tasks.sleep(seconds(15))
        sim.network.cut("node-0", "server-0")
        await tasks.sleep(seconds(45))
        assert ended(world) == [("node-0", "single", 0, "Fenced")]
        # 40 s after the last renewal was sent, at the latest; and not much sooner than 10 s before.
        machine = world.machines["node-0"]
        (state,) = [
            state
            for uid in machine.containers.pods()
            for state in machine.containers.instances(uid).values()
            if isinstance(state, Exited)
        ]
        assert timedelta(seconds=18) < state.finished_at - sim.get_clock("node-0").wall() + seconds(45) <= seconds(40)
        sim.network.heal("node-0", "server-0")
        await tasks.sleep(timedelta(minutes=2))
        pod = await the_pod(client, "single")

    assert (state_of(pod)["restartCount"], readiness(pod)) == (1, "True")
    assert state_of(pod)["lastState"]["terminated"]["reason"] == "Fenced"


async def test_an_agent_that_stands_still_or_is_dead_keeps_no_at_most_one_alive(sim: Simulation):
    async with a_cluster(sim, "node-0", "node-1") as (world, client):
        await client.create(PODS, an_at_most_one("paused", "node-0"), "default")
        await client.create(PODS, an_at_most_one("dead", "node-1"), "default")
        await tasks.sleep(seconds(15))
        world.programs["node-0"].pause()
        world.programs["node-1"].crash()
        await tasks.sleep(seconds(41))

    assert sorted(ended(world)) == [("node-0", "paused", 0, "Fenced"), ("node-1", "dead", 0, "Fenced")]


async def test_another_holder_keeps_the_lease_until_it_gives_it_back(sim: Simulation):
    leases = KindName("coordination.k8s.io", "v1", "Lease", "leases", True)
    async with a_cluster(sim, "node-0") as (world, client):
        await client.create(PODS, an_at_most_one("single"), "default")
        await tasks.sleep(seconds(5))
        body = {"spec": {"holderIdentity": "another-holder"}}
        await client.patch(leases, "node-0", "kube-node-lease", body)
        await tasks.sleep(seconds(60))
        taken = await client.get(leases, "node-0", "kube-node-lease")
        assert ended(world) == [("node-0", "single", 0, "Fenced")]
        await client.patch(leases, "node-0", "kube-node-lease", {"spec": {"holderIdentity": ""}})
        await tasks.sleep(seconds(30))
        pod = await the_pod(client, "single")

    assert taken["spec"]["holderIdentity"] == "another-holder"
    assert readiness(pod) == "True"


# The same under faults


@pytest.mark.parametrize("fault", ["request-lost", "answer-lost", "crash-before", "crash-after"])
@pytest.mark.parametrize("nth", range(3, 12))
def test_one_fault_at_any_write_of_a_whole_agent_starts_nothing_twice(fault: str, nth: int):
    async def run(sim: Simulation) -> None:
        world = World(sim)
        world.add_server("server-0")
        world.add_node("node-0", an_agent())
        world.faults.at_write("node-0", nth, fault)
        world.know("admin")
        await world.boot()
        with sim.network.host("admin").active():
            async with world.client_for("admin", sim.env("admin")) as client:
                await client.create(PODS, an_at_most_one("one"), "default")
                await tasks.sleep(timedelta(minutes=1))
                await client.delete(PODS, "one", "default")
                await tasks.sleep(timedelta(minutes=2))
                assert (await client.list(PODS)).items == []
                assert begun(world)[0] == ("node-0", "one", 0)
                # An agent that is away for longer than the lease lasts loses it, and the pod is started again.
                assert all(reason == "Fenced" for _, _, _, reason in ended(world)[:-1])

    with Simulation() as sim:
        sim.run(run(sim))


async def test_a_pod_is_said_not_to_be_ready_before_it_is_asked_to_end(sim: Simulation):
    async with a_cluster(sim, "node-0", settings=an_agent()) as (world, client):
        await client.create(PODS, a_pod("one"), "default")
        await tasks.sleep(seconds(5))
        await client.delete(PODS, "one", "default")
        await tasks.sleep(seconds(5))
        kept = [event for event in world.history.events if isinstance(event, RevisionCommitted) and "/one" in event.key]
        (end_ns,) = [event.at_ns for event in world.history.events if isinstance(event, ContainerEnded)]

    unready = [event.at_ns for event in kept[3:] if event.value and b'"type":"Ready","status":"False"' in event.value]
    # Half a second is what the container takes.
    assert unready[0] < end_ns - 400_000_000
    assert kept[-1].value is None
    assert b'"phase":"Succeeded"' in (kept[-1].previous or b"")


async def test_a_pod_with_a_finalizer_is_left_when_it_has_ended(sim: Simulation):
    async with a_cluster(sim, "node-0", settings=an_agent()) as (world, client):
        await client.create(PODS, a_pod("one", metadata={"finalizers": ["example.com/theirs"]}), "default")
        await tasks.sleep(seconds(5))
        await client.delete(PODS, "one", "default")
        await tasks.sleep(timedelta(minutes=5))
        held = await the_pod(client)
        asked = writes_of(world, "node-0")
        await client.patch(PODS, "one", "default", {"metadata": {"finalizers": None}})
        await tasks.sleep(seconds(5))
        assert (await client.list(PODS)).items == []

    assert held["status"]["phase"] == "Succeeded"
    assert asked.count("DELETE") <= 2
    assert world.machines["node-0"].containers.pods() == []
