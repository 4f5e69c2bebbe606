"""The debug view shows the signals behind a verdict, what they allow and what not."""

from datetime import UTC, datetime, timedelta
from typing import Any

from mainstay.api.kind_names import DEPLOYMENTS, SERVICES
from mainstay.api.node_health import HEALTH, NodeHealthRecord, render_record
from mainstay.api.times import format_time
from mainstay.explain.debug.evidence import (
    collect_about_pods,
    collect_about_workload,
    read_node_evidence,
    view_evidence,
)
from mainstay.explain.debug.text import debug_text
from mainstay.explain.debug.view import DebugFinding, DebugView, EvidenceView, ReplicaCounts
from mainstay.explain.story.lines import StoryObject
from mainstay.loop.evidence import TABLE, Signal

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
