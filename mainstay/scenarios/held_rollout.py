"""A rollout is held half way: old and new pods stay, it can be scaled, and it goes on by itself when the time is over.

Templates change all the time and rollouts are held wherever they happen to be, while those who would roll crash and
lose their office. No program writes anything when a Hold ends by the clock, so in the end everything depends on being
woken then."""

from contextlib import suppress
from datetime import timedelta
from typing import Final

from mainstay.api import pod_state
from mainstay.api.holds import HoldScope
from mainstay.api.kind_names import DEPLOYMENTS
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists
from mainstay.controllers.deployment.controller import Deployments
from mainstay.controllers.replicaset.controller import ReplicaSets
from mainstay.env import tasks
from mainstay.scenarios._holds import hold, release
from mainstay.scenarios._stages import NAMESPACE, SILENCE
from mainstay.scenarios._workloads import PODS_PREFIX, WorkloadStage, a_workload, read_image, with_image
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.held import RolloutsHeld
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

NAME: Final = "web"
FOR: Final = tuple(timedelta(seconds=seconds) for seconds in (5, 20, 40))
HELD_FOR: Final = timedelta(minutes=2)
REST: Final = timedelta(seconds=30)


class HeldRollout(WorkloadStage):
    controllers = (Deployments(), ReplicaSets())
    turn_every = timedelta(seconds=2)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._number = 1
        self._replicas = 6

    async def prepare(self, client: Client) -> None:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}}
        with suppress(AlreadyExists):
            await client.create(DEPLOYMENTS, a_workload(NAME, self._replicas, "x:1", strategy=strategy))

    async def turn(self, client: Client) -> None:
        match self.choose("what", 6):
            case 0 | 1 | 2:
                self._number += 1
                await client.patch(DEPLOYMENTS, NAME, NAMESPACE, with_image(f"x:{self._number}"))
                await tasks.sleep(timedelta(milliseconds=300 * self.choose("half way", 8)))
                length = FOR[self.choose("for", len(FOR))]
                await hold(self.world, client, HoldScope.ROLLOUT, length, target=NAME, namespace=NAMESPACE)
            case 3:
                await release(client, HoldScope.ROLLOUT, target=NAME, namespace=NAMESPACE)
            case _:
                await self._scale(client, 3 + self.choose("replicas", 6))

    async def _scale(self, client: Client, replicas: int) -> None:
        self._replicas = replicas
        await client.patch(DEPLOYMENTS, NAME, NAMESPACE, {"spec": {"replicas": replicas}})

    async def check(self) -> None:
        """At rest it is held, and then changed and scaled: only the number follows. Then the time is over."""
        async with self.world.client_for("user", self.world.sim.env("check")) as client:
            before = await self._images()
            await hold(self.world, client, HoldScope.ROLLOUT, HELD_FOR, target=NAME, namespace=NAMESPACE)
            await tasks.sleep(timedelta(seconds=5))
            await client.patch(DEPLOYMENTS, NAME, NAMESPACE, with_image("x:last"))
            await self._scale(client, 9)
        await self.world.quiet(HELD_FOR - REST, REST)
        held = await self._images()
        if len(held) != 9 or set(held) != set(before):
            raise Violated(
                "held rollout", f"9 of {sorted(set(before))} are wanted while the rollout is held, but there are {held}"
            )
        await tasks.sleep(HELD_FOR)
        await self.world.quiet(timedelta(minutes=2), REST)
        after = await self._images()
        if after != ["x:last"] * 9:
            raise Violated("held rollout", f"9 of x:last are wanted after the hold, but there are {after}")

    async def _images(self) -> list[str]:
        return sorted(read_image(pod) for pod in await self.objects(PODS_PREFIX) if pod_state.is_ready(pod))


SCENARIO: Final = Scenario(
    name="held-rollout",
    about="A rollout is held halfway: its pods stay, it can be scaled, and it continues when the hold expires.",
    make=HeldRollout,
    checkers=lambda: [AcknowledgedWrites(), RolloutsHeld()],
    faults=("crash", "crash-before", "crash-after", "answer-lost", "leader-loss"),
    lasts=timedelta(minutes=2),
    calm=timedelta(minutes=10),
    silence=SILENCE,
)
