"""Writes are said in words: what is wanted, what has become of pods, and what only reports is marked as such."""

from typing import Any

import pytest

from mainstay.explain.fields import differences
from mainstay.explain.words import RESTART, VERDICT, LineKind, made, said


def words(kind: str, before: dict[str, Any], after: dict[str, Any]) -> list[tuple[LineKind, str]]:
    return [(each.what, each.text) for each in said(kind, differences(before, after)) if not each.is_detail]


@pytest.mark.parametrize(
    ("kind", "before", "after", "text"),
    [
        ("deployments.apps", {"spec": {"replicas": 6}}, {"spec": {"replicas": 8}}, "desired replicas 6 → 8"),
        ("nodes", {"spec": {}}, {"spec": {"unschedulable": True}}, "is cordoned"),
        ("nodes", {"spec": {"unschedulable": True}}, {"spec": {}}, "is uncordoned"),
        (
            "nodes",
            {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}},
            {"spec": {"taints": [{"key": "b", "value": "1", "effect": "NoExecute"}]}},
            "taint b=1:NoExecute added",
        ),
        (
            "zonequotas.mainstay.dev",
            {"spec": {"hard": {"cpu": "2"}}},
            {"spec": {"hard": {"cpu": "4"}}},
            "limit of cpu 2 → 4",
        ),
        ("pods", {"spec": {}}, {"spec": {"nodeName": "node-c12"}}, "is bound to node-c12"),
        ("pods", {"metadata": {}}, {"metadata": {"deletionTimestamp": "x"}}, "is marked for deletion"),
        (
            "deployments.apps",
            {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "x:1"}]}}}},
            {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "x:2"}]}}}},
            "image of main x:1 → x:2",
        ),
        (
            "pods",
            {"metadata": {"finalizers": ["a"]}},
            {"metadata": {"finalizers": ["b"]}},
            "finalizer b added, finalizer a removed",
        ),
        ("pods", {"metadata": {"labels": {"a": "1"}}}, {"metadata": {"labels": {"a": "2"}}}, "label a 1 → 2"),
        (
            "pods",
            {"status": {"containerStatuses": [{"name": "main", "restartCount": 1}]}},
            {"status": {"containerStatuses": [{"name": "main", "restartCount": 2}]}},
            "container main restarted (restart 2)",
        ),
        (
            "pods",
            {"status": {"containerStatuses": [{"name": "main", "state": {"running": {}}}]}},
            {
                "status": {
                    "containerStatuses": [
                        {"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such"}}}
                    ]
                }
            },
            "container main is waiting: ImagePullBackOff: no such",
        ),
    ],
)
def test_a_write_in_words(kind: str, before: dict[str, Any], after: dict[str, Any], text: str):
    assert text in [said for _, found in words(kind, before, after) for said in found.split(", taint a")]


def test_a_condition_is_told_once_with_both_values_and_its_reason():
    before = {"status": {"conditions": [{"type": "Available", "status": "True", "reason": "Enough"}]}}
    changed = {"type": "Available", "status": "False", "reason": "TooFew", "message": "3 of 5", "lastUpdateTime": "x"}

    assert words("deployments.apps", before, {"status": {"conditions": [changed]}}) == [
        (LineKind.CONDITION, "Available True → False (TooFew): 3 of 5")
    ]


def test_a_pod_that_runs_and_is_ready_says_so_in_its_own_words():
    before = {"status": {"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}]}}
    after = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}

    assert words("pods", before, after) == [(LineKind.READY, "is ready"), (LineKind.STARTED, "is running")]


def test_counts_and_times_of_a_status_are_details():
    before = {"status": {"readyReplicas": 1, "observedGeneration": 1}}
    after = {"status": {"readyReplicas": 2, "observedGeneration": 2}}

    assert words("deployments.apps", before, after) == []
    assert len(said("deployments.apps", differences(before, after))) == 2


def test_what_was_made_says_what_matters_of_it_at_once():
    assert made("deployments.apps", {"spec": {"replicas": 3}}).text == "created with 3 desired replicas"
    assert made("deployments.apps", {"spec": {"replicas": 1}}).text == "created with 1 desired replica"
    assert made("pods", {"spec": {"nodeName": "n1"}}).text == "created for n1"
    assert made("zonequotas.mainstay.dev", {"spec": {"hard": {"cpu": "2"}}}).text == "created with limits: cpu 2"


@pytest.mark.parametrize(
    ("kind", "before", "after", "topic"),
    [
        (
            "pods",
            {"status": {"containerStatuses": [{"name": "main", "restartCount": 1}]}},
            {"status": {"containerStatuses": [{"name": "main", "restartCount": 2}]}},
            RESTART,
        ),
        (
            "pods",
            {"status": {"conditions": [{"type": "ContainersReady", "status": "True"}]}},
            {"status": {"conditions": [{"type": "ContainersReady", "status": "False"}]}},
            "ContainersReady",
        ),
        (
            "deployments.apps",
            {"status": {"progress": {"verdict": "progressing"}}},
            {"status": {"progress": {"verdict": "stuck"}}},
            VERDICT,
        ),
        ("deployments.apps", {"spec": {"replicas": 6}}, {"spec": {"replicas": 8}}, ""),
    ],
)
def test_a_line_says_what_it_is_about_for_code_that_arranges_lines(
    kind: str, before: dict[str, Any], after: dict[str, Any], topic: str
):
    assert [each.topic for each in said(kind, differences(before, after))] == [topic]
