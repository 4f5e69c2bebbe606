"""What is decided about a Job, from plain objects; and what a failure leads to."""

import copy
from datetime import timedelta

import pytest

from mainstay.api import pod_state, times
from mainstay.api.annotations import JOB_TRACKING, REPLACES, SLOT, WITHDRAWN
from mainstay.api.kind import Propagation
from mainstay.api.kind_names import JOBS, PODS
from mainstay.api.object_key import ObjectKey
from mainstay.controllers.job.failure_policy import rule_for
from mainstay.controllers.job.failures import pause_after
from mainstay.controllers.job.pods import new_pod
from mainstay.controllers.pods.slots import Vacant
from mainstay.loop.decision import Create, Decision, Delete, Patch, WakeAt
from mainstay.loop.freshness import Freshness
from tests.controllers.job.job_model import CONTROLLER, KEY, Model, a_job, a_view
from tests.controllers.objects import NOON, Object, at

INDEX = "batch.kubernetes.io/job-completion-index"


def decide(job: Object | None, *pods: Object, now=NOON) -> Decision:
    return CONTROLLER.decide(a_view([] if job is None else [job], pods, now), KEY, None)


def a_pod_of(job: Object, slot: int = 0, *, phase: str = "Running", replaces: str = "", **metadata) -> Object:
    pod = new_pod(job, Vacant(slot, replaces))
    name = pod["metadata"]["name"]
    pod["metadata"].update({"uid": name, "creationTimestamp": at(-60), "resourceVersion": "5", **metadata})
    return {**pod, "spec": {**pod["spec"], "nodeName": "n1"}, "status": {"phase": phase}}


def test_a_new_job_gets_as_many_pods_as_may_run_at_once():
    job = a_job(completions=5, parallelism=2)

    decision = decide(job)

    assert decision.actions == (Create(PODS, new_pod(job, Vacant(0))), Create(PODS, new_pod(job, Vacant(1))))
    assert decision.at_once
    assert decision.status == {
        "startTime": at(0),
        "active": None,
        "ready": 0,
        "terminating": 0,
        "succeeded": None,
        "failed": None,
        "uncountedTerminatedPods": {},
    }


def test_a_pod_is_held_until_it_is_counted_and_named_after_whom_it_replaces():
    job = a_job()
    first, second = new_pod(job, Vacant(0)), new_pod(job, Vacant(0, "x"))

    assert first["metadata"]["finalizers"] == [JOB_TRACKING]
    assert first["metadata"]["name"].startswith("work-")
    assert first["metadata"]["name"] != second["metadata"]["name"]
    assert second["metadata"]["annotations"] == {SLOT: "0", REPLACES: "x"}
    assert new_pod(job, Vacant(0, "x")) == second
    assert new_pod(a_job(uid="another"), Vacant(0))["metadata"]["name"] != first["metadata"]["name"]


def test_the_pod_of_an_index_knows_its_index():
    pod = new_pod(a_job(completionMode="Indexed", completions=4), Vacant(3), failures=2)

    metadata = pod["metadata"]
    assert metadata["name"].startswith("work-3-")
    assert metadata["labels"][INDEX] == metadata["annotations"][INDEX] == "3"
    assert metadata["annotations"]["batch.kubernetes.io/job-index-failure-count"] == "2"
    assert pod["spec"]["hostname"] == "work-3"
    (variable,) = pod["spec"]["containers"][0]["env"]
    assert variable == {
        "name": "JOB_COMPLETION_INDEX",
        "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}},
    }


def test_a_long_name_is_cut_and_keeps_its_index():
    job = a_job("w" * 63, completionMode="Indexed", completions=200)

    pod = new_pod(job, Vacant(123))

    assert len(pod["metadata"]["name"]) == 63
    assert "-123-" in pod["metadata"]["name"]
    assert pod["spec"]["hostname"].endswith("-123")
    assert len(pod["spec"]["hostname"]) == 63


def test_a_pod_too_many_is_withdrawn_and_counts_as_nothing():
    model = Model(a_job(completions=4, parallelism=3))
    model.settle()
    model.change(parallelism=1)
    model.round()
    withdrawn = [pod for pod in model.pods.values() if WITHDRAWN in pod["metadata"]["annotations"]]

    assert len(withdrawn) == 2
    assert all(pod_state.is_leaving(pod) and not pod["metadata"]["finalizers"] for pod in withdrawn)
    model.run_to_the_end()
    model.check_counts()
    assert (model.status["succeeded"], model.status.get("failed")) == (4, None)


def test_a_withdrawal_is_refused_if_the_pod_has_changed_meanwhile():
    job = a_job(parallelism=0)
    pod = a_pod_of(job)

    patch, delete = decide(job, pod).actions

    assert isinstance(patch, Patch)
    assert patch.resource_version == "5"
    assert patch.body == {"metadata": {"finalizers": [], "annotations": {WITHDRAWN: "true"}}}
    assert isinstance(delete, Delete)


def test_a_suspended_job_has_no_pods_and_starts_again_when_it_is_resumed():
    model = Model(a_job(completions=2, parallelism=2, activeDeadlineSeconds=100))
    model.settle()
    model.now += timedelta(seconds=90)
    model.change(suspend=True)
    model.settle()
    assert model.active() == []
    assert model.conditions() == {"Suspended": "JobSuspended"}
    model.now += timedelta(seconds=90)
    model.settle()
    assert model.conditions() == {"Suspended": "JobSuspended"}

    model.change(suspend=False)
    model.settle()
    assert model.status["startTime"] == times.format_time(model.now)
    (suspended,) = [each for each in model.status["conditions"] if each["type"] == "Suspended"]
    assert (suspended["status"], suspended["reason"]) == ("False", "JobResumed")
    model.run_to_the_end()
    assert "Complete" in model.conditions()
    assert model.status.get("failed") is None


def test_a_job_made_suspended_has_not_started():
    decision = decide(a_job(suspend=True))

    assert decision.actions == ()
    assert decision.status["startTime"] is None


# Ends.


def test_too_many_failures_end_it_and_what_runs_then_has_failed_too():
    model = Model(a_job(completions=4, parallelism=2, backoffLimit=0))
    model.settle()
    first, _ = model.living()
    model.end(first, "Failed", 1)
    model.round()
    assert model.conditions() == {"FailureTarget": "BackoffLimitExceeded"}
    assert len(model.active()) == 1  # Nothing is taken away before it is written down why.
    model.settle()

    (left,) = model.living()
    assert pod_state.is_leaving(left)
    assert model.status["terminating"] == 1
    assert "Failed" not in model.conditions()  # One still runs.
    model.end(left, "Failed", 143)
    model.settle()
    assert model.conditions() == {"FailureTarget": "BackoffLimitExceeded", "Failed": "BackoffLimitExceeded"}
    assert model.status["failed"] == 2
    assert model.status.get("completionTime") is None


def test_a_deadline_ends_it_when_it_is_due():
    model = Model(a_job(activeDeadlineSeconds=60))
    model.settle()
    (pod,) = model.living()
    decision = decide(copy.deepcopy(model.job), copy.deepcopy(pod), now=model.now)
    assert decision.result == WakeAt(NOON + timedelta(seconds=60), "more can be done")

    model.now += timedelta(seconds=60)
    model.run_to_the_end("Failed")
    assert model.conditions()["Failed"] == "DeadlineExceeded"


def test_restarts_in_place_count_against_the_limit():
    model = Model(a_job(backoffLimit=2))
    assert model.job is not None
    model.job["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    model.settle()
    (pod,) = model.living()
    model._change(pod, {"status": {"phase": "Running", "containerStatuses": [{"restartCount": 1}]}})
    model.settle()
    assert model.conditions() == {}
    (pod,) = model.living()
    model._change(pod, {"status": {"containerStatuses": [{"restartCount": 2}]}})
    model.settle()
    assert model.conditions() == {"FailureTarget": "BackoffLimitExceeded"}


def test_after_a_failure_it_waits_twice_as_long_each_time():
    model = Model(a_job(backoffLimit=10))
    waits = []
    for _ in range(4):
        model.settle()
        (pod,) = model.living()
        model.end(pod, "Failed", 1)
        since = model.now
        model.settle()
        while not model.living():
            model.now += timedelta(seconds=1)
            model.settle()
        waits.append((model.now - since).total_seconds())

    assert waits == [10, 20, 40, 80]
    assert pause_after(50) == timedelta(minutes=10)


def test_without_a_number_of_completions_one_success_is_enough_and_the_others_may_end():
    model = Model(a_job(completions=None, parallelism=3))
    model.settle()
    first, *others = model.living()
    model.end(first, "Succeeded")
    model.settle()
    assert len(model.living()) == 2
    assert model.conditions() == {}
    for pod in others:
        model.end(pod, "Succeeded")
    model.settle()
    assert model.conditions()["Complete"] == "CompletionsReached"
    assert model.status["succeeded"] == 3


def test_a_success_policy_ends_it_early_and_the_rest_is_not_counted():
    policy = {"rules": [{"succeededIndexes": "0"}]}
    model = Model(a_job(completions=3, parallelism=3, completionMode="Indexed", successPolicy=policy))
    model.settle()
    leader = next(pod for pod in model.living() if pod["metadata"]["labels"][INDEX] == "0")
    model.end(leader, "Succeeded")
    model.settle()
    assert model.conditions() == {"SuccessCriteriaMet": "SuccessPolicy"}
    for pod in model.living():
        model.end(pod, "Failed", 143)
    model.settle()
    assert model.conditions()["Complete"] == "SuccessPolicy"
    assert (model.status["completedIndexes"], model.status["succeeded"], model.status.get("failed")) == ("0", 1, None)


def test_an_index_fails_by_itself_and_the_others_go_on():
    model = Model(
        a_job(
            completions=2,
            parallelism=2,
            completionMode="Indexed",
            backoffLimit=2**31 - 1,
            backoffLimitPerIndex=1,
        )
    )
    for _ in range(20):
        model.settle()
        for pod in model.living():
            model.end(pod, "Failed" if pod["metadata"]["labels"][INDEX] == "0" else "Succeeded", 1)
        model.now += timedelta(minutes=1)
    model.settle()

    assert model.status["failedIndexes"] == "0"
    assert model.status["completedIndexes"] == "1"
    assert model.status["failed"] == 2
    assert model.conditions()["Failed"] == "FailedIndexes"
    assert model.held() == []
    model.check_counts()


def test_more_failed_indexes_than_allowed_end_it():
    model = Model(
        a_job(
            completions=5,
            parallelism=5,
            completionMode="Indexed",
            backoffLimit=2**31 - 1,
            backoffLimitPerIndex=0,
            maxFailedIndexes=1,
        )
    )
    model.settle()
    for pod in model.living()[:2]:
        model.end(pod, "Failed", 1)
    model.run_to_the_end("Failed")

    assert model.conditions()["Failed"] == "MaxFailedIndexesExceeded"
    model.check_counts()


def test_fewer_completions_of_an_indexed_job_drop_the_indexes_above():
    model = Model(a_job(completions=4, parallelism=4, completionMode="Indexed"))
    model.settle()
    for pod in model.living():
        if pod["metadata"]["labels"][INDEX] in ("0", "3"):
            model.end(pod, "Succeeded")
    model.settle()
    assert model.status["completedIndexes"] == "0,3"
    model.change(completions=2, parallelism=2)
    model.settle()

    assert model.status["completedIndexes"] == "0"
    assert [pod["metadata"]["labels"][INDEX] for pod in model.active()] == ["1"]


def test_with_the_policy_failed_a_pod_that_leaves_is_replaced_only_when_it_has_ended():
    model = Model(a_job(podReplacementPolicy="Failed"))
    model.settle()
    (pod,) = model.living()
    model.leave(pod)
    model.settle()
    assert len(model.made) == 1
    assert model.status.get("failed") is None
    assert model.status["terminating"] == 1

    model.end(model.pods[pod["metadata"]["name"]], "Failed", 143)
    model.settle()
    model.now += timedelta(seconds=10)
    model.settle()
    assert len(model.made) == 2
    assert model.status["failed"] == 1


def test_a_pod_that_was_removed_by_force_is_not_waited_for():
    job = a_job(podReplacementPolicy="Failed")
    pod = a_pod_of(job, deletionTimestamp=at(0), deletionGracePeriodSeconds=0)

    decision = decide(job, pod)

    assert decision.status["uncountedTerminatedPods"] == {"failed": [pod["metadata"]["uid"]]}


# Failure policies.

EXIT_42 = {"phase": "Failed", "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 42}}}]}
DISRUPTED = {"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True"}]}


def a_rule(action: str, operator: str = "", values: tuple[int, ...] = (), container: str = "") -> Object:
    if not operator:
        return {"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(values), "containerName": container}}


@pytest.mark.parametrize(
    ("rules", "status", "action"),
    [
        ([a_rule("FailJob", "In", (42,))], EXIT_42, "FailJob"),
        ([a_rule("FailJob", "In", (1, 2))], EXIT_42, None),
        ([a_rule("Count", "NotIn", (1, 2))], EXIT_42, "Count"),
        ([a_rule("FailJob", "NotIn", (42,))], EXIT_42, None),
        ([a_rule("FailJob", "In", (42,), "main")], EXIT_42, "FailJob"),
        ([a_rule("FailJob", "In", (42,), "other")], EXIT_42, None),
        ([a_rule("Ignore")], DISRUPTED, "Ignore"),
        ([a_rule("Ignore")], EXIT_42, None),
        ([a_rule("Ignore"), a_rule("FailJob", "In", (42,))], {**EXIT_42, **DISRUPTED}, "Ignore"),
        ([a_rule("FailJob", "In", (42,))], {**EXIT_42, "phase": "Running"}, None),
        ([a_rule("FailIndex", "In", (42,)), a_rule("Count", "In", (42,))], EXIT_42, "Count"),
    ],
)
def test_the_first_rule_that_fits_decides(rules, status, action):
    job = a_job(podFailurePolicy={"rules": rules})
    rule = rule_for(job, {"metadata": {"name": "p", "namespace": "default"}, "status": status})

    assert (None if rule is None else rule.action) == action


def test_a_rule_may_fail_the_whole_job_at_once():
    model = Model(a_job(completions=3, parallelism=2, podFailurePolicy={"rules": [a_rule("FailJob", "In", (42,))]}))
    model.settle()
    model.end(model.living()[0], "Failed", 42)
    model.run_to_the_end("Failed", 143)

    assert model.conditions()["Failed"] == "PodFailurePolicy"
    (target,) = [each for each in model.status["conditions"] if each["type"] == "Failed"]
    assert target["message"].endswith("failed with exit code 42 matching FailJob rule at index 0")
    model.check_counts()


def test_what_a_rule_ignores_is_replaced_and_not_counted():
    model = Model(a_job(backoffLimit=0, podFailurePolicy={"rules": [a_rule("Ignore", "In", (42,))]}))
    for _ in range(3):
        model.settle()
        (pod,) = model.living()
        model.end(pod, "Failed", 42)
        model.now += timedelta(minutes=10)
    model.run_to_the_end()

    assert "Complete" in model.conditions()
    assert (model.status["succeeded"], model.status.get("failed")) == (1, None)
    assert model.held() == []


def test_a_rule_may_give_up_an_index():
    rules = {"rules": [a_rule("FailIndex", "In", (42,))]}
    model = Model(
        a_job(
            completions=2,
            parallelism=2,
            completionMode="Indexed",
            backoffLimit=2**31 - 1,
            backoffLimitPerIndex=5,
            podFailurePolicy=rules,
        )
    )
    model.settle()
    model.end(next(pod for pod in model.living() if pod["metadata"]["labels"][INDEX] == "1"), "Failed", 42)
    model.run_to_the_end()

    assert model.status["failedIndexes"] == "1"
    assert model.conditions()["Failed"] == "FailedIndexes"
    model.check_counts()


# Before and after.


def test_a_finished_job_goes_when_its_time_after_the_end_is_over():
    ended = {"type": "Complete", "status": "True", "lastTransitionTime": at(-50)}
    job = a_job(ttlSecondsAfterFinished=60, status={"conditions": [ended]})

    early, late = decide(job), decide(job, now=NOON + timedelta(seconds=10))

    assert early.actions == ()
    assert isinstance(early.result, WakeAt)
    assert early.result.at == NOON + timedelta(seconds=10)
    assert late.actions == (Delete(JOBS, KEY, "work", Propagation.FOREGROUND, "1", freshness=Freshness.SEEN_VERSION),)


def test_a_job_that_is_to_go_after_its_end_is_looked_at_again_when_it_ends():
    # Its own last write enqueues no key.
    job = a_job(completions=0, ttlSecondsAfterFinished=60)

    decision = decide(job)

    assert [each.type for each in decision.conditions] == ["SuccessCriteriaMet", "Complete"]
    assert decision.result == WakeAt(NOON, "more can be done")


def test_a_pod_that_comes_after_the_end_is_withdrawn():
    ended = {"type": "Complete", "status": "True", "lastTransitionTime": at(-50)}
    job = a_job(status={"conditions": [ended], "succeeded": 1})
    decision = decide(job, a_pod_of(job))

    patch, delete = decision.actions
    assert isinstance(patch, Patch)
    assert isinstance(delete, Delete)
    assert decision.status == {}


@pytest.mark.parametrize("phase", ["Running", "Succeeded"])
def test_pods_of_a_job_that_is_gone_or_going_are_let_go(phase):
    job = a_job()
    pod = a_pod_of(job, phase=phase)
    leaving = copy.deepcopy(job)
    leaving["metadata"]["deletionTimestamp"] = at(0)
    another = a_job(uid="another", parallelism=0)

    for each in (None, leaving, another):
        (patch,) = decide(each, pod).actions
        assert isinstance(patch, Patch)
        assert patch.body == {"metadata": {"finalizers": []}}


def test_a_pod_that_was_orphaned_is_let_go_when_its_job_is_gone():
    pod = a_pod_of(a_job())
    del pod["metadata"]["ownerReferences"]

    (patch,) = decide(None, pod).actions

    assert isinstance(patch, Patch)
    assert patch.body == {"metadata": {"finalizers": []}}


def test_an_orphan_that_matches_is_taken_over_and_held():
    job = a_job(manualSelector=True)
    pod = a_pod_of(job)
    pod["metadata"].update(ownerReferences=[], finalizers=["example.com/holds"])

    (patch,) = decide(job, pod).actions

    assert isinstance(patch, Patch)
    assert patch.body["metadata"]["finalizers"] == ["example.com/holds", JOB_TRACKING]
    assert patch.body["metadata"]["ownerReferences"][0]["uid"] == "work"


def test_a_job_that_another_controller_manages_is_left_alone():
    assert decide(a_job(managedBy="example.com/queue")) == Decision()


def test_other_finalizers_stay():
    job = a_job(status={"uncountedTerminatedPods": {"succeeded": ["p"]}})
    pod = a_pod_of(job, phase="Succeeded", uid="p", finalizers=["a.b/c", JOB_TRACKING])

    (patch,) = [each for each in decide(job, pod).actions if isinstance(each, Patch)]

    assert patch.body == {"metadata": {"finalizers": ["a.b/c"]}}
    assert patch.key == ObjectKey("default", pod["metadata"]["name"])
