"""A whole cluster that people use: servers, schedulers and controllers twice each, nodes in zones, users, operators.

Everything runs as in production; only the containers are pretended. Users do one thing after the other (_users.py);
which of their deeds there are in a run, how often and how much, is drawn from the seed, and said. When it is over they
put in order what they have put out of order: nodes take pods again, nothing is limited any more. By then some of the
programs may be gone for good, and it must not matter which (`spares`).

In the end the cluster has to come to what is wanted (_expected_state.py), and to stay there in silence. A world does
not wait for a fixed time of silence: most runs are there within seconds, and the few that have to wait for a watch that
has died unheard do so.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from typing import Final

from mainstay.agent.fleet import PretendSettings
from mainstay.agent.runner import ContainerSpec
from mainstay.agent.runners.pretend_containers import Behaviour
from mainstay.api.well_known_labels import ZONE_LABEL
from mainstay.client.client import Client
from mainstay.client.errors import ApiError
from mainstay.controllers.component import Controllers
from mainstay.env import Env, tasks
from mainstay.loop.component import ComponentSettings
from mainstay.loop.controller_loop import LoopSettings
from mainstay.loop.fencing import LeaseTimes
from mainstay.loop.kernel import LoopSpec
from mainstay.loop.lease import LeaseSettings
from mainstay.scenarios._expected_state import WORLD, Missing, find_deviations
from mainstay.scenarios._operators import CPUS
from mainstay.scenarios._policy_changes import LOADS, use_load
from mainstay.scenarios._swarm import SwarmStage, draw_options
from mainstay.scenarios._users import BROKEN, PASSING
from mainstay.scheduler.component import Scheduler, SchedulerSettings
from mainstay.server.auth import identities
from mainstay.sim.checkers import Violated
from mainstay.sim.cluster.history import Event, FaultsHealed, RevisionCommitted
from mainstay.sim.cluster.program_lifecycle import Main
from mainstay.sim.cluster.world import World

SERVERS: Final = ("server-1", "server-2")
SCHEDULERS: Final = ("scheduler-1", "scheduler-2")
CONTROLLERS: Final = ("controllers-1", "controllers-2")
NODES: Final[Mapping[str, str]] = MappingProxyType(
    {"node-1": "a", "node-2": "b", "node-3": "a", "node-4": "b", "node-5": "c"}
)
"""Each with its zone."""

LEASE: Final = LeaseSettings(times=LeaseTimes(duration=timedelta(seconds=8), renew_every=timedelta(seconds=2.5)))
"""Of leaders. Half of what is usual, so that several of them fit into a run. Nodes have what is usual."""

SILENCE: Final = timedelta(seconds=15)
"""Of what is no heartbeat, before the scenario checks whether all is as wanted; and once more when it is."""
WITHIN: Final = timedelta(minutes=8)
"""How long it may take. A watch that died unheard is given up after 90 seconds; a zone that is mostly silent loses a
node in a hundred seconds."""
_LOOK_EVERY: Final = timedelta(seconds=3)
_LOOK_AGAIN: Final = timedelta(seconds=20)
"""How often users look whether there is something left for them to do, while it is not as they want it."""
_AGAIN: Final = timedelta(seconds=1)
_TICK: Final = timedelta(milliseconds=100)

SCHEDULER: Final = SchedulerSettings(lease=LEASE)
CONTROLLING: Final = ComponentSettings(lease=LEASE)
# The build before: it took its time with leases, and did one thing at a time. Programs may be restarted as this one
# for a while (faults/version_skew.py), and then lead, or follow, together with those of today.
_OLDER_LEASE: Final = LeaseSettings(
    times=LeaseTimes(duration=timedelta(seconds=20), renew_every=timedelta(seconds=4)), retry_every=timedelta(seconds=3)
)
OLDER_SCHEDULER: Final = SchedulerSettings(lease=_OLDER_LEASE, build="older")
OLDER_CONTROLLERS: Final = ComponentSettings(lease=_OLDER_LEASE, loop=LoopSettings(workers=1), build="older")

_ENDS_WELL: Final = Behaviour(timedelta(seconds=0.5), timedelta(seconds=0.5), timedelta(seconds=2), 0)
_FAILS: Final = Behaviour(timedelta(seconds=0.5), timedelta(seconds=0.5), timedelta(), 1)
_GOES_ON: Final = Behaviour(timedelta(seconds=0.5), timedelta(seconds=0.5))


class WorldStage(SwarmStage):
    loops: Sequence[LoopSpec] = ()
    has_usage = False
    """Whether agents tell what containers use: who asks for it, asks all nodes again and again."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.schedulers: dict[str, Scheduler] = {}
        self.components: dict[str, Controllers] = {}
        self._begun = asyncio.Event()
        self._is_over = False
        self._news = asyncio.Event()
        self.load = LOADS[0]
        self._busy: dict[str, None] = {}
        """Users who still have something to put in order."""
        world.history.subscribe(self._saw)
        for name in SERVERS:
            world.add_server(name)
        for name, zone in NODES.items():
            size = self.sizes[name] = {"cpu": CPUS[0], "memory": "8Gi"}
            settings = PretendSettings(capacity=size, labels={ZONE_LABEL: zone})
            world.add_node(name, settings, serves=self.has_usage)
            world.machines[name].behave = _choose_behaviour
            world.machines[name].load = partial(use_load, self)
        for name in SCHEDULERS:
            older: Main = partial(self._schedule, name, settings=OLDER_SCHEDULER)
            world.add_program(name, partial(self._schedule, name), versions={"older": older}, user=identities.SCHEDULER)
        for name in CONTROLLERS:
            older = partial(self._control, name, settings=OLDER_CONTROLLERS)
            world.add_program(
                name, partial(self._control, name), versions={"older": older}, user=identities.CONTROLLERS
            )
        for name in self.users:
            world.add_program(name, partial(self._use, name), is_spared=True)

    # For subclasses.

    async def prepare(self, client: Client) -> None:
        """What is there before users begin."""

    async def put_in_order(self, user: str, client: Client) -> None:
        """What a user does in the end: nothing stands in the way any more. Comes again if it raises `ApiError`, and
        when a pod that only a user looks after is gone."""

    # As a stage.

    async def ready(self) -> None:
        async with self.world.client_for(next(iter(self.users)), self.world.sim.env("prepare")) as client:
            await self.prepare(client)
        while (await find_deviations(self)) or not self._are_all_at_work():
            await tasks.sleep(_TICK)

    async def begin(self) -> None:
        self.options = draw_options(self.choose, self.users)
        self.told = str(self.options)
        self._busy = dict.fromkeys(self.users)
        self._begun.set()

    async def finish(self) -> None:
        self._is_over = True

    def spares(self) -> Sequence[Sequence[str]]:
        return (SERVERS, SCHEDULERS, CONTROLLERS)

    async def check(self) -> None:
        """All that is wanted is there, and then there is silence."""
        loop = self.world.sim.loop
        since_ns = looked_ns = loop.time_ns()
        while True:
            if self._busy:
                missing: Missing | None = WORLD, f"{', '.join(self._busy)} did not finish in time"
            else:
                missing = await find_deviations(self)
            silent_ns = loop.time_ns() - max(self.world.last_write_ns, since_ns)
            if missing is None and silent_ns >= _ns(SILENCE):
                return
            if missing is not None and loop.time_ns() - looked_ns > _ns(_LOOK_AGAIN):
                looked_ns = loop.time_ns()
                self._news.set()
            if loop.time_ns() - since_ns > _ns(WITHIN):
                raise Violated(*(missing or (WORLD, "the state is as wanted, but writes go on")))
            await tasks.sleep(_LOOK_EVERY)

    def _are_all_at_work(self) -> bool:
        are_deciding = any(each.is_deciding for each in self.schedulers.values())
        return are_deciding and any(each.term is not None for each in self.components.values())

    # Programs.

    async def _schedule(self, name: str, env: Env, settings: SchedulerSettings = SCHEDULER) -> None:
        async with self.world.client_for(name, env) as client:
            scheduler = self.schedulers[name] = Scheduler(
                client, env, instance=name, settings=settings, recorder=self.world.recorder
            )
            await scheduler.run()

    async def _control(self, name: str, env: Env, settings: ComponentSettings = CONTROLLING) -> None:
        async with self.world.client_for(name, env) as client:
            component = self.components[name] = Controllers(
                client,
                env,
                instance=name,
                controllers=self.controllers,
                loops=self.loops,
                settings=settings,
                recorder=self.world.recorder,
            )
            await component.run()

    async def _use(self, name: str, env: Env) -> None:
        async with self.world.client_for(name, env) as client:
            await self._begun.wait()
            deeds = self.options.list_actions(name, self.users[name])
            while not self._is_over:
                await tasks.sleep(self.options.tempo * (1 + self.choose(f"{name}/pause", 5) / 4))
                # A server is away, or another client was quicker. The next turn is another one.
                with suppress(ApiError):
                    await deeds[self.choose(f"{name}/deed", len(deeds))].do(self, client)
            while True:
                with suppress(ApiError):
                    self._news.clear()
                    await self.put_in_order(name, client)
                    self._busy.pop(name, None)
                    await self._news.wait()
                await tasks.sleep(_AGAIN)

    def _saw(self, event: Event) -> None:
        """Users have to be told when a pod is gone that has no controller, and when machines are."""
        if (
            isinstance(event, RevisionCommitted)
            and event.value is None
            and event.key.rpartition("/")[2] in self.singles
        ):
            self._news.set()
        elif isinstance(event, FaultsHealed) and self.world.lost:
            self._busy = dict.fromkeys(self.users)
            self._news.set()


def _choose_behaviour(spec: ContainerSpec) -> Behaviour:
    return _FAILS if spec.image == BROKEN else _ENDS_WELL if spec.image == PASSING else _GOES_ON


def _ns(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1) * 1000
