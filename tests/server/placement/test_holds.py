"""Holds at the server: they end in time, and evictions that are frozen are not committed."""

import asyncio

import pytest

from tests.server.placement import hold_cases
from tests.server.placement.eviction_cases import BUDGETS, a_budget, a_running_pod, evict
from tests.server.placement.hold_cases import HOLDS, LOSSES, Broken, a_hold
from tests.server.world import PODS, a_server
from tests.twins.holds import SERVER_TWINS, Twin

SEEDS = range(10)
# The clock of a simulation begins with the year.
IN_AN_HOUR, IN_A_WEEK = "2026-01-01T01:00:00Z", "2026-01-08T00:00:00Z"
MESSAGE = f"evictions are frozen by Hold freeze: anna holds it until {IN_AN_HOUR}: a flapping switch"


@pytest.mark.parametrize("until", [IN_AN_HOUR, IN_A_WEEK])
async def test_a_hold_lasts_for_up_to_a_week(sim, until):
    async with a_server(sim) as client:
        made = await client.create(HOLDS, a_hold(until=until))

    assert made["spec"]["expiresAt"] == until


@pytest.mark.parametrize(
    ("until", "problem"),
    [
        ("2025-12-31T23:59:59Z", "must be in the future: it is 2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00Z", "must be in the future: it is 2026-01-01T00:00:00Z"),
        ("2026-01-08T00:02:00Z", "a Hold lasts at most 7 days, until 2026-01-08T00:00:00Z"),
        ("2036-01-01T00:00:00Z", "a Hold lasts at most 7 days"),
    ],
)
async def test_one_that_is_over_or_would_last_too_long_is_refused(sim, until, problem):
    async with a_server(sim) as client:
        answer = await client.ask("POST", HOLDS, a_hold(until=until))
        dry = await client.ask("POST", f"{HOLDS}?dryRun=All", a_hold(until=until))

    assert (answer.status, dry.status) == (422, 422)
    (cause,) = answer.body["details"]["causes"]
    assert cause["field"] == "spec.expiresAt"
    assert problem in cause["message"]


@pytest.mark.slow
async def test_it_can_be_made_longer_by_a_week_from_now_and_never_more(sim):
    async with a_server(sim) as client:
        await client.create(HOLDS, a_hold(until=IN_A_WEEK))
        await asyncio.sleep(3 * 24 * 3600)

        longer = await client.patch(f"{HOLDS}/freeze", {"spec": {"expiresAt": "2026-01-11T00:00:00Z"}})
        body = {"spec": {"expiresAt": "2026-01-12T00:00:00Z"}}
        answer = await client.ask("PATCH", f"{HOLDS}/freeze", body, "application/merge-patch+json")

    assert longer["spec"]["expiresAt"] == "2026-01-11T00:00:00Z"
    assert (answer.status, answer.body["details"]["causes"][0]["field"]) == (422, "spec.expiresAt")


async def test_what_else_it_says_may_change_when_it_is_over(sim):
    async with a_server(sim) as client:
        await client.create(HOLDS, a_hold(until=IN_AN_HOUR))
        await asyncio.sleep(2 * 3600)

        told = await client.patch(f"{HOLDS}/freeze/status", {"status": {"phase": "Expired"}})
        named = await client.patch(f"{HOLDS}/freeze", {"spec": {"reason": "it was the switch"}})

    assert told["status"] == {"phase": "Expired"}
    assert named["spec"]["reason"] == "it was the switch"


async def test_what_is_held_cannot_become_something_else(sim):
    async with a_server(sim) as client:
        await client.create(HOLDS, a_hold(until=IN_AN_HOUR))
        body = {"spec": {"target": {"namespace": "shop"}}}

        answer = await client.ask("PATCH", f"{HOLDS}/freeze", body, "application/merge-patch+json")

    assert (answer.status, answer.body["details"]["causes"][0]["field"]) == (422, "spec.target")


# Frozen evictions.


async def test_while_evictions_are_frozen_none_is_done_and_it_is_said_by_whom_why_and_until_when(sim):
    async with a_server(sim) as client:
        await a_running_pod(client, "p")
        await a_budget(client, allowed=2)
        await client.create(HOLDS, a_hold(until=IN_AN_HOUR))

        answer, dry = await evict(client, "p"), await evict(client, "p", "?dryRun=All")

        assert (answer.status, answer.body["reason"], dry.status) == (429, "TooManyRequests", 429)
        assert answer.body["message"] == f"Cannot evict pod: {MESSAGE}"
        assert answer.body["details"]["causes"] == [{"reason": "EvictionsFrozen", "message": MESSAGE}]
        assert "Retry-After" not in answer.headers
        assert "deletionTimestamp" not in (await client.get(f"{PODS}/p"))["metadata"]
        assert (await client.get(f"{BUDGETS}/web"))["status"]["disruptionsAllowed"] == 2


async def test_they_thaw_by_the_clock_alone(sim):
    async with a_server(sim) as client:
        await a_running_pod(client, "p")
        await client.create(HOLDS, a_hold(until=IN_AN_HOUR))
        await asyncio.sleep(3590)
        assert (await evict(client, "p")).status == 429
        await asyncio.sleep(10)

        assert (await evict(client, "p")).status == 201


async def test_they_thaw_when_the_hold_is_removed_and_not_before_all_of_them_are(sim):
    async with a_server(sim) as client:
        await a_running_pod(client, "p")
        for name in ("one", "two"):
            await client.create(HOLDS, a_hold(name, until=IN_AN_HOUR))
        await client.delete(f"{HOLDS}/one")
        assert (await evict(client, "p")).status == 429
        await client.delete(f"{HOLDS}/two")

        assert (await evict(client, "p")).status == 201


async def test_one_that_waits_for_finalizers_holds_nothing(sim):
    async with a_server(sim) as client:
        await a_running_pod(client, "p")
        hold = a_hold(until=IN_AN_HOUR)
        hold["metadata"]["finalizers"] = ["example.com/wait"]
        await client.create(HOLDS, hold)
        assert (await evict(client, "p")).status == 429
        await client.ask("DELETE", f"{HOLDS}/freeze")

        assert (await evict(client, "p")).status == 201


async def test_a_freeze_can_be_for_one_namespace(sim):
    async with a_server(sim) as client:
        await a_running_pod(client, "p")
        await client.create(HOLDS, a_hold("other", until=IN_AN_HOUR, target={"namespace": "kube-system"}))
        assert (await evict(client, "p", "?dryRun=All")).status == 201
        await client.create(HOLDS, a_hold("ours", until=IN_AN_HOUR, target={"namespace": "default"}))

        answer = await evict(client, "p")

    assert answer.status == 429
    assert "evictions in namespace default are frozen by Hold ours" in answer.body["message"]


async def test_other_holds_freeze_nothing_and_who_deletes_a_pod_is_not_asked(sim):
    async with a_server(sim) as client:
        await a_running_pod(client, "p")
        await a_running_pod(client, "q")
        await client.create(HOLDS, a_hold("c", until=IN_AN_HOUR, what="Controller", target={"name": "job"}))
        assert (await evict(client, "p")).status == 201
        await client.create(HOLDS, a_hold(until=IN_AN_HOUR))

        await client.delete(f"{PODS}/q")


@pytest.mark.parametrize("seed", SEEDS)
def test_once_it_is_frozen_no_eviction_is_committed_on_any_server(seed):
    hold_cases.run(seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_nor_when_answers_are_lost(seed):
    hold_cases.run(seed, LOSSES)


@pytest.mark.parametrize("twin", SERVER_TWINS, ids=lambda twin: twin.__name__)
def test_a_server_with_a_bug_is_found_out(twin: Twin, monkeypatch: pytest.MonkeyPatch):
    twin(monkeypatch)

    with pytest.raises(Broken):
        for seed in SEEDS:
            hold_cases.run(seed)
            hold_cases.run(seed, LOSSES)
