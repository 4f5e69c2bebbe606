"""How many complete runs with faults a minute does this machine make?

A run is a cluster of two API servers, a controller and three pretend nodes, over one store, all of it production code
and on simulated TCP: 60 virtual seconds in which a user wants things and faults happen, as drawn from the seed; then
healing, until nothing is written any more; with the checkers on. All of that is counted, and so is a share of the one
boot that all runs begin with. One process for each core.

Runs are those of seeds 1, 2, …; how many of them do not pass is a figure of its own, and the first is shown.
"""

import sys
from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from bench.measure import Figure, Stopwatch, cores, main
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.object_key import ObjectKey
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists
from mainstay.client.indexes import OWNER
from mainstay.runtime.controller import Controller, Reads, owner, reference_to
from mainstay.runtime.decision import Create, Decision, Delete
from mainstay.runtime.view import View
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.one_acting_leader import OneActingLeader
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.forks import run_many
from mainstay.sim.scenario import Scenario
from mainstay.sim.scenarios._stages import NAMESPACE, SILENCE, UserStage
from mainstay.sim.world import World

SETS: Final = KindName("apps", "v1", "ReplicaSet", "replicasets", True)
PODS: Final = KindName("", "v1", "Pod", "pods", True)
NODES: Final = ("node-0", "node-1", "node-2")
SPEC: Final = {"containers": [{"name": "main", "image": "web:1"}]}


class Keeper(Controller):
    """Keeps the pods of each set: one for each slot, on the node whose turn it is."""

    name = "keeper"
    kind = SETS
    reads = (Reads(PODS, wakes=owner(SETS), indexes=(OWNER,)),)
    writes = (PODS,)

    def decide(self, view: View, key: ObjectKey, memory: None) -> Decision:
        wanted = view.get(SETS, key)
        if wanted is None:
            return Decision()
        replicas = wanted["spec"]["replicas"]
        pods = {pod["metadata"]["name"]: pod for pod in view.owned_by(PODS, wanted["metadata"]["uid"])}
        slots = {f"{key.name}-{slot}": slot for slot in range(replicas)}
        missing = tuple(Create(PODS, _pod(wanted, name, slot)) for name, slot in slots.items() if name not in pods)
        surplus = tuple(
            Delete(PODS, ObjectKey(key.namespace, name), pod["metadata"]["uid"])
            for name, pod in pods.items()
            if name not in slots and "deletionTimestamp" not in pod["metadata"]
        )
        ready = sum(1 for pod in pods.values() if pod.get("status", {}).get("phase") == "Running")
        return Decision(actions=(*missing, *surplus), status={"replicas": len(pods), "readyReplicas": ready})


class Fleet(UserStage):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.add_controller(Keeper(), "keeper")
        for name in NODES:
            world.add_node(name)

    async def turn(self, client: Client) -> None:
        name, replicas = f"web-{self.choose('which', 3)}", 1 + self.choose("replicas", 4)
        try:
            await client.create(SETS, _set(name, replicas))
        except AlreadyExists:
            await client.patch(SETS, name, NAMESPACE, {"spec": {"replicas": replicas}})

    async def check(self) -> None:
        async with self.world.client_for("user", self.world.sim.env("check")) as client:
            sets, pods = await client.list(SETS, NAMESPACE), await client.list(PODS, NAMESPACE)
        wanted = sorted(
            f"{each['metadata']['name']}-{slot}" for each in sets.items for slot in range(each["spec"]["replicas"])
        )
        running = sorted(pod["metadata"]["name"] for pod in pods.items if pod["status"].get("phase") == "Running")
        if wanted != running:
            raise Violated("fleet", f"wanted are {wanted}, and {running} are running")


def _set(name: str, replicas: int) -> Object:
    labels = {"set": name}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": SPEC},
    }
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def _pod(wanted: Object, name: str, slot: int) -> Object:
    metadata = {
        "name": name,
        "namespace": wanted["metadata"]["namespace"],
        "labels": wanted["spec"]["selector"]["matchLabels"],
        "ownerReferences": [reference_to(wanted, SETS)],
    }
    return {"metadata": metadata, "spec": {**SPEC, "nodeName": NODES[slot % len(NODES)]}}


FLEET: Final = Scenario(
    name="fleet",
    about="Two servers, a controller and three nodes.",
    make=Fleet,
    checkers=lambda: [WatchContract(), AcknowledgedWrites(), OneActingLeader()],
    lasts=timedelta(seconds=60),
    silence=SILENCE,
)


def measure(quick: bool) -> Iterable[Figure]:
    runs, jobs = 40 if quick else 600, cores()
    with Stopwatch(with_children=True) as watch:
        results = list(run_many(FLEET, range(1, runs + 1), jobs=jobs))
    name = f"fault runs, two servers, a controller, 3 nodes, 60 virtual s, {jobs} processes"
    rate = watch.rate(name, len(results), unit="/min")
    yield Figure(rate.name, rate.value * 60, rate.unit, rate.cpu_us, goal="≥ 600")
    virtual_s = sum(result.virtual_s for result in results)
    yield Figure("the same, virtual seconds a second", virtual_s / watch.wall_s, "s/s")
    bad = [result for result in results if not result.is_passed]
    for result in bad[:1]:
        print(f"seed {result.seed} is {result.verdict}: {result.problem}", file=sys.stderr)
    yield Figure("the same, runs that did not pass", len(bad), "", goal="≤ 0")


if __name__ == "__main__":
    main(measure)
