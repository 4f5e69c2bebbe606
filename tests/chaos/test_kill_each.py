"""Each component of a real cluster is killed in turn while workloads run and a client writes."""

import os
import signal
from collections.abc import Iterator

import pytest

from tests.chaos.cluster import Cluster, a_web_pod, an_exclusive_pod, processes_of
from tests.chaos.promises import CLIENT_LEAVES_SOCKETS, Writer, gaps, lost
from tests.requirements import needs

pytestmark = [pytest.mark.slow, needs("kubectl"), CLIENT_LEAVES_SOCKETS]

WEB = ("web-0", "web-1", "web-2")
ONLY = ("only-0", "only-1")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3) as cluster:
        cluster.apply(*(a_web_pod(name) for name in WEB), *(an_exclusive_pod(name, cluster) for name in ONLY))
        cluster.until_ready(*WEB, *ONLY)
        yield cluster
        assert cluster.violations() == ""


def starts(cluster: Cluster) -> dict[str, int]:
    return {name: len((cluster.shared / f"{name}.starts").read_text().splitlines()) for name in ONLY}


def restarts(cluster: Cluster) -> dict[str, int]:
    return {name: pod["status"]["containerStatuses"][0]["restartCount"] for name, pod in cluster.pods().items()}


def test_nothing_acknowledged_is_lost_and_nothing_runs_twice_whatever_is_killed(cluster: Cluster):
    writer = Writer(cluster.kubeconfig)
    writer.start()
    before, started = restarts(cluster), starts(cluster)
    try:
        for component in sorted(cluster.components()):
            was = cluster.kill(component)
            cluster.until_restarted(component, was)
        cluster.until_ready(*WEB, *ONLY)
    finally:
        writer.stop()
    listed = cluster.kubectl("get", "configmaps", "-o", "name").split()
    assert lost(writer, {name.removeprefix("configmap/") for name in listed}) == []
    assert len(writer.acknowledged) > 20
    # The workloads have lived through it: adopted, and not started again.
    assert restarts(cluster) == before
    assert starts(cluster) == started
    cluster.until(lambda: len(cluster.ready_nodes()) == 3)


def test_the_next_up_adopts_what_a_killed_supervisor_leaves(cluster: Cluster):
    before = cluster.components()
    cluster.kill_supervisor()
    cluster.until(lambda: cluster.status()["supervisor"]["pid"] is None)
    assert cluster.components() == before
    cluster.up()
    assert cluster.components() == before
    was = cluster.kill("scheduler")
    cluster.until_restarted("scheduler", was)


def test_a_killed_container_is_started_again_and_its_log_has_no_gap(cluster: Cluster):
    pod = cluster.pods()["only-0"]
    count = pod["status"]["containerStatuses"][0]["restartCount"]
    (victim,) = processes_of("exclusive.py", "only-0")
    os.kill(victim, signal.SIGKILL)
    cluster.until(lambda: restarts(cluster)["only-0"] == count + 1)
    cluster.until_ready("only-0")
    lines = cluster.kubectl("logs", "only-0", "--previous").splitlines()
    assert len(lines) > 10
    assert gaps(lines, "only-0") == []


def test_a_deleted_pod_is_gone_with_its_process(cluster: Cluster):
    assert processes_of("exclusive.py", "only-1")
    cluster.kubectl("delete", "pod", "only-1", "--timeout=30s")
    assert processes_of("exclusive.py", "only-1") == []
    cluster.apply(an_exclusive_pod("only-1", cluster))
    cluster.until_ready("only-1")
