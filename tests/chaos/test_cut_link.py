"""The link between a node and the control plane is really cut, and fencing holds.

The observer is where the control plane is: it sees the node's lease, and may give a pod that asked for at-most-one to
another node only when the arithmetic of fencing.py allows it. At that moment the old one must have ended, though no
request could reach it.
"""

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mainstay.loop.fencing import LeaseTimes, MayStart, ObservedLease, may_start, observed
from tests.chaos.cluster import allow_host_paths, mount_shared, script_command
from tests.chaos.namespaces import FarMachine
from tests.clients.server_process import ServerProcess
from tests.processes import eventually, wait_until
from tests.requirements import needs, needs_root

pytestmark = [pytest.mark.slow, needs("kubectl"), needs("ip"), needs_root]

NODE = "far"
TIMES = LeaseTimes(duration=timedelta(seconds=8), renew_every=timedelta(seconds=2), stopping=timedelta(seconds=2))


class Site:
    """A server here, a node at the other end of the cable, and what is on it."""

    def __init__(self, server: ServerProcess, far: FarMachine, directory: Path) -> None:
        self.server = server
        self.far = far
        self.directory = directory
        self.shared = directory / "shared"
        self.shared.mkdir()
        self.shared.chmod(0o777)
        self._agent: subprocess.Popen[bytes] | None = None

    def start_agent(self) -> None:
        options = {
            "--name": NODE,
            "--kubeconfig": str(self.server.kubeconfig),
            "--data-dir": str(self.directory / "agent"),
            "--address": self.far.address,
            "--lease-duration": f"{TIMES.duration.seconds}s",
            "--renew-every": f"{TIMES.renew_every.seconds}s",
            "--stopping": f"{TIMES.stopping.seconds}s",
        }
        command = [
            sys.executable,
            "-m",
            "mainstay.cli.main",
            "agent",
            *(f"{key}={value}" for key, value in options.items()),
        ]
        with (self.directory / "agent.log").open("ab") as log:
            self._agent = subprocess.Popen([*self.far.prefix, *command], stdout=log, stderr=log)

    def kill_agent(self) -> None:
        assert self._agent is not None
        self._agent.kill()
        self._agent.wait(10)

    def stop(self) -> None:
        """End the agent, and everything that it runs."""
        if self._agent is not None:
            self.far.heal()
            self.kubectl("delete", "pods", "--all", "--timeout=20s")
            self._agent.terminate()
            self._agent.wait(20)

    def kubectl(self, *arguments: str, given: str = "") -> str:
        done = subprocess.run(
            ["kubectl", *arguments],
            input=given,
            env=self.server.environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        log = self.directory / "agent.log"
        assert done.returncode == 0, f"{arguments}: {done.stderr}\n{log.read_text()[-4000:] if log.exists() else ''}"
        return done.stdout

    def run_pod(self, name: str, *, is_at_most_one: bool) -> None:
        command = [*script_command("exclusive.py"), str(self.shared), name]
        annotations = {"mainstay.dev/at-most-one": "true"} if is_at_most_one else {}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": annotations},
            "spec": mount_shared(
                {
                    "nodeName": NODE,
                    "terminationGracePeriodSeconds": 30,
                    "containers": [{"name": "only", "image": "none", "command": command}],
                },
                self.shared,
            ),
        }
        allow_host_paths(self.kubectl)
        self.kubectl("apply", "-f", "-", given=json.dumps(pod))
        self.kubectl("wait", f"pod/{name}", "--for=condition=Ready", "--timeout=30s")

    def lease(self) -> Any:
        return json.loads(self.kubectl("get", "lease", NODE, "-n", "kube-node-lease", "-o", "json"))

    def wait_until_a_replacement_may_start(self) -> None:
        """What the controller that replaces a pod does: watch the lease, by its own clock."""
        seen: ObservedLease | None = None

        def may() -> bool:
            nonlocal seen
            now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
            seen = observed(seen, int(self.lease()["metadata"]["resourceVersion"]), now_ns)
            return isinstance(may_start(seen, now_ns, TIMES), MayStart)

        assert wait_until(may, 60)

    def is_running(self, name: str) -> bool:
        """Whether a process holds its lock. The kernel knows."""
        file = os.open(self.shared / f"{name}.lock", os.O_RDWR)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(file)
        return False

    def starts(self, name: str) -> int:
        return len((self.shared / f"{name}.starts").read_text().splitlines())

    def violations(self) -> str:
        path = self.shared / "violations"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with FarMachine() as far, ServerProcess(f"--listen={far.host_address}:0") as server:
        site = Site(server, far, tmp_path)
        try:
            site.start_agent()
            eventually(lambda: NODE in site.kubectl("get", "nodes", "-o", "name"))
            yield site
        finally:
            site.stop()


@pytest.mark.deep
def test_an_at_most_one_pod_has_ended_before_it_may_be_replaced_and_comes_back_after_the_cut(site: Site):
    site.run_pod("only", is_at_most_one=True)
    site.run_pod("other", is_at_most_one=False)
    site.far.cut()
    site.wait_until_a_replacement_may_start()
    assert not site.is_running("only")
    assert site.is_running("other")
    site.far.heal()
    eventually(lambda: site.starts("only") == 2, 60)
    assert site.starts("other") == 1
    assert site.violations() == ""


@pytest.mark.deep
def test_a_pod_that_was_replaced_meanwhile_never_comes_back(site: Site):
    site.run_pod("only", is_at_most_one=True)
    site.far.cut()
    site.wait_until_a_replacement_may_start()
    site.kubectl("delete", "pod", "only", "--force", "--grace-period=0")
    with subprocess.Popen(
        [*script_command("exclusive.py"), str(site.shared), "only"], stdout=subprocess.DEVNULL
    ) as successor:
        try:
            eventually(lambda: site.is_running("only"))
            site.far.heal()
            renewed = site.lease()["spec"]["renewTime"]
            eventually(lambda: site.lease()["spec"]["renewTime"] != renewed, 60)
            site.run_pod("after", is_at_most_one=True)  # The agent sees what there is again.
            assert successor.poll() is None
        finally:
            successor.kill()
    assert site.starts("only") == 2
    assert site.violations() == ""


def test_fencing_does_not_depend_on_the_agent_being_alive(site: Site):
    site.run_pod("only", is_at_most_one=True)
    site.kill_agent()
    site.wait_until_a_replacement_may_start()
    assert not site.is_running("only")
    site.start_agent()
    eventually(lambda: site.starts("only") == 2, 60)
    assert site.violations() == ""
