"""Agents and shims are killed; what runs lives on or is gone, and is never begun twice."""

import asyncio
import os
import shutil
import signal
from datetime import timedelta
from pathlib import Path

import pytest

from mainstay.agent.runner import Exited, LogQuery, Running
from mainstay.agent.runners.process import runner as process_runner
from mainstay.agent.runners.process.attempts import REBOOTED, SHIM_KILLED, AttemptFiles, find_shim
from mainstay.env import commands
from tests.agent.process.agent_program import an_agent, kill
from tests.agent.process.machine import (
    AT_ONCE,
    POD,
    a_runner,
    a_spec,
    cgroups_of,
    exited,
    output,
    outside,
    processes_of,
    ran,
    running,
    soon,
)

pytestmark = [pytest.mark.slow, pytest.mark.real_loop]

FIRST = a_spec("").id


def attempt_in(directory: Path) -> AttemptFiles:
    return AttemptFiles(directory / "pods" / POD, FIRST)


def kill_shim(directory: Path) -> None:
    shim = find_shim(attempt_in(directory))
    assert shim is not None
    assert commands.send(shim, signal.SIGKILL)


async def test_a_container_outlives_its_agent_and_is_adopted(directory: Path):
    script = "i=0; while [ ! -e mnt/outside/stop ]; do i=$((i+1)); echo $i; sleep 0.002; done; echo last; exit 5"
    agent = an_agent(directory, specs=[{"script": script}])
    pid = int((directory / "pods" / POD / "containers/main/0/started.json").read_text().split(":")[1].split(",")[0])
    kill(agent)
    async with a_runner(directory) as runner:
        state = runner.instances(POD)[FIRST]
        assert isinstance(state, Running)
        assert state.pid == pid
    async with a_runner(directory) as runner:
        assert runner.instances(POD)[FIRST] == state
        (directory / "outside" / "stop").touch()
        end = await exited(runner, FIRST)
        assert (end.code, end.started_at) == (5, state.started_at)
        *numbers, last = (await output(runner, FIRST)).split()
        assert numbers == [b"%d" % number for number in range(1, len(numbers) + 1)]
        assert last == b"last"


async def test_an_end_that_no_agent_saw_is_found(directory: Path):
    agent = an_agent(directory, specs=[{"script": "while [ ! -e mnt/outside/stop ]; do sleep 0.01; done; exit 5"}])
    kill(agent)
    (directory / "outside" / "stop").touch()
    await soon((directory / "pods" / POD / "containers/main/0/exit.json").exists)
    async with a_runner(directory) as runner:
        end = await exited(runner, FIRST)
        assert (end.code, end.reason) == (5, "Error")


async def test_an_adopted_container_can_be_ended(directory: Path):
    kill(an_agent(directory, specs=[{"script": "sleep 1000"}]))
    async with a_runner(directory) as runner:
        await runner.end(FIRST, timedelta(hours=1))
        assert (await exited(runner, FIRST)).signal == signal.SIGTERM
    assert processes_of(directory) == []


LEAVES_MUCH = "setsid sleep 1000 & (setsid sh -c 'sleep 1001 &'); sleep 1002"


async def test_when_a_shim_is_killed_nothing_of_its_container_is_left(directory: Path):
    async with a_runner(directory) as runner:
        await running(runner, a_spec(LEAVES_MUCH))
        await soon(lambda: len(processes_of(directory)) >= 4)
        kill_shim(directory)
        end = await exited(runner, FIRST)
        assert (end.code, end.reason, end.message) == (137, "ContainerStatusUnknown", SHIM_KILLED)
        assert processes_of(directory) == []
    assert cgroups_of(directory) == []


async def test_the_same_without_an_agent(directory: Path):
    agent = an_agent(directory, specs=[{"script": LEAVES_MUCH}])
    await soon(lambda: len(processes_of(directory)) >= 4)
    kill(agent)
    kill_shim(directory)
    async with a_runner(directory) as runner:
        end = await exited(runner, FIRST)
        assert (end.code, end.reason) == (137, "ContainerStatusUnknown")
        assert processes_of(directory) == []
    assert cgroups_of(directory) == []


async def test_without_control_groups_what_is_left_is_found_by_its_environment(directory: Path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1)
    async with a_runner(directory) as runner:
        assert runner.limits_note == "limits are not enforced: the agent does not run as root"
        await running(runner, a_spec(LEAVES_MUCH))
        await soon(lambda: len(processes_of(directory)) >= 4)
        kill_shim(directory)
        assert (await exited(runner, FIRST)).reason == "ContainerStatusUnknown"
        assert processes_of(directory) == []
    assert cgroups_of(directory) == []


async def test_after_a_reboot_nothing_runs(directory: Path):
    async with a_runner(directory) as runner:
        await running(runner, a_spec("sleep 1000"))
        await runner.end(FIRST, AT_ONCE)
        await exited(runner, FIRST)
    inside = attempt_in(directory).directory
    for name in ("exit.json", "started.json"):
        (inside / name).unlink()
    spec = inside / "wish.json"
    spec.write_text(spec.read_text().replace(commands.boot_id(), "11111111-2222-3333-4444-555555555555"))
    async with a_runner(directory) as runner:
        end = runner.instances(POD)[FIRST]
        assert isinstance(end, Exited)
        assert (end.code, end.reason, end.message) == (137, "ContainerStatusUnknown", REBOOTED)
        assert end.started_at <= end.finished_at


async def test_what_was_wished_and_never_executed_can_be_begun_again(directory: Path):
    spec = a_spec("echo x >> mnt/outside/times", mounts=outside(directory))
    async with a_runner(directory) as runner:
        await ran(runner, spec)
    inside = attempt_in(directory).directory
    for name in ("exit.json", "started.json"):  # As when the agent was killed before it started the shim.
        (inside / name).unlink()
    async with a_runner(directory) as runner:
        assert runner.instances(POD) == {}
        await ran(runner, spec)
        assert await output(runner, spec.id) == b""
    assert (directory / "outside" / "times").read_text() == "x\nx\n"


async def test_a_wish_that_was_cut_short_is_none(directory: Path):
    inside = attempt_in(directory).directory
    inside.mkdir(parents=True)
    (inside / "lock").touch()
    (inside / "wish.json.new").write_text("{")
    async with a_runner(directory) as runner:
        assert runner.instances(POD) == {}
        assert (await ran(runner, a_spec("true"))).code == 0


async def test_a_shim_that_fails_says_why(directory: Path):
    async with a_runner(directory) as runner:
        (directory / "pods" / POD / "logs/main/0.log").mkdir(parents=True)
        end = await ran(runner, a_spec("true"))
        assert (end.code, end.reason) == (128, "StartError")
        assert "Is a directory" in end.message


async def test_a_stopped_shim_does_not_keep_a_container_alive(directory: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(process_runner, "_SHIM_IS_LATE", timedelta(milliseconds=500))
    async with a_runner(directory) as runner:
        await running(runner, a_spec("sleep 1000"))
        shim = find_shim(attempt_in(directory))
        assert shim is not None
        commands.send(shim, signal.SIGSTOP)
        await runner.end(FIRST, AT_ONCE)
        assert (await exited(runner, FIRST)).reason == "ContainerStatusUnknown"
    assert processes_of(directory) == []


async def test_a_container_whose_directory_is_removed_ends(directory: Path):
    kill(an_agent(directory, specs=[{"script": "exec sleep 1000"}]))
    shim = find_shim(attempt_in(directory))
    assert shim is not None
    shutil.rmtree(directory)
    await commands.ended(shim)
    assert processes_of(directory) == []
    assert cgroups_of(directory) == []


async def test_a_cancelled_run_is_known_all_the_same(directory: Path):
    async with a_runner(directory) as runner:
        task = asyncio.ensure_future(runner.run(a_spec("echo once")))
        await asyncio.sleep(0)
        task.cancel()
        await exited(runner, FIRST)
        assert [line.text async for line in runner.log(POD, "main", LogQuery())] == [b"once\n"]


async def test_files_that_cannot_be_read_count_as_begun(directory: Path):
    async with a_runner(directory) as runner:
        await running(runner, a_spec("sleep 1000"))
    inside = attempt_in(directory).directory
    (inside / "wish.json").write_text("")
    async with a_runner(directory) as runner:
        end = runner.instances(POD)[FIRST]
        assert isinstance(end, Exited)
        assert (end.code, end.reason) == (137, "ContainerStatusUnknown")
        assert processes_of(directory) == []
