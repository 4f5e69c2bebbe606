"""`mainstay get`, `apply`, `delete`, `logs` and completion as commands, over TLS, against a real server process."""

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from mainstay.cli.exits import Exit
from tests.clients.kubectl import CONFIGMAP, DEPLOYMENT
from tests.clients.server_process import ServerProcess, shared_server, unique_name
from tests.requirements import needs

pytestmark = pytest.mark.slow

LIMIT_S: Final = 30.0  # For one command, on a busy machine.


class Mainstay:
    """The command line in one namespace of a server."""

    def __init__(self, server: ServerProcess, namespace: str) -> None:
        self.server = server
        self.namespace = namespace

    def run(self, *arguments: str, stdin: str = "", **environment: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "mainstay.cli.main", *arguments],
            env={**self.server.environment, "PYTHONPATH": os.getcwd(), **environment},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )

    @contextlib.contextmanager
    def running(self, *arguments: str) -> "Iterator[subprocess.Popen[str]]":
        """A command that goes on while others run."""
        with subprocess.Popen(
            [sys.executable, "-m", "mainstay.cli.main", *arguments],
            env={**self.server.environment, "PYTHONPATH": os.getcwd()},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        """What it says, when it succeeds."""
        done = self.run(*arguments, f"--namespace={self.namespace}", stdin=stdin)
        assert done.returncode == Exit.SATISFIED, done
        return done.stdout

    def completed(self, *words: str) -> list[str]:
        """What a shell offers for the last word."""
        done = self.run(
            _MAINSTAY_COMPLETE="bash_complete",
            COMP_WORDS=" ".join(["mainstay", *words]),
            COMP_CWORD=str(len(words)),
        )
        return [line.partition(",")[2] for line in done.stdout.splitlines()]


@pytest.fixture
def mainstay() -> Iterator[Mainstay]:
    server = shared_server()
    command = Mainstay(server, unique_name("cli"))
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": command.namespace}}
    command.run("apply", "-f", "-", stdin=json.dumps(namespace))
    yield command
    command.run("delete", "namespace", command.namespace, "--wait=false")


def test_objects_are_applied_shown_and_deleted(mainstay: Mainstay, tmp_path: Path):
    both = tmp_path / "both.yaml"
    both.write_text(f"{DEPLOYMENT}---{CONFIGMAP}")
    assert mainstay("apply", "-f", str(both)).splitlines() == [
        "deployment.apps/web created",
        "configmap/settings created",
    ]
    assert mainstay("apply", "-f", "-", stdin=both.read_text()).splitlines() == [
        "deployment.apps/web unchanged",
        "configmap/settings unchanged",
    ]
    assert mainstay("get", "deploy").split()[:6] == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE", "web"]
    assert mainstay("get", "cm/settings", "-o", "jsonpath={.data.colour}") == "red"
    assert "\x1b" not in mainstay("get", "all")
    assert mainstay("delete", "-f", str(both), "--wait=true").splitlines() == [
        'deployment.apps "web" deleted',
        'configmap "settings" deleted',
    ]
    gone = mainstay.run("get", "deploy", "web", "-n", mainstay.namespace)
    assert (gone.returncode, gone.stderr) == (Exit.ERROR, 'mainstay: deployments.apps "web" not found\n')


def test_yaml_from_get_can_be_applied_again(mainstay: Mainstay):
    mainstay("apply", "-f", "-", stdin=CONFIGMAP)
    written = mainstay("get", "cm", "settings", "-o", "yaml")
    mainstay("delete", "cm", "settings")
    fresh = "\n".join(line for line in written.splitlines() if "uid:" not in line and "resourceVersion:" not in line)
    assert mainstay("apply", "-f", "-", stdin=fresh) == "configmap/settings created\n"


def test_a_watch_ends_well_when_it_is_interrupted(mainstay: Mainstay):
    mainstay("apply", "-f", "-", stdin=CONFIGMAP)
    with mainstay.running("get", "cm", "-w", "--no-headers", "-n", mainstay.namespace) as watch:
        assert watch.stdout is not None
        assert [watch.stdout.readline().split()[0] for _ in range(2)] == ["kube-root-ca.crt", "settings"]
        mainstay("apply", "-f", "-", stdin=CONFIGMAP.replace("settings", "more"))
        assert watch.stdout.readline().split()[0] == "more"
        watch.send_signal(signal.SIGINT)
        assert watch.wait(LIMIT_S) == Exit.SATISFIED
        assert watch.stdout.read() == ""


@pytest.mark.parametrize(("environment", "is_coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_a_terminal_gets_colours_unless_it_wants_none(
    mainstay: Mainstay, environment: dict[str, str], is_coloured: bool
):
    ours, theirs = pty.openpty()
    try:
        subprocess.run(
            [sys.executable, "-m", "mainstay.cli.main", "get", "namespaces", "default"],
            env={**mainstay.server.environment, "PYTHONPATH": os.getcwd(), "TERM": "xterm", **environment},
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            timeout=LIMIT_S,
            check=True,
        )
        shown = os.read(ours, 10_000).decode()
    finally:
        os.close(theirs)
        os.close(ours)
    assert ("\x1b[1mNAME" in shown, "\x1b[32mActive" in shown) == (is_coloured, is_coloured)
    assert "default" in shown


def test_a_reader_may_stop_reading(mainstay: Mainstay):
    mainstay("apply", "-f", "-", stdin=CONFIGMAP)
    with mainstay.running("get", "all,cm,secrets,nodes,pods", "-A", "-o", "yaml") as process:
        assert process.stdout is not None
        process.stdout.close()
        # It may have been done by then.
        assert process.wait(LIMIT_S) in (Exit.SATISFIED, Exit.PIPE_CLOSED)
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_the_log_of_a_pod_that_runs_nowhere_is_refused_with_the_reason(mainstay: Mainstay):
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "c", "image": "x"}]},
    }
    mainstay("apply", "-f", "-", stdin=json.dumps(pod))
    done = mainstay.run("logs", "web", "-n", mainstay.namespace)
    assert (done.returncode, done.stderr) == (Exit.ERROR, "mainstay: pod web does not have a host assigned\n")


def test_a_shell_completes_commands_kinds_and_names(mainstay: Mainstay):
    mainstay("apply", "-f", "-", stdin=CONFIGMAP)
    assert "get" in mainstay.completed("g")
    assert mainstay.completed("get", "confi") == ["configmaps"]
    assert mainstay.completed("get", "-n", mainstay.namespace, "configmaps", "set") == ["settings"]
    assert mainstay.completed("get", "-n", mainstay.namespace, "cm/se") == ["cm/settings"]
    assert mainstay.namespace in mainstay.completed("logs", "-n", "cli-")


def test_without_a_cluster_a_shell_completes_nothing_and_does_not_hang(mainstay: Mainstay):
    nowhere = {"KUBECONFIG": "/nowhere", "HOME": "/nowhere"}
    done = mainstay.run(**nowhere, _MAINSTAY_COMPLETE="bash_complete", COMP_WORDS="mainstay get po", COMP_CWORD="2")
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_names_the_command(mainstay: Mainstay, shell: str):
    assert "_MAINSTAY_COMPLETE" in mainstay.run("completion", shell).stdout


@needs("kubectl")
@pytest.mark.parametrize(
    "words",
    [
        ["get", "deploy,cm"],
        ["get", "deploy", "web", "-o", "wide", "--show-labels"],
        ["get", "deploy", "-o", "json"],
        ["get", "deploy", "web", "-o", "json"],
        ["get", "deploy", "web", "-o", "yaml"],
        ["get", "deploy,cm", "-o", "name"],
        ["get", "cm", "--no-headers"],
        ["get", "deploy", "-o", 'jsonpath={range .items[*]}{.metadata.name}{"\\n"}{end}'],
    ],
)
def test_what_get_prints_is_what_kubectl_prints(mainstay: Mainstay, words: list[str]):
    mainstay("apply", "-f", "-", stdin=f"{DEPLOYMENT}---{CONFIGMAP}")
    arguments = [*words, f"--namespace={mainstay.namespace}"]
    assert _without_ages(mainstay.run(*arguments).stdout) == _without_ages(_of_kubectl(mainstay, arguments))


def _of_kubectl(mainstay: Mainstay, arguments: list[str]) -> str:
    command = ["kubectl", *arguments]
    done = subprocess.run(
        command, env=mainstay.server.environment, capture_output=True, text=True, timeout=LIMIT_S, check=True
    )
    return done.stdout


def _without_ages(text: str) -> list[str]:
    """Ages go on between the two, and how long they are decides how wide their column is."""
    return [re.sub(r" +(AGE|[0-9]+s|[0-9]+m([0-9]+s)?)( +|$)", "  AGE  ", line).rstrip() for line in text.splitlines()]
