"""Rollouts, rollbacks and other numbers of replicas, over three zones: the last ready pod of a zone is kept. (SPEC T1)

Where new pods run and how long they take to become ready differs from template to template: all of one may be in one
zone, and some of them slow. Meanwhile the old pods are what the other zones have. A user rolls out, rolls back half
way, and scales; those who would take pods away crash and lose their office. Which pods may go says
checkers/failure_domains.py: here nothing delays watches, so what was so a few seconds ago everybody must know. In the
end all replicas are ready and have the last template.
"""

from contextlib import suppress
from datetime import timedelta
from typing import Final

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_names import DEPLOYMENTS, NODES, PODS
from mainstay.api.well_known_labels import ZONE_LABEL
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists
from mainstay.controllers.deployment.controller import Deployments
from mainstay.controllers.replicaset.controller import ReplicaSets
from mainstay.env import tasks
from mainstay.scenarios._schedulers import add_node
from mainstay.scenarios._stages import NAMESPACE, SILENCE
from mainstay.scenarios._workloads import PODS_PREFIX, WorkloadStage, a_workload, read_image, with_image
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.failure_domains import FailureDomains
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

NAME: Final = "web"
ZONES: Final = ("a", "b", "c")
REPLICAS: Final = 4
LATE: Final = timedelta(seconds=3)
"""By when everybody knows of a commit."""
SLOW: Final = tuple(timedelta(seconds=seconds) for seconds in (0, 2, 25))
HALF_WAY: Final = tuple(timedelta(seconds=seconds) for seconds in (2, 8, 16))


class LastOfItsZone(WorkloadStage):
    controllers = (Deployments(), ReplicaSets())
    turn_every = timedelta(seconds=8)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._number = 1
        self._image = "x:1"
        self._replicas = REPLICAS
        self._ready_at: dict[str, int] = {}
        """By uid of a pod that has a node."""
        self._homes: dict[str, int] = {}
        """By image: 0 for all zones, else the number of the only one."""

    async def prepare(self, client: Client) -> None:
        for zone in ZONES:
            await add_node(client, f"node-{zone}")
            await client.patch(NODES, f"node-{zone}", "", {"metadata": {"labels": {ZONE_LABEL: zone}}})
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}}
        with suppress(AlreadyExists):
            await client.create(DEPLOYMENTS, a_workload(NAME, REPLICAS, self._image, strategy=strategy))

    async def ready(self) -> None:
        await super().ready()
        while sum(pod_state.is_ready(pod) for pod in await self.objects(PODS_PREFIX)) < REPLICAS:
            await tasks.sleep(timedelta(milliseconds=100))

    # What scheduler and agents do.

    async def go_on(self, client: Client, pod: Object) -> None:
        if pod_state.is_leaving(pod) or pod_state.is_ready(pod):
            await super().go_on(client, pod)
            return
        self._is_news = True  # It is looked at again, until it is ready.
        uid, now_ns = pod["metadata"]["uid"], self.world.sim.loop.time_ns()
        if not pod_state.get_node_name(pod):
            await bind(client, pod, f"node-{await self._choose_zone(pod)}")
            slow = SLOW[self._choose("slow", len(SLOW))] if self._number > 1 else SLOW[0]
            self._ready_at[uid] = now_ns + slow // timedelta(microseconds=1) * 1000
        elif now_ns >= self._ready_at.get(uid, 0):
            await super().go_on(client, pod)

    async def _choose_zone(self, pod: Object) -> str:
        """The one with the fewest pods of the template, or for some templates always the same one."""
        image = read_image(pod)
        if image not in self._homes:
            self._homes[image] = self._choose("home", len(ZONES) + 1) if self._number > 1 else 0
        if home := self._homes[image]:
            return ZONES[home - 1]
        pods = await self.objects(PODS_PREFIX)
        crowd = [
            pod_state.get_node_name(each).removeprefix("node-")
            for each in pods
            if read_image(each) == image and pod_state.is_active(each)
        ]
        return min(ZONES, key=lambda zone: (crowd.count(zone), zone))

    def _choose(self, what: str, options: int) -> int:
        return self.world.sim.choices.choose(f"agents/{what}", options)

    # What a user does.

    async def turn(self, client: Client) -> None:
        match self.choose("what", 4):
            case 0:
                self._replicas = 2 + self.choose("replicas", 5)
                await client.patch(DEPLOYMENTS, NAME, NAMESPACE, {"spec": {"replicas": self._replicas}})
            case 1:
                await self._roll(client, self._next_image())
            case _:
                before = self._image
                await self._roll(client, self._next_image())
                await tasks.sleep(HALF_WAY[self.choose("half way", len(HALF_WAY))])
                await self._roll(client, before)

    def _next_image(self) -> str:
        self._number += 1
        return f"x:{self._number}"

    async def _roll(self, client: Client, image: str) -> None:
        self._image = image
        await client.patch(DEPLOYMENTS, NAME, NAMESPACE, with_image(image))

    async def check(self) -> None:
        deployment = (await self.objects(f"apps/deployments/{NAMESPACE}/{NAME}"))[0]
        wanted = (read_image(deployment["spec"]["template"]), deployment["spec"]["replicas"])
        found = sorted((read_image(pod), pod_state.is_ready(pod)) for pod in await self.objects(PODS_PREFIX))
        if found != [(wanted[0], True)] * wanted[1]:
            text = f"{wanted[1]} of {wanted[0]} are wanted at the end, but there are {found}"
            raise Violated("last of its zone", text)


async def bind(client: Client, pod: Object, node: str) -> None:
    metadata = {"name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"]}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": node}}
    await client.create(PODS, binding, metadata["namespace"], subresource="binding")


SCENARIO: Final = Scenario(
    name="last-of-its-zone",
    about="Rollouts, rollbacks and scaling over zones keep the last ready pod of a zone while something else can move.",
    make=LastOfItsZone,
    checkers=lambda: [AcknowledgedWrites(), FailureDomains(LATE)],
    faults=("crash", "crash-before", "crash-after", "answer-lost", "leader-loss"),
    lasts=timedelta(seconds=80),
    silence=SILENCE,
    ids=("T1",),
)
