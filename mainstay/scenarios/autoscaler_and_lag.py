"""Load rises and falls while the scheduler lags, a quota is exhausted or a topology is full; the autoscaler waits.

Again and again: one of the three begins to block, and the load rises, so that more replicas are asked for, of which
some are kept back. Then the load rises on, and the autoscaler looks at least once before nothing blocks any more.

The real autoscaler, controllers, scheduler and agents; the agents tell what the containers use, which share the load.
More replicas than can run do not help: while the progress record says that those asked for already are kept back
elsewhere, the autoscaler must not ask for more (checkers/autoscaled.py), and never for more than what the agents have
told justifies. When all is healed it asks for exactly what the load needs. (SPEC F5, T1)
"""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from enum import Enum
from math import ceil
from typing import Final

import msgspec

from mainstay.agent.fleet import PretendSettings
from mainstay.agent.runner import ContainerId, ContainerUsage
from mainstay.api.kind import Object
from mainstay.api.kind_names import AUTOSCALERS, DEPLOYMENTS, NODES, RESOURCE_QUOTAS
from mainstay.api.well_known_labels import ZONE_LABEL
from mainstay.client.client import Client
from mainstay.client.errors import NotFound
from mainstay.controllers.autoscaler.loop import LOOP as AUTOSCALER
from mainstay.controllers.deployment.controller import Deployments
from mainstay.controllers.progress.controller import DEPLOYMENT_PROGRESS, REPLICASET_PROGRESS
from mainstay.controllers.replicaset.controller import ReplicaSets
from mainstay.env import tasks
from mainstay.loop.fencing import LeaseTimes
from mainstay.loop.lease import LeaseSettings
from mainstay.scenarios._agents import CALM, SILENCE, count_running
from mainstay.scenarios._control_programs import ControlProgramsStage
from mainstay.scenarios._held_watch import HeldWatch
from mainstay.scenarios._stages import NAMESPACE
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.autoscaled import DECISIONS
from mainstay.sim.checkers.capacity import CapacityChecker
from mainstay.sim.cluster.history import Event, RequestReceived, RevisionCommitted
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

NAME: Final = "web"
SCHEDULER: Final = "scheduler-1"
PROGRAM: Final = "controllers-1"
ZONES: Final = {"node-a": "a", "node-b": "b", "node-c": "c"}
BLOCKED_ZONES: Final = ("node-b", "node-c")
"""While these take no more, the skew over zones leaves the third nearly nothing."""
LEAST, MOST = 4, 12
PERCENT: Final = 50
CORE: Final = 10**9
PER_POD: Final = CORE * PERCENT // 100
"""What a pod should use: half of the core that it requests. It can use the whole."""
LOADS: Final = tuple(number * PER_POD for number in (4, 5, 2, 6))
"""When nothing blocks."""
BLOCKS: Final = ("scheduler", "quota", "topology")
PATIENCE: Final = 5
"""For how many turns it waits until replicas are kept back: it takes a look of the autoscaler."""
PRESSED_FOR: Final = 3
"""In these turns the autoscaler looks once at least, and must not raise."""
LOAD_AT_END: Final = 3 * CORE
TOLD_WITHIN: Final = timedelta(seconds=60)
"""How old what an agent has told may be when a decision is committed that goes by it."""
QUOTA: Final = "few-pods"
CHECK: Final = "justified"
_TICK: Final = timedelta(milliseconds=200)
_PODS_PREFIX: Final = "core/pods/"
_KEY: Final = f"apps/deployments/{NAMESPACE}/{NAME}"
_CAPACITY: Final = {"cpu": "6", "memory": "16Gi"}
_NODE_LEASE: Final = LeaseTimes(duration=timedelta(seconds=40), renew_every=timedelta(seconds=10))
_MEMORY: Final = 1024**2
WORKING: Final = (Deployments(), ReplicaSets(), DEPLOYMENT_PROGRESS, REPLICASET_PROGRESS)
"""The controllers that take part. There are many runs of this."""
_LEASE: Final = LeaseSettings(
    times=LeaseTimes(duration=timedelta(seconds=15), renew_every=timedelta(seconds=5)), retry_every=timedelta(seconds=3)
)
_decode = msgspec.json.Decoder(Object).decode


class LoadPhase(Enum):
    """How far the user is."""

    CALM = 0
    BLOCKED = 1
    """Something blocks, and more replicas are wanted than there are."""
    PRESSED = 2
    """And the load rises on."""


class AutoscalerAndLag(ControlProgramsStage):
    controllers = WORKING
    loops = (AUTOSCALER,)
    lease = _LEASE
    turn_every = timedelta(seconds=5)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.load = LEAST * PER_POD
        """What all containers of the workload have to do together, in billionths of a core."""
        self.blocks: dict[str, None] = {}
        self._phase = LoadPhase.CALM
        self._turns_in_phase = 0
        self._pod_watch = HeldWatch(world, SCHEDULER, _PODS_PREFIX)
        self._told: dict[str, deque[tuple[int, int]]] = {name: deque() for name in ZONES}
        """By node: when its agent was asked, and what its containers used."""
        self._asked: dict[int, None] = {}
        self._violation: Violated | None = None
        for name, zone in ZONES.items():
            settings = PretendSettings(labels={ZONE_LABEL: zone}, capacity=_CAPACITY, lease=_NODE_LEASE)
            world.add_node(name, settings, serves=True)
            world.machines[name].load = self._make_load(name)
        # It lags when the user says so, and otherwise works: a crash would open a watch that is not held.
        self.add_control_programs(SCHEDULER, PROGRAM, is_scheduler_spared=True)
        world.history.subscribe(self._saw)

    # What containers use.

    def _make_load(self, node: str) -> Callable[[ContainerId], ContainerUsage]:
        def find_usage(container: ContainerId) -> ContainerUsage:
            used, now_ns = self._share(), self.world.sim.loop.time_ns()
            told = self._told[node]
            if told and told[-1][0] == now_ns:
                told[-1] = (now_ns, told[-1][1] + used)
            else:
                told.append((now_ns, used))
            return ContainerUsage(used, _MEMORY)

        return find_usage

    def _share(self) -> int:
        """What one of the containers that run uses."""
        return min(CORE, self.load // max(count_running(self.world), 1))

    async def _read_replicas(self) -> int:
        """How many are asked for."""
        entry = await self.world.store.get(_KEY)
        return int(_decode(entry.value)["spec"]["replicas"]) if entry is not None else 0

    def _find_justified(self) -> int:
        """How many replicas what the agents have told lately is enough for, at most."""
        since = self.world.sim.loop.time_ns() - TOLD_WITHIN // timedelta(microseconds=1) * 1000
        total = 0
        for told in self._told.values():
            while told and told[0][0] < since:
                told.popleft()
            total += max((used for _, used in told), default=0)
        return ceil(total / PER_POD)

    def _saw(self, event: Event) -> None:
        if isinstance(event, RequestReceived) and event.decision.startswith(DECISIONS):
            self._asked[event.request] = None
        if isinstance(event, RevisionCommitted) and event.key == _KEY and event.request in self._asked:
            if event.value is None or event.previous is None:
                return
            before, after = (_decode(each)["spec"]["replicas"] for each in (event.previous, event.value))
            justified = max(self._find_justified(), LEAST)
            if after > before and after > justified:
                text = f"{after} replicas are asked for, {justified} would do"
                self._violation = self._violation or Violated(CHECK, text, [event])

    # As a stage.

    async def prepare(self, client: Client) -> None:
        await client.create(DEPLOYMENTS, a_workload())
        await client.create(AUTOSCALERS, an_autoscaler())

    async def ready(self) -> None:
        await super().ready()
        while self.scheduler is None or not self.scheduler.is_deciding:
            await tasks.sleep(_TICK)
        while len(self.world.machines) > sum(bool(told) for told in self._told.values()) and self._share() == 0:
            await tasks.sleep(_TICK)
        await tasks.sleep(timedelta(seconds=40))

    async def turn(self, client: Client) -> None:
        """One after the other: something blocks; the load rises, and more replicas are wanted, of which some are kept
        back; the load rises on; and then nothing blocks any more."""
        if self._is_over:
            return  # Meanwhile all was put in order, and stays so.
        self._turns_in_phase += 1
        if "scheduler" in self.blocks:
            self._pod_watch.hold()  # Also one that was opened again.
        wanted, running = await self._read_replicas(), count_running(self.world)
        match self._phase:
            case LoadPhase.CALM:
                await self._block(client, BLOCKS[self.choose("block", len(BLOCKS))])
                self.load = (wanted + 2 + self.choose("more", 2)) * PER_POD
                self._begin(LoadPhase.BLOCKED)
            case LoadPhase.BLOCKED if self._turns_in_phase > 1 and wanted > running:
                self.load = running * CORE
                self._begin(LoadPhase.PRESSED)
            case LoadPhase.BLOCKED if self._turns_in_phase > PATIENCE:
                await self._end_blocks(client)  # All of them have got there.
            case LoadPhase.PRESSED if self._turns_in_phase > PRESSED_FOR:
                await self._end_blocks(client)
            case _:
                pass

    async def _end_blocks(self, client: Client) -> None:
        for block in list(self.blocks):
            await self._unblock(client, block)
        self.load = LOADS[self.choose("load", len(LOADS))]
        self._begin(LoadPhase.CALM)

    def _begin(self, phase: "LoadPhase") -> None:
        self._phase, self._turns_in_phase = phase, 0

    async def _block(self, client: Client, block: str) -> None:
        self.blocks[block] = None
        if block == "scheduler":
            self._pod_watch.hold()
        elif block == "quota":
            pods = len((await self.world.store.range(_PODS_PREFIX)).entries)
            spec = {"hard": {"pods": str(max(pods, LEAST))}}
            await client.create(RESOURCE_QUOTAS, {"metadata": {"name": QUOTA, "namespace": NAMESPACE}, "spec": spec})
        else:
            for node in BLOCKED_ZONES:
                await client.patch(NODES, node, "", {"spec": {"unschedulable": True}})

    async def _unblock(self, client: Client, block: str) -> None:
        if block == "scheduler":
            self._pod_watch.release()
        elif block == "quota":
            with suppress(NotFound):  # Its creation failed.
                await client.delete(RESOURCE_QUOTAS, QUOTA, NAMESPACE)
        else:
            for node in BLOCKED_ZONES:
                await client.patch(NODES, node, "", {"spec": {"unschedulable": None}})
        self.blocks.pop(block)

    async def finish(self) -> None:
        await super().finish()
        self.load = LOAD_AT_END
        self._pod_watch.release()
        async with self.world.client_for("user", self.world.sim.env("heal")) as client:
            for block in list(self.blocks):
                await self._unblock(client, block)

    async def check(self) -> None:
        if self._violation is not None:
            raise self._violation
        replicas = await self._read_replicas()
        needed = ceil(LOAD_AT_END / PER_POD)
        if abs(replicas - needed) > 1:
            text = f"the load needs {needed} replicas at the end, but {replicas} are asked for"
            said = await self.world.store.get(f"autoscaling/horizontalpodautoscalers/{NAMESPACE}/{NAME}")
            raise Violated(CHECK, f"{text}: {_decode(said.value).get('status') if said is not None else ''}")


def a_workload() -> Object:
    labels = {"app": NAME}
    spread = {
        "maxSkew": 1,
        "topologyKey": ZONE_LABEL,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
    }
    container = {"name": "main", "image": "web:1", "resources": {"requests": {"cpu": "1"}}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 2, "topologySpreadConstraints": [spread]}
    return {
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {
            "replicas": LEAST,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def an_autoscaler() -> Object:
    target = {"type": "Utilization", "averageUtilization": PERCENT}
    return {
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME},
            "minReplicas": LEAST,
            "maxReplicas": MOST,
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 30}},
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    }


SCENARIO: Final = Scenario(
    name="autoscaler-and-lag",
    about="While replicas are kept back by placement, quota or a scheduler that lags, the autoscaler asks for no more.",
    make=AutoscalerAndLag,
    checkers=lambda: [CapacityChecker(), AcknowledgedWrites()],
    faults=("watch-repeat", "watch-disconnect", "latency", "request-lost", "answer-lost", "crash"),
    lasts=timedelta(seconds=100),
    calm=CALM,
    silence=SILENCE,
    ids=("F5", "T1"),
)
