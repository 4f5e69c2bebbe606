"""What tests with real clients share. Each test has a namespace of its own."""

import json
from collections.abc import Iterator

import pytest

from tests.clients.kubectl import Kubectl
from tests.clients.server_process import shared_server, unique_name


@pytest.fixture
def kubectl() -> Kubectl:
    kubectl = Kubectl(shared_server(), unique_name())
    kubectl("create", "namespace", kubectl.namespace)
    kubectl("delete", "configmap", "kube-root-ca.crt")  # No controller restores it here, and tests count ConfigMaps.
    return kubectl


@pytest.fixture
def node(kubectl) -> Iterator[str]:
    name = unique_name("node")
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "well"}
    status = {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}, "conditions": [ready]}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}
    kubectl("create", "-f", "-", stdin=json.dumps(body))
    yield name
    kubectl("delete", "node", name)
