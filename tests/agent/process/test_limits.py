"""Limits, usage, and what the machine does not allow."""

import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mainstay.agent.runner import ContainerId, ContainerUsage
from mainstay.agent.runners.process.cgroups import Cgroups, modern_values, old_values
from mainstay.agent.runners.process.shutdown import stop_everything
from mainstay.agent.runners.process.usage import Meter, Reading
from tests.agent.process.agent_program import an_agent, kill
from tests.agent.process.machine import (
    AT_ONCE,
    a_runner,
    a_spec,
    as_root,
    cgroups_of,
    exited,
    has_file,
    output,
    processes_of,
    ran,
    ready,
    running,
    soon,
)

pytestmark = [pytest.mark.slow, pytest.mark.real_loop]

FIRST = a_spec("").id
MIB = 1024 * 1024
EATS = f"{sys.executable} -I -S -c 'x = b\"x\" * (200 * 1024 * 1024); print(len(x))'"


def test_limits_in_the_terms_of_both_versions():
    spec = a_spec("", cpu_millis_wanted=250, cpu_millis_max=500, memory_bytes_max=64 * MIB)
    assert modern_values(spec) == (
        ("pids.max", "4096"),
        ("cpu.weight", "10"),
        ("cpu.max", "50000 100000"),
        ("memory.max", "67108864"),
        ("memory.swap.max", "0"),
        ("memory.oom.group", "1"),
    )
    assert old_values(spec, "cpu") == (
        ("cpu.shares", "256"),
        ("cpu.cfs_period_us", "100000"),
        ("cpu.cfs_quota_us", "50000"),
    )
    assert old_values(spec, "memory") == (
        ("memory.limit_in_bytes", "67108864"),
        ("memory.memsw.limit_in_bytes", "67108864"),
    )
    assert old_values(spec, "pids") == modern_values(a_spec("")) == (("pids.max", "4096"),)
    assert old_values(a_spec(""), "cpu") == old_values(a_spec(""), "memory") == ()
    assert modern_values(a_spec("", cpu_millis_wanted=1, cpu_millis_max=1)) == (
        ("pids.max", "4096"),
        ("cpu.weight", "1"),
        ("cpu.max", "1000 100000"),
    )


def test_groups_of_a_container_are_its_own():
    spec = a_spec("", memory_bytes_max=MIB)
    groups = Cgroups("/c/mainstay/r", True, ()).settings(spec)
    assert [group.directory for group in groups] == [f"/c/mainstay/r/{spec.id.pod_uid}_main_0"]
    assert Cgroups(note="no").settings(spec) == ()


@as_root
async def test_who_takes_too_much_memory_is_killed(directory: Path):
    async with a_runner(directory) as runner:
        if runner.limits_note:
            pytest.skip(runner.limits_note)
        end = await ran(runner, a_spec(f"exec {EATS}", memory_bytes_max=50 * MIB))
        assert (end.code, end.signal, end.reason) == (137, 9, "OOMKilled")
        end = await ran(runner, a_spec(f"{EATS}; exit $?", attempt=2, memory_bytes_max=50 * MIB))
        assert (end.code, end.reason) == (137, "OOMKilled")
        assert (await ran(runner, a_spec(f"exec {EATS}", attempt=1, memory_bytes_max=400 * MIB))).code == 0
    assert cgroups_of(directory) == []


@as_root
async def test_cpu_time_is_limited(directory: Path):
    async with a_runner(directory) as runner:
        if runner.limits_note:
            pytest.skip(runner.limits_note)
        clock, burn = "print(time.perf_counter())", "while time.process_time() < 0.3: pass"
        script = f"import time\n{clock}\n{burn}\n{clock}"
        spec = a_spec("", command=(sys.executable, "-I", "-S", "-c", script), cpu_millis_max=200)
        assert (await ran(runner, spec)).code == 0
        begun, done = map(float, (await output(runner, spec.id)).split())
        assert done - begun > 0.9  # A fifth of a core: 0.3 s take 1.5 s.


async def test_usage_of_containers_and_of_the_machine(directory: Path):
    async with a_runner(directory) as runner:
        await running(runner, a_spec("while :; do :; done"))
        await running(runner, a_spec("exec sleep 1000", name="idle"))
        idle = a_spec("", name="idle").id
        while True:  # At first what it took to start them counts, too.
            usage = await runner.usage()
            if usage.containers[FIRST].cpu_nanocores > 5 * usage.containers[idle].cpu_nanocores:
                break
        assert usage.node.memory_bytes > MIB
        assert 0 < usage.containers[idle].memory_bytes < 20 * MIB
        for container in (FIRST, idle):
            await runner.end(container, AT_ONCE)
            await exited(runner, container)
        assert dict((await runner.usage()).containers) == {}


async def test_usage_without_control_groups(directory: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("os.geteuid", lambda: 1)
    async with a_runner(directory) as runner:
        await running(runner, a_spec("(while :; do :; done) & wait"))
        while (await runner.usage()).containers[FIRST].cpu_nanocores < 100_000_000:
            pass
        assert (await runner.usage()).containers[FIRST].memory_bytes > 100_000


def test_usage_is_what_came_between_two_readings():
    start = datetime(2026, 11, 16, tzinfo=UTC)
    one, two, three = (ContainerId("pod", name, 0) for name in ("one", "two", "three"))
    meter = Meter()
    meter.add(Reading(start, 0, 10_000_000_000, 5, {one: (1_000_000_000, 7), two: (5, 5)}))
    now = Reading(
        start + timedelta(seconds=10),
        10_000_000_000,
        30_000_000_000,
        6,
        {one: (6_000_000_000, 8), three: (1_000_000_000, 9)},
    )
    usage = meter.usage(now, {one: start, three: start + timedelta(seconds=8)})
    assert usage.window == timedelta(seconds=10)
    assert usage.node == ContainerUsage(2_000_000_000, 6)
    assert usage.containers == {one: ContainerUsage(500_000_000, 8), three: ContainerUsage(500_000_000, 9)}


async def test_everything_can_be_stopped_without_an_agent(directory: Path):
    async with a_runner(directory) as runner:
        await ready(runner, a_spec("trap 'exit 4' TERM; echo ready; while :; do sleep 0.01; done"))
        await ready(runner, a_spec("trap '' TERM; echo ready; while :; do sleep 0.01; done", name="stubborn"))
    stopped = await stop_everything(directory, timedelta(milliseconds=500))
    assert (stopped.count, stopped.left) == (2, ())
    assert processes_of(directory) == []
    assert cgroups_of(directory) == []
    assert (await stop_everything(directory, AT_ONCE)).count == 0
    assert (await stop_everything(directory / "nothing", AT_ONCE)).count == 0
    async with a_runner(directory) as runner:
        assert {key.name: state.code for key, state in runner.instances(FIRST.pod_uid).items()} == {  # type: ignore[union-attr]
            "main": 4,
            "stubborn": 137,
        }


@as_root
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="there is no setpriv")
async def test_an_agent_that_is_not_root_runs_containers_without_limits(directory: Path):
    os.chown(directory, 65534, 65534)
    # Where Python is installed may be open to root alone.
    caps = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
    unprivileged = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *caps]
    script = "id -u; cat /proc/self/cgroup; touch mine; exec sleep 1000"
    specs = [{"script": script, "memory_bytes_max": 50 * MIB, "cpu_millis_max": 100}]
    kill(an_agent(directory, unprivileged, specs=specs))
    await soon(lambda: has_file(directory, "root/mine"))
    async with a_runner(directory) as runner:
        text = await output(runner, FIRST)
        assert text.startswith(b"65534\n")
        assert b"mainstay" not in text
        await runner.end(FIRST, AT_ONCE)
        await exited(runner, FIRST)


def test_a_shim_imports_little():
    """Each of these costs a megabyte, or several milliseconds, for every container."""
    root = Path(__file__).parents[3]
    script = (
        f"import sys; sys.path.append({str(root)!r})\n"
        "from mainstay.agent.runners.process import session_helper, shim_loop\n"
        "print(*sorted(sys.modules))"
    )
    argv = [sys.executable, "-I", "-S", "-c", script]
    imported = subprocess.run(argv, capture_output=True, check=True, text=True).stdout.split()
    heavy = {"asyncio", "collections", "contextlib", "dataclasses", "enum", "json", "re", "signal", "typing"}
    assert heavy & set(imported) == set()
    assert [name for name in imported if name.startswith("mainstay.") and "agent" not in name] == []
