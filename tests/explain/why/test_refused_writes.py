"""What a refused write comes to follows from its code. What it says in words is for people."""

import pytest

from mainstay.api.kind_names import (
    DEPLOYMENTS,
    JOBS,
    RESOURCE_QUOTAS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from mainstay.explain.why.answer import Verdict
from mainstay.explain.why.causes import Cause
from mainstay.explain.why.changes import cause_of_refusal
from mainstay.explain.why.refusals import refusal_cause
from mainstay.journal.record import DecisionRecord, Ending, Outcome, Subject, WriteResult
from mainstay.sim.simulation import Simulation
from tests.explain.why.asked import a_cluster, a_deployment, a_job, asked, rest

SUBJECT = Subject("deployments.apps", "default", "web")
MISLEADING = "exceeded quota: x, namespaces not found, is invalid, cannot create resource, being terminated"


@pytest.mark.parametrize(
    ("code", "cause", "verdict"),
    [
        ("QuotaExceeded", Cause.QUOTA_EXCEEDED, Verdict.WAITING),
        ("QuotaAmountMissing", Cause.ADMISSION_REFUSED, Verdict.BLOCKED),
        ("NamespaceTerminating", Cause.NAMESPACE_TERMINATING, Verdict.BLOCKED),
        ("NamespaceNotFound", Cause.NAMESPACE_MISSING, Verdict.BLOCKED),
        ("PriorityClassNotFound", Cause.ADMISSION_REFUSED, Verdict.BLOCKED),
        ("ServiceAccountNotFound", Cause.ADMISSION_REFUSED, Verdict.BLOCKED),
        ("Invalid", Cause.INVALID, Verdict.BLOCKED),
        ("Forbidden", Cause.FORBIDDEN, Verdict.BLOCKED),
        ("", Cause.ADMISSION_REFUSED, Verdict.BLOCKED),
    ],
)
def test_each_code_has_its_cause(code: str, cause: Cause, verdict: Verdict):
    assert refusal_cause(code) == (cause, verdict)


def a_refusal(reason: str, *writes: WriteResult) -> DecisionRecord:
    return DecisionRecord(
        "a-1", 0, "admission", "", SUBJECT, Outcome(Ending.REFUSED, reason, MISLEADING), writes=writes
    )


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("Invalid", Cause.INVALID),
        ("NamespaceTerminating", Cause.NAMESPACE_TERMINATING),
        ("QuotaExceeded", Cause.ADMISSION_REFUSED),  # A quota with no room, or a pod that does not say what it needs.
        ("Forbidden", Cause.ADMISSION_REFUSED),  # What a user has no right to was never recorded.
    ],
)
def test_a_record_of_version_0_1_is_not_read_for_more_than_its_reason_says(reason: str, cause: Cause):
    before = WriteResult("deployments.apps", "default", "web", error="Forbidden")
    assert cause_of_refusal(a_refusal(reason, before))[0] is cause
    assert cause_of_refusal(a_refusal(reason))[0] is cause


def test_a_record_with_a_code_is_read_by_it():
    write = WriteResult("deployments.apps", "default", "web", error="Forbidden", cause="QuotaExceeded", quota="q")
    assert cause_of_refusal(a_refusal("QuotaExceeded", write)) == (Cause.QUOTA_EXCEEDED, Verdict.WAITING)


async def test_a_quota_that_wants_to_know_what_a_pod_needs_is_not_called_used_up(sim: Simulation):
    quota = {"metadata": {"name": "compute"}, "spec": {"hard": {"limits.memory": "9Gi"}}}
    async with a_cluster(sim) as cluster:
        await cluster.client.create(RESOURCE_QUOTAS, quota, "default")
        await cluster.client.create(DEPLOYMENTS, a_deployment("web", 1))
        await rest(15)
        answer = await asked(cluster, DEPLOYMENTS, "web")
        deployment = await cluster.client.get(DEPLOYMENTS, "web", "default")

    assert (answer.cause, answer.verdict) == (Cause.ADMISSION_REFUSED, Verdict.BLOCKED)
    assert "must specify limits.memory for: main" in answer.sentence
    assert deployment["status"]["progress"]["verdict"] == "stuck"


@pytest.mark.parametrize("message", ["", "no pods here"])
async def test_a_policy_that_denies_pods_is_named_with_its_expression(sim: Simulation, message: str):
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    validation = {"expression": "object.spec.containers.size() > 5", **({"message": message} if message else {})}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [validation]}
    binding = {"policyName": "large-pods", "validationActions": ["Deny"]}
    async with a_cluster(sim) as cluster:
        await cluster.client.create(VALIDATING_ADMISSION_POLICIES, {"metadata": {"name": "large-pods"}, "spec": spec})
        await cluster.client.create(
            VALIDATING_ADMISSION_POLICY_BINDINGS, {"metadata": {"name": "everywhere"}, "spec": binding}
        )
        await cluster.client.create(DEPLOYMENTS, a_deployment("web", 1))
        await rest(15)
        answer = await asked(cluster, DEPLOYMENTS, "web")

    assert (answer.cause, answer.verdict) == (Cause.ADMISSION_REFUSED, Verdict.BLOCKED)
    assert "ValidatingAdmissionPolicy 'large-pods' with binding 'everywhere' denied request" in answer.sentence
    assert "object.spec.containers.size() > 5" in answer.sentence


async def test_a_job_whose_quota_is_used_up_names_it_and_then_that_it_has_room(sim: Simulation):
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "0"}}}
    async with a_cluster(sim) as cluster:
        await cluster.client.create(RESOURCE_QUOTAS, quota, "default")
        await cluster.client.create(JOBS, a_job("backup"))
        await rest(15)
        full = await asked(cluster, JOBS, "backup")
        cluster.world.programs["controllers-1"].pause()
        await cluster.client.patch(RESOURCE_QUOTAS, "small", "default", {"spec": {"hard": {"pods": "5"}}})
        await rest(1)
        freed = await asked(cluster, JOBS, "backup")

    assert (full.cause, full.verdict) == (Cause.QUOTA_EXCEEDED, Verdict.WAITING)
    assert freed.cause is Cause.SCALING
    assert "ResourceQuota small now has room (pods 0 of 5)" in freed.sentence
