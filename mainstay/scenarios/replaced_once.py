"""A pod of which there must never be two, on nodes that are cut off; node health lets it go when it must have ended.

A controller creates it again on another node as soon as it is gone, and deletes it now and then. The nodes come back
when they like: before they are fenced, while their lease is held, or long after. (SPEC R4, F2; compare
fenced_before_replaced.py, where the replacing is done by the test itself)"""

from contextlib import suppress
from datetime import timedelta
from typing import Final

from mainstay.agent.runners.pretend import Delays
from mainstay.client.client import Client
from mainstay.client.errors import ApiError, NotFound
from mainstay.env import Env, tasks
from mainstay.scenarios._agents import CALM, NODES, PODS, SILENCE
from mainstay.scenarios._health import HealthStage, a_patient_pod
from mainstay.scenarios._stages import NAMESPACE
from mainstay.sim.checkers.at_most_one import AtMostOne
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

KEEPER: Final = "keeper"
NAME: Final = "db-0"
FOR: Final = tuple(timedelta(seconds=seconds) for seconds in (6, 13, 30, 45))
LOOK_EVERY: Final = timedelta(milliseconds=500)


class ReplacedOnce(HealthStage):
    turn_every = timedelta(seconds=14)
    delays = Delays(start=timedelta(milliseconds=500), stop=timedelta(minutes=1))

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.add_program(KEEPER, self._keep, is_spared=True)

    async def turn(self, client: Client) -> None:
        pod = await client.get(PODS, NAME, NAMESPACE)
        self.cut([pod["spec"]["nodeName"]], FOR[self.choose("for", len(FOR))])
        if self.choose("delete", 2):
            await tasks.sleep(timedelta(seconds=self.choose("when", 8)))
            await client.delete(PODS, NAME, NAMESPACE)

    async def _keep(self, env: Env) -> None:
        async with self.world.client_for(KEEPER, env) as client:
            while True:
                await tasks.sleep(LOOK_EVERY)
                with suppress(ApiError):
                    await self._ensure(client)

    async def _ensure(self, client: Client) -> None:
        try:
            await client.get(PODS, NAME, NAMESPACE)
        except NotFound:
            nodes = (await client.list(NODES)).items
            free = [node["metadata"]["name"] for node in nodes if not (node.get("spec") or {}).get("taints")]
            if free:
                node = free[self.choose("where", len(free))]
                await client.create(PODS, a_patient_pod(NAME, node, is_at_most_one=True))


SCENARIO: Final = Scenario(
    name="replaced-once",
    about="Node health evicts an at-most-one pod from a partitioned node: it never runs in two places.",
    make=ReplacedOnce,
    checkers=lambda: [AtMostOne()],
    faults=("crash", "crash-after", "pause", "answer-lost", "latency", "one-way-cut", "server-crash"),
    lasts=timedelta(minutes=3),
    calm=CALM,
    silence=SILENCE,
    ids=("F2",),
)
