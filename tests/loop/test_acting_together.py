"""Actions that do not depend on each other, what a failed one says, and waking by selectors."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from mainstay.api.kind_names import CONFIG_MAPS, DEPLOYMENTS
from mainstay.api.object_key import ObjectKey
from mainstay.client.cache import Cache
from mainstay.client.entry import Change
from mainstay.client.errors import ApiError
from mainstay.client.informer import Informers
from mainstay.env import tasks
from mainstay.loop.conditions import Condition, Truth
from mainstay.loop.controller import Controller, Reads
from mainstay.loop.controller_loop import ControllerLoop
from mainstay.loop.decision import Action, Create, Decision
from mainstay.loop.kernel import LoopContext
from mainstay.loop.view import View
from tests.client.world import a_client, a_world
from tests.server.world import a_deployment


def by_label(change: Change, deployments: Cache) -> Iterable[ObjectKey]:
    labels = change.new.object()["metadata"].get("labels") or {} if change.new is not None else {}
    return [key for key in deployments.keys() if key.name == labels.get("for")]  # noqa: SIM118 - of a cache


class Many(Controller):
    """As many ConfigMaps as a Deployment has replicas. One whose name is invalid is refused."""

    name = "many"
    kind = DEPLOYMENTS
    conditions_have_generation = False
    reads = (Reads(CONFIG_MAPS, wakes_among=by_label),)
    writes = (CONFIG_MAPS,)

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.memories: list[Any] = []

    def decide(self, view: View, key: ObjectKey, memory: Any) -> Decision:
        self.memories.append(memory)
        deployment = view.get(DEPLOYMENTS, key)
        if deployment is None:
            return Decision()
        there = {each["metadata"]["name"] for each in view.all(CONFIG_MAPS)}
        wanted = [f"{self.prefix}{key.name}-{number}" for number in range(deployment["spec"]["replicas"])]
        made = [
            Create(CONFIG_MAPS, {"metadata": {"name": name, "namespace": key.namespace}})
            for name in wanted
            if name not in there
        ]
        return Decision(tuple(made), status={"replicas": len(there)}, at_once=True)

    def after_failure(self, decision: Decision, action: Action, error: ApiError) -> Decision:
        return replace(decision, conditions=(Condition("Failed", Truth.TRUE, "Refused", str(error)),), memory="failed")


async def run_with(sim, world, controller: Controller, replicas: int, lasts: timedelta) -> Any:
    async with a_client(sim, name="controller") as client:
        env = sim.env("controller")
        loop = ControllerLoop(controller, LoopContext(client, Informers(client, env), env))
        task = tasks.spawn(loop.run(), name="loop")
        await world.client.create(DEPLOYMENTS, a_deployment("web", replicas), "default")
        await tasks.sleep(lasts)
        await tasks.stop(task)
        return loop


async def test_actions_that_do_not_depend_on_each_other_are_all_done(sim):
    async with a_world(sim) as world:
        loop = await run_with(sim, world, Many(), 40, timedelta(seconds=10))

        page = await world.client.list(CONFIG_MAPS, "default")
        assert len([each for each in page.items if each["metadata"]["name"].startswith("web-")]) == 40
        assert loop.kernel.counters.actions >= 40


async def test_if_the_first_is_refused_no_other_is_tried_and_the_controller_can_say_why(sim):
    async with a_world(sim) as world:
        controller = Many(prefix="No_")
        loop = await run_with(sim, world, controller, 40, timedelta(milliseconds=50))

        assert loop.kernel.counters.failures == 1
        (failed,) = (await world.client.get(DEPLOYMENTS, "web", "default"))["status"]["conditions"][:1]
        assert (failed["type"], failed["reason"]) == ("Failed", "Refused")
        assert controller.memories[0] is None
        assert loop._memory[ObjectKey("default", "web")] == "failed"


async def test_a_change_can_wake_those_that_select_it(sim):
    async with a_world(sim) as world, a_client(sim, name="controller") as client:
        env = sim.env("controller")
        controller = Many()
        loop = ControllerLoop(controller, LoopContext(client, Informers(client, env), env))
        task = tasks.spawn(loop.run(), name="loop")
        await world.client.create(DEPLOYMENTS, a_deployment("web", 0), "default")
        await tasks.sleep(timedelta(seconds=5))
        before = len(controller.memories)
        for name, selects in (("one", "web"), ("other", "shop")):
            metadata = {"name": name, "namespace": "default", "labels": {"for": selects}}
            await world.client.create(CONFIG_MAPS, {"metadata": metadata})
            await tasks.sleep(timedelta(seconds=5))

        assert len(controller.memories) == before + 1
        await tasks.stop(task)
