"""Objects that own each other, and the controllers that clean up behind them, in a simulated cluster."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import CONFIG_MAPS, DEFINITIONS
from mainstay.client.client import Client
from mainstay.client.errors import ApiError, NotFound
from mainstay.controllers.component import Controllers
from mainstay.controllers.garbage.loop import OwnerCleanup
from mainstay.controllers.registry import LOOPS
from mainstay.env import Env, tasks
from mainstay.journal.record import DecisionRecord
from mainstay.loop.controller import Controller
from mainstay.loop.kernel import LoopContext, LoopSpec
from mainstay.server.auth import identities
from mainstay.sim.cluster.history import RequestReceived
from mainstay.sim.cluster.world import World
from mainstay.sim.simulation import Simulation
from tests.controllers.running import CONTROLLER, SETTINGS, USER

Object = dict[str, Any]

WEBSITES = KindName("example.dev", "v1", "Website", "websites", True)
CLEANUP = tuple(each for each in LOOPS if each.name == "owner-cleanup")
NAMESPACES_TOO = tuple(each for each in LOOPS if each.name in ("owner-cleanup", "namespace"))


@dataclass
class Household:
    world: World
    client: Client
    cleanups: dict[str, OwnerCleanup] = field(default_factory=dict)
    """By program: that of its present incarnation."""
    records: list[DecisionRecord] = field(default_factory=list)

    async def make(
        self,
        name: str,
        *owners: Object,
        kind: KindName = CONFIG_MAPS,
        namespace: str = "default",
        blocks: bool = True,
        **metadata: Any,
    ) -> Object:
        given = {"name": name, "namespace": namespace, **metadata}
        if not kind.namespaced:
            del given["namespace"]
        if owners:
            given["ownerReferences"] = [named(each, blocks=blocks) for each in owners]
        made = await self.client.create(kind, {"metadata": given}, namespace if kind.namespaced else "")
        return {"kind": kind.kind, "apiVersion": kind.group_version, **made}

    async def names(self, kind: KindName = CONFIG_MAPS, namespace: str = "default") -> list[str]:
        found = (await self.client.list(kind, namespace)).items
        return [each["metadata"]["name"] for each in found if each["metadata"]["name"] != "kube-root-ca.crt"]

    async def get(self, name: str, kind: KindName = CONFIG_MAPS, namespace: str = "default") -> Object | None:
        try:
            return await self.client.get(kind, name, namespace)
        except NotFound:
            return None

    async def at_rest(self, calm: timedelta = timedelta(seconds=40)) -> None:
        await self.world.quiet(within=timedelta(minutes=10), calm=calm)

    async def until(self, is_so: Callable[[], Any], within: timedelta = timedelta(minutes=5)) -> None:
        async with tasks.timeout(within):
            while True:
                try:
                    if await is_so():
                        return
                except ApiError:
                    pass
                await tasks.sleep(timedelta(milliseconds=50))

    def writes(self, who: str = CONTROLLER) -> list[RequestReceived]:
        return [
            each
            for each in self.world.history.events
            if isinstance(each, RequestReceived) and each.who == who and each.is_write
        ]

    def deletes(self, who: str = CONTROLLER) -> list[RequestReceived]:
        return [each for each in self.writes(who) if each.method == "DELETE"]


def named(owner: Object, *, blocks: bool = True, **other: Any) -> Object:
    """How an owner is named; `other` is what is wrong with it."""
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "blockOwnerDeletion": blocks,
        **other,
    }


def definition(kind: KindName = WEBSITES) -> Object:
    return {
        "kind": "CustomResourceDefinition",
        "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {"plural": kind.plural, "singular": kind.kind.lower(), "kind": kind.kind},
            "versions": [
                {
                    "name": kind.version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                }
            ],
        },
    }


async def define(home: Household, kind: KindName = WEBSITES) -> None:
    await home.client.create(DEFINITIONS, definition(kind))

    async def is_served() -> bool:
        await home.client.list(kind, limit=1)
        return True

    await home.until(is_served)


@asynccontextmanager
async def a_household(
    sim: Simulation,
    *,
    loops: Sequence[LoopSpec] = CLEANUP,
    controllers: Sequence[Controller] = (),
    programs: Sequence[str] = (CONTROLLER,),
    servers: Sequence[str] = ("server-0",),
    starts: bool = True,
) -> AsyncIterator[Household]:
    """A cluster in which nothing runs but these. `starts`: else the controllers are started by the test."""
    world = World(sim)
    for server in servers:
        world.add_server(server)
    world.know(USER)
    cleanups: dict[str, OwnerCleanup] = {}
    records: list[DecisionRecord] = []

    async def control(program: str, env: Env) -> None:
        def watched(context: LoopContext) -> OwnerCleanup:
            cleanups[program] = OwnerCleanup(context)
            return cleanups[program]

        specs = [LoopSpec(each.name, watched) if each.name == "owner-cleanup" else each for each in loops]
        async with world.client_for(program, env) as client:
            component = Controllers(
                client,
                env,
                instance=program,
                controllers=controllers,
                loops=specs,
                settings=SETTINGS,
                recorder=records.append,
            )
            await component.run()

    def add() -> None:
        for program in programs:
            world.add_program(program, lambda env, program=program: control(program, env), user=identities.CONTROLLERS)  # type: ignore[misc]

    if starts:
        add()
    await world.boot()
    if not starts:
        add()
    async with world.client_for(USER, sim.env(USER)) as client:
        try:
            yield Household(world, client, cleanups, records)
        finally:
            await world.stop()
