"""What objectives of workloads under the candidate lead to: a gate that holds, or a rollback."""

from datetime import timedelta
from typing import Any

import pytest

from mainstay.api import times
from mainstay.api.kind_names import SERVICE_LEVEL_OBJECTIVES
from mainstay.api.policy_scope import WorkloadShare, has_workload
from mainstay.controllers.policy_rollout.objectives import ObjectiveSignals, judge_objectives
from tests.controllers.policy_rollout.cluster import NOON, ObjectCluster

Object = dict[str, Any]
BEFORE, AFTER = NOON - timedelta(seconds=60), NOON + timedelta(seconds=60)


def a_pod(deployment: str, template: str = "1a") -> Object:
    name = f"{deployment}-{template}"
    owner = {"kind": "ReplicaSet", "name": name, "uid": f"uid-{name}", "controller": True}
    labels = {"pod-template-hash": template}
    return {"metadata": {"name": name, "namespace": "risk", "labels": labels, "ownerReferences": [owner]}}


def an_slo(
    name: str = "web", rate: str = "20.0", *, target: str = "web", since: Any = AFTER, is_burning: str = "True"
) -> Object:
    said = {"type": "BudgetBurning", "status": is_burning, "observedGeneration": 1}
    said["lastTransitionTime"] = times.format_time(since)
    measured = {"type": "TimeToBound", "burn": {"5m": rate, "1h": rate}}
    return {
        "metadata": {"name": name, "namespace": "risk", "generation": 1},
        "spec": {"target": {"kind": "Deployment", "name": target}},
        "status": {"targetUid": f"uid-{target}-1a", "conditions": [said], "objectives": [measured]},
    }


def judge(*slos: Object, candidate: str = "web", baseline: str = "api") -> ObjectiveSignals:
    return judge_objectives(slos, [a_pod(candidate)], [a_pod(baseline)], NOON)


def test_a_budget_that_burns_fast_since_the_stage_is_a_regression():
    found = judge(an_slo())

    assert [each.name for each in found.burning] == ["web"]
    assert len(found.regressions) == 1
    assert found.regressions[0].startswith("SloBurn (sustained) of workload web")


@pytest.mark.parametrize(
    "slos",
    [
        [an_slo(rate="7.0")],  # Not so fast that the table allows more than to wait.
        [an_slo(since=BEFORE)],  # It burnt before the candidate had any pods.
        [an_slo(), an_slo("api", "1.5", target="api")],  # The other side burns as well.
    ],
)
def test_a_burn_that_need_not_be_the_candidates_doing_only_holds(slos):
    found = judge(*slos)

    assert [each.name for each in found.burning] == ["web"]
    assert found.regressions == ()


def test_objectives_of_other_workloads_and_those_within_budget_say_nothing():
    elsewhere = an_slo() | {"metadata": {"name": "web", "namespace": "shop", "generation": 1}}

    assert judge(an_slo(target="api"), an_slo("free", target="free"), elsewhere) == ObjectiveSignals()
    assert judge(an_slo(is_burning="False")) == judge(an_slo(is_burning="Unknown")) == ObjectiveSignals()


@pytest.mark.parametrize("change", ["status", "generation", "target"])
def test_an_objective_that_has_not_reported_about_what_there_is_now_is_stale(change):
    slo = an_slo(is_burning="False")
    if change == "status":
        del slo["status"]
    elif change == "generation":
        slo["metadata"]["generation"] = 2
    else:
        slo["status"]["targetUid"] = "uid-of-an-earlier-template"

    found = judge(slo)

    assert [each.component for each in found.stale] == ["ServiceLevelObjective risk/web"]
    assert (found.burning, found.regressions) == ((), ())


@pytest.fixture
def cluster() -> ObjectCluster:
    found = ObjectCluster()
    found.add_policy("v5", active=True)
    found.add_policy("v6")
    found.publish()
    found.add_rollout()
    return found


def put_slo(cluster: ObjectCluster, workload: str, **values: Any) -> None:
    """About the ReplicaSet of a workload of the cluster."""
    slo = an_slo(workload, target=workload, **values)
    slo["spec"]["target"]["kind"] = "ReplicaSet"
    slo["status"]["targetUid"] = workload
    made = cluster.put(SERVICE_LEVEL_OBJECTIVES, workload, spec=slo["spec"], status=slo["status"])
    made["metadata"]["namespace"] = "risk"


def find_workload_in_canary() -> str:
    share = WorkloadShare("v6", 50)
    return next(f"web-{n}" for n in range(10) if has_workload(share, f"risk/ReplicaSet/web-{n}"))


def test_the_gate_holds_while_a_budget_burns_and_passes_when_it_does_not(cluster):
    workload = find_workload_in_canary()
    put_slo(cluster, workload, rate="2.0")
    cluster.go(60)
    assert (cluster.status()["stage"], cluster.status()["reason"]) == ("canary", "ObjectiveBurns")
    assert f"SloBurn (hint) of workload {workload}" in cluster.status()["gate"]["message"]

    put_slo(cluster, workload, is_burning="False")
    cluster.go()
    assert cluster.status()["stage"] == "all"


def test_the_gate_holds_while_an_objective_has_not_reported(cluster):
    workload = find_workload_in_canary()
    put_slo(cluster, workload)
    cluster.get(SERVICE_LEVEL_OBJECTIVES, workload)["status"] = {}
    cluster.go(60)

    assert (cluster.status()["stage"], cluster.status()["reason"]) == ("canary", "SignalsStale")
    assert cluster.condition("Fresh") == ("False", "SignalsStale")


def test_a_sustained_burn_since_the_stage_rolls_back(cluster):
    cluster.go(5)
    assert (cluster.status()["stage"], cluster.status()["reason"]) == ("canary", "HoldingStage")
    put_slo(cluster, find_workload_in_canary(), since=cluster.now)
    cluster.settle()

    assert cluster.status()["phase"] == "RolledBack"
    assert "SloBurn (sustained)" in cluster.status()["rollback"]["message"]
