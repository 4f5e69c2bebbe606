"""Controllers of workloads at work, in one process or in several that elect one of them, and a stand-in for nodes.

Nothing is placed here. One program beside the cluster does to pods what agents do: it makes them ready, ends those that
were told to, and for some images does otherwise. It looks at the store when something was written there, so that a
cluster at rest costs nothing.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, Final

import msgspec

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_names import DEPLOYMENTS, PODS
from mainstay.client.call import PatchType
from mainstay.client.client import Client
from mainstay.client.errors import ApiError, Conflict, NotFound
from mainstay.controllers.component import Controllers
from mainstay.env import Env, tasks
from mainstay.loop.component import ComponentSettings
from mainstay.loop.controller import Controller
from mainstay.loop.kernel import LoopSpec
from mainstay.scenarios._stages import LEASE, NAMESPACE, UserStage
from mainstay.server.auth import identities
from mainstay.server.auth.authorization import User
from mainstay.sim.checkers import Violated
from mainstay.sim.cluster.history import Event, RevisionCommitted
from mainstay.sim.cluster.world import World

AGENTS: Final = "agents"
PODS_PREFIX: Final = "core/pods/"
LOOK_EVERY: Final = timedelta(milliseconds=300)
_TICK: Final = timedelta(milliseconds=100)
decode: Final = msgspec.json.Decoder(Object).decode


class WorkloadStage(UserStage):
    controllers: Sequence[Controller] = ()
    loops: Sequence[LoopSpec] = ()
    programs: tuple[str, ...] = ("controllers-1", "controllers-2")
    user: User | None = identities.CONTROLLERS
    """As which they run, with the rights that Mainstay's own controllers have. None: one that may do everything."""
    settings = ComponentSettings(lease=LEASE)
    older_controllers: Sequence[Controller] = ()
    """Those of the build before: if there are any, programs may be restarted as that one (faults/version_skew.py)."""
    older_settings = settings

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._is_news = True
        world.history.subscribe(self._saw)
        for program in self.programs:
            older = partial(self._run, program, self.older_controllers, self.older_settings)
            versions = {"older": older} if self.older_controllers else None
            world.add_program(
                program,
                partial(self._run, program, self.controllers, self.settings),
                versions=versions,
                user=self.user,
            )
            self._expected += 1
        world.add_program(AGENTS, self._be_agents, is_spared=True)

    # For subclasses.

    async def go_on(self, client: Client, pod: Object) -> None:
        """What its node does about a pod. May raise `ApiError`: then it comes again."""
        if pod_state.is_leaving(pod):
            await removed(client, pod)
        elif not pod_state.is_over(pod) and not pod_state.is_ready(pod):
            await told(client, pod, READY)

    async def ready(self) -> None:
        await super().ready()
        while self.controllers and self.leader() is None:
            await tasks.sleep(_TICK)

    async def objects(self, prefix: str) -> list[Object]:
        return [decode(entry.value) for entry in (await self.world.store.range(prefix)).entries]

    def leader(self) -> str | None:
        """Which program is in office, by its own word."""
        return next((name for name, each in self.components.items() if each.term is not None), None)

    # Inside.

    async def _run(
        self, program: str, controllers: Sequence[Controller], settings: ComponentSettings, env: Env
    ) -> None:
        async with self.world.client_for(program, env) as client:
            component = self.components[program] = Controllers(
                client,
                env,
                instance=program,
                controllers=controllers,
                loops=self.loops,
                settings=settings,
                recorder=self.world.recorder,
            )
            await component.run()

    def _saw(self, event: Event) -> None:
        if isinstance(event, RevisionCommitted) and event.key.startswith(PODS_PREFIX):
            self._is_news = True

    async def _be_agents(self, env: Env) -> None:
        async with self.world.client_for(AGENTS, env) as client:
            while True:
                await tasks.sleep(LOOK_EVERY)
                if not self._is_news:
                    continue
                self._is_news = False
                try:
                    for pod in await self.objects(PODS_PREFIX):
                        with suppress(NotFound, Conflict):
                            await self.go_on(client, pod)
                except ApiError:
                    self._is_news = True


# Pods, as agents see them.

READY: Final[Object] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
REJECTED: Final[Object] = {"phase": "Failed", "reason": "OutOfcpu", "message": "there is no room for it"}


class RolledStage(WorkloadStage):
    """One Deployment, which a user rolls from one template to the next: images end in their number."""

    name = "web"
    replicas = 1

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._number = 1

    async def ready(self) -> None:
        await super().ready()
        while sum(pod_state.is_ready(pod) for pod in await self.objects(PODS_PREFIX)) < self.replicas:
            await tasks.sleep(_TICK)

    async def roll(self, client: Client, image: str) -> None:
        self._number += 1
        await client.patch(DEPLOYMENTS, self.name, NAMESPACE, with_image(f"{image}-{self._number}"))

    async def require_rolled(self, check: str, image: str) -> None:
        """All pods are of the last template, and ready. Raises `Violated`."""
        wanted = f"{image}-{self._number}"
        found = sorted((read_image(pod), pod_state.is_ready(pod)) for pod in await self.objects(PODS_PREFIX))
        if found != [(wanted, True)] * self.replicas:
            raise Violated(check, f"{self.replicas} of {wanted} are wanted, but there are {found}")


async def told(client: Client, pod: Object, status: Object) -> None:
    metadata = pod["metadata"]
    body = {"metadata": {"uid": metadata["uid"]}, "status": status}
    await client.patch(
        PODS, metadata["name"], metadata["namespace"], body, type=PatchType.STRATEGIC, subresource="status"
    )


async def removed(client: Client, pod: Object) -> None:
    metadata = pod["metadata"]
    await client.delete(PODS, metadata["name"], metadata["namespace"], uid=metadata["uid"], grace_s=0)


def read_image(pod: Object) -> str:
    return str(pod["spec"]["containers"][0]["image"])


# What users ask for.


def a_workload(name: str, replicas: int, image: str = "x:1", *, namespace: str = NAMESPACE, **spec: Any) -> Object:
    """A Deployment, or a ReplicaSet: they are asked for in the same way."""
    labels = {"app": name}
    pod_spec = {"containers": [{"name": "main", "image": image}], "terminationGracePeriodSeconds": 2}
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod_spec},
            **spec,
        },
    }


def with_image(image: str) -> Object:
    """A change to another image."""
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}
