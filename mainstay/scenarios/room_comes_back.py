"""Pods wait for room on nodes that are full, and it comes while watches are broken. (kubernetes #51313, #55587)

A pod ends while a server is away; a node goes and is there again under its name. A scheduler that misses it counts as
taken what is free, and leaves pods waiting for ever; or it puts them on a node that is not there any more (#56261). The
pods of a node end after it (#89908), and each new leader must know of all that waits, whichever leader saw it
(#102790)."""

from datetime import timedelta
from typing import Final

from mainstay.api.kind_names import NODES, PODS
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, NotFound
from mainstay.scenarios._schedulers import CALM, LED, SchedulingStage, a_pod, add_node, end_pod, resize_node
from mainstay.scenarios._stages import NAMESPACE, SILENCE
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.capacity import CapacityChecker
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

NODES_THERE: Final = ("node-1", "node-2")
AHEAD: Final = 8
"""How many pods there are: about twice as many as there is room for."""


class RoomComesBack(SchedulingStage):
    turn_every = timedelta(seconds=1)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.add_schedulers("scheduler-1", "scheduler-2", settings=LED)
        self._made = 0

    async def prepare(self, client: Client) -> None:
        for name in NODES_THERE:
            await add_node(client, name, cpu="2")

    async def turn(self, client: Client) -> None:
        self._made += 1
        await client.create(PODS, a_pod(f"web-{self._made}", cpu="1"))
        try:
            if self._made > AHEAD:
                await self._end(client, f"web-{self._made - AHEAD}")
            name = NODES_THERE[self.choose("which node", len(NODES_THERE))]
            what = self.choose("what of it", 4)
            if what == 1:
                await resize_node(client, name, cpu=("2", "3")[self.choose("size", 2)])
            elif what == 2:
                await client.delete(NODES, name)
                if self.choose("comes back at once", 2) == 0:
                    await add_node(client, name, cpu="2")
            elif what:
                await add_node(client, name, cpu="2")
        except (AlreadyExists, NotFound):
            return

    async def _end(self, client: Client, name: str) -> None:
        if self.choose("by force", 2):
            await client.delete(PODS, name, NAMESPACE, grace_s=0)
        else:
            await end_pod(client, name)


SCENARIO: Final = Scenario(
    name="room-comes-back",
    about="Room becomes free while watches are broken, even on a recreated node: no pod keeps waiting for it.",
    make=RoomComesBack,
    checkers=lambda: [CapacityChecker(), AcknowledgedWrites()],
    calm=CALM,
    silence=SILENCE,
    ids=("2", "3", "4", "7"),
)
