"""Nodes, what is heard of them, and node health at work in a simulated cluster."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from mainstay.agent.fleet import PretendSettings
from mainstay.agent.runners.pretend import Delays
from mainstay.api.kind_names import LEASES, NODES, PODS
from mainstay.api.node_health import NO_RECORD, NodeHealthRecord
from mainstay.api.taints import Taint
from mainstay.client.client import Client
from mainstay.controllers.component import Controllers
from mainstay.controllers.node_health.evidence import NodeHealthFacts
from mainstay.controllers.node_health.heartbeats import Heard, Listening
from mainstay.controllers.node_health.loop import LOOP
from mainstay.controllers.node_health.plan import NodeHealthMemory, NodeSnapshot
from mainstay.env import Env, tasks
from mainstay.loop.component import ComponentSettings
from mainstay.loop.controller import Controller
from mainstay.loop.fencing import LeaseTimes, ObservedLease
from mainstay.loop.kernel import LoopSpec
from mainstay.loop.lease import LeaseSettings
from mainstay.server.auth import identities
from mainstay.sim.cluster.history import RevisionCommitted
from mainstay.sim.cluster.world import World
from mainstay.sim.simulation import Simulation

Object = dict[str, Any]

SECOND = 1_000_000_000
START = 1_000 * SECOND
READY = ("True", "AgentReady", "the agent runs pods")
USER, WATCHER = "user", "controllers-0"
LEASE = LeaseTimes(duration=timedelta(seconds=10), renew_every=timedelta(seconds=2), stopping=timedelta(seconds=3))
ZONES = {"node-a": "a", "node-b": "b", "node-c": "c"}
ELECTION = LeaseSettings(
    times=LeaseTimes(duration=timedelta(seconds=5), renew_every=timedelta(seconds=1.5)),
    retry_every=timedelta(seconds=1),
)


def at(seconds: float) -> int:
    return START + round(seconds * SECOND)


def some_node(
    name: str,
    zone: str = "a",
    *,
    ready: tuple[str, str, str] = READY,
    taints: Iterable[Taint] = (),
    record: NodeHealthRecord = NO_RECORD,
    is_suspect: bool = False,
    pressures: Iterable[Taint] = (),
) -> NodeHealthFacts:
    return NodeHealthFacts(
        name,
        uid=f"uid-{name}",
        version="7",
        zone=zone,
        ready=ready,
        is_suspect=is_suspect,
        has_suspect=is_suspect,
        taints=tuple(taints),
        record=record,
        pressures=tuple(pressures),
    )


def heard_at(seconds: float, *, holder: str = "", duration_s: int = 40, revision: int = 5) -> Heard:
    """A node that has renewed its lease then."""
    return Heard(
        first_ns=START,
        heartbeat_ns=at(seconds),
        holder=holder,
        lease=ObservedLease(revision, at(seconds)),
        has_lease=True,
        duration=timedelta(seconds=duration_s),
    )


def a_snapshot(
    now: float,
    nodes: Sequence[NodeHealthFacts],
    heard: Mapping[str, float | Heard],
    pods: Iterable[Object] = (),
    **more: Any,
) -> NodeSnapshot:
    """All at these seconds after the start of listening. Nodes that are not said to be heard are heard just now."""
    by_node: dict[str, list[Object]] = {node.name: [] for node in nodes}
    for pod in pods:
        by_node[pod["spec"]["nodeName"]].append(pod)
    hearing = {}
    for node in nodes:
        value = heard.get(node.name, now)
        hearing[node.name] = value if isinstance(value, Heard) else heard_at(value, holder=node.name)
    return NodeSnapshot(
        at(now),
        {node.name: node for node in nodes},
        hearing,
        {name: tuple(found) for name, found in by_node.items()},
        **more,
    )


LISTENING = NodeHealthMemory(listening=Listening(START))


@dataclass
class Fleet:
    """Nodes under the eyes of node health."""

    world: World
    client: Client
    components: dict[str, Controllers] = field(default_factory=dict)

    async def node(self, name: str) -> Object:
        return await self.client.get(NODES, name)

    async def lease(self, name: str) -> Object:
        return await self.client.get(LEASES, name, "kube-node-lease")

    async def add_pod(self, name: str, node: str, **metadata: Any) -> Object:
        pod = {
            "metadata": {"name": name, "namespace": "default", **metadata},
            "spec": {
                "nodeName": node,
                "containers": [{"name": "main", "image": "x:1"}],
                "terminationGracePeriodSeconds": 2,
                "tolerations": [
                    {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 20}
                    for key in ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready")
                ],
            },
        }
        return await self.client.create(PODS, pod)

    async def pod(self, name: str) -> Object:
        return await self.client.get(PODS, name, "default")

    async def after(self, seconds: float) -> None:
        await tasks.sleep(timedelta(seconds=seconds))

    def cut(self, *names: str) -> None:
        for name in names:
            for server in self.world.servers:
                self.world.sim.network.cut(name, server)

    def join(self, *names: str) -> None:
        for name in names:
            for server in self.world.servers:
                self.world.sim.network.heal(name, server)

    async def taints(self, name: str) -> list[str]:
        taints = ((await self.node(name)).get("spec") or {}).get("taints") or ()
        return sorted(f"{each['key'].rpartition('/')[2]}:{each['effect']}" for each in taints)

    async def is_node_ready(self, name: str) -> str:
        return ready_of(await self.node(name))

    async def is_pod_ready(self, name: str) -> str:
        return ready_of(await self.pod(name))

    def commits(self, prefix: str) -> list[RevisionCommitted]:
        return [
            each
            for each in self.world.history.events
            if isinstance(each, RevisionCommitted) and each.key.startswith(prefix)
        ]


def ready_of(obj: Object) -> str:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return next((str(each["status"]) for each in conditions if each["type"] == "Ready"), "")


@asynccontextmanager
async def a_fleet(
    sim: Simulation,
    *,
    zones: dict[str, str] = ZONES,
    programs: Sequence[str] = (WATCHER,),
    controllers: Sequence[Controller] = (),
    loops: Sequence[LoopSpec] = (LOOP,),
    prepare: Callable[[World], None] | None = None,
) -> AsyncIterator[Fleet]:
    """Nodes that run, pods that no test has asked for yet, and node health, which has listened for long enough."""
    world = World(sim)
    world.add_server("server-0")
    world.know(USER)
    components: dict[str, Controllers] = {}

    async def control(program: str, env: Env) -> None:
        async with world.client_for(program, env) as client:
            component = components[program] = Controllers(
                client,
                env,
                instance=program,
                controllers=controllers,
                loops=loops,
                settings=ComponentSettings(lease=ELECTION),
            )
            await component.run()

    for program in programs:
        world.add_program(program, lambda env, program=program: control(program, env), user=identities.CONTROLLERS)  # type: ignore[misc]
    given = PretendSettings(delays=Delays(timedelta(seconds=1), timedelta(seconds=1)), lease=LEASE)
    for name, zone in zones.items():
        world.add_node(name, replace(given, labels={"topology.kubernetes.io/zone": zone}))
    await world.boot()
    async with world.client_for(USER, sim.env(USER)) as client:
        await tasks.sleep(timedelta(seconds=15))
        try:
            yield Fleet(world, client, components)
        finally:
            await world.stop()
