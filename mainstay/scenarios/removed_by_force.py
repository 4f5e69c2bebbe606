"""Pods are removed by force, and for long no agent confirms that they have stopped: their room stays taken.

By the books of the server alone: no watch tells of it. A scheduler that does not learn it from its refusals chooses the
same node again and again, and tells the pod something else each time. One that learns it for ever leaves the pod
waiting when the room is free. Some time after all is healed the agents speak up: then what has waited must be placed.
"""

from datetime import timedelta
from typing import Final

from mainstay.api.causes import BindingCause
from mainstay.api.kind_names import PODS
from mainstay.client.client import Client
from mainstay.client.errors import NotFound
from mainstay.scenarios._schedulers import CALM, SchedulingStage, a_pod, add_node, end_pod
from mainstay.scenarios._stages import NAMESPACE
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.capacity import CapacityChecker
from mainstay.sim.checkers.told import RefusalStability
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

SCHEDULER: Final = "scheduler"
NODES_THERE: Final = ("node-1", "node-2")
AHEAD: Final = 8
"""How many pods there are: twice as many as there is room for."""
SILENT_FOR: Final = timedelta(seconds=90)
"""After the user has ended."""
SILENCE: Final = timedelta(minutes=4)
"""Longer than agents are silent."""


class RemovedByForce(SchedulingStage):
    turn_every = timedelta(seconds=2)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.add_schedulers(SCHEDULER)
        self._made = 0
        self._speaks_ns: int | None = None

    def are_agents_silent(self) -> bool:
        return self._speaks_ns is None or self.world.sim.loop.time_ns() < self._speaks_ns

    async def prepare(self, client: Client) -> None:
        for name in NODES_THERE:
            await add_node(client, name, cpu="2")

    async def turn(self, client: Client) -> None:
        self._made += 1
        await client.create(PODS, a_pod(f"web-{self._made}", cpu="1"))
        if self._made > AHEAD:
            try:
                if self.choose("politely", 3):
                    await client.delete(PODS, f"web-{self._made - AHEAD}", NAMESPACE, grace_s=0)
                else:
                    await end_pod(client, f"web-{self._made - AHEAD}")
            except NotFound:
                return

    async def finish(self) -> None:
        await super().finish()
        silent_ns = SILENT_FOR // timedelta(microseconds=1) * 1000
        self._speaks_ns = self.world.sim.loop.time_ns() + silent_ns

    async def check(self) -> None:
        await super().check()
        refused = self.schedulers[SCHEDULER].counts.refused.get(BindingCause.HELD_BY_GHOSTS, 0)
        if refused > 2 * self._made:
            raise Violated("removed by force", f"{refused} bindings were rejected for {self._made} pods")


SCENARIO: Final = Scenario(
    name="removed-by-force",
    about="Force-deleted pods keep their room for long: others wait without retrying, and get it when it is free.",
    make=RemovedByForce,
    checkers=lambda: [CapacityChecker(), AcknowledgedWrites(), RefusalStability()],
    calm=CALM,
    silence=SILENCE,
    ids=("W6",),
)
