"""Circumstances in which an answer is easily untrue: two causes at once, just cured, freed, back, gone, refused."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import pytest

from mainstay.agent.runner import CannotRun, ContainerSpec
from mainstay.agent.runners.pretend_containers import Behaviour
from mainstay.api import times
from mainstay.api.kind import Object, Propagation
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICASETS,
    RESOURCE_QUOTAS,
    SERVICES,
    ZONE_QUOTAS,
)
from mainstay.api.well_known_labels import ZONE_LABEL
from mainstay.client.client import Client
from mainstay.client.errors import ApiError
from mainstay.explain.why.answer import Verdict
from mainstay.explain.why.causes import Cause
from mainstay.explain.why.text import render_answer
from mainstay.sim.cluster.cluster import Cluster
from mainstay.sim.simulation import Simulation
from tests.explain.why.asked import a_cluster, a_deployment, a_job, a_pod, asked, rest
from tests.faults.objects import an_acting_node, with_image

pytestmark = pytest.mark.slow

ACTING: Final = {"node-a": an_acting_node("node-a", 1), "node-b": an_acting_node("node-b", 2, "b")}
REFUSED: Final = {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}


def behave(cluster: Cluster, how: Callable[[ContainerSpec], Behaviour]) -> None:
    for machine in cluster.world.machines.values():
        machine.behave = how


def crashing(container: ContainerSpec) -> Behaviour:
    return Behaviour(lasts=timedelta(seconds=1), code=4)


async def made(cluster: Cluster, kind: KindName, name: str, **spec: Any) -> None:
    await cluster.client.create(kind, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})


async def pods_of(cluster: Cluster, app: str) -> list[Object]:
    return (await cluster.client.list(PODS, "default", labels=f"app={app}")).items


async def evicted(client: Client, name: str) -> None:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
    await client.create(PODS, eviction, subresource="eviction")


async def test_of_two_causes_at_once_one_is_told_and_the_other_stands_beside_it(sim: Simulation):
    async with a_cluster(sim, ACTING) as cluster:
        behave(cluster, crashing)
        await cluster.client.create(DEPLOYMENTS, a_deployment("web", 3, "3"))
        await rest(30)
        answer = await asked(cluster, DEPLOYMENTS, "web")

    assert answer.cause is Cause.INSUFFICIENT_RESOURCES
    assert answer.sentence.startswith("1 of 3 pods of Deployment default/web is not ready: ")
    assert [(each.cause, each.count) for each in answer.also] == [(Cause.CRASH_LOOP, 2)]


async def test_of_two_containers_in_trouble_the_graver_trouble_is_told_first(sim: Simulation):
    def unlike(container: ContainerSpec) -> Behaviour:
        if container.image == "y:1":
            raise CannotRun("ErrImagePull", "no such image")
        return crashing(container)

    async with a_cluster(sim, ACTING) as cluster:
        behave(cluster, unlike)
        pod = a_pod("web")
        pod["spec"]["containers"].append({"name": "side", "image": "y:1", "command": ["work"]})
        await cluster.client.create(PODS, pod, "default")
        await rest(30)
        answer = await asked(cluster, PODS, "web")

    assert (answer.cause, [each.cause for each in answer.also]) == (Cause.IMAGE_UNAVAILABLE, [Cause.CRASH_LOOP])


async def test_a_container_that_has_lasted_longer_than_before_is_taken_to_be_cured(sim: Simulation):
    runs = 0

    def thrice(container: ContainerSpec) -> Behaviour:
        nonlocal runs
        runs += 1
        return crashing(container) if runs <= 3 else Behaviour()

    async with a_cluster(sim, ACTING) as cluster:
        behave(cluster, thrice)
        await cluster.client.create(DEPLOYMENTS, a_deployment("web", 1))
        await rest(45)
        just_now = await asked(cluster, DEPLOYMENTS, "web")
        await rest(60)
        later = await asked(cluster, DEPLOYMENTS, "web")

    assert (just_now.cause, just_now.verdict) == (Cause.CRASH_LOOP, Verdict.WAITING)
    assert just_now.sentence.startswith("The only pod of Deployment default/web is failing: ")
    assert just_now.sentence.endswith("; at the moment it is ready.")
    assert later.verdict is Verdict.SATISFIED


async def test_what_was_missing_and_is_there_by_now_is_not_called_missing_without_saying_so(sim: Simulation):
    container = {"envFrom": [{"configMapRef": {"name": "settings"}}]}
    async with a_cluster(sim, ACTING) as cluster:
        wanted = a_deployment("web", 1)
        wanted["spec"]["template"]["spec"]["containers"][0].update(container)
        await cluster.client.create(DEPLOYMENTS, wanted)
        await rest(30)
        missing = await asked(cluster, DEPLOYMENTS, "web")
        [pod] = await pods_of(cluster, "web")
        cluster.world.programs[pod["spec"]["nodeName"]].pause()
        await cluster.client.create(CONFIG_MAPS, {"metadata": {"name": "settings", "namespace": "default"}})
        await rest(2)
        there = await asked(cluster, DEPLOYMENTS, "web")

    assert (missing.cause, missing.verdict) == (Cause.CONFIG_MISSING, Verdict.BLOCKED)
    assert there.verdict is Verdict.WAITING
    assert there.sentence.endswith("; it exists now, and the agent has not retried yet.")


async def test_a_quota_that_has_room_by_now_is_not_blamed_any_more(sim: Simulation):
    async with a_cluster(sim) as cluster:
        await made(cluster, RESOURCE_QUOTAS, "team-limit", hard={"pods": "2"})
        await cluster.client.create(DEPLOYMENTS, a_deployment("hog", 2))
        await rest(5)
        await cluster.client.create(DEPLOYMENTS, a_deployment("web", 1))
        await rest(20)
        full = await asked(cluster, RESOURCE_QUOTAS, "team-limit")
        cluster.world.programs["controllers-1"].pause()
        change = {"spec": {"hard": {"pods": "5"}}}
        await cluster.client.patch(RESOURCE_QUOTAS, "team-limit", "default", change)
        await rest(1)
        freed = await asked(cluster, DEPLOYMENTS, "web")
        quota = await asked(cluster, RESOURCE_QUOTAS, "team-limit")
        await rest(60)
        later = await asked(cluster, DEPLOYMENTS, "web")

    assert "mostly by Deployment hog (2)" in full.sentence
    assert freed.cause is Cause.SCALING
    assert "ResourceQuota team-limit now has room (pods 2 of 5)" in freed.sentence
    assert quota.verdict is Verdict.SATISFIED
    assert later.cause is Cause.NO_CONTROLLER


async def test_a_node_that_comes_back_is_told_of_at_each_stage_and_its_pod_too(sim: Simulation):
    async with a_cluster(sim) as cluster:
        await cluster.client.create(DEPLOYMENTS, a_deployment("web", 2))
        await rest(5)
        cluster.world.programs["node-a"].crash(silently=True)
        await rest(7)
        late = await asked(cluster, DEPLOYMENTS, "web")
        await rest(60)
        lost = await asked(cluster, DEPLOYMENTS, "web")
        cluster.world.programs["node-a"].start()
        await rest(20)
        back = await asked(cluster, DEPLOYMENTS, "web")
        node = await asked(cluster, NODES, "node-a")

    assert (late.verdict, [each.cause for each in late.also]) == (Verdict.SATISFIED, [Cause.NODE_NOT_READY])
    assert lost.cause is Cause.NODE_LOST
    assert "its pods are released for eviction; the pod tolerates this until 00:0" in lost.sentence
    assert back.verdict is node.verdict is Verdict.SATISFIED
    assert back.also == ()


async def test_a_pod_on_a_node_that_was_deleted_is_not_counted_as_ready(sim: Simulation):
    async with a_cluster(sim) as cluster:
        await cluster.client.create(DEPLOYMENTS, a_deployment("web", 2))
        await made(cluster, SERVICES, "web", selector={"app": "web"}, ports=[{"port": 80}])
        await rest(5)
        cluster.world.programs["node-a"].crash(silently=True)
        await cluster.client.delete(NODES, "node-a")
        await rest(3)
        answer = await asked(cluster, DEPLOYMENTS, "web")
        service = await asked(cluster, SERVICES, "web")

    assert answer.cause is Cause.NODE_LOST
    assert "its node node-a was deleted at" in answer.sentence
    assert [each.cause for each in service.also] == [Cause.NODE_LOST]


async def test_after_a_rollback_the_bad_set_and_its_pod_name_who_rolled_back(sim: Simulation):
    def pulled(container: ContainerSpec) -> Behaviour:
        if container.image == "x:9":
            raise CannotRun("ErrImagePull", "no such image")
        return Behaviour()

    async with a_cluster(sim, ACTING) as cluster:
        behave(cluster, pulled)
        await cluster.client.create(DEPLOYMENTS, a_deployment("web", 3))
        await rest(10)
        await cluster.client.patch(DEPLOYMENTS, "web", "default", with_image("x:9"))
        await rest(20)
        stuck = await asked(cluster, DEPLOYMENTS, "web")
        [bad] = [pod for pod in await pods_of(cluster, "web") if pod["spec"]["containers"][0]["image"] == "x:9"]
        cluster.world.know("bob")
        async with cluster.world.client_for("bob", sim.env("bob")) as bob:
            await bob.patch(DEPLOYMENTS, "web", "default", with_image("x:1"))
        await rest(20)
        now = await asked(cluster, DEPLOYMENTS, "web")
        bad_set = await asked(cluster, REPLICASETS, bad["metadata"]["ownerReferences"][0]["name"])
        bad_pod = await asked(cluster, PODS, bad["metadata"]["name"])

    assert stuck.sentence.startswith("The new pod of Deployment default/web is not ready (3 of 3 old pods are ready): ")
    assert now.verdict is Verdict.SATISFIED
    assert (bad_set.cause, bad_pod.cause) == (Cause.SCALED_TO_ZERO, Cause.ROLLED_OVER)
    assert "bob changed the template" in bad_set.sentence
    assert "bob changed the template" in bad_pod.sentence


async def test_of_a_job_with_parallel_pods_it_is_said_how_many_wait_and_who_suspended_it(sim: Simulation):
    async with a_cluster(sim) as cluster:
        await cluster.client.create(JOBS, a_job("report", "1500m", parallelism=6, completions=12))
        await rest(10)
        crowded = await asked(cluster, JOBS, "report")
        [pod, *_] = (await cluster.client.list(PODS, "default", labels="job-name=report")).items
        await cluster.client.patch(JOBS, "report", "default", {"spec": {"suspend": True}})
        await rest(10)
        job = await asked(cluster, JOBS, "report")
        gone = await asked(cluster, PODS, pod["metadata"]["name"])

    assert crowded.sentence.startswith("2 of 6 pods of Job default/report are not ready (0 of 12 completions): ")
    assert "Job default/report was suspended by admin at" in job.sentence
    assert gone.cause is Cause.SUSPENDED
    assert "admin suspended Job report at" in gone.sentence


async def test_a_job_that_was_over_and_is_gone_says_that_its_time_was_over(sim: Simulation):
    async with a_cluster(sim, ACTING) as cluster:
        behave(cluster, lambda container: Behaviour(lasts=timedelta(seconds=1)))
        await cluster.client.create(JOBS, a_job("report", ttlSecondsAfterFinished=5))
        await rest(40)
        answer = await asked(cluster, JOBS, "report")

    assert answer.cause is Cause.COMPLETED
    assert "its ttlSecondsAfterFinished of 5 expired" in answer.sentence


async def test_what_went_with_its_namespace_names_who_deleted_that(sim: Simulation):
    async with a_cluster(sim) as cluster:
        await cluster.client.create(NAMESPACES, {"metadata": {"name": "old"}})
        await rest(1)
        wanted = a_deployment("web", 1)
        wanted["metadata"]["namespace"] = "old"
        await cluster.client.create(DEPLOYMENTS, wanted)
        await rest(5)
        [pod] = (await cluster.client.list(PODS, "old")).items
        await cluster.client.delete(NAMESPACES, "old")
        await rest(30)
        answer = await asked(cluster, PODS, pod["metadata"]["name"], "old")

    assert answer.cause is Cause.NAMESPACE_TERMINATING
    assert "its namespace old was deleted by admin at" in answer.sentence


async def test_a_node_that_is_being_drained_says_who_does_not_go_and_why(sim: Simulation):
    async with a_cluster(sim) as cluster:
        await cluster.client.create(DEPLOYMENTS, a_deployment("web", 2))
        selector = {"matchLabels": {"app": "web"}}
        await made(cluster, DISRUPTION_BUDGETS, "web-budget", minAvailable=2, selector=selector)
        await rest(8)
        await cluster.client.patch(NODES, "node-a", "", {"spec": {"unschedulable": True}})
        [pod] = [each for each in await pods_of(cluster, "web") if each["spec"]["nodeName"] == "node-a"]
        with pytest.raises(ApiError):
            await evicted(cluster.client, pod["metadata"]["name"])
        await rest(2)
        answer = await asked(cluster, NODES, "node-a")

    assert answer.cause is Cause.NODE_CORDONED
    assert "1 pod is still on it" in answer.sentence
    assert "web-budget" in answer.sentence


async def test_of_quotas_in_several_zones_each_is_told_that_leaves_too_little(sim: Simulation):
    async with a_cluster(sim) as cluster:
        for zone in "ab":
            await made(cluster, ZONE_QUOTAS, f"only-{zone}", zone=zone, hard={"cpu": "1"})
        await cluster.client.create(DEPLOYMENTS, a_deployment("web", 3, "700m"))
        await rest(10)
        answer = await asked(cluster, DEPLOYMENTS, "web")
        quota = await asked(cluster, ZONE_QUOTAS, "only-a")

    assert answer.cause is Cause.ZONE_QUOTA_EXCEEDED
    assert "default/only-a has 300m of 1 cpu left in zone a and ZoneQuota default/only-b has 300m" in answer.sentence
    assert "has too little left in zone a (cpu 700m of 1)" in quota.sentence


async def test_a_refused_change_is_the_news_at_first_then_stands_beside_and_goes_when_another_is_accepted(
    sim: Simulation,
):
    async with a_cluster(sim) as cluster:
        await cluster.client.create(DEPLOYMENTS, a_deployment("web", 2))
        await rest(10)
        change = {"spec": {"template": {"spec": {"containers": [{"name": "main", **REFUSED}]}}}}
        cluster.world.know("alice")
        async with cluster.world.client_for("alice", sim.env("alice")) as alice:
            with pytest.raises(ApiError):
                await alice.patch(DEPLOYMENTS, "web", "default", change)
            await rest(2)
            at_first = await asked(cluster, DEPLOYMENTS, "web")
            await rest(400)
            later = await asked(cluster, DEPLOYMENTS, "web")
            await alice.patch(DEPLOYMENTS, "web", "default", with_image("x:2"))
        await rest(20)
        accepted = await asked(cluster, DEPLOYMENTS, "web")

    assert (at_first.cause, at_first.verdict) == (Cause.INVALID, Verdict.BLOCKED)
    assert "is healthy, but the last change by alice was rejected at" in at_first.sentence
    assert (later.cause, [each.cause for each in later.also]) == (Cause.SATISFIED, [Cause.INVALID])
    assert "the last change by alice was rejected" in render_answer(later)
    assert (accepted.cause, accepted.also) == (Cause.SATISFIED, ())


async def test_what_waits_for_those_below_names_the_last_of_them(sim: Simulation):
    async with a_cluster(sim) as cluster:
        wanted = a_deployment("web", 1, pod={"terminationGracePeriodSeconds": 30, "nodeSelector": {ZONE_LABEL: "a"}})
        await cluster.client.create(DEPLOYMENTS, wanted)
        await rest(8)
        [pod] = await pods_of(cluster, "web")
        await cluster.client.delete(DEPLOYMENTS, "web", "default", propagation=Propagation.FOREGROUND)
        await rest(0.5)
        going = await asked(cluster, DEPLOYMENTS, "web")
        await rest(0.7)
        last = await asked(cluster, DEPLOYMENTS, "web")

    assert (going.cause, going.verdict) == (Cause.TERMINATING, Verdict.WAITING)
    assert f"and waits for its dependents. Pod default/{pod['metadata']['name']}" in going.sentence
    assert (last.cause, last.verdict) == (Cause.TERMINATING, Verdict.WAITING)
    assert "has no dependents left; the controller owner-cleanup has not processed it yet" in last.sentence


async def test_a_released_node_says_until_when_its_pods_tolerate_that(sim: Simulation):
    async with a_cluster(sim) as cluster:
        for name in ("one", "two"):
            await cluster.client.create(PODS, a_pod(name, nodeName="node-a"), "default")
        await rest(5)
        cluster.world.programs["node-a"].crash(silently=True)
        await rest(70)
        node = await asked(cluster, NODES, "node-a")
        pod = await asked(cluster, PODS, "one")
        tainted = await cluster.client.get(NODES, "node-a")

    [added] = {each["timeAdded"] for each in tainted["spec"]["taints"] if each["effect"] == "NoExecute"}
    until = times.parse_time(added) + timedelta(seconds=300)
    assert node.cause is Cause.NODE_LOST
    assert f"; 2 pods are bound to it and tolerate this until {until:%H:%M:%S}." in node.sentence
    assert f"; the pod tolerates this until {until:%H:%M:%S}." in pod.sentence
    assert node.advice.endswith("once it is released and their tolerations expire.")


async def test_of_two_pods_that_were_not_ready_only_that_on_the_lost_node_is_counted_as_lost(sim: Simulation):
    async with a_cluster(sim, ACTING) as cluster:
        for machine in cluster.world.machines.values():
            machine.answer = lambda id_, command: 1
        wanted = a_deployment("web", 2, "2500m")
        probe = {"exec": {"command": ["check"]}, "periodSeconds": 5, "failureThreshold": 2}
        wanted["spec"]["template"]["spec"]["containers"][0]["readinessProbe"] = probe
        await cluster.client.create(DEPLOYMENTS, wanted)
        await rest(40)
        cluster.world.programs["node-a"].crash(silently=True)
        await rest(70)
        answer = await asked(cluster, DEPLOYMENTS, "web")

    told = {answer.cause: 1, **{each.cause: each.count for each in answer.also}}
    assert told == {Cause.NODE_LOST: 1, Cause.READINESS_PROBE_FAILING: 1}
    assert answer.sentence.startswith("1 of 2 pods of Deployment default/web is on a lost node: ")


@pytest.mark.parametrize(
    ("wanted", "advice"),
    [
        ({"minAvailable": 2}, "lower minAvailable, which is 2, or add replicas."),
        ({"minAvailable": "100%"}, "lower minAvailable, which is 100%."),
        ({"maxUnavailable": 0}, "raise maxUnavailable, which is 0."),
    ],
)
async def test_advice_never_waits_for_pods_that_are_all_healthy(sim: Simulation, wanted: dict[str, Any], advice: str):
    async with a_cluster(sim) as cluster:
        await cluster.client.create(DEPLOYMENTS, a_deployment("web", 2))
        await made(cluster, DISRUPTION_BUDGETS, "web", selector={"matchLabels": {"app": "web"}}, **wanted)
        await rest(10)
        [pod, _] = await pods_of(cluster, "web")
        with pytest.raises(ApiError):
            await evicted(cluster.client, pod["metadata"]["name"])
        await rest(1)
        budget = await asked(cluster, DISRUPTION_BUDGETS, "web")
        refused = await asked(cluster, PODS, pod["metadata"]["name"])
        cluster.world.programs["node-a"].crash(silently=True)
        await rest(70)
        later = await asked(cluster, DISRUPTION_BUDGETS, "web")

    assert (budget.cause, budget.verdict) == (Cause.BUDGET_EXHAUSTED, Verdict.BLOCKED)
    assert budget.advice == f"All its pods are healthy, so waiting does not help: {advice}"
    assert (refused.cause, refused.advice) == (Cause.BUDGET_EXHAUSTED, budget.advice)
    assert later.advice.startswith("Wait until its other pods are ready")
