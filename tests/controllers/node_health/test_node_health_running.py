"""Node health at work: nodes that are cut off, and come back, in virtual time."""

import json
from datetime import timedelta

import pytest

from mainstay.api.node_health import HEALTH
from tests.controllers.node_health.nodes import WATCHER, a_fleet

pytestmark = pytest.mark.slow


async def test_a_node_that_is_cut_off_is_suspected_then_unknown_then_released_and_comes_back(sim):
    async with a_fleet(sim) as fleet:
        await fleet.add_pod("web", "node-a")
        await fleet.after(5)
        assert await fleet.is_pod_ready("web") == "True"
        fleet.cut("node-a")
        await fleet.after(8)
        assert await fleet.taints("node-a") == ["suspect:NoSchedule"]
        assert await fleet.is_pod_ready("web") == "True"
        await fleet.after(5)
        assert (await fleet.taints("node-a"))[-1] == "unreachable:NoSchedule"
        assert await fleet.is_node_ready("node-a") == "Unknown"
        assert await fleet.is_pod_ready("web") == "Unknown"
        await fleet.after(10)
        assert await fleet.taints("node-a") == ["unreachable:NoExecute", "unreachable:NoSchedule"]
        record = json.loads((await fleet.node("node-a"))["metadata"]["annotations"][HEALTH])
        assert record["state"] == "Released"
        assert "deletionTimestamp" not in (await fleet.pod("web"))["metadata"]
        await fleet.after(20)
        assert "deletionTimestamp" in (await fleet.pod("web"))["metadata"]
        fleet.join("node-a")
        await fleet.after(30)
        assert await fleet.taints("node-a") == []
        assert await fleet.is_node_ready("node-a") == "True"
        assert HEALTH not in (await fleet.node("node-a"))["metadata"].get("annotations", {})
        assert fleet.commits("core/pods/default/web")[-1].value is None


async def test_a_node_that_comes_back_in_time_keeps_its_pods_and_they_are_ready_again(sim):
    async with a_fleet(sim) as fleet:
        made = await fleet.add_pod("web", "node-a")
        await fleet.after(5)
        fleet.cut("node-a")
        await fleet.after(15)
        assert await fleet.is_pod_ready("web") == "Unknown"
        fleet.join("node-a")
        await fleet.after(20)
        assert await fleet.taints("node-a") == []
        assert await fleet.is_node_ready("node-a") == "True"
        pod = await fleet.pod("web")
        assert pod["metadata"]["uid"] == made["metadata"]["uid"]
        assert await fleet.is_pod_ready("web") == "True"


async def test_when_all_nodes_are_cut_off_nothing_is_evicted_and_that_is_said(sim):
    async with a_fleet(sim) as fleet:
        for node in ("node-a", "node-b", "node-c"):
            await fleet.add_pod(f"web-{node}", node)
        await fleet.after(5)
        fleet.cut("node-a", "node-b", "node-c")
        await fleet.after(600)
        for node in ("node-a", "node-b", "node-c"):
            assert "unreachable:NoExecute" not in await fleet.taints(node)
            assert "deletionTimestamp" not in (await fleet.pod(f"web-{node}"))["metadata"]
            assert await fleet.is_pod_ready(f"web-{node}") == "True"
            record = json.loads((await fleet.node(node))["metadata"]["annotations"][HEALTH])
            assert record["held"] == "no node sends heartbeats, so this component is probably isolated itself"
        assert [json.loads(each.value or b"")["reason"] for each in fleet.commits("core/events/")] == [
            "EvictionStopped"
        ]
        fleet.join("node-a", "node-b", "node-c")
        await fleet.after(60)
        assert [await fleet.taints(node) for node in ("node-a", "node-b", "node-c")] == [[], [], []]
        assert [await fleet.is_node_ready(node) for node in ("node-a", "node-b", "node-c")] == ["True"] * 3


async def test_a_watcher_that_was_isolated_judges_no_node_when_it_is_back(sim):
    async with a_fleet(sim) as fleet:
        await fleet.add_pod("web", "node-a")
        await fleet.after(5)
        fleet.cut(WATCHER)
        await fleet.after(300)
        before = len(fleet.commits("core/nodes/"))
        fleet.join(WATCHER)
        await fleet.after(120)
        assert len(fleet.commits("core/nodes/")) == before
        assert await fleet.is_pod_ready("web") == "True"


async def test_wall_clocks_that_jump_change_nothing(sim):
    async with a_fleet(sim) as fleet:
        await fleet.add_pod("web", "node-a")
        await fleet.after(5)
        before = len(fleet.commits("core/nodes/"))
        for name in ("node-a", WATCHER, "server-0"):
            fleet.world.sim.get_clock(name).jump(timedelta(days=3))
            await fleet.after(30)
            fleet.world.sim.get_clock(name).jump(timedelta(days=-6))
            await fleet.after(30)
        assert len(fleet.commits("core/nodes/")) == before
        assert await fleet.is_pod_ready("web") == "True"


async def test_an_at_most_one_pod_that_should_go_is_removed_only_with_the_lease_of_its_node(sim):
    async with a_fleet(sim) as fleet:
        await fleet.add_pod("db-0", "node-a", annotations={"mainstay.dev/at-most-one": "true"})
        await fleet.after(5)
        fleet.cut("node-a")
        await fleet.after(60)
        assert fleet.commits("core/pods/default/db-0")[-1].value is None
        holders = [
            json.loads(each.value)["spec"]["holderIdentity"]
            for each in fleet.commits("coordination.k8s.io/leases/kube-node-lease/node-a")
            if each.value is not None
        ]
        assert holders[-2:] == ["mainstay-node-health", ""]
        fleet.join("node-a")
        await fleet.after(30)
        assert (await fleet.lease("node-a"))["spec"]["holderIdentity"] == "node-a"
        assert await fleet.taints("node-a") == []
