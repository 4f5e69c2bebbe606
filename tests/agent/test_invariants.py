"""What an agent checks of itself while it works. Each check is broken here once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mainstay.agent.node.pods import Pods
from mainstay.agent.pod.plan import StartContainer
from mainstay.agent.pod.worker import PodWorker
from mainstay.api.kind_names import PODS
from mainstay.env import tasks
from mainstay.env.invariants import BrokenInvariant, find_broken
from mainstay.sim.simulation import Simulation
from tests.agent.cluster import a_cluster, a_pod, an_agent, seconds


@asynccontextmanager
async def a_node_with_a_pod(sim: Simulation, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Pods, PodWorker]]:
    """The pods of an agent, and the worker of the one that runs there."""
    found: list[Pods] = []
    honest = Pods.run

    async def run(self: Pods) -> None:
        found.append(self)
        await honest(self)

    monkeypatch.setattr(Pods, "run", run)
    async with a_cluster(sim, "node-0", settings=an_agent()) as (_, client):
        await client.create(PODS, a_pod("one"), "default")
        await tasks.sleep(seconds(5))
        [pods] = found
        [worker] = pods._workers.values()
        yield pods, worker


async def test_a_pod_does_not_get_a_second_worker(sim: Simulation, monkeypatch: pytest.MonkeyPatch):
    async with a_node_with_a_pod(sim, monkeypatch) as (pods, worker):
        del pods._workers[worker.uid]
        with pytest.raises(BrokenInvariant, match="a pod has one worker: pod default/one"):
            pods.seen(pods._entries()[0])
        pods._workers[worker.uid] = worker

        assert find_broken() is not None


async def test_a_worker_that_is_not_that_of_its_pod_does_not_end_for_it(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch
):
    async with a_node_with_a_pod(sim, monkeypatch) as (pods, worker):
        with pytest.raises(BrokenInvariant, match="a pod has one worker: pod default/one"):
            pods._over(PodWorker(pods._entries()[0], pods._home))
        pods._workers[worker.uid] = worker


async def test_a_second_attempt_is_not_started_beside_the_first(sim: Simulation, monkeypatch: pytest.MonkeyPatch):
    async with a_node_with_a_pod(sim, monkeypatch) as (_, worker):
        with pytest.raises(BrokenInvariant, match="one attempt of a container runs at a time: pod") as raised:
            await worker._start(StartContainer("c", 1))

        assert "attempt=0" in raised.value.story
