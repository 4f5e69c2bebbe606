"""Namespaces are deleted with what is in them, and made again under the same name, while who deletes them fails.

Some of it waits for finalizers, some is of a kind that was defined a moment ago and that one of the servers may not
know yet. A second user creates objects in the same namespace at the same time, while the store is slow now and then: a
server may look at a namespace, and commit when it is gone.
"""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Final

from mainstay.api.kind import Object
from mainstay.api.kind_names import CONFIG_MAPS, NAMESPACES
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, ApiError, Conflict, Forbidden, NotFound
from mainstay.controllers.namespace.loop import NamespaceDeletion
from mainstay.env import Env, tasks
from mainstay.loop.kernel import LoopSpec
from mainstay.scenarios._ownership import CLEANERS, KINDS, OwnershipStage, define
from mainstay.scenarios._stages import SERVERS, SILENCE, USER
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.namespaces import Namespaces
from mainstay.sim.checkers.one_acting_leader import OneActingLeader
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

NAMES: Final = ("team-1", "team-2")
HOLD: Final = "example.dev/hold"
TENANT: Final = "tenant"
TENANT_WAITS: Final = timedelta(milliseconds=50)
_KINDS: Final = tuple(KINDS.values())


class NamespaceGoes(OwnershipStage):
    turn_every = timedelta(milliseconds=700)

    def __init__(self, world: World) -> None:
        super().__init__(world, [LoopSpec("namespace", NamespaceDeletion)])
        self._is_defined = False
        self._freeing: asyncio.Task[None] | None = None
        self._used = ""
        """The namespace of the present turn."""
        self._is_used = asyncio.Event()
        world.add_program(TENANT, self._create_more, is_spared=True)

    async def turn(self, client: Client) -> None:
        name = NAMES[self.choose("which", len(NAMES))]
        if self.choose("slow", 6) == 5:
            self.world.faults.strike("slow-store", SERVERS[self.choose("slow for", len(SERVERS))])
        with suppress(AlreadyExists):
            await client.create(NAMESPACES, {"metadata": {"name": name}})
        if not self._is_defined and self.choose("define", 3) == 2:
            await define(client)
            self._is_defined = True
        kinds = _KINDS if self._is_defined else _KINDS[:-1]
        for number in range(1 + self.choose("content", 5)):
            metadata: Object = {"name": f"thing-{number}", "namespace": name}
            if self.choose("held", 4) == 3:
                metadata["finalizers"] = [HOLD]
            with suppress(AlreadyExists, Forbidden, NotFound):
                await client.create(kinds[self.choose("kind", len(kinds))], {"metadata": metadata})
        self._used = name
        self._is_used.set()
        if self.choose("delete", 2):
            await tasks.sleep(TENANT_WAITS * self.choose("delete after", 4))
            with suppress(NotFound):
                await client.delete(NAMESPACES, name)
        if self.choose("free", 2):
            await self._free(client, name)

    async def finish(self) -> None:
        await super().finish()
        self._freeing = tasks.spawn(self._free_all(), name="all holds are released")

    async def _create_more(self, env: Env) -> None:
        """What the second user does: a few objects, in the namespace that the first one may be about to delete."""
        async with self.world.client_for(TENANT, env) as client:
            made = 0
            while True:
                await self._is_used.wait()
                self._is_used.clear()
                for _ in range(1 + self.choose("tenant/count", 3)):
                    await tasks.sleep(TENANT_WAITS * self.choose("tenant/pause", 4))
                    made += 1
                    metadata = {"name": f"other-{made}", "namespace": self._used}
                    with suppress(ApiError):
                        await client.create(CONFIG_MAPS, {"metadata": metadata})

    async def _free_all(self) -> None:
        """At the end all holds are released."""
        async with self.world.client_for(USER, self.world.sim.env("free")) as client:
            for _ in range(60):
                for name in NAMES:
                    with suppress(ApiError):
                        await self._free(client, name)
                await tasks.sleep(timedelta(seconds=2))

    async def _free(self, client: Client, name: str) -> None:
        for kind in _KINDS if self._is_defined else (CONFIG_MAPS, *_KINDS[:-1]):
            for obj in (await client.list(kind, name)).items:
                if obj["metadata"].get("finalizers"):
                    with suppress(NotFound, Conflict):
                        body = {"metadata": {"uid": obj["metadata"]["uid"], "finalizers": None}}
                        await client.patch(kind, obj["metadata"]["name"], name, body)


SCENARIO: Final = Scenario(
    name="namespace-goes",
    about="Namespaces are deleted after their content, never before: other namespaces are not touched.",
    make=NamespaceGoes,
    checkers=lambda: [WatchContract(), AcknowledgedWrites(), OneActingLeader(), Namespaces(KINDS, CLEANERS)],
    lasts=timedelta(seconds=60),
    calm=timedelta(minutes=15),
    silence=SILENCE,
    ids=("F6",),
)
