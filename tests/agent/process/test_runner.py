"""One container after another: what it is given, how it ends, what is left of it."""

import asyncio
import os
import signal
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mainstay.agent.runner import CannotRun, ContainerId, Exited, LogQuery, Mount, Runner, Running, VolumePlan
from mainstay.agent.runners.process.runner import ProcessRunner
from tests.agent.process.machine import (
    AT_ONCE,
    POD,
    a_runner,
    a_spec,
    as_root,
    cgroups_of,
    exited,
    output,
    outside,
    processes_of,
    ran,
    ready,
    running,
    soon,
)

pytestmark = [pytest.mark.slow, pytest.mark.real_loop]

_ALL = LogQuery()


async def test_a_container_runs_ends_and_leaves_its_output(directory: Path):
    async with a_runner(directory) as runner:
        spec = a_spec("echo $GREETING; echo oh >&2; pwd; exit 3")
        begun_at = datetime.now(UTC) - timedelta(milliseconds=1)
        end = await ran(runner, spec)
        assert (end.code, end.signal, end.reason) == (3, 0, "Error")
        assert begun_at <= end.started_at <= end.finished_at <= datetime.now(UTC)
        lines = [line async for line in runner.log(POD, "main", _ALL)]
        root = directory / "pods" / POD / "containers" / "main" / "0" / "root"
        assert sorted((line.stream, line.text) for line in lines) == [
            ("stderr", b"oh\n"),
            ("stdout", b"%s\n" % os.fsencode(root)),
            ("stdout", b"hello\n"),
        ]
        assert (await ran(runner, a_spec("true", attempt=1))).reason == "Completed"
        assert runner.pods() == [POD]
        assert [key.attempt for key in runner.instances(POD)] == [0, 1]
        await runner.forget(POD)
        assert runner.pods() == []
        assert list((directory / "pods").iterdir()) == []
    assert processes_of(directory) == []
    assert cgroups_of(directory) == []


async def test_an_attempt_is_begun_once(directory: Path):
    async with a_runner(directory) as runner:
        spec = a_spec("echo x >> mnt/outside/times", mounts=outside(directory))
        await ran(runner, spec)
        await runner.run(spec)
        assert isinstance(runner.instances(POD)[spec.id], Exited)
        await ran(runner, a_spec("true", attempt=1))
        await runner.prune(POD, "main", 1)
        assert [key.attempt for key in runner.instances(POD)] == [1]
        await runner.run(spec)
    async with a_runner(directory) as runner:
        await runner.run(spec)
        assert [key.attempt for key in runner.instances(POD)] == [1]
    assert (directory / "outside" / "times").read_text() == "x\n"


async def test_a_command_that_is_not_there_says_so(directory: Path):
    async with a_runner(directory) as runner:
        end = await ran(runner, a_spec("", command=("no-such-command", "x")))
        assert (end.code, end.reason) == (128, "StartError")
        assert end.message == 'exec: "no-such-command": executable file not found in $PATH'
        end = await ran(runner, a_spec("", command=("/etc/passwd",), attempt=1))
        assert (end.code, end.reason, end.message) == (128, "StartError", 'exec: "/etc/passwd": permission denied')
        end = await ran(runner, a_spec("true", working_dir="/no/such/place", attempt=2))
        assert end.message == "working directory /no/such/place: no such file or directory"


async def test_a_container_is_asked_to_end_and_does(directory: Path):
    async with a_runner(directory) as runner:
        spec = a_spec("trap 'echo asked; exit 7' TERM; echo ready; while :; do sleep 0.01; done")
        await ready(runner, spec)
        await runner.end(spec.id, timedelta(seconds=60))
        end = await exited(runner, spec.id)
        assert (end.code, end.signal) == (7, 0)
        assert await output(runner, spec.id) == b"ready\nasked\n"
        await runner.end(spec.id, AT_ONCE)


async def test_who_does_not_end_is_killed_with_all_that_it_started(directory: Path):
    async with a_runner(directory) as runner:
        stubborn = (
            "trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 1000' & (sleep 1001 & sleep 1002) & sleep 1003; wait"
        )
        spec = a_spec(stubborn)
        await running(runner, spec)
        await soon(lambda: len(processes_of(directory)) >= 6)
        await runner.end(spec.id, timedelta(milliseconds=200))
        end = await exited(runner, spec.id)
        assert (end.code, end.signal, end.reason) == (137, 9, "Error")
        assert processes_of(directory) == []


async def test_the_shorter_grace_counts(directory: Path):
    async with a_runner(directory) as runner:
        spec = a_spec("trap '' TERM; echo ready; while :; do sleep 0.01; done")
        await ready(runner, spec)
        await runner.end(spec.id, timedelta(hours=1))
        await runner.end(spec.id, AT_ONCE)
        assert (await exited(runner, spec.id)).code == 137


async def test_another_signal_can_be_asked_for(directory: Path):
    async with a_runner(directory) as runner:
        spec = a_spec("exec sleep 1000")
        await running(runner, spec)
        await runner.end(spec.id, timedelta(hours=1), with_signal="SIGQUIT")
        assert (await exited(runner, spec.id)).signal == signal.SIGQUIT


async def test_what_the_first_process_leaves_is_killed_when_it_ends(directory: Path):
    async with a_runner(directory) as runner:
        spec = a_spec("setsid sleep 1000 & (setsid sh -c 'env -i setsid sleep 1001 &') ; sleep 1002 & echo done")
        end = await ran(runner, spec)
        assert (end.code, await output(runner, spec.id)) == (0, b"done\n")
        assert processes_of(directory) == []


def size_of(path: str) -> int:
    # A privileged container has the machine's own /dev: the first one leaves an empty file there, to mount on.
    return os.stat(path).st_size if os.path.exists(path) else 0


@as_root
async def test_a_message_at_the_usual_place_is_the_containers_own(directory: Path):
    async with a_runner(directory) as runner:
        for attempt, text in enumerate(("one", "two")):
            spec = a_spec(f"printf {text} >> /dev/termination-log", attempt=attempt)
            assert (await ran(runner, spec)).message == text
    assert size_of("/dev/termination-log") == 0


async def test_a_message_is_left_in_its_file_or_else_in_the_log(directory: Path):
    async with a_runner(directory) as runner:
        said = a_spec("echo to the log; printf 'all is lost' > $MAINSTAY_ROOT/dev/termination-log; exit 1")
        assert (await ran(runner, said)).message == "all is lost"
        assert (await ran(runner, a_spec("echo to the log; exit 1", attempt=1))).message == ""
        from_log = a_spec("echo one; printf two; exit 1", attempt=2, is_message_from_log=True)
        assert (await ran(runner, from_log)).message == "one\ntwo"
        fine = a_spec("echo one; exit 0", attempt=3, is_message_from_log=True)
        assert (await ran(runner, fine)).message == ""
        odd = a_spec("printf '\"\\\\\\001\\377é' > $MAINSTAY_ROOT/dev/termination-log; exit 1", attempt=4)
        assert (await ran(runner, odd)).message == '"\\\x01\ufffdé'


async def test_a_container_can_have_a_terminal(directory: Path):
    async with a_runner(directory) as runner:
        spec = a_spec("test -t 0 && test -t 1 && tty > /dev/tty; echo done", has_stdin=True, has_terminal=True)
        assert (await ran(runner, spec)).code == 0
        text = await output(runner, spec.id)
        assert text.startswith(b"/dev/pts/")
        assert text.endswith(b"done\r\n")


async def test_standard_input_is_empty_or_waits(directory: Path):
    async with a_runner(directory) as runner:
        assert (await ran(runner, a_spec("read x; echo $?", attempt=0))).code == 0
        assert await output(runner, ContainerId(POD, "main", 0)) == b"1\n"
        waiting = a_spec("echo waiting; read x", attempt=1, has_stdin=True)
        await running(runner, waiting)
        await runner.end(waiting.id, AT_ONCE)
        assert (await exited(runner, waiting.id)).code == 137


async def test_signals_and_descriptors_are_as_programs_expect(directory: Path):
    async with a_runner(directory) as runner:
        script = "import os, signal; print(sorted(os.listdir('/proc/self/fd')), signal.pthread_sigmask(0, []))"
        spec = a_spec("", command=(sys.executable, "-I", "-S", "-c", script))
        await ran(runner, spec)
        assert await output(runner, spec.id) == b"['0', '1', '2', '3'] set()\n"  # 3 is the listing itself.
        status = a_spec("grep SigIgn /proc/self/status; umask", attempt=1)
        await ran(runner, status)
        ignored, mask = (await output(runner, status.id)).split()[1:]
        # But for 32 and 33, which the C library keeps to itself: a process started by `make` has them ignored.
        assert int(ignored, 16) & ~(0b11 << 31) == 0
        assert mask == b"0022"


@as_root
async def test_a_container_runs_as_the_user_it_wants(directory: Path):
    async with a_runner(directory) as runner:
        spec = a_spec("id -u; id -g; id -G; touch mine", user=1234, group=2345, groups=(3456,))
        assert (await ran(runner, spec)).code == 0
        assert await output(runner, spec.id) == b"1234\n2345\n2345 3456\n"


@as_root
async def test_an_agent_that_keeps_its_files_private_lets_users_reach_theirs(directory: Path):
    before = os.umask(0o077)
    try:
        async with a_runner(directory) as runner:
            plans = [VolumePlan(name="scratch"), VolumePlan(name="memory", is_in_memory=True)]
            pod = await runner.place(POD, "default", "web", plans)
            mounts = (Mount(pod.volumes["scratch"], "/data/a"), Mount(pod.volumes["memory"], "/data/b"))
            script = "cd $MAINSTAY_ROOT; touch data/a/x data/b/x && echo -n bye > dev/termination-log; exit 1"
            end = await ran(runner, a_spec(script, user=1234, mounts=mounts))
            assert end.message == "bye"
            await runner.forget(POD)
    finally:
        os.umask(before)


def test_it_is_a_runner(directory: Path):
    runner: Runner = ProcessRunner(directory)
    assert runner.pods() == []


async def test_a_directory_has_one_agent(directory: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("mainstay.agent.runners.process.runner._LOCK_TRIES", 5)
    async with a_runner(directory):
        with pytest.raises(CannotRun, match="used by another agent"):
            async with a_runner(directory):
                pass


async def test_names_that_are_paths_are_refused(directory: Path):
    async with a_runner(directory) as runner:
        with pytest.raises(CannotRun):
            await runner.run(a_spec("true", uid="../x"))


async def test_something_that_runs_is_not_forgotten(directory: Path):
    async with a_runner(directory) as runner:
        spec = a_spec("sleep 1000")
        assert isinstance(await running(runner, spec), Running)
        with pytest.raises(ValueError, match="cannot forget a pod"):
            await runner.forget(POD)
        await runner.end(spec.id, AT_ONCE)
        await exited(runner, spec.id)
        await runner.forget(POD)


async def test_an_end_that_is_asked_for_at_once_is_heard(directory: Path):
    """Also while the shim, or the process that is going to be the container, is not there yet."""
    async with a_runner(directory) as runner:
        for attempt in range(20):
            spec = a_spec("exec sleep 1000", attempt=attempt)
            await runner.run(spec)
            await asyncio.sleep(attempt / 400)
            await runner.end(spec.id, timedelta(hours=1))
        for container in runner.instances(POD):
            assert (await exited(runner, container)).signal == signal.SIGTERM
