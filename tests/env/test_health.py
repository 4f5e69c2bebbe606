"""Named checks, vital tasks, and what a process does when one of them ends."""

from datetime import timedelta

import pytest

from mainstay.env import tasks, vital
from mainstay.env.failed_objects import FailedObjects
from mainstay.env.health import Health
from mainstay.env.invariants import BrokenInvariant, broken
from mainstay.sim.simulation import Simulation
from tests.server.test_invariants import collect_failures


async def for_ever() -> None:
    while True:
        await tasks.sleep(timedelta(seconds=1))


async def fail() -> None:
    await tasks.sleep(timedelta(seconds=1))
    raise ZeroDivisionError("planted")


async def end() -> None:
    await tasks.sleep(timedelta(seconds=1))


async def problems(health: Health, *, live_only: bool) -> dict[str, str]:
    results = [await health.check(name) for name in health.names(live_only=live_only)]
    return {result.name: result.problem for result in results if result.problem}


async def test_a_vital_task_that_runs_is_healthy_until_it_is_stopped(sim: Simulation):
    health = Health(sim.env("process").clock)
    with health.active():
        task = vital.spawn(for_ever(), name="feed")
    assert "task/feed" in health.names(live_only=True)
    assert await problems(health, live_only=False) == {}
    await tasks.stop(task)
    assert "task/feed" not in health.names()
    with pytest.raises(KeyError):
        await health.check("task/feed")


async def test_a_vital_task_that_fails_is_named_and_ends_the_process(sim: Simulation):
    health = Health(sim.env("process").clock)
    failures = collect_failures()
    with health.active():
        _ = vital.spawn(for_ever(), name="feed")
        _ = vital.spawn(fail(), name="journal")
    assert await health.failed() == "vital task 'journal' ended: planted; stopping, to be restarted"
    assert await problems(health, live_only=True) == {"task/journal": "planted"}
    assert [type(each) for each in failures] == [ZeroDivisionError]


async def test_a_vital_task_that_returns_has_failed_unless_it_may(sim: Simulation):
    health = Health(sim.env("process").clock)
    with health.active():
        _ = vital.spawn(end(), name="writer", may_end=True)
        _ = vital.spawn(end(), name="feed")
    assert "vital task 'feed' ended: it returned" in await health.failed()
    assert await problems(health, live_only=True) == {"task/feed": "it returned"}


async def test_a_warning_is_told_and_fails_nothing(sim: Simulation):
    health = Health(sim.env("process").clock)
    said = [""]
    health.add_warning("journal", lambda: said[0])
    assert health.find_warnings() == []
    said[0] = "a segment is missing"

    assert [(each.name, each.problem) for each in health.find_warnings()] == [("journal", "a segment is missing")]
    assert await problems(health, live_only=False) == {}
    assert [each.name for each in await health._tell(live_only=False)] == ["warning/journal"]
    assert await health._tell(live_only=True) == []


async def test_what_a_vital_task_spawns_belongs_to_the_same_process(sim: Simulation):
    health = Health(sim.env("process").clock)
    other = Health(sim.env("other").clock)

    async def spawns() -> None:
        _ = vital.spawn(for_ever(), name="inner")
        await for_ever()

    with health.active():
        _ = vital.spawn(spawns(), name="outer")
    with other.active():
        _ = vital.spawn(for_ever(), name="elsewhere")
    await tasks.sleep(timedelta(seconds=1))
    assert [name for name in health.names() if name.startswith("task/")] == ["task/outer", "task/inner"]
    assert [name for name in other.names() if name.startswith("task/")] == ["task/elsewhere"]


async def test_a_check_that_fails_itself_is_not_called_healthy(sim: Simulation):
    health = Health(sim.env("process").clock)
    health.add("disk-space", lambda: str(1 / 0))
    assert "the check failed: ZeroDivisionError" in (await health.check("disk-space")).problem


async def test_a_remote_check_is_asked_once_for_all_who_ask_and_again_after_a_moment(sim: Simulation):
    health = Health(sim.env("process").clock)
    asked: list[int] = []

    async def ask() -> str:
        asked.append(1)
        await tasks.sleep(timedelta(milliseconds=100))
        return "down" if len(asked) == 2 else ""

    health.add_remote("etcd", ask)
    found = [await tasks.shielded(health.check("etcd"), name="ask") for _ in range(3)]
    assert ([each.problem for each in found], len(asked)) == (["", "", ""], 1)
    await tasks.sleep(timedelta(seconds=2))
    assert (await health.check("etcd")).problem == "down"


@pytest.mark.parametrize(("jump", "shown"), [(-3600, "-3600.0s"), (60, "+60.0s"), (1, "")])
async def test_a_jump_of_the_wall_clock_is_told_for_a_minute(sim: Simulation, jump: int, shown: str):
    health = Health(sim.env("process").clock)
    assert (await health.check("clock")).problem == ""
    await tasks.sleep(timedelta(days=1))
    assert (await health.check("clock")).problem == ""
    sim.get_clock("process").jump(timedelta(seconds=jump))
    assert (await health.check("clock")).problem == (f"the wall clock jumped by {shown}" if shown else "")
    await tasks.sleep(timedelta(seconds=61))
    assert (await health.check("clock")).problem == ""


async def test_a_process_that_stops_is_not_ready(sim: Simulation):
    health = Health(sim.env("process").clock)
    health.stopping()
    assert await problems(health, live_only=False) == {"shutdown": "the process is shutting down"}
    assert await problems(health, live_only=True) == {}


async def test_one_object_that_fails_is_named_until_it_is_handled(sim: Simulation, caplog: pytest.LogCaptureFixture):
    health = Health(sim.env("process").clock)
    with health.active():
        failed = FailedObjects("quotas")
    for _ in range(3):
        with failed.guard("a"):
            raise ValueError("planted")
    assert [record.getMessage() for record in caplog.records] == ["quotas cannot handle a: ValueError('planted')"]
    assert (await health.check("objects/quotas")).problem == "cannot handle a: ValueError('planted')"
    with failed.guard("a"):
        pass
    assert (await health.check("objects/quotas")).problem == ""
    with pytest.raises(TimeoutError), failed.guard("a", TimeoutError):
        raise TimeoutError
    with pytest.raises(BrokenInvariant), failed.guard("a"):
        raise broken("a rule", "a pod")
