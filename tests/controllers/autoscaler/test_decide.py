"""What an autoscaler asks for: metrics, rules of behaviour, bounds, and what its target gets."""

from dataclasses import replace
from datetime import timedelta

import pytest

from mainstay.controllers.autoscaler.decide import ScalePlan, build_status, decide, list_events
from mainstay.controllers.autoscaler.limits import ScaleLimit, find_scale_limit
from mainstay.controllers.autoscaler.observation import (
    RESCALED,
    AutoscalerInput,
    AutoscalerMemory,
    PodMetricValues,
    Recommendation,
    ScaleStep,
    ScaleUnknown,
)
from mainstay.journal.record import micros
from tests.controllers.autoscaler.observations import (
    NOW,
    Object,
    a_limit,
    a_pod,
    a_progress,
    a_target,
    an_input,
    cpu,
    samples,
)


def pods(count: int) -> list[Object]:
    return [a_pod(number) for number in range(count)]


def reasons(plan: ScalePlan) -> dict[str, str]:
    return {each.type: each.reason for each in plan.conditions}


# Metrics.


@pytest.mark.parametrize(
    ("used", "wanted"),
    [
        ((100, 100), 4),
        ((51, 52), None),
        ((55, 55), None),
        ((56, 56), 3),
        ((25, 25), 1),
        ((46, 46), None),
        ((90, 10), None),
    ],
)
def test_the_ratio_of_usage_to_target_sets_the_number_unless_it_is_within_the_tolerance(used, wanted):
    quiet = AutoscalerMemory((Recommendation(0, 1),))
    assert decide(an_input(a_target(2), samples(*used), memory=quiet), pods(2)).replicas == wanted


def test_pods_that_are_not_ready_use_nothing_when_the_number_would_rise():
    there = [a_pod(0), a_pod(1), a_pod(2, phase="Pending"), a_pod(3, phase="Pending")]
    assert decide(an_input(a_target(4, ready=2), samples(100, 100)), there).replicas is None


def test_pods_without_a_sample_use_all_that_they_request_when_the_number_would_fall():
    quiet = AutoscalerMemory((Recommendation(0, 1),))
    known = an_input(a_target(4), samples(10, 10), memory=quiet)
    assert decide(known, pods(4)).replicas is None


def test_the_sample_of_a_pod_that_has_just_become_ready_does_not_count_yet():
    young = a_pod(1, age=timedelta(seconds=5))
    assert decide(an_input(a_target(2), samples(50, 100)), [a_pod(0), young]).replicas is None


def test_of_several_metrics_the_one_that_needs_most_counts():
    memory = {
        "type": "Resource",
        "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1"}},
    }
    used = samples(50, 50)
    for sample in used.values():
        sample.containers["main"]["memory"] = 2 * 10**9
    plan = decide(an_input(a_target(2), used, metrics=[cpu(50), memory]), pods(2))
    assert (plan.replicas, plan.reason) == (4, "memory resource above target")


def test_a_container_resource_counts_one_container():
    used = samples(0)
    used["web-0"].containers["side"] = {"cpu": 10**9}
    target = {"type": "Utilization", "averageUtilization": 50}
    metric = {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "side", "target": target}}
    pod = a_pod(0)
    pod["spec"]["containers"].append({"name": "side", "resources": {"requests": {"cpu": "1"}}})
    assert decide(an_input(a_target(1), used, metrics=[metric]), [pod]).replicas == 2


def test_with_an_unknown_metric_the_number_may_rise_and_not_fall():
    unknown = {"type": "Pods", "pods": {"metric": {"name": "queue"}, "target": {"averageValue": "1"}}}
    rising = decide(an_input(a_target(2), samples(100, 100), metrics=[cpu(50), unknown]), pods(2))
    falling = decide(an_input(a_target(2), samples(1, 1), metrics=[cpu(50), unknown]), pods(2))
    assert (rising.replicas, falling.replicas) == (4, None)
    assert reasons(falling)["ScalingActive"] == "FailedGetPodsMetric"


@pytest.mark.parametrize("kind", ["Object", "External"])
def test_metrics_that_are_not_supported_are_named_in_the_condition_and_an_event(kind):
    metric = {"type": kind, kind.lower(): {"metric": {"name": "queue"}}}
    plan = decide(an_input(a_target(1), samples(50), metrics=[metric]), pods(1))
    assert reasons(plan)["ScalingActive"] == f"FailedGet{kind}Metric"
    assert "not supported" in plan.conditions[1].message
    assert [each.reason for each in plan.events] == [f"FailedGet{kind}Metric"]


def test_a_container_without_a_request_has_no_utilization():
    pod = a_pod(0)
    del pod["spec"]["containers"][0]["resources"]
    plan = decide(an_input(a_target(1), samples(50)), [pod])
    assert reasons(plan)["ScalingActive"] == "FailedGetResourceMetric"
    assert "missing request for cpu in container main of pod web-0" in plan.conditions[1].message


def test_a_tolerance_of_its_own_applies_to_its_direction():
    behavior = {"scaleUp": {"tolerance": "0.5", "policies": [], "selectPolicy": "Max"}}
    assert decide(an_input(a_target(2), samples(70, 70), behavior=behavior), pods(2)).replicas is None


# Rules.


def test_the_number_falls_only_to_the_highest_recommendation_of_five_minutes():
    earlier = (
        Recommendation(micros(NOW - timedelta(minutes=4)), 3),
        Recommendation(micros(NOW - timedelta(hours=1)), 9),
    )
    plan = decide(an_input(a_target(4), samples(5, 5, 5, 5), memory=AutoscalerMemory(earlier)), pods(4))
    assert (plan.replicas, reasons(plan)["AbleToScale"]) == (3, "ScaleDownStabilized")
    assert plan.memory.recommendations == (earlier[0], Recommendation(micros(NOW), 1))


def test_a_new_leader_does_not_scale_down_at_once():
    assert decide(an_input(a_target(4), samples(5, 5, 5, 5)), pods(4)).replicas is None


def test_without_behavior_the_number_at_most_doubles():
    plan = decide(an_input(a_target(3), samples(400, 400, 400)), pods(3))
    assert (plan.replicas, reasons(plan)["ScalingLimited"]) == (6, "ScaleUpLimit")


def test_it_stays_between_minimum_and_maximum():
    high = decide(an_input(a_target(3), samples(400, 400, 400), maxReplicas=4), pods(3))
    low = decide(
        an_input(a_target(3), samples(0, 0, 0), minReplicas=2, memory=AutoscalerMemory((Recommendation(0, 1),))),
        pods(3),
    )
    assert (high.replicas, reasons(high)["ScalingLimited"]) == (4, "TooManyReplicas")
    assert (low.replicas, reasons(low)["ScalingLimited"]) == (2, "TooFewReplicas")


@pytest.mark.parametrize(("select", "wanted"), [("Max", 6), ("Min", 5), ("Disabled", None)])
def test_policies_limit_a_step_by_pods_or_percent(select, wanted):
    policies = [
        {"type": "Pods", "value": 1, "periodSeconds": 60},
        {"type": "Percent", "value": 50, "periodSeconds": 60},
    ]
    behavior = {"scaleUp": {"policies": policies, "selectPolicy": select, "stabilizationWindowSeconds": 0}}
    assert decide(an_input(a_target(4), samples(*[200] * 4), behavior=behavior), pods(4)).replicas == wanted


def test_what_was_added_within_the_period_counts():
    policies = [{"type": "Pods", "value": 2, "periodSeconds": 60}]
    behavior = {"scaleUp": {"policies": policies, "selectPolicy": "Max", "stabilizationWindowSeconds": 0}}
    done = AutoscalerMemory(scale_ups=(ScaleStep(micros(NOW - timedelta(seconds=30)), 1),))
    plan = decide(an_input(a_target(4), samples(*[200] * 4), behavior=behavior, memory=done), pods(4))
    assert (plan.replicas, reasons(plan)["ScalingLimited"]) == (5, "ScaleUpLimit")


def test_a_window_for_scaling_up_takes_the_lowest_recommendation():
    behavior = {
        "scaleUp": {"policies": [{"type": "Pods", "value": 9, "periodSeconds": 60}], "stabilizationWindowSeconds": 60}
    }
    earlier = AutoscalerMemory((Recommendation(micros(NOW - timedelta(seconds=30)), 5),))
    plan = decide(an_input(a_target(4), samples(*[200] * 4), behavior=behavior, memory=earlier), pods(4))
    assert (plan.replicas, reasons(plan)["AbleToScale"]) == (5, "ScaleUpStabilized")


def test_a_target_with_zero_replicas_is_left_alone():
    plan = decide(an_input(a_target(0)), [])
    assert (plan.replicas, reasons(plan)["ScalingActive"]) == (None, "ScalingDisabled")


def test_bounds_hold_without_any_metric():
    assert decide(an_input(a_target(20)), []).replicas == 10
    assert decide(an_input(a_target(1), minReplicas=3), []).replicas == 3


# The target.


def test_a_target_without_a_scale_is_named_in_the_condition_and_an_event():
    known = replace(an_input(None), unknown=ScaleUnknown("deployments.apps web not found"))
    plan = decide(known, [])
    assert (reasons(plan), [each.reason for each in plan.events]) == (
        {"AbleToScale": "FailedGetScale"},
        ["FailedGetScale"],
    )


def test_two_autoscalers_of_one_target_do_not_fight():
    plan = decide(an_input(a_target(1), samples(100), known={"rivals": ("other",)}), pods(1))
    assert (plan.replicas, reasons(plan)["ScalingActive"]) == (None, "AmbiguousSelector")


LIMITS = [
    (a_limit("scheduled", "Unschedulable", cause="SkewTooLarge"), ScaleLimit.PLACEMENT),
    (a_limit("scheduled", "Unschedulable", cause="InsufficientResource"), ScaleLimit.PLACEMENT),
    (a_limit("bound", "MakingRoom"), ScaleLimit.PLACEMENT),
    (a_limit("scheduled", "Unschedulable", cause="ZoneQuotaExceeded"), ScaleLimit.QUOTA),
    (a_limit("admitted", "QuotaExceeded", component="server"), ScaleLimit.QUOTA),
    (a_limit("admitted", "FailedCreate", component="server"), ScaleLimit.POLICY),
    (a_limit("admitted", "Held", component="deployment"), ScaleLimit.POLICY),
    (a_limit("queued", "SchedulingGated", component="gates"), ScaleLimit.POLICY),
    (a_limit("admitted", "BackingOff", component="server"), ScaleLimit.FAILURES),
    (a_limit("admitted", "Creating", component="replicaset"), ScaleLimit.LAG),
    (a_limit("scheduled", "Queued"), ScaleLimit.LAG),
    (a_limit("starting", "NotTakenOn", component="agent"), ScaleLimit.LAG),
    (a_limit("ready", "Starting", component="agent"), None),
    (a_limit("ready", "CrashLoopBackOff", component="agent"), None),
    (a_limit("admitted", "RollingOut", component="deployment"), None),
    (a_limit("serving", "NoService", component="endpoint-slice"), None),
]


@pytest.mark.parametrize(("limit", "reason"), LIMITS)
def test_the_record_tells_what_keeps_replicas_back(limit, reason):
    found = find_scale_limit(a_target(3, ready=2, limit=limit))
    assert (found.reason if found is not None else None) == reason


def test_a_paused_rollout_with_all_replicas_ready_limits_nothing():
    assert find_scale_limit(a_target(3, limit=a_limit("admitted", "Paused", component="deployment"))) is None


@pytest.mark.parametrize(
    "more",
    [
        {"generation": 2},
        {"generation": 2, "observed_generation": 2},
        {"progress": None},
        {"generation": 2, "observed_generation": 1, "progress": a_progress(2, 2, generation=2)},
    ],
)
def test_a_target_whose_controllers_have_not_seen_its_generation_is_not_raised(more):
    plan = decide(an_input(a_target(2, **more), samples(100, 100)), pods(2))
    assert (plan.replicas, reasons(plan)["ScalingLimited"]) == (None, "ControlPlaneLag")


def test_a_target_without_a_record_is_raised_by_its_metrics_alone():
    assert decide(an_input(a_target(2, has_record=False, progress=None), samples(100, 100)), pods(2)).replicas == 4


def test_a_quota_that_changed_unseen_is_lag():
    target = a_target(3, ready=2, limit=a_limit("scheduled", "Unschedulable", cause="ZoneQuotaExceeded"))
    behind, current = (
        find_scale_limit(target, 90, {"scheduler-1": 80}),
        find_scale_limit(target, 90, {"a": 80, "b": 95}),
    )
    assert behind is not None
    assert current is not None
    assert (behind.reason, current.reason) == (ScaleLimit.LAG, ScaleLimit.QUOTA)
    assert "up to revision 80, the last change is 90" in behind.message


def blocked(used: int, **more: object) -> AutoscalerInput:
    limit = a_limit("scheduled", "Unschedulable", cause="SkewTooLarge")
    return an_input(a_target(3, ready=2, limit=limit), samples(used, used), **more)  # type: ignore[arg-type]


def test_while_the_target_is_limited_the_number_is_not_raised_and_the_condition_says_so():
    plan = decide(blocked(200), [*pods(2), a_pod(2, phase="Pending")])
    limited = plan.conditions[2]
    assert (plan.replicas, plan.desired, limited.type, limited.reason) == (
        None,
        3,
        "ScalingLimited",
        "LimitedByPlacement",
    )
    assert limited.message == (
        "the metrics justify 6 replicas, kept at 3 because more would not run: 1 replica waits to be scheduled by "
        "scheduler, Unschedulable (SkewTooLarge)"
    )


def test_without_its_feature_gate_the_number_is_raised_whatever_limits_the_target():
    known = replace(blocked(200), reads_progress=False)

    assert decide(known, [*pods(2), a_pod(2, phase="Pending")]).replicas == 6


def test_while_the_target_is_limited_the_number_may_fall():
    known = blocked(1, memory=AutoscalerMemory((Recommendation(0, 1),)))
    assert decide(known, [*pods(2), a_pod(2, phase="Pending")]).replicas == 1


def test_the_minimum_holds_although_the_target_is_limited():
    assert decide(blocked(200, minReplicas=5), pods(2)).replicas == 5


# Status and Events.


def test_the_status_after_a_rescale_has_the_new_size_and_its_time():
    known = an_input(a_target(2), samples(100, 100))
    plan = decide(known, pods(2))
    done = replace(known, outcome=RESCALED)
    status = build_status(done, plan)
    assert (status["desiredReplicas"], status["currentReplicas"]) == (4, 2)
    assert status["lastScaleTime"] == "2026-01-01T12:00:00Z"
    assert status["currentMetrics"] == [
        {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 100, "averageValue": "1"}}}
    ]
    assert [(each["type"], each["reason"]) for each in status["conditions"]] == [
        ("AbleToScale", "SucceededRescale"),
        ("ScalingActive", "ValidMetricFound"),
        ("ScalingLimited", "DesiredWithinRange"),
    ]
    text = "New size: 4; reason: cpu resource utilization (percentage of request) above target"
    assert [(each.reason, each.message) for each in list_events(done, plan)] == [("SuccessfulRescale", text)]


def test_a_refused_rescale_sets_the_condition_and_leaves_the_size():
    known = replace(an_input(a_target(2), samples(100, 100), status={"desiredReplicas": 2}), outcome="forbidden")
    plan = decide(known, pods(2))
    status = build_status(known, plan)
    assert (status["desiredReplicas"], status["conditions"][0]["reason"]) == (2, "FailedUpdateScale")
    assert "lastScaleTime" not in status
    assert [each.reason for each in list_events(known, plan)] == ["FailedRescale"]


# Metrics that pods serve.


def queue(average: str, **metric: object) -> Object:
    target = {"type": "AverageValue", "averageValue": average}
    return {"type": "Pods", "pods": {"metric": {"name": "queue_length", **metric}, "target": target}}


def queued(*lengths: int) -> dict[str, PodMetricValues]:
    values = {f"web-{number}": length * 10**9 for number, length in enumerate(lengths)}
    return {"queue_length": PodMetricValues(values)}


QUIET = AutoscalerMemory((Recommendation(0, 1),))


@pytest.mark.parametrize(
    ("lengths", "count", "wanted"),
    [
        ((10, 10), 2, 4),
        ((5, 5), 2, None),
        ((1, 1), 2, 1),
        ((10,), 2, None),  # Of the other pod nothing is known: it counts as 0 when the number would rise.
        ((1,), 2, None),  # And as the whole target when it would fall.
        ((40,), 2, 4),  # 8 would do, and at most twice as many are asked for at once.
    ],
)
def test_what_pods_say_sets_the_number_by_its_average(lengths, count, wanted):
    known = an_input(
        a_target(count), memory=QUIET, known={"pod_metrics": queued(*lengths)}, metrics=[queue("5")], maxReplicas=20
    )
    plan = decide(known, pods(count))
    assert plan.replicas == wanted
    assert plan.metrics is not None
    average = sum(lengths) // len(lengths)
    said = {"metric": {"name": "queue_length"}, "current": {"averageValue": str(average)}}
    assert plan.metrics[0] == {"type": "Pods", "pods": said}


def test_a_metric_that_no_pod_serves_fails_and_lowers_nothing():
    metrics = [queue("5"), cpu(50)]
    problem = {"pod_metrics": {"queue_length": PodMetricValues(problem="could not find the metric")}}
    plan = decide(an_input(a_target(4), samples(5, 5, 5, 5), memory=QUIET, known=problem, metrics=metrics), pods(4))

    assert plan.replicas is None
    assert reasons(plan)["ScalingActive"] == "FailedGetPodsMetric"
    assert [each.message for each in plan.events] == [
        "failed to get pods metric queue_length: could not find the metric"
    ]


def test_a_selector_makes_it_another_metric():
    selector = {"matchLabels": {"queue": "a"}}
    known = {"pod_metrics": {"queue_length{queue=a}": queued(10, 10)["queue_length"]}}
    metrics = [queue("5", selector=selector)]
    assert decide(an_input(a_target(2), memory=QUIET, known=known, metrics=metrics), pods(2)).replicas == 4
