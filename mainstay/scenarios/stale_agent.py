"""A pod is deleted on one node and made again on another; the first node's agent restarts, and is told of old times.
(kubernetes #59848)

One server has not heard of anything for a while. A client that lists there for the first time takes what is long gone
for what is: the agent must not start a pod that the store does not have any more. And what it runs itself, and an old
list does not know yet, it must leave alone.
"""

from contextlib import suppress
from datetime import timedelta
from typing import Final

from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, NotFound
from mainstay.env import tasks
from mainstay.scenarios._agents import CALM, PODS, SILENCE, AgentStage, a_pod
from mainstay.scenarios._stages import NAMESPACE, SERVERS
from mainstay.sim.checkers.at_most_one import AtMostOne
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

NAME: Final = "db-0"
OLD_FOR: Final = timedelta(seconds=12)
ENDED_AFTER: Final = timedelta(seconds=3)
RUNS_AFTER: Final = timedelta(seconds=3)


class StaleAgent(AgentStage):
    turn_every = timedelta(seconds=4)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._where = 0

    async def turn(self, client: Client) -> None:
        """Move the pod to the other node, and restart agents that are told of one half of it or the other."""
        node, other = self.nodes[self._where], self.nodes[1 - self._where]
        moment = self.choose("when", 3)
        if moment == 1:
            await self._fall_behind()
        with suppress(NotFound):
            await client.delete(PODS, NAME, NAMESPACE)
        await tasks.sleep(ENDED_AFTER)
        if moment == 2:
            await self._fall_behind()
        with suppress(AlreadyExists):
            await client.create(PODS, a_pod(NAME, other, is_at_most_one=True))
            self._where = 1 - self._where
        await tasks.sleep(RUNS_AFTER)
        for name in (node, other):
            self.world.faults.crash(self.world.programs[name], timedelta(milliseconds=500))

    async def _fall_behind(self) -> None:
        """One server, or all of them: agents choose which one they ask."""
        revision = await self.world.store.revision()
        for name in SERVERS[: 1 + self.choose("all servers", 2)]:
            port = self.world.ports.get(name)
            if port is not None and port.is_current.is_set():
                catch_up = port.hold_back(states_at=revision)
                self.world.faults.undo_after(OLD_FOR, f"{name} is behind", catch_up)


SCENARIO: Final = Scenario(
    name="stale-agent",
    about="A pod moves to another node, and the first agent restarts from a stale list: it must not run the pod again.",
    make=StaleAgent,
    checkers=lambda: [AtMostOne()],
    faults=("latency", "watch-delay", "watch-disconnect", "crash", "crash-after", "answer-lost"),
    lasts=timedelta(seconds=90),
    calm=CALM,
    silence=SILENCE,
    ids=("1",),
)
