"""Controllers at work against a real API server, in virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from mainstay.api.feature_gates import DEFAULT_GATES, FeatureGates, parse_gates
from mainstay.api.kind_names import CONFIG_MAPS, DEPLOYMENTS
from mainstay.api.object_key import ObjectKey
from mainstay.api.retry_shape import RetryShape
from mainstay.client.informer import Informers
from mainstay.env import tasks
from mainstay.journal.record import DecisionRecord, Ending
from mainstay.loop.controller_loop import ControllerLoop, LoopSettings
from mainstay.loop.kernel import LoopContext
from mainstay.loop.queue.items import QueueSettings
from mainstay.sim.simulation import Simulation
from tests.client.world import World, a_client, a_gate, a_world
from tests.loop.copying import Copying
from tests.server.world import a_deployment

FAST = RetryShape(attempts_max=3, first_delay=timedelta(seconds=1), delay_max=timedelta(seconds=4))
SETTINGS = LoopSettings(queue=QueueSettings(retry=FAST))


class Running:
    """A loop at work, and what it has recorded."""

    def __init__(self, world: World, loop: ControllerLoop, records: list[DecisionRecord]) -> None:
        self.world = world
        self.loop = loop
        self.records = records

    async def submit(self, name: str, replicas: int = 1, ask: str = "") -> Any:
        deployment = a_deployment(name, replicas)
        if ask:
            deployment["metadata"]["annotations"] = {"ask": ask}
        return await self.world.client.create(DEPLOYMENTS, deployment, "default")

    async def deployment(self, name: str) -> Any:
        return await self.world.client.get(DEPLOYMENTS, name, "default")

    async def copies(self) -> dict[str, Any]:
        page = await self.world.client.list(CONFIG_MAPS, "default")
        return {item["metadata"]["name"]: item.get("data") for item in page.items}


@asynccontextmanager
async def running(
    sim: Simulation,
    world: World,
    *servers: str,
    settings: LoopSettings = SETTINGS,
    gates: FeatureGates = DEFAULT_GATES,
) -> AsyncIterator[Running]:
    env = sim.env("controller")
    records: list[DecisionRecord] = []
    async with a_client(sim, *servers, name="controller") as client:
        informers = Informers(client, env)
        context = LoopContext(client, informers, env, recorder=records.append, build="b1", gates=gates)
        loop = ControllerLoop(Copying(), context, settings)
        task = tasks.spawn(loop.run(), name="loop")
        try:
            yield Running(world, loop, records)
        finally:
            await tasks.stop(task)
            await informers.stop()


def condition(obj: Any, name: str) -> Any:
    return next((each for each in obj["status"].get("conditions", []) if each["type"] == name), None)


async def settle() -> None:
    await tasks.sleep(timedelta(seconds=20))


async def test_what_is_wanted_comes_about_and_is_kept_so(sim):
    async with a_world(sim) as world, running(sim, world) as controller:
        await controller.submit("web", 3)
        await settle()
        assert await controller.copies() == {"web-copy": {"replicas": "3"}}

        await world.client.patch(DEPLOYMENTS, "web", "default", {"spec": {"replicas": 5}})
        await settle()
        assert await controller.copies() == {"web-copy": {"replicas": "5"}}

        await world.client.delete(CONFIG_MAPS, "web-copy", "default")
        await settle()
        assert await controller.copies() == {"web-copy": {"replicas": "5"}}
        deployment = await controller.deployment("web")
        assert condition(deployment, "Copied")["status"] == "True"
        assert deployment["status"]["observedGeneration"] == deployment["metadata"]["generation"] == 2


async def test_it_can_be_stopped_before_its_caches_are_filled(sim):
    async with a_world(sim) as world, running(sim, world) as controller:
        await tasks.sleep(timedelta())
        assert min(controller.loop.revisions.values()) == 0
    assert controller.records == []


async def test_a_status_that_is_as_it_should_be_is_not_written(sim):
    async with a_world(sim) as world, running(sim, world) as controller:
        await controller.submit("web")
        await settle()
        before = await controller.deployment("web")
        decisions = controller.loop.kernel.counters.decisions
        controller.loop.queue.add(ObjectKey("default", "web"))
        await settle()
        assert controller.loop.kernel.counters.decisions == decisions + 1
        assert await controller.deployment("web") == before


async def test_each_write_says_which_decision_it_comes_from(sim):
    async with a_world(sim) as world, running(sim, world) as controller:
        made = await controller.submit("web", 3)
        await settle()
        (record,) = [each for each in controller.records if each.actions]

        copy = await world.client.get(CONFIG_MAPS, "web-copy", "default")
        assert (record.component, record.build, record.outcome.ending) == ("copying", "b1", Ending.DONE)
        assert (record.subject.kind, record.subject.name, record.subject.generation) == ("deployments.apps", "web", 1)
        assert int(made["metadata"]["resourceVersion"]) in record.woken_by
        assert [(each.verb, each.kind, each.name) for each in record.actions] == [("create", "configmaps", "web-copy")]
        assert record.writes[0].revision == int(copy["metadata"]["resourceVersion"])
        assert [seen.kind for seen in record.view] == ["deployments.apps", "configmaps"]
        assert [look.kind for look in record.looked_at] == ["deployments.apps", "configmaps"]
        assert record.reasons == ("1 actions",)


async def test_one_that_gives_up_says_so_and_goes_on_when_the_object_changes(sim):
    async with a_world(sim) as world, running(sim, world) as controller:
        await controller.submit("web", ask="give-up")
        await settle()
        stalled = condition(await controller.deployment("web"), "Stalled")
        assert (stalled["status"], stalled["reason"], stalled["message"]) == (
            "True",
            "NotLiked",
            "a user asked for it",
        )

        await world.client.patch(DEPLOYMENTS, "web", "default", {"metadata": {"annotations": {"ask": None}}})
        await settle()
        assert condition(await controller.deployment("web"), "Stalled") is None
        assert "web-copy" in await controller.copies()


async def test_what_is_tried_too_often_is_given_up_with_the_reason_in_the_status(sim):
    async with a_world(sim) as world, running(sim, world) as controller:
        await controller.submit("web", ask="retry")
        await tasks.sleep(timedelta(minutes=5))
        stalled = condition(await controller.deployment("web"), "Stalled")
        assert (stalled["reason"], stalled["message"]) == (
            "WaitingForGodot",
            "stopped retrying after 3 attempts: he did not come",
        )
        assert [each.outcome.reason for each in controller.records][:3] == ["WaitingForGodot"] * 3


async def test_what_keeps_failing_says_why_and_when_it_is_tried_again(sim):
    shape = RetryShape(attempts_max=9, first_delay=timedelta(seconds=16), delay_max=timedelta(seconds=64), jitter=0)
    settings = LoopSettings(queue=QueueSettings(retry=shape))
    async with a_world(sim) as world, running(sim, world, settings=settings) as controller:
        await controller.submit("web", ask="retry")
        await tasks.sleep(timedelta(seconds=20))
        assert condition(await controller.deployment("web"), "Retrying") is None

        await tasks.sleep(timedelta(seconds=40))
        retrying = condition(await controller.deployment("web"), "Retrying")
        assert (retrying["status"], retrying["reason"]) == ("True", "WaitingForGodot")
        assert retrying["message"].startswith("attempt 3 of 9 failed; next attempt by ")
        assert retrying["message"].endswith("Z: he did not come")

        await world.client.patch(DEPLOYMENTS, "web", "default", {"metadata": {"annotations": {"ask": None}}})
        await tasks.sleep(timedelta(minutes=2))
        assert condition(await controller.deployment("web"), "Retrying") is None


async def test_without_its_feature_gate_no_object_says_that_it_is_retried(sim):
    wait = timedelta(seconds=4)
    settings = LoopSettings(queue=QueueSettings(retry=RetryShape(attempts_max=99, first_delay=wait, delay_max=wait)))
    gates = parse_gates("RetryingCondition=false")
    async with a_world(sim) as world, running(sim, world, settings=settings, gates=gates) as controller:
        await controller.submit("web", ask="retry")
        await tasks.sleep(timedelta(minutes=1))
        assert len(controller.records) > 5
        assert "conditions" not in (await controller.deployment("web"))["status"]
        assert {each.flags for each in controller.records} == {("RetryingCondition=false",)}


async def test_what_fails_until_its_deadline_is_given_up_for_that_reason(sim):
    wait = timedelta(seconds=4)
    shape = RetryShape(attempts_max=100, first_delay=wait, delay_max=wait, deadline=timedelta(seconds=30))
    settings = LoopSettings(queue=QueueSettings(retry=shape))
    async with a_world(sim) as world, running(sim, world, settings=settings) as controller:
        await controller.submit("web", ask="retry")
        await tasks.sleep(timedelta(minutes=5))
        found = await controller.deployment("web")
        stalled = condition(found, "Stalled")
        assert stalled["reason"] == "DeadlineExceeded"
        assert stalled["message"].startswith("stopped retrying 0:00:30 after the first failure, attempt ")
        assert stalled["message"].endswith(": WaitingForGodot: he did not come")
        assert condition(found, "Retrying") is None
        assert len(controller.records) < 20


async def test_a_decision_can_ask_to_be_woken(sim):
    async with a_world(sim) as world, running(sim, world) as controller:
        await controller.submit("web", ask="wake")
        await tasks.sleep(timedelta(minutes=3, seconds=10))
        assert 4 <= len(controller.records) <= 6
        assert controller.records[-1].memory.inline  # It remembers how often it has looked.


async def test_a_bug_in_one_decision_leaves_the_others_alone(sim):
    heard: list[BaseException] = []
    async with a_world(sim) as world, running(sim, world) as controller:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context["exception"]))
        await controller.submit("bad", ask="bug")
        await controller.submit("good")
        await tasks.sleep(timedelta(minutes=5))
        assert "good-copy" in await controller.copies()
        assert controller.loop.kernel.counters.bugs == len(heard) == 3
        assert condition(await controller.deployment("bad"), "Stalled")["reason"] == "InternalError"


async def test_an_object_of_another_owner_is_not_taken_over(sim):
    async with a_world(sim) as world, running(sim, world) as controller:
        await world.client.create(CONFIG_MAPS, {"metadata": {"name": "web-copy"}, "data": {"mine": "1"}}, "default")
        await controller.submit("web")
        await tasks.sleep(timedelta(minutes=5))
        assert await controller.copies() == {"web-copy": {"mine": "1"}}
        assert condition(await controller.deployment("web"), "Stalled")["reason"] == "Conflict"


async def test_no_decision_is_made_on_a_cache_that_does_not_show_the_last_writes(sim):
    async with a_world(sim) as world, a_gate(sim) as gate, running(sim, world, "gate:7000") as controller:
        await settle()
        await controller.submit("web")
        await tasks.sleep(timedelta(milliseconds=50))
        gate.holds_answers = True
        controller.loop.queue.add(ObjectKey("default", "web"))
        await tasks.sleep(timedelta(seconds=40))
        gate.holds_answers = False
        gate.break_all()
        await tasks.sleep(timedelta(minutes=3))
        assert await controller.copies() == {"web-copy": {"replicas": "1"}}
        created = [each for each in controller.records if any(action.verb == "create" for action in each.actions)]
        assert len(created) == 1


@pytest.mark.parametrize("lost", [1, 2, 3])
async def test_an_answer_that_is_lost_leads_to_no_second_object(sim, lost):
    async with a_world(sim) as world, a_gate(sim) as gate, running(sim, world, "gate:7000") as controller:
        await settle()
        gate.answers_to_lose = lost
        await controller.submit("web", 2)
        await tasks.sleep(timedelta(minutes=3))
        assert await controller.copies() == {"web-copy": {"replicas": "2"}}
        assert condition(await controller.deployment("web"), "Copied")["status"] == "True"
