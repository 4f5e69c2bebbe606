"""A second machine joins by the commands of the guide, is revoked, and leaves nothing behind: on real processes, each
machine a network namespace of its own."""

import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.namespaces import FarMachine
from tests.clients.server_process import ServerProcess
from tests.processes import eventually
from tests.requirements import needs, needs_root

pytestmark = [pytest.mark.slow, needs("kubectl"), needs("ip"), needs_root]

POD = """
apiVersion: v1
kind: Pod
metadata: {name: only}
spec:
  nodeName: far
  terminationGracePeriodSeconds: 1
  containers:
  - name: c
    image: none
    command: [sleep, "98765"]
    resources: {limits: {memory: 64Mi}}
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, emptyDir: {}}]
"""


class Fleet:
    def __init__(self, server: ServerProcess, far: FarMachine, directory: Path) -> None:
        self.server = server
        self.far = far
        self.directory = directory
        self.data_dir = directory / "agent"
        self.log = directory / "agent.log"
        self.agent: subprocess.Popen[bytes] | None = None

    def mainstay(self, *arguments: str, within_s: float = 90) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "mainstay.cli.main", *arguments]
        environment = self.server.environment
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=within_s, check=False)

    def kubectl(self, *arguments: str, given: str = "") -> str:
        done = subprocess.run(
            ["kubectl", *arguments],
            input=given,
            env=self.server.environment,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == 0, f"{arguments}: {done.stderr}\n{self.log.read_text()[-3000:]}"
        return done.stdout

    def start_agent(self, *options: str) -> None:
        command = [sys.executable, "-m", "mainstay.cli.main", "agent", "--name=far", f"--data-dir={self.data_dir}"]
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.directory)}
        with self.log.open("ab") as log:
            self.agent = subprocess.Popen(
                [*self.far.prefix, *command, *options], env=environment, stdout=log, stderr=log
            )

    def join(self) -> None:
        command = self.mainstay("token", "create", "--print-join-command").stdout.split()
        assert command[:3] == ["mainstay", "agent", "--join"]
        self.start_agent(*command[2:])
        self.await_ready()

    def await_ready(self) -> None:
        eventually(lambda: "far" in self.kubectl("get", "nodes", "-o", "name"), 40)
        self.kubectl("wait", "node/far", "--for=condition=Ready", "--timeout=40s")

    def stop_agent(self) -> None:
        if self.agent is not None:
            self.agent.terminate()
            self.agent.wait(20)
            self.agent = None


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with FarMachine() as far, ServerProcess(f"--listen={far.host_address}:0") as server:
        made = Fleet(server, far, tmp_path)
        try:
            yield made
        finally:
            made.stop_agent()
            if made.data_dir.exists():
                made.mainstay("agent", "--name=far", f"--data-dir={made.data_dir}", "--clean")


def find_traces(data_dir: Path) -> dict[str, list[str]]:
    """What there is of an agent on this machine: processes, mounts, cgroups, files."""
    name, found = str(data_dir), dict[str, list[str]]()
    processes = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if name in line or "sleep 98765" in line:
                processes.append(line)
    found["processes"] = processes
    found["mounts"] = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if name in line]
    own = hashlib.sha256(os.fsencode(data_dir.resolve())).hexdigest()[:12]
    groups = Path("/sys/fs/cgroup")
    found["cgroups"] = [str(path) for glob in (f"*/mainstay/{own}", f"mainstay/{own}") for path in groups.glob(glob)]
    files = data_dir.rglob("*") if data_dir.exists() else ()
    found["files"] = sorted(str(path.relative_to(data_dir)) for path in files)
    return found


def test_a_machine_joins_restarts_without_the_token_and_leaves_nothing_behind(fleet: Fleet):
    before = find_traces(fleet.data_dir)
    fleet.join()
    assert (fleet.data_dir / "credentials.json").stat().st_mode & 0o777 == 0o600
    fleet.stop_agent()
    (token,) = re.findall(r"^(\w{6}) ", fleet.mainstay("token", "list").stdout, re.MULTILINE)
    assert fleet.mainstay("token", "revoke", token).returncode == 0
    fleet.start_agent()
    fleet.await_ready()
    fleet.kubectl("apply", "-f", "-", given=POD)
    fleet.kubectl("wait", "pod/only", "--for=condition=Ready", "--timeout=40s")
    traces = find_traces(fleet.data_dir)
    assert traces["processes"], "the search finds what there is"
    assert traces["files"]
    assert fleet.kubectl("exec", "only", "--", "echo", "hello").strip() == "hello"
    refused = fleet.mainstay("node", "remove", "far")
    assert refused.returncode == 1
    assert "--force" in refused.stderr
    done = fleet.mainstay("node", "remove", "far", "--force")
    assert done.returncode == 0, done.stderr + fleet.log.read_text()
    assert fleet.agent is not None
    assert fleet.agent.wait(30) == 0
    after = find_traces(fleet.data_dir)
    assert after["files"] == ["left"]
    assert {**after, "files": []} == before
    assert fleet.kubectl("get", "nodes,leases", "-n", "kube-node-lease", "-o", "name") == ""
    fleet.start_agent()
    assert fleet.agent.wait(30) == 1
    assert "was removed from its cluster" in fleet.log.read_text()


def test_a_revoked_agent_is_refused_within_seconds_and_its_watches_end(fleet: Fleet):
    fleet.join()
    config = str(fleet.data_dir / "credentials.json")
    pods = ["get", "pods", "-A", "--field-selector=spec.nodeName=far"]
    fleet.kubectl(f"--kubeconfig={config}", *pods)
    watching = subprocess.Popen(
        [*fleet.far.prefix, "kubectl", f"--kubeconfig={config}", *pods, "--watch"],
        env=fleet.server.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        time.sleep(1.0)
        assert watching.poll() is None
        began = time.monotonic()
        assert fleet.mainstay("credential", "revoke", "system:node:far", "--reason=test").returncode == 0
        done = subprocess.run(
            ["kubectl", f"--kubeconfig={config}", *pods],
            env=fleet.server.environment,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert "Unauthorized" in done.stderr or "logged in" in done.stderr, done.stderr
        watching.wait(20)
        assert time.monotonic() - began < 60
    finally:
        watching.kill()
    renewed = json.loads(fleet.kubectl("get", "lease", "far", "-n", "kube-node-lease", "-o", "json"))
    time.sleep(12)
    assert json.loads(fleet.kubectl("get", "lease", "far", "-n", "kube-node-lease", "-o", "json")) == renewed
    assert fleet.mainstay("node", "remove", "far", "--force", "--timeout=5s").returncode == 0
