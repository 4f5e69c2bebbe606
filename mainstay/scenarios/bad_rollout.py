"""Rollouts to a template that cannot work, and then to one that can: they recover without a hand. (kubernetes #67250)

Pods of a broken image never become ready. Some of these rollouts are past their deadline when the good template comes,
some have only begun, and some are scaled meanwhile. In the end all pods have the last template and are ready, and at no
time had fewer pods been available than the strategy allows, counted from the first time that there were enough.
"""

from contextlib import suppress
from datetime import timedelta
from typing import Final

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_names import DEPLOYMENTS
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists
from mainstay.controllers.deployment.controller import Deployments
from mainstay.controllers.replicaset.controller import ReplicaSets
from mainstay.env import tasks
from mainstay.scenarios._stages import NAMESPACE, SILENCE
from mainstay.scenarios._workloads import PODS_PREFIX, WorkloadStage, a_workload, decode, read_image, with_image
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.cluster.history import Event, RevisionCommitted
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

NAME: Final = "web"
REPLICAS: Final = 4
LEAST: Final = 3
BROKEN: Final = "broken"
DEADLINE_S: Final = 6


class BadRollout(WorkloadStage):
    controllers = (Deployments(), ReplicaSets())
    turn_every = timedelta(seconds=7)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._number = 1

    async def prepare(self, client: Client) -> None:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": REPLICAS - LEAST}}
        wanted = a_workload(
            NAME, REPLICAS, "good-1", strategy=strategy, progressDeadlineSeconds=DEADLINE_S, revisionHistoryLimit=2
        )
        with suppress(AlreadyExists):
            await client.create(DEPLOYMENTS, wanted)

    async def ready(self) -> None:
        await super().ready()
        while sum(pod_state.is_ready(pod) for pod in await self.objects(PODS_PREFIX)) < REPLICAS:
            await tasks.sleep(timedelta(milliseconds=100))

    async def go_on(self, client: Client, pod: Object) -> None:
        if pod_state.is_leaving(pod) or not read_image(pod).startswith(BROKEN):
            await super().go_on(client, pod)

    async def turn(self, client: Client) -> None:
        self._number += 1
        await client.patch(DEPLOYMENTS, NAME, NAMESPACE, with_image(f"{BROKEN}-{self._number}"))
        await tasks.sleep(timedelta(seconds=(1, 3, DEADLINE_S + 3)[self.choose("for long", 3)]))
        if self.choose("twice", 3) == 2:
            await client.patch(DEPLOYMENTS, NAME, NAMESPACE, with_image(f"{BROKEN}-again-{self._number}"))
            await tasks.sleep(timedelta(seconds=1))

    async def check(self) -> None:
        """The good one is said when all has come to rest with the bad one."""
        async with self.world.client_for("user", self.world.sim.env("check")) as client:
            # One that was there before, or a new one.
            good = f"good-{1 + self.choose('good', 2) * self._number}"
            await client.patch(DEPLOYMENTS, NAME, NAMESPACE, with_image(good))
        await self.world.quiet(timedelta(minutes=10), timedelta(seconds=30))
        pods = await self.objects(PODS_PREFIX)
        found = sorted((read_image(pod), pod_state.is_ready(pod)) for pod in pods)
        if found != [(good, True)] * REPLICAS:
            raise Violated("bad rollout", f"{REPLICAS} of {good} are wanted at the end, but there are {found}")


class EnoughAvailable:
    """There are always so many pods that are ready and not leaving, once there were."""

    name = "enough available"

    def __init__(self) -> None:
        self._ready: dict[str, None] = {}
        self._has_been_enough = False

    def saw(self, event: Event) -> None:
        if not isinstance(event, RevisionCommitted) or not event.key.startswith(PODS_PREFIX):
            return
        pod = decode(event.value) if event.value is not None else None
        if pod is not None and pod_state.is_active(pod) and pod_state.is_ready(pod):
            self._ready[event.key] = None
        else:
            self._ready.pop(event.key, None)
        if len(self._ready) >= LEAST:
            self._has_been_enough = True
        elif self._has_been_enough:
            raise Violated(self.name, f"{len(self._ready)} pods are available, but {LEAST} are required", [event])

    async def at_end(self, world: World) -> None:
        """Everything was told while it happened."""


SCENARIO: Final = Scenario(
    name="bad-rollout",
    about="Rollouts to a broken template, then to a good one: they recover, and enough pods stay available.",
    make=BadRollout,
    checkers=lambda: [WatchContract(), AcknowledgedWrites(), EnoughAvailable()],
    faults=("watch-delay", "watch-disconnect", "answer-lost", "crash", "crash-before", "crash-after", "pause"),
    lasts=timedelta(seconds=30),
    silence=SILENCE,
    ids=("20",),
)
