"""A binding is committed and its answer lost, watches are late, and the node stops being heard of. (SPEC F7; #106361)

The scheduler cannot know whether its pod is bound. It must not choose another node for it, nor give the room to another
pod: it asks again, by the same identity, and finds what it did. New pods stay away from the node meanwhile.
"""

from datetime import timedelta
from typing import Final

from mainstay.client.client import Client
from mainstay.env import tasks
from mainstay.scheduler.binding import PODS
from mainstay.scheduler.component import NODES
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.capacity import Capacity
from mainstay.sim.scenario import Scenario
from mainstay.sim.scenarios._scheduling import CALM, SchedulingStage, a_pod, add_node, end_pod
from mainstay.sim.scenarios._stages import SILENCE
from mainstay.sim.world import World

SCHEDULER: Final = "scheduler"
NODES_THERE: Final = ("node-1", "node-2")
LATE: Final = timedelta(seconds=10)
SOON: Final = timedelta(seconds=1)
UNREACHABLE: Final = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}


class BindWithoutAnswer(SchedulingStage):
    turn_every = timedelta(seconds=6)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.add_schedulers(SCHEDULER)
        self._made = 0

    async def prepare(self, client: Client) -> None:
        for name in NODES_THERE:
            await add_node(client, name, cpu="2")

    async def turn(self, client: Client) -> None:
        for gate in self.world.gates.values():
            for tap in gate.taps.values():
                if tap.who == SCHEDULER and tap.prefix == "core/pods/" and self.choose("is late", 2):
                    self.world.after(SOON, tap.hold)
                    self.world.after(SOON + LATE, tap.release)
        faults = self.world.faults
        faults.at_write(SCHEDULER, faults.writes_of(SCHEDULER) + 1, "answer-lost")
        node = NODES_THERE[self.choose("which node", len(NODES_THERE))]
        self._made += 1
        await client.create(PODS, a_pod(f"web-{self._made}", cpu="1"))
        await client.patch(NODES, node, "", {"spec": {"taints": [UNREACHABLE]}})
        await tasks.sleep(SOON)
        await client.patch(NODES, node, "", {"spec": {"taints": []}})
        if self._made > len(NODES_THERE):
            await end_pod(client, f"web-{self._made - len(NODES_THERE)}")


SCENARIO: Final = Scenario(
    name="bind-without-answer",
    about="Bindings are done and not answered while nodes are unheard of; no pod gets a second node, no node too much.",
    make=BindWithoutAnswer,
    checkers=lambda: [Capacity(), AcknowledgedWrites()],
    calm=CALM,
    silence=SILENCE,
)
