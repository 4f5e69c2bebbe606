"""What the checkers of pods' time accept, and what they say at once: deadlines, and how long taints are tolerated."""

from datetime import timedelta
from typing import Any

import pytest

from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.deadlines import DeadlineChecker
from mainstay.sim.checkers.patient import PatientEviction
from mainstay.sim.cluster.history import ContainerEnded, ContainerStarted
from tests.sim.test_checkers_worlds import SECOND, Past

FLAKY = {"key": "example.dev/flaky", "effect": "NoExecute"}


def a_pod(*, deadline_s: int | None = None, is_leaving: bool = False) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "default", "uid": "u"}
    tolerations = [{**FLAKY, "operator": "Exists", "tolerationSeconds": 300}]
    spec: dict[str, Any] = {"nodeName": "n", "tolerations": tolerations}
    if deadline_s is not None:
        spec["activeDeadlineSeconds"] = deadline_s
    if is_leaving:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": metadata, "spec": spec, "status": {"startTime": "2026-01-01T00:00:00Z"}}


def started(at: float) -> ContainerStarted:
    return ContainerStarted(int(at * SECOND), "n", "default/p", "u", "main", 0, False)


def ended(at: float) -> ContainerEnded:
    return ContainerEnded(int(at * SECOND), "n", "default/p", "u", "main", 0, "Completed")


@pytest.mark.parametrize(("set_at", "ended_at", "is_late"), [(0, 65, False), (0, 100, True), (200, 210, False)])
def test_a_pod_has_its_deadline_from_its_start_and_a_moment_to_end(set_at: float, ended_at: float, is_late: bool):
    past = Past(DeadlineChecker())
    past.put("Pod", a_pod(), at=0)
    past.see(started(0))
    past.put("Pod", a_pod(deadline_s=60), at=set_at)

    if is_late:
        with pytest.raises(Violated, match="default/p has run for longer than it may"):
            past.see(ended(ended_at))
    else:
        past.see(ended(ended_at))


async def test_a_pod_that_runs_past_its_deadline_at_the_end_is_found():
    past = Past(DeadlineChecker())
    past.put("Pod", a_pod(deadline_s=60))
    past.see(started(0))

    with pytest.raises(Violated, match="still runs at the end"):
        await past.end()


@pytest.mark.parametrize(("evicted_at", "is_early"), [(1300, False), (1010, True)])
def test_a_pod_has_its_whole_time_when_its_node_is_tainted_again(evicted_at: float, is_early: bool):
    past = Past(PatientEviction(timedelta(seconds=40)))
    past.put("Pod", a_pod())
    for at, taints in ((0, []), (100, [FLAKY]), (200, []), (1000, [FLAKY])):
        past.put("Node", {"metadata": {"name": "n"}, "spec": {"taints": taints}}, at=at)

    if is_early:
        with pytest.raises(Violated, match="p is evicted although it still tolerates"):
            past.put("Pod", a_pod(is_leaving=True), at=evicted_at)
    else:
        past.put("Pod", a_pod(is_leaving=True), at=evicted_at)
