"""Three schedulers that know nothing of each other place the same pods, on nodes that come, shrink and go.

All of them decide for all pods at once, from caches that may be seconds behind. Each pod gets one node, no node gets
more than it has, and what can be placed is.
"""

from datetime import timedelta
from typing import Final

from mainstay.api.kind_names import NODES, PODS
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, NotFound
from mainstay.scenarios._schedulers import (
    CALM,
    SchedulingStage,
    a_pod,
    add_node,
    cordon,
    end_pod,
    resize_node,
)
from mainstay.scenarios._stages import NAMESPACE, SILENCE
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.capacity import CapacityChecker
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

SIZES: Final = {"node-1": "2", "node-2": "3", "node-3": "4", "node-4": "6"}
CPU: Final = ("500m", "1", "1500m", "2")
AT_ONCE_MAX: Final = 4
_LATER: Final = ("node-3", "node-4")
_OWN_TURNS: Final = 4  # Of ten turns, those that make pods.


class RacingSchedulers(SchedulingStage):
    turn_every = timedelta(milliseconds=400)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.add_schedulers("scheduler-1", "scheduler-2", "scheduler-3")
        self._made = 0

    async def prepare(self, client: Client) -> None:
        for name, cpu in SIZES.items():
            if name not in _LATER:
                await add_node(client, name, cpu=cpu)

    async def turn(self, client: Client) -> None:
        what = self.choose("what", 10)
        if what < _OWN_TURNS:
            for _ in range(1 + self.choose("pods", AT_ONCE_MAX)):
                self._made += 1
                await client.create(PODS, a_pod(f"web-{self._made}", cpu=CPU[self.choose("cpu", len(CPU))]))
        elif what < 2 * _OWN_TURNS:
            await self._end_one(client)
        else:
            await self._change_a_node(client)

    async def _end_one(self, client: Client) -> None:
        if not self._made:
            return
        name = f"web-{1 + self.choose('which pod', self._made)}"
        try:
            if self.choose("how", 3):
                await end_pod(client, name)
            else:  # By force: it stays in the books as a ghost until the agent has ended it.
                await client.delete(PODS, name, NAMESPACE, grace_s=0)
        except NotFound:
            return

    async def _change_a_node(self, client: Client) -> None:
        name = list(SIZES)[self.choose("which node", len(SIZES))]
        what = self.choose("what of it", 5)
        try:
            if what == 0:
                await add_node(client, name, cpu=SIZES[name])
            elif what == 1:
                await cordon(client, name, True)
            elif what == 2:
                await cordon(client, name, False)
            elif what == 3:
                await resize_node(client, name, cpu=("1", SIZES[name])[self.choose("size", 2)])
            else:
                await client.delete(NODES, name)
        except (AlreadyExists, NotFound):
            return


SCENARIO: Final = Scenario(
    name="racing-schedulers",
    about="Three schedulers place the same pods: no pod gets two nodes, no node is overcommitted, no pod is left.",
    make=RacingSchedulers,
    checkers=lambda: [CapacityChecker(), AcknowledgedWrites()],
    calm=CALM,
    silence=SILENCE,
    ids=("W4",),
)
