"""A node is deleted while the task scheduler gets no changes. (kubernetes #56261, #94437)

A cache that keeps the node for ever has tasks put on a ghost for ever. Nodes also come back under the same name, as
other nodes: what was on the first is not on the second.
"""

from datetime import timedelta
from typing import Final

from mainstay.api.kind_names import NODES
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists
from mainstay.scenarios._stages import SILENCE, UserStage
from mainstay.scenarios._task_scheduler import TASK_NAMES, TaskScheduler, add_node, add_or_remove_task, placed
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

STAYS: Final = "node-0"
OTHERS: Final = ("node-1", "node-2", "node-3")


class GhostNode(UserStage):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.add_controller(TaskScheduler(), "placer")

    async def prepare(self, client: Client) -> None:
        for name in (STAYS, *OTHERS):
            await add_node(client, name)

    async def turn(self, client: Client) -> None:
        if self.choose("task", 2):
            await add_or_remove_task(client, TASK_NAMES[self.choose("which task", len(TASK_NAMES))])
            return
        name = OTHERS[self.choose("which node", len(OTHERS))]
        try:
            await add_node(client, name)
        except AlreadyExists:
            await client.delete(NODES, name)


SCENARIO: Final = Scenario(
    name="ghost-node",
    about="Nodes are deleted while the watch on them is broken: no task stays on a node that does not exist.",
    make=GhostNode,
    checkers=lambda: [WatchContract(), AcknowledgedWrites(), placed()],
    lasts=timedelta(minutes=2),
    silence=SILENCE,
    ids=("2", "R1", "R6"),
)
