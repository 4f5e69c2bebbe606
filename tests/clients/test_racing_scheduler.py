"""Another scheduler, made with the `kubernetes` Python client, races ours: real processes, the same pods and nodes.

It sends plain bindings from several threads, looks at nothing before, and so knows less than any scheduler would. It
never uses the largest node: what is there was placed by ours.
"""

# mypy: disable-error-code="arg-type,index,no-any-return,no-untyped-call,operator,union-attr"

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from kubernetes import client, watch
from kubernetes.client.exceptions import ApiException

from tests.clients.python_client import python_client
from tests.clients.server_process import ServerProcess

pytestmark = pytest.mark.slow

NODES = {"small": 2, "medium": 5, "large": 9}
PODS = 30  # Of one cpu each: about twice as many as there is room for.
THREADS = 4
WITHIN_S = 60


@contextmanager
def our_scheduler(server: ServerProcess) -> Iterator[None]:
    command = [sys.executable, "-m", "mainstay.cli.main", "scheduler", "--share"]
    place = [f"--kubeconfig={server.kubeconfig}", f"--data-dir={server.home / 'scheduler'}"]
    with server.log.open("ab") as log:
        process = subprocess.Popen([*command, *place], stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(20)


def add_node(core: client.CoreV1Api, name: str, cpu: int) -> None:
    core.create_node({"metadata": {"name": name}})
    core.patch_node(name, {"spec": {"taints": []}})
    status = {"allocatable": {"cpu": str(cpu), "memory": "8Gi", "pods": "110"}}
    core.patch_node_status(name, {"status": status})


def add_pod(core: client.CoreV1Api, name: str) -> None:
    container = {"name": "main", "image": "work:1", "resources": {"requests": {"cpu": "1"}}}
    core.create_namespaced_pod("default", {"metadata": {"name": name}, "spec": {"containers": [container]}})


def bind(core: client.CoreV1Api, name: str, node: str) -> int:
    """The status of the answer."""
    target = client.V1Binding(
        metadata=client.V1ObjectMeta(name=name), target=client.V1ObjectReference(kind="Node", name=node)
    )
    try:
        # What comes back is a Status, which this client's model of a Binding cannot hold.
        core.create_namespaced_pod_binding(name, "default", target, _preload_content=False)
    except ApiException as error:
        return error.status
    return 201


def test_two_schedulers_of_different_making_never_overfill_a_node():
    with ServerProcess() as server, python_client(server.kubeconfig) as api:
        core = client.CoreV1Api(api)
        for name, cpu in NODES.items():
            add_node(core, name, cpu)
        with our_scheduler(server), ThreadPoolExecutor(THREADS) as threads:
            _wait_for_ours(core)
            names = [f"web-{number}" for number in range(PODS)]
            for name in names:
                add_pod(core, name)
                # Two nodes at once for the same pod, while ours has chosen one, too.
                answers = threads.map(lambda node, name=name: bind(core, name, node), list(NODES)[:2])
                assert all(status in (201, 409) for status in answers)

            placed = _settled(core)

        assert placed == NODES


def _wait_for_ours(core: client.CoreV1Api) -> None:
    """Until it has placed a pod, which then ends."""
    add_pod(core, "first")
    _watch_until(core, lambda placed: "first" in placed)
    core.patch_namespaced_pod_status("first", "default", {"status": {"phase": "Succeeded"}})


def _settled(core: client.CoreV1Api) -> dict[str, int]:
    """How many pods there are on each node once all nodes are full."""
    room = sum(NODES.values())
    _watch_until(core, lambda placed: len(placed) >= room)
    pods = core.list_namespaced_pod("default").items
    return dict(Counter(pod.spec.node_name for pod in pods if pod.spec.node_name and pod.status.phase == "Pending"))


def _watch_until(core: client.CoreV1Api, is_so: Callable[[dict[str, str]], bool]) -> None:
    """Follow which pods that have not ended are on which nodes."""
    placed: dict[str, str] = {}
    for event in watch.Watch().stream(core.list_namespaced_pod, "default", timeout_seconds=WITHIN_S):
        pod = event["object"]
        placed.pop(pod.metadata.name, None)
        if pod.spec.node_name and pod.status.phase == "Pending":
            placed[pod.metadata.name] = pod.spec.node_name
        if is_so(placed):
            return
    raise AssertionError(f"after {WITHIN_S} seconds it is still {placed}")
