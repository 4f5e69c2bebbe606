"""How far a pod has come."""

from typing import Any

import pytest

from mainstay.api.kind import Object
from mainstay.api.stages import SERVING_CONDITION, PodStage, find_scheduled_at, find_stage
from mainstay.api.times import parse_time


def at(second: int) -> str:
    return f"2026-11-16T12:00:{second:02}Z"


def a_pod(spec: Object | None = None, conditions: dict[str, tuple[str, int]] | None = None, **status: Any) -> Object:
    """`conditions`: by type, the status and the second since when."""
    listed = [
        {"type": kind, "status": holds, "lastTransitionTime": at(second)}
        for kind, (holds, second) in (conditions or {}).items()
    ]
    return {
        "metadata": {"name": "p", "creationTimestamp": at(0)},
        "spec": spec or {},
        "status": {"phase": "Pending", "conditions": listed, **status},
    }


BOUND = {"nodeName": "n"}
SCHEDULED = {"PodScheduled": ("True", 2)}


@pytest.mark.parametrize(
    ("pod", "stage", "second"),
    [
        (a_pod({"schedulingGates": [{"name": "g"}]}), PodStage.ADMITTED, 0),
        (a_pod(), PodStage.QUEUED, 0),
        (a_pod({}, {"PodScheduled": ("False", 1)}), PodStage.QUEUED, 0),
        (a_pod({}, {"PodScheduled": ("False", 1)}, nominatedNodeName="n"), PodStage.SCHEDULED, 1),
        (a_pod({}, {"SchedulingRetrying": ("True", 4)}), PodStage.SCHEDULED, 4),
        (a_pod({}, {"SchedulingRetrying": ("False", 4)}), PodStage.QUEUED, 0),
        (a_pod(BOUND, SCHEDULED), PodStage.BOUND, 2),
        (a_pod(BOUND, SCHEDULED, startTime=at(3)), PodStage.STARTING, 3),
        (a_pod(BOUND, {**SCHEDULED, "Ready": ("False", 3)}, startTime=at(3)), PodStage.STARTING, 3),
        (a_pod(BOUND, {**SCHEDULED, "Ready": ("True", 5)}, startTime=at(3)), PodStage.READY, 5),
        (a_pod(BOUND, {"Ready": ("True", 5), SERVING_CONDITION: ("True", 6)}, startTime=at(3)), PodStage.SERVING, 6),
        # It was ready, and is not any more: it is starting again, since then.
        (a_pod(BOUND, {"Ready": ("False", 9), SERVING_CONDITION: ("True", 6)}, startTime=at(3)), PodStage.STARTING, 9),
        # It was served before, and is ready again: what was said of it then is said of it now.
        (a_pod(BOUND, {"Ready": ("True", 9), SERVING_CONDITION: ("True", 6)}, startTime=at(3)), PodStage.SERVING, 9),
    ],
)
def test_a_pod_is_in_the_last_stage_that_was_recorded(pod: Object, stage: PodStage, second: int):
    assert find_stage(pod) == (stage, parse_time(at(second)))


def test_a_pod_whose_binding_has_no_answer_is_scheduled_since_its_node_was_chosen():
    pod = a_pod({}, {"SchedulingRetrying": ("True", 4)})
    pod["status"]["conditions"][0]["scheduledAt"] = at(3)

    assert find_stage(pod) == (PodStage.SCHEDULED, parse_time(at(3)))


def test_a_bound_pod_says_when_its_node_was_chosen_if_its_scheduler_did():
    pod = a_pod(BOUND, SCHEDULED)
    assert find_scheduled_at(pod) is None
    pod["status"]["conditions"][0]["scheduledAt"] = at(1)

    assert find_scheduled_at(pod) == parse_time(at(1))
    assert find_scheduled_at(a_pod({}, {"PodScheduled": ("False", 1)})) is None


def test_a_pod_that_is_over_or_on_its_way_out_has_no_stage():
    gone = a_pod(BOUND, SCHEDULED)
    gone["metadata"]["deletionTimestamp"] = at(9)

    assert find_stage(gone) is None
    assert find_stage(a_pod(BOUND, SCHEDULED, phase="Succeeded")) is None
