"""What quotas say is used: that is the server's own work, and follows whatever is written and restarted.

Should it be wrong all the same, repair asks the server to count again.
"""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from mainstay.api.kind_names import COMPONENT_STATES, NAMESPACES, NODES, PODS, RESOURCE_QUOTAS, ZONE_QUOTAS
from mainstay.api.object_key import ObjectKey
from mainstay.controllers.node_health.loop import LOOP as NODE_HEALTH
from mainstay.controllers.repair.decide import (
    RepairFault,
    RepairFinding,
    RepairMemory,
    RepairSnapshot,
    decide,
    summarize,
)
from mainstay.controllers.repair.loop import LOOP as REPAIR
from mainstay.env import tasks
from mainstay.loop.conditions import Condition, Truth
from mainstay.server.quota import recount
from mainstay.server.quota.tally import QuotaTally, tally_in, tally_key
from mainstay.server.quota.tally import build_write as tally_write
from mainstay.server.quota.zone_quota import ZoneUse, use_in, zone_key
from mainstay.server.quota.zone_quota import build_write as zone_write
from mainstay.sim.cluster.history import RequestReceived
from tests.controllers.node_health.nodes import START, WATCHER, Fleet, a_fleet
from tests.twins import repair as twins

pytestmark = pytest.mark.slow


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


async def test_usage_is_recounted_from_pods_that_were_there_before(sim):
    async with a_fleet(sim, loops=(NODE_HEALTH, REPAIR)) as fleet:
        await fleet.add_pod("web-1", "node-a")
        await fleet.add_pod("web-2", "node-b")
        await fleet.after(5)
        await a_quota(fleet)
        await fleet.after(5)
        assert await used(fleet) == ("2", "1")


async def test_pods_that_are_removed_by_repair_are_not_used_any_more(sim):
    async with a_fleet(sim, loops=(NODE_HEALTH, REPAIR)) as fleet:
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


async def test_a_changed_status_is_corrected_by_the_server_with_the_next_pod(sim):
    async with a_fleet(sim, loops=(NODE_HEALTH, REPAIR)) as fleet:
        await a_quota(fleet)
        wrong = {"status": {"used": {"pods": "9"}}}
        await fleet.client.patch(RESOURCE_QUOTAS, "all", "default", wrong, subresource="status")
        await fleet.add_pod("web-1", "node-a")
        await tasks.sleep(timedelta(seconds=5))
        assert await used(fleet) == ("1", "1")


async def spoil(fleet: Fleet) -> tuple[QuotaTally, ZoneUse]:
    """A hand in the store. Returns what was there."""
    store = fleet.world.store
    tally, use = tally_in(await store.get(tally_key("default"))), use_in(await store.get(zone_key("default", "a")))
    wrong = replace(tally, quotas={"all": replace(tally.quotas["all"], used={"pods": "10"})})
    writes = [
        tally_write(tally_key("default"), wrong),
        zone_write(zone_key("default", "a"), replace(use, used={"pods": 5})),
    ]
    await store.commit([], writes)
    return tally, use


async def a_spoiled_fleet(fleet: Fleet) -> None:
    await a_quota(fleet)
    await fleet.add_pod("web-1", "node-a")
    await fleet.add_pod("web-2", "node-b")
    await fleet.after(5)
    right = await spoil(fleet)
    await fleet.after(150)  # Each namespace has had its turn.
    store = fleet.world.store
    now = tally_in(await store.get(tally_key("default"))), use_in(await store.get(zone_key("default", "a")))
    assert (now[0].quotas, now[1]) == (right[0].quotas, right[1])
    assert await used(fleet) == ("2", "1")


async def test_what_is_counted_wrong_is_put_right_by_repair(sim):
    async with a_fleet(sim, loops=(NODE_HEALTH, REPAIR)) as fleet:
        await a_spoiled_fleet(fleet)
        (condition,) = (await fleet.client.get(COMPONENT_STATES, "repair"))["status"]["conditions"]
        assert (condition["status"], condition["reason"]) == ("True", "NothingLeft")


async def test_a_repair_that_trusts_the_quotas_is_found(sim, monkeypatch):
    twins.trusts_the_quotas(monkeypatch)
    async with a_fleet(sim, loops=(NODE_HEALTH, REPAIR)) as fleet:
        with pytest.raises(AssertionError):
            await a_spoiled_fleet(fleet)


async def test_one_namespace_is_counted_in_each_look_and_nothing_is_written_that_is_right(sim):
    async with a_fleet(sim, loops=(NODE_HEALTH, REPAIR)) as fleet:
        await a_quota(fleet)
        await fleet.add_pod("web-1", "node-a")
        await fleet.after(30)
        begun_ns, written = sim.loop.time_ns(), len(fleet.commits("core/resourcequotas/"))
        await fleet.after(300)
        asked = [
            each for each in fleet.world.history.events if isinstance(each, RequestReceived) and each.who == WATCHER
        ]
        counted = [each.path for each in asked if "namespaces" in each.path and each.path.endswith("/recount")]
        later = [each for each in asked if each.at_ns > begun_ns and each.path in counted]
        assert 25 <= len(later) <= 31
        assert "/api/v1/namespaces/default/recount" in counted
        assert len(fleet.commits("core/resourcequotas/")) == written
        assert len(fleet.commits("~quota/")) == len({each.value for each in fleet.commits("~quota/")})


async def test_quotas_that_cannot_be_put_right_are_told_of_until_they_are(sim, monkeypatch):
    async def busy(*_):
        return False

    async with a_fleet(sim, loops=(NODE_HEALTH, REPAIR)) as fleet:
        await a_quota(fleet)
        await fleet.add_pod("web-1", "node-a")
        await fleet.after(5)
        with monkeypatch.context() as patch:
            patch.setattr(recount, "_put_right", busy)
            await spoil(fleet)
            await fleet.after(150)
            (condition,) = (await fleet.client.get(COMPONENT_STATES, "repair"))["status"]["conditions"]
            assert (condition["status"], condition["reason"]) == ("False", "QuotaDrift")
        await fleet.after(30)
        (condition,) = (await fleet.client.get(COMPONENT_STATES, "repair"))["status"]["conditions"]
        assert (condition["status"], condition["reason"]) == ("True", "NothingLeft")
        assert await used(fleet) == ("1", "1")


def test_a_namespace_that_is_counted_wrong_is_a_finding():
    plan = decide(RepairSnapshot(START, miscounted=["default"]), RepairMemory())

    message = "the usage of its quotas does not equal the sum of its objects"
    finding = RepairFinding(RepairFault.QUOTA_DRIFT, NAMESPACES, ObjectKey("", "default"), "default", message)
    assert (plan.steps, plan.findings) == ((), (finding,))
    assert summarize(plan.findings) == Condition(
        "RepairComplete", Truth.FALSE, "QuotaDrift", f"Namespace default: {message}"
    )
