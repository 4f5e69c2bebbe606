"""How long pods take from stage to stage, by the clock of who hears of it."""

from datetime import timedelta
from typing import Any

import msgspec

from mainstay.api.kind import Object
from mainstay.api.kind_names import PODS
from mainstay.api.object_key import ObjectKey
from mainstay.api.stages import SERVING_CONDITION, PodStage
from mainstay.api.times import format_micro_time, parse_time
from mainstay.client.entry import CachedObject, Change, ChangeType
from mainstay.controllers.pods.stage_durations import StageDurations
from mainstay.env import tasks
from mainstay.sim.simulation import Simulation

CREATED = "2026-01-01T00:00:00Z"
START = parse_time(CREATED)


def a_pod(*conditions: str, node: str = "", started: bool = False, leaving: bool = False) -> Object:
    status: dict[str, Any] = {"conditions": [{"type": each, "status": "True"} for each in conditions]}
    if started:
        status["startTime"] = CREATED
    metadata: dict[str, Any] = {"name": "web", "namespace": "shop", "uid": "u-1", "creationTimestamp": CREATED}
    if leaving:
        metadata["deletionTimestamp"] = CREATED
    return {"metadata": metadata, "spec": {"nodeName": node} if node else {}, "status": status}


QUEUED, BOUND = a_pod(), a_pod("PodScheduled", node="n1")
STARTING = a_pod("PodScheduled", node="n1", started=True)
READY = a_pod("PodScheduled", "Ready", node="n1", started=True)
SERVING = a_pod("PodScheduled", "Ready", SERVING_CONDITION, node="n1", started=True)


def entry(pod: Object | None) -> CachedObject | None:
    return None if pod is None else CachedObject(ObjectKey("shop", "web"), "u-1", 1, msgspec.json.encode(pod))


def change(old: Object | None, new: Object | None) -> Change:
    return Change(PODS, ObjectKey("shop", "web"), ChangeType.MODIFIED, entry(old), entry(new), 1)


async def told(sim: Simulation, *steps: tuple[float, Object | None]) -> StageDurations:
    """Each pod comes so many seconds after the one before."""
    durations = StageDurations(sim.get_clock("controllers"))
    before: Object | None = None
    for seconds, pod in steps:
        await tasks.sleep(timedelta(seconds=seconds))
        durations.changed(change(before, pod))
        before = pod
    return durations


def counted(durations: StageDurations) -> dict[PodStage, tuple[int, float]]:
    return {stage: (each.count, round(each.total_s, 3)) for stage, each in durations.durations.items() if each.count}


async def test_each_stage_is_measured_when_the_next_one_begins(sim: Simulation):
    durations = await told(sim, (0, QUEUED), (2, BOUND), (1, STARTING), (4, READY), (0.5, SERVING))

    assert counted(durations) == {
        PodStage.QUEUED: (1, 2.0),
        PodStage.BOUND: (1, 1.0),
        PodStage.STARTING: (1, 4.0),
        PodStage.READY: (1, 0.5),
    }


def chosen(seconds: float) -> Object:
    """A pod that is bound, whose node was chosen so many seconds after the simulation began."""
    pod = a_pod("PodScheduled", node="n1")
    at = START + timedelta(seconds=seconds)
    pod["status"]["conditions"][0]["scheduledAt"] = format_micro_time(at)
    return pod


async def test_the_time_of_the_binding_is_measured_from_when_the_node_was_chosen(sim: Simulation):
    durations = await told(sim, (0, QUEUED), (2, chosen(1.75)), (1, STARTING))

    assert counted(durations) == {
        PodStage.QUEUED: (1, 1.75),
        PodStage.SCHEDULED: (1, 0.25),
        PodStage.BOUND: (1, 1.0),
    }


async def test_a_scheduler_with_another_time_makes_no_stage_longer_than_it_was_or_less_than_nothing(sim: Simulation):
    early = await told(sim, (0, QUEUED), (2, chosen(-60)))
    late = await told(sim, (0, QUEUED), (2, chosen(60)))

    assert counted(early) == {PodStage.QUEUED: (1, 0.0), PodStage.SCHEDULED: (1, 2.0)}
    assert counted(late) == {PodStage.QUEUED: (1, 2.0), PodStage.SCHEDULED: (1, 0.0)}


async def test_stages_that_were_not_seen_are_not_made_up(sim: Simulation):
    durations = await told(sim, (0, QUEUED), (3, READY))

    assert counted(durations) == {PodStage.QUEUED: (1, 3.0)}


async def test_a_pod_that_was_there_before_is_not_measured(sim: Simulation):
    durations = await told(sim, (0, BOUND), (3, READY))

    assert counted(durations) == {}


async def test_a_pod_that_stops_being_ready_is_not_counted_again(sim: Simulation):
    durations = await told(sim, (0, QUEUED), (1, READY), (1, STARTING), (1, READY))

    assert counted(durations) == {PodStage.QUEUED: (1, 1.0)}


async def test_a_late_pod_burns_the_budget_of_its_objective(sim: Simulation):
    durations = await told(sim, (0, QUEUED), (6, BOUND), (1, STARTING), (1, READY))

    now_ns = durations.now_ns()
    assert round(durations.burns[PodStage.BOUND].rate(timedelta(minutes=5), now_ns), 6) == 100
    assert durations.burns[PodStage.READY].rate(timedelta(minutes=5), now_ns) == 0


async def test_pods_that_are_gone_are_forgotten(sim: Simulation):
    durations = await told(sim, (0, QUEUED), (1, a_pod(leaving=True)), (1, None))

    assert durations._pods == {}
