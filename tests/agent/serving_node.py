"""A node for tests with real clients: what an agent serves, over TLS, before a real server, with a runner that behaves.

The agent's part runs on a thread of this process. The Node and its pods are written by the test itself.
"""

import asyncio
import json
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Self

import uvloop

from mainstay.agent.runner import ContainerId
from mainstay.agent.serve.server import AgentServing
from mainstay.api.kind import Object
from mainstay.client.config import from_kubeconfig_file
from mainstay.env import Chance, Env, SystemClock, SystemDisk
from mainstay.http.certificates import ensure_self_signed
from tests.agent.fake_runner import ProcessSessions
from tests.clients.kubectl import Kubectl
from tests.clients.server_process import unique_name

HOST = "127.0.0.1"


class ServingNode:
    """Use it as a context manager. Answers for one node, whose pods are added with `add_pod`."""

    def __init__(self, kubectl: Kubectl, directory: Path) -> None:
        self.kubectl = kubectl
        self.name = unique_name("node")
        self.directory = directory
        self.pods: dict[tuple[str, str], Object] = {}
        self.runner = ProcessSessions(str(directory))
        self.serving: AgentServing | None = None
        self.port = 0
        self.digest = ""
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def find(self, namespace: str, name: str) -> Object | None:
        return self.pods.get((namespace, name))

    def __enter__(self) -> Self:
        self._thread.start()
        self.start()
        self.kubectl("create", "-f", "-", stdin=json.dumps(self._node()))
        return self

    def __exit__(self, *ended: object) -> None:
        self.stop()
        self.kubectl("delete", "node", self.name)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def start(self, port: int = 0, *, directory: Path | None = None) -> None:
        """Listen, with the certificate that is in the directory, or a new one."""
        place = directory or self.directory
        disk, clock = SystemDisk(place), SystemClock()
        certificate = ensure_self_signed(disk, place, clock, f"system:node:{self.name}", [HOST])
        authorities = from_kubeconfig_file(self.kubectl.server.kubeconfig).tls.authorities
        env = Env(clock, Chance.fresh(), disk)
        self.serving = self.do(AgentServing.start(env, HOST, port, certificate=certificate, authorities=authorities))
        self.serving.serve(self.name, self, self.runner)
        self.port, self.digest = self.serving.port, certificate.digest

    def stop(self) -> None:
        if self.serving is not None:
            self.do(self.serving.stop())
            self.serving = None

    def do(self, work: "Coroutine[Any, Any, Any]") -> Any:
        """Run something on the agent's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    def call(self, change: Any, *arguments: Any) -> Any:
        """The same, of a plain call."""

        async def called() -> Any:
            return change(*arguments)

        return self.do(called())

    def tell(self) -> None:
        """Write into the Node which certificate and port the agent has now."""
        body = {"metadata": {"annotations": {"mainstay.dev/agent-certificate": self.digest}}}
        self.kubectl("patch", "node", self.name, "--type=merge", "-p", json.dumps(body))
        status = {"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": self.port}}}}
        self.kubectl("patch", "node", self.name, "--subresource=status", "--type=merge", "-p", json.dumps(status))

    def add_pod(self, name: str, *containers: str, address: str = HOST) -> dict[str, ContainerId]:
        """A pod that runs here. Its containers, by name."""
        named = [{"name": each, "image": "x:1"} for each in containers or ("c",)]
        spec = {"nodeName": self.name, "containers": named}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        self.kubectl("create", "-f", "-", stdin=json.dumps(body))
        running = {"running": {"startedAt": "2026-11-16T08:00:00Z"}}
        statuses = [
            {"name": each["name"], "ready": True, "restartCount": 0, "image": "x:1", "imageID": "", "state": running}
            for each in named
        ]
        conditions = [{"type": each, "status": "True"} for each in ("PodScheduled", "ContainersReady", "Ready")]
        status = {
            "phase": "Running",
            "podIP": address,
            "conditions": conditions,
            "containerStatuses": statuses,
        }
        patch = json.dumps({"status": status})
        self.kubectl("patch", "pod", name, "--subresource=status", "--type=merge", "-p", patch)
        pod = self.kubectl.json("get", "pod", name)
        self.pods[self.kubectl.namespace, name] = pod
        uid = pod["metadata"]["uid"]
        return {each["name"]: self.call(self.runner.begin, uid, each["name"]) for each in named}

    def _node(self) -> Object:
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "well"}
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        status = {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [ready],
            "addresses": [{"type": "InternalIP", "address": HOST}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self.port}},
        }
        metadata = {"name": self.name, "annotations": {"mainstay.dev/agent-certificate": self.digest}}
        return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}
