"""Rows of what makes pods, and of what limits it."""

from typing import Any

import pytest

from mainstay.api.kind import Object
from tests.api.table_rows import ago, an_object, row

TEMPLATE = {"spec": {"containers": [{"name": "app", "image": "app:1"}, {"name": "log", "image": "log:2"}]}}
SELECTOR = {"matchLabels": {"app": "web"}}
PODS = ["app,log", "app:1,log:2"]
UNSAID = ["<none>", "<none>"]  # Nothing about its progress.


def test_a_deployment():
    found = an_object(
        spec={"replicas": 3, "template": TEMPLATE, "selector": SELECTOR},
        status={"replicas": 4, "readyReplicas": 2, "updatedReplicas": 1, "availableReplicas": 2},
    )

    assert row("Deployment", found, "apps") == ["web", "2/3", 1, 2, "5m", *PODS, "app=web", *UNSAID]


@pytest.mark.parametrize(("kind", "group"), [("Deployment", "apps"), ("ReplicaSet", "apps"), ("Job", "batch")])
def test_a_workload_shows_how_far_it_has_come_and_what_limits_it(kind: str, group: str):
    limit = {"stage": "scheduled", "component": "scheduler", "reason": "Unschedulable", "count": 2}
    found = an_object(spec={}, status={"progress": {"verdict": "waiting", "limitedBy": limit}})

    assert row(kind, found, group)[-2:] == ["waiting", "scheduler: Unschedulable (2)"]


def test_a_deployment_that_has_only_just_been_made():
    found = an_object(spec={"replicas": 1, "template": TEMPLATE, "selector": SELECTOR}, status={})

    assert row("Deployment", found, "apps") == ["web", "0/1", 0, 0, "5m", *PODS, "app=web", *UNSAID]


@pytest.mark.parametrize(
    ("selector", "deployment", "replica_set"),
    [
        (None, "", "<none>"),
        ({}, "", "<none>"),
        ({"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2", "a=1,b=2"),
        (
            {
                "matchLabels": {"c": "3"},
                "matchExpressions": [
                    {"key": "b", "operator": "NotIn", "values": ["y", "x"]},
                    {"key": "a", "operator": "In", "values": ["1"]},
                    {"key": "d", "operator": "Exists"},
                    {"key": "e", "operator": "DoesNotExist"},
                ],
            },
            "a in (1),b notin (x,y),c=3,d,!e",
            "a in (1),b notin (x,y),c=3,d,!e",
        ),
        ({"matchExpressions": [{"key": "a", "operator": "Near"}]}, "<invalid>", "<error>"),
        ({"matchExpressions": [{"key": "a", "operator": "In"}]}, "<invalid>", "<error>"),
    ],
)
def test_selectors_are_written_in_the_form_that_queries_take(selector: Any, deployment: str, replica_set: str):
    found = an_object(spec={"selector": selector})

    assert row("Deployment", found, "apps")[-3] == deployment
    assert row("ReplicaSet", found, "apps")[-3] == replica_set


def test_a_replica_set():
    found = an_object(
        spec={"replicas": 3, "template": TEMPLATE, "selector": SELECTOR}, status={"replicas": 2, "readyReplicas": 1}
    )

    assert row("ReplicaSet", found, "apps") == ["web", 3, 2, 1, "5m", *PODS, "app=web", *UNSAID]


def test_a_replication_controller():
    found = an_object(
        spec={"replicas": 3, "template": TEMPLATE, "selector": {"app": "web"}},
        status={"replicas": 2, "readyReplicas": 1},
    )

    assert row("ReplicationController", found) == ["web", 3, 2, 1, "5m", *PODS, "app=web"]


def test_a_stateful_set():
    found = an_object(spec={"replicas": 3, "template": TEMPLATE}, status={"readyReplicas": 2})

    assert row("StatefulSet", found, "apps") == ["web", "2/3", "5m", *PODS]


def test_a_daemon_set():
    template = {"spec": {**TEMPLATE["spec"], "nodeSelector": {"disk": "ssd"}}}
    status = {
        "desiredNumberScheduled": 5,
        "currentNumberScheduled": 4,
        "numberReady": 3,
        "updatedNumberScheduled": 2,
        "numberAvailable": 1,
    }
    found = an_object(spec={"template": template, "selector": SELECTOR}, status=status)

    assert row("DaemonSet", found, "apps") == ["web", 5, 4, 3, 2, 1, "disk=ssd", "5m", *PODS, "app=web"]


def test_a_controller_revision_shows_what_it_is_a_revision_of():
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "controller": True}
    other = {"apiVersion": "v1", "kind": "Pod", "name": "p"}

    owned = an_object("db-1", metadata={"ownerReferences": [other, owner]}, revision=7)
    assert row("ControllerRevision", owned, "apps") == ["db-1", "statefulset.apps/db", 7, "5m"]
    assert row("ControllerRevision", an_object("db-1"), "apps") == ["db-1", "<none>", 0, "5m"]


def a_job(*conditions: str, spec: Object | None = None, deleted: bool = False, **status: Any) -> Object:
    return an_object(
        "once",
        metadata={"deletionTimestamp": ago(seconds=1)} if deleted else {},
        spec={"template": TEMPLATE, "completions": 1, "selector": SELECTOR, **(spec or {})},
        status={"conditions": [{"type": each, "status": "True"} for each in conditions], **status},
    )


def test_a_job_that_has_completed():
    job = a_job(
        "SuccessCriteriaMet", "Complete", succeeded=1, startTime=ago(minutes=4), completionTime=ago(seconds=150)
    )

    assert row("Job", job, "batch") == ["once", "Complete", "1/1", "90s", "5m", *PODS, "app=web", *UNSAID]


def test_a_job_that_runs():
    job = a_job(startTime=ago(minutes=4), spec={"completions": 5})

    assert row("Job", job, "batch") == ["once", "Running", "0/5", "4m", "5m", *PODS, "app=web", *UNSAID]


@pytest.mark.parametrize(
    ("status", "job"),
    [
        ("Running", a_job()),
        ("Suspended", a_job("Suspended")),
        ("FailureTarget", a_job("FailureTarget")),
        ("Failed", a_job("FailureTarget", "Failed")),
        ("SuccessCriteriaMet", a_job("SuccessCriteriaMet")),
        ("Terminating", a_job("Suspended", deleted=True)),
        ("Complete", a_job("Complete", deleted=True)),
    ],
)
def test_a_jobs_status_is_how_it_ended_or_what_it_is_about_to_do(status: str, job: Object):
    assert row("Job", job, "batch")[1] == status


@pytest.mark.parametrize(
    ("completions", "spec"),
    [
        ("2/1", {"completions": None, "parallelism": 1}),
        ("2/1 of 3", {"completions": None, "parallelism": 3}),
        ("2/8", {"completions": 8, "parallelism": 3}),
    ],
)
def test_a_job_without_completions_needs_one_success(completions: str, spec: Object):
    assert row("Job", a_job(spec=spec, succeeded=2), "batch")[2] == completions


def test_a_cron_job():
    spec = {"schedule": "*/5 * * * *", "suspend": False, "jobTemplate": {"spec": {"template": TEMPLATE}}}
    status = {"active": [{}, {}], "lastScheduleTime": ago(minutes=1)}

    assert row("CronJob", an_object(spec=spec, status=status), "batch") == [
        *("web", "*/5 * * * *", "<none>", "False", 2, "60s", "5m", *PODS, "<none>")
    ]


def test_a_cron_job_that_has_never_run():
    spec = {"schedule": "@daily", "timeZone": "Europe/Vienna"}

    assert row("CronJob", an_object(spec=spec), "batch") == [
        *("web", "@daily", "Europe/Vienna", "<unset>", 0, "<none>", "5m", "", "", "<none>")
    ]


def test_a_disruption_budget():
    by_share = an_object(spec={"maxUnavailable": "25%"}, status={"disruptionsAllowed": 2})
    by_number = an_object(spec={"minAvailable": 0})

    assert row("PodDisruptionBudget", by_share, "policy") == ["web", "N/A", "25%", 2, "5m"]
    assert row("PodDisruptionBudget", by_number, "policy") == ["web", "0", "N/A", 0, "5m"]


def an_autoscaler(*metrics: Object, current: tuple[Object, ...] = (), **spec: Any) -> Object:
    return an_object(
        spec={
            "scaleTargetRef": {"kind": "Deployment", "name": "web"},
            "maxReplicas": 10,
            "metrics": list(metrics),
            **spec,
        },
        status={"currentReplicas": 3, "currentMetrics": list(current)},
    )


def cpu(share: int) -> Object:
    return {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": share}}}


def test_an_autoscaler():
    current = {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 0}}}
    found = an_autoscaler(cpu(80), current=(current,), minReplicas=1)

    assert row("HorizontalPodAutoscaler", found, "autoscaling") == [
        *("web", "Deployment/web", "cpu: 0%/80%", "1", 10, 3, "5m")
    ]


MEMORY = {"type": "ContainerResource", "containerResource": {"name": "memory", "target": {"averageValue": "1024Mi"}}}
QUEUE = {"type": "External", "external": {"target": {"averageValue": "30"}}}
REQUESTS = {"type": "Object", "object": {"target": {"value": "2k"}}}
PER_POD = {"type": "Pods", "pods": {"target": {"averageValue": "500m"}}}


@pytest.mark.parametrize(
    ("targets", "found"),
    [
        ("<none>", an_autoscaler()),
        ("cpu: <unknown>/80%", an_autoscaler(cpu(80))),
        ("cpu: <unknown>/<auto>", an_autoscaler({"type": "Resource", "resource": {"name": "cpu"}})),
        ("memory: <unknown>/1Gi", an_autoscaler(MEMORY)),
        ("7/30 (avg)", an_autoscaler(QUEUE, current=({"external": {"current": {"averageValue": "7"}}},))),
        ("500/2k", an_autoscaler(REQUESTS, current=({"object": {"current": {"value": "500"}}},))),
        ("100m/500m", an_autoscaler(PER_POD, current=({"pods": {"current": {"averageValue": "100m"}}},))),
        ("<unknown type>", an_autoscaler({"type": "Moon"})),
        ("cpu: <unknown>/80%, <unknown>/30 (avg) + 2 more...", an_autoscaler(cpu(80), QUEUE, REQUESTS, PER_POD)),
    ],
)
def test_an_autoscalers_targets(targets: str, found: Object):
    assert row("HorizontalPodAutoscaler", found, "autoscaling")[2:4] == [targets, "<unset>"]


def test_the_first_version_of_an_autoscaler_names_its_one_target_differently():
    found = an_object(spec={"targetCPUUtilizationPercentage": 80}, status={"currentCPUUtilizationPercentage": 35})

    assert row("HorizontalPodAutoscaler", found, "autoscaling")[2] == "cpu: 35%/80%"


def test_a_scale():
    found = an_object(spec={"replicas": 3}, status={"replicas": 2})

    assert row("Scale", found, "autoscaling") == ["web", 3, 2, "5m"]
