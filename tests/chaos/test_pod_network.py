"""Pods of two machines reach each other by their own addresses, and leave nothing of their network behind."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.lan import Lan, LanMachine
from tests.clients.server_process import ServerProcess
from tests.processes import eventually
from tests.requirements import needs, needs_root

pytestmark = [pytest.mark.slow, needs("kubectl"), needs("ip"), needs_root]

SERVE = "import http.server as h, os; h.test(h.SimpleHTTPRequestHandler, port=80, bind='0.0.0.0')"
ASK = "import urllib.request as u, sys; print(u.urlopen(f'http://{sys.argv[1]}:80/', timeout=5).status)"


class Site:
    """A server here, and two machines with an agent each."""

    def __init__(self, server: ServerProcess, lan: Lan, directory: Path) -> None:
        self.server = server
        self.lan = lan
        self._directory = directory
        self._agents: dict[str, subprocess.Popen[bytes]] = {}

    def start_agent(self, name: str, machine: LanMachine, subnet: str) -> None:
        command = [sys.executable, "-m", "mainstay.cli.main", "agent", f"--name={name}", f"--pod-cidr={subnet}"]
        command += [f"--kubeconfig={self.server.kubeconfig}", f"--address={machine.address}"]
        command += [f"--listen={machine.address}:10250", f"--data-dir={self._directory / name}"]
        with (self._directory / f"{name}.log").open("ab") as log:
            self._agents[name] = subprocess.Popen([*machine.prefix, *command], stdout=log, stderr=log)
        eventually(lambda: f"node/{name}" in self.kubectl("get", "nodes", "-o", "name"), 30)
        eventually(lambda: machine.listens(10250), 30)

    def kill_agent(self, name: str) -> None:
        agent = self._agents.pop(name)
        agent.kill()
        agent.wait(10)

    def stop(self) -> None:
        self.kubectl("delete", "pods", "--all", "--timeout=30s", "--grace-period=1")
        for name in list(self._agents):
            agent = self._agents.pop(name)
            agent.terminate()
            agent.wait(20)

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
        logs = "\n".join(path.read_text()[-3000:] for path in sorted(self._directory.glob("*.log")))
        assert done.returncode == 0, f"{arguments}: {done.stderr}\n{logs}"
        return done.stdout

    def run_pod(self, name: str, node: str, code: str, **spec: Any) -> str:
        """Start a pod that is ready when it answers at port 80. Returns its address."""
        container: dict[str, Any] = {"name": "only", "image": "none", "command": [sys.executable, "-u", "-c", code]}
        if code == SERVE:
            container["readinessProbe"] = {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 1}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"nodeName": node, "containers": [container], **spec},
        }
        self.kubectl("apply", "-f", "-", given=json.dumps(pod))
        self.kubectl("wait", f"pod/{name}", "--for=condition=Ready", "--timeout=60s")
        return self.kubectl("get", "pod", name, "-o", "jsonpath={.status.podIP}")

    def ask(self, pod: str, address: str) -> str:
        return self.kubectl("exec", pod, "--", sys.executable, "-c", ASK, address).strip()

    def condition(self, node: str) -> tuple[str, str]:
        found = json.loads(self.kubectl("get", "node", node, "-o", "json"))["status"]["conditions"]
        network = next((each for each in found if each["type"] == "NetworkUnavailable"), {"status": "", "message": ""})
        return network["status"], network["message"]


def list_links(machine: LanMachine) -> list[str]:
    return [each["ifname"] for each in json.loads(machine.ip("-json", "link", "show", "type", "veth"))]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Lan(2) as lan, ServerProcess(f"--listen={lan.host_address}:0") as server:
        site = Site(server, lan, tmp_path)
        try:
            yield site
        finally:
            site.stop()


def test_pods_of_two_machines_reach_each_other_and_leave_nothing_behind(site: Site):
    one, two = site.lan.machines
    site.start_agent("one", one, "10.244.1.0/24")
    site.start_agent("two", two, "10.244.2.0/24")
    near = site.run_pod("near", "one", SERVE)
    beside = site.run_pod("beside", "one", SERVE)
    far = site.run_pod("far", "two", SERVE)
    assert (near.rpartition(".")[0], far.rpartition(".")[0]) == ("10.244.1", "10.244.2")
    # On one machine, between machines and both ways, all at port 80; and what is seen is the pod's own address.
    assert [site.ask("near", beside), site.ask("near", far), site.ask("far", near)] == ["200"] * 3
    assert near in site.kubectl("logs", "far")
    # An agent that is killed and started again goes on with the network that is there.
    site.kill_agent("two")
    assert site.ask("near", far) == "200"
    site.start_agent("two", two, "10.244.2.0/24")
    eventually(lambda: [site.condition(node)[0] for node in ("one", "two")] == ["False", "False"], 30)
    assert site.ask("far", near) == "200"
    site.kubectl("delete", "pod", "near", "beside", "far", "--grace-period=1")
    eventually(lambda: [len(list_links(machine)) for machine in (one, two)] == [1, 1], 30)  # That to the others.


def test_a_node_whose_network_overlaps_an_older_ones_says_so_and_gets_no_pods(site: Site):
    one, two = site.lan.machines
    site.start_agent("one", one, "10.244.0.0/16")
    site.start_agent("two", two, "10.244.2.0/24")
    eventually(lambda: site.condition("two")[0] == "True", 30)
    assert "overlaps that of node one" in site.condition("two")[1]
    assert site.condition("one")[0] in ("", "False")
