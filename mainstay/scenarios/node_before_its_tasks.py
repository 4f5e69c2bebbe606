"""A node is emptied and then removed, and the task scheduler sees the second first. (kubernetes #89552)

Nodes and tasks come over two watches, and nothing keeps them in step. In between there are tasks on a node that is not
known: they must neither be a surprise, nor bring the node back.
"""

from contextlib import suppress
from datetime import timedelta
from typing import Final

from mainstay.api.kind_names import NODES
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists
from mainstay.env import tasks
from mainstay.scenarios._stages import NAMESPACE, SILENCE, UserStage
from mainstay.scenarios._task_scheduler import TASK_NAMES, TASKS, TaskScheduler, add_node, add_task, find_node, placed
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

STAYS: Final = "node-0"
OTHERS: Final = ("node-1", "node-2")
SETTLED_AFTER: Final = timedelta(seconds=3)


class NodeBeforeItsTasks(UserStage):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.add_controller(TaskScheduler(), "placer")

    async def prepare(self, client: Client) -> None:
        for name in (STAYS, *OTHERS):
            await add_node(client, name)

    async def turn(self, client: Client) -> None:
        for name in TASK_NAMES:
            with suppress(AlreadyExists):
                await add_task(client, name)
        name = OTHERS[self.choose("which node", len(OTHERS))]
        try:
            await add_node(client, name)
        except AlreadyExists:
            await self._remove_in_order(client, name)

    async def _remove_in_order(self, client: Client, name: str) -> None:
        await client.patch(NODES, name, "", {"spec": {"unschedulable": True}})
        await tasks.sleep(SETTLED_AFTER)
        for task in (await client.list(TASKS, NAMESPACE)).items:
            if find_node(task) == name:
                await client.delete(TASKS, task["metadata"]["name"], NAMESPACE)
        await client.delete(NODES, name)


SCENARIO: Final = Scenario(
    name="node-before-its-tasks",
    about="Deletions of tasks and their node arrive in the wrong order: no program fails or recreates the node.",
    make=NodeBeforeItsTasks,
    checkers=lambda: [WatchContract(), AcknowledgedWrites(), placed()],
    faults=("watch-delay", "watch-disconnect", "cut", "latency", "compaction-missed", "server-crash"),
    silence=SILENCE,
    ids=("4",),
)
