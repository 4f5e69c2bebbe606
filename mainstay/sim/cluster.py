"""A whole cluster in a simulation: servers, a scheduler, all controllers, nodes with agents, and a journal of it all.

    async with whole_cluster(sim, nodes={"node-a1": NodeWishes(zone="a"), "node-b1": NodeWishes(zone="b")}) as cluster:
        await cluster.client.create(DEPLOYMENTS, ...)
        await tasks.sleep(timedelta(seconds=30))        virtual seconds
        cluster.journal                                 all that happened and was decided

Programs have names (`server-1`, `scheduler-1`, `controllers-1`, the nodes), by which faults find them: `cluster.world`
can cut, crash, pause and slow down each of them. `client` is an administrator's.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Final

from mainstay.agent.fleet import PretendSettings
from mainstay.agent.settings import AgentSettings, Taint
from mainstay.client.client import Client
from mainstay.controllers.all import CONTROLLERS, OWN_LOOPS
from mainstay.controllers.component import Controllers
from mainstay.controllers.own_loop import OwnLoop
from mainstay.env import Env, tasks
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.runtime.component import ComponentSettings
from mainstay.runtime.controller import Controller
from mainstay.runtime.fencing import LeaseTimes
from mainstay.runtime.leases import LeaseSettings
from mainstay.scheduler.component import Scheduler, SchedulerSettings
from mainstay.sim.simulation import Simulation
from mainstay.sim.world import World

ADMIN: Final = "admin"
ZONE: Final = "topology.kubernetes.io/zone"
NODE_LEASE: Final = LeaseTimes(duration=timedelta(seconds=10), renew_every=timedelta(seconds=2.5))
LEASE: Final = LeaseSettings(
    times=LeaseTimes(duration=timedelta(seconds=5), renew_every=timedelta(seconds=1.5)),
    retry_every=timedelta(seconds=1),
)
_TICK: Final = timedelta(milliseconds=100)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWishes:
    """What a node of the cluster is like."""

    zone: str = ""
    capacity: Mapping[str, str] = field(default_factory=lambda: {"cpu": "4", "memory": "8Gi"})
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()


class Cluster:
    """Make one with `whole_cluster`."""

    def __init__(self, world: World, journal: MemoryJournal, client: Client) -> None:
        self.world = world
        self.journal = journal
        self.client = client
        self.schedulers: dict[str, Scheduler] = {}
        self.controllers: dict[str, Controllers] = {}


@asynccontextmanager
async def whole_cluster(
    sim: Simulation,
    *,
    nodes: Mapping[str, NodeWishes | PretendSettings | AgentSettings],
    servers: int = 1,
    schedulers: int = 1,
    controller_processes: int = 1,
    controllers: Sequence[Controller] = CONTROLLERS,
    own_loops: Sequence[OwnLoop] = OWN_LOOPS,
    scheduler_settings: SchedulerSettings | None = None,
) -> AsyncIterator[Cluster]:
    """Boot it, and wait until its components are at work. The nodes may not be ready yet."""
    world = World(sim, journal=True)
    assert world.journal is not None
    for number in range(servers):
        world.add_server(f"server-{number + 1}")
    for name, wishes in nodes.items():
        world.add_node(name, _settings(wishes))
    world.know(ADMIN)
    with sim.network.host(ADMIN).active():
        async with world.client_for(ADMIN, sim.env(ADMIN)) as client:
            cluster = Cluster(world, world.journal, client)
            for number in range(schedulers):
                name = f"scheduler-{number + 1}"
                world.add_program(name, partial(_schedule, cluster, name, scheduler_settings, schedulers > 1))
            for number in range(controller_processes):
                name = f"controllers-{number + 1}"
                world.add_program(name, partial(_control, cluster, name, controllers, own_loops))
            await world.boot()
            while not _is_at_work(cluster):
                await tasks.sleep(_TICK)
            yield cluster


def _settings(wishes: NodeWishes | PretendSettings | AgentSettings) -> PretendSettings | AgentSettings:
    if not isinstance(wishes, NodeWishes):
        return wishes
    labels = {**({ZONE: wishes.zone} if wishes.zone else {}), **wishes.labels}
    return PretendSettings(capacity=wishes.capacity, labels=labels, taints=wishes.taints, lease=NODE_LEASE)


def _is_at_work(cluster: Cluster) -> bool:
    is_scheduling = any(each.is_deciding for each in cluster.schedulers.values())
    return is_scheduling and any(each.term is not None for each in cluster.controllers.values())


async def _schedule(
    cluster: Cluster, name: str, settings: SchedulerSettings | None, is_elected: bool, env: Env
) -> None:
    async with cluster.world.client_for(name, env) as client:
        settings = settings or SchedulerSettings(lease_name="mainstay-scheduler" if is_elected else "", lease=LEASE)
        scheduler = cluster.schedulers[name] = Scheduler(
            client, env, instance=name, settings=settings, recorder=cluster.world.recorder
        )
        await scheduler.run()


async def _control(
    cluster: Cluster, name: str, controllers: Sequence[Controller], own_loops: Sequence[OwnLoop], env: Env
) -> None:
    async with cluster.world.client_for(name, env) as client:
        component = cluster.controllers[name] = Controllers(
            client,
            env,
            instance=name,
            controllers=controllers,
            own_loops=own_loops,
            settings=ComponentSettings(lease=LEASE),
            recorder=cluster.world.recorder,
        )
        await component.run()
