"""`mainstay up`, `down` and `status`, with real processes that are really killed.

The nodes pretend, except where real workloads matter: what they run is tested elsewhere. How a supervisor decides is
tested in virtual time (tests/supervisor).
"""

import contextlib
import fcntl
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mainstay.cli import status
from mainstay.cli.exits import Exit
from mainstay.cli.main import run
from mainstay.env import tasks
from mainstay.env.process_search import marked
from mainstay.supervisor.machine import MARK
from tests.chaos.cluster import processes_of
from tests.processes import eventually
from tests.store.test_sqlite import make

pytestmark = pytest.mark.slow

LIMIT_S = 60
PROGRAM = [sys.executable, "-m", "mainstay.cli.main"]


class Up:
    """A cluster on this machine, in a directory that is thrown away."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def mainstay(self, command: str, *options: str) -> subprocess.CompletedProcess[str]:
        line = [*PROGRAM, command, "--data-dir", str(self.directory), *options]
        return subprocess.run(line, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    def detached(self, *options: str) -> None:
        done = self.mainstay("up", "--detach", "--port=0", *options)
        assert done.returncode == Exit.SATISFIED, done.stdout + done.stderr + self.logs()

    def foreground(self, *options: str) -> "subprocess.Popen[str]":
        line = [*PROGRAM, "up", "--data-dir", str(self.directory), "--port=0", *options]
        return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def status(self) -> tuple[int, dict[str, Any]]:
        # Asked again and again: not in a process of its own each time.
        with contextlib.redirect_stdout(io.StringIO()) as output:
            code = run(["status", "-o", "json", "--data-dir", str(self.directory)])
        return code, json.loads(output.getvalue())

    def state(self) -> dict[str, Any]:
        return self.status()[1]

    def pids(self) -> Mapping[str, int]:
        return {each["name"]: each["pid"] for each in self.state()["components"]}

    def is_well(self) -> bool:
        return self.status()[0] == Exit.SATISFIED

    def apply(self, manifest: Path) -> None:
        line = [*PROGRAM, "apply", "-f", str(manifest), "--kubeconfig", str(self.directory / "kubeconfig")]
        subprocess.run(line, check=True, capture_output=True, timeout=LIMIT_S)

    def processes(self) -> list[str]:
        """All that runs of it, whether written down or not."""
        return [each.value for each in marked(MARK) if each.value.startswith(f"{self.directory}#")]

    def logs(self) -> str:
        return "".join(f"--- {path.name}\n{path.read_text()[-2000:]}" for path in self.directory.glob("logs/*.log"))


@pytest.fixture
def up() -> Iterator[Up]:
    # Not pytest's own directory: that one stays, and has a long name.
    directory = Path(tempfile.mkdtemp(prefix="mainstay-up-")).resolve()
    up = Up(directory / "data")
    yield up
    up.mainstay("down", "--now")
    left = up.processes()
    shutil.rmtree(directory)
    assert left == []


def test_what_is_killed_comes_back_and_what_outlives_its_supervisor_is_taken_over(up):
    up.detached("--nodes=2", "--runner=pretend")
    first = up.pids()
    assert set(first) == {"server", "scheduler", "controllers", "node-a1", "node-b1"}
    assert up.is_well()

    for pid in first.values():
        os.kill(pid, signal.SIGKILL)
    eventually(up.is_well)
    second = up.pids()
    assert not {*first.values()} & {*second.values()}
    assert [each["restarts"] for each in up.state()["components"]] == [1, 1, 1, 1, 1]

    os.kill(up.state()["supervisor"]["pid"], signal.SIGKILL)
    assert eventually(lambda: up.state()["supervisor"]["pid"] is None)
    assert up.pids() == second
    os.kill(second["node-a1"], signal.SIGKILL)
    eventually(lambda: up.pids()["node-a1"] is None)
    assert up.status()[0] == Exit.BLOCKED
    # As if the supervisor had been killed before it could write down what it has started.
    (up.directory / "run" / "scheduler.json").unlink()

    up.detached()
    third = up.pids()
    assert {name for name in third if third[name] == second[name]} == {"server", "scheduler", "controllers", "node-b1"}
    assert up.is_well()
    again = up.mainstay("up")
    assert again.returncode == Exit.ERROR
    assert "is already running" in again.stderr

    assert up.mainstay("down").returncode == Exit.SATISFIED
    assert up.processes() == []
    assert up.mainstay("status").returncode == Exit.BLOCKED


def test_status_names_the_health_checks_that_fail(up, monkeypatch):
    up.detached("--nodes=1", "--runner=pretend")
    eventually(up.is_well)
    monkeypatch.setattr(status, "STARTING_FOR", timedelta(0))

    (segment,) = (up.directory / "journal").glob("history-*.open")
    segment.unlink()

    code, state = up.status()
    assert code == Exit.ERROR
    checks = next(each["failingChecks"] for each in state["components"] if each["name"] == "server")
    # On a busy machine there may be others that are late.
    problems = {each["name"]: each["problem"] for each in checks}
    assert f"{segment.name} was removed while it was being written" in problems["history"]
    shown = up.mainstay("status").stdout
    assert "server         unhealthy" in shown
    assert f"check history fails: {segment.name} was removed" in shown


def test_down_works_without_a_supervisor(up):
    up.detached("--nodes=1", "--runner=pretend", "--no-scheduler", "--no-journal")
    os.kill(up.state()["supervisor"]["pid"], signal.SIGKILL)

    done = up.mainstay("down")

    assert done.returncode == Exit.SATISFIED, done.stderr
    assert up.processes() == []
    # Twice is once.
    assert up.mainstay("down").returncode == Exit.SATISFIED


def test_down_does_not_wait_for_a_supervisor_that_hangs(up):
    up.detached("--nodes=0", "--no-scheduler", "--no-journal")
    os.kill(up.state()["supervisor"]["pid"], signal.SIGSTOP)

    done = up.mainstay("down", "--now")

    assert done.returncode == Exit.SATISFIED, done.stderr
    assert up.processes() == []


def test_down_does_not_say_that_all_is_stopped_when_workloads_are_left(up):
    up.detached("--nodes=0", "--no-scheduler", "--no-controllers", "--no-journal")
    node = up.directory / "nodes" / "node-x"
    (node / "pods").mkdir(parents=True)
    with (node / "agent.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # As an agent that this cluster does not know.
        done = up.mainstay("down", "--now")

    assert done.returncode == Exit.ERROR
    assert "the workloads of node-x are not stopped" in done.stderr
    assert "Stopped." not in done.stdout
    assert up.processes() == []


def test_workloads_end_with_the_cluster_and_start_with_it(up, tmp_path):
    manifest = tmp_path / "pod.json"
    command = ["sh", "-c", "while true; do sleep 0.1; done", str(tmp_path)]
    containers = [{"name": "beat", "image": "none", "command": command}]
    spec = {"terminationGracePeriodSeconds": 1, "containers": containers}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "beat"}, "spec": spec}
    manifest.write_text(json.dumps(pod))

    up.detached("--nodes=1")
    up.apply(manifest)
    eventually(lambda: processes_of("done", str(tmp_path)))
    assert up.mainstay("down").returncode == Exit.SATISFIED
    assert processes_of("done", str(tmp_path)) == []

    up.detached()
    eventually(lambda: processes_of("done", str(tmp_path)))


def test_ctrl_c_stops_all_and_a_second_one_does_not_wait(up):
    process = up.foreground("--nodes=0", "--no-journal")
    assert process.stdout is not None
    try:
        lines = iter(process.stdout.readline, "")
        shown = list(iter(lambda: next(lines), "Press Ctrl-C to stop the cluster and its workloads.\n"))
        assert any(line.startswith("Ready in") for line in shown)
        assert f"  export KUBECONFIG={up.directory}/kubeconfig\n" in shown
        # This one cannot hear that it is asked to end.
        os.kill(up.pids()["scheduler"], signal.SIGSTOP)

        process.send_signal(signal.SIGINT)
        assert "Stopping. Press Ctrl-C again to force" in next(lines)
        process.send_signal(signal.SIGINT)

        assert process.wait(10) == Exit.SATISFIED
        assert up.processes() == []
    finally:
        process.kill()
        process.communicate()


def test_a_port_that_is_taken_is_named_before_anything_starts(up):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        done = up.mainstay("up", f"--port={port}")

    assert done.returncode == Exit.ERROR
    assert f"port {port} on 127.0.0.1 is in use" in done.stderr
    assert "--port" in done.stderr
    assert up.processes() == []


def test_a_component_that_does_not_start_is_shown_with_what_it_says_and_all_is_stopped_again(up):
    up.directory.mkdir()
    (up.directory / "store").write_text("this is no store")

    done = up.mainstay("up", "--nodes=0", "--port=0")

    assert done.returncode == Exit.ERROR
    assert "server failed to start 3 times" in done.stderr
    assert str(up.directory / "store") in done.stderr
    assert up.processes() == []


def test_a_damaged_store_is_said_once_and_not_tried_again(up):
    tasks.run(make(up.directory / "store", 5))
    (up.directory / "store" / "store.mark").unlink()

    done = up.mainstay("up", "--nodes=0", "--port=0")

    assert done.returncode == Exit.ERROR
    assert "server failed to start once" in done.stderr
    assert f"mainstay store verify --data-dir {up.directory}" in done.stderr
    assert up.processes() == []


def test_a_directory_without_a_cluster_is_named(up):
    done = up.mainstay("status")

    assert done.returncode == Exit.ERROR
    assert "mainstay up" in done.stderr
    assert up.mainstay("down").returncode == Exit.SATISFIED
    assert not up.directory.exists()


@pytest.mark.parametrize("option", ["--capacity=cpu=x", "--lease-duration=1ms"])
def test_what_no_agent_could_start_with_is_refused_and_not_remembered(option: str, tmp_path: Path, capsys):
    assert run(["up", "--detach", "--data-dir", str(tmp_path / "data"), option]) == Exit.USAGE
    assert option.split("=")[0] in capsys.readouterr().err
    assert not (tmp_path / "data" / "cluster.json").exists()
