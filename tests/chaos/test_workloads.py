"""What users do with workloads, and what happens to their nodes, on a real cluster under load: no request may fail.

All of it is seen from outside: with kubectl, and by a client that goes by the EndpointSlices and counts what fails.
"""

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator

import pytest

from mainstay.loop.component import CONTROLLERS_LEASE
from tests.chaos.cluster import Cluster, CommandFailed
from tests.chaos.load import Load
from tests.chaos.workloads import a_budget, a_service, a_web_deployment, an_exclusive_deployment
from tests.requirements import needs

pytestmark = [pytest.mark.slow, needs("kubectl")]

WEB, ONLY = "web", "only"
REPLICAS = 6


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    # A lease of 40 s would be waited for here.
    with Cluster(nodes=6, options=("--lease-duration=4s", "--controllers-count=2")) as cluster:
        cluster.apply(
            a_web_deployment(WEB, "v1"), a_service(WEB), a_budget(WEB, 5), an_exclusive_deployment(ONLY, cluster)
        )
        cluster.until_rolled_out(WEB)
        cluster.until_rolled_out(ONLY)
        yield cluster
        assert cluster.violations() == ""


@pytest.fixture
def load(cluster: Cluster) -> Iterator[Load]:
    """Nothing may fail while it is on."""
    cluster.until(lambda: len(ready(cluster)) == REPLICAS)
    with Load(cluster.kubeconfig, WEB) as load:
        yield load
    sys.stdout.write(load.said() + "\n")  # `pytest -rP` shows it.
    assert load.failures == []
    assert load.served > 50


def ready(cluster: Cluster) -> set[str]:
    """The web pods that are ready and there to stay."""
    leaving = {name for name, pod in cluster.pods(WEB).items() if pod["metadata"].get("deletionTimestamp")}
    return (cluster.ready_pods() & cluster.pods(WEB).keys()) - leaving


def uids(cluster: Cluster) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in cluster.pods(WEB).items()}


def nodes_of(cluster: Cluster, app: str) -> Counter[str]:
    return Counter([pod["spec"]["nodeName"] for pod in cluster.pods(app).values()])


def zone(node: str) -> str:
    return node[: len("node-a")]


@pytest.mark.deep
def test_a_new_version_comes_and_goes_without_a_failed_request(cluster: Cluster, load: Load):
    before = uids(cluster).values()

    cluster.apply(a_web_deployment(WEB, "v2"))
    cluster.until_rolled_out(WEB)
    at_v2 = load.by_answer["v2"]
    cluster.until(lambda: load.by_answer["v2"] > at_v2 + 20)
    assert not {*before} & {uids(cluster)[name] for name in ready(cluster)}

    cluster.kubectl("rollout", "undo", f"deployment/{WEB}")
    cluster.until_rolled_out(WEB)
    cluster.until(lambda: len(ready(cluster)) == REPLICAS == len(cluster.pods(WEB)))
    v2 = load.by_answer["v2"]
    served = load.served
    cluster.until(lambda: load.served > served + 20)

    assert load.by_answer["v2"] == v2
    assert load.by_answer.keys() == {"v1", "v2"}
    assert load.fewest is not None
    assert load.fewest >= REPLICAS  # maxUnavailable is 0.
    history = cluster.kubectl("rollout", "history", f"deployment/{WEB}").split()
    assert [word for word in history if word.isdigit()] == ["2", "3"]
    assert cluster.events_about("Deployment", WEB)[0] == "ScalingReplicaSet"


@pytest.mark.deep
def test_a_version_that_does_not_work_stops_by_itself_and_is_undone(cluster: Cluster, load: Load):
    cluster.apply(a_web_deployment(WEB, "bad", is_broken=True, deadline_s=3))
    with pytest.raises(CommandFailed, match="exceeded its progress deadline"):
        cluster.until_rolled_out(WEB)

    (said,) = [each for each in cluster.get("deployment", WEB)["status"]["conditions"] if each["type"] == "Progressing"]
    assert (said["status"], said["reason"]) == ("False", "ProgressDeadlineExceeded")
    assert len(ready(cluster)) == REPLICAS  # Of the old ones. It went no further than its surge.
    assert len(cluster.pods(WEB)) == REPLICAS + 2

    cluster.kubectl("rollout", "undo", f"deployment/{WEB}")
    cluster.until_rolled_out(WEB)
    assert load.by_answer.keys() == {"v1"}


def test_scaled_up_and_down_it_stays_in_every_zone(cluster: Cluster, load: Load):
    cluster.kubectl("scale", f"deployment/{WEB}", "--replicas=9")
    cluster.until_rolled_out(WEB)
    assert len(ready(cluster)) == 9

    cluster.kubectl("scale", f"deployment/{WEB}", "--replicas=3")
    cluster.until(lambda: len(cluster.pods(WEB)) == 3)
    assert {zone(node) for node in nodes_of(cluster, WEB)} == {"node-a", "node-b", "node-c"}

    cluster.kubectl("scale", f"deployment/{WEB}", f"--replicas={REPLICAS}")
    cluster.until_rolled_out(WEB)
    cluster.until(lambda: len(load.endpoints) == REPLICAS)


@pytest.mark.deep
def test_a_drained_node_is_empty_and_the_budget_was_kept(cluster: Cluster, load: Load):
    node = _busiest(cluster)

    # The budget lets one go at a time; kubectl asks again for the others.
    cluster.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=60s")
    assert nodes_of(cluster, WEB)[node] == 0
    cluster.until(lambda: len(ready(cluster)) == REPLICAS)
    cluster.kubectl("uncordon", node)

    assert load.fewest is not None
    assert load.fewest >= REPLICAS - 1


@pytest.mark.deep
def test_when_the_acting_controllers_are_paused_others_take_over_and_the_first_stay_deposed(
    cluster: Cluster, load: Load
):
    first = _leader(cluster)
    paused = cluster.components()[first]
    os.kill(paused, signal.SIGSTOP)
    try:
        cluster.until(lambda: _leader(cluster) not in ("", first), 30)
        second = _leader(cluster)
        name, *_ = sorted(ready(cluster))
        deleted = uids(cluster)[name]
        cluster.kubectl("delete", "pod", name, "--wait=false")
        cluster.until(lambda: len(ready(cluster)) == REPLICAS and deleted not in uids(cluster).values())
    finally:
        os.kill(paused, signal.SIGCONT)

    # The first believes for a moment that it still leads. What it would do is refused, and it finds out.
    before, log = uids(cluster), cluster.data_dir / "logs" / f"{first}.log"
    cluster.until(lambda: f"no longer leads kube-system/{CONTROLLERS_LEASE}" in log.read_text(errors="replace"))
    assert _leader(cluster) == second
    assert uids(cluster) == before
    assert cluster.components()[first] == paused


@pytest.mark.deep
def test_the_pods_of_a_lost_node_are_replaced_and_never_two_where_one_is_asked_for(cluster: Cluster, load: Load):
    (node,) = nodes_of(cluster, ONLY)
    agent = cluster.components()[node]
    # Frozen, so that the supervisor does not restart it: from outside that is a machine which is gone. Its pods go on
    # for now.
    os.kill(agent, signal.SIGSTOP)
    try:
        cluster.until(lambda: _health(cluster, node) == "Released")
        cluster.until(lambda: len(ready(cluster)) == REPLICAS and node not in _nodes_of_ready(cluster))
        cluster.until(lambda: list(nodes_of(cluster, ONLY)) not in ([], [node]))
        cluster.until_rolled_out(ONLY)
    finally:
        os.kill(agent, signal.SIGCONT)

    assert cluster.violations() == ""
    told = [each for each in cluster.events_about("Node", node) if each.startswith("Node")]
    assert told[:3] == ["NodeSuspect", "NodeNotReady", "NodeReleased"]
    # It comes back, and what was replaced meanwhile ends there.
    cluster.until(lambda: node in cluster.ready_nodes() and _health(cluster, node) == "")
    cluster.until(lambda: len(cluster.pods(WEB)) == REPLICAS)
    assert "NodeReady" in cluster.events_about("Node", node)


def test_a_deleted_namespace_takes_everything_with_it(cluster: Cluster):
    cluster.kubectl("create", "namespace", "team-a")
    cluster.apply(a_web_deployment(WEB, "v1", replicas=2, namespace="team-a"), a_service(WEB, "team-a"))
    cluster.kubectl("-n", "team-a", "rollout", "status", f"deployment/{WEB}", "--timeout=60s")
    ours = {pod["metadata"]["uid"] for pod in cluster.get("pods", "-n", "team-a")["items"]}

    cluster.kubectl("delete", "namespace", "team-a", "--timeout=60s")

    for kind in ("deployments", "replicasets", "pods", "services", "endpointslices", "serviceaccounts", "configmaps"):
        assert cluster.get(kind, "-n", "team-a")["items"] == []
    left = [path for path in (cluster.data_dir / "nodes").glob("*/pods/*") if path.name in ours]
    cluster.until(lambda: not any(path.exists() for path in left))
    # And others are left alone.
    assert len(ready(cluster)) == REPLICAS


def _busiest(cluster: Cluster) -> str:
    """With most of the web pods, and none of the others."""
    others = nodes_of(cluster, ONLY)
    counts = {node: count for node, count in nodes_of(cluster, WEB).items() if node not in others}
    return max(sorted(counts), key=lambda node: counts[node])


def _nodes_of_ready(cluster: Cluster) -> set[str]:
    names = ready(cluster)
    return {pod["spec"]["nodeName"] for name, pod in cluster.pods(WEB).items() if name in names}


def _leader(cluster: Cluster) -> str:
    lease = cluster.get("lease", CONTROLLERS_LEASE, "-n", "kube-system")
    return str(lease["spec"].get("holderIdentity") or "").partition("_")[0]


def _health(cluster: Cluster, node: str) -> str:
    annotations = cluster.get("node", node)["metadata"].get("annotations") or {}
    return str(json.loads(annotations.get("mainstay.dev/health", "{}")).get("state", ""))
