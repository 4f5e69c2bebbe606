"""Controllers of ours at work in a simulated cluster: a server, a scheduler and pretend nodes in zones."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from mainstay.agent.fleet import PretendSettings
from mainstay.api.kind_names import DEPLOYMENTS, PODS, REPLICASETS
from mainstay.client.client import Client
from mainstay.client.errors import ApiError
from mainstay.controllers.component import Controllers
from mainstay.controllers.registry import CONTROLLERS
from mainstay.env import Env, tasks
from mainstay.journal.record import DecisionRecord
from mainstay.loop.component import ComponentSettings
from mainstay.loop.controller import Controller
from mainstay.loop.fencing import LeaseTimes
from mainstay.loop.lease import LeaseSettings
from mainstay.scheduler.component import Scheduler, SchedulerSettings
from mainstay.server.auth import identities
from mainstay.sim.cluster.history import RequestReceived, RevisionCommitted
from mainstay.sim.cluster.world import World
from mainstay.sim.simulation import Simulation

Object = dict[str, Any]

USER = "user"
CONTROLLER = "controllers-0"
ZONES = {"node-a": "a", "node-b": "b", "node-c": "c"}
ZONE = "topology.kubernetes.io/zone"
SETTINGS = ComponentSettings(
    lease=LeaseSettings(
        times=LeaseTimes(duration=timedelta(seconds=5), renew_every=timedelta(seconds=1.5)),
        retry_every=timedelta(seconds=1),
    )
)
OURS = tuple(each for each in CONTROLLERS if each.name in ("deployment", "replicaset"))


@dataclass
class Cluster:
    world: World
    client: Client
    components: dict[str, Controllers] = field(default_factory=dict)
    """By program: that of its present incarnation."""
    records: list[DecisionRecord] = field(default_factory=list)

    async def apply(self, deployment: Object) -> Object:
        return await self.client.create(DEPLOYMENTS, deployment)

    async def change(self, name: str, spec: Object, **metadata: Any) -> None:
        body: Object = {"spec": spec}
        if metadata:
            body["metadata"] = metadata
        await self.client.patch(DEPLOYMENTS, name, "default", body)

    async def deployment(self, name: str = "web") -> Object:
        return await self.client.get(DEPLOYMENTS, name, "default")

    async def sets(self) -> list[Object]:
        found = list((await self.client.list(REPLICASETS, "default")).items)
        return sorted(found, key=lambda each: int(each["metadata"]["annotations"]["deployment.kubernetes.io/revision"]))

    async def pods(self) -> list[Object]:
        return list((await self.client.list(PODS, "default")).items)

    async def until(self, is_so: Callable[[], Any], within: timedelta = timedelta(minutes=5)) -> None:
        """Wait until something that has to be asked for is so."""
        async with tasks.timeout(within):
            while True:
                try:
                    if await is_so():
                        return
                except ApiError:
                    pass
                await tasks.sleep(timedelta(milliseconds=100))

    async def rolled_out(self, name: str = "web", within: timedelta = timedelta(minutes=5)) -> Object:
        """Wait until `kubectl rollout status` would say so."""

        async def is_done() -> bool:
            return is_rolled_out(await self.deployment(name))

        await self.until(is_done, within)
        return await self.deployment(name)

    def writes(self, who: str = CONTROLLER) -> list[RequestReceived]:
        return [
            each
            for each in self.world.history.events
            if isinstance(each, RequestReceived) and each.who == who and each.is_write
        ]

    def commits(self, prefix: str) -> list[RevisionCommitted]:
        return [
            each
            for each in self.world.history.events
            if isinstance(each, RevisionCommitted) and each.key.startswith(prefix)
        ]


def is_rolled_out(deployment: Object) -> bool:
    status, wanted = deployment.get("status") or {}, deployment["spec"]["replicas"]
    return bool(
        status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
        and status.get("updatedReplicas", 0) == status.get("replicas", 0) == wanted
        and status.get("availableReplicas", 0) == wanted
    )


def a_deployment(name: str = "web", replicas: int = 3, *, image: str = "web:1", **spec: Any) -> Object:
    labels = {"app": name}
    containers = [{"name": "main", "image": image, "resources": {"requests": {"cpu": "100m"}}}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers, "terminationGracePeriodSeconds": 2}}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template, **spec},
    }


def image(name: str) -> Object:
    """The spec of a change to another image."""
    return {"template": {"spec": {"containers": [{"name": "main", "image": name}]}}}


@asynccontextmanager
async def a_cluster(
    sim: Simulation,
    *,
    controllers: Sequence[Controller] = OURS,
    programs: Sequence[str] = (CONTROLLER,),
    zones: dict[str, str] = ZONES,
    nodes: PretendSettings | None = None,
) -> AsyncIterator[Cluster]:
    """Nothing has been asked for yet; everything runs."""
    world = World(sim)
    world.add_server("server-0")
    world.know(USER)
    components: dict[str, Controllers] = {}
    records: list[DecisionRecord] = []

    async def control(program: str, env: Env) -> None:
        async with world.client_for(program, env) as client:
            component = components[program] = Controllers(
                client,
                env,
                instance=program,
                controllers=controllers,
                loops=(),
                settings=SETTINGS,
                recorder=records.append,
            )
            await component.run()

    async def schedule(env: Env) -> None:
        async with world.client_for("scheduler-0", env) as client:
            await Scheduler(client, env, settings=SchedulerSettings(lease_name="")).run()

    for program in programs:
        world.add_program(program, lambda env, program=program: control(program, env), user=identities.CONTROLLERS)  # type: ignore[misc]
    world.add_program("scheduler-0", schedule, user=identities.SCHEDULER)
    given = nodes or PretendSettings()
    for name, zone in zones.items():
        world.add_node(name, replace(given, labels={ZONE: zone}))
    await world.boot()
    async with world.client_for(USER, sim.env(USER)) as client:
        cluster = Cluster(world, client, components, records)
        try:
            yield cluster
        finally:
            await world.stop()
