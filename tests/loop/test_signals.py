"""The collectors: what reports and objects show, as evidence; and that every signal is collected and asked about."""

import ast
from datetime import timedelta
from pathlib import Path

import pytest

import mainstay
from mainstay.api import times
from mainstay.loop.evidence import Evidence, EvidenceResponse, Scope, Signal, Strength, allowed
from mainstay.loop.signals import (
    collect_bind_conflicts,
    collect_controller_errors,
    collect_failed_probe,
    collect_lease_expiry,
    collect_probe_transitions,
    collect_queue_age,
    collect_rollout_deadline,
    collect_slo_burn,
    collect_unobserved_generation,
    describe_evidence,
)

NOW = times.parse_time("2026-03-01T12:00:00Z")


def ago(seconds: float) -> str:
    return times.format_time(NOW - timedelta(seconds=seconds))


def a_state(name: str = "controllers-0", *, age: float = 0, **queue: object) -> dict[str, object]:
    return {
        "metadata": {"name": name},
        "status": {"observedAt": ago(age), "queues": [{"name": "replicaset", **queue}]},
    }


def strengths(evidence: tuple[Evidence, ...]) -> list[Strength]:
    return [each.strength for each in evidence]


# Reports


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(4, []), (5, [Strength.HINT]), (20, [Strength.REPEATED]), (60, [Strength.SUSTAINED])],
)
def test_the_age_of_the_oldest_key_in_a_queue_is_the_strength_of_the_evidence(seconds, expected):
    found = collect_queue_age([a_state(oldestSeconds=seconds)], ("replicaset",), NOW)

    assert strengths(found) == expected
    assert [each.name for each in found] == ["replicaset"] * len(expected)


def test_only_a_sustained_queue_age_holds_a_rollout():
    young, old = (collect_queue_age([a_state(oldestSeconds=age)], ("replicaset",), NOW) for age in (30, 90))

    assert EvidenceResponse.PAUSE_ROLLOUT not in allowed(young)
    assert EvidenceResponse.PAUSE_ROLLOUT in allowed(old)
    assert old[0].since == NOW - timedelta(seconds=90)


def test_queues_of_other_controllers_are_no_evidence():
    assert collect_queue_age([a_state(oldestSeconds=90)], ("deployment",), NOW) == ()


def test_of_two_leaders_that_report_a_queue_the_later_report_counts():
    deposed, leader = a_state("a", age=30, oldestSeconds=90), a_state("b", age=5, oldestSeconds=0)

    assert collect_queue_age([deposed, leader], ("replicaset",), NOW) == ()
    assert collect_queue_age([leader, deposed], ("replicaset",), NOW) == ()


def test_an_old_report_says_nothing_about_the_present():
    assert collect_queue_age([a_state(age=300, oldestSeconds=90)], ("replicaset",), NOW) == ()


def test_errors_in_a_row_hold_a_rollout_and_a_single_one_does_not():
    one, many = (collect_controller_errors([a_state(errorsInARow=n)], ("replicaset",), NOW) for n in (1, 3))

    assert EvidenceResponse.PAUSE_ROLLOUT not in allowed(one)
    assert EvidenceResponse.PAUSE_ROLLOUT in allowed(many)
    assert collect_controller_errors([a_state(errorsInARow=0)], ("replicaset",), NOW) == ()


# Objects


def an_object(generation: int, observed: int | None) -> dict[str, object]:
    status = {} if observed is None else {"observedGeneration": observed}
    return {"metadata": {"name": "web", "generation": generation}, "status": status}


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0, Strength.HINT), (5, Strength.REPEATED), (60, Strength.SUSTAINED)]
)
def test_an_unobserved_generation_grows_stronger_with_time(seconds, expected):
    (found,) = collect_unobserved_generation(an_object(3, 2), NOW - timedelta(seconds=seconds), NOW)

    assert (found.strength, found.detail) == (expected, "observed generation 2 of 3")


def test_an_object_without_a_status_has_observed_nothing():
    assert collect_unobserved_generation(an_object(3, 3), None, NOW) == ()
    assert strengths(collect_unobserved_generation(an_object(1, None), None, NOW)) == [Strength.HINT]


def test_a_passed_deadline_is_read_from_the_condition():
    late = {
        "type": "Progressing",
        "status": "False",
        "reason": "ProgressDeadlineExceeded",
        "lastTransitionTime": ago(9),
    }
    workload = {"metadata": {"name": "web"}, "spec": {"progressDeadlineSeconds": 600}, "status": {"conditions": [late]}}

    (found,) = collect_rollout_deadline(workload)

    assert (found.since, found.detail) == (NOW - timedelta(seconds=9), "no progress for 600s")
    assert collect_rollout_deadline({**workload, "status": {}}) == ()


def an_slo(rate: str = "20.0", *, status: str = "True", generation: int = 1) -> dict[str, object]:
    said = {"type": "BudgetBurning", "status": status, "observedGeneration": 1, "lastTransitionTime": ago(60)}
    objective = {"type": "TimeToReady", "burn": {"5m": rate, "1h": "99.0"}}
    return {
        "metadata": {"name": "web-slo", "generation": generation},
        "status": {"targetUid": "new", "conditions": [said], "objectives": [objective]},
    }


@pytest.mark.parametrize(
    ("rate", "expected"), [("20.0", Strength.SUSTAINED), ("7.0", Strength.REPEATED), ("1.5", Strength.HINT)]
)
def test_a_budget_that_burns_pauses_rollouts_and_removes_nothing(rate, expected):
    found = collect_slo_burn([an_slo(rate)], "new")

    assert strengths(found) == [expected]
    assert EvidenceResponse.PAUSE_ROLLOUT in allowed(found)
    assert EvidenceResponse.REMOVE_REPLICAS not in allowed(found)


@pytest.mark.parametrize(
    ("slo", "target"),
    [
        (an_slo(), "another template"),
        (an_slo(generation=2), "new"),  # The objective has changed since.
        (an_slo(status="False"), "new"),
        (an_slo(status="Unknown"), "new"),
    ],
)
def test_a_burn_of_another_template_or_spec_is_no_evidence(slo, target):
    assert collect_slo_burn([slo], target) == ()


def test_a_pod_that_is_not_ready_loses_its_traffic_and_nothing_else():
    said = {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": ago(30)}
    pod = {"metadata": {"name": "web-1"}, "status": {"conditions": [said]}}

    may = allowed(collect_probe_transitions(pod))

    assert may.responses == (
        EvidenceResponse.PUBLISH_CONDITION,
        EvidenceResponse.READ_AGAIN,
        EvidenceResponse.STOP_TRAFFIC,
    )
    assert collect_probe_transitions({**pod, "status": {"conditions": [{**said, "status": "True"}]}}) == ()


def test_a_failed_probe_restarts_the_container_in_place_and_replaces_nothing():
    may = allowed(collect_failed_probe("main", "liveness probe"))

    assert EvidenceResponse.RESTART_CONTAINER in may
    assert not {EvidenceResponse.REPLACE_POD, EvidenceResponse.EVICT_FROM_NODE} & set(may.responses)


@pytest.mark.parametrize(("refusals", "is_slow"), [(1, False), (2, False), (3, True), (9, True)])
def test_bind_conflicts_lead_to_another_node_and_when_repeated_to_a_slower_pace(refusals, is_slow):
    may = allowed(collect_bind_conflicts("default/web-1", refusals, "CapacityChanged"))

    assert EvidenceResponse.CHOOSE_ANOTHER_NODE in may
    assert (EvidenceResponse.SLOW_DOWN in may) is is_slow


@pytest.mark.parametrize("is_fenced", [True, False])
def test_leadership_is_taken_only_from_a_holder_that_must_have_stopped(is_fenced):
    lease = {"metadata": {"name": "controllers"}, "spec": {"holderIdentity": "other"}}

    may = allowed(collect_lease_expiry(lease, is_fenced=is_fenced))

    assert (EvidenceResponse.TAKE_LEADERSHIP in may) is is_fenced


def test_evidence_is_described_with_the_strongest_first():
    weak = Evidence(
        Signal.QUEUE_AGE, Strength.HINT, Scope.CONTROLLER, "replicaset", detail="oldest key 6s in the queue"
    )
    strong = Evidence(Signal.ROLLOUT_DEADLINE, Strength.REPEATED, Scope.WORKLOAD, "web", NOW)

    assert describe_evidence([weak, strong]) == (
        "RolloutDeadline (repeated) of workload web since 2026-03-01T12:00:00Z; "
        "QueueAge (hint) of controller replicaset: oldest key 6s in the queue"
    )


# Every row of the table


COLLECTED = {
    Signal.MISSED_HEARTBEATS: ("controllers/node_health/evidence.py", "controllers/node_health/decide.py"),
    Signal.API_TIMEOUTS: ("controllers/node_health/loop.py", "controllers/node_health/decide.py"),
    Signal.WATCH_DISCONNECTS: ("controllers/node_health/loop.py", "controllers/node_health/decide.py"),
    Signal.PROBE_TRANSITIONS: ("loop/signals.py", "controllers/endpoints/routes.py"),
    Signal.LEASE_EXPIRY: ("loop/signals.py", "loop/lease.py"),
    Signal.QUEUE_AGE: ("loop/signals.py", "controllers/deployment/expansion.py"),
    Signal.BIND_CONFLICTS: ("loop/signals.py", "scheduler/bindings.py"),
    Signal.CONTROLLER_ERRORS: ("loop/signals.py", "controllers/deployment/expansion.py"),
    Signal.GENERATION_NOT_OBSERVED: ("loop/signals.py", "controllers/deployment/expansion.py"),
    Signal.ROLLOUT_DEADLINE: ("loop/signals.py", "controllers/deployment/controller.py"),
    Signal.SLO_BURN: ("loop/signals.py", "controllers/deployment/controller.py"),
}
"""For each signal, where it becomes evidence, and one module that asks the table with it."""
OWN_DOUBTS = "own"
"""What node health calls the evidence about itself, which its loop collects and its snapshot carries."""


@pytest.mark.parametrize("signal", Signal)
def test_every_signal_is_collected_somewhere_and_some_component_asks_the_table_with_it(signal):
    root = Path(mainstay.__file__).parent
    collector, asking = (ast.parse((root / path).read_text()) for path in COLLECTED[signal])
    functions = [each for each in ast.walk(collector) if isinstance(each, ast.FunctionDef)]
    makers = {each.name for each in functions if f"Signal.{signal.name}" in ast.unparse(each)}
    calls = [each for each in ast.walk(asking) if isinstance(each, ast.Call) and isinstance(each.func, ast.Name)]
    names = {each.func.id for each in calls if isinstance(each.func, ast.Name)}
    asked_with = [ast.unparse(each) for each in calls if ast.unparse(each.func) == "allowed"]

    assert makers
    assert asked_with
    assert makers & names or any(f"*{OWN_DOUBTS}" in each for each in asked_with)
