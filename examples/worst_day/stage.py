"""What is played: a user who wants a database, changes it in all ways there are, and makes it again under its name.

There are two API servers, of which the operator asks the first; and a provisioner of volumes. The user, and who
provides volumes, are never hit by faults.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from examples.worst_day.promises import DATABASES, DATABASES_PREFIX, PROMISES
from examples.worst_day.running_kopf import NAMESPACE, kopf_program
from mainstay.api.kind_names import DEFINITIONS, PERSISTENT_VOLUME_CLAIMS, PODS
from mainstay.api.object_key import ObjectKey
from mainstay.client.client import Client
from mainstay.client.errors import NotFound
from mainstay.env import Env, tasks
from mainstay.loop import Component, Controller, Decision, Freshness, Patch, View
from mainstay.sim.cluster.program_lifecycle import Main
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario, Stage

CLAIMS: Final = PERSISTENT_VOLUME_CLAIMS
OPERATOR: Final = "operator"
SERVER: Final = "server-1"
NAME: Final = "orders"

BUGGY: Final = "examples.worst_day.database_operator"
FIXED: Final = "examples.worst_day.fixed_database_operator"


class Volumes(Controller):
    """Provides each volume that is claimed."""

    name = "volumes"
    kind = CLAIMS
    writes = (CLAIMS,)

    def decide(self, view: View, key: ObjectKey, memory: None) -> Decision:
        claim = view.get(CLAIMS, key)
        if claim is None or claim.get("status", {}).get("phase") == "Bound":
            return Decision()
        body, uid = {"status": {"phase": "Bound"}}, claim["metadata"]["uid"]
        return Decision((Patch(CLAIMS, key, uid, body, "status", freshness=Freshness.MAY_BE_STALE),))


class DatabaseStage(Stage):
    """The operator of a module, and the user."""

    def __init__(self, world: World, module: str, story: "Story", instances: int) -> None:
        super().__init__(world)
        self._story = story
        self._instances = instances
        self._is_defined = asyncio.Event()
        self._begun = asyncio.Event()
        world.add_server(SERVER)
        world.add_server("server-2")
        world.add_program("user", self._use, is_spared=True)
        world.add_program("volumes", self._provide, is_spared=True)
        for number in range(instances):
            name = OPERATOR if not number else f"{OPERATOR}-{number + 1}"
            world.add_program(name, partial(self._operate, kopf_program(module, name, SERVER), number))

    async def ready(self) -> None:
        await self._following(self._instances)

    async def _following(self, instances: int) -> None:
        """Wait until so many watch databases."""
        while [tap.prefix for tap in self.world.gates[SERVER].taps.values()].count(DATABASES_PREFIX) < instances:
            await tasks.sleep(timedelta(milliseconds=100))

    async def begin(self) -> None:
        self._begun.set()

    # Programs.

    async def _operate(self, operator: Main, after: int, env: Env) -> None:
        await self._is_defined.wait()  # kopf does not see a kind that is defined while it starts.
        if not self._begun.is_set():
            await self._following(after)  # One after the other: all programs here share one $KUBECONFIG.
        await operator(env)

    async def _provide(self, env: Env) -> None:
        async with self.world.client_for("volumes", env) as client:
            await Component("volumes", [Volumes()], client, env, instance="volumes", elected=False).run()

    async def _use(self, env: Env) -> None:
        async with self.world.client_for("user", env) as client:
            await client.create(DEFINITIONS, yaml.safe_load((Path(__file__).parent / "database.yaml").read_text()))
            self._is_defined.set()
            await self._begun.wait()
            for _, step in self._story:
                await step(client)
                await tasks.sleep(EVERY)
            await asyncio.Event().wait()


Step = Callable[[Client], Awaitable[object]]


def _made(**spec: Any) -> Step:
    return lambda client: client.create(DATABASES, {"metadata": {"name": NAME, "namespace": NAMESPACE}, "spec": spec})


def _changed(**spec: Any) -> Step:
    return lambda client: client.patch(DATABASES, NAME, NAMESPACE, {"spec": spec})


async def _lose_a_member(client: Client) -> None:
    with suppress(NotFound):
        await client.delete(PODS, f"{NAME}-0", NAMESPACE)


async def _replace(client: Client) -> None:
    await client.delete(DATABASES, NAME, NAMESPACE)
    with suppress(NotFound):
        while True:
            await tasks.sleep(timedelta(milliseconds=500))
            await client.get(DATABASES, NAME, NAMESPACE)
    await _made(replicas=2, storage="1Gi", settings={"connections": "100"})(client)


Story = tuple[tuple[str, Step], ...]

IT_CHANGES: Final[Story] = (
    ("makes a database of two members", _made(replicas=2, storage="1Gi", settings={"connections": "100"})),
    ("wants larger volumes", _changed(storage="2Gi")),
    ("wants three members", _changed(replicas=3)),
    ("wants two members after all", _changed(replicas=2)),
    ("wants other settings", _changed(settings={"connections": "200"})),
    ("loses a member", _lose_a_member),
)
IT_COMES_AGAIN: Final[Story] = (
    ("makes a database of two members", _made(replicas=2, storage="1Gi", settings={"connections": "100"})),
    ("wants one member", _changed(replicas=1)),
    ("wants two members again", _changed(replicas=2)),
    ("deletes the database, waits until it is gone, and makes it again", _replace),
)
STORIES: Final = {"it changes": IT_CHANGES, "it comes again": IT_COMES_AGAIN}
EVERY: Final = timedelta(seconds=4)


def the_story(story: str, module: str, instances: int = 1) -> Scenario:
    """A story, with the operator of a module. Two instances are there for a while at each update of an operator."""
    return Scenario(
        name=f"{module.rpartition('.')[2]}: {story}",
        about="A kopf operator looks after a database that is made, changed, lost in part, deleted and made again.",
        make=partial(DatabaseStage, module=module, story=STORIES[story], instances=instances),
        checkers=lambda: [promise() for promise in PROMISES],
        faults=("crash-before", "crash-after", "watch-disconnect", "watch-delay"),
        lasts=EVERY * (len(STORIES[story]) + 1),
        calm=timedelta(minutes=10),
        silence=timedelta(seconds=75),  # kopf tries again what has failed a minute later.
    )
