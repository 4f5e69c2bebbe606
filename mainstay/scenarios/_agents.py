"""Agents of ours at work on simulated machines, and what a user does with pods there.

Pods are put on nodes by the user itself. In the end, each pod that is there runs on its node, is ready, and nothing
else runs anywhere; and no server still charges for what is gone.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import msgspec

from mainstay.agent.fleet import PretendSettings
from mainstay.agent.runner import Exited, Running
from mainstay.agent.runners.pretend import Delays
from mainstay.api.annotations import AT_MOST_ONE
from mainstay.api.kind import Object
from mainstay.api.kind_names import NODES, PODS
from mainstay.client.client import Client
from mainstay.env import tasks
from mainstay.loop.fencing import LeaseTimes
from mainstay.scenarios._stages import NAMESPACE, UserStage
from mainstay.server.placement.ledger.ledger import ledger_in, ledger_key
from mainstay.sim.checkers import Violated
from mainstay.sim.cluster.world import World

SILENCE: Final = timedelta(minutes=3)
"""How long nothing must be written before agents have come to rest: a watch is taken for dead after 90 seconds."""
CALM: Final = timedelta(minutes=10)
TIMES: Final = LeaseTimes(
    duration=timedelta(seconds=10), renew_every=timedelta(seconds=2), stopping=timedelta(seconds=3)
)
"""Shorter than usual, so that several partitions fit into a run."""

_PODS_PREFIX: Final = "core/pods/"
_TICK: Final = timedelta(milliseconds=100)
_decode = msgspec.json.Decoder(Object).decode


class AgentStage(UserStage):
    nodes: tuple[str, ...] = ("node-1", "node-2")
    delays = Delays(start=timedelta(seconds=1), stop=timedelta(seconds=1))

    def __init__(self, world: World) -> None:
        super().__init__(world)
        for name in self.nodes:
            world.add_node(name, PretendSettings(delays=self.delays, lease=TIMES))

    async def ready(self) -> None:
        await super().ready()
        while len((await self.world.store.range("core/nodes/")).entries) < len(self.nodes):
            await tasks.sleep(_TICK)
        await tasks.sleep(timedelta(seconds=1))

    async def check(self) -> None:
        store = self.world.store
        pods = [_decode(entry.value) for entry in (await store.range(_PODS_PREFIX)).entries]
        wanted = sorted((pod["spec"]["nodeName"], pod["metadata"]["uid"]) for pod in pods)
        running = sorted(
            (name, uid)
            for name, machine in self.world.machines.items()
            for uid in machine.containers.pods()
            for state in machine.containers.instances(uid).values()
            if not isinstance(state, Exited)
        )
        if wanted != running:
            raise Violated("agents", f"there are pods {wanted} at the end, but {running} run")
        for pod in pods:
            if not _is_ready(pod):
                raise Violated("agents", f"{pod['metadata']['name']} is not ready at the end: {pod['status']}")
        for name in self.nodes:
            if ghosts := ledger_in(await store.get(ledger_key(name))).ghosts:
                raise Violated("agents", f"{name} is still charged for {sorted(ghosts)} at the end")


def a_pod(name: str, node: str, *, is_at_most_one: bool = False) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": NAMESPACE}
    if is_at_most_one:
        metadata["annotations"] = {AT_MOST_ONE: "true"}
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "x:1"}], "terminationGracePeriodSeconds": 5}
    return {"metadata": metadata, "spec": spec}


async def add_pod(client: Client, name: str, node: str) -> Object:
    return await client.create(PODS, a_pod(name, node))


def count_running(world: World) -> int:
    """The containers that run, on all machines."""
    return sum(
        isinstance(state, Running)
        for machine in world.machines.values()
        for uid in machine.containers.pods()
        for state in machine.containers.instances(uid).values()
    )


def _is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


__all__ = ["CALM", "NODES", "PODS", "SILENCE", "TIMES", "AgentStage", "a_pod", "add_pod"]
