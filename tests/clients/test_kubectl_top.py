"""kubectl's top, of a node that says what is used over TLS."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from tests.agent.serving_node import ServingNode

pytestmark = pytest.mark.slow


@pytest.fixture
def node(kubectl, tmp_path):
    with ServingNode(kubectl, tmp_path) as node:
        yield node


def test_what_nodes_use(kubectl, node):
    rows = kubectl.table("top", "node", node.name)

    assert rows == [
        {"NAME": node.name, "CPU(cores)": "250m", "CPU(%)": "6%", "MEMORY(bytes)": "512Mi", "MEMORY(%)": "6%"}
    ]


def test_what_pods_use_together_and_by_container(kubectl, node):
    node.add_pod("web", "a", "b")
    node.add_pod("other")

    assert kubectl.table("top", "pods") == [
        {"NAME": "other", "CPU(cores)": "5m", "MEMORY(bytes)": "64Mi"},
        {"NAME": "web", "CPU(cores)": "10m", "MEMORY(bytes)": "128Mi"},
    ]
    assert kubectl.table("top", "pod", "web", "--containers") == [
        {"POD": "web", "NAME": "a", "CPU(cores)": "5m", "MEMORY(bytes)": "64Mi"},
        {"POD": "web", "NAME": "b", "CPU(cores)": "5m", "MEMORY(bytes)": "64Mi"},
    ]


def test_pods_are_selected_by_label(kubectl, node):
    node.add_pod("web")
    node.add_pod("other")
    kubectl("label", "pod", "web", "app=web")

    assert [row["NAME"] for row in kubectl.table("top", "pods", "-l", "app=web")] == ["web"]


def test_nodes_whose_agents_do_not_answer_are_unknown(kubectl, node):
    node.add_pod("web")
    node.stop()

    refused = kubectl.refused("top", "node", node.name)
    assert refused == f'Error from server (NotFound): nodes.metrics.k8s.io "{node.name}" not found'
    assert kubectl.refused("top", "pods") == "error: metrics not available yet"


def test_what_is_used_can_be_got_like_anything_else(kubectl, node):
    node.add_pod("web")

    assert kubectl.table("get", "podmetrics.metrics.k8s.io", "web") == [
        {"NAME": "web", "CPU": "5000000n", "MEMORY": "65536Ki", "WINDOW": "10s"}
    ]
    metrics = kubectl.json("get", "podmetrics.metrics.k8s.io", "web")
    assert metrics["containers"] == [{"name": "c", "usage": {"cpu": "5000000n", "memory": "65536Ki"}}]
    assert (metrics["timestamp"], metrics["window"]) == ("2026-11-16T08:00:00Z", "10s")


def test_metrics_that_a_pod_serves_itself(kubectl, node):
    """A real HTTP server stands for the pod: the API server asks the agent over TLS, the agent asks the pod."""

    class Metrics(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'# TYPE queue_length gauge\nqueue_length{queue="a"} 12.5\n')

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Metrics) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        node.add_pod("web")
        port = f"prometheus.io/port={server.server_address[1]}"
        kubectl("annotate", "pod", "web", "prometheus.io/scrape=true", port)
        node.pods[kubectl.namespace, "web"] = kubectl.json("get", "pod", "web")

        path = f"/apis/custom.metrics.k8s.io/v1beta2/namespaces/{kubectl.namespace}/pods/*/queue_length"
        found = json.loads(kubectl("get", "--raw", path))
        server.shutdown()

    assert [(each["describedObject"]["name"], each["value"]) for each in found["items"]] == [("web", "12500m")]
