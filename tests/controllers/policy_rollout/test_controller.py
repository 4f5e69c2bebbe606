"""What a rollout does next: whole rollouts on plain objects, with pauses, crashes and other clients in between."""

from datetime import timedelta

import pytest

from mainstay.api.kind_names import PLACEMENT_POLICIES, POLICY_ROLLOUTS
from mainstay.api.policy_rollout import RolloutReason
from mainstay.api.policy_scope import WorkloadShare, has_workload
from mainstay.loop.decision import WakeAt
from tests.controllers.policy_rollout.cluster import GATE, STAGES, ObjectCluster

HALF = {"active": True, "limit": {"percent": 50}}
WHOLE = {"active": True, "limit": {"percent": 100}}
ALONE = {"active": True}
OFF = {"active": False}
SHADOW = {"name": "shadow", "shadowPercent": 5, "holdSeconds": 10}
IN_CANARY = [f"web-{number}" for number in range(10)]


@pytest.fixture
def cluster() -> ObjectCluster:
    found = ObjectCluster()
    found.add_policy("v5", active=True)
    found.add_policy("v6")
    found.publish()
    return found


def test_a_healthy_candidate_takes_over_stage_by_stage(cluster):
    cluster.add_rollout(stages=[SHADOW, *STAGES])
    for _ in range(3):
        cluster.go()

    assert cluster.writes == [
        ("v6", {"active": False, "shadow": {"percent": 5}}),
        ("v6", HALF),
        ("v6", WHOLE),
        ("v5", OFF),
        ("v6", ALONE),
    ]
    assert (cluster.status()["phase"], cluster.condition("Complete")) == ("Complete", ("True", "Complete"))
    assert not cluster.step()


def test_the_activation_names_the_revision_of_the_write(cluster):
    cluster.add_rollout()
    cluster.settle()

    status = cluster.status()
    assert status["activation"]["revision"] == int(cluster.get(PLACEMENT_POLICIES, "v6")["metadata"]["resourceVersion"])
    assert (status["stage"], status["activation"]["stage"]) == ("canary", "canary")
    assert status["previous"] == {"name": "v5", "uid": "uid-v5"}


@pytest.mark.parametrize("component", ["apiserver", "scheduler", "controllers"])
def test_the_gate_waits_for_each_component_and_names_it(cluster, component):
    cluster.add_rollout()
    cluster.settle()
    cluster.late.add(component)
    cluster.go()

    status = cluster.status()
    assert (status["stage"], status["reason"]) == ("canary", "SignalsStale")
    assert {each["component"] for each in status["gate"]["stale"]} == {component}
    assert cluster.condition("Fresh") == ("False", "SignalsStale")

    cluster.late.clear()
    cluster.go()
    assert cluster.status()["stage"] == "all"


def test_the_gate_waits_until_the_stage_was_held_and_has_samples(cluster):
    cluster.add_rollout()
    cluster.settle()
    cluster.publish()
    cluster.settle()
    assert cluster.status()["reason"] == "TooFewSamples"
    assert isinstance(cluster.decide().result, WakeAt)

    cluster.go(seconds=6)
    assert (cluster.status()["reason"], cluster.status()["stage"]) == ("HoldingStage", "canary")

    cluster.go(seconds=6)
    assert cluster.status()["stage"] == "all"


def test_a_regression_rolls_back_and_restores_the_baseline(cluster):
    cluster.add_rollout()
    cluster.settle()
    cluster.pending = find_canary_workloads()
    cluster.go()

    assert cluster.status()["phase"] == "RolledBack"
    assert cluster.status()["rollback"]["reason"] == "RegressionFound"
    assert "pending" in cluster.status()["rollback"]["message"]
    assert (cluster.fields("v5"), cluster.fields("v6")) == (ALONE, OFF)
    assert ("v5", OFF) not in cluster.writes
    assert cluster.condition("RolledBack") == ("True", "RolledBack")
    assert cluster.condition("Healthy") == ("False", "RegressionFound")


def test_pods_that_wait_under_both_policies_are_no_regression(cluster):
    cluster.pending = set(IN_CANARY)
    cluster.add_rollout()
    cluster.go()

    assert cluster.status()["stage"] == "all"


def find_canary_workloads() -> set[str]:
    share = WorkloadShare("v6", 50)
    found = {name for name in IN_CANARY if has_workload(share, f"risk/ReplicaSet/{name}")}
    assert 0 < len(found) < len(IN_CANARY)
    return found


def test_a_regression_in_the_last_stage_is_found_against_the_figures_of_the_baseline_before(cluster):
    cluster.add_rollout()
    cluster.go()
    assert cluster.status()["reference"]["pods"] >= GATE["minSamples"]
    cluster.pending = set(IN_CANARY)
    cluster.go()

    assert (cluster.status()["phase"], cluster.fields("v5"), cluster.fields("v6")) == ("RolledBack", ALONE, OFF)


def test_a_stage_that_does_not_pass_in_time_is_rolled_back(cluster):
    cluster.add_rollout(deadlineSeconds=60)
    cluster.settle()
    cluster.late.add("scheduler")
    cluster.go(seconds=30)
    assert cluster.status()["phase"] == "Progressing"

    cluster.go(seconds=30)
    assert cluster.status()["rollback"]["reason"] == "DeadlineExceeded"
    assert (cluster.fields("v5"), cluster.fields("v6")) == (ALONE, OFF)


def test_a_paused_rollout_changes_nothing_and_its_deadline_starts_again(cluster):
    cluster.add_rollout(deadlineSeconds=60)
    cluster.settle()
    cluster.change(POLICY_ROLLOUTS, "rollout", paused=True)
    cluster.go(seconds=600)
    assert (cluster.status()["stage"], cluster.condition("Progressing")) == ("canary", ("False", "Paused"))
    assert cluster.fields("v6") == HALF

    cluster.change(POLICY_ROLLOUTS, "rollout", paused=False)
    cluster.settle()
    assert cluster.status()["phase"] == "Progressing"
    cluster.go()
    cluster.go()
    assert cluster.status()["phase"] == "Complete"


def test_a_pause_leaves_what_the_gate_has_found(cluster):
    cluster.add_rollout()
    cluster.settle()
    cluster.late.add("scheduler")
    cluster.go()
    cluster.change(POLICY_ROLLOUTS, "rollout", paused=True)
    cluster.settle()

    assert cluster.condition("Fresh") == ("False", "SignalsStale")


def test_aborting_without_a_previous_policy_deactivates_the_candidate_and_ends(cluster):
    cluster.add_rollout()
    cluster.settle()
    cluster.objects.pop((PLACEMENT_POLICIES, "v5"))
    cluster.change(POLICY_ROLLOUTS, "rollout", aborted=True)
    cluster.settle()

    assert (cluster.status()["phase"], cluster.fields("v6")) == ("RolledBack", OFF)
    [said] = [each for each in cluster.status()["conditions"] if each["type"] == "RolledBack"]
    assert "PlacementPolicy v5 was deleted" in said["message"]


@pytest.mark.parametrize("steps", range(16))
def test_aborting_restores_the_baseline_from_wherever_it_is(cluster, steps):
    cluster.add_rollout()
    for _ in range(steps):
        if not cluster.step():
            cluster.go()
    phase = cluster.status().get("phase")
    cluster.change(POLICY_ROLLOUTS, "rollout", aborted=True)
    cluster.go()

    if phase == "Complete":
        assert (cluster.fields("v5"), cluster.fields("v6")) == (OFF, ALONE)
    else:
        assert cluster.status()["phase"] == "RolledBack"
        assert (cluster.fields("v5"), cluster.fields("v6")) == (ALONE, OFF)


@pytest.mark.parametrize("crash_at", range(14))
def test_a_crash_between_a_write_and_the_status_changes_nothing_in_the_end(cluster, crash_at):
    cluster.add_rollout()
    for number in range(60):
        if cluster.status().get("phase") == "Complete":
            break
        if not cluster.step(crashes_after_actions=number == crash_at):
            cluster.go()

    assert cluster.status()["phase"] == "Complete"
    assert cluster.writes == [("v6", HALF), ("v6", WHOLE), ("v5", OFF), ("v6", ALONE)]


@pytest.mark.parametrize(
    ("policy", "change", "reason"),
    [
        ("v6", {"active": False}, "CandidateChanged"),
        ("v6", {"limit": {"percent": 90}}, "CandidateChanged"),
        ("v5", {"active": False}, "PreviousChanged"),
        ("v5", {"limit": {"percent": 90}}, "PreviousChanged"),
    ],
)
def test_what_another_client_changes_is_named_and_never_fought(cluster, policy, change, reason):
    cluster.add_rollout(deadlineSeconds=60)
    cluster.settle()
    before = cluster.get(PLACEMENT_POLICIES, policy)["spec"]
    written = list(cluster.writes)
    cluster.change(PLACEMENT_POLICIES, policy, **change)
    cluster.go(seconds=600)

    assert (cluster.status()["stalled"], cluster.writes) == (reason, written)

    cluster.put(PLACEMENT_POLICIES, policy, spec=before)
    cluster.change(POLICY_ROLLOUTS, "rollout", deadlineSeconds=3600, paused=True)
    cluster.settle()
    cluster.change(POLICY_ROLLOUTS, "rollout", paused=False)
    cluster.go()
    assert "stalled" not in cluster.status()
    assert cluster.status()["stage"] == "all"


@pytest.mark.parametrize(("policy", "reason"), [("v6", "CandidateNotFound"), ("v5", "PreviousNotFound")])
def test_a_policy_that_is_deleted_or_replaced_stalls_the_rollout(cluster, policy, reason):
    cluster.add_rollout()
    cluster.settle()
    kept = cluster.objects.pop((PLACEMENT_POLICIES, policy))
    cluster.go()
    assert cluster.status()["stalled"] == reason

    cluster.put(PLACEMENT_POLICIES, policy, spec=kept["spec"])
    cluster.get(PLACEMENT_POLICIES, policy)["metadata"]["uid"] = "another"
    cluster.go()
    assert cluster.status()["stalled"] == reason


@pytest.mark.parametrize(
    ("spec", "rollout", "reason"),
    [
        ({"active": True, "limit": {"percent": 1}}, {}, RolloutReason.CANDIDATE_ACTIVE),
        ({"scope": None}, {}, RolloutReason.CANDIDATE_UNSCOPED),
        ({}, {"policy": "v9"}, RolloutReason.CANDIDATE_NOT_FOUND),
        ({}, {"previous": "v4"}, RolloutReason.PREVIOUS_UNSUITABLE),
        ({"scope": {"namespaces": ["shop"]}}, {"previous": "v5"}, RolloutReason.PREVIOUS_UNSUITABLE),
    ],
)
def test_a_rollout_that_cannot_begin_says_why_and_begins_when_it_can(cluster, spec, rollout, reason):
    cluster.change(PLACEMENT_POLICIES, "v6", **spec)
    cluster.add_rollout(**rollout)
    cluster.settle()

    assert (cluster.status()["stalled"], cluster.writes) == (reason, [])


def test_the_first_policy_of_a_scope_has_no_previous_one(cluster):
    cluster.change(PLACEMENT_POLICIES, "v6", scope={"namespaces": ["risk"], "selector": {}})
    cluster.change(PLACEMENT_POLICIES, "v5", scope={"namespaces": ["shop"]})
    cluster.add_rollout()
    for _ in range(2):
        cluster.go()

    assert cluster.status()["phase"] == "Complete"
    assert cluster.writes == [("v6", HALF), ("v6", WHOLE), ("v6", ALONE)]


def test_a_second_rollout_of_an_active_candidate_waits_for_the_first(cluster):
    cluster.add_rollout()
    cluster.settle()
    cluster.add_rollout("second", "v6")
    cluster.settle("second")

    assert cluster.status("second")["reason"] == "WaitingForRollout"


def test_pods_are_judged_at_the_same_age_whether_bound_or_pending(cluster):
    """Else a burst after the hold passes by those of its pods that were placed at once."""
    cluster.add_rollout()
    cluster.settle()
    cluster.pending = find_canary_workloads()
    cluster.now += timedelta(seconds=60)
    cluster.publish()
    cluster.settle()
    cluster.create_pods(count=4)
    cluster.now += timedelta(seconds=1)
    cluster.publish()
    cluster.settle()
    assert (cluster.status()["stage"], cluster.status()["reason"]) == ("canary", "TooFewSamples")

    cluster.now += timedelta(seconds=10)
    cluster.publish()
    cluster.settle()
    assert cluster.status()["rollback"]["reason"] == "RegressionFound"


def test_of_two_rollouts_that_share_a_policy_the_second_waits(cluster):
    cluster.add_policy("v7")
    cluster.add_rollout()
    cluster.add_rollout("second", "v7")
    cluster.settle()
    cluster.settle("second")
    assert cluster.status("second")["reason"] == "WaitingForRollout"
    assert cluster.fields("v7") == OFF

    cluster.go()
    cluster.go()
    assert cluster.status()["phase"] == "Complete"
    cluster.settle("second")
    assert cluster.status("second")["previous"] == {"name": "v6", "uid": "uid-v6"}


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_of_two_rollouts_that_claim_at_once_the_first_claim_wins(cluster, order):
    """Each has decided to claim before it could see the other."""
    cluster.add_policy("v7")
    cluster.add_rollout("a", "v6")
    cluster.add_rollout("b", "v7")
    decisions = {name: cluster.decide(name) for name in order}
    for name in order:
        cluster.put(POLICY_ROLLOUTS, name, status=dict(decisions[name].status))
    for name in (*reversed(order), *order):
        cluster.step(name)

    assert [cluster.status(name)["phase"] for name in order] == ["Progressing", "Pending"]


def test_a_rollout_that_is_aborted_before_it_began_changes_nothing(cluster):
    cluster.add_rollout(aborted=True)
    cluster.settle()

    assert (cluster.status()["phase"], cluster.writes) == ("RolledBack", [])
