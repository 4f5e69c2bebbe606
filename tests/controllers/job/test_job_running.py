"""Jobs at work: server, scheduler, nodes and the controller, in virtual time."""

from datetime import timedelta

import pytest

from mainstay.agent.runners.pretend_containers import Behaviour
from mainstay.api.kind_names import DISRUPTION_BUDGETS, JOBS, PODS
from mainstay.controllers.budget.controller import DisruptionBudgets
from mainstay.controllers.job.controller import Jobs
from mainstay.env import tasks
from mainstay.sim.checkers.job_counts import JobCounts
from tests.controllers.running import CONTROLLER, ZONES, Cluster, Object, a_cluster

pytestmark = pytest.mark.slow

SECOND = timedelta(seconds=1)


def a_job(name: str = "work", **spec) -> Object:
    container = {"name": "main", "image": "work:1", "resources": {"requests": {"cpu": "100m"}}}
    template = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 2}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {**spec, "template": {"spec": template}}}


def behaving(cluster: Cluster, *codes: int, lasts: timedelta = 3 * SECOND) -> None:
    """Each container that is begun ends after a while, with the next of these codes; the last is for the rest."""
    left = list(codes)

    def behave(wish: object) -> Behaviour:
        return Behaviour(SECOND, SECOND, lasts, left.pop(0) if len(left) > 1 else left[0])

    for name in ZONES:
        cluster.world.machines[name].behave = behave


async def ended(cluster: Cluster, name: str = "work", within: timedelta = timedelta(minutes=10)) -> Object:
    async def is_over() -> bool:
        status = (await cluster.client.get(JOBS, name, "default")).get("status") or {}
        return any(each["type"] in ("Complete", "Failed") for each in status.get("conditions") or ())

    await cluster.until(is_over, within)
    return dict((await cluster.client.get(JOBS, name, "default"))["status"])


async def test_a_job_runs_until_enough_have_succeeded_and_then_nothing_is_written_any_more(sim):
    async with a_cluster(sim, controllers=(Jobs(),)) as cluster:
        behaving(cluster, 0, 1, 0, 1, 0)
        await cluster.client.create(JOBS, a_job(completions=6, parallelism=2))

        status = await ended(cluster)

        assert (status["succeeded"], status["failed"]) == (6, 2)
        assert [each["type"] for each in status["conditions"]] == ["SuccessCriteriaMet", "Complete"]
        phases = [pod["status"]["phase"] for pod in await cluster.pods()]
        assert sorted(phases) == ["Failed"] * 2 + ["Succeeded"] * 6
        assert not any(pod["metadata"].get("finalizers") for pod in await cluster.pods())
        await _checked(cluster)
        await cluster.world.quiet(within=timedelta(minutes=10), calm=timedelta(minutes=2))
        writes = _of_the_job(cluster)
        await tasks.sleep(timedelta(minutes=20))
        assert _of_the_job(cluster) == writes


async def test_a_job_that_fails_takes_what_runs_with_it_and_waits_for_its_end(sim):
    async with a_cluster(sim, controllers=(Jobs(),)) as cluster:
        behaving(cluster, 1, 0, lasts=5 * SECOND)
        await cluster.client.create(JOBS, a_job("bad", completions=3, parallelism=1, backoffLimit=0))
        await cluster.client.create(JOBS, a_job("late", completions=2, parallelism=2, activeDeadlineSeconds=3))

        bad, late = await ended(cluster, "bad"), await ended(cluster, "late")

        assert (bad.get("succeeded"), bad["failed"]) == (None, 1)
        assert {each["reason"] for each in bad["conditions"]} == {"BackoffLimitExceeded"}
        assert {each["reason"] for each in late["conditions"]} == {"DeadlineExceeded"}
        assert late["failed"] == 2
        assert not any(pod["status"]["phase"] == "Running" for pod in await cluster.pods())
        await _checked(cluster)


async def test_the_pods_of_a_job_may_be_covered_by_a_budget(sim):
    async with a_cluster(sim, controllers=(Jobs(), DisruptionBudgets())) as cluster:
        behaving(cluster, 0, lasts=timedelta(hours=1))
        selector = {"matchLabels": {"job-name": "work"}}
        budget = {"metadata": {"name": "b", "namespace": "default"}, "spec": {"minAvailable": 2, "selector": selector}}
        await cluster.client.create(DISRUPTION_BUDGETS, budget)
        await cluster.client.create(JOBS, a_job(completions=3, parallelism=3))

        async def is_counted() -> bool:
            status = (await cluster.client.get(DISRUPTION_BUDGETS, "b", "default"))["status"]
            return bool(status["disruptionsAllowed"] == 1 and status["currentHealthy"] == 3)

        await cluster.until(is_counted)
        name = (await cluster.pods())[0]["metadata"]["name"]
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
        await cluster.client.create(PODS, eviction, "default", subresource="eviction")
        await cluster.until(is_counted)  # It was replaced.

        status = (await cluster.client.get(JOBS, "work", "default"))["status"]
        assert (status["active"], status["failed"]) == (3, 1)


def _of_the_job(cluster: Cluster) -> int:
    """Its writes but for what says that it is alive."""
    return len([each for each in cluster.writes(CONTROLLER) if "/jobs" in each.path or "/pods" in each.path])


async def _checked(cluster: Cluster) -> None:
    """The same by what was stored."""
    checker = JobCounts()
    for event in cluster.world.history.events:
        checker.saw(event)
    await checker.at_end(cluster.world)
