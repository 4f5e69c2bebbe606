"""A small cluster in which a policy bounds a skew, recorded: for tests that compare candidates with it."""

import asyncio
from datetime import timedelta
from typing import Any

from mainstay.api.kind import Object
from mainstay.api.kind_names import NODES, PLACEMENT_POLICIES, PODS
from mainstay.api.well_known_labels import ZONE_LABEL
from mainstay.env import tasks
from mainstay.journal.bundle import packed
from mainstay.journal.bundle_contents import gathered
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.scenarios._schedulers import a_pod, add_node, resize_node
from mainstay.scheduler.why.placement import rests_on
from mainstay.sim.cluster.cluster import whole_cluster
from mainstay.sim.simulation import Simulation

API_SCOPE: Object = {"selector": {"matchLabels": {"app": "api"}}}


def a_policy(name: str, **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"policyVersion": name, **spec}}


def an_owned_pod(name: str, app: str) -> Object:
    pod = a_pod(name, cpu="1", memory="1Gi")
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": f"uid-{app}", "controller": True}
    pod["metadata"] |= {"labels": {"app": app}, "ownerReferences": [owner]}
    return pod


async def live(sim: Simulation) -> tuple[MemoryJournal, bytes]:
    """Eight pods of `api`, whose policy allows a skew of 2 over three zones of which one has room for one pod: seven
    are placed, and one waits. Then four pods of `batch` at once, by the default. The journal, and a bundle of it."""
    async with whole_cluster(sim, nodes=0, controllers=0, checkers=[]) as cluster:
        client, began = cluster.client, sim.clock.wall()
        for zone, cpu in {"a": "8", "b": "8", "c": "1"}.items():
            await add_node(client, f"node-{zone}", cpu=cpu, memory="32Gi")
            await client.patch(NODES, f"node-{zone}", "", {"metadata": {"labels": {ZONE_LABEL: zone}}})
        await client.create(PLACEMENT_POLICIES, a_policy("api-v1", active=True, scope=API_SCOPE, maxZoneSkew=2))
        await tasks.sleep(timedelta(seconds=2))
        for number in range(8):
            await client.create(PODS, an_owned_pod(f"api-{number}", "api"))
            await tasks.sleep(timedelta(milliseconds=500))
        await asyncio.gather(*(client.create(PODS, an_owned_pod(f"batch-{number}", "batch")) for number in range(4)))
        await tasks.sleep(timedelta(seconds=2))
        now = sim.clock.wall()
        contents = await gathered(cluster.journal, since=began, build="", made_at=now, rests_on=rests_on)
        return cluster.journal, b"".join(packed(contents))


async def live_with_rejections(sim: Simulation) -> MemoryJournal:
    """A node shrinks, which the scheduler does not see: the server rejects the bindings of four pods at once, and each
    is decided about again."""
    async with whole_cluster(sim, nodes=0, controllers=0, checkers=[]) as cluster:
        client = cluster.client
        await add_node(client, "node-a", cpu="8", memory="32Gi")
        await add_node(client, "node-b", cpu="4", memory="32Gi")
        await tasks.sleep(timedelta(seconds=2))
        for gate in cluster.world.gates.values():
            for tap in gate.find_taps("scheduler-1"):
                if tap.prefix.startswith("core/nodes/"):
                    tap.hold()
        await resize_node(client, "node-a", cpu="0", memory="32Gi")
        await asyncio.gather(*(client.create(PODS, an_owned_pod(f"pod-{number}", "web")) for number in range(4)))
        await tasks.sleep(timedelta(seconds=5))
        return cluster.journal


def record_rejections() -> MemoryJournal:
    with Simulation(1) as sim:
        return sim.run(live_with_rejections(sim))


def record_cluster() -> tuple[MemoryJournal, bytes]:
    with Simulation(1) as sim:
        return sim.run(live(sim))
