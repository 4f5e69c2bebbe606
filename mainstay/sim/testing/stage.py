"""A scenario of one's own in a few lines: programs, what a user wants of them, and what must hold at the end.

    class Certificates(OwnStage):
        programs = {"certificates": issue}              controllers or coroutine functions (programs.py)
        crds = Path("website.yaml")

        async def use(self, client):
            await self.ensure(client, {"apiVersion": "example.com/v1", "kind": "Website", …})

        async def check(self):
            if len(await self.objects("secrets")) != 1:
                raise Violated("one certificate", …)

    CERTIFICATES = Scenario("certificates", "Each website gets one certificate.", Certificates, checkers=usual_checkers)

Then `mainstay sim run shop:CERTIFICATES --seeds 100`. The user of the cluster is spared by faults; its servers are
not. For tests that say themselves what goes wrong, and when, there is `whole_cluster` (cluster.py).
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from types import MappingProxyType
from typing import Final

import msgspec

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import DEFINITIONS
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, ApiError
from mainstay.env import Env, tasks
from mainstay.sim.cluster.cluster import LEASE
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Stage
from mainstay.sim.testing.manifests import KindIndex, Manifest, parse_objects, set_namespace
from mainstay.sim.testing.programs import Own, make_main

USER: Final = "user"
SILENCE: Final = timedelta(minutes=2)
"""For scenarios with controllers of Mainstay's: they take a watch for dead after 90 seconds."""
_TICK: Final = timedelta(milliseconds=100)
_AGAIN: Final = timedelta(seconds=1)
_decode = msgspec.json.Decoder(Object).decode


class OwnStage(Stage):
    """Subclass it."""

    programs: Mapping[str, Own] = MappingProxyType({})
    """What is tried, by name."""
    crds: Manifest | None = None
    """What is there before anything begins."""
    servers: int = 2

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._kinds = KindIndex()
        self._begun = asyncio.Event()
        self._is_prepared = self._is_over = False
        for number in range(self.servers):
            world.add_server(f"server-{number + 1}")
        world.add_program(USER, self._use, is_spared=True)
        for name, own in self.programs.items():
            world.add_program(name, make_main(world, name, own, LEASE))

    # For subclasses.

    async def use(self, client: Client) -> None:
        """What the user wants, step by step. If a server is away in between, it is done again from the beginning:
        so write it as what should be there (`ensure`)."""

    async def ensure(self, client: Client, manifest: Manifest) -> None:
        """Create what is not there."""
        for obj in parse_objects(manifest):
            with suppress(AlreadyExists):
                kind = self._kinds.of(obj)
                await client.create(kind, set_namespace(kind, obj))

    def kind(self, name: str) -> KindName:
        """By what it is called. Raises `NoSuchKind`."""
        return self._kinds.named(name)

    async def objects(self, kind: str) -> list[Object]:
        """All there are, from the store itself: for `check`."""
        name = self.kind(kind)
        entries = (await self.world.store.range(f"{name.group or 'core'}/{name.plural}/")).entries
        return [_decode(entry.value) for entry in entries]

    # As a stage.

    async def ready(self) -> None:
        while not self._is_prepared:
            await tasks.sleep(_TICK)

    async def begin(self) -> None:
        self._begun.set()

    async def finish(self) -> None:
        self._is_over = True

    async def _use(self, env: Env) -> None:
        async with self.world.client_for(USER, env) as client:
            for obj in () if self.crds is None else parse_objects(self.crds):
                await self.ensure(client, obj)
                if self._kinds.of(obj) == DEFINITIONS:
                    self._kinds.define(obj)
                    await tasks.sleep(_AGAIN)  # Until it is served. Nothing has gone wrong yet.
            self._is_prepared = True
            await self._begun.wait()
            while not self._is_over:
                try:
                    await self.use(client)
                    break
                except ApiError:
                    await tasks.sleep(_AGAIN)
            await asyncio.Event().wait()
