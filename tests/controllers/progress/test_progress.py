"""How far a workload has come, and what limits it."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.api.kind_names import DEPLOYMENTS, JOBS, PODS, REPLICASETS
from mainstay.api.merge_patch import merge_patch
from mainstay.api.object_key import ObjectKey
from mainstay.api.progress import (
    ActionOutcome,
    Deadline,
    DeadlineState,
    Error,
    PendingReason,
    Progress,
    ProgressAction,
    ProgressLimit,
    ProgressVerdict,
    read_progress,
)
from mainstay.controllers.progress.controller import (
    DEPLOYMENT_PROGRESS,
    EVERY,
    JOB_PROGRESS,
    REPLICASET_PROGRESS,
    Due,
    difference,
    of_deployment,
    of_job,
    of_set,
)
from mainstay.loop.decision import Decision, Patch, WakeAt
from mainstay.loop.freshness import Freshness
from mainstay.loop.view import View
from tests.controllers.objects import NOON, a_deployment, a_reference, a_set, at

Object = dict[str, Any]

FULL = "0/3 nodes are available: 3 Insufficient cpu."
NONE = Deadline(DeadlineState.NONE)


def a_pod(
    name: str,
    stage: str = "ready",
    *,
    owner: str = "set",
    waiting: str = "",
    gates: bool = False,
    refused: str = "",
    served: str = "",
    leaving: bool = False,
    phase: str = "Running",
) -> Object:
    """A pod that has got as far as a stage."""
    order = ["queued", "scheduled", "bound", "starting", "ready", "serving"]
    far = order.index(stage)
    conditions = []
    if far >= 2:
        conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": at(-50)})
    elif refused:
        conditions.append({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": refused})
    if far >= 3:
        ready = {"type": "Ready", "status": str(far >= 4), "reason": "" if far >= 4 else "ContainersNotReady"}
        conditions.append({**ready, "lastTransitionTime": at(-40)})
    if served or far == 5:
        told = {"reason": "NotInSlice", "message": "no slice", "lastTransitionTime": at(-30)}
        conditions.append({"type": "mainstay.dev/Serving", "status": served or "True", **told})
    status: Object = {"phase": phase, "conditions": conditions}
    if stage == "scheduled":
        status["nominatedNodeName"] = "n9"
    if far >= 3:
        status["startTime"] = at(-45)
    if waiting:
        status["containerStatuses"] = [{"state": {"waiting": {"reason": waiting, "message": "it does not run"}}}]
    metadata: Object = {"name": name, "namespace": "default", "uid": name, "creationTimestamp": at(-60)}
    metadata["ownerReferences"] = [a_reference("ReplicaSet", owner)]
    if leaving:
        metadata |= {"deletionTimestamp": at(20), "deletionGracePeriodSeconds": 30}
    spec: Object = {"nodeName": "n1"} if far >= 2 else {}
    if gates:
        spec["schedulingGates"] = [{"name": "example.com/paid"}]
    return {"metadata": metadata, "spec": spec, "status": status}


def said(workload: Object, progress: Progress) -> Object:
    return {**workload, "status": {**workload.get("status", {}), "progress": progress.as_object()}}


def test_a_set_counts_its_pods_by_how_far_they_are():
    pods = [
        a_pod("a", "queued", refused=FULL),
        a_pod("b", "queued", refused=FULL),
        a_pod("c", "queued"),
        a_pod("d", "bound"),
        a_pod("e", "starting"),
        a_pod("f", "ready"),
        a_pod("g", "serving"),
        a_pod("h", "ready", leaving=True),
        a_pod("i", "ready", phase="Failed"),
    ]

    assert of_set(a_set(replicas=8, generation=4), pods, NOON) == Progress(
        observed_generation=4,
        desired=8,
        admitted=7,
        pending=3,
        bound=4,
        starting=2,
        ready=2,
        serving=1,
        pending_reasons=(PendingReason("Unschedulable", 2, FULL), PendingReason("Queued", 1)),
        last_action=ProgressAction("DrainPod", ActionOutcome.REQUESTED, "h", at(-10)),
        last_error=Error("Unschedulable", FULL, at(0)),
        deadline=NONE,
        limited_by=ProgressLimit("scheduled", "scheduler", "Unschedulable", 3, FULL),
        verdict=ProgressVerdict.WAITING,
    )


FAILED = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}
QUOTA = {**FAILED, "message": "no room in small", "cause": "QuotaExceeded"}
REFUSED = {**FAILED, "message": "spec is invalid", "cause": "Invalid"}
BY_VERSION_0_1 = {**FAILED, "message": "exceeded quota: small"}  # Without a cause, that it was the quota is not known.


@pytest.mark.parametrize(
    ("pods", "conditions", "limit", "verdict"),
    [
        ([a_pod("a"), a_pod("b")], [], None, "complete"),
        ([a_pod("a", "serving"), a_pod("b", "serving")], [], None, "complete"),
        ([a_pod("a"), a_pod("b"), a_pod("c")], [], None, "progressing"),  # One too many, about to go.
        ([a_pod("a")], [], ("admitted", "replicaset", "Creating", 1), "progressing"),
        ([a_pod("a")], [QUOTA], ("admitted", "server", "QuotaExceeded", 1), "waiting"),
        ([a_pod("a")], [REFUSED], ("admitted", "server", "FailedCreate", 1), "stuck"),
        ([a_pod("a")], [BY_VERSION_0_1], ("admitted", "server", "FailedCreate", 1), "stuck"),
        ([a_pod("a", "queued"), a_pod("b")], [], ("scheduled", "scheduler", "Queued", 1), "progressing"),
        ([a_pod("a", "queued", gates=True), a_pod("b")], [], ("queued", "gates", "SchedulingGated", 1), "waiting"),
        ([a_pod("a", "scheduled"), a_pod("b")], [], ("bound", "scheduler", "MakingRoom", 1), "progressing"),
        ([a_pod("a", "bound"), a_pod("b")], [], ("starting", "agent", "NotTakenOn", 1), "progressing"),
        ([a_pod("a", "starting"), a_pod("b")], [], ("ready", "agent", "ContainersNotReady", 1), "progressing"),
        (
            [a_pod("a", "starting", waiting="ContainerCreating"), a_pod("b", "starting", waiting="CrashLoopBackOff")],
            [],
            ("ready", "agent", "CrashLoopBackOff", 2),
            "stuck",
        ),
        ([a_pod("a", served="False"), a_pod("b")], [], ("serving", "endpoint-slice", "NotInSlice", 1), "waiting"),
        # Most stand before a later one; of as many, the earlier counts.
        ([a_pod("a", "queued"), a_pod("b", "starting")], [], ("scheduled", "scheduler", "Queued", 1), "progressing"),
    ],
)
def test_what_limits_a_set_of_two_and_what_to_make_of_it(pods, conditions, limit, verdict):
    found = of_set(a_set(replicas=2, conditions=conditions), pods, NOON)

    assert found.verdict == verdict
    by = found.limited_by
    assert (None if by is None else (by.stage, by.component, by.reason, by.count)) == limit


def test_what_was_drained_is_remembered_as_done_and_the_last_error_stays():
    first = of_set(a_set(replicas=1), [a_pod("a", "queued", refused=FULL), a_pod("b", leaving=True)], NOON)
    later = NOON + timedelta(minutes=1)

    second = of_set(said(a_set(replicas=1), first), [a_pod("a")], later)

    assert second.last_action == ProgressAction("DrainPod", ActionOutcome.COMPLETED, "b", at(-10))
    assert second.last_error == Error("Unschedulable", FULL, at(0))
    assert second.verdict is ProgressVerdict.COMPLETE
    assert of_set(said(a_set(replicas=1), second), [a_pod("a")], later + timedelta(hours=1)) == second


# Deployments


def a_done_status(replicas: int, *conditions: Object) -> Object:
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), replicas)
    return {**counts, "observedGeneration": 1, "conditions": list(conditions)}


def progressing(status: str, reason: str, message: str = "") -> Object:
    return {"type": "Progressing", "status": status, "reason": reason, "message": message, "lastUpdateTime": at(-5)}


def judged_set(name: str, replicas: int, pods: list[Object]) -> Object:
    found = a_set(name, replicas, owner="web")
    return said(found, of_set(found, pods, NOON))


def test_a_deployment_adds_up_what_its_sets_say():
    old = judged_set("old", 2, [a_pod("a", "serving"), a_pod("b", "serving")])
    new = judged_set("new", 2, [a_pod("c", "starting", waiting="CrashLoopBackOff"), a_pod("d", "queued", refused=FULL)])
    status = {**a_done_status(4, progressing("True", "ReplicaSetUpdated")), "updatedReplicas": 2}

    found = of_deployment(a_deployment(3, status=status), [old, new], NOON)

    assert (found.desired, found.admitted, found.pending, found.bound) == (3, 4, 1, 3)
    assert (found.starting, found.ready, found.serving) == (1, 2, 2)
    assert found.limited_by == ProgressLimit("scheduled", "scheduler", "Unschedulable", 1, FULL)
    assert found.verdict is ProgressVerdict.WAITING
    assert found.deadline == Deadline(DeadlineState.RUNNING, at(595))
    assert found.last_action == ProgressAction("CreatePod", ActionOutcome.COMPLETED, "d", at(-60))


def test_a_deployment_is_not_complete_while_its_sets_say_otherwise():
    done = a_deployment(1, status=a_done_status(1))
    old, new = judged_set("old", 0, [a_pod("a")]), judged_set("new", 1, [a_pod("b")])

    assert of_deployment(done, [new], NOON).verdict is ProgressVerdict.COMPLETE
    assert of_deployment(done, [old, new], NOON).verdict is ProgressVerdict.PROGRESSING


def test_of_what_was_done_in_the_same_second_the_pod_comes_after_its_set():
    new = judged_set("new", 1, [a_pod("c")])
    new["metadata"]["creationTimestamp"] = at(-60)  # As the pod.

    found = of_deployment(a_deployment(1, status=a_done_status(1)), [new], NOON)

    assert found.last_action == ProgressAction("CreatePod", ActionOutcome.COMPLETED, "c", at(-60))


@pytest.mark.parametrize(
    ("spec", "status", "limit", "verdict", "deadline"),
    [
        ({}, a_done_status(2, progressing("True", "NewReplicaSetAvailable")), None, "complete", NONE),
        (
            {},
            {**a_done_status(2, progressing("True", "ReplicaSetUpdated")), "updatedReplicas": 1},
            ("admitted", "deployment", "RollingOut", 1),
            "progressing",
            Deadline(DeadlineState.RUNNING, at(595)),
        ),
        (
            {"paused": True},
            {**a_done_status(2), "updatedReplicas": 1},
            ("admitted", "deployment", "Paused", 1),
            "waiting",
            NONE,
        ),
        (
            {},
            {**a_done_status(2, progressing("False", "ProgressDeadlineExceeded")), "updatedReplicas": 1},
            ("admitted", "deployment", "RollingOut", 1),
            "failed",
            Deadline(DeadlineState.PASSED),
        ),
        ({}, {**a_done_status(2), "observedGeneration": 0}, None, "progressing", NONE),
    ],
)
def test_what_to_make_of_a_deployment_whose_pods_are_well(spec, status, limit, verdict, deadline):
    sets = [judged_set("old", 2, [a_pod("a"), a_pod("b")])]

    found = of_deployment(a_deployment(2, status=status, **spec), sets, NOON)

    by = found.limited_by
    assert (None if by is None else (by.stage, by.component, by.reason, by.count)) == limit
    assert (found.verdict, found.deadline) == (verdict, deadline)


def test_a_set_that_may_not_be_made_is_the_error():
    failed = progressing("False", "ReplicaSetCreateError", "it is forbidden")

    found = of_deployment(a_deployment(2, status=a_done_status(0, failed)), [], NOON)

    assert (found.verdict, found.last_error) == (
        ProgressVerdict.FAILED,
        Error("ReplicaSetCreateError", "it is forbidden"),
    )


# Jobs


def a_job(status: Object | None = None, *conditions: Object, **spec: Any) -> Object:
    metadata = {"name": "work", "namespace": "default", "uid": "work", "generation": 1}
    found = {"startTime": at(-60), "conditions": list(conditions), **(status or {})}
    return {"metadata": metadata, "spec": {"completions": 4, "parallelism": 2, **spec}, "status": found}


def holding(name: str, reason: str = "") -> Object:
    return {"type": name, "status": "True", "reason": reason, "message": "why", "lastTransitionTime": at(-1)}


@pytest.mark.parametrize(
    ("job", "pods", "limit", "verdict"),
    [
        (a_job({"succeeded": 1}), [a_pod("a"), a_pod("b")], None, "progressing"),
        (a_job({"succeeded": 3}), [a_pod("a")], None, "progressing"),
        (a_job({"succeeded": 1}), [a_pod("a")], ("admitted", "job", "Creating", 1), "progressing"),
        (
            a_job(),
            [a_pod("a"), a_pod("b", "queued", refused=FULL)],
            ("scheduled", "scheduler", "Unschedulable", 1),
            "waiting",
        ),
        (a_job(suspend=True), [], ("admitted", "job", "Suspended", 4), "waiting"),
        (a_job({"succeeded": 4}, holding("Complete")), [], None, "complete"),
        (a_job(None, holding("Failed", "BackoffLimitExceeded")), [], None, "failed"),
    ],
)
def test_what_limits_a_job(job, pods, limit, verdict):
    found = of_job(job, pods, NOON)

    by = found.limited_by
    assert (None if by is None else (by.stage, by.component, by.reason, by.count)) == limit
    assert found.verdict == verdict


def test_a_job_says_how_many_have_succeeded_when_it_must_be_done_and_why_it_failed():
    running = of_job(a_job({"succeeded": 2}, activeDeadlineSeconds=100), [], NOON)
    late = of_job(a_job(None, holding("Failed", "DeadlineExceeded"), activeDeadlineSeconds=10), [], NOON)

    assert (running.desired, running.succeeded) == (4, 2)
    assert running.deadline == Deadline(DeadlineState.RUNNING, at(40))
    assert late.deadline == Deadline(DeadlineState.PASSED)
    assert late.last_error == Error("DeadlineExceeded", "why", at(-1))


# Writing it down

KEY = ObjectKey("default", "set")
NOW = Due(NOON)


def decide(replica_set: Object, pods: list[Object], memory: Due | None = NOW) -> Decision:
    controller = REPLICASET_PROGRESS
    indexes = {PODS: controller.reads[0].indexes}
    return controller.decide(View.of({REPLICASETS: [replica_set], PODS: pods}, NOON, indexes=indexes), KEY, memory)


def test_only_what_differs_of_its_own_field_is_written_and_what_is_not_so_any_more_is_removed():
    pods = [a_pod("a"), a_pod("b")]
    before = said(a_set(replicas=2), of_set(a_set(replicas=2), [a_pod("a"), a_pod("b", "starting")], NOON))

    (action,) = decide(before, pods).actions

    body = {"progress": {"starting": 0, "ready": 2, "limitedBy": None, "verdict": "complete"}}
    assert action == Patch(REPLICASETS, KEY, "set", {"status": body}, "status", freshness=Freshness.MAY_BE_STALE)


def test_when_all_is_said_nothing_is_written():
    pods = [a_pod("a"), a_pod("b")]
    there = said(a_set(replicas=2), of_set(a_set(replicas=2), pods, NOON))

    assert decide(there, pods) == Decision()


def test_however_often_it_changes_it_is_looked_at_once_in_a_while():
    first = decide(a_set(replicas=2), [], None)
    soon = Due(NOON + EVERY / 4)

    assert first == Decision(result=WakeAt(NOON + EVERY, "rate limited"), memory=Due(NOON + EVERY))
    assert decide(a_set(replicas=2), [], soon) == Decision(result=WakeAt(soon.at, "rate limited"), memory=soon)
    assert decide(a_set(replicas=2), [], Due(NOON - EVERY)).actions


def test_a_clock_that_has_gone_back_does_not_put_off_a_record():
    later = Due(NOON + EVERY * 100)

    assert decide(a_set(replicas=2), [], later).memory == Due(NOON + EVERY)


def test_one_that_is_deleted_is_not_judged_any_more():
    leaving = a_set(replicas=2)
    leaving["metadata"]["deletionTimestamp"] = at(0)

    assert decide(leaving, []) == Decision()


def test_each_reads_what_it_is_judged_by():
    deployment, job = a_deployment(2), a_job()
    for controller, workload, kind, of in (
        (DEPLOYMENT_PROGRESS, deployment, DEPLOYMENTS, REPLICASETS),
        (JOB_PROGRESS, job, JOBS, PODS),
    ):
        view = View.of({kind: [workload], of: []}, NOON, indexes={of: controller.reads[0].indexes})
        key = ObjectKey("default", workload["metadata"]["name"])
        (action,) = controller.decide(view, key, NOW).actions
        assert isinstance(action, Patch)
        assert action.body["status"]["progress"]["admitted"] == 0


def test_what_is_written_can_be_read_again_and_what_cannot_be_is_nothing():
    found = of_set(a_set(replicas=2), [a_pod("a", "queued", refused=FULL), a_pod("b", leaving=True)], NOON)

    assert read_progress(said(a_set(), found)) == found
    assert read_progress({"status": {"progress": {"desired": "many"}}}) is None
    assert read_progress({}) is None


STAGES = st.sampled_from(["queued", "scheduled", "bound", "starting", "ready", "serving"])
SOME_PODS = st.lists(st.tuples(STAGES, st.booleans(), st.sampled_from(["", FULL])), max_size=8)


def some_pods(given) -> list[Object]:
    return [
        a_pod(f"p{n}", stage, leaving=leaving, refused=refused) for n, (stage, leaving, refused) in enumerate(given)
    ]


@given(SOME_PODS, SOME_PODS, st.integers(0, 6))
def test_the_counts_add_up_and_the_patch_leads_there_and_saying_it_again_changes_nothing(first, second, replicas):
    bare = a_set(replicas=replicas)
    before = of_set(bare, some_pods(first), NOON)
    after = of_set(said(bare, before), some_pods(second), NOON + timedelta(seconds=5))

    assert after.pending + after.bound == after.admitted
    assert after.starting + after.ready == after.bound
    assert after.serving <= after.ready
    assert sum(each.count for each in after.pending_reasons) == after.pending
    assert (after.verdict is ProgressVerdict.COMPLETE) <= (after.ready == after.desired)
    assert merge_patch(before.as_object(), difference(before.as_object(), after.as_object())) == after.as_object()
    assert of_set(said(bare, after), some_pods(second), NOON + timedelta(hours=5)) == after
