"""What is measured for an objective, how fast its budget burns, and what its status says."""

from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest

from mainstay.api import times
from mainstay.api.kind_names import DEPLOYMENTS, PODS, REPLICASETS, SERVICE_LEVEL_OBJECTIVES
from mainstay.api.kinds.objectives import SERVICE_LEVEL_OBJECTIVE, ObjectiveSpec
from mainstay.api.object_key import ObjectKey
from mainstay.api.objectives import ObjectiveType
from mainstay.controllers.objectives.controller import ServiceLevelObjectives
from mainstay.controllers.objectives.measurement import (
    ObjectiveMemory,
    TargetView,
    compute_burn,
    find_next_deadline,
    measure,
)
from mainstay.loop.decision import Decision, WakeAt
from mainstay.loop.view import View
from tests.controllers.objects import NOON, Object, a_deployment, a_pod, a_set, at

CONTROLLER = ServiceLevelObjectives()
KEY = ObjectKey("default", "web")
READY_SOON = ObjectiveSpec(ObjectiveType.TIME_TO_READY, 90, 30)
BAD_PERCENTS = ["100.0", "0.5", "99.9999", "99", "-1.0", "1e1", 99.9, None]
AVAILABLE = ObjectiveSpec(ObjectiveType.AVAILABILITY, 90)


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def pods(*ready_after: float | None, created_at: float = 0) -> list[Object]:
    """Pods that are made at once, and become ready after so long; None: they are not."""
    return [
        a_pod(f"p{n}", created_at=created_at, ready=each is not None, ready_at=created_at + (each or 0))
        for n, each in enumerate(ready_after)
    ]


def target(found: list[Object], *, uid: str = "set", desired: int = 4, ready: int = 4) -> TargetView:
    return TargetView(uid, desired, found, ready)


def looks(objective: ObjectiveSpec, *seen: tuple[float, TargetView]) -> ObjectiveMemory:
    memory: ObjectiveMemory | None = None
    for seconds, each in seen:
        memory = measure(each, (objective,), memory, after(seconds))
    assert memory is not None
    return memory


def burn(memory: ObjectiveMemory, seconds: float, percent: str = "90") -> Any:
    return compute_burn(memory.measured[0], Fraction(percent), after(seconds))


def replica_seconds(us: int) -> float:
    return us / 1_000_000


# Times


def test_pods_that_come_late_burn_the_budget_in_proportion():
    found = burn(looks(READY_SOON, (0, target([])), (60, target(pods(10, 20, 40, 5)))), 60)

    assert (found.all, found.late, found.is_enough) == (4, 1, True)
    assert found.rate == pytest.approx(2.5)
    assert found.budget_left_percent == 0


def test_a_pod_is_counted_once_however_often_it_is_looked_at_and_becomes_ready_again():
    ready, again = target(pods(10, 10, 10)), target(pods(90, 90, 90))

    found = burn(looks(READY_SOON, (0, target([])), (15, ready), (60, ready), (120, again)), 120)

    assert (found.all, found.late) == (3, 0)


def test_a_pod_that_is_not_there_in_time_is_late_as_long_as_it_is_not_and_afterwards():
    missing = looks(READY_SOON, (0, target([])), (31, target(pods(None, None, None))))
    later = measure(target(pods(None, None, None)), (READY_SOON,), missing, after(4000))
    ready = measure(target(pods(4010, 4010, 4010)), (READY_SOON,), later, after(4011))

    assert burn(missing, 31).rate == pytest.approx(10)
    assert burn(later, 4000).rate == pytest.approx(10)
    assert (burn(ready, 4011).all, burn(ready, 4011).late) == (3, 3)


def test_a_pod_that_is_removed_before_it_came_is_late_and_does_not_vanish():
    found = burn(looks(READY_SOON, (0, target([])), (40, target(pods(None, None, None))), (50, target([]))), 50)

    assert (found.all, found.late) == (3, 3)


def test_a_pod_that_still_has_time_is_neither_good_nor_bad():
    found = burn(looks(READY_SOON, (0, target([])), (20, target(pods(None, None, None)))), 20)

    assert (found.all, found.is_enough, found.rate) == (0, False, 0.0)


def test_pods_whose_time_was_over_before_counting_began_are_not_counted():
    found = burn(looks(READY_SOON, (0, target(pods(5, 500, 5, created_at=-600)))), 60)

    assert found.all == 0


def test_too_few_pods_say_nothing():
    found = burn(looks(READY_SOON, (0, target([])), (60, target(pods(50, 50)))), 60)

    assert (found.is_enough, found.rate) == (False, 0.0)


def test_what_an_earlier_template_did_is_forgotten():
    before = looks(READY_SOON, (0, target([])), (60, target(pods(50, 50, 50))))

    memory = measure(target([], uid="next"), (READY_SOON,), before, after(61))

    assert (memory.set_uid, memory.since, burn(memory, 61).all) == ("next", after(61), 0)


def test_what_is_long_ago_does_not_burn_any_more():
    memory = looks(READY_SOON, (0, target([])), (60, target(pods(50, 50, 50))), (900, target(pods(50, 50, 50))))

    assert burn(memory, 900).burns["5m"] is None
    assert burn(memory, 900).rate == 0.0
    assert burn(measure(target([]), (READY_SOON,), memory, after(4000)), 4000).all == 0


def test_the_next_look_is_when_the_next_pod_will_be_late():
    assert find_next_deadline(target(pods(None, 3)), (READY_SOON, AVAILABLE), NOON) == after(31)
    assert find_next_deadline(target(pods(3)), (READY_SOON, AVAILABLE), NOON) is None


# Availability


def test_availability_is_the_share_of_replicas_that_were_ready_over_time():
    half = target([], ready=2)

    found = burn(looks(AVAILABLE, (0, target([])), (60, half), (120, target([]))), 120)

    assert (replica_seconds(found.all), replica_seconds(found.late)) == (480, 120)
    assert found.rate == pytest.approx(2.5)


def test_no_time_is_lost_however_often_the_controller_looks():
    looked = [(0.9 * number, target([], ready=2)) for number in range(121)]

    found = burn(looks(AVAILABLE, *looked), 108)

    assert (replica_seconds(found.all), replica_seconds(found.late)) == (432, 216)
    assert found.is_enough


def test_a_percent_with_decimals_makes_a_smaller_budget():
    memory = looks(AVAILABLE, (0, target([], desired=1000, ready=999)), (60, target([], desired=1000)))

    assert burn(memory, 60, "99").rate == pytest.approx(0.1)
    assert burn(memory, 60, "99.95").rate == pytest.approx(2)


def test_time_in_which_it_was_not_looked_at_counts_as_nothing():
    found = burn(looks(AVAILABLE, (0, target([])), (600, target([]))), 600)

    assert (found.all, found.is_enough) == (0, False)


def test_more_ready_replicas_than_desired_make_up_for_nothing():
    found = burn(looks(AVAILABLE, (0, target([], ready=6)), (60, target([], ready=6))), 60)

    assert (replica_seconds(found.all), found.late) == (240, 0)


def test_a_clock_that_goes_back_restarts_the_count():
    memory = looks(AVAILABLE, (0, target([])), (60, target([])), (30, target([])))

    assert memory.since == after(30)


# The controller


def an_slo(*objectives: Object, kind: str = "Deployment") -> Object:
    wanted = objectives or ({"type": "TimeToReady", "withinSeconds": 30, "percent": 90},)
    spec = {"target": {"kind": kind, "name": "web"}, "objectives": list(wanted)}
    return {"metadata": {"name": "web", "namespace": "default", "generation": 3}, "spec": spec}


def decide(slo: Object, memory: ObjectiveMemory | None = None, now: datetime = NOON, **objects: Any) -> Decision:
    indexes = {SERVICE_LEVEL_OBJECTIVES: CONTROLLER.indexes, **{each.kind: each.indexes for each in CONTROLLER.reads}}
    given = {
        SERVICE_LEVEL_OBJECTIVES: [slo],
        DEPLOYMENTS: objects.get("deployments", ()),
        REPLICASETS: objects.get("sets", ()),
        PODS: objects.get("pods", ()),
    }
    return CONTROLLER.decide(View.of(given, now, indexes=indexes), KEY, memory)


def condition(decision: Decision) -> tuple[str, str]:
    (found,) = decision.conditions
    return str(found.status), str(found.reason)


def test_pods_of_the_new_set_alone_are_measured_and_a_burn_is_said():
    deployment = a_deployment(4, image="web:2")
    sets = [a_set("old", 4, owner="web", image="web:1"), a_set("new", 3, owner="web", image="web:2")]
    old = [
        {**each, "metadata": {**each["metadata"], "name": f"old{n}", "uid": f"old{n}"}}
        for n, each in enumerate(pods(1, 1))
    ]
    for each in old:
        each["metadata"] = {
            **each["metadata"],
            "ownerReferences": [{"kind": "ReplicaSet", "uid": "old", "name": "old", "controller": True}],
        }
    new = [a_pod(f"n{n}", owner="new", created_at=0, ready_at=50) for n in range(3)]
    first = decide(an_slo(), deployments=[deployment], sets=sets, pods=old)

    later = decide(an_slo(), first.memory, after(60), deployments=[deployment], sets=sets, pods=[*old, *new])

    assert condition(first) == ("Unknown", "NotEnoughSamples")
    assert condition(later) == ("True", "BurnRateHigh")
    assert later.status["targetUid"] == "new"
    assert later.status["observedGeneration"] == 3
    assert later.status["objectives"] == [
        {"type": "TimeToReady", "burn": {"5m": "10.0", "1h": "10.0"}, "budgetLeftPercent": 0, "pods": 3, "late": 3}
    ]
    assert isinstance(later.result, WakeAt)


def test_pods_in_time_are_within_budget():
    deployment, sets = a_deployment(3, image="web:1"), [a_set("new", 3, owner="web", image="web:1")]
    first = decide(an_slo(), deployments=[deployment], sets=sets)
    found = [a_pod(f"n{n}", owner="new", created_at=0, ready_at=5) for n in range(3)]

    later = decide(an_slo(), first.memory, after(60), deployments=[deployment], sets=sets, pods=found)

    assert condition(later) == ("False", "WithinBudget")


def test_a_target_that_is_missing_or_has_no_set_yet_is_unknown():
    assert condition(decide(an_slo())) == ("Unknown", "TargetNotFound")
    assert condition(decide(an_slo(), deployments=[a_deployment(3)])) == ("Unknown", "TargetNotObserved")


def test_a_replica_set_can_be_a_target():
    assert condition(decide(an_slo(kind="ReplicaSet"), sets=[a_set("web", 3)])) == ("Unknown", "NotEnoughSamples")


# What is accepted


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({}, "spec.target"),
        ({"target": {"kind": "Job", "name": "web"}, "objectives": []}, "spec.target.kind"),
        ({"target": {"kind": "Deployment", "name": "web"}, "objectives": []}, "spec.objectives"),
        (
            {"target": {"kind": "Deployment", "name": "web"}, "objectives": [{"type": "Speed", "percent": 9}]},
            "spec.objectives[0].type",
        ),
    ],
)
def test_what_nothing_could_act_on_is_refused(spec, field):
    causes = SERVICE_LEVEL_OBJECTIVE.validate({"metadata": {"name": "x"}, "spec": spec}, None)

    assert [each.field for each in causes] == [field]


@pytest.mark.parametrize(
    ("objectives", "fields"),
    [
        ([{"type": "TimeToReady", "percent": 99}], ["spec.objectives[0].withinSeconds"]),
        ([{"type": "Availability", "percent": 99, "withinSeconds": 5}], ["spec.objectives[0].withinSeconds"]),
        (
            [{"type": "Availability", "percent": 99}, {"type": "Availability", "percent": 9}],
            ["spec.objectives[1].type"],
        ),
        ([{"type": "Availability", "percent": 100}], ["spec.objectives[0].percent"]),
        ([{"type": "Availability", "percent": 99}], []),
        ([{"type": "Availability", "percent": "99.95"}], []),
        *[([{"type": "Availability", "percent": bad}], ["spec.objectives[0].percent"]) for bad in BAD_PERCENTS],
    ],
)
def test_each_objective_has_what_it_needs_and_no_more(objectives, fields):
    spec = {"target": {"kind": "Deployment", "name": "web"}, "objectives": objectives}

    causes = SERVICE_LEVEL_OBJECTIVE.validate({"metadata": {"name": "x"}, "spec": spec}, None)

    assert [each.field for each in causes] == fields


def test_times_in_the_status_are_as_the_api_writes_them():
    deployment, sets = a_deployment(3, image="web:1"), [a_set("new", 3, owner="web", image="web:1")]

    status = decide(an_slo(), deployments=[deployment], sets=sets).status

    assert status["since"] == times.format_time(NOON) == at(0)
