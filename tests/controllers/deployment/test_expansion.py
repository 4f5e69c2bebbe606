"""What keeps a rollout from its next step: evidence, and the progress of its new set."""

from datetime import timedelta
from typing import Any

import pytest

from mainstay.api.kind_names import REPLICASETS
from mainstay.controllers.deployment.expansion import RolloutMemory, UnobservedSet, find_growth_limit
from mainstay.loop.decision import Create, Decision, Patch, WakeAt
from tests.controllers.objects import (
    DEPLOYMENT_CONTROLLER,
    KEY,
    NOON,
    Object,
    a_deployment,
    a_set,
    a_view,
    at,
)

AT_TWO = {"deployment.kubernetes.io/revision": "2"}


def decide(deployment: Object, *sets: Object, memory: RolloutMemory | None = None, **more: Any) -> Decision:
    view = a_view(DEPLOYMENT_CONTROLLER, deployments=[deployment], sets=sets, **more)
    return DEPLOYMENT_CONTROLLER.decide(view, KEY, memory)


def sizes(decision: Decision) -> dict[str, int]:
    return {
        action.key.name: action.body["spec"]["replicas"]
        for action in decision.actions
        if isinstance(action, Patch) and action.kind == REPLICASETS and "replicas" in action.body.get("spec", {})
    }


def pause(decision: Decision) -> tuple[str, str] | None:
    found = [each for each in decision.status["conditions"] if each["type"] == "ExpansionPaused"]
    return (found[0]["status"], found[0]["reason"]) if found else None


def an_old(replicas: int, **more: Any) -> Object:
    given = {"owner": "web", "image": "web:1", "revision": 1, "created_at": -900, "desired": 10, **more}
    return a_set("old", replicas, **given)


def a_new(replicas: int, **more: Any) -> Object:
    return a_set("new", replicas, **{"owner": "web", "image": "web:2", "revision": 2, "desired": 10, **more})


def ten(**more: Any) -> Object:
    """Ten replicas, of the second image; up to 13 at a time, at least 8 of them available."""
    return a_deployment(10, **{"image": "web:2", "annotations": AT_TWO, **more})


def with_limit(replica_set: Object, stage: str, reason: str, verdict: str = "waiting", generation: int = 1) -> Object:
    progress = {
        "observedGeneration": generation,
        "desired": 3,
        "admitted": 3,
        "pending": 2,
        "bound": 1,
        "starting": 0,
        "ready": 1,
        "serving": 0,
        "deadline": {"state": "none"},
        "limitedBy": {"stage": stage, "component": "scheduler", "reason": reason, "count": 2},
        "verdict": verdict,
    }
    return {**replica_set, "status": {**replica_set["status"], "progress": progress}}


def a_report(age: float = 0, **queue: Any) -> Object:
    status = {"observedAt": at(-age), "queues": [{"name": "replicaset", **queue}]}
    return {"metadata": {"name": "controllers-0"}, "spec": {"component": "controllers-0"}, "status": status}


# Reports


@pytest.mark.parametrize(
    ("queue", "reason"), [({"oldestSeconds": 75}, "QueueAge"), ({"errorsInARow": 3}, "ControllerErrors")]
)
def test_a_rollout_does_not_expand_while_the_controller_that_must_act_lags_or_fails(queue, reason):
    decision = decide(ten(), an_old(8), a_new(3), states=[a_report(**queue)])

    assert sizes(decision) == {}
    assert pause(decision) == ("True", reason)
    assert isinstance(decision.result, WakeAt)


def test_a_new_set_is_made_without_pods_while_the_rollout_is_paused():
    decision = decide(ten(), an_old(10), states=[a_report(oldestSeconds=75)])

    (made,) = [each for each in decision.actions if isinstance(each, Create)]
    assert made.object["spec"]["replicas"] == 0


def test_when_the_evidence_is_gone_the_rollout_goes_on_and_the_condition_goes():
    paused = decide(ten(), an_old(8), a_new(3), states=[a_report(oldestSeconds=75)])
    deployment = {**ten(), "status": {"conditions": paused.status["conditions"]}}

    decision = decide(deployment, an_old(8), a_new(3), states=[a_report(oldestSeconds=1)])

    assert sizes(decision) == {"new": 5}
    assert pause(decision) is None


def test_a_young_queue_or_an_old_report_pauses_nothing():
    assert sizes(decide(ten(), an_old(8), a_new(3), states=[a_report(oldestSeconds=20)])) == {"new": 5}
    assert sizes(decide(ten(), an_old(8), a_new(3), states=[a_report(400, oldestSeconds=75)])) == {"new": 5}


def test_a_first_rollout_and_another_number_of_replicas_are_not_paused():
    first = decide(ten(annotations={}), states=[a_report(oldestSeconds=75)])
    scaled = decide(ten(), an_old(4, desired=8), a_new(4, desired=8), states=[a_report(oldestSeconds=75)])

    (made,) = [each for each in first.actions if isinstance(each, Create)]
    assert made.object["spec"]["replicas"] == 10
    assert sum(sizes(scaled).values()) > 8


# Generations


def test_a_set_that_has_not_observed_its_size_holds_old_pods_at_once_and_is_named_after_a_while():
    new = a_new(3, generation=2, observed=1)
    first = decide(ten(), an_old(10), new)

    later = decide(ten(), an_old(10), new, memory=first.memory, now=NOON + timedelta(seconds=6))

    assert first.memory == RolloutMemory((UnobservedSet("new", 2, NOON),))
    assert (sizes(first), pause(first)) == ({}, None)
    assert (sizes(later), pause(later)) == ({}, ("True", "GenerationNotObserved"))


def test_a_set_that_has_observed_its_size_is_forgotten():
    before = RolloutMemory((UnobservedSet("new", 1, NOON - timedelta(minutes=1)),))

    assert decide(ten(), an_old(10), a_new(3), memory=before).memory is None


def test_a_later_generation_counts_from_when_it_was_seen():
    before = RolloutMemory((UnobservedSet("new", 2, NOON - timedelta(minutes=1)),))

    decision = decide(ten(), an_old(10), a_new(3, generation=3, observed=1), memory=before)

    assert decision.memory == RolloutMemory((UnobservedSet("new", 3, NOON),))


# Deadline


def test_a_passed_deadline_pauses_and_removes_nothing_and_says_what_limits_the_new_set():
    condition = {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated", "lastUpdateTime": at(-700)}
    status = {"replicas": 13, "updatedReplicas": 3, "readyReplicas": 10, "availableReplicas": 10}
    deployment = {**ten(progressDeadlineSeconds=600), "status": {**status, "conditions": [condition]}}
    new = with_limit(a_new(3, available=0), "scheduled", "Unschedulable")

    late = decide(deployment, an_old(10), new)
    after = decide({**deployment, "status": late.status}, an_old(10), new)

    said = {each["type"]: each for each in late.status["conditions"]}["Progressing"]
    assert (said["reason"], said["message"]) == (
        "ProgressDeadlineExceeded",
        'ReplicaSet "new" has timed out progressing: 2 replicas wait to be scheduled by scheduler, Unschedulable.',
    )
    assert sizes(after) == {}
    assert pause(after) == ("True", "RolloutDeadline")


# Objectives


def an_slo(target_uid: str, name: str = "web") -> Object:
    said = {"type": "BudgetBurning", "status": "True", "reason": "BurnRateHigh", "observedGeneration": 1}
    objective = {"type": "TimeToReady", "burn": {"5m": "5.0", "1h": "5.0"}}
    return {
        "metadata": {"name": "slo", "namespace": "default", "generation": 1},
        "spec": {"target": {"kind": "Deployment", "name": name}, "objectives": []},
        "status": {"targetUid": target_uid, "conditions": [said], "objectives": [objective]},
    }


def test_a_rollout_does_not_expand_while_its_new_pods_burn_the_budget():
    decision = decide(ten(), an_old(8), a_new(3), slos=[an_slo("new")])

    assert (sizes(decision), pause(decision)) == ({}, ("True", "SloBurn"))


def test_what_the_old_template_burns_or_another_workload_does_not_pause_it():
    assert sizes(decide(ten(), an_old(8), a_new(3), slos=[an_slo("old")])) == {"new": 5}
    assert sizes(decide(ten(), an_old(8), a_new(3), slos=[an_slo("new", name="other")])) == {"new": 5}


# Progress


@pytest.mark.parametrize(
    ("stage", "reason"), [("admitted", "QuotaExceeded"), ("scheduled", "Unschedulable"), ("bound", "MakingRoom")]
)
def test_a_new_set_whose_replicas_are_refused_does_not_grow(stage, reason):
    decision = decide(ten(), an_old(7), with_limit(a_new(3, available=1), stage, reason))

    assert sizes(decision) == {}
    assert decision.reasons[0].startswith(f"the new ReplicaSet does not grow: 2 replicas wait to be {stage}")


def test_old_pods_still_go_within_what_may_be_unavailable_for_they_may_make_room():
    decision = decide(ten(), an_old(9), with_limit(a_new(3, available=1), "scheduled", "Unschedulable"))

    assert sizes(decision) == {"old": 7}


@pytest.mark.parametrize(
    ("stage", "verdict", "generation", "available"),
    [
        ("ready", "stuck", 1, 1),  # It crashes: how many of those there may be, maxUnavailable says.
        ("scheduled", "progressing", 1, 1),  # It has not been tried yet.
        ("scheduled", "waiting", 0, 1),  # The record is of an older generation.
        ("scheduled", "waiting", 1, 3),  # They run by now.
    ],
)
def test_only_a_refusal_of_the_present_limits_the_new_set(stage, verdict, generation, available):
    new = with_limit(a_new(3, available=available), stage, "Some", verdict, generation)

    assert find_growth_limit(new) is None
