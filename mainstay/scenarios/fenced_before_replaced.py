"""A pod of which there must never be two, on nodes that are cut off for longer than their lease lasts. (SPEC R4)

A test controller keeps it running: whenever it may, by the arithmetic of loop/fencing.py and by that alone, it replaces
the pod on another node. The node that is cut off cannot be asked; its agent may crash or stand still meanwhile. All the
same the first pod has ended before the second starts. When the node comes back, its pod is gone, and it must not start
it again from what it remembers. A node that was not replaced goes on where it was.

The controller takes the node's Lease first, on condition that it was not renewed, then removes the pod, and then
gives the Lease back (agent/node/node.py). It may crash in between, and begins again from what it finds.
"""

from contextlib import suppress
from datetime import timedelta
from typing import Final

from mainstay.agent.node.node import LEASE_NAMESPACE
from mainstay.agent.runners.pretend import Delays
from mainstay.api.kind import Object
from mainstay.api.kind_names import LEASES
from mainstay.client.client import Client
from mainstay.client.errors import ApiError, NotFound
from mainstay.env import Env, tasks
from mainstay.loop.fencing import MayStart, ObservedLease, may_start, observed
from mainstay.scenarios._agents import CALM, PODS, SILENCE, TIMES, AgentStage, a_pod
from mainstay.scenarios._stages import NAMESPACE
from mainstay.sim.active_faults import release_all
from mainstay.sim.checkers.at_most_one import AtMostOne
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

KEEPER: Final = "keeper"
NAME: Final = "db-0"
LOOK_EVERY: Final = timedelta(milliseconds=250)
SLOW: Final = timedelta(milliseconds=900)
"""One way. The answer to a renewal comes late, and counts all the same."""
SLOW_FOR: Final = timedelta(seconds=6)
SLOWLY: Final = tuple(timedelta(seconds=seconds) for seconds in (0, 1, 10))
"""From having the Lease to removing the pod."""
CUT_FOR: Final = tuple(timedelta(seconds=seconds) for seconds in (4, 11, 20))


class FencedBeforeReplaced(AgentStage):
    turn_every = timedelta(seconds=8)
    # It does not end when it is asked to: it is killed, when there is no more time.
    delays = Delays(start=timedelta(milliseconds=500), stop=timedelta(minutes=1))

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.add_program(KEEPER, self._keep)

    async def turn(self, client: Client) -> None:
        """Cut off the node that has the pod; sometimes after its messages have become slow."""
        world = self.world
        pod = await client.get(PODS, NAME, NAMESPACE)
        if not self.choose("politely", 5):
            await client.delete(PODS, NAME, NAMESPACE)
            return
        node = pod["spec"]["nodeName"]
        if self.choose("slow first", 2):
            for server in world.servers:
                world.sim.network.set_latency(node, server, SLOW)
            world.faults.undo_after(SLOW_FOR * 2, f"{node} is slow", lambda: self._hurry(node))
            await tasks.sleep(SLOW_FOR * (1 + self.choose("when", 4) / 8))
        join = release_all(world.sim.network.cut(node, server) for server in world.servers)
        duration = CUT_FOR[self.choose("cut for", len(CUT_FOR))]
        world.faults.note(f"{node} is partitioned from all servers for {duration}")
        world.faults.undo_after(duration, f"cut of {node}", join)

    def _hurry(self, node: str) -> None:
        for server in self.world.servers:
            self.world.sim.network.set_latency(node, server, timedelta(microseconds=200))

    # Who keeps the pod running.

    async def _keep(self, env: Env) -> None:
        seen: dict[str, ObservedLease] = {}
        async with self.world.client_for(KEEPER, env) as client:
            while True:
                await tasks.sleep(LOOK_EVERY)
                with suppress(ApiError):  # It is looked at again.
                    for node in self.nodes:
                        await self._look_at(node, client, env, seen)
                    await self._ensure(client)

    async def _ensure(self, client: Client) -> None:
        try:
            await client.get(PODS, NAME, NAMESPACE)
        except NotFound:
            for node in self.nodes[self.choose("first", 2) :] + self.nodes:
                lease = await client.get(LEASES, node, LEASE_NAMESPACE)
                if _holder(lease) == node:
                    await client.create(PODS, a_pod(NAME, node, is_at_most_one=True))
                    return

    async def _look_at(self, node: str, client: Client, env: Env, seen: dict[str, ObservedLease]) -> None:
        lease = await client.get(LEASES, node, LEASE_NAMESPACE)
        now_ns = env.clock.monotonic_ns()
        lease_seen = seen[node] = observed(seen.get(node), int(lease["metadata"]["resourceVersion"]), now_ns)
        if _holder(lease) != KEEPER:
            if not isinstance(may_start(lease_seen, now_ns, TIMES), MayStart):
                return
            # Refused if it was renewed meanwhile: it has the resource version that was seen.
            lease = await client.replace(LEASES, _held_by(lease, KEEPER))
            await tasks.sleep(SLOWLY[self.choose("slowly", len(SLOWLY))])
        with suppress(NotFound):
            pod = await client.get(PODS, NAME, NAMESPACE)
            if pod["spec"]["nodeName"] == node:
                await client.delete(PODS, NAME, NAMESPACE, uid=pod["metadata"]["uid"], grace_s=0)
        await client.replace(LEASES, _held_by(lease, ""))


def _holder(lease: Object) -> str:
    return (lease.get("spec") or {}).get("holderIdentity") or ""


def _held_by(lease: Object, holder: str) -> Object:
    return {**lease, "spec": {**(lease.get("spec") or {}), "holderIdentity": holder}}


SCENARIO: Final = Scenario(
    name="fenced-before-replaced",
    about="Nodes are partitioned for longer than their lease: an at-most-one pod never runs in two places.",
    make=FencedBeforeReplaced,
    checkers=lambda: [AtMostOne()],
    faults=("cut", "one-way-cut", "latency", "crash", "pause", "crash-after", "answer-lost", "server-crash"),
    lasts=timedelta(minutes=2),
    calm=CALM,
    silence=SILENCE,
    ids=("F2",),
)
