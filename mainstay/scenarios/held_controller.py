"""Controllers are held while there is much to do, and leaders change: they do nothing, and afterwards all of it.

A Deployment is changed, scaled and taken back all the time. Now and then the controller of its sets or that of their
pods is held, for some seconds; some of these Holds are released and some are forgotten, and end by themselves. Leaders
crash and lose their office meanwhile, and their successors are held from their first moment. In the end all is as it
was last wanted, though nothing but the clock has ended the last Hold.
"""

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
from mainstay.scenarios._holds import hold, release
from mainstay.scenarios._stages import NAMESPACE, SILENCE
from mainstay.scenarios._workloads import PODS_PREFIX, WorkloadStage, a_workload, read_image, with_image
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.held import ControllersHeld
from mainstay.sim.checkers.one_acting_leader import OneActingLeader
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

NAME: Final = "web"
CONTROLLERS: Final = ("deployment", "replicaset")
FOR: Final = tuple(timedelta(seconds=seconds) for seconds in (5, 20, 40))
FORGOTTEN: Final = timedelta(seconds=30)


class HeldController(WorkloadStage):
    controllers = (Deployments(), ReplicaSets())
    turn_every = timedelta(seconds=3)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._wanted = (3, "x:1")

    async def prepare(self, client: Client) -> None:
        with suppress(AlreadyExists):
            await client.create(DEPLOYMENTS, a_workload(NAME, *self._wanted))

    async def turn(self, client: Client) -> None:
        controller = CONTROLLERS[self.choose("which", len(CONTROLLERS))]
        match self.choose("what", 5):
            case 0 | 1:
                await hold(
                    self.world, client, HoldScope.CONTROLLER, FOR[self.choose("for", len(FOR))], target=controller
                )
            case 2:
                await release(client, HoldScope.CONTROLLER, target=controller)
            case 3:
                await self._change(client, 1 + self.choose("replicas", 5), self._wanted[1])
            case _:
                await self._change(client, self._wanted[0], f"x:{1 + self.choose('image', 4)}")

    async def _change(self, client: Client, replicas: int, image: str) -> None:
        self._wanted = (replicas, image)
        body = with_image(image)
        await client.patch(DEPLOYMENTS, NAME, NAMESPACE, {"spec": {**body["spec"], "replicas": replicas}})

    async def check(self) -> None:
        """Once more everything is held, changed, and forgotten."""
        async with self.world.client_for("user", self.world.sim.env("check")) as client:
            for controller in CONTROLLERS:
                await hold(self.world, client, HoldScope.CONTROLLER, FORGOTTEN, target=controller)
            await self._change(client, 4, "x:last")
        await self.world.quiet(timedelta(minutes=10), SILENCE)
        replicas, image = self._wanted
        pods = await self.objects(PODS_PREFIX)
        found = sorted((read_image(pod), pod_state.is_ready(pod)) for pod in pods)
        if found != [(image, True)] * replicas:
            raise Violated("held controller", f"{replicas} of {image} are wanted at the end, but there are {found}")


SCENARIO: Final = Scenario(
    name="held-controller",
    about="Controllers are held while leaders change: they do nothing until the hold ends, then catch up.",
    make=HeldController,
    checkers=lambda: [AcknowledgedWrites(), OneActingLeader(), ControllersHeld()],
    faults=("crash", "crash-before", "crash-after", "answer-lost", "leader-loss"),
    lasts=timedelta(minutes=2),
    silence=SILENCE,
)
