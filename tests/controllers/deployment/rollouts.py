"""A Deployment that is made, changed, scaled and taken back, as a scenario: whatever fails, it ends the same."""

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from mainstay.agent.fleet import PretendSettings
from mainstay.api import pod_state
from mainstay.api.kind_names import DEPLOYMENTS, PODS, REPLICASETS
from mainstay.api.owners import find_controller
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists
from mainstay.controllers.component import Controllers
from mainstay.env import Env, tasks
from mainstay.loop.component import ComponentSettings
from mainstay.scenarios._stages import LEASE, SILENCE, USER, UserStage
from mainstay.scheduler.component import Scheduler, SchedulerSettings
from mainstay.server.auth import identities
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.one_acting_leader import OneActingLeader
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.cluster.history import Event, RevisionCommitted
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario
from tests.controllers.running import OURS, ZONE, Object, a_deployment, image

CONTROLLERS = ("controllers-0", "controllers-1")
ZONES = {"node-a": "a", "node-b": "b"}

Step = Callable[[Client], Awaitable[object]]


def make(replicas: int) -> Step:
    async def make(client: Client) -> None:
        with suppress(AlreadyExists):
            await client.create(DEPLOYMENTS, a_deployment(replicas=replicas, revisionHistoryLimit=1))

    return make


def change(spec: Object) -> Step:
    async def change(client: Client) -> object:
        return await client.patch(DEPLOYMENTS, "web", "default", {"spec": spec})

    return change


STEPS: tuple[Step, ...] = (
    make(2),
    change(image("web:2")),
    change({"replicas": 4}),
    change(image("web:1")),
    change({"replicas": 3}),
    change(image("web:3")),
)
"""One after the other, also before the last is done."""

FEW_STEPS = (make(1), change(image("web:3")))


def ended(replicas: int) -> dict[str, Any]:
    """How it has to end."""
    names = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    return {
        "status": {**dict.fromkeys(names, replicas), "terminatingReplicas": 0},
        "reasons": {"Available": "MinimumReplicasAvailable", "Progressing": "NewReplicaSetAvailable"},
        "revision": True,
        "sets": [("web:3", replicas)],
        "history": True,
        "pods": ["web:3"] * replicas,
    }


class Rollouts(UserStage):
    turn_every = timedelta(seconds=1.2)
    programs: tuple[str, ...] = CONTROLLERS
    zones: Mapping[str, str] = ZONES
    steps: tuple[Step, ...] = STEPS
    replicas = 3

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._done = 0
        self._programs: dict[str, Controllers] = {}
        for name in self.programs:
            world.add_program(name, lambda env, name=name: self._run(name, env), user=identities.CONTROLLERS)  # type: ignore[misc]
        world.add_program("scheduler-0", self._schedule, user=identities.SCHEDULER)
        for name, zone in self.zones.items():
            world.add_node(name, PretendSettings(labels={ZONE: zone}))

    async def ready(self) -> None:
        await super().ready()
        while not any(each.term is not None for each in self._programs.values()):
            await tasks.sleep(timedelta(milliseconds=100))
        for each in self._programs.values():
            await each.informers.synced()

    async def turn(self, client: Client) -> None:
        if self._done < len(self.steps):
            await self.steps[self._done](client)
            self._done += 1

    async def check(self) -> None:
        async with self.world.client_for(USER, self.world.sim.env("check")) as client:
            while self._done < len(self.steps):  # A server was away for too long.
                await self.turn(client)
                await tasks.sleep(timedelta(minutes=1))
            found = await state(client)
        if found != ended(self.replicas):
            text = f"it should have ended with {ended(self.replicas)}, and there is {found}"
            raise Violated("rollouts", text, [])

    async def _run(self, name: str, env: Env) -> None:
        async with self.world.client_for(name, env) as client:
            settings = ComponentSettings(lease=LEASE)
            component = self._programs[name] = Controllers(
                client, env, instance=name, controllers=OURS, loops=(), settings=settings
            )
            await component.run()

    async def _schedule(self, env: Env) -> None:
        async with self.world.client_for("scheduler-0", env) as client:
            await Scheduler(client, env, settings=SchedulerSettings(lease_name="")).run()


class ShortRollout(Rollouts):
    """Small enough to try a fault at each write."""

    turn_every = timedelta(seconds=2)
    programs = CONTROLLERS[:1]
    zones = MappingProxyType({"node-a": "a"})
    steps = FEW_STEPS
    replicas = 1


class NoPodTooMany:
    """A set never has more pods that run or are going to than it has ever wanted, whatever was lost or done twice."""

    name = "no pod too many"

    def __init__(self) -> None:
        self._most: dict[str, int] = {}
        self._active: dict[str, dict[str, Event]] = {}

    def saw(self, event: Event) -> None:
        if not isinstance(event, RevisionCommitted):
            return
        if event.key.startswith("apps/replicasets/") and event.value is not None:
            replica_set = json.loads(event.value)
            uid = replica_set["metadata"]["uid"]
            self._most[uid] = max(self._most.get(uid, 0), replica_set["spec"]["replicas"])
        elif event.key.startswith("core/pods/"):
            for pods in self._active.values():
                pods.pop(event.key, None)
            pod = json.loads(event.value) if event.value is not None else None
            reference = find_controller(pod) if pod is not None and pod_state.is_active(pod) else None
            if reference is not None:
                pods = self._active.setdefault(reference["uid"], {})
                pods[event.key] = event
                if len(pods) > self._most.get(reference["uid"], 0):
                    raise Violated(self.name, f"{reference['name']} has {len(pods)} pods", list(pods.values()))

    async def at_end(self, world: World) -> None:
        """Nothing is left to be seen."""


async def state(client: Client) -> dict[str, Any]:
    """All that counts of the end, and nothing that may differ."""
    deployment = await client.get(DEPLOYMENTS, "web", "default")
    sets = list((await client.list(REPLICASETS, "default")).items)
    pods = list((await client.list(PODS, "default")).items)
    status = deployment.get("status") or {}
    noted = "deployment.kubernetes.io/revision"
    newest = max((int(each["metadata"]["annotations"][noted]) for each in sets), default=0)
    return {
        "status": {name: status.get(name) for name in ended(0)["status"]},
        "reasons": {each["type"]: each["reason"] for each in status.get("conditions") or ()},
        "revision": deployment["metadata"].get("annotations", {}).get(noted) == str(newest),
        # Which former templates there are is not said: one that was never seen has no set.
        "sets": [(_image(each["spec"]["template"]), each["spec"]["replicas"]) for each in sets if _size(each)],
        "history": len(sets) <= 2,
        "pods": sorted(_image(pod) for pod in pods),
    }


def _size(replica_set: Object) -> int:
    return int(replica_set["spec"]["replicas"])


def _image(of: Object) -> str:
    return str(of["spec"]["containers"][0]["image"])


SCENARIO = Scenario(
    name="rollouts",
    about="A Deployment is made, changed, scaled and taken back; it ends as it was last wanted.",
    make=Rollouts,
    checkers=lambda: [WatchContract(), AcknowledgedWrites(), OneActingLeader(), NoPodTooMany()],
    lasts=timedelta(seconds=12),
    calm=timedelta(minutes=20),
    silence=SILENCE,
)

SHORT_SCENARIO = Scenario(
    name="short-rollout",
    about="A Deployment is made and gets another image.",
    make=ShortRollout,
    checkers=lambda: [AcknowledgedWrites(), NoPodTooMany()],
    lasts=timedelta(seconds=9),
    calm=timedelta(minutes=5),
    silence=timedelta(seconds=30),
)
