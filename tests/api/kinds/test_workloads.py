"""What deployments, jobs and the like may say."""

from typing import Any

import pytest

from mainstay.api.kinds.batch import schedule_problem
from tests.api.builders import a_deployment, a_job
from tests.api.kinds.steps import kind_of, problems

DEPLOYMENT = kind_of("apps/v1", "Deployment")
STATEFUL_SET = kind_of("apps/v1", "StatefulSet")
DAEMON_SET = kind_of("apps/v1", "DaemonSet")
JOB = kind_of("batch/v1", "Job")
CRON_JOB = kind_of("batch/v1", "CronJob")


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"])
def test_a_selector_has_to_be_there_and_match_the_template_and_stay(kind):
    declared = kind_of("apps/v1", kind)

    assert problems(declared, a_deployment()) == []
    assert problems(declared, a_deployment(labels={"z": "z"})) == [
        'spec.template.metadata.labels: Invalid value: {"z":"z"}: `selector` does not match template `labels`'
    ]
    assert "spec.selector: Required value" in problems(declared, a_deployment(selector=None))


def test_the_selector_of_a_deployment_is_immutable():
    new = a_deployment(selector={"matchLabels": {"a": "c"}}, labels={"a": "c"})

    assert problems(DEPLOYMENT, new, a_deployment()) == [
        'spec.selector: Invalid value: {"matchLabels":{"a":"c"}}: field is immutable'
    ]


def test_an_empty_selector_would_take_every_pod():
    assert problems(DEPLOYMENT, a_deployment(selector={})) == [
        "spec.selector: Invalid value: {}: empty selector is invalid for deployment"
    ]


def test_a_template_is_looked_at_like_a_pod():
    deployment = a_deployment()
    deployment["spec"]["template"]["spec"] = {"containers": [{"name": "c"}], "restartPolicy": "Never"}

    assert problems(DEPLOYMENT, deployment) == [
        "spec.template.spec.containers[0].image: Required value",
        'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
    ]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"replicas": -1}, ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]),
        (
            {"strategy": {"type": "Hope"}},
            ['spec.strategy.type: Unsupported value: "Hope": supported values: "Recreate", "RollingUpdate"'],
        ),
        (
            {"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}},
            ["spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"],
        ),
        (
            {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}},
            ["spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"],
        ),
        (
            {"strategy": {"rollingUpdate": {"maxUnavailable": "120%"}}},
            ['spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "120%": must not be greater than 100%'],
        ),
        (
            {"minReadySeconds": 600},
            ["spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds"],
        ),
    ],
)
def test_a_deployment_is_looked_at(spec, expected):
    assert problems(DEPLOYMENT, a_deployment(**spec)) == expected


def test_of_a_stateful_set_only_some_fields_may_change():
    old = a_deployment(serviceName="a")

    assert problems(STATEFUL_SET, a_deployment(serviceName="a", replicas=5), old) == []
    assert problems(STATEFUL_SET, a_deployment(serviceName="b"), old) == [
        "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
        "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are "
        "forbidden"
    ]


def test_a_daemon_set_makes_room_in_one_way_only():
    rolling = {"maxSurge": 1, "maxUnavailable": 1}

    assert problems(DAEMON_SET, a_deployment(updateStrategy={"rollingUpdate": rolling})) == [
        "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero"
    ]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        ({"completions": -1}, ["spec.completions: Invalid value: -1: must be greater than or equal to 0"]),
        (
            {"completionMode": "Indexed", "parallelism": 1},
            ["spec.completions: Required value: when completion mode is Indexed"],
        ),
        (
            {"completionMode": "Random"},
            ['spec.completionMode: Unsupported value: "Random": supported values: "Indexed", "NonIndexed"'],
        ),
    ],
)
def test_a_job_is_looked_at(spec, expected):
    assert problems(JOB, a_job(**spec)) == expected


def test_a_job_comes_to_an_end_and_so_must_its_pods():
    assert problems(JOB, a_job(restart_policy="Always")) == [
        'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'
    ]


def test_what_a_job_runs_may_not_change_once_it_has_begun():
    [found] = problems(JOB, a_job(restart_policy="OnFailure"), a_job(restart_policy="Never"))

    assert found.startswith("spec.template: Invalid value: {")
    assert found.endswith(": field is immutable")


def test_how_much_a_job_does_at_a_time_may_change():
    assert problems(JOB, a_job(parallelism=5, completions=1), a_job()) == []
    assert problems(JOB, a_job(completions=2), a_job()) == ["spec.completions: Invalid value: 2: field is immutable"]


def test_a_job_that_waits_may_be_directed_to_other_nodes():
    old, new = a_job(suspend=True), a_job(suspend=False)
    new["spec"]["template"]["spec"]["nodeSelector"] = {"zone": "z"}

    assert problems(JOB, new, old) == []


def a_cron_job(name: str = "c", **spec: Any) -> dict[str, Any]:
    template = {"spec": {"template": a_job()["spec"]["template"]}}
    return {"metadata": {"name": name}, "spec": {"schedule": "*/5 * * * *", "jobTemplate": template, **spec}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        ({"schedule": ""}, ["spec.schedule: Required value"]),
        (
            {"schedule": "* * *"},
            ['spec.schedule: Invalid value: "* * *": expected exactly 5 fields, found 3: [* * *]'],
        ),
        (
            {"concurrencyPolicy": "Shrug"},
            ['spec.concurrencyPolicy: Unsupported value: "Shrug": supported values: "Allow", "Forbid", "Replace"'],
        ),
        ({"timeZone": "a b"}, ['spec.timeZone: Invalid value: "a b": unknown time zone a b']),
    ],
)
def test_a_cron_job_is_looked_at(spec, expected):
    assert problems(CRON_JOB, a_cron_job(**spec)) == expected


def test_a_cron_job_leaves_room_in_its_name_for_the_jobs_it_makes():
    assert problems(CRON_JOB, a_cron_job("c" * 53)) == [
        f'metadata.name: Invalid value: "{"c" * 53}": must be no more than 52 characters'
    ]


@pytest.mark.parametrize(
    "schedule", ["@daily", "0 0 1 1 *", "*/15 8-18 * jan-mar mon-fri", "0,30 * ? * 0", "@every 1h30m"]
)
def test_a_schedule_that_cron_understands_is_valid(schedule):
    assert schedule_problem(schedule) == ""


@pytest.mark.parametrize(
    ("schedule", "problem"),
    [
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("@sometimes", "unrecognized descriptor: @sometimes"),
    ],
)
def test_a_schedule_that_cron_does_not_understand_is_refused_with_the_reason(schedule, problem):
    assert schedule_problem(schedule) == problem
