"""How many pods a budget lets go: whole statuses, from plain objects."""

from datetime import timedelta
from typing import Any

import pytest

from mainstay.api.kind_names import (
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    PODS,
    REPLICASETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)
from mainstay.api.object_key import ObjectKey
from mainstay.controllers.budget.controller import DELETION_WITHIN, DisruptionBudgets
from mainstay.loop.conditions import Condition, Truth
from mainstay.loop.decision import DONE, Decision, WakeAt
from mainstay.loop.view import View
from tests.controllers.objects import LABELS, NOON, Object, a_deployment, a_pod, a_reference, a_set, at

CONTROLLER = DisruptionBudgets()
KEY = ObjectKey("default", "budget")


def a_budget(status: Object | None = None, selector: Object | None = None, **spec: Any) -> Object:
    metadata = {"name": "budget", "namespace": "default", "uid": "budget", "generation": 3}
    chosen = {"matchLabels": LABELS} if selector is None else selector
    return {"metadata": metadata, "spec": {"selector": chosen, **spec}, "status": status or {}}


def decide(budget: Object, *pods: Object, **more: list[Object]) -> Decision:
    indexes = {reads.kind: reads.indexes for reads in CONTROLLER.reads}
    indexes[DISRUPTION_BUDGETS] = CONTROLLER.indexes
    objects = {
        DISRUPTION_BUDGETS: [budget],
        PODS: pods,
        REPLICASETS: more.get("sets", []),
        DEPLOYMENTS: more.get("deployments", []),
        STATEFUL_SETS: [],
        REPLICATION_CONTROLLERS: [],
    }
    return CONTROLLER.decide(View.of(objects, NOON, indexes=indexes), KEY, None)


def pods(ready: int, unready: int = 0, **more: Any) -> list[Object]:
    return [
        *(a_pod(f"r{number}", **more) for number in range(ready)),
        *(a_pod(f"u{number}", ready=False, **more) for number in range(unready)),
    ]


def test_a_status_says_how_many_there_are_must_be_and_may_go():
    decision = decide(a_budget(minAvailable=2), *pods(3, 1))

    assert decision.status == {
        "expectedPods": 4,
        "currentHealthy": 3,
        "desiredHealthy": 2,
        "disruptionsAllowed": 1,
        "observedGeneration": 3,
    }
    assert decision.conditions == (Condition("DisruptionAllowed", Truth.TRUE, "SufficientPods"),)
    assert decision.result == DONE
    assert decision.actions == ()


# The spec; replicas of the owner; pods that are ready and not; expected, must be healthy, allowed.
TABLE = [
    ({"minAvailable": 3}, 3, 3, 0, (3, 3, 0)),
    ({"minAvailable": 1}, 3, 3, 0, (3, 1, 2)),
    ({"minAvailable": "50%"}, 5, 5, 0, (5, 3, 2)),
    ({"minAvailable": "100%"}, 4, 4, 0, (4, 4, 0)),
    ({"minAvailable": "28%"}, 7, 6, 1, (7, 2, 4)),
    ({"maxUnavailable": 1}, 3, 3, 0, (3, 2, 1)),
    ({"maxUnavailable": 1}, 3, 2, 1, (3, 2, 0)),
    ({"maxUnavailable": "30%"}, 10, 10, 0, (10, 7, 3)),
    ({"maxUnavailable": "1%"}, 3, 3, 0, (3, 2, 1)),
    ({"maxUnavailable": 5}, 3, 3, 0, (3, 0, 3)),
    # Fewer pods than are wanted: those that are missing are unavailable already.
    ({"maxUnavailable": 1}, 5, 4, 0, (5, 4, 0)),
    ({"maxUnavailable": 1}, 5, 3, 0, (5, 4, 0)),
    # No pods at all.
    ({"minAvailable": 0}, 0, 0, 0, (0, 0, 0)),
    ({"maxUnavailable": 1}, 0, 0, 0, (0, 0, 0)),
]


@pytest.mark.parametrize(("spec", "replicas", "ready", "unready", "expected"), TABLE)
def test_numbers_and_percentages(spec, replicas, ready, unready, expected):
    decision = decide(a_budget(**spec), *pods(ready, unready), sets=[a_set(replicas=replicas)])

    names = ("expectedPods", "desiredHealthy", "disruptionsAllowed")
    assert tuple(decision.status[name] for name in names) == expected


def test_two_sets_of_a_deployment_are_asked_for_once_through_it():
    sets = [a_set("set", 2, owner="web"), a_set("old", 3, owner="web")]
    found = [*pods(2), a_pod("o1", owner="old"), a_pod("o2", owner="old")]

    decision = decide(a_budget(maxUnavailable=1), *found, sets=sets, deployments=[a_deployment(4)])

    assert decision.status["expectedPods"] == 4
    assert decision.status["disruptionsAllowed"] == 1


def test_pods_without_an_owner_count_as_unwanted():
    decision = decide(a_budget(maxUnavailable=1), *pods(2, owner=""))

    assert decision.status["expectedPods"] == 0
    assert decision.status["disruptionsAllowed"] == 0


def test_if_the_wanted_number_is_unknown_no_pod_may_be_evicted_and_it_says_why():
    pod = a_pod("p")
    pod["metadata"]["ownerReferences"] = [{**a_reference("Job", "work"), "apiVersion": "batch/v1"}]

    decision = decide(a_budget(maxUnavailable=1, status={"disruptionsAllowed": 2}), pod)

    assert decision.status == {"disruptionsAllowed": 0, "observedGeneration": 3}
    (condition,) = decision.conditions
    assert (condition.status, condition.reason) == (Truth.FALSE, "SyncFailed")
    assert "Job work" in condition.message


def test_pods_that_leave_and_pods_that_were_evicted_are_not_healthy():
    status = {"disruptedPods": {"r1": at(-10)}, "disruptionsAllowed": 0}

    decision = decide(a_budget(status, minAvailable=1), *pods(3), a_pod("gone", leaving=True))

    assert decision.status["currentHealthy"] == 2
    assert decision.status["disruptionsAllowed"] == 1
    assert "disruptedPods" not in decision.status  # It is as it was.
    assert decision.result == WakeAt(
        NOON + DELETION_WITHIN - timedelta(seconds=10), "an eviction may not have happened"
    )


def test_an_evicted_pod_is_forgotten_when_it_is_seen_to_go_or_after_two_minutes():
    noted = {"r0": at(-10), "r1": at(-121), "leaves": at(-5), "gone": at(-5)}

    decision = decide(a_budget({"disruptedPods": noted}, minAvailable=1), *pods(2), a_pod("leaves", leaving=True))

    assert decision.status["disruptedPods"] == {"r0": at(-10), "r1": None, "leaves": None, "gone": None}
    assert decision.status["currentHealthy"] == 1
    late = decide(a_budget({"disruptedPods": {"r0": at(-600)}}, minAvailable=1), *pods(1))
    assert late.status["disruptedPods"] is None


@pytest.mark.parametrize(
    ("selector", "count"),
    [
        ({"matchLabels": {"app": "web"}}, 2),
        ({}, 3),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["db"]}]}, 1),
        ({"matchLabels": {"app": "none"}}, 0),
    ],
)
def test_a_selector_covers_what_it_matches_and_an_empty_one_all(selector, count):
    decision = decide(a_budget(minAvailable=0, selector=selector), *pods(2), a_pod("db", labels={"app": "db"}))

    assert decision.status["expectedPods"] == count


def test_without_a_selector_a_budget_covers_nothing():
    budget = a_budget(minAvailable=0)
    del budget["spec"]["selector"]

    assert decide(budget, *pods(2)).status["expectedPods"] == 0
