"""Caches follow what is written, whatever happens to servers, connections and the programs themselves.

Three programs write the same few ConfigMaps, through two servers over one store, and each follows all of them with an
informer. When all is healed and quiet, each cache holds exactly what a fresh list says, object by object and at the
same revisions, and its index finds each object under the program that wrote it last, and under no other. (SPEC W2)
"""

import asyncio
import contextlib
from datetime import timedelta
from functools import partial
from typing import Final

from mainstay.api.kind_names import CONFIG_MAPS
from mainstay.api.object_key import ObjectKey
from mainstay.client.call import WriteOptions
from mainstay.client.client import Client
from mainstay.client.errors import ApiError
from mainstay.client.indexes import Index
from mainstay.client.informer import Informer
from mainstay.client.pump import Collection
from mainstay.env import Env, tasks
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario, Stage

SERVERS: Final = ("server-1", "server-2")
WRITERS: Final = ("writer-1", "writer-2", "writer-3")
NAMES: Final = tuple(f"map-{number}" for number in range(6))  # Few, so that writers get into each other's way.
NAMESPACE: Final = "default"

BY_WRITER: Final = Index("writer", ("data", "last"), lambda last: (last.partition(".")[0],))
"""By who wrote an object last: it moves from one to the next all the time."""

TURN_EVERY: Final = timedelta(milliseconds=500)
TURNS_SKIPPED_MAX: Final = 4
SILENCE_MAX: Final = timedelta(seconds=15)  # Before a watch is taken for dead. Less than the silence that ends a run.
CATCH_UP_MAX: Final = timedelta(minutes=2)


class CacheFollows(Stage):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.informers: dict[str, Informer] = {}  # Of each writer's present incarnation.
        self._begun = asyncio.Event()
        self._is_over = False
        world.know("observer")
        for name in SERVERS:
            world.add_server(name)
        for name in WRITERS:
            world.add_program(name, partial(self._writer, name))

    async def ready(self) -> None:
        while len(self.informers) < len(WRITERS):
            await tasks.sleep(timedelta(milliseconds=10))
        for informer in self.informers.values():
            await informer.synced()

    async def begin(self) -> None:
        self._begun.set()

    async def finish(self) -> None:
        self._is_over = True

    async def check(self) -> None:
        async with self.world.client_for("observer", self.world.sim.env("observer")) as client:
            page = await client.list(CONFIG_MAPS, NAMESPACE)
        listed = {item["metadata"]["name"]: int(item["metadata"]["resourceVersion"]) for item in page.items}
        for name in WRITERS:
            cache = self.informers[name].cache
            latest = max(listed.values(), default=0)
            try:
                async with tasks.timeout(CATCH_UP_MAX):
                    await cache.wait_until(latest)
            except TimeoutError:
                text = f"the cache of {name} is at {cache.revision} and does not reach {latest}"
                raise Violated("cache follows", text) from None
            held = {entry.key.name: entry.revision for entry in cache.entries()}
            if held != listed:
                raise Violated("cache follows", f"the cache of {name} holds {held}, but a fresh list has {listed}")
            for writer in WRITERS:
                found = [key.name for key in cache.by(BY_WRITER.name, writer)]
                written = sorted(
                    item["metadata"]["name"] for item in page.items if item["data"]["last"].startswith(f"{writer}.")
                )
                if found != written:
                    text = f"the index of {name} has {found} under {writer}, but {writer} wrote {written} last"
                    raise Violated("cache follows", text)

    async def _writer(self, name: str, env: Env) -> None:
        async with self.world.client_for(name, env) as client:
            collection = Collection(CONFIG_MAPS, NAMESPACE)
            informer = self.informers[name] = Informer(client, env, collection, [BY_WRITER], silence_max=SILENCE_MAX)
            informer.start()
            await informer.synced()
            await self._begun.wait()
            choices = self.world.sim.choices
            turn = 0
            while not self._is_over:
                await tasks.sleep(TURN_EVERY * (1 + choices.choose(f"work/{name}/pause", TURNS_SKIPPED_MAX)))
                turn += 1
                operation = f"{name}.{self.world.programs[name].incarnation}.{turn}"
                chosen = NAMES[choices.choose(f"work/{name}/which", len(NAMES))]
                with contextlib.suppress(ApiError):  # A conflict, a fault: the next turn is another one.
                    await self._act(client, informer, name, chosen, operation)
            await asyncio.Event().wait()  # Done writing; the cache goes on.

    async def _act(self, client: Client, informer: Informer, who: str, name: str, operation: str) -> None:
        """Make an object if it is not there, as far as the cache knows; else change it, or sometimes delete it.

        Now and then make one whose name is left to the server: only the operation id tells that it was made before.
        """
        choices = self.world.sim.choices
        held = informer.cache.entry(ObjectKey(NAMESPACE, name))
        write = WriteOptions(operation=operation if choices.choose(f"work/{who}/named", 2) else "")
        obj = {"metadata": {"name": name, "namespace": NAMESPACE}, "data": {"last": operation}}
        if choices.choose(f"work/{who}/makes", 8) == 7:
            unnamed = {"metadata": {"generateName": "made-"}, "data": {"last": operation}}
            await client.create(CONFIG_MAPS, unnamed, NAMESPACE, write=WriteOptions(operation=operation))
        elif held is None:
            await client.create(CONFIG_MAPS, obj, write=write)
        elif choices.choose(f"work/{who}/deletes", 4) == 3:
            await client.delete(CONFIG_MAPS, name, NAMESPACE, uid=held.uid, write=write)
        elif choices.choose(f"work/{who}/patches", 2):
            await client.patch(CONFIG_MAPS, name, NAMESPACE, {"data": {who: operation}}, write=write)
        else:
            obj["metadata"]["resourceVersion"] = str(held.revision)
            await client.replace(CONFIG_MAPS, obj, write=write)


SCENARIO: Final = Scenario(
    name="cache-follows",
    about="Three writers share a few objects over two servers: at the end each cache equals a fresh list.",
    make=CacheFollows,
    checkers=lambda: [WatchContract(), AcknowledgedWrites()],
    ids=("W1", "W2", "W5"),
)
