"""Quotas of zones: what a namespace may take in one zone, whichever client binds its pods."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.server.quota.zone_quota import ZoneUse, find_refusal, moved, parse_hard, use_in, zone_key
from mainstay.store import open_memory
from tests.server.placement.reservation_cases import a_node, needing, to
from tests.server.quota import zone_quota_cases
from tests.server.quota.zone_quota_cases import DELAYS, LOSSES, ZONE_QUOTAS, Broken, a_zone_quota, require_exact
from tests.server.world import PODS, a_server
from tests.twins.quotas import ZONE_TWINS, Twin

pytestmark = pytest.mark.slow

SEEDS = [*range(4), *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(4, 15))]
AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "pods"]), st.integers(1, 9), max_size=3)


def test_what_is_requested_is_limited_by_either_name_and_the_smaller_one_counts():
    quota = a_zone_quota("team", **{"cpu": "4", "requests.cpu": "3", "memory": "1Gi", "pods": "2"})

    assert parse_hard(quota) == {"cpu": 3000, "memory": 1024**3, "pods": 2}


def test_a_refusal_names_the_quota_the_zone_and_what_is_left():
    use = ZoneUse(quotas={"large": {"cpu": 9000}, "small": {"cpu": 2000}}, used={"cpu": 1500})

    refusal = find_refusal(use, "a", {"cpu": 1000, "pods": 1})

    assert refusal is not None
    assert refusal.cause == "QuotaExceeded"
    assert refusal.message == "zone quota small does not leave enough in zone a: cpu: requested 1, left 500m of 2"
    assert find_refusal(use, "a", {"cpu": 500}) is None
    assert find_refusal(use, "a", {"memory": 1}) is None


@given(st.lists(st.tuples(st.integers(0, 4), AMOUNTS), max_size=30))
def test_what_is_used_is_always_the_sum_of_those_who_are_there(steps):
    use = ZoneUse(quotas={"team": {}})
    there: dict[int, dict[str, int]] = {}
    for number, amounts in steps:
        use = moved(use, there.get(number, {}), amounts)
        there[number] = amounts

    total: dict[str, int] = {}
    for amounts in there.values():
        for resource, amount in amounts.items():
            total[resource] = total.get(resource, 0) + amount
    assert use.used == total


async def test_a_pod_is_refused_where_its_namespace_has_enough_and_goes_elsewhere(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await a_node(client, "n1", "a")
        await a_node(client, "n2", "a")
        await a_node(client, "n3", "b")
        await a_node(client, "n4")
        await client.create(ZONE_QUOTAS, a_zone_quota("team", cpu="1"))
        for number in range(4):
            await client.create(PODS, needing(f"p-{number}"))

        assert (await client.ask("POST", f"{PODS}/p-0/binding", to("n1"))).status == 201
        refused = await client.ask("POST", f"{PODS}/p-1/binding", to("n2"))
        assert (refused.status, refused.body["details"]["causes"][0]["reason"]) == (409, "QuotaExceeded")
        assert (await client.ask("POST", f"{PODS}/p-1/binding", to("n3"))).status == 201
        assert (await client.ask("POST", f"{PODS}/p-2/binding", to("n4"))).status == 201

        await client.patch(f"{PODS}/p-0/status", {"status": {"phase": "Succeeded"}})
        assert (await client.ask("POST", f"{PODS}/p-3/binding", to("n2"))).status == 201
        await require_exact(store)


async def test_all_quotas_of_a_zone_must_allow(sim):
    async with a_server(sim) as client:
        await a_node(client, "n1", "a")
        await client.create(ZONE_QUOTAS, a_zone_quota("large", pods="5"))
        await client.create(ZONE_QUOTAS, a_zone_quota("small", pods="0"))
        await client.create(PODS, needing("p"))

        assert "zone quota small" in (await client.ask("POST", f"{PODS}/p/binding", to("n1"))).body["message"]
        await client.delete(f"{ZONE_QUOTAS}/small")
        assert (await client.ask("POST", f"{PODS}/p/binding", to("n1"))).status == 201


async def test_a_pod_that_is_made_on_a_node_counts_and_is_not_checked(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await a_node(client, "n1", "a")
        await client.create(ZONE_QUOTAS, a_zone_quota("team", pods="1"))
        for number in range(2):
            pod = needing(f"p-{number}")
            pod["spec"]["nodeName"] = "n1"
            await client.create(PODS, pod)

        assert use_in(await store.get(zone_key("default", "a"))).used == {"cpu": 2000, "pods": 2}
        await client.create(PODS, needing("more"))
        assert (await client.ask("POST", f"{PODS}/more/binding", to("n1"))).status == 409


async def test_a_quota_that_comes_later_counts_what_is_there_and_says_so(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await a_node(client, "n1", "a")
        for number in range(3):
            await client.create(PODS, needing(f"p-{number}", cpu="500m"))
            await client.ask("POST", f"{PODS}/p-{number}/binding", to("n1"))
        await client.create(ZONE_QUOTAS, a_zone_quota("team", **{"requests.cpu": "4", "pods": "3"}))
        await client.create(PODS, needing("more"))

        assert (await client.ask("POST", f"{PODS}/more/binding", to("n1"))).status == 409
        await asyncio.sleep(1)
        assert (await client.get(f"{ZONE_QUOTAS}/team"))["status"] == {
            "hard": {"requests.cpu": "4", "pods": "3"},
            "used": {"requests.cpu": "1500m", "pods": "3"},
        }
        await client.patch(f"{ZONE_QUOTAS}/team", {"spec": {"hard": {"pods": "4"}}})
        assert (await client.ask("POST", f"{PODS}/more/binding", to("n1"))).status == 201
        await require_exact(store)


async def test_without_quotas_nothing_is_kept(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await a_node(client, "n1", "a")
        await client.create(PODS, needing("p"))
        await client.ask("POST", f"{PODS}/p/binding", to("n1"))
        await client.create(ZONE_QUOTAS, a_zone_quota("team", pods="9"))
        await client.delete(f"{ZONE_QUOTAS}/team")

        assert (await store.range("~zone-quota/")).entries == []


async def test_a_pod_counts_in_the_zone_its_node_had_until_it_goes(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await a_node(client, "n1", "a")
        await client.create(ZONE_QUOTAS, a_zone_quota("team", pods="9"))
        await client.create(ZONE_QUOTAS, a_zone_quota("there", "b", pods="9"))
        for name in ("old", "new"):
            await client.create(PODS, needing(name))
        await client.ask("POST", f"{PODS}/old/binding", to("n1"))
        await client.patch("/api/v1/nodes/n1", {"metadata": {"labels": {"topology.kubernetes.io/zone": "b"}}})
        await client.ask("POST", f"{PODS}/new/binding", to("n1"))

        used = [use_in(await store.get(zone_key("default", zone))).used.get("pods") for zone in "ab"]
        assert used == [1, 1]
        await client.patch(f"{PODS}/old/status", {"status": {"phase": "Failed"}})
        used = [use_in(await store.get(zone_key("default", zone))).used.get("pods", 0) for zone in "ab"]
        assert used == [0, 1]


@pytest.mark.parametrize("case", [zone_quota_cases.fill, zone_quota_cases.race])
@pytest.mark.parametrize("seed", SEEDS)
def test_two_servers_never_overshoot_and_never_miscount(case, seed):
    for faults in (None, DELAYS, LOSSES):
        zone_quota_cases.run(case, seed, faults)


@pytest.mark.parametrize("twin", ZONE_TWINS, ids=lambda twin: twin.__name__)
def test_a_planted_bug_is_found(twin: Twin, monkeypatch: pytest.MonkeyPatch):
    twin(monkeypatch)
    for seed in range(30):
        for case in (zone_quota_cases.fill, zone_quota_cases.race):
            try:
                zone_quota_cases.run(case, seed, DELAYS)
            except Broken:
                return
    pytest.fail("the planted bug was not found")
