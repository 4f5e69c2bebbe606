"""What people are told by Events, and how few writes that takes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from mainstay.api.kind_names import CONFIG_MAPS, EVENTS, NODES, PODS
from mainstay.client.informer import Informers
from mainstay.env import tasks
from mainstay.journal.trace_id import derive_trace_id
from mainstay.loop.controller import Controller
from mainstay.loop.controller_loop import ControllerLoop
from mainstay.loop.decision import Create, Decision, Tell
from mainstay.loop.events import COMBINED, EventRecorder, EventSettings, InvolvedObject
from mainstay.loop.kernel import LoopContext
from tests.client.world import a_world

WEB = InvolvedObject(PODS, "web", "default", "uid-of-web")
SECOND = timedelta(seconds=1)


@asynccontextmanager
async def telling(sim: Any, world: Any, settings: EventSettings | None = None) -> AsyncIterator[EventRecorder]:
    env = sim.env("teller")
    events = EventRecorder(world.client, env.clock, "teller", "teller-1", settings)
    task = tasks.spawn(events.run(), name="tell")
    try:
        yield events
    finally:
        await tasks.stop(task)


async def told(world: Any) -> list[tuple[str, str, int]]:
    found = (await world.client.list(EVENTS, "default")).items
    return sorted([(each["reason"], each["message"], each["count"]) for each in found])


async def test_an_event_says_who_says_what_about_what(sim):
    async with a_world(sim) as world, telling(sim, world) as events:
        events.tell(InvolvedObject(PODS, "web", "default", "u", "7", "spec.containers{web}"), "Killing", "it ends")
        await tasks.sleep(SECOND)

        [event] = (await world.client.list(EVENTS, "default")).items
    assert (event["type"], event["reason"], event["message"], event["count"]) == ("Normal", "Killing", "it ends", 1)
    assert event["source"] == {"component": "teller", "host": "teller-1"}
    assert event["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "default",
        "name": "web",
        "uid": "u",
        "resourceVersion": "7",
        "fieldPath": "spec.containers{web}",
    }


async def test_an_event_leads_to_the_decision_that_it_tells_of_and_counts_up_to_the_last(sim):
    about = InvolvedObject(PODS, "web", "default", "u", generation=4)
    async with a_world(sim) as world, telling(sim, world) as events:
        for decision in ("d-1", "d-2"):
            events.tell(about, "Killing", "it ends", decision=decision)
            await tasks.sleep(SECOND)

        [event] = (await world.client.list(EVENTS, "default")).items
    assert event["count"] == 2
    assert event["metadata"]["annotations"] == {
        "mainstay.dev/decision": "d-2",
        "mainstay.dev/trace": derive_trace_id("d-2"),
        "mainstay.dev/generation": "4",
    }


async def test_what_is_about_something_without_a_namespace_stands_in_default(sim):
    async with a_world(sim) as world, telling(sim, world) as events:
        events.tell(InvolvedObject(NODES, "node-a1", uid="u"), "NodeNotReady", "it is silent", is_warning=True)
        await tasks.sleep(SECOND)

        [event] = (await world.client.list(EVENTS, "default")).items
    assert (event["type"], event["involvedObject"]["name"]) == ("Warning", "node-a1")
    assert "namespace" not in event["involvedObject"]


async def test_the_same_again_counts_up_and_so_it_does_after_a_restart(sim):
    async with a_world(sim) as world:
        for _ in range(2):
            async with telling(sim, world) as events:
                for _ in range(3):
                    events.tell(WEB, "BackOff", "it failed")
                    await tasks.sleep(SECOND)

        assert await told(world) == [("BackOff", "it failed", 6)]


async def test_a_thousand_that_are_similar_become_a_few_that_stand_alone_and_one_that_counts(sim):
    async with a_world(sim) as world, telling(sim, world, EventSettings(similar_max=3)) as events:
        for number in range(1000):
            events.tell(WEB, "SuccessfulCreate", f"Created pod: web-{number}")
        await tasks.sleep(SECOND)

        alone = [("SuccessfulCreate", f"Created pod: web-{number}", 1) for number in range(3)]
        assert await told(world) == [("SuccessfulCreate", f"{COMBINED}Created pod: web-999", 997), *alone]
        assert (events.written, events.dropped) == (4, 0)


async def test_no_more_are_written_than_are_allowed_and_those_that_do_not_fit_are_dropped(sim):
    settings = EventSettings(a_second=2, at_once=5, waiting_max=20)
    async with a_world(sim) as world, telling(sim, world, settings) as events:
        for number in range(30):
            events.tell(InvolvedObject(PODS, f"web-{number}", "default", f"u-{number}"), "Started", "it runs")
        await tasks.sleep(timedelta(milliseconds=400))
        at_first = len(await told(world))
        await tasks.sleep(timedelta(seconds=2))

        assert (at_first, len(await told(world)), events.dropped) == (5, 9, 10)


async def test_an_event_that_is_gone_is_created_again(sim):
    async with a_world(sim) as world, telling(sim, world) as events:
        events.tell(WEB, "BackOff", "it failed")
        await tasks.sleep(SECOND)
        [event] = (await world.client.list(EVENTS, "default")).items
        await world.client.delete(EVENTS, event["metadata"]["name"], "default")
        events.tell(WEB, "BackOff", "it failed")
        await tasks.sleep(SECOND)

        assert await told(world) == [("BackOff", "it failed", 2)]


class Copies(Controller):
    """Makes two copies of each ConfigMap called `one`, the second of which is refused."""

    name = "copies"
    kind = CONFIG_MAPS
    writes = (CONFIG_MAPS,)

    def decide(self, view: Any, key: Any, memory: Any) -> Decision:
        if key.name != "one" or view.get(CONFIG_MAPS, key) is None:
            return Decision()
        good = Create(CONFIG_MAPS, {"metadata": {"name": "two", "namespace": "default"}})
        bad = Create(CONFIG_MAPS, {"metadata": {"name": "NOT A NAME", "namespace": "default"}})
        events = (Tell("Made", "two", after=good), Tell("Made", "three", after=bad), Tell("Looked", "at one"))
        return Decision((good, bad), events=events)

    def after_failure(self, decision: Decision, action: Any, error: Any) -> Decision:
        return Decision(events=(*decision.events, Tell("Failed", type(error).__name__, is_warning=True)))


async def test_a_decision_tells_of_those_actions_that_were_carried_out(sim):
    async with a_world(sim) as world, telling(sim, world) as events:
        env = sim.env("copies")
        informers = Informers(world.client, env)
        loop = ControllerLoop(Copies(), LoopContext(world.client, informers, env, events=events))
        running = tasks.spawn(loop.run(), name="copies")
        await world.client.create(CONFIG_MAPS, {"metadata": {"name": "one", "namespace": "default"}})
        await tasks.sleep(SECOND)

        assert await told(world) == [("Failed", "Invalid", 1), ("Looked", "at one", 1), ("Made", "two", 1)]
        await tasks.stop(running)
        await informers.stop()


async def test_a_new_incarnation_counts_on_and_need_not_be_allowed_to_read_events(sim):
    async with a_world(sim) as world:
        for _ in range(2):
            writer = EventRecorder(world.client.act_as("system:kube-scheduler"), sim.env("teller").clock, "teller")
            task = tasks.spawn(writer.run(), name="tell")
            writer.tell(WEB, "BackOff", "it fails")
            await tasks.sleep(SECOND)
            await tasks.stop(task)

        assert await told(world) == [("BackOff", "it fails", 2)]
