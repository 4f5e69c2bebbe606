"""Containers that are only pretended do by themselves what real ones would, and no more."""

import asyncio
from collections.abc import Callable
from contextvars import Context
from datetime import timedelta

import pytest

from mainstay.agent.runner import (
    CannotRun,
    ContainerId,
    ContainerSpec,
    Exited,
    LogQuery,
    NoSuchContainer,
    Running,
    Starting,
)
from mainstay.agent.runners.pretend import PretendRunner
from mainstay.agent.runners.pretend_containers import Behaviour, PretendContainers
from mainstay.env import tasks
from mainstay.sim.simulation import Simulation
from tests.agent.cluster import seconds

ONE = ContainerId("uid", "c", 0)


def a_spec(id_: ContainerId = ONE, *, is_at_most_one: bool = False) -> ContainerSpec:
    return ContainerSpec(
        id=id_, namespace="n", pod_name="p", image="x", command=("serve",), env=(), is_at_most_one=is_at_most_one
    )


def some(sim: Simulation, behaviour: Behaviour | None = None) -> PretendContainers:
    def later(duration: timedelta, call: Callable[[], None]) -> asyncio.TimerHandle:
        return sim.loop.call_later(duration.total_seconds(), call, context=Context())

    return PretendContainers(sim.clock, later, lambda spec: behaviour or Behaviour(seconds(1), seconds(2)))


def state(containers: PretendContainers, id_: ContainerId = ONE) -> object:
    return containers.instances(id_.pod_uid)[id_]


def now_ns(sim: Simulation, after: timedelta = timedelta()) -> int:
    return sim.clock.monotonic_ns() + after // timedelta(microseconds=1) * 1000


async def test_a_container_is_begun_once_for_each_attempt(sim: Simulation):
    containers = some(sim)
    containers.run(a_spec())
    assert state(containers) == Starting()
    await tasks.sleep(seconds(1.5))
    before = state(containers)
    containers.run(a_spec())

    assert isinstance(before, Running)
    assert state(containers) is before


async def test_a_container_that_takes_too_long_to_end_is_killed(sim: Simulation):
    containers = some(sim)
    containers.run(a_spec())
    await tasks.sleep(seconds(1.5))
    containers.end(ONE, seconds(1))
    await tasks.sleep(seconds(1.1))

    found = state(containers)
    assert isinstance(found, Exited)
    assert (found.code, found.signal) == (137, 9)


async def test_of_two_graces_the_shorter_one_counts(sim: Simulation):
    containers = some(sim, Behaviour(seconds(1), seconds(100)))
    containers.run(a_spec())
    await tasks.sleep(seconds(1.5))
    containers.end(ONE, seconds(50))
    containers.end(ONE, seconds(3))
    containers.end(ONE, seconds(60))
    await tasks.sleep(seconds(3.1))

    assert isinstance(state(containers), Exited)


async def test_what_runs_cannot_be_forgotten(sim: Simulation):
    containers = some(sim)
    containers.run(a_spec())
    with pytest.raises(RuntimeError, match="cannot forget a pod with a running container"):
        containers.forget("uid")
    containers.end(ONE, seconds(0))
    await tasks.sleep(seconds(0.1))
    containers.forget("uid")

    assert containers.pods() == []


async def test_the_oldest_attempts_are_pruned(sim: Simulation):
    containers = some(sim, Behaviour(seconds(0), lasts=seconds(0)))
    for attempt in range(4):
        containers.run(a_spec(ContainerId("uid", "c", attempt)))
        await tasks.sleep(seconds(1))
    containers.prune("uid", "c", 2)

    assert [id_.attempt for id_ in containers.instances("uid")] == [2, 3]


async def test_without_a_lease_no_at_most_one_starts(sim: Simulation):
    containers = some(sim)
    with pytest.raises(CannotRun) as refused:
        containers.run(a_spec(is_at_most_one=True))
    containers.run(a_spec(ContainerId("other", "c", 0)))

    assert refused.value.reason == "LeaseNotHeld"


async def test_an_at_most_one_is_asked_in_time_and_gone_when_the_lease_is(sim: Simulation):
    stubborn = some(sim, Behaviour(seconds(0), seconds(100)))
    stubborn.hold_until(now_ns(sim, seconds(30)), seconds(10))
    stubborn.run(a_spec(is_at_most_one=True))
    await tasks.sleep(seconds(15))
    stubborn.hold_until(now_ns(sim, seconds(30)), seconds(10))  # Renewed: until second 45.
    await tasks.sleep(seconds(29.9))
    before = state(stubborn)
    await tasks.sleep(seconds(0.2))

    found = state(stubborn)
    assert isinstance(before, Running)
    assert isinstance(found, Exited)
    assert found.reason == "Fenced"


async def test_one_that_ends_when_it_is_asked_is_gone_sooner(sim: Simulation):
    willing = some(sim, Behaviour(seconds(0), seconds(2)))
    willing.hold_until(now_ns(sim, seconds(30)), seconds(10))
    willing.run(a_spec(is_at_most_one=True))
    await tasks.sleep(seconds(22.1))

    assert isinstance(state(willing), Exited)
    assert not willing.is_lease_held
    with pytest.raises(CannotRun):
        willing.run(a_spec(ContainerId("uid", "c", 1), is_at_most_one=True))


async def test_after_a_reboot_nothing_runs_and_nothing_is_held(sim: Simulation):
    containers = some(sim)
    containers.hold_until(now_ns(sim, seconds(60)), seconds(10))
    containers.run(a_spec(is_at_most_one=True))
    await tasks.sleep(seconds(5))
    containers.kill_all("ContainerStatusUnknown", "the machine was rebooted")

    found = state(containers)
    assert isinstance(found, Exited)
    assert (found.code, found.reason) == (137, "ContainerStatusUnknown")
    assert not containers.is_lease_held


async def test_a_pretended_container_has_a_log_and_answers_commands(sim: Simulation):
    runner = PretendRunner(sim.env("node"))
    await runner.run(a_spec())
    with pytest.raises(NoSuchContainer):
        await runner.execute(ONE, ["true"])
    await tasks.sleep(seconds(2))

    session = await runner.execute(ONE, ["true"])
    assert (await session.read(), await session.wait()) == (None, 0)
    lines = [line async for line in runner.log("uid", "c", LogQuery())]
    assert lines[0].text == b"this container is only pretended\n"
    with pytest.raises(NoSuchContainer):
        [line async for line in runner.log("uid", "c", LogQuery(is_previous=True))]
    assert (await runner.usage()).containers[ONE].cpu_nanocores > 0
