"""`fraud-batch` wants three replicas, and one of them becomes unknown. (SPEC R5, *repairing a missing replica*)

Its node is cut off: for less than the grace period, for a little more, or for long. Within it nothing happens, however
often a controller looks. After it the replica is marked for release through its owner, and when that is committed there
is exactly one replacement, named after the one that it replaces, until three run again. If the old one is heard of
again in time, it stays and there is none. All of it is done by two processes that crash at any moment, also between two
steps."""

from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

import msgspec

from mainstay.api import pod_state
from mainstay.api.annotations import REPLACES
from mainstay.api.kind import Object
from mainstay.api.kind_names import REPLICASETS
from mainstay.client.client import Client
from mainstay.controllers.component import Controllers
from mainstay.controllers.replicaset.controller import ReplicaSets
from mainstay.env import Env, tasks
from mainstay.loop.component import ComponentSettings
from mainstay.scenarios._agents import CALM, TIMES
from mainstay.scenarios._health import HealthStage, a_patient_pod
from mainstay.scenarios._stages import LEASE
from mainstay.scenarios._workloads import PODS_PREFIX, a_workload
from mainstay.scenarios.narrations.missing_replica import NARRATION
from mainstay.scheduler.component import Scheduler, SchedulerSettings
from mainstay.server.auth import identities
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.one_acting_leader import OneActingLeader
from mainstay.sim.checkers.patient import PatientEviction
from mainstay.sim.cluster.history import Event, RevisionCommitted
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

NAME: Final = "fraud-batch"
REPLICAS: Final = 3
SCHEDULER: Final = "scheduler"
FOR: Final = tuple(timedelta(seconds=seconds) for seconds in (40, 18, 14, 8, 5))
"""From about 18 s on the replica is told to go. After 14 it is unknown; the last two are within the grace period."""
_decode = msgspec.json.Decoder(Object).decode


class MissingReplica(HealthStage):
    zones: Mapping[str, str] = MappingProxyType(
        {"node-gpu-6": "a", "node-gpu-7": "a", "node-gpu-8": "b", "node-gpu-9": "b"}
    )
    turn_every = timedelta(seconds=14)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.add_program(SCHEDULER, self._schedule, user=identities.SCHEDULER)

    async def prepare(self, client: Client) -> None:
        wanted: dict[str, Any] = a_workload(NAME, REPLICAS)
        tolerations = a_patient_pod("", "")["spec"]["tolerations"]
        wanted["spec"]["template"]["spec"]["tolerations"] = tolerations
        await client.create(REPLICASETS, wanted)

    async def ready(self) -> None:
        await super().ready()
        while sum(pod_state.is_ready(pod) for pod in await self._pods()) < REPLICAS:
            await tasks.sleep(timedelta(milliseconds=100))

    async def turn(self, client: Client) -> None:
        """The node of a replica is not heard of for a while."""
        pods = [pod for pod in await self._pods() if pod_state.is_active(pod) and pod_state.get_node_name(pod)]
        if pods:
            node = pod_state.get_node_name(pods[self.choose("which", len(pods))])
            self.cut([node], FOR[self.choose("for", len(FOR))])

    async def check(self) -> None:
        await super().check()
        pods = [pod for pod in await self._pods() if pod_state.get_node_name(pod) not in self.killed]
        ready = [pod["metadata"]["name"] for pod in pods if pod_state.is_ready(pod)]
        if len(pods) != REPLICAS or len(ready) != REPLICAS:
            text = f"{REPLICAS} pods should run at the end; of {len(pods)} these are ready: {ready}"
            raise Violated("missing replica", text)

    async def _pods(self) -> list[Object]:
        return [_decode(entry.value) for entry in (await self.world.store.range(PODS_PREFIX)).entries]

    async def _watch(self, name: str, env: Env) -> None:
        async with self.world.client_for(name, env) as client:
            await Controllers(
                client,
                env,
                instance=name,
                controllers=(ReplicaSets(),),
                loops=self.loops,
                settings=ComponentSettings(lease=LEASE),
                recorder=self.world.recorder,
            ).run()

    async def _schedule(self, env: Env) -> None:
        async with self.world.client_for(SCHEDULER, env) as client:
            settings = SchedulerSettings(lease_name="")
            await Scheduler(client, env, settings=settings, recorder=self.world.recorder).run()


class OneReplacement:
    """A replica is replaced once, and not before it was told to go; so there are never more of them than are wanted."""

    name = "one replacement"

    def __init__(self) -> None:
        self._pods: dict[str, tuple[Object, RevisionCommitted]] = {}
        self._replaced: dict[str, RevisionCommitted] = {}

    def saw(self, event: Event) -> None:
        if not isinstance(event, RevisionCommitted) or not event.key.startswith(PODS_PREFIX):
            return
        if event.value is None:
            self._pods.pop(event.key, None)
            return
        pod = _decode(event.value)
        if event.previous is None:
            self._is_new(pod, event)
        self._pods[event.key] = pod, event
        active = [each for other, each in self._pods.values() if pod_state.is_active(other)]
        if len(active) > REPLICAS:
            raise Violated(self.name, f"there are {len(active)}, but {REPLICAS} are wanted", active)

    async def at_end(self, world: World) -> None:
        """Everything was told while it happened."""

    def _is_new(self, pod: Object, event: RevisionCommitted) -> None:
        replaces = (pod["metadata"].get("annotations") or {}).get(REPLACES)
        if not replaces:
            return
        if (first := self._replaced.setdefault(replaces, event)) is not event:
            raise Violated(self.name, f"{replaces} has a second replacement", [first, event])
        for other, seen in self._pods.values():
            if other["metadata"]["uid"] == replaces and pod_state.is_active(other):
                raise Violated(self.name, f"{replaces} was replaced, but was not deleted", [seen, event])


SCENARIO: Final = Scenario(
    name="missing-replica",
    about="One of three replicas becomes unknown: after a grace period it gets exactly one replacement.",
    make=MissingReplica,
    checkers=lambda: [AcknowledgedWrites(), OneActingLeader(), PatientEviction(TIMES.duration), OneReplacement()],
    faults=("crash", "crash-before", "crash-after", "answer-lost", "watch-delay"),
    lasts=timedelta(seconds=55),
    calm=CALM,
    silence=timedelta(seconds=60),
    ids=("R5",),
    narration=NARRATION,
)
