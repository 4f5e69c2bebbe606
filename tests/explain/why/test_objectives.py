"""`why` about ServiceLevelObjectives, and about a rollout that evidence holds, on a whole cluster."""

import pytest

from mainstay.api.kind_names import DEPLOYMENTS, SERVICE_LEVEL_OBJECTIVES
from mainstay.explain.debug.builder import debug
from mainstay.explain.moment import Moment
from mainstay.explain.why.answer import Verdict
from mainstay.explain.why.causes import Cause
from mainstay.registry import REGISTRY
from mainstay.sim.simulation import Simulation
from tests.explain.why.asked import a_cluster, a_deployment, asked, rest

pytestmark = pytest.mark.slow


def an_slo(name: str, target: str):
    objective = {"type": "TimeToBound", "withinSeconds": 3, "percent": 90}
    spec = {"target": {"kind": "Deployment", "name": target}, "objectives": [objective]}
    return {"metadata": {"name": name}, "spec": spec}


async def test_an_objective_says_whether_its_budget_burns_and_what_is_wrong_with_its_target(sim: Simulation):
    async with a_cluster(sim) as cluster:
        for name, target in (("good", "good"), ("bad", "bad"), ("lost", "nothing")):
            await cluster.client.create(SERVICE_LEVEL_OBJECTIVES, an_slo(name, target), "default")
        await cluster.client.create(DEPLOYMENTS, a_deployment("good", 3))
        unplaceable = a_deployment("bad", 3)
        unplaceable["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "none"}
        await cluster.client.create(DEPLOYMENTS, unplaceable)
        await rest(20)
        good, bad, lost = [await asked(cluster, SERVICE_LEVEL_OBJECTIVES, name) for name in ("good", "bad", "lost")]

    assert (good.cause, good.verdict) == (Cause.SATISFIED, Verdict.SATISFIED)
    assert "0 of 3 pods late" in good.sentence
    assert (bad.cause, bad.verdict) == (Cause.OBJECTIVE_MISSED, Verdict.WAITING)
    assert "3 of 3 pods late" in bad.sentence
    assert bad.also
    assert (lost.cause, lost.verdict) == (Cause.REFERENCE_MISSING, Verdict.BLOCKED)
    assert lost.advice == "Create it, or correct the name in the reference."


async def test_a_rollout_whose_new_pods_burn_the_budget_stops_and_debug_shows_the_evidence(sim: Simulation):
    async with a_cluster(sim) as cluster:
        deployment = a_deployment("web", 4)
        deployment["spec"]["strategy"] = {"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 0}}
        await cluster.client.create(DEPLOYMENTS, deployment)
        await cluster.client.create(SERVICE_LEVEL_OBJECTIVES, an_slo("web", "web"), "default")
        await rest(20)
        body = {"spec": {"template": {"spec": {"nodeSelector": {"disk": "none"}}}}}
        await cluster.client.patch(DEPLOYMENTS, "web", "default", body)
        await rest(30)
        view = await debug(await Moment.now(cluster.journal), REGISTRY, DEPLOYMENTS, "web", "default")

    burning = [each for each in view.evidence if each.signal == "SloBurn"]
    assert [(each.strength, each.about) for each in burning] == [("repeated", "workload web")]
    assert "PauseRollout" in burning[0].allows
    assert view.counts.ready == 4
