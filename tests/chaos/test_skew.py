"""Components of this build and of the last release, together; and a data directory that goes from one to the other.

Servers are upgraded first (docs/guides/upgrade.md), so those of the last release meet no component of this build.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.chaos import releases
from tests.processes import eventually
from tests.requirements import needs

pytestmark = [pytest.mark.slow, needs("kubectl")]

THIS, LAST = "this build", releases.LAST
LIMIT_S = 90


class Mixed:
    """Processes of either version over one data directory. `stop` ends them all."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.data_dir = directory / "data"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._address = "127.0.0.1:0"

    def environment(self, version: str) -> Mapping[str, str]:
        env = {"PATH": os.environ["PATH"], "HOME": str(self._directory)}
        env["KUBECONFIG"] = str(self.data_dir / "kubeconfig")
        return env if version == THIS else {**env, "PYTHONPATH": str(releases.extract(version))}

    def start(self, version: str, program: str, *options: str) -> None:
        command = [sys.executable, "-P", "-m", "mainstay.cli.main", program, *options]
        with (self._directory / f"{program}.log").open("ab") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=log, env=self.environment(version), cwd=self._directory
            )
        self._processes[program] = process

    def start_server(self, version: str) -> None:
        log = self._directory / "server.log"
        before = log.read_text().count(" is ready at ") if log.exists() else 0
        self.start(version, "server", f"--data-dir={self.data_dir}", f"--listen={self._address}")
        eventually(lambda: log.read_text().count(" is ready at ") > before, 40)
        url = log.read_text().rpartition(" is ready at ")[2].partition(",")[0]
        self._address = url.rpartition("/")[2].strip()

    def start_others(self, version: str) -> None:
        self.start(version, "scheduler")
        self.start(version, "controllers")
        self.start(version, "agent", "--name=one", f"--data-dir={self._directory / 'agent'}")

    def stop(self, *programs: str) -> None:
        chosen = programs or tuple(self._processes)
        for program in chosen:
            process = self._processes.pop(program)
            process.send_signal(signal.SIGTERM)
            process.wait(30)

    def run(self, version: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-P", "-m", "mainstay.cli.main", *arguments]
        return subprocess.run(
            command,
            env=self.environment(version),
            cwd=self._directory,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    def kubectl(self, *arguments: str, given: str = "") -> str:
        done = subprocess.run(
            ["kubectl", *arguments],
            input=given,
            env=self.environment(THIS),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, f"{arguments}: {done.stderr}\n{self._logs()}"
        return done.stdout

    def _logs(self) -> str:
        return "\n".join(
            f"--- {path.name}\n{path.read_text()[-2000:]}" for path in sorted(self._directory.glob("*.log"))
        )


@pytest.fixture
def mixed(tmp_path: Path) -> Iterator[Mixed]:
    mixed = Mixed(tmp_path)
    try:
        yield mixed
    finally:
        mixed.stop()


def a_deployment(replicas: int, word: str) -> dict[str, Any]:
    command = ["/bin/sh", "-c", f"echo {word}; exec sleep 1000"]
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "web", "image": "none", "command": command}],
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }


def use(mixed: Mixed) -> None:
    """What users do: deploy, change, scale down, delete. All of it has to come about."""
    mixed.kubectl("apply", "-f", "-", given=json.dumps(a_deployment(3, "first")))
    mixed.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    mixed.kubectl("apply", "-f", "-", given=json.dumps(a_deployment(4, "second")))
    mixed.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    assert "second" in mixed.kubectl("logs", "deployment/web")
    mixed.kubectl("scale", "deployment/web", "--replicas=1")
    eventually(lambda: len(mixed.kubectl("get", "pods", "-o", "name").split()) == 1, 40)
    mixed.kubectl("delete", "deployment", "web", "--cascade=foreground", "--timeout=60s")
    eventually(lambda: mixed.kubectl("get", "pods", "-o", "name") == "", 40)


@pytest.mark.deep
def test_components_of_the_last_release_work_with_a_server_of_this_build(mixed: Mixed):
    mixed.start_server(THIS)
    mixed.start_others(LAST)
    use(mixed)
    mixed.stop("scheduler", "controllers")  # Then the rest is upgraded, the agents last.
    mixed.start(THIS, "scheduler")
    mixed.start(THIS, "controllers")
    use(mixed)


def test_an_upgrade_keeps_objects_and_pods_and_the_last_release_refuses_what_it_cannot_read(mixed: Mixed):
    mixed.start_server(LAST)
    mixed.start_others(LAST)
    mixed.kubectl("apply", "-f", "-", given=json.dumps(a_deployment(2, "kept")))
    mixed.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    before = mixed.kubectl("get", "pods", "-o", "jsonpath={.items[*].metadata.uid}")
    mixed.stop()
    mixed.start_server(THIS)
    mixed.start_others(THIS)
    mixed.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    assert mixed.kubectl("get", "pods", "-o", "jsonpath={.items[*].metadata.uid}") == before
    restarts = "jsonpath={.items[*].status.containerStatuses[0].restartCount}"
    assert mixed.kubectl("get", "pods", "-o", restarts) == "0 0"
    mixed.kubectl("delete", "deployment", "web", "--cascade=foreground", "--timeout=60s")
    mixed.stop()
    refused = mixed.run(LAST, "server", f"--data-dir={mixed.data_dir}", "--listen=127.0.0.1:0")
    assert refused.returncode == 1
    assert "written by a newer Mainstay" in refused.stderr
