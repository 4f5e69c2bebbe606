"""A binding times out, and the heartbeat of its node is late. (SPEC F7, *binding during node failure*; kubernetes
#106361)

The request or its answer is lost, and watches are late too, so the scheduler cannot know whether its pod is bound. It
must neither choose another node for it nor give the room to another pod: it asks again, by the same identity, and finds
the binding that was committed, or makes it. Meanwhile the pod shows one of two things: `PodScheduled=True`, or
`SchedulingRetrying=True` with a reason. The node is closed to new pods while it is silent. Some pods have room
reserved for them: each reservation is used once, and there is never a second one.
"""

from datetime import timedelta
from typing import Final

import msgspec

from mainstay.api.annotations import RESERVATION
from mainstay.api.kind import Object
from mainstay.api.kind_names import PODS, RESERVATIONS
from mainstay.api.reservations import reservation_name
from mainstay.client.client import Client
from mainstay.env import tasks
from mainstay.scenarios._schedulers import CALM, RECHECKED, SchedulingStage, a_pod, add_node, cordon, end_pod
from mainstay.scenarios._stages import NAMESPACE, SILENCE
from mainstay.scheduler.bind import BATCHES
from mainstay.scheduler.component import SchedulerSettings
from mainstay.scheduler.report import RETRYING, ReportSettings
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.capacity import CapacityChecker
from mainstay.sim.checkers.reserved import Reserved
from mainstay.sim.cluster.history import Event, RequestReceived
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

SCHEDULER: Final = "scheduler"
NODES_THERE: Final = ("node-1", "node-2", "node-3")
LATE: Final = timedelta(seconds=5)
SOON: Final = timedelta(milliseconds=500)
LOSSES: Final = ("answer-lost", "request-lost")
AHEAD: Final = 6
SETTINGS: Final = SchedulerSettings(lease_name="", cycle=RECHECKED, report=ReportSettings(placed_a_second=0))
"""Without Events that pods are placed, so that the next write of the scheduler is a binding."""

_WORKLOAD: Final = {"kind": "Deployment", "name": "web", "uid": "1e0c4d27-0000-4000-8000-000000000007"}
_FOR_EVER: Final = "2099-01-01T00:00:00Z"
_decode = msgspec.json.Decoder(Object).decode


class BindWithoutAnswer(SchedulingStage):
    turn_every = timedelta(seconds=6)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.add_schedulers(SCHEDULER, settings=SETTINGS)
        self._made: list[str] = []
        self._is_next_late = False
        world.history.subscribe(self._saw)

    def _saw(self, event: Event) -> None:
        """Watches fall behind just as a binding is on its way."""
        if (
            self._is_next_late
            and isinstance(event, RequestReceived)
            and event.who == SCHEDULER
            and event.path == BATCHES
        ):
            self._is_next_late = False
            self.world.after(timedelta(0), self._fall_behind)

    def _fall_behind(self) -> None:
        for gate in self.world.gates.values():
            for tap in gate.taps.values():
                if tap.who == SCHEDULER and tap.prefix == "core/pods/":
                    tap.hold()
                    self.world.after(LATE, tap.release)

    async def prepare(self, client: Client) -> None:
        for name in NODES_THERE:
            await add_node(client, name, cpu="3")

    async def turn(self, client: Client) -> None:
        await self._make(client)
        await tasks.sleep(SOON)
        node = await self._late_node(client)
        await cordon(client, node, True)
        await self._make(client)
        await tasks.sleep(SOON * (1 + self.choose("for long", 6)))
        await cordon(client, node, False)
        for name in self._made[-AHEAD - 2 : -AHEAD]:
            await end_pod(client, name)

    async def _make(self, client: Client) -> None:
        """A pod, whose binding is going to be lost on its way, or its answer."""
        name = f"web-{len(self._made) + 1}"
        self._made.append(name)
        annotations = {}
        if self.choose("is reserved", 3) == 2:
            node = NODES_THERE[self.choose("where", len(NODES_THERE))]
            made = await client.create(RESERVATIONS, _a_reservation(name, node))
            annotations[RESERVATION] = made["metadata"]["name"]
        self._is_next_late = self.choose("is in time", 3) != 2
        faults = self.world.faults
        loss = LOSSES[self.choose("what is lost", len(LOSSES))]
        faults.at_write(SCHEDULER, faults.count_writes(SCHEDULER) + 1, loss)
        await client.create(PODS, a_pod(name, annotations, cpu="1"))

    async def _late_node(self, client: Client) -> str:
        """The node to which the pod was bound, whether or not its scheduler knows; or any."""
        pod = await client.get(PODS, self._made[-1], NAMESPACE)
        return str(pod["spec"].get("nodeName") or NODES_THERE[self.choose("which node", len(NODES_THERE))])

    async def check(self) -> None:
        """All is known in the end: each pod is one that a user wanted, has its node, and says nothing else."""
        await super().check()
        for entry in (await self.world.store.range("core/pods/")).entries:
            pod = _decode(entry.value)
            if pod["metadata"]["name"] not in self._made:
                raise Violated("bind without answer", f"no user asked for {entry.key}")
            said = {each["type"]: each["status"] for each in (pod.get("status") or {}).get("conditions") or ()}
            if said.get(RETRYING) == "True":
                raise Violated("bind without answer", f"{entry.key} is reported as being retried at the end")


def _a_reservation(pod: str, node: str) -> Object:
    return {
        "metadata": {"name": reservation_name(_WORKLOAD, 1, pod), "namespace": NAMESPACE},
        "spec": {
            "nodeName": node,
            "workload": _WORKLOAD,
            "generation": 1,
            "intent": pod,
            "resources": {"cpu": "1", "pods": "1"},
            "pod": {"name": pod},
            "expiresAt": _FOR_EVER,
        },
    }


SCENARIO: Final = Scenario(
    name="bind-without-answer",
    about="Bind responses are lost while nodes are silent: no pod gets a second node, and no node is overcommitted.",
    make=BindWithoutAnswer,
    checkers=lambda: [CapacityChecker(), AcknowledgedWrites(), Reserved()],
    lasts=timedelta(minutes=2),
    calm=CALM,
    silence=SILENCE,
    ids=("5", "F7", "F8"),
)
