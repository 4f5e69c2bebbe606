"""The situation of the text, played in a whole simulated cluster: `risk-api`, generation 42, 00:00 to 00:10."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial

from mainstay.api.kind_names import DEPLOYMENTS, PODS
from mainstay.env import Env, tasks
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.loop.component import Component, ComponentSettings
from mainstay.scenarios import _risk
from mainstay.sim.cluster.cluster import LEASE, Cluster, NodeOptions, whole_cluster
from mainstay.sim.simulation import Simulation
from tests.explain.low_readiness import AUTOSCALER, LowReadinessScaler

NODES = {name: NodeOptions(zone=zone) for name, zone in _risk.ZONES.items()}


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


@asynccontextmanager
async def risk_cluster(sim: Simulation) -> AsyncIterator[Cluster]:
    """All that there is before 00:00: six of six replicas are ready, in generation 41."""
    async with whole_cluster(sim, nodes=NODES) as cluster:
        world, client = cluster.world, cluster.client
        program = world.add_program(AUTOSCALER, partial(_scale, cluster))
        program.start()
        world.know(_risk.QUOTA_CONTROLLER)
        await _risk.set_up(client)
        await until_ready(cluster, 2)
        await client.create(DEPLOYMENTS, _risk.risk_api(_risk.READY_AT_FIRST))
        await until_ready(cluster, 2 + _risk.READY_AT_FIRST)
        for number in range(40):
            await client.patch(DEPLOYMENTS, _risk.NAME, _risk.TENANT, {"spec": {"revisionHistoryLimit": 11 + number}})
        await tasks.sleep(seconds(20))
        yield cluster


async def the_text(cluster: Cluster) -> datetime:
    """From 00:00 to 00:10. Returns when it began."""
    world, client = cluster.world, cluster.client
    began = world.sim.get_clock("store").wall()
    quota_watch = _risk.build_quota_watch(world)
    assert quota_watch.hold() == 1
    await client.patch(DEPLOYMENTS, _risk.NAME, _risk.TENANT, {"spec": {"replicas": _risk.WANTED}})
    await tasks.sleep(seconds(7))
    await free_capacity(cluster)
    await tasks.sleep(seconds(2))
    quota_watch.release()
    await tasks.sleep(seconds(30))
    return began


async def free_capacity(cluster: Cluster) -> int:
    """As the quota controller. Returns the revision."""
    sim = cluster.world.sim
    async with cluster.world.client_for(_risk.QUOTA_CONTROLLER, sim.env(_risk.QUOTA_CONTROLLER)) as client:
        return int((await _risk.free_capacity(client))["metadata"]["resourceVersion"])


async def until_ready(cluster: Cluster, count: int) -> None:
    ready: list[object] = []
    for _ in range(600):
        pods = (await cluster.client.list(PODS, _risk.TENANT)).items
        ready = [
            each
            for each in pods
            for condition in (each.get("status") or {}).get("conditions") or ()
            if condition["type"] == "Ready" and condition["status"] == "True"
        ]
        if len(ready) >= count:
            return
        await tasks.sleep(seconds(0.5))
    raise AssertionError(f"{count} pods should be ready, and {len(ready)} are")


async def _scale(cluster: Cluster, env: Env) -> None:
    async with cluster.world.client_for(AUTOSCALER, env) as client:
        component = Component(
            AUTOSCALER,
            [LowReadinessScaler()],
            client,
            env,
            instance=AUTOSCALER,
            elected=False,
            settings=ComponentSettings(lease=LEASE),
            recorder=cluster.world.recorder,
        )
        await component.run()


def played(play: Callable[[Cluster], Awaitable[object]], seed: int = 1) -> MemoryJournal:
    """What is in the journal after something was played in the cluster of the text."""

    async def run() -> MemoryJournal:
        async with risk_cluster(simulation) as cluster:
            await play(cluster)
            return cluster.journal

    with Simulation(seed) as simulation:
        return simulation.run(run())
