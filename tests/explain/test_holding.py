"""Which Holds concern an object; and a whole cluster in which things are held, to the end."""

from datetime import timedelta
from typing import Any

import pytest

from mainstay.api.holds import HoldScope, build_hold_name
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import CONFIG_MAPS, DEPLOYMENTS, HOLDS, NAMESPACES, NODES, PODS, REPLICASETS
from mainstay.api.times import format_time
from mainstay.client.client import Client
from mainstay.controllers.registry import CAN_BE_HELD
from mainstay.env import tasks
from mainstay.explain.holds import holds_on
from mainstay.explain.moment import Moment
from mainstay.explain.replay import CannotReplay, Same, replay_all
from mainstay.registry import REGISTRY, load_deciders
from mainstay.scenarios._workloads import a_workload, with_image
from mainstay.sim.cluster.cluster import Cluster, NodeOptions, whole_cluster
from mainstay.sim.simulation import Simulation

DECIDERS = load_deciders()

pytestmark = pytest.mark.slow

SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)
TWO = {"node-a": NodeOptions(zone="a"), "node-b": NodeOptions(zone="b")}


async def hold(
    cluster: Cluster, what: HoldScope, target: str = "", namespace: str = "", length: timedelta = HOUR
) -> str:
    name = build_hold_name(what, target, namespace)
    given = {"name": target, "namespace": namespace}
    spec = {
        "what": str(what),
        "target": {field: value for field, value in given.items() if value},
        "owner": "anna",
        "reason": "to look at it",
        "expiresAt": format_time(cluster.world.sim.clock.wall() + length),
    }
    await cluster.client.create(HOLDS, {"metadata": {"name": name}, "spec": spec})
    await tasks.sleep(2 * SECOND)
    return name


async def found(cluster: Cluster, kind: KindName, name: str, namespace: str = "default", **more: Any) -> dict[str, str]:
    """What each Hold that concerns an object keeps from happening."""
    moment = await Moment.now(cluster.journal)
    return {each.name: each.effect for each in await holds_on(moment, REGISTRY, kind, name, namespace, **more)}


async def one_of(client: Client, kind: KindName) -> str:
    return str((await client.list(kind, "default")).items[0]["metadata"]["name"])


async def test_a_hold_concerns_what_it_names_and_what_is_owned_by_that(sim: Simulation):
    async with whole_cluster(sim, nodes=TWO) as cluster:
        await cluster.client.create(DEPLOYMENTS, a_workload("web", 2))
        await tasks.sleep(20 * SECOND)
        pod, replica_set = await one_of(cluster.client, PODS), await one_of(cluster.client, REPLICASETS)
        assert await found(cluster, DEPLOYMENTS, "web") == {}

        await hold(cluster, HoldScope.ROLLOUT, "web", "default")
        await hold(cluster, HoldScope.CONTROLLER, "replicaset")
        await hold(cluster, HoldScope.CONTROLLER, "scheduler")
        await hold(cluster, HoldScope.EVICTIONS)
        await hold(cluster, HoldScope.EVICTIONS, "", "kube-system")

        rollout = {"rollout.default.web": "its rollout is paused"}
        sets = {"controller.replicaset": "the controller replicaset is paused"}
        evictions = {"evictions": "evictions are paused"}
        assert await found(cluster, DEPLOYMENTS, "web") == rollout
        assert await found(cluster, REPLICASETS, replica_set) == {**sets, **rollout}
        assert await found(cluster, PODS, pod) == {**evictions, **sets, **rollout}
        # It does not exist: no scheduler has placed it, and nothing is known of its owners.
        assert await found(cluster, PODS, "other") == {
            "controller.scheduler": "the scheduler is paused",
            **evictions,
        }
        assert await found(cluster, NODES, "node-a", "") == {"evictions": "evictions are paused in all namespaces"}
        assert await found(cluster, DEPLOYMENTS, "api") == {}
        (held,) = await holds_on(await Moment.now(cluster.journal), REGISTRY, DEPLOYMENTS, "web", "default")
        assert (held.owner, held.what, held.target, held.subject) == ("anna", HoldScope.ROLLOUT, "default/web", "")
        assert held.words.startswith("its rollout is paused: anna holds it until ")


async def test_an_expired_hold_applies_only_at_an_earlier_moment(sim: Simulation):
    async with whole_cluster(sim, nodes=TWO) as cluster:
        await cluster.client.create(DEPLOYMENTS, a_workload("web", 1))
        name = await hold(cluster, HoldScope.ROLLOUT, "web", "default", length=30 * SECOND)
        then = await Moment.now(cluster.journal)
        await tasks.sleep(60 * SECOND)

        now = sim.clock.wall()
        assert await found(cluster, DEPLOYMENTS, "web", now=now) == {}
        assert [each.name for each in await holds_on(then, REGISTRY, DEPLOYMENTS, "web", "default")] == [name]


# A whole cluster.


async def test_a_held_scheduler_places_nothing_and_then_all(sim: Simulation):
    async with whole_cluster(sim, nodes=TWO) as cluster:
        name = await hold(cluster, HoldScope.CONTROLLER, "scheduler")
        await cluster.client.create(DEPLOYMENTS, a_workload("web", 3))
        await tasks.sleep(120 * SECOND)
        pods = (await cluster.client.list(PODS, "default")).items
        assert [pod["spec"].get("nodeName") for pod in pods] == [None] * 3
        about = [each for each in cluster.journal.records() if each.component == "scheduler-1"]
        assert [(each.subject.kind, each.outcome.reason) for each in about] == [(HOLDS.text, "Held")]

        await cluster.client.delete(HOLDS, name)
        await tasks.sleep(20 * SECOND)
        pods = (await cluster.client.list(PODS, "default")).items
        assert [pod["status"]["phase"] for pod in pods] == ["Running"] * 3


async def test_a_scheduler_whose_hold_is_over_goes_on_by_itself(sim: Simulation):
    async with whole_cluster(sim, nodes=TWO) as cluster:
        await hold(cluster, HoldScope.CONTROLLER, "scheduler", length=60 * SECOND)
        await cluster.client.create(DEPLOYMENTS, a_workload("web", 2))
        await tasks.sleep(55 * SECOND)
        assert not any(pod["spec"].get("nodeName") for pod in (await cluster.client.list(PODS, "default")).items)
        await tasks.sleep(15 * SECOND)

        assert all(pod["spec"].get("nodeName") for pod in (await cluster.client.list(PODS, "default")).items)


async def test_held_loops_that_delete_things_delete_nothing_and_then_all(sim: Simulation):
    """Those that are no controllers of one kind: the clean-up behind owners, and that of namespaces."""
    async with whole_cluster(sim, nodes=TWO) as cluster:
        await cluster.client.create(NAMESPACES, {"metadata": {"name": "shop"}})
        await cluster.client.create(CONFIG_MAPS, {"metadata": {"name": "c", "namespace": "shop"}})
        await cluster.client.create(DEPLOYMENTS, a_workload("web", 2))
        await tasks.sleep(20 * SECOND)
        names = [await hold(cluster, HoldScope.CONTROLLER, each) for each in ("owner-cleanup", "namespace")]
        await cluster.client.delete(NAMESPACES, "shop")
        await cluster.client.delete(DEPLOYMENTS, "web", "default")
        await tasks.sleep(120 * SECOND)
        assert (await cluster.client.get(NAMESPACES, "shop"))["status"]["phase"] == "Terminating"
        assert len((await cluster.client.list(CONFIG_MAPS, "shop")).items) >= 1
        assert len((await cluster.client.list(REPLICASETS, "default")).items) == 1

        for name in names:
            await cluster.client.delete(HOLDS, name)
        await tasks.sleep(60 * SECOND)
        assert "shop" not in [each["metadata"]["name"] for each in (await cluster.client.list(NAMESPACES)).items]
        assert (await cluster.client.list(REPLICASETS, "default")).items == []
        assert (await cluster.client.list(PODS, "default")).items == []


async def test_a_rollout_that_is_held_says_so_and_goes_on_and_its_decisions_name_the_hold(sim: Simulation):
    async with whole_cluster(sim, nodes=TWO) as cluster:
        await cluster.client.create(DEPLOYMENTS, a_workload("web", 4))
        await tasks.sleep(20 * SECOND)
        await hold(cluster, HoldScope.ROLLOUT, "web", "default", length=60 * SECOND)
        await cluster.client.patch(DEPLOYMENTS, "web", "default", with_image("x:2"))
        await tasks.sleep(30 * SECOND)

        deployment = await cluster.client.get(DEPLOYMENTS, "web", "default")
        (said,) = [each for each in deployment["status"]["conditions"] if each["type"] == "Progressing"]
        assert (said["status"], said["reason"]) == ("Unknown", "RolloutHeld")
        assert deployment["status"]["progress"]["limitedBy"]["reason"] == "RolloutHeld"
        hold_there = await cluster.client.get(HOLDS, "rollout.default.web")
        assert hold_there["status"]["phase"] == "Active"
        decided = await cluster.journal.decisions(kind="deployments.apps", namespace="default", name="web")
        held = [each for each in decided.records if any("held by Hold" in reason for reason in each.reasons)]
        assert held
        assert all(HOLDS.text in [seen.kind for seen in each.view] for each in held)
        await tasks.sleep(60 * SECOND)

        images = [pod["spec"]["containers"][0]["image"] for pod in (await cluster.client.list(PODS, "default")).items]
        assert images == ["x:2"] * 4
        assert (await cluster.client.get(HOLDS, "rollout.default.web"))["status"]["phase"] == "Expired"


async def test_a_hold_that_is_over_is_removed_after_a_day(sim: Simulation):
    async with whole_cluster(sim, nodes={}) as cluster:
        name = await hold(cluster, HoldScope.EVICTIONS, length=60 * SECOND)
        await tasks.sleep(120 * SECOND)
        assert (await cluster.client.get(HOLDS, name))["status"]["phase"] == "Expired"
        for program in cluster.controllers.values():
            program._env.clock.jump(timedelta(days=1))  # type: ignore[attr-defined]
        await cluster.client.patch(HOLDS, name, "", {"metadata": {"labels": {"a": "b"}}})
        await tasks.sleep(10 * SECOND)

        assert (await cluster.client.list(HOLDS)).items == []


async def test_decisions_that_went_by_holds_are_made_again_the_same(sim: Simulation):
    nodes = {f"node-{zone}{number}": NodeOptions(zone=zone) for zone in "abc" for number in (1, 2)}
    async with whole_cluster(sim, nodes=nodes) as cluster:
        await cluster.client.create(DEPLOYMENTS, a_workload("web", 4))
        await tasks.sleep(20 * SECOND)
        await hold(cluster, HoldScope.ROLLOUT, "web", "default", length=60 * SECOND)
        await hold(cluster, HoldScope.EVICTIONS, length=90 * SECOND)
        await hold(cluster, HoldScope.CONTROLLER, "replicaset", length=30 * SECOND)
        await cluster.client.patch(DEPLOYMENTS, "web", "default", with_image("x:2"))
        cluster.world.programs["node-a1"].crash()
        await cluster.client.patch(DEPLOYMENTS, "web", "default", {"spec": {"replicas": 6}})
        await tasks.sleep(200 * SECOND)
        records = cluster.journal.records()
        held = [each for each in records if each.component == "node-health" and "are frozen by" in str(each.reasons)]
        assert held

        answers = [(record, answer) async for record, answer in replay_all(cluster.journal, records, DECIDERS)]

    ours = [(record, answer) for record, answer in answers if record.component in CAN_BE_HELD]
    assert {"deployment", "node-health", "holds", "replicaset"} <= {record.component for record, _ in ours}
    others = [(record, answer) for record, answer in ours if not isinstance(answer, Same)]
    # That a controller was held and went on is a record, too, and was decided by the clock alone.
    assert [(record.subject.kind, record.outcome.reason) for record, _ in others] == [
        (HOLDS.text, "Held"),
        (HOLDS.text, "Resumed"),
    ]
    assert [str(record.component) for record, _ in others] == ["replicaset"] * 2
    assert all(isinstance(answer, CannotReplay) for _, answer in others)
