"""A backup that a server has made is restored, and a day later the same one again, while a foreign client follows.

The client is any program that speaks to Kubernetes: it lists, watches from there, resumes where it was, and lists again
when it is told 410. It knows nothing of store epochs, and sometimes takes long to come back. What was written after the
backup was never written; the restored store continues far ahead, so every revision that the client has is too old. In
the end it holds exactly what a fresh list says. (Catalogue 22; store/epoch_jump.py)
"""

import asyncio
import contextlib
import json
from datetime import timedelta
from functools import partial
from typing import Final

from mainstay.api.kind_names import CONFIG_MAPS
from mainstay.api.store_pages import BACKUP_PATH
from mainstay.client.client import Client
from mainstay.client.errors import ApiError, Expired
from mainstay.env import Env, tasks
from mainstay.server.backup.contents import BackupContents
from mainstay.server.backup.errors import BackupRefused
from mainstay.server.backup.facts import BackupCounter
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario, Stage

SERVERS: Final = ("server-1", "server-2")
WRITERS: Final = ("writer-1", "writer-2")
FOLLOWER: Final = "follower"
OPERATOR: Final = "operator"
NAMES: Final = tuple(f"map-{number}" for number in range(40))  # Many: what is missed is rarely written again.
NAMESPACE: Final = "default"

TURN_EVERY: Final = timedelta(milliseconds=400)
BACKUP_AFTER: Final = timedelta(seconds=10)
RESTORES: Final = 3
BETWEEN_MAX: Final = 8  # Seconds before each of them.
AWAY_MAX: Final = 20  # Seconds until the follower comes back after its watch broke.
WATCH_S: Final = 20


class BackupRestored(Stage):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.held: dict[str, int] = {}
        """What the follower knows: the revision of each object,"""
        self._version = ""
        """and how far it has come."""
        self._begun = asyncio.Event()
        self._is_over = False
        world.know("observer")
        world.know(OPERATOR)
        for name in SERVERS:
            world.add_server(name)
        for name in WRITERS:
            world.add_program(name, partial(self._write, name))
        world.add_program(FOLLOWER, self._follow)

    async def begin(self) -> None:
        self._begun.set()
        self.world.faults.spawn(self._operate(), "operator")

    async def finish(self) -> None:
        self._is_over = True

    async def check(self) -> None:
        async with self.world.client_for("observer", self.world.sim.env("observer")) as client:
            page = await client.list(CONFIG_MAPS, NAMESPACE)
        listed = {item["metadata"]["name"]: int(item["metadata"]["resourceVersion"]) for item in page.items}
        if self.held != listed:
            raise Violated("backup restored", f"the follower holds {self.held}, but a fresh list has {listed}")

    async def _operate(self) -> None:
        """An operator makes a backup, and restores it now and then."""
        await tasks.sleep(BACKUP_AFTER)
        contents: BackupContents | None = None
        while contents is None:
            contents = await self._back_up()
        for _ in range(RESTORES):
            await tasks.sleep(timedelta(seconds=1 + self.world.sim.choices.choose("work/operator/waits", BETWEEN_MAX)))
            if self._is_over:
                return
            self.world.faults.note("the backup is restored")
            await self.world.restore_file(contents)

    async def _back_up(self) -> BackupContents | None:
        counter = BackupCounter(decodes=True)
        parts = []
        try:
            async with (
                self.world.client_for(OPERATOR, self.world.sim.env(OPERATOR)) as client,
                client.stream(BACKUP_PATH, []) as stream,
            ):
                async for piece in stream:
                    parts += counter.feed(piece)
            return BackupContents.gather(counter.finish(), parts)
        except (ApiError, BackupRefused):
            await tasks.sleep(timedelta(seconds=1))
            return None

    async def _write(self, name: str, env: Env) -> None:
        choices = self.world.sim.choices
        async with self.world.client_for(name, env) as client:
            await self._begun.wait()
            turn = 0
            while not self._is_over:
                await tasks.sleep(TURN_EVERY * (1 + choices.choose(f"work/{name}/pause", 3)))
                turn += 1
                chosen = NAMES[choices.choose(f"work/{name}/which", len(NAMES))]
                obj = {"metadata": {"name": chosen, "namespace": NAMESPACE}, "data": {"last": f"{name}.{turn}"}}
                with contextlib.suppress(ApiError):  # A conflict, a fault: the next turn is another one.
                    match choices.choose(f"work/{name}/what", 4):
                        case 0:
                            await client.create(CONFIG_MAPS, obj)
                        case 1:
                            await client.delete(CONFIG_MAPS, chosen, NAMESPACE)
                        case _:
                            await client.patch(CONFIG_MAPS, chosen, NAMESPACE, {"data": obj["data"]})
            await asyncio.Event().wait()

    async def _follow(self, env: Env) -> None:
        """List, and watch from there, for as long as the server lets it."""
        self.held, self._version = {}, ""
        async with self.world.client_for(FOLLOWER, env) as client:
            while True:
                try:
                    if not self._version:
                        await self._list(client)
                    await self._watch(client)
                except Expired:
                    self._version = ""
                except (ApiError, TimeoutError):
                    away = self.world.sim.choices.choose("work/follower/away", AWAY_MAX)
                    await tasks.sleep(timedelta(seconds=away))

    async def _list(self, client: Client) -> None:
        page = await client.list(CONFIG_MAPS, NAMESPACE)
        self.held = {item["metadata"]["name"]: int(item["metadata"]["resourceVersion"]) for item in page.items}
        self._version = page.revision

    async def _watch(self, client: Client) -> None:
        async with (
            tasks.timeout(timedelta(seconds=2 * WATCH_S)),
            client.watch(CONFIG_MAPS, NAMESPACE, resource_version=self._version, timeout_s=WATCH_S) as watch,
        ):
            async for event in watch:
                metadata = json.loads(event.object)["metadata"]
                self._version = metadata["resourceVersion"]
                if event.type == "DELETED":
                    self.held.pop(metadata["name"], None)
                elif event.type != "BOOKMARK":
                    self.held[metadata["name"]] = int(self._version)


SCENARIO: Final = Scenario(
    name="backup-restored",
    about="A backup is restored twice while any Kubernetes client follows: at the end it holds what a fresh list has.",
    make=BackupRestored,
    checkers=lambda: [WatchContract(), AcknowledgedWrites()],
    faults=("crash", "server-crash", "watch-disconnect", "watch-delay", "cut", "compaction"),
    lasts=timedelta(seconds=45),
    calm=timedelta(minutes=5),
    silence=timedelta(minutes=1),
    ids=("22",),
)
