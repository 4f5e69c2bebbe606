"""`why` about Deployments, ReplicaSets and Jobs: from the generation that is wanted down to one pod."""

from typing import Any

import pytest

from mainstay.api.kind_names import DEPLOYMENTS, JOBS, NODES, PODS, REPLICASETS, RESOURCE_QUOTAS, STATEFUL_SETS
from mainstay.explain.moment import NoSuchMoment
from mainstay.explain.why.answer import LinkState, Verdict
from mainstay.explain.why.causes import Cause, Tier
from mainstay.sim.cluster.cluster import NodeOptions
from mainstay.sim.simulation import Simulation
from tests.explain.why.asked import a_cluster, a_deployment, a_job, a_pod, asked, rest, steps

pytestmark = pytest.mark.slow


async def test_a_deployment_that_is_complete_is_satisfied_from_its_generation_on(sim: Simulation):
    async with a_cluster(sim) as cluster:
        await cluster.client.create(DEPLOYMENTS, a_deployment("web", 3))
        await rest(20)
        answer = await asked(cluster, DEPLOYMENTS, "web")

    assert (answer.cause, answer.verdict) == (Cause.SATISFIED, Verdict.SATISFIED)
    assert steps(answer) == ["desired", "controller", "replicaset", "ready"]
    assert answer.chain[0].text == "generation 1, 3 replicas, by admin"
    assert answer.chain[1].evidence[0].decision.startswith("deployment-")


async def test_of_pods_that_are_held_up_for_several_reasons_the_gravest_is_told_and_the_others_counted(sim: Simulation):
    nodes = {"node-a": NodeOptions(capacity={"cpu": "1", "memory": "8Gi"}, zone="a")}
    async with a_cluster(sim, nodes) as cluster:
        await cluster.client.create(DEPLOYMENTS, a_deployment("web", 3, "500m"))
        await rest(15)
        answer = await asked(cluster, DEPLOYMENTS, "web")

    assert (answer.cause, answer.tier) == (Cause.INSUFFICIENT_RESOURCES, Tier.CAPACITY)
    assert answer.sentence.startswith("1 of 3 pods of Deployment default/web is not ready: Pod default/web-")
    assert answer.about is not None
    assert answer.about.kind == "Pod"
    assert [link.step for link in answer.chain if link.state is LinkState.BROKEN] == ["filters"]


async def test_a_quota_refuses_pods_before_they_exist_and_is_named_on_the_deployment_and_the_set(sim: Simulation):
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "1"}}}
    async with a_cluster(sim) as cluster:
        await cluster.client.create(RESOURCE_QUOTAS, quota, "default")
        await cluster.client.create(DEPLOYMENTS, a_deployment("web", 3))
        await rest(15)
        above = await asked(cluster, DEPLOYMENTS, "web")
        [replica_set] = (await cluster.client.list(REPLICASETS, "default")).items
        below = await asked(cluster, REPLICASETS, replica_set["metadata"]["name"])
        itself = await asked(cluster, RESOURCE_QUOTAS, "small")

    assert above.cause is below.cause is itself.cause is Cause.QUOTA_EXCEEDED
    assert "exceeded quota: small" in above.sentence
    assert above.verdict is Verdict.WAITING
    assert "is exhausted for pods (pods 1 of 1)" in itself.sentence
    assert itself.chain[-1].evidence[0].decision.startswith("quota-")


async def test_a_deployment_that_is_scaled_to_nothing_is_satisfied_and_says_so(sim: Simulation):
    async with a_cluster(sim) as cluster:
        await cluster.client.create(DEPLOYMENTS, a_deployment("web", 0))
        await rest(10)
        answer = await asked(cluster, DEPLOYMENTS, "web")

    assert (answer.cause, answer.verdict) == (Cause.SCALED_TO_ZERO, Verdict.SATISFIED)


async def test_a_rollout_that_is_under_way_is_waited_for(sim: Simulation):
    async with a_cluster(sim) as cluster:
        await cluster.client.create(DEPLOYMENTS, a_deployment("web", 2, minReadySeconds=30))
        await rest(15)
        answer = await asked(cluster, DEPLOYMENTS, "web")

    assert (answer.cause, answer.verdict) == (Cause.ROLLING_OUT, Verdict.WAITING)
    assert "0 available" in answer.sentence


async def test_controllers_that_fall_silent_lose_their_leader_before_the_lease_ends_and_are_missing_after(
    sim: Simulation,
):
    async with a_cluster(sim, controllers=1) as cluster:
        cluster.world.programs["controllers-1"].crash()
        await cluster.client.create(DEPLOYMENTS, a_deployment("web", 2))
        await rest(3)
        soon = await asked(cluster, DEPLOYMENTS, "web")
        await rest(60)
        later = await asked(cluster, DEPLOYMENTS, "web")

    assert soon.cause is Cause.LEADER_LOST, soon.sentence
    assert later.cause is Cause.NO_CONTROLLER
    assert later.verdict is Verdict.BLOCKED
    assert "controllers-1" in later.sentence


async def test_a_generation_that_is_over_is_told_as_it_stood_when_the_next_one_came(sim: Simulation):
    async with a_cluster(sim) as cluster:
        await cluster.client.create(DEPLOYMENTS, a_deployment("web", 1, "100"))
        await rest(10)
        await cluster.client.patch(DEPLOYMENTS, "web", "default", {"spec": {"replicas": 0}})
        await rest(15)
        now = await asked(cluster, DEPLOYMENTS, "web", generation=2)
        then = await asked(cluster, DEPLOYMENTS, "web", generation=1)
        for never in (7, 0, -1):
            with pytest.raises(
                NoSuchMoment, match=f"generation {never} of Deployment default/web not found: the current one is 2"
            ):
                await asked(cluster, DEPLOYMENTS, "web", generation=never)
        await cluster.client.delete(DEPLOYMENTS, "web", "default")
        await rest(5)
        with pytest.raises(NoSuchMoment, match="generation 7 of Deployment default/web not found: the last one is 2"):
            await asked(cluster, DEPLOYMENTS, "web", generation=7)

    assert (now.cause, now.subject.generation) == (Cause.SCALED_TO_ZERO, 2)
    assert (then.cause, then.subject.generation) == (Cause.NODE_TOO_SMALL, 1)
    assert then.notes[0].startswith("generation 1 was replaced by 2 at")
    assert "by admin" in then.notes[0]


async def test_a_kind_without_a_controller_is_reported(sim: Simulation):
    body = a_deployment("db", 1)
    body["spec"]["serviceName"] = "db"
    async with a_cluster(sim) as cluster:
        await cluster.client.create(STATEFUL_SETS, body, "default")
        await rest(3)
        answer = await asked(cluster, STATEFUL_SETS, "db")

    assert (answer.cause, answer.verdict) == (Cause.NO_CONTROLLER, Verdict.BLOCKED)
    assert answer.sentence == "StatefulSet default/db is stored but not acted on: no controller makes its pods."
    assert answer.advice == "Use a Deployment, or run a controller of your own."


async def test_a_field_that_nothing_enforces_is_mentioned(sim: Simulation):
    affinity: dict[str, Any] = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    async with a_cluster(sim) as cluster:
        await cluster.client.create(PODS, a_pod("web", affinity=affinity), "default")
        await rest(5)
        answer = await asked(cluster, PODS, "web")

    assert answer.notes == (
        "spec.affinity.podAntiAffinity: not enforced: the scheduler does not read it: use topologySpreadConstraints",
    )


async def test_a_job_says_whether_it_is_suspended_waits_or_is_done(sim: Simulation):
    async with a_cluster(sim) as cluster:
        await cluster.client.create(JOBS, a_job("later", suspend=True))
        await cluster.client.create(JOBS, a_job("large", "100"))
        await cluster.client.create(JOBS, a_job("late", activeDeadlineSeconds=5))
        await rest(30)
        suspended = await asked(cluster, JOBS, "later")
        waiting = await asked(cluster, JOBS, "large")
        late = await asked(cluster, JOBS, "late")
        await cluster.client.patch(JOBS, "later", "default", {"spec": {"suspend": False}})
        await rest(5)
        resumed = await asked(cluster, JOBS, "later")

    assert (suspended.cause, suspended.verdict) == (Cause.SUSPENDED, Verdict.BLOCKED)
    assert (waiting.cause, waiting.verdict) == (Cause.NODE_TOO_SMALL, Verdict.BLOCKED)
    assert late.cause is Cause.DEADLINE_EXCEEDED, late.sentence
    assert resumed.cause in (Cause.RUNNING, Cause.STARTING, Cause.NOT_READY_YET), resumed.sentence


async def test_writers_that_take_turns_are_named_with_the_field_and_their_values(sim: Simulation):
    async with a_cluster(sim) as cluster:
        await cluster.client.create(DEPLOYMENTS, a_deployment("web", 1))
        world = cluster.world
        for name in ("flux", "keda"):
            world.know(name)
        for _ in range(3):
            for name, replicas in (("flux", 1), ("keda", 4)):
                async with world.client_for(name, world.sim.env(name)) as client:
                    await client.patch(DEPLOYMENTS, "web", "default", {"spec": {"replicas": replicas}})
                await rest(3)
        answer = await asked(cluster, DEPLOYMENTS, "web")

    assert answer.cause is Cause.FIGHTING_WRITERS
    assert "flux" in answer.sentence
    assert "keda" in answer.sentence
    assert "spec.replicas" in answer.sentence


async def test_a_single_user_who_scales_up_and_down_is_no_fight(sim: Simulation):
    async with a_cluster(sim) as cluster:
        await cluster.client.create(DEPLOYMENTS, a_deployment("web", 1))
        for replicas in (2, 1, 2, 1, 2):
            await cluster.client.patch(DEPLOYMENTS, "web", "default", {"spec": {"replicas": replicas}})
            await rest(8)
        answer = await asked(cluster, DEPLOYMENTS, "web")

    assert answer.cause is Cause.SATISFIED


async def test_a_node_says_why_it_takes_no_pods_and_who_made_it_so(sim: Simulation):
    async with a_cluster(sim) as cluster:
        taint = {"key": "team", "value": "ml", "effect": "NoSchedule"}
        await cluster.client.patch(NODES, "node-a", "", {"spec": {"unschedulable": True}})
        await cluster.client.patch(NODES, "node-b", "", {"spec": {"taints": [taint]}})
        await rest(5)
        cordoned, tainted = await asked(cluster, NODES, "node-a"), await asked(cluster, NODES, "node-b")
        await cluster.client.patch(NODES, "node-a", "", {"spec": {"unschedulable": None}})
        for number in range(4):
            pod = a_deployment("x")["spec"]["template"]["spec"]
            pod["containers"][0]["resources"]["requests"]["cpu"] = "1"
            await cluster.client.create(PODS, {"metadata": {"name": f"p{number}"}, "spec": pod}, "default")
        await rest(10)
        full = await asked(cluster, NODES, "node-a")

    assert (cordoned.cause, cordoned.verdict) == (Cause.NODE_CORDONED, Verdict.BLOCKED)
    assert "by admin" in cordoned.sentence
    assert cordoned.cures[0].command == "kubectl uncordon node-a"
    assert tainted.cause is Cause.UNTOLERATED_TAINT
    assert "team=ml:NoSchedule" in tainted.sentence
    assert full.cause is Cause.NODE_FULL
    assert "0 of 4 cpu left" in full.sentence
