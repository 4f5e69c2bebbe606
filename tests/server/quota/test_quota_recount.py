"""Quotas whose usage is wrong are recounted, and no concurrent change is lost."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.env import Chance
from mainstay.server.quota.recount import find_quota_drift, recount_quotas
from mainstay.server.quota.tally import tally_in
from mainstay.server.quota.zone_quota import use_in
from mainstay.server.storage.shared_writes import SharedWrites
from mainstay.sim.simulation import Simulation
from mainstay.store import open_memory
from mainstay.store.etcd import EtcdStore
from tests.server.placement.reservation_cases import needing
from tests.server.quota import quota_cases, quota_recount_cases
from tests.server.quota.quota_cases import DELAYS, LOSSES, QUOTAS, Broken
from tests.server.quota.quota_recount_cases import RECOUNT, SPOILS, TALLY, ZONE, begin, spoil, wrongs
from tests.server.quota.zone_quota_cases import ZONE_QUOTAS
from tests.server.world import PODS, a_server
from tests.store.fake_etcd import FakeEtcd
from tests.twins.quotas import RECOUNT_TWINS, Twin

pytestmark = pytest.mark.slow

SEEDS = [*range(4), *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(4, 12))]


def said(**more: object) -> dict[str, object]:
    nothing = {"wasWrong": False, "isRight": True, "quotas": [], "leftOver": [], "zones": []}
    kind = {"kind": "NamespaceRecount", "apiVersion": "mainstay.dev/v1", "metadata": {"name": "default"}}
    return {**kind, **nothing, **more}


async def test_what_is_right_is_not_written(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await begin(client, 4)
        await asyncio.sleep(5)
        before = await store.revision()

        assert (await client.ask("POST", RECOUNT, {})).body == said()
        assert await store.revision() == before


@pytest.mark.parametrize(
    ("how", "found"),
    [
        ("too much", {"quotas": ["team"]}),
        ("too little", {"quotas": ["team"]}),
        ("one is missing", {"quotas": ["team"]}),
        ("one is left over", {"leftOver": ["gone"]}),
        ("another limit", {"quotas": ["team"]}),
        ("all is lost", {"quotas": ["other", "team"]}),
    ],
)
async def test_what_is_wrong_is_counted_from_what_is_there_and_its_status_goes_along(sim, how, found):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await begin(client, 5)
        await asyncio.sleep(5)
        tally, use = tally_in(await store.get(TALLY)), use_in(await store.get(ZONE))
        await spoil(store, how, how)

        assert (await client.ask("POST", RECOUNT, {})).body == said(wasWrong=True, zones=["a"], **found)

        right = tally_in(await store.get(TALLY))
        assert (right.quotas, right.counting) == (tally.quotas, {})
        assert use_in(await store.get(ZONE)) == use
        await asyncio.sleep(5)
        assert (await client.get(f"{QUOTAS}/team"))["status"]["used"] == {"pods": "5", "count/pods": "5"}
        assert (await client.get(f"{ZONE_QUOTAS}/second"))["status"]["used"] == {"pods": "2"}
        assert (await client.ask("POST", RECOUNT, {})).body == said()


async def test_a_quota_that_is_gone_holds_up_no_write(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await begin(client, 1)
        await spoil(store, "one is left over", "one is left over")
        for path in (f"{QUOTAS}/team", f"{QUOTAS}/other", f"{ZONE_QUOTAS}/first", f"{ZONE_QUOTAS}/second"):
            await client.delete(path)

        assert (await client.ask("POST", RECOUNT, {})).body == said(wasWrong=True, leftOver=["gone"], zones=["a"])
        assert [await store.get(key) for key in (TALLY, ZONE)] == [None, None]


async def test_one_that_counts_for_the_first_time_is_not_disturbed(sim):
    """It has said so, and the quota is not there yet."""
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        for number in range(30):
            await client.create(PODS, needing(f"p-{number}"))
        makes = client.ask("POST", QUOTAS, quota_cases.a_quota("team", pods="90"))
        made, *answers = await asyncio.gather(makes, *(client.ask("POST", RECOUNT, {}) for _ in range(20)))

        assert made.status == 201
        assert [answer.body for answer in answers] == [said()] * 20
        assert (await find_quota_drift(store, "default")).is_none


async def test_a_namespace_that_is_not_there_has_nothing_to_count(sim):
    async with a_server(sim) as client:
        answer = await client.ask("POST", "/api/v1/namespaces/other/recount", {})

        assert answer.body == said(metadata={"name": "other"})


@given(
    st.lists(st.tuples(st.sampled_from(["make", "end", "remove"]), st.integers(0, 4)), max_size=8),
    st.sampled_from(SPOILS),
    st.sampled_from(SPOILS),
    st.booleans(),
)
def test_whatever_has_happened_a_recount_finds_what_is_there(steps, how, how_zone, is_etcd):
    async def main(sim: Simulation) -> None:
        store = EtcdStore(FakeEtcd(sim.choices).client(), chance=Chance(b"1")) if is_etcd else await open_memory()
        async with a_server(sim, store=store) as client:
            await begin(client, 3)
            await spoil(store, how, how_zone)
            for what, number in steps:
                path = f"{PODS}/p-{number}"
                match what:
                    case "make":
                        await client.ask("POST", PODS, {**needing(f"p-{number}")})
                    case "end":
                        body = {"status": {"phase": "Failed"}}
                        await client.ask("PATCH", f"{path}/status", body, "application/merge-patch+json")
                    case _:
                        await client.ask("DELETE", path, {"gracePeriodSeconds": 0})
            assert await recount_quotas(store, SharedWrites(store), "default")
            assert await wrongs(store, await store.revision()) == set()

    with Simulation(1) as sim:
        sim.run(main(sim), quota_cases.LIMIT)


@pytest.mark.parametrize("seed", SEEDS)
def test_two_servers_count_while_others_write_and_nothing_is_lost(seed):
    for faults in (None, DELAYS, LOSSES):
        quota_cases.run(quota_recount_cases.race, seed, faults)


@pytest.mark.parametrize("twin", RECOUNT_TWINS, ids=lambda twin: twin.__name__)
def test_a_planted_bug_is_found(twin: Twin, monkeypatch: pytest.MonkeyPatch):
    twin(monkeypatch)
    for seed in range(40):
        try:
            quota_cases.run(quota_recount_cases.race, seed, DELAYS)
        except Broken:
            return
    pytest.fail("the planted bug was not found")
