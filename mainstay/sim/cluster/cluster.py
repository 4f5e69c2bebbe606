"""A whole cluster in a simulation: servers, a scheduler, all controllers, nodes with agents, and a journal of it all.

    async with whole_cluster(sim, nodes={"node-a1": NodeOptions(zone="a"), "node-b1": NodeOptions(zone="b")}) as world:
        await world.client.create(DEPLOYMENTS, ...)
        await tasks.sleep(timedelta(seconds=30))        virtual seconds
        world.journal                                   all that happened and was decided

And to try a program of one's own against bad days (docs/guides/worst-day.md):

    async with whole_cluster(sim, crds=Path("website.yaml")) as world:
        world.run(Websites())                           a controller, or any coroutine function (testing/programs.py)
        world.crash_after_write("websites", 2)          what goes wrong (trouble.py)
        await world.client.create(WEBSITES, a_website())
        await world.quiet()

Programs have names (`server-1`, `scheduler-1`, `controllers-1`, the nodes, those that are run), by which faults find
them. `client` is an administrator's, and is never hit by one. Meanwhile the promises that Mainstay makes to everybody
are checked, and a test fails at the moment at which one is broken.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Final

from mainstay.agent.fleet import PretendSettings
from mainstay.agent.settings import AgentSettings, TaintSetting
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import DEFINITIONS
from mainstay.api.well_known_labels import ZONE_LABEL
from mainstay.client.client import Client
from mainstay.controllers.component import Controllers
from mainstay.controllers.registry import LOOPS
from mainstay.env import Env, tasks
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.loop.component import ComponentSettings
from mainstay.loop.fencing import LeaseTimes
from mainstay.loop.kernel import LoopSpec
from mainstay.loop.lease import LeaseSettings
from mainstay.scheduler.component import Scheduler, SchedulerSettings
from mainstay.server.auth import identities
from mainstay.sim.checkers import Checker
from mainstay.sim.checkers.always import always
from mainstay.sim.checkers.run_checkers import RunCheckers
from mainstay.sim.cluster.program_lifecycle import Program
from mainstay.sim.cluster.world import World
from mainstay.sim.simulation import Simulation
from mainstay.sim.testing.manifests import KindIndex, Manifest, parse_objects, set_namespace
from mainstay.sim.testing.programs import NotRunnable, Own, find_url, make_kubeconfig, make_main, name_program
from mainstay.sim.testing.trouble import FaultControl

ADMIN: Final = "admin"
NODE_LEASE: Final = LeaseTimes(duration=timedelta(seconds=10), renew_every=timedelta(seconds=2.5))
LEASE: Final = LeaseSettings(
    times=LeaseTimes(duration=timedelta(seconds=5), renew_every=timedelta(seconds=1.5)),
    retry_every=timedelta(seconds=1),
)
_TICK: Final = timedelta(milliseconds=100)
_SERVED_WITHIN_S: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """What a node of the cluster is like."""

    zone: str = ""
    capacity: Mapping[str, str] = field(default_factory=lambda: {"cpu": "4", "memory": "8Gi"})
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[TaintSetting, ...] = ()


Nodes = int | Mapping[str, NodeOptions | PretendSettings | AgentSettings]


@dataclass(frozen=True, slots=True)
class ControllerProcesses:
    """Processes that run all controllers, and these loops."""

    count: int = 1
    loops: Sequence[LoopSpec] = LOOPS


class Cluster(FaultControl):
    """Make one with `whole_cluster`."""

    def __init__(self, world: World, journal: MemoryJournal, client: Client) -> None:
        super().__init__(world)
        self.journal = journal
        self.client = client
        """An administrator's."""
        self.schedulers: dict[str, Scheduler] = {}
        self.controllers: dict[str, Controllers] = {}
        self._kinds = KindIndex()

    def run(self, own: Own, *, name: str = "", versions: Mapping[str, Own] | None = None) -> Program:
        """Start a program of one's own: a controller, several, or a coroutine function. See own/programs.py.

        It is called what the controller, or the function, is called, unless a name is given. In `versions` are other
        builds of it, by name: the fault `version-skew` runs one of them in its place for a while. Raises `NotRunnable`.
        """
        name = name or name_program(own)
        if name in (*self.world.programs, *self.world.servers):
            raise NotRunnable(f"a program named {name!r} already exists; give this one another name")
        others = {each: make_main(self.world, name, other, LEASE) for each, other in (versions or {}).items()}
        program = self.world.add_program(name, make_main(self.world, name, own, LEASE), versions=others)
        self.own.append(name)
        program.start()
        return program

    async def add(self, manifest: Manifest) -> list[Object]:
        """Create what is in this: an object, several, YAML, or the path of a file. Definitions are waited for."""
        return [await self._create(each) for each in parse_objects(manifest)]

    def kind(self, name: str) -> KindName:
        """By what it is called: `Website`, `websites`, `websites.example.com`. Raises `NoSuchKind`."""
        return self._kinds.named(name)

    @property
    def url(self) -> str:
        """Of the API, for programs that run in this cluster."""
        return find_url(self.world)

    def kubeconfig(self, name: str = ADMIN) -> Object:
        """To ask as a program of this cluster, or as the administrator."""
        if name != ADMIN:
            self.program(name)
        return make_kubeconfig(self.world, name)

    async def _create(self, obj: Object) -> Object:
        kind = self._kinds.of(obj)
        made = await self.client.create(kind, set_namespace(kind, obj))
        if kind == DEFINITIONS:
            self._kinds.define(made)
            await self._served(made["metadata"]["name"])
        return made

    async def _served(self, definition: str) -> None:
        async with asyncio.timeout(_SERVED_WITHIN_S):
            while True:
                found = await self.client.get(DEFINITIONS, definition)
                conditions = found.get("status", {}).get("conditions") or []
                if any(each["type"] == "Established" and each["status"] == "True" for each in conditions):
                    return
                await tasks.sleep(_TICK)


def usual_checkers() -> list[Checker]:
    """What Mainstay promises to everybody, whatever runs in a cluster."""
    return always()


@asynccontextmanager
async def whole_cluster(
    sim: Simulation,
    *,
    nodes: Nodes = 2,
    servers: int = 1,
    schedulers: int = 1,
    controllers: int | ControllerProcesses = 1,
    scheduler_settings: SchedulerSettings | None = None,
    crds: Manifest | None = None,
    checkers: Sequence[Checker] | None = None,
) -> AsyncIterator[Cluster]:
    """Boot it, and wait until its components are at work. The nodes may not be ready yet.

    Without schedulers, or without controllers, it is quicker. `crds` are custom resource
    definitions, or whatever else should be there: objects, YAML, or the path of a file.
    """
    controlling = ControllerProcesses(controllers) if isinstance(controllers, int) else controllers
    world = World(sim, journal=True)
    assert world.journal is not None
    watched = usual_checkers() if checkers is None else checkers
    checking = RunCheckers(watched, world.history, partial(_remember, sim))
    for number in range(servers):
        world.add_server(f"server-{number + 1}")
    for name, wishes in _named(nodes).items():
        world.add_node(name, _settings(wishes))
    world.know(ADMIN)
    with sim.network.host(ADMIN).active():
        async with world.client_for(ADMIN, sim.env(ADMIN)) as client:
            cluster = Cluster(world, world.journal, client)
            for number in range(schedulers):
                name = f"scheduler-{number + 1}"
                world.add_program(
                    name,
                    partial(_schedule, cluster, name, scheduler_settings, schedulers > 1),
                    user=identities.SCHEDULER,
                )
            for number in range(controlling.count):
                name = f"controllers-{number + 1}"
                world.add_program(
                    name, partial(_control, cluster, name, controlling.loops), user=identities.CONTROLLERS
                )
            await world.boot()
            while not _is_at_work(cluster, schedulers, controlling.count):
                await tasks.sleep(_TICK)
            if crds is not None:
                await cluster.add(crds)
            yield cluster
            if cluster.is_quiet:
                await checking.at_end(world)


def bare_cluster(
    sim: Simulation,
    *,
    servers: int = 1,
    crds: Manifest | None = None,
    checkers: Sequence[Checker] | None = None,
) -> AbstractAsyncContextManager[Cluster]:
    """API servers and nothing else: many times as quick, and enough for programs that only look after objects."""
    return whole_cluster(sim, nodes=0, servers=servers, schedulers=0, controllers=0, crds=crds, checkers=checkers)


def _remember(sim: Simulation, checker: Checker, error: Exception) -> None:
    sim.loop.failures.remember({"message": f"the checker of {checker.name}", "exception": error})


def _named(nodes: Nodes) -> Mapping[str, NodeOptions | PretendSettings | AgentSettings]:
    return {f"node-{number + 1}": NodeOptions() for number in range(nodes)} if isinstance(nodes, int) else nodes


def _settings(wishes: NodeOptions | PretendSettings | AgentSettings) -> PretendSettings | AgentSettings:
    if not isinstance(wishes, NodeOptions):
        return wishes
    labels = {**({ZONE_LABEL: wishes.zone} if wishes.zone else {}), **wishes.labels}
    return PretendSettings(capacity=wishes.capacity, labels=labels, taints=wishes.taints, lease=NODE_LEASE)


def _is_at_work(cluster: Cluster, schedulers: int, controller_processes: int) -> bool:
    is_scheduling = not schedulers or any(each.is_deciding for each in cluster.schedulers.values())
    is_led = not controller_processes or any(each.term is not None for each in cluster.controllers.values())
    return is_scheduling and is_led


async def _schedule(
    cluster: Cluster, name: str, settings: SchedulerSettings | None, is_elected: bool, env: Env
) -> None:
    async with cluster.world.client_for(name, env) as client:
        settings = settings or SchedulerSettings(lease_name="mainstay-scheduler" if is_elected else "", lease=LEASE)
        scheduler = cluster.schedulers[name] = Scheduler(
            client, env, instance=name, settings=settings, recorder=cluster.world.recorder
        )
        await scheduler.run()


async def _control(cluster: Cluster, name: str, loops: Sequence[LoopSpec], env: Env) -> None:
    async with cluster.world.client_for(name, env) as client:
        component = cluster.controllers[name] = Controllers(
            client,
            env,
            instance=name,
            loops=loops,
            settings=ComponentSettings(lease=LEASE),
            recorder=cluster.world.recorder,
        )
        await component.run()
