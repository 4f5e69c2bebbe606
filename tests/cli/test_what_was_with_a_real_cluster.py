"""What was, on real processes: `timeline`, `debug`, `blame`, `diff`, `get --at`, by the server and by its files."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstay.cli.diff import DiffExit
from mainstay.cli.exits import Exit
from tests.cli.test_with_a_real_cluster import LIMIT_S, Cluster
from tests.processes import eventually

pytestmark = pytest.mark.slow

WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: main, image: "x:1", resources: {requests: {cpu: "1"}}}
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    directory = Path(tempfile.mkdtemp(prefix="mainstay-"))
    found = Cluster(directory)
    found("up", "--detach", "--port", "0", "--nodes", "2", "--runner", "pretend", "--capacity", "cpu=2,memory=4Gi")
    try:
        yield found
    finally:
        found.run("down")
        shutil.rmtree(directory, ignore_errors=True)


def ready(cluster: Cluster) -> str:
    return cluster.run("get", "deploy", "web", "-o", "jsonpath={.status.readyReplicas}").stdout


def test_what_happened_is_told_by_the_server_and_by_its_files_alike(cluster: Cluster):
    cluster("apply", "-f", "-", stdin=WEB.replace("REPLICAS", "2"))
    eventually(lambda: ready(cluster) == "2", LIMIT_S)
    first = json.loads(cluster("get", "deploy", "web", "-o", "json"))["metadata"]["resourceVersion"]
    cluster("apply", "-f", "-", stdin=WEB.replace("REPLICAS", "5"))
    eventually(lambda: "Unschedulable" in cluster.run("get", "pods", "-o", "json").stdout, LIMIT_S)
    eventually(lambda: ready(cluster) == "4", LIMIT_S)

    story = json.loads(cluster("timeline", "deploy/web", "-o", "json"))
    texts = [line["text"] for line in story["lines"]]
    assert "desired replicas 2 → 5" in texts
    [refused] = [line for line in story["lines"] if line["what"] == "refused"]
    assert refused["isGoingOn"]
    assert refused["details"][0].startswith("NodeResourcesFit rejects ")

    view = cluster.run("debug", "deploy/web")
    assert view.returncode == Exit.WAITING  # Room may come by itself.
    assert "4 / 5, 1 pending" in view.stdout
    assert "kubernetes-admin wrote:" in view.stdout

    assert "spec.replicas   5       2        kubernetes-admin" in cluster("blame", "deploy/web", "spec.replicas")
    assert "    replicaset: 5 writes to 5 objects" in cluster("coupling", "scheduler")

    assert cluster("get", "deploy", "web", "--at", first, "-o", "jsonpath={.spec.replicas}") == "2"
    assert len(cluster("get", "pods", "--at", first).splitlines()) == 3
    differs = cluster.run("diff", "--from", first, "deploy/web")
    assert differs.returncode == DiffExit.DIFFERS
    assert "    spec.replicas: 2 → 5  (kubernetes-admin @" in differs.stdout
    assert cluster.run("diff", "--from", first, "--to", first).returncode == DiffExit.SAME

    cluster.run("down")
    files = str(cluster.directory)
    assert (
        cluster("timeline", "deploy/web", "--generation", "2", "--journal", files)
        .splitlines()[1]
        .endswith(
            "deployment web: desired replicas 2 → 5  [1] @"
            + str(story["lines"][texts.index("desired replicas 2 → 5")]["revision"])
        )
    )
    assert cluster.run("debug", "deploy/web", "--journal", files).returncode == Exit.WAITING
    assert len(cluster("get", "pods", "--journal", files).splitlines()) == 6
