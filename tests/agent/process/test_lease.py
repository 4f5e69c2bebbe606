"""Containers that must run at most once end with the node's lease, with or without an agent."""

import asyncio
import os
import signal
from datetime import timedelta
from pathlib import Path

import pytest

from mainstay.agent.runner import CannotRun, Running
from mainstay.agent.runners.process.attempts import AttemptFiles, find_shim
from mainstay.agent.runners.process.runner import ProcessRunner
from mainstay.env import SystemClock, commands
from tests.agent.process.agent_program import an_agent, kill
from tests.agent.process.machine import POD, a_runner, a_spec, exited, processes_of, ran, running, soon

pytestmark = [pytest.mark.slow, pytest.mark.real_loop]

STOPPING = timedelta(seconds=1)
POLITE = "trap 'echo asked; exit 0' TERM; while :; do sleep 0.01; done"
STUBBORN = "trap '' TERM; while :; do sleep 0.01; done"
FIRST = a_spec("").id


def now_ns() -> int:
    return SystemClock().monotonic_ns()


async def hold(runner: ProcessRunner, seconds: float) -> int:
    until_ns = now_ns() + int(seconds * 1e9)
    await runner.hold_until(until_ns, STOPPING)
    return until_ns


async def test_nothing_starts_without_a_lease(directory: Path):
    async with a_runner(directory) as runner:
        with pytest.raises(CannotRun) as raised:
            await runner.run(a_spec("true", is_at_most_one=True))
        assert raised.value.reason == "LeaseNotHeld"
        await hold(runner, 0.5)  # Less than it takes to stop.
        with pytest.raises(CannotRun):
            await runner.run(a_spec("true", is_at_most_one=True))
        assert (await ran(runner, a_spec("true"))).code == 0
        await hold(runner, 60)
        assert (await ran(runner, a_spec("true", attempt=1, is_at_most_one=True))).code == 0


async def test_a_container_lives_as_long_as_the_lease_is_renewed(directory: Path):
    async with a_runner(directory) as runner:
        until_ns = last_ns = await hold(runner, 5)
        spec = a_spec(POLITE, is_at_most_one=True)
        state = await running(runner, spec)
        while now_ns() < until_ns:  # Longer than the first one.
            last_ns = await hold(runner, 2)
            await asyncio.sleep(0.1)
            assert runner.instances(POD)[spec.id] == state
        end = await exited(runner, spec.id)
        assert (end.code, end.reason) == (0, "Fenced")
        assert now_ns() < last_ns


async def test_who_does_not_end_is_killed_before_the_lease_does(directory: Path):
    async with a_runner(directory) as runner:
        until_ns = await hold(runner, 4)
        await running(runner, a_spec(STUBBORN, is_at_most_one=True))
        end = await exited(runner, FIRST)
        assert (end.code, end.reason) == (137, "Fenced")
        assert now_ns() < until_ns


@pytest.mark.parametrize("fate", [signal.SIGKILL, signal.SIGSTOP])
async def test_it_ends_without_an_agent(directory: Path, fate: signal.Signals):
    spec = {"script": STUBBORN, "is_at_most_one": True}
    agent = an_agent(directory, specs=[spec, {"script": "sleep 1000", "name": "other"}], hold_s=6, stopping_s=1)
    os.kill(agent.pid, fate)
    lease = [int(word) for word in (directory / "lease").read_text().split()[1:]]
    await soon((directory / "pods" / POD / "containers/main/0/exit.json").exists)
    assert now_ns() < lease[0]
    assert [line for line in processes_of(directory) if "trap" in line] == []
    kill(agent)
    async with a_runner(directory) as runner:
        assert (await exited(runner, FIRST)).reason == "Fenced"
        assert isinstance(runner.instances(POD)[a_spec("", name="other").id], Running)


async def test_a_stopped_shim_does_not_keep_it_alive(directory: Path):
    async with a_runner(directory) as runner:
        until_ns = await hold(runner, 4)
        await running(runner, a_spec(STUBBORN, is_at_most_one=True))
        shim = find_shim(AttemptFiles(directory / "pods" / POD, FIRST))
        assert shim is not None
        commands.send(shim, signal.SIGSTOP)
        assert (await exited(runner, FIRST)).code == 137
        assert now_ns() < until_ns


async def test_a_lease_from_before_a_reboot_is_none(directory: Path):
    agent = an_agent(directory, specs=[{"script": POLITE, "is_at_most_one": True}], hold_s=600, stopping_s=1)
    kill(agent)
    lease = directory / "lease"
    lease.write_text(lease.read_text().replace(commands.boot_id(), "another"))
    async with a_runner(directory) as runner:
        assert (await exited(runner, FIRST)).reason in ("Fenced", "ContainerStatusUnknown")
