"""A controller that is held takes nothing, says so, and catches up afterwards."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from mainstay.api import holds
from mainstay.api.holds import HoldScope
from mainstay.api.kind_names import COMPONENT_STATES, CONFIG_MAPS, DEPLOYMENTS, EVENTS, HOLDS
from mainstay.api.object_key import ObjectKey
from mainstay.api.times import format_time
from mainstay.client.errors import NotFound
from mainstay.client.informer import Informers
from mainstay.env import tasks
from mainstay.journal.record import DecisionRecord, Ending, moment
from mainstay.loop import holds as holding
from mainstay.loop.component import Component, ComponentSettings
from mainstay.loop.decision import Create, Decision
from mainstay.loop.holds import HeldBack, Holding, make_gate
from mainstay.loop.metrics import ComponentMetrics
from mainstay.loop.view import View
from mainstay.sim.simulation import Simulation
from tests.client.world import World, a_client, a_world
from tests.loop.copying import Copying, a_copy
from tests.server.world import a_deployment

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


class Held:
    """Components that run the controller, and Holds of it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.records: list[DecisionRecord] = []
        self.components: list[Component] = []
        self.running: dict[str, asyncio.Task[None]] = {}

    async def stop(self, component: Component) -> None:
        await tasks.stop(self.running.pop(component.instance))

    async def hold(self, length: timedelta = HOUR, name: str = "stop", target: str = "copying") -> Any:
        until = format_time(self.world.sim.clock.wall() + length)
        spec = {
            "what": str(HoldScope.CONTROLLER),
            "target": {"name": target},
            "owner": "anna",
            "reason": "it copies too much",
        }
        return await self.world.client.create(HOLDS, {"metadata": {"name": name}, "spec": {**spec, "expiresAt": until}})

    async def release(self, name: str = "stop") -> None:
        await self.world.client.delete(HOLDS, name)

    async def submit(self, name: str, replicas: int = 1) -> None:
        await self.world.client.create(DEPLOYMENTS, a_deployment(name, replicas), "default")

    async def copies(self) -> dict[str, Any]:
        page = await self.world.client.list(CONFIG_MAPS, "default")
        return {item["metadata"]["name"]: item["data"]["replicas"] for item in page.items}

    def said(self) -> list[tuple[str, str]]:
        """How and why, in the records about Holds."""
        return [
            (str(each.outcome.ending), each.outcome.reason) for each in self.records if each.subject.kind == HOLDS.text
        ]

    def decisions(self) -> int:
        return len(self.records) - len(self.said())


@asynccontextmanager
async def held(
    sim: Simulation, *, controller: Any = None, processes: int = 1, events: bool = False
) -> AsyncIterator[Held]:
    async with a_world(sim) as world:
        found = Held(world)
        clients = [a_client(sim, name=f"c{number}") for number in range(processes)]
        try:
            for number, client in enumerate(clients):
                component = Component(
                    "copying",
                    [controller or Copying()],
                    client,
                    sim.env(f"c{number}"),
                    instance=f"copying.{number}",
                    elected=processes > 1,
                    settings=ComponentSettings(has_events=events, build="b1"),
                    recorder=found.records.append,
                )
                found.components.append(component)
                found.running[component.instance] = tasks.spawn(component.run(), name=component.instance)
            await tasks.sleep(30 * SECOND)
            yield found
        finally:
            for task in found.running.values():
                await tasks.stop(task)
            for client in clients:
                await client.close()


async def settle() -> None:
    await tasks.sleep(5 * SECOND)


async def test_a_held_controller_decides_nothing_and_catches_up_when_it_is_released(sim):
    async with held(sim) as cluster:
        await cluster.submit("web", 1)
        await settle()
        await cluster.hold()
        await settle()
        before = cluster.decisions()

        await cluster.submit("shop", 2)
        for replicas in (2, 3, 4):
            await cluster.world.client.patch(DEPLOYMENTS, "web", "default", {"spec": {"replicas": replicas}})
        await cluster.world.client.delete(CONFIG_MAPS, "web-copy", "default")
        await tasks.sleep(10 * MINUTE)
        assert (cluster.decisions(), await cluster.copies()) == (before, {})
        queue = cluster.components[0].loops[0].kernel.queue
        assert queue is not None
        assert queue.figures().ready == 2

        await cluster.release()
        await settle()
        assert await cluster.copies() == {"shop-copy": "2", "web-copy": "4"}


async def test_it_resumes_by_itself_when_the_time_is_over_without_any_write(sim):
    async with held(sim) as cluster:
        began = sim.clock.wall()
        await cluster.hold(HOUR)
        await cluster.submit("web", 3)
        await tasks.sleep(HOUR - 2 * SECOND)
        assert await cluster.copies() == {}
        await tasks.sleep(4 * SECOND)

        assert await cluster.copies() == {"web-copy": "3"}
        assert (await cluster.world.client.get(HOLDS, "stop"))["metadata"]["generation"] == 1
        last = next(each for each in reversed(cluster.records) if each.subject.kind == HOLDS.text)
        assert timedelta() <= moment(last.at) - began - HOUR < SECOND


async def test_the_journal_says_who_held_it_why_and_until_when_and_that_it_went_on(sim):
    async with held(sim) as cluster:
        made = await cluster.hold()
        await settle()
        await cluster.release()
        await settle()

        paused, resumed = [each for each in cluster.records if each.subject.kind == HOLDS.text]
        assert cluster.said() == [(Ending.WAKE_AT, "Held"), (Ending.DONE, "Resumed")]
        until = made["spec"]["expiresAt"]
        assert paused.outcome.message == f"copying is paused: anna holds it until {until}: it copies too much"
        assert (paused.component, paused.build, paused.subject.uid) == ("copying", "b1", made["metadata"]["uid"])
        assert format_time(moment(paused.outcome.wake_at)) == until
        assert paused.view[0].kind == HOLDS.text
        assert resumed.outcome.message.endswith("Hold stop of anna was released")
        assert paused.id != resumed.id


async def test_people_are_told_and_the_component_and_its_metrics_say_so(sim):
    async with held(sim, events=True) as cluster:
        await cluster.hold()
        await tasks.sleep(20 * SECOND)

        state = (await cluster.world.client.get(COMPONENT_STATES, "copying.0"))["status"]
        assert state["controllers"] == ["copying"]
        assert [(each["controller"], each["hold"], each["owner"]) for each in state["held"]] == [
            ("copying", "stop", "anna")
        ]
        metrics = ComponentMetrics(cluster.components[0])
        assert b'mainstay_controller_held{controller="copying"} 1.0' in metrics.render()
        await cluster.release()
        await tasks.sleep(20 * SECOND)

        assert (await cluster.world.client.get(COMPONENT_STATES, "copying.0"))["status"]["held"] == []
        assert b'mainstay_controller_held{controller="copying"} 0.0' in metrics.render()
        told = (await cluster.world.client.list(EVENTS, "default")).items
        assert sorted((each["reason"], each["involvedObject"]["kind"]) for each in told) == [
            ("Held", "Hold"),
            ("Resumed", "Hold"),
        ]


async def test_another_controller_and_another_kind_of_hold_are_no_matter(sim):
    async with held(sim) as cluster:
        await cluster.hold(target="deployment")
        await cluster.submit("web")
        await settle()

        assert (await cluster.copies(), cluster.said()) == ({"web-copy": "1"}, [])


async def test_of_two_holds_both_have_to_end(sim):
    async with held(sim) as cluster:
        await cluster.hold(10 * MINUTE, "short")
        await cluster.hold(20 * MINUTE, "long")
        await cluster.submit("web")
        await tasks.sleep(11 * MINUTE)
        assert await cluster.copies() == {}
        await cluster.release("long")
        await settle()

        assert await cluster.copies() == {"web-copy": "1"}


async def test_a_hold_that_is_made_longer_holds_for_longer(sim):
    async with held(sim) as cluster:
        await cluster.hold(10 * MINUTE)
        await cluster.submit("web")
        until = format_time(sim.clock.wall() + 30 * MINUTE)
        await cluster.world.client.patch(HOLDS, "stop", "", {"spec": {"expiresAt": until}})
        await tasks.sleep(29 * MINUTE)
        assert await cluster.copies() == {}
        await tasks.sleep(2 * MINUTE)

        assert await cluster.copies() == {"web-copy": "1"}


async def test_a_new_leader_is_held_from_its_first_moment(sim):
    async with held(sim, processes=2) as cluster:
        leader, other = sorted(cluster.components, key=lambda each: each.term is None)
        await cluster.hold()
        await settle()
        await cluster.submit("web")
        await cluster.stop(leader)
        await tasks.sleep(2 * MINUTE)
        assert other.term is not None
        assert (await cluster.copies(), cluster.decisions()) == ({}, 0)
        assert cluster.said() == [(Ending.WAKE_AT, "Held")] * 2
        assert len({each.term for each in cluster.records}) == 2
        await cluster.release()
        await settle()

        assert await cluster.copies() == {"web-copy": "1"}


async def test_a_process_that_starts_while_its_controller_is_held_does_not_begin(sim):
    async with a_world(sim) as world:
        cluster = Held(world)
        await cluster.submit("web")
        await cluster.hold()
        client = a_client(sim, name="late")
        component = Component(
            "copying", [Copying()], client, sim.env("late"), elected=False, recorder=cluster.records.append
        )
        running = tasks.spawn(component.run(), name="late")
        await tasks.sleep(MINUTE)
        assert (cluster.decisions(), cluster.said()) == (0, [(Ending.WAKE_AT, "Held")])
        await cluster.release()
        await settle()

        assert await cluster.copies() == {"web-copy": "1"}
        await tasks.stop(running)
        await client.close()


class CopyingMuch(Copying):
    """Makes many copies with one decision, one after the other."""

    count = 40

    def decide(self, view: View, key: ObjectKey, memory: Any) -> Decision:
        deployment = view.get(DEPLOYMENTS, key)
        if deployment is None:
            return Decision()
        there = {copy["metadata"]["name"] for copy in view.owned_by(CONFIG_MAPS, deployment["metadata"]["uid"])}
        wanted = []
        for number in range(self.count):
            copy = a_copy(deployment)
            copy["metadata"]["name"] += f"-{number}"
            if copy["metadata"]["name"] not in there:
                wanted.append(Create(CONFIG_MAPS, copy))
        return Decision(tuple(wanted), status={"observedGeneration": 1})


async def test_what_is_being_carried_out_stops_between_two_writes_and_is_done_afterwards(sim):
    async with held(sim, controller=CopyingMuch()) as cluster:
        sim.network.set_latency("client", "server", timedelta(milliseconds=40))
        await cluster.submit("web")
        await tasks.sleep(SECOND)
        await cluster.hold()
        await tasks.sleep(MINUTE)
        done = len(await cluster.copies())
        assert 0 < done < CopyingMuch.count

        stopped = next(each for each in cluster.records if each.subject.kind == DEPLOYMENTS.text)
        assert (stopped.outcome.ending, stopped.outcome.reason, len(stopped.writes)) == (Ending.RETRY, "Held", done)
        assert len(stopped.actions) == CopyingMuch.count
        await cluster.release()
        await tasks.sleep(MINUTE)
        assert len(await cluster.copies()) == CopyingMuch.count


class CopyingOnce(CopyingMuch):
    count = 1


async def test_what_it_has_found_out_is_not_said_either_while_it_is_held(sim):
    async with held(sim, controller=CopyingOnce()) as cluster:
        one_way = timedelta(seconds=1)
        sim.network.set_latency("client", "server", one_way)
        submitted = tasks.spawn(cluster.submit("web"), name="submit")
        await tasks.sleep(one_way)
        await cluster.hold()  # It is heard of between the decision, and the answer to what it leads to.
        await submitted
        await tasks.sleep(MINUTE)
        held_back = await cluster.world.client.get(DEPLOYMENTS, "web", "default")
        assert list(await cluster.copies()) == ["web-copy-0"]
        assert "observedGeneration" not in held_back.get("status", {})
        assert [each.outcome.reason for each in cluster.records if each.subject.kind == DEPLOYMENTS.text] == ["Held"]

        await cluster.release()
        await tasks.sleep(MINUTE)
        released = await cluster.world.client.get(DEPLOYMENTS, "web", "default")
        assert released["status"]["observedGeneration"] == 1


async def test_beside_a_server_without_holds_no_controller_is_held(sim, monkeypatch):
    async def not_there(self: Any, method: str, path: str, **more: Any) -> Any:
        raise NotFound("the server could not find the requested resource")

    async with a_world(sim) as world:
        monkeypatch.setattr(type(world.client), "request", not_there)
        informers = Informers(world.client, sim.env("k8s"))
        found = Holding(world.client, informers, sim.env("k8s"))

        await holding.known(found)

        with make_gate(found, "copying") as gate:
            assert (gate.held, informers.all()) == (None, [])


async def test_a_clock_that_is_set_is_noticed_within_a_minute(sim):
    async with held(sim) as cluster:
        await cluster.hold(HOUR)
        await cluster.submit("web")
        await settle()
        component = cluster.components[0]
        clock = component._env.clock
        honest: Callable[[], Any] = clock.wall
        clock.wall = lambda: honest() + 2 * HOUR  # type: ignore[method-assign]
        await tasks.sleep(62 * SECOND)

        assert await cluster.copies() == {"web-copy": "1"}


def test_a_gate_that_is_shut_says_by_whom():
    gate = make_gate(None, "copying")
    gate.require()
    at = moment(3_600_000_000)
    gate.set(holds.ParsedHold("stop", "u", HoldScope.CONTROLLER, "", "copying", "anna", "a look", at))

    with pytest.raises(HeldBack, match="copying is held: anna holds it until 1970-01-01T01:00:00Z: a look"):
        gate.require()
