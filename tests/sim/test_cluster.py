"""A whole simulated cluster runs what it is asked to, and its journal has all that was decided."""

from datetime import timedelta

import pytest

from mainstay.api.kind_names import DEPLOYMENTS, PODS, RESOURCE_QUOTAS
from mainstay.env import tasks
from mainstay.explain.moment import Moment
from mainstay.scenarios._workloads import a_workload
from mainstay.sim.cluster.cluster import NodeOptions, whole_cluster
from mainstay.sim.simulation import Simulation

pytestmark = pytest.mark.slow


async def test_a_deployment_runs_and_its_journal_has_the_decisions_of_all_components(sim: Simulation):
    nodes = {"node-a": NodeOptions(zone="a"), "node-b": NodeOptions(zone="b")}
    async with whole_cluster(sim, nodes=nodes) as cluster:
        await cluster.client.create(DEPLOYMENTS, a_workload("web", 3))
        await tasks.sleep(timedelta(seconds=30))

        now = await Moment.now(cluster.journal)
        pods = await now.all(PODS)
        assert [pod["status"]["phase"] for pod in pods] == ["Running"] * 3
        components = {record.component for record in cluster.journal.records()}
        assert {"scheduler-1", "deployment", "replicaset"} <= components
        pod = pods[0]["metadata"]
        decided = await cluster.journal.decisions(kind="pods", namespace="default", name=pod["name"])
        placed = [record.id for record in decided.records if record.component == "scheduler-1"]
        written = await cluster.journal.changes(kind="pods", namespace="default", name=pod["name"])
        assert len(placed) == 1
        assert placed[0] in [change.decision for change in written.records]


async def test_a_set_whose_pods_a_quota_refuses_comes_to_rest_and_goes_on_when_the_quota_is_gone(sim: Simulation):
    """Two controllers look after one set: neither may undo what the other says, or wake it by saying it again."""
    wants_requests = {"metadata": {"name": "tight", "namespace": "default"}, "spec": {"hard": {"requests.cpu": "1"}}}
    async with whole_cluster(sim, nodes={"node-a": NodeOptions()}) as cluster:
        await cluster.client.create(RESOURCE_QUOTAS, wants_requests)
        await cluster.client.create(DEPLOYMENTS, a_workload("web", 2))
        await tasks.sleep(timedelta(minutes=2))

        written = await cluster.journal.changes(kind="replicasets.apps")
        assert len(written.records) < 10, [each.decision for each in written.records]

        await cluster.client.delete(RESOURCE_QUOTAS, "tight", "default")
        await tasks.sleep(timedelta(minutes=6))
        pods = await (await Moment.now(cluster.journal)).all(PODS)
        assert [pod["status"]["phase"] for pod in pods] == ["Running"] * 2
