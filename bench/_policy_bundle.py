"""A bundle with many placements, made by the scheduler and the API server in a simulated cluster.

    python -m bench._policy_bundle --decisions 100000 FILE

The cluster is a little too small for what is asked of it: pods of twenty workloads in three namespaces come in bursts,
run for some rounds and end; some wait and are decided about again. Nodes are cordoned, replaced and added. Two policies
with scopes are active, and one of them is followed by its next version halfway. No controllers and no agents run: this
program creates the pods, and reports their ends.
"""

import argparse
import asyncio
import random
import sys
from collections import deque
from collections.abc import Awaitable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from mainstay.api.kind_names import NAMESPACES, NODES, PLACEMENT_POLICIES, PODS
from mainstay.client.client import Client
from mainstay.env import tasks
from mainstay.explain.placements import is_placement
from mainstay.journal.bundle import packed
from mainstay.journal.bundle_contents import gathered
from mainstay.scheduler.why.placement import rests_on
from mainstay.sim.cluster.cluster import whole_cluster
from mainstay.sim.simulation import Simulation

NODES_FIRST: Final = 130
BURST: Final = 200
ROUNDS_RUNNING: Final = 9
SPACES: Final = ("shop", "batch", "lab")
SEED: Final = 7
_Work = tuple[str, str]


def make_bundle(decisions: int) -> bytes:
    """The bytes of a bundle with at least so many placements."""
    with Simulation(SEED) as sim:
        return sim.run(_live(sim, decisions), limit=timedelta(days=300))


async def _live(sim: Simulation, decisions: int) -> bytes:
    async with whole_cluster(sim, nodes=0, controllers=0, checkers=[]) as cluster:
        client, chance, began = cluster.client, random.Random(SEED), sim.clock.wall()
        for name in SPACES:
            await client.create(NAMESPACES, {"metadata": {"name": name}})
        await _together(_add_node(client, number) for number in range(NODES_FIRST))
        for policy in (_policy("shop-v1", "shop", maxZoneSkew=4), _policy("batch-v1", "batch", scores=PACKED)):
            await client.create(PLACEMENT_POLICIES, policy)
        running: deque[list[_Work]] = deque()
        made = rounds = 0
        while (decided := len(cluster.journal.records(is_placement))) < decisions:
            if rounds % 50 == 0:
                print(f"{decided} decisions, {made} pods", file=sys.stderr, flush=True)
            if rounds == decisions // BURST // 2:
                await client.patch(PLACEMENT_POLICIES, "batch-v1", "", {"spec": {"active": False}})
                await client.create(PLACEMENT_POLICIES, _policy("batch-v2", "batch", scores={"MostAllocated": 3}))
            pods = [_pod(number, chance) for number in range(made, made + BURST)]
            made, rounds = made + BURST, rounds + 1
            await _together(client.create(PODS, pod, pod["metadata"]["namespace"]) for pod in pods)
            running.append([(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in pods])
            await tasks.sleep(timedelta(seconds=2))
            if len(running) > ROUNDS_RUNNING:
                await _together(_end(client, *work) for work in running.popleft())
            if rounds % 5 == 0:
                await _change_nodes(client, chance, rounds)
        now = sim.clock.wall()
        contents = await gathered(cluster.journal, since=began, build="bench", made_at=now, rests_on=rests_on)
        return b"".join(packed(contents))


async def _together(work: Iterable[Awaitable[Any]]) -> None:
    await asyncio.gather(*work)


async def _add_node(client: Client, number: int) -> None:
    name = f"node-{number:05d}"
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % 5}"}
    allocatable = {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "500Gi", "pods": "110"}
    made = await client.create(
        NODES, {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}}
    )
    made.setdefault("spec", {})["taints"] = []  # The server marks it as not ready, and no agent corrects that.
    await client.replace(NODES, made)


async def _change_nodes(client: Client, chance: random.Random, rounds: int) -> None:
    name = f"node-{chance.randrange(NODES_FIRST):05d}"
    body = {"spec": {"unschedulable": chance.random() < 0.5}}
    await client.patch(NODES, name, "", body)
    if rounds % 25 == 0:
        await _add_node(client, NODES_FIRST + rounds // 25)


async def _end(client: Client, namespace: str, name: str) -> None:
    await client.patch(PODS, name, namespace, {"status": {"phase": "Succeeded"}}, subresource="status")
    await client.delete(PODS, name, namespace)


PACKED: Final = {"MostAllocated": 1}


def _policy(name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    scope = {"namespaces": [namespace]}
    return {"metadata": {"name": name}, "spec": {"policyVersion": "1", "active": True, "scope": scope, **spec}}


def _pod(number: int, chance: random.Random) -> dict[str, Any]:
    workload = chance.randrange(20)
    requests = {"cpu": f"{200 + 100 * (workload % 8)}m", "memory": f"{256 * (1 + workload % 6)}Mi"}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"app-{workload}", "controller": True}
    return {
        "metadata": {
            "name": f"app-{workload}-{number}",
            "namespace": SPACES[workload % len(SPACES)],
            "labels": {"app": f"app-{workload}"},
            "ownerReferences": [{**owner, "uid": f"00000000-0000-4000-8000-{workload:012d}"}],
        },
        "spec": {"containers": [{"name": "main", "image": "example.com/app:1", "resources": {"requests": requests}}]},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("file", type=Path)
    parser.add_argument("--decisions", type=int, default=100_000)
    options = parser.parse_args()
    options.file.write_bytes(make_bundle(options.decisions))
    return 0


if __name__ == "__main__":
    sys.exit(main())
