"""A program in a pod finds the API server by itself: `load_incluster_config()`, on a real agent."""

import json
import sys
from typing import Any

import pytest

from tests.chaos.cluster import Cluster
from tests.requirements import needs

pytestmark = pytest.mark.slow

SCRIPT = """
import json
from kubernetes import client, config
config.load_incluster_config()
who = client.AuthenticationV1Api().create_self_subject_review({}).status.user_info
try:
    client.CoreV1Api().list_namespaced_pod("default")
    listed = 200
except client.ApiException as error:
    listed = error.status
with open("/var/run/secrets/kubernetes.io/serviceaccount/namespace") as file:
    namespace = file.read()
print(json.dumps({"user": who.username, "pod": who.extra["authentication.kubernetes.io/pod-name"], "listed": listed,
    "namespace": namespace}), flush=True)
"""


def a_pod(name: str) -> Any:
    container = {"name": "c", "image": "python", "command": [sys.executable, "-c", SCRIPT]}
    spec = {"restartPolicy": "Never", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@needs("kubectl")
def test_a_pod_asks_the_server_as_its_service_account() -> None:
    with Cluster(nodes=1) as cluster:
        cluster.apply(a_pod("asker"))
        cluster.until(lambda: cluster.get("pod", "asker")["status"].get("phase") in ("Succeeded", "Failed"), 90)

        log = cluster.kubectl("logs", "asker")
        assert cluster.get("pod", "asker")["status"]["phase"] == "Succeeded", log
        assert json.loads(log) == {
            "user": "system:serviceaccount:default:default",
            "pod": ["asker"],
            "listed": 403,
            "namespace": "default",
        }
        assert cluster.get("service", "kubernetes")["spec"]["clusterIP"] == "10.96.0.1"
        port = int(cluster.status()["url"].rpartition(":")[2])
        assert cluster.get("endpoints", "kubernetes")["subsets"] == [
            {"addresses": [{"ip": "127.0.0.1"}], "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}
        ]
