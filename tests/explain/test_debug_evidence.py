"""The debug view shows the signals behind a verdict, what they allow and what not."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainstay.api.kind_names import DEPLOYMENTS, SERVICES
from mainstay.api.node_health import HEALTH, NodeHealthRecord, render_record
from mainstay.api.object_key import ObjectKey
from mainstay.api.times import format_time
from mainstay.controllers.deployment.expansion import RolloutMemory, UnobservedSet, collect_about_sets, find_pause
from mainstay.explain.debug.evidence import (
    collect_about_placement,
    collect_about_pods,
    collect_about_workload,
    find_unobserved_since,
    read_node_evidence,
    view_evidence,
)
from mainstay.explain.debug.text import debug_text
from mainstay.explain.debug.view import DebugFinding, DebugView, EvidenceView, ReplicaCounts
from mainstay.explain.story.lines import StoryObject
from mainstay.explain.writers import Version, Who
from mainstay.journal.record import DecisionRecord, Ending, Outcome, Subject
from mainstay.loop.evidence import TABLE, Signal
from mainstay.registry import REGISTRY

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
STATE = {
    "metadata": {"name": "controllers-0"},
    "status": {"observedAt": format_time(NOON), "queues": [{"name": "replicaset", "oldestSeconds": 75}]},
}


def a_deployment(generation: int, observed: int) -> dict[str, Any]:
    return {
        "metadata": {"name": "web", "generation": generation},
        "spec": {},
        "status": {"observedGeneration": observed},
    }


def test_reports_of_the_controllers_that_have_to_act_are_shown_with_what_they_allow():
    found = view_evidence(collect_about_workload(DEPLOYMENTS, a_deployment(2, 2), (), [STATE], (), NOON))

    assert found == (
        EvidenceView(
            signal="QueueAge",
            strength="sustained",
            about="controller replicaset",
            since=NOON - timedelta(seconds=75),
            detail="oldest key 75s in the queue",
            allows=("SlowDown", "PauseRollout"),
            never=TABLE[Signal.QUEUE_AGE].may_not,
        ),
    )
    assert view_evidence(collect_about_workload(SERVICES, a_deployment(2, 2), (), [STATE], (), NOON)) == ()


def test_a_generation_that_is_not_observed_is_shown_for_the_workload_and_its_sets():
    replica_set = {"metadata": {"name": "web-1", "generation": 4}, "status": {"observedGeneration": 3}}

    found = collect_about_workload(DEPLOYMENTS, a_deployment(2, 1), [replica_set], (), (), NOON)

    assert [(each.name, each.detail) for each in found] == [
        ("web", "observed generation 1 of 2"),
        ("web-1", "observed generation 3 of 4"),
    ]


def a_version(generation: int, at: datetime, uid: str = "new") -> Version:
    after = {"metadata": {"name": "web-1", "uid": uid, "generation": generation}}
    key = ObjectKey("default", "web-1")
    return Version("replicasets.apps", key, generation, at, None, after, Who(name="deployment"), "")


@pytest.mark.parametrize(("seconds", "strength"), [(1, "hint"), (20, "repeated"), (90, "sustained")])
def test_a_generation_is_unobserved_since_the_journal_has_it_and_pauses_a_rollout_when_the_controller_does(
    seconds, strength
):
    replica_set = {"metadata": {"name": "web-1", "uid": "new", "generation": 4}, "status": {"observedGeneration": 3}}
    since = NOON - timedelta(seconds=seconds)
    earlier = NOON - timedelta(hours=1)
    versions = [a_version(4, earlier, uid="old"), a_version(3, earlier), a_version(4, since), a_version(4, NOON)]

    found = find_unobserved_since(replica_set, versions)
    assert found == since
    memory = RolloutMemory((UnobservedSet("web-1", 4, since),))
    [seen] = view_evidence(
        collect_about_workload(
            DEPLOYMENTS, a_deployment(2, 2), [replica_set], (), (), NOON, unobserved_since={"new": found}
        )
    )

    assert (seen.strength, seen.since) == (strength, since)
    is_paused = find_pause(collect_about_sets([replica_set], memory, NOON)) is not None
    assert ("PauseRollout" in seen.allows) is is_paused


def test_the_burn_of_the_present_template_is_shown_and_that_of_an_earlier_one_is_not():
    burning = {"type": "BudgetBurning", "status": "True", "reason": "BurnRateHigh", "observedGeneration": 1}
    objectives = [{"type": "TimeToReady", "burn": {"5m": "8.0", "1h": "7.0"}}]
    slo = {
        "metadata": {"name": "web", "generation": 1},
        "status": {"targetUid": "new", "conditions": [burning], "objectives": objectives},
    }

    def show(set_uid: str) -> list[tuple[str, str]]:
        found = collect_about_workload(DEPLOYMENTS, a_deployment(2, 2), (), (), (slo,), NOON, set_uid=set_uid)
        return [(each.signal, each.strength) for each in view_evidence(found)]

    assert show("new") == [("SloBurn", "repeated")]
    assert show("newer") == show("") == []


def test_the_current_set_of_a_deployment_is_the_one_of_its_template():
    deployment = {"metadata": {"name": "web"}, "spec": {"template": {"spec": {"x": 2}}}}
    sets = [
        {"metadata": {"name": f"web-{n}", "uid": f"uid-{n}"}, "spec": {"template": {"spec": {"x": n}}}} for n in (1, 2)
    ]
    room = REGISTRY.debug(DEPLOYMENTS)
    assert room is not None

    assert room.find_current_set(deployment, sets) == sets[1]
    assert room.find_current_set(deployment, sets[:1]) is None


def a_record(reason: str) -> DecisionRecord:
    subject = Subject("pods", "default", "web-1-a", "uid-a")
    return DecisionRecord("scheduler-1", 0, "scheduler", "", subject, Outcome(Ending.RETRY, reason))


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        (["CapacityChanged", "Stale"], [("hint", "2 refused in a row, last Stale")]),
        (["Stale", "PortTaken", "CapacityChanged"], [("repeated", "3 refused in a row, last CapacityChanged")]),
        (["Stale", "Unschedulable", "Stale"], [("hint", "Stale")]),
        (["Stale", "Unschedulable"], []),
        (["Stale", "AlreadyBound"], []),
    ],
)
def test_refused_bindings_in_a_row_are_shown_from_the_records_of_a_pod(reasons, expected):
    pod = {"metadata": {"name": "web-1-a"}}

    found = view_evidence(collect_about_placement(pod, [a_record(each) for each in reasons]))

    assert [(each.strength, each.detail) for each in found] == expected
    assert all((each.signal, each.about) == ("BindConflicts", "pod web-1-a") for each in found)


def test_pods_that_are_not_ready_on_a_node_are_shown_and_those_without_one_are_not():
    def a_pod(name: str, node: str) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": {"nodeName": node} if node else {}, "status": {"phase": "Running"}}

    found = view_evidence(collect_about_pods([a_pod("a", "n1"), a_pod("b", "")]))

    assert [(each.signal, each.about, each.allows) for each in found] == [
        ("ProbeTransitions", "pod a", ("ReadAgain", "StopTraffic"))
    ]


def test_what_node_health_has_written_down_is_shown():
    record = NodeHealthRecord("Unknown", format_time(NOON), ("MissedHeartbeats sustained", "silent for more than 40s"))
    node = {"metadata": {"name": "b7", "annotations": {HEALTH: render_record(record)}}}

    (found,) = view_evidence(read_node_evidence(node))

    assert (found.signal, found.strength, found.about, found.since) == (
        "MissedHeartbeats",
        "sustained",
        "node b7",
        NOON,
    )
    assert "EvictFromNode" in found.allows
    assert read_node_evidence({"metadata": {"name": "b7"}}) == ()


def test_the_text_names_the_signal_what_was_measured_and_what_it_allows():
    view = DebugView(
        about=StoryObject("deployments.apps", "web", "default"),
        at=NOON,
        counts=ReplicaCounts(desired=3, ready=3, pending=0),
        finding=DebugFinding.COMPLETE,
        cause="",
        next="",
        evidence=view_evidence(collect_about_workload(DEPLOYMENTS, a_deployment(2, 2), (), [STATE], (), NOON)),
    )

    lines = [each.strip() for each in debug_text(view)]

    assert any(
        each.endswith("QueueAge (sustained) of controller replicaset since 11:58:45: oldest key 75s in the queue")
        for each in lines
    )
    assert any(each.startswith("allows SlowDown, PauseRollout; keys that wait for long") for each in lines)
