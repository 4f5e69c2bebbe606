"""The answer to a binding is lost while the heartbeat of its node is late. (SPEC F7, *binding during node failure*)

`risk-api` has four replicas and an autoscaler. One replica goes, and its replacement needs a node: the scheduler sends
the binding, and either its answer is lost or the request itself. At the same time the node falls silent, and the
scheduler's watch of pods is late. The scheduler must not choose again: it sends the same binding once more, by the same
identity, and finds the one that was committed, or makes it. Meanwhile the pod says one of two things:
`PodScheduled=True`, or `SchedulingRetrying=True` with a reason. The silent node gets no new pods and loses none within
its grace period, there is never a fifth replica, and no component raises the number of replicas.

All components are the real ones: Deployment, ReplicaSet and progress controllers, node health, repair, autoscaler,
scheduler and agents. The same without them, and with reservations, is bind_without_answer.py.
"""

from datetime import timedelta
from typing import Final

import msgspec

from mainstay.agent.fleet import PretendSettings
from mainstay.agent.runner import ContainerId, ContainerUsage
from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_names import AUTOSCALERS, DEPLOYMENTS, PODS
from mainstay.client.client import Client
from mainstay.controllers.autoscaler.loop import LOOP as AUTOSCALER
from mainstay.controllers.node_health.loop import LOOP as NODE_HEALTH
from mainstay.controllers.registry import CONTROLLERS
from mainstay.controllers.repair.loop import LOOP as REPAIR
from mainstay.env import tasks
from mainstay.scenarios._agents import CALM, SILENCE, TIMES, count_running
from mainstay.scenarios._control_programs import ControlProgramsStage
from mainstay.scenarios._stages import NAMESPACE, SERVERS
from mainstay.scenarios.narrations.binding_during_node_failure import NARRATION
from mainstay.scheduler.bind import BATCHES
from mainstay.scheduler.report import RETRYING
from mainstay.sim.active_faults import release_all
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.capacity import CapacityChecker
from mainstay.sim.checkers.decoded import decode_current
from mainstay.sim.cluster.history import Event, RequestReceived, RevisionCommitted
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

NAME: Final = "risk-api"
REPLICAS: Final = 4
SCHEDULER: Final = "scheduler-1"
PROGRAM: Final = "controllers-1"
NODES_THERE: Final = ("node-b6", "node-b7", "node-b8")
LOSSES: Final = ("answer-lost", "request-lost")
CUTS: Final = tuple(timedelta(seconds=seconds) for seconds in (8, 5, 14))
"""For how long a node is silent: it is suspect after about 4 s, and unknown after 10; its pods stay in all of them."""
LATE: Final = timedelta(seconds=6)
"""For how long the scheduler hears nothing of pods."""
CHECK: Final = "binding during node failure"
_PODS_PREFIX: Final = "core/pods/"
_KEY: Final = f"apps/deployments/{NAMESPACE}/{NAME}"
_TICK: Final = timedelta(milliseconds=200)
_CORE: Final = 10**9
_PERCENT: Final = 50
_LOAD: Final = REPLICAS * _CORE * _PERCENT // 100
"""What all containers have to do together: four replicas are what it needs."""
_decode = msgspec.json.Decoder(Object).decode


class BindingDuringNodeFailure(ControlProgramsStage):
    controllers = CONTROLLERS
    loops = (NODE_HEALTH, REPAIR, AUTOSCALER)
    turn_every = timedelta(seconds=15)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._cut_next: timedelta | None = None
        """For how long the node of the next binding is going to be silent."""
        self._is_next_late = False
        for name in NODES_THERE:
            world.add_node(name, PretendSettings(capacity=_CAPACITY, lease=TIMES), serves=True)
            world.machines[name].load = self._find_usage
        self.add_control_programs(SCHEDULER, PROGRAM)
        world.history.subscribe(self._saw)

    # What goes wrong.

    def _saw(self, event: Event) -> None:
        """Everything happens just as a binding is on its way."""
        if self._cut_next is None or not isinstance(event, RequestReceived) or not _is_binding(event):
            return
        duration, self._cut_next = self._cut_next, None
        node = _decode(event.body)["items"][0]["target"]["name"]
        self.world.after(timedelta(0), lambda: self._silence(node, duration))
        if self._is_next_late:
            self.world.after(timedelta(0), self._fall_behind)

    def _silence(self, node: str, duration: timedelta) -> None:
        """The agent reaches no server: its heartbeats are late."""
        network, what = self.world.sim.network, f"{node} is cut off from the servers"
        join = release_all(network.cut(node, server) for server in SERVERS)
        self.world.faults.note(f"{what} for {duration}")
        self.world.faults.undo_after(duration, what, join)

    def _fall_behind(self) -> None:
        for gate in self.world.gates.values():
            for tap in gate.taps.values():
                if tap.who == SCHEDULER and tap.prefix == _PODS_PREFIX:
                    tap.hold()
                    self.world.after(LATE, tap.release)

    def _find_usage(self, container: ContainerId) -> ContainerUsage:
        """The containers that run share the load."""
        running = count_running(self.world)
        return ContainerUsage(min(_CORE, _LOAD // max(running, 1)), 1024**2)

    # What the user does.

    async def prepare(self, client: Client) -> None:
        await client.create(DEPLOYMENTS, a_workload())
        await client.create(AUTOSCALERS, an_autoscaler())

    async def ready(self) -> None:
        await super().ready()
        while sum(pod_state.is_ready(pod) for pod in await self._pods()) < REPLICAS:
            await tasks.sleep(_TICK)
        await tasks.sleep(timedelta(seconds=20))  # Until then node health has only begun to listen.

    async def turn(self, client: Client) -> None:
        """A replica goes, and the binding of its replacement meets with everything at once."""
        ready = [pod for pod in await self._pods() if pod_state.is_ready(pod) and pod_state.is_active(pod)]
        if len(ready) < REPLICAS:
            return
        self._cut_next = CUTS[self.choose("for", len(CUTS))]
        self._is_next_late = self.choose("is in time", 3) != 2
        self.world.faults.when(_is_binding, LOSSES[self.choose("what is lost", len(LOSSES))])
        await self._end(client, ready[self.choose("which", len(ready))])
        await tasks.sleep(timedelta(seconds=6))
        # While the node is silent another replica goes, whose replacement must find another node.
        ready = [pod for pod in await self._pods() if pod_state.is_ready(pod) and pod_state.is_active(pod)]
        if ready and self.choose("another", 2) == 0:
            await self._end(client, ready[self.choose("which other", len(ready))])

    async def _end(self, client: Client, pod: Object) -> None:
        metadata = pod["metadata"]
        await client.delete(PODS, metadata["name"], NAMESPACE, uid=metadata["uid"])

    async def _pods(self) -> list[Object]:
        return [_decode(entry.value) for entry in (await self.world.store.range(_PODS_PREFIX)).entries]

    async def check(self) -> None:
        """Each replica is there, has its node, runs, and says nothing else."""
        pods = await self._pods()
        if (ready := sum(map(pod_state.is_ready, pods))) != REPLICAS or len(pods) != REPLICAS:
            raise Violated(CHECK, f"{REPLICAS} replicas should run at the end; of {len(pods)} pods {ready} are ready")
        for pod in pods:
            if (pod_state.find_condition(pod, RETRYING) or {}).get("status") == "True":
                raise Violated(CHECK, f"{pod['metadata']['name']} is reported as being retried at the end")


class NeverMore:
    """A lost answer and a silent node are no reason for more: neither a fifth replica, nor a larger number of them."""

    name = "never more"

    def __init__(self) -> None:
        self._active: dict[str, RevisionCommitted] = {}

    def saw(self, event: Event) -> None:
        if not isinstance(event, RevisionCommitted) or not event.key.startswith((_PODS_PREFIX, _KEY)):
            return
        found = decode_current(event.value)
        if event.key == _KEY:
            if found is not None and (wanted := found["spec"]["replicas"]) > REPLICAS:
                raise Violated(self.name, f"{wanted} replicas are asked for, {REPLICAS} would do", [event])
        elif found is None or not pod_state.is_active(found):
            self._active.pop(event.key, None)
        else:
            self._active[event.key] = event
            if len(self._active) > REPLICAS:
                raise Violated(self.name, f"there are {len(self._active)} replicas", list(self._active.values()))

    async def at_end(self, world: World) -> None:
        """Everything was told while it happened."""


def _is_binding(asked: RequestReceived) -> bool:
    return asked.who == SCHEDULER and asked.path == BATCHES


def a_workload() -> Object:
    labels = {"app": NAME}
    container = {"name": "main", "image": f"{NAME}:1", "resources": {"requests": {"cpu": "1"}}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 2}
    return {
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def an_autoscaler() -> Object:
    target = {"type": "Utilization", "averageUtilization": _PERCENT}
    return {
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME},
            "minReplicas": REPLICAS,
            "maxReplicas": 2 * REPLICAS,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    }


_CAPACITY: Final = {"cpu": "4", "memory": "8Gi"}

SCENARIO: Final = Scenario(
    name="binding-during-node-failure",
    about="The answer to a binding is lost and its node is silent: no second node, and no more replicas.",
    make=BindingDuringNodeFailure,
    checkers=lambda: [CapacityChecker(), AcknowledgedWrites(), NeverMore()],
    faults=("watch-repeat", "watch-disconnect", "latency", "answer-lost", "crash"),
    lasts=timedelta(seconds=55),
    calm=CALM,
    silence=SILENCE,
    ids=("F7",),
    narration=NARRATION,
)
