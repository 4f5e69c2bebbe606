"""Each controller acts as a user of its own, in a whole cluster."""

from datetime import timedelta

import pytest

from mainstay.api.kind_names import DEPLOYMENTS, NAMESPACES, REPLICASETS
from mainstay.env import tasks
from mainstay.explain.writers import component_in
from mainstay.scenarios._workloads import a_workload
from mainstay.sim.cluster.cluster import NodeOptions, whole_cluster
from mainstay.sim.run.forks import run_many
from mainstay.sim.run.lookup import find_patch, find_scenario
from mainstay.sim.simulation import Simulation


async def test_what_a_controller_writes_it_writes_as_its_own_user(sim: Simulation):
    async with whole_cluster(sim, nodes={"node-a": NodeOptions()}) as cluster:
        await cluster.client.create(NAMESPACES, {"metadata": {"name": "shop"}})
        await cluster.client.create(DEPLOYMENTS, a_workload("web", 1))
        await tasks.sleep(timedelta(seconds=20))
        await cluster.client.delete(DEPLOYMENTS, "web", "default")
        await cluster.client.delete(NAMESPACES, "shop")
        await tasks.sleep(timedelta(seconds=20))
        assert (await cluster.client.list(REPLICASETS)).items == []
        writes = (await cluster.journal.writes()).records

    users = {component_in(each.decision): each.user for each in writes if each.user.startswith("system:controller:")}
    assert {"deployment", "replicaset", "owner-cleanup", "namespace", "deployment-progress"} <= set(users)
    assert users == {component: f"system:controller:{component}" for component in users}
    own = {component_in(each.decision) for each in writes if each.user == "system:kube-controller-manager"}
    assert own <= {""}  # Leases, Events, and what the process says of itself.


@pytest.mark.parametrize("twin", ["controllers_act_as_their_process", "replicasets_may_not_create_pods"])
def test_a_controller_without_a_right_that_it_uses_is_found(twin: str):
    patch = find_patch(f"tests.twins.access:{twin}")
    [result] = run_many(find_scenario("held-rollout"), [1], patch=patch)

    assert result.problem.startswith("rights of components: "), result.problem
