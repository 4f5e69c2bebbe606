"""A task comes while one of two placers leads, and the other one takes over. (kubernetes #102790)

The new leader must know of it, whether it heard of the task as a candidate, or missed it in a broken watch. Nothing
happens to a task after it has come, so no change reminds a leader of it.
"""

from datetime import timedelta
from typing import Final

from mainstay.client.client import Client
from mainstay.scenarios._stages import SILENCE, UserStage
from mainstay.scenarios._task_scheduler import TaskScheduler, add_node, add_task, placed
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.one_acting_leader import OneActingLeader
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario


class NewLeaderKnows(UserStage):
    turn_every = timedelta(seconds=3)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.add_controller(TaskScheduler(), "placer-1", "placer-2")
        self._made = 0

    async def prepare(self, client: Client) -> None:
        await add_node(client, "node-0")

    async def turn(self, client: Client) -> None:
        self._made += 1
        await add_task(client, f"task-{self._made}")


SCENARIO: Final = Scenario(
    name="new-leader-knows",
    about="Tasks are created while leaders change: a new leader sees those from before its term.",
    make=NewLeaderKnows,
    checkers=lambda: [WatchContract(), AcknowledgedWrites(), OneActingLeader(), placed()],
    faults=("leader-loss", "crash", "restart", "crash-after", "watch-disconnect", "watch-delay", "cut", "server-crash"),
    lasts=timedelta(minutes=2),  # Long enough for one of them to lead a second time.
    silence=SILENCE,
    ids=("7", "R1", "R6"),
)
