"""What a Deployment says about its rollout."""

from datetime import timedelta
from typing import Any

from mainstay.controllers.deployment.rolling import compute_bounds
from mainstay.controllers.deployment.status import DeploymentStatus, is_timed_out, said
from tests.controllers.objects import NOON, Object, a_deployment, a_set, at


def say(deployment: Object, new: Object | None, *old: Object, now: float = 0, **more: Any) -> DeploymentStatus:
    return said(deployment, new, old, compute_bounds(deployment), NOON + timedelta(seconds=now), **more)


def progressing(found: DeploymentStatus) -> tuple[str, str, str] | None:
    for condition in found.status["conditions"]:
        if condition["type"] == "Progressing":
            return condition["status"], condition["reason"], condition["message"]
    return None


def a_condition(reason: str, *, status: str = "True", about: str = "new", updated: float = -10) -> Object:
    message = f'ReplicaSet "{about}" is progressing.' if about else "Deployment is paused"
    return {
        "type": "Progressing",
        "status": status,
        "reason": reason,
        "message": message,
        "lastUpdateTime": at(updated),
        "lastTransitionTime": at(updated - 100),
        **({"replicaSet": about} if about else {}),
    }


def test_the_counts_are_those_of_the_sets():
    new, old = a_set("new", 3, has=2, available=1, ready=2), a_set("old", 2, terminating=1)

    found = say(a_deployment(4, generation=7), new, old)

    status = {name: value for name, value in found.status.items() if name != "conditions"}
    assert status == {
        "replicas": 4,
        "updatedReplicas": 2,
        "readyReplicas": 4,
        "availableReplicas": 3,
        "unavailableReplicas": 2,
        "terminatingReplicas": 1,
        "observedGeneration": 7,
        "collisionCount": None,
    }
    assert not found.is_complete


def test_it_is_available_while_no_more_are_missing_than_may_be():
    def available(count: int) -> tuple[str, str]:
        (condition,) = [
            each
            for each in say(a_deployment(4), a_set("new", 4, available=count)).status["conditions"]
            if each["type"] == "Available"
        ]
        return condition["status"], condition["reason"]

    assert available(3) == ("True", "MinimumReplicasAvailable")
    assert available(2) == ("False", "MinimumReplicasUnavailable")


def test_a_new_set_is_progress():
    found = say(a_deployment(), None, created="web-abc")

    assert progressing(found) == ("True", "NewReplicaSetCreated", 'Created new replica set "web-abc"')
    assert found.wake_at == NOON + timedelta(seconds=601)


def test_a_set_that_is_found_is_progress_and_so_is_one_that_was_not_the_new_one_before():
    expected = ("True", "FoundNewReplicaSet", 'Found new replica set "new"')
    assert progressing(say(a_deployment(), a_set("new", 0))) == expected
    late = a_condition("ProgressDeadlineExceeded", status="False", about="bad", updated=-900)
    undone = a_deployment(status={"conditions": [late]})
    assert not is_timed_out(undone, a_set("new"))
    assert progressing(say(undone, a_set("new", 0))) == expected


def test_which_set_a_condition_is_about_follows_from_its_field_and_not_from_its_words():
    late = {**a_condition("ProgressDeadlineExceeded", status="False", about="new"), "message": 'ReplicaSet "bad" is'}
    deployment = a_deployment(status={"conditions": [late]})

    assert is_timed_out(deployment, a_set("new"))
    assert not is_timed_out(deployment, a_set("bad"))


def test_of_what_version_0_1_said_only_that_a_rollout_is_late_is_found_out_again():
    def by_version_0_1(reason: str, status: str) -> Object:
        condition = a_condition(reason, status=status, about="new", updated=-900)
        del condition["replicaSet"]
        return a_deployment(status={"conditions": [condition]})

    late = by_version_0_1("ProgressDeadlineExceeded", "False")
    assert not is_timed_out(late, a_set("new"))
    assert progressing(say(late, a_set("new", 0))) == ("True", "FoundNewReplicaSet", 'Found new replica set "new"')
    done = by_version_0_1("NewReplicaSetAvailable", "True")
    (kept,) = [each for each in say(done, a_set("new", 3)).status["conditions"] if each["type"] == "Progressing"]
    assert [kept] == done["status"]["conditions"]


def test_progress_is_reported_each_time_something_moves():
    before = {"replicas": 3, "updatedReplicas": 1, "conditions": [a_condition("ReplicaSetUpdated")]}
    for moved in (
        (a_set("new", 2, available=0), a_set("old", 1, available=0)),  # More of the new.
        (a_set("new", 1, available=0), a_set("old", 1, available=0)),  # Fewer of the old.
        (a_set("new", 1, available=0, ready=1), a_set("old", 2, available=0)),
        (a_set("new", 1, available=1), a_set("old", 2, available=0)),
    ):
        found = say(a_deployment(status=before), *moved)

        assert progressing(found) == ("True", "ReplicaSetUpdated", 'ReplicaSet "new" is progressing.')
        (condition,) = [each for each in found.status["conditions"] if each["type"] == "Progressing"]
        assert (condition["lastUpdateTime"], condition["lastTransitionTime"]) == (at(0), at(-110))


def test_when_nothing_moves_it_is_late_after_the_deadline_and_not_before():
    before = {"replicas": 3, "updatedReplicas": 1, "conditions": [a_condition("ReplicaSetUpdated", updated=0)]}
    deployment = a_deployment(status=before)
    new, old = a_set("new", 1, available=0), a_set("old", 2, available=0)

    in_time = say(deployment, new, old, now=600)
    late = say(deployment, new, old, now=601)

    assert progressing(in_time) == ("True", "ReplicaSetUpdated", 'ReplicaSet "new" is progressing.')
    assert in_time.wake_at == NOON + timedelta(seconds=601)
    expected = ("False", "ProgressDeadlineExceeded", 'ReplicaSet "new" has timed out progressing.')
    assert progressing(late) == expected
    assert late.wake_at is None


def test_a_late_rollout_that_moves_again_is_not_late_any_more():
    late = a_condition("ProgressDeadlineExceeded", status="False", updated=-5)
    deployment = a_deployment(status={"replicas": 3, "updatedReplicas": 1, "conditions": [late]})

    moved = say(deployment, a_set("new", 2, available=0), a_set("old", 1, available=0))

    assert progressing(moved) == ("True", "ReplicaSetUpdated", 'ReplicaSet "new" is progressing.')


def test_a_rollout_that_is_done_is_never_late():
    new = a_set("new", 3)
    done = say(a_deployment(status={"conditions": [a_condition("ReplicaSetUpdated")]}), new)
    assert progressing(done) == ("True", "NewReplicaSetAvailable", 'ReplicaSet "new" has successfully progressed.')
    assert done.is_complete
    assert done.wake_at is None

    ill = say(a_deployment(status=done.status), a_set("new", 3, available=1), now=5000)
    assert progressing(ill) == progressing(done)


def test_a_pause_stops_the_deadline_and_resuming_restarts_it():
    status = {"replicas": 3, "updatedReplicas": 1, "conditions": [a_condition("ReplicaSetUpdated", updated=-500)]}
    new, old = a_set("new", 1, available=0), a_set("old", 2, available=0)

    paused = say(a_deployment(status=status, paused=True), new, old, now=500, is_rolling=False)
    assert progressing(paused) == ("Unknown", "DeploymentPaused", "Deployment is paused")
    assert paused.wake_at is None
    assert progressing(say(a_deployment(status=paused.status, paused=True), new, old, now=5000, is_rolling=False)) == (
        progressing(paused)
    )
    resumed = say(a_deployment(status=paused.status), new, old, now=9000)
    assert progressing(resumed) == ("Unknown", "DeploymentResumed", "Deployment is resumed")
    assert resumed.wake_at == NOON + timedelta(seconds=9601)


def test_one_that_was_late_when_it_was_paused_still_says_so():
    late = a_condition("ProgressDeadlineExceeded", status="False")

    found = say(a_deployment(status={"conditions": [late]}, paused=True), a_set("new", 1), is_rolling=False)

    assert [each for each in found.status["conditions"] if each["type"] == "Progressing"] == [late]


def test_without_a_deadline_nothing_is_said_about_progress():
    for deadline in (None, 2**31 - 1):
        status = {"conditions": [a_condition("ReplicaSetUpdated")]}

        found = say(a_deployment(status=status, progressDeadlineSeconds=deadline), a_set("new", 1))

        assert progressing(found) is None
        assert found.wake_at is None


def test_what_a_set_is_refused_the_deployment_says_too_and_the_new_sets_comes_first():
    def failure(message: str) -> Object:
        return {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}

    def failures(found: DeploymentStatus) -> list[str]:
        return [each["message"] for each in found.status["conditions"] if each["type"] == "ReplicaFailure"]

    new, old = a_set("new", 1, conditions=[failure("of the new")]), a_set("old", 1, conditions=[failure("of the old")])
    both = say(a_deployment(), new, old)
    assert failures(both) == ["of the new"]
    one = say(a_deployment(status=both.status), a_set("new", 1), old)
    assert failures(one) == ["of the old"]
    assert failures(say(a_deployment(status=one.status), a_set("new", 1))) == []


def test_to_say_the_same_again_changes_nothing():
    new = a_set("new", 3, available=1)
    first = say(a_deployment(status={}), new)
    second = say(a_deployment(status=first.status), new, now=100)

    assert second.status == first.status
