"""`mainstay top queues`: the work queues of all processes."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from mainstay.api.kind_names import DEPLOYMENTS
from mainstay.cli.exits import Exit
from mainstay.cli.top import show_queues
from mainstay.controllers import registry
from mainstay.env import tasks
from mainstay.loop.component import Component, ComponentSettings
from tests.cli.paper import Paper
from tests.client.world import World, a_world
from tests.loop.copying import Copying
from tests.server.world import a_deployment


@asynccontextmanager
async def a_component(sim, world: World) -> AsyncIterator[Component]:
    component = Component(
        "copying", [Copying()], world.client, sim.env("one"), settings=ComponentSettings(is_operated=True)
    )
    running = tasks.spawn(component.run(), name="one")
    await tasks.sleep(timedelta(seconds=30))
    yield component
    await tasks.stop(running)


async def test_it_shows_each_queue_with_its_process_and_the_age_of_the_figures(sim):
    async with a_world(sim) as world, a_component(sim, world):
        await world.client.create(DEPLOYMENTS, a_deployment("web"), "default")
        await tasks.sleep(timedelta(seconds=120))
        paper = Paper()

        code = await show_queues(world.client, paper, sim.env("user").clock.wall())

        titles, row = (line.split() for line in paper.lines)
        assert titles[:3] == ["QUEUE", "READY", "OLDEST"]
        assert row[:7] == ["copying", "0", "-", "0", "0", "0", "0"]
        assert row[7] == "copying"
        assert code == Exit.SATISFIED


async def test_a_key_that_is_no_longer_retried_is_the_exit_code(sim):
    async with a_world(sim) as world, a_component(sim, world) as component:
        stuck = a_deployment("web")
        stuck["metadata"]["annotations"] = {"ask": "give-up"}
        await world.client.create(DEPLOYMENTS, stuck, "default")
        await tasks.sleep(timedelta(seconds=20))  # It is published soon, because it is news.
        paper = Paper()

        code = await show_queues(world.client, paper, sim.env("user").clock.wall(), "json")

        (queue,) = json.loads("\n".join(paper.lines))["queues"]
        assert (queue["name"], queue["terminal"], queue["component"]) == ("copying", 1, component.instance)
        assert code == Exit.BLOCKED
        await show_queues(world.client, paper, sim.env("user").clock.wall())
        assert paper.notes == ["Terminal keys of copying: the condition Stalled of their objects says why."]


async def test_terminal_keys_are_named_with_what_their_objects_say(sim, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(registry, "CONTROLLERS", (Copying(),))
    async with a_world(sim) as world, a_component(sim, world):
        for name in ("web", "db"):
            stuck = a_deployment(name)
            stuck["metadata"]["annotations"] = {"ask": "give-up"} if name == "web" else {}
            await world.client.create(DEPLOYMENTS, stuck, "default")
        await tasks.sleep(timedelta(seconds=20))
        paper = Paper()

        await show_queues(world.client, paper, sim.env("user").clock.wall())

        assert len(paper.notes) == 1
        assert paper.notes[0].startswith("Terminal in copying: deployments default/web: ")


async def test_without_any_process_it_says_so(sim):
    async with a_world(sim) as world:
        paper = Paper()

        assert await show_queues(world.client, paper, sim.env("user").clock.wall()) == Exit.SATISFIED

        assert paper.notes == ["No process has published its queues."]
