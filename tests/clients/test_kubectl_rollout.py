"""A Deployment on real processes, used with the real kubectl: rolled out, looked at, undone, restarted, paused, scaled.

Server, scheduler and controllers are ours, each a process; the three nodes only say that they run pods.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from tests.clients.kubectl import DEPLOYMENT, Kubectl
from tests.clients.server_process import ServerProcess

pytestmark = pytest.mark.slow

WITHIN = "--timeout=60s"


@contextmanager
def component(server: ServerProcess, *command: str) -> Iterator[None]:
    """One of our processes, until the end of the block."""
    place = [f"--kubeconfig={server.kubeconfig}", f"--data-dir={server.home / command[0]}"]
    with server.log.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "mainstay.cli.main", *command, *place], stdout=log, stderr=log
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Kubectl]:
    nodes = ("--runner=pretend", "--count=3", "--name=node", "--start-delay=50ms", "--stop-delay=50ms")
    with ServerProcess() as server, ExitStack() as stack:
        stack.enter_context(component(server, "controllers", "--only=deployment,replicaset"))
        stack.enter_context(component(server, "scheduler"))
        stack.enter_context(component(server, "agent", *nodes))
        yield Kubectl(server, "default")


def test_a_deployment_is_rolled_out_undone_restarted_paused_and_scaled(cluster):
    kubectl = cluster

    kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    assert 'deployment "web" successfully rolled out' in kubectl("rollout", "status", "deployment/web", WITHIN)
    kubectl("wait", "--for=condition=Available", "deployment/web", WITHIN)
    assert kubectl.table("get", "deployments")[0] == {
        "NAME": "web",
        "READY": "2/2",
        "UP-TO-DATE": "2",
        "AVAILABLE": "2",
    }

    # Another version, with its cause in the history.
    kubectl("set", "image", "deployment/web", "web=nginx:2")
    kubectl("annotate", "deployment/web", "kubernetes.io/change-cause=second version")
    kubectl("rollout", "status", "deployment/web", WITHIN)
    assert _images(kubectl) == {"nginx:2"}
    history = kubectl("rollout", "history", "deployment/web")
    assert [line.split()[0] for line in history.splitlines()[2:] if line] == ["1", "2"]
    assert "second version" in history
    assert "nginx:1" in kubectl("rollout", "history", "deployment/web", "--revision=1")

    # Back: the first template's set becomes the newest revision.
    assert "rolled back" in kubectl("rollout", "undo", "deployment/web")
    kubectl("rollout", "status", "deployment/web", WITHIN)
    assert _images(kubectl) == {"nginx:1"}
    shown = kubectl("rollout", "history", "deployment/web").splitlines()[2:]
    assert [line.split()[0] for line in shown if line] == ["2", "3"]
    assert len(kubectl.json("get", "replicasets")["items"]) == 2

    # New pods, with the same image.
    before = _pods(kubectl)
    kubectl("rollout", "restart", "deployment/web")
    kubectl("rollout", "status", "deployment/web", WITHIN)
    assert not _pods(kubectl) & before

    # Nothing is rolled out while it is paused, but its size follows.
    kubectl("rollout", "pause", "deployment/web")
    kubectl("set", "image", "deployment/web", "web=nginx:3")
    kubectl("scale", "deployment/web", "--replicas=4")
    kubectl("wait", "--for=jsonpath={.status.availableReplicas}=4", "deployment/web", WITHIN)
    assert _images(kubectl) == {"nginx:1"}
    kubectl("rollout", "resume", "deployment/web")
    kubectl("rollout", "status", "deployment/web", WITHIN)
    assert _images(kubectl) == {"nginx:3"}

    # And none at all.
    kubectl("scale", "deployment/web", "--replicas=0")
    kubectl("wait", "--for=delete", "pods", "-l", "app=web", WITHIN)
    assert kubectl.json("get", "deployment", "web")["status"].get("replicas", 0) == 0


def _pods(kubectl: Kubectl) -> set[str]:
    return {pod["metadata"]["uid"] for pod in _active(kubectl)}


def _images(kubectl: Kubectl) -> set[str]:
    return {pod["spec"]["containers"][0]["image"] for pod in _active(kubectl)}


def _active(kubectl: Kubectl) -> list[dict[str, Any]]:
    return [pod for pod in kubectl.json("get", "pods")["items"] if "deletionTimestamp" not in pod["metadata"]]
