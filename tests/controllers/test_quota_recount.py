"""What quotas say is used: that is the server's own work, and follows whatever is written and whoever restarts."""

from datetime import timedelta

from mainstay.controllers.kinds import NODES, PODS, RESOURCE_QUOTAS, ZONE_QUOTAS
from mainstay.controllers.node_loop import LOOP as NODE_HEALTH
from mainstay.controllers.repair_loop import LOOP as REPAIR
from mainstay.env import tasks
from tests.controllers.nodes import Fleet, a_fleet


async def used(fleet: Fleet) -> tuple[str, str]:
    quota = await fleet.client.get(RESOURCE_QUOTAS, "all", "default")
    zone = await fleet.client.get(ZONE_QUOTAS, "zone-a", "default")
    return quota["status"]["used"]["pods"], (zone.get("status") or {}).get("used", {}).get("pods", "")


async def a_quota(fleet: Fleet) -> None:
    await fleet.client.create(
        RESOURCE_QUOTAS, {"metadata": {"name": "all", "namespace": "default"}, "spec": {"hard": {"pods": "10"}}}
    )
    spec = {"zone": "a", "hard": {"pods": "5"}}
    await fleet.client.create(ZONE_QUOTAS, {"metadata": {"name": "zone-a", "namespace": "default"}, "spec": spec})


async def test_what_is_used_is_counted_anew_from_pods_that_were_there_before(sim):
    async with a_fleet(sim, own_loops=(NODE_HEALTH, REPAIR)) as fleet:
        await fleet.add_pod("web-1", "node-a")
        await fleet.add_pod("web-2", "node-b")
        await fleet.after(5)
        await a_quota(fleet)
        await fleet.after(5)
        assert await used(fleet) == ("2", "1")


async def test_pods_that_are_removed_by_repair_are_not_used_any_more(sim):
    async with a_fleet(sim, own_loops=(NODE_HEALTH, REPAIR)) as fleet:
        await a_quota(fleet)
        await fleet.add_pod("web-1", "node-a")
        await fleet.add_pod("web-2", "node-b")
        await fleet.after(5)
        assert await used(fleet) == ("2", "1")
        await fleet.world.programs["node-a"].stop()
        await fleet.client.delete(NODES, "node-a")
        await fleet.after(120)
        assert [pod["metadata"]["name"] for pod in (await fleet.client.list(PODS, "default")).items] == ["web-2"]
        assert await used(fleet) == ("1", "0")


async def test_a_status_that_somebody_has_changed_is_put_right_by_the_server_with_the_next_pod(sim):
    async with a_fleet(sim, own_loops=(NODE_HEALTH, REPAIR)) as fleet:
        await a_quota(fleet)
        wrong = {"status": {"used": {"pods": "9"}}}
        await fleet.client.patch(RESOURCE_QUOTAS, "all", "default", wrong, subresource="status")
        await fleet.add_pod("web-1", "node-a")
        await tasks.sleep(timedelta(seconds=5))
        assert await used(fleet) == ("1", "1")
