"""`why` about namespaces, quotas, Services and budgets."""

import pytest

from mainstay.api.kind_names import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    NAMESPACES,
    PODS,
    SERVICES,
    ZONE_QUOTAS,
)
from mainstay.explain.why.answer import Verdict
from mainstay.explain.why.causes import Cause
from mainstay.sim.simulation import Simulation
from tests.explain.why.asked import a_cluster, a_deployment, a_pod, asked, rest

pytestmark = pytest.mark.slow


def a_budget(name: str, least: int, app: str = "web"):
    return {"metadata": {"name": name}, "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": app}}}}


async def test_a_namespace_is_active_or_goes_and_says_what_is_left(sim: Simulation):
    async with a_cluster(sim) as cluster:
        active = await asked(cluster, NAMESPACES, "default")
        await cluster.client.create(NAMESPACES, {"metadata": {"name": "old"}})
        pod = a_pod("slow", terminationGracePeriodSeconds=60)
        await cluster.client.create(PODS, pod, "old")
        held = {"metadata": {"name": "kept", "finalizers": ["example.com/keep"]}}
        await cluster.client.create(CONFIG_MAPS, held, "old")
        await rest(10)
        await cluster.client.delete(NAMESPACES, "old")
        await rest(30)
        going = await asked(cluster, NAMESPACES, "old")
        body = {"metadata": {"finalizers": None}}
        await cluster.client.patch(CONFIG_MAPS, "kept", "old", body)
        await rest(100)
        gone = await asked(cluster, NAMESPACES, "old")

    assert active.cause is Cause.SATISFIED
    assert going.cause is Cause.FINALIZER_WAITING
    assert "ConfigMap kept" in going.sentence
    assert "example.com/keep" in going.sentence
    assert gone.cause is Cause.DELETED
    assert "by admin" in gone.sentence


async def test_a_budget_that_allows_nothing_says_what_it_needs(sim: Simulation):
    async with a_cluster(sim) as cluster:
        await cluster.client.create(DEPLOYMENTS, a_deployment("web", 2))
        await cluster.client.create(DISRUPTION_BUDGETS, a_budget("strict", 2), "default")
        await cluster.client.create(DISRUPTION_BUDGETS, a_budget("easy", 1), "default")
        await cluster.client.create(DISRUPTION_BUDGETS, a_budget("lost", 1, "nothing"), "default")
        await rest(20)
        strict = await asked(cluster, DISRUPTION_BUDGETS, "strict")
        easy = await asked(cluster, DISRUPTION_BUDGETS, "easy")
        lost = await asked(cluster, DISRUPTION_BUDGETS, "lost")

    assert (strict.cause, strict.verdict) == (Cause.BUDGET_EXHAUSTED, Verdict.BLOCKED)
    assert "2 of 2 pods are healthy, 2 must be" in strict.sentence
    assert easy.cause is Cause.SATISFIED
    assert lost.cause is Cause.NOTHING_SELECTED


async def test_a_zone_quota_says_what_is_used_and_who_waits_for_it(sim: Simulation):
    async with a_cluster(sim) as cluster:
        for zone in "ab":
            quota = {"metadata": {"name": f"limit-{zone}"}, "spec": {"zone": zone, "hard": {"cpu": "1"}}}
            await cluster.client.create(ZONE_QUOTAS, quota, "default")
        await rest(2)
        for number in range(3):
            await cluster.client.create(PODS, a_pod(f"p{number}", "1"), "default")
        await rest(10)
        answer = await asked(cluster, ZONE_QUOTAS, "limit-a")
        [waiting] = [
            each for each in (await cluster.client.list(PODS, "default")).items if not each["spec"].get("nodeName")
        ]
        pod = await asked(cluster, PODS, waiting["metadata"]["name"])

    assert (answer.cause, answer.verdict) == (Cause.ZONE_QUOTA_EXCEEDED, Verdict.WAITING)
    assert "cpu 1 of 1" in answer.sentence
    assert waiting["metadata"]["name"] in answer.sentence
    assert pod.cause is Cause.ZONE_QUOTA_EXCEEDED
    assert pod.involved[0].who == "admin"


async def test_a_service_that_leads_to_its_pods_is_satisfied_and_tells_of_those_that_are_not_ready(sim: Simulation):
    service = {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}
    async with a_cluster(sim) as cluster:
        await cluster.client.create(SERVICES, service, "default")
        empty = await asked(cluster, SERVICES, "web")
        await cluster.client.create(DEPLOYMENTS, a_deployment("web", 3, "3"))
        await rest(20)
        answer = await asked(cluster, SERVICES, "web")

    assert empty.cause is Cause.NOTHING_SELECTED
    assert (answer.cause, answer.verdict) == (Cause.SATISFIED, Verdict.SATISFIED)
    assert "routes to 2 of 3 pods, 1 not ready" in answer.sentence
    assert [(each.cause, each.count) for each in answer.also] == [(Cause.INSUFFICIENT_RESOURCES, 1)]
