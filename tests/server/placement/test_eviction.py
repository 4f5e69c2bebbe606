"""Evictions: a budget pays for each in the transaction that deletes the pod, or the pod stays."""

import asyncio

import pytest

from tests.server.placement import eviction_cases
from tests.server.placement.eviction_cases import BUDGETS, LOSSES, Broken, a_budget, a_running_pod, evict
from tests.server.world import PODS, a_pod, a_server
from tests.twins.quotas import EVICTION_TWINS, Twin

SEEDS = range(15)


async def test_the_budget_pays_in_the_transaction_that_deletes_the_pod(sim):
    async with a_server(sim) as client:
        await a_running_pod(client, "p")
        await a_budget(client, allowed=2)

        assert (await evict(client, "p")).status == 201

        pod, budget = await client.get(f"{PODS}/p"), await client.get(f"{BUDGETS}/web")
        assert "deletionTimestamp" in pod["metadata"]
        assert pod["metadata"]["resourceVersion"] == budget["metadata"]["resourceVersion"]
        assert budget["status"]["disruptionsAllowed"] == 1
        assert list(budget["status"]["disruptedPods"]) == ["p"]


async def test_a_budget_that_has_nothing_left_refuses_and_the_pod_stays(sim):
    async with a_server(sim) as client:
        await a_running_pod(client, "p")
        await a_budget(client, allowed=0, healthy=2)

        answer = await evict(client, "p")

        assert (answer.status, answer.body["reason"]) == (429, "TooManyRequests")
        assert answer.body["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
        assert answer.body["details"]["causes"] == [
            {
                "reason": "DisruptionBudget",
                "message": "The disruption budget web needs 2 healthy pods and has 2 currently",
            }
        ]
        assert "deletionTimestamp" not in (await client.get(f"{PODS}/p"))["metadata"]


async def test_a_budget_that_was_changed_and_not_yet_looked_at_refuses_for_a_moment(sim):
    async with a_server(sim) as client:
        await a_running_pod(client, "p")
        await a_budget(client, allowed=1)
        await client.patch(f"{BUDGETS}/web", {"spec": {"minAvailable": 3}})

        answer = await evict(client, "p")

        text = "The disruption budget web is still being processed by the server."
        assert answer.status == 429
        assert answer.body["details"] == {
            "causes": [{"reason": "DisruptionBudget", "message": text}],
            "retryAfterSeconds": 10,
        }
        # By the header kubectl would try again by itself for minutes, without a word of why.
        assert "Retry-After" not in answer.headers


@pytest.mark.parametrize(
    ("policy", "healthy", "status"),
    [(None, 2, 201), (None, 1, 429), ("IfHealthyBudget", 1, 429), ("AlwaysAllow", 1, 201)],
)
async def test_a_pod_that_is_not_ready_goes_unpaid_if_enough_others_are(sim, policy, healthy, status):
    async with a_server(sim) as client:
        await a_running_pod(client, "p", ready="False")
        more = {"unhealthyPodEvictionPolicy": policy} if policy else {}
        await a_budget(client, allowed=0, healthy=healthy, **more)

        assert (await evict(client, "p")).status == status
        assert "disruptedPods" not in (await client.get(f"{BUDGETS}/web"))["status"]


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
async def test_a_pod_that_does_not_run_costs_no_budget(sim, phase):
    async with a_server(sim) as client:
        await a_running_pod(client, "p", phase=phase)
        await a_budget(client, allowed=0)

        assert (await evict(client, "p")).status == 201


async def test_a_pod_goes_only_once(sim):
    async with a_server(sim) as client:
        await a_running_pod(client, "p")
        await a_budget(client, allowed=2)

        assert [(await evict(client, "p")).status for _ in range(3)] == [201] * 3
        assert (await client.get(f"{BUDGETS}/web"))["status"]["disruptionsAllowed"] == 1


async def test_a_pod_of_two_budgets_cannot_be_evicted(sim):
    async with a_server(sim) as client:
        await a_running_pod(client, "p")
        await a_budget(client, "web", allowed=1)
        await a_budget(client, "too", allowed=1)

        assert (await evict(client, "p")).status == 500


async def test_a_pod_without_a_budget_just_goes_and_one_that_is_not_there_is_not_found(sim):
    async with a_server(sim) as client:
        await a_running_pod(client, "p")

        assert (await evict(client, "p")).status == 201
        assert (await evict(client, "other")).status == 404


async def test_a_dry_run_is_refused_too_and_pays_nothing(sim):
    async with a_server(sim) as client:
        await a_running_pod(client, "p")
        await a_budget(client, allowed=1)

        assert (await evict(client, "p", "?dryRun=All")).status == 201
        assert (await client.get(f"{BUDGETS}/web"))["status"]["disruptionsAllowed"] == 1
        assert "deletionTimestamp" not in (await client.get(f"{PODS}/p"))["metadata"]

        await client.patch(f"{BUDGETS}/web/status", {"status": {"disruptionsAllowed": 0}})
        assert (await evict(client, "p", "?dryRun=All")).status == 429


async def test_who_names_the_pod_exactly_gets_the_conflict(sim):
    async with a_server(sim) as client:
        await a_running_pod(client, "p")
        await a_budget(client, allowed=1)

        assert (await evict(client, "p", preconditions={"resourceVersion": "1"})).status == 409
        assert (await evict(client, "p", preconditions={"uid": "another"})).status == 409
        assert (await client.get(f"{BUDGETS}/web"))["status"]["disruptionsAllowed"] == 1


@pytest.mark.parametrize(("policy", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")])
async def test_what_an_earlier_deletion_has_asked_for_still_holds(sim, policy, finalizer):
    async with a_server(sim) as client:
        await a_running_pod(client, "p")
        await a_budget(client, allowed=0)
        await client.delete(f"{PODS}/p", {"propagationPolicy": policy})

        assert (await evict(client, "p")).status == 201
        assert (await evict(client, "p", gracePeriodSeconds=1)).status == 201
        assert (await client.get(f"{PODS}/p"))["metadata"]["finalizers"] == [finalizer]


@pytest.mark.parametrize(
    ("policy", "finalizers"),
    [(None, None), ("Background", None), ("Foreground", ["foregroundDeletion"]), ("Orphan", ["orphan"])],
)
async def test_an_eviction_may_say_what_becomes_of_dependents_as_any_deletion_may(sim, policy, finalizers):
    async with a_server(sim) as client:
        await a_running_pod(client, "p")
        await a_budget(client, allowed=1)

        assert (await evict(client, "p", **({"propagationPolicy": policy} if policy else {}))).status == 201
        assert (await client.get(f"{PODS}/p"))["metadata"].get("finalizers") == finalizers


async def test_of_many_at_once_as_many_go_as_the_budget_allows(sim):
    async with a_server(sim) as client:
        for number in range(30):
            await a_running_pod(client, f"p-{number}")
        await a_budget(client, allowed=7)

        answers = await asyncio.gather(*(evict(client, f"p-{number}") for number in range(30)))

        assert sorted(answer.status for answer in answers) == [201] * 7 + [429] * 23


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_is_lost_those_who_go_are_those_who_are_paid_for(seed):
    eviction_cases.run(seed)
    eviction_cases.run(seed, LOSSES)


@pytest.mark.parametrize("twin", EVICTION_TWINS, ids=lambda twin: twin.__name__)
def test_a_planted_bug_is_found(twin: Twin, monkeypatch: pytest.MonkeyPatch):
    twin(monkeypatch)
    for seed in range(20):
        try:
            eviction_cases.run(seed, LOSSES)
        except Broken:
            return
    pytest.fail("the planted bug was not found")


async def test_an_eviction_that_names_another_pod_than_its_path_evicts_none(sim):
    async with a_server(sim) as client:
        for name in ("a", "b"):
            await client.create(PODS, a_pod(name))

        answer = await client.ask("POST", f"{PODS}/a/eviction", {"metadata": {"name": "b"}})

        assert (answer.status, answer.body["message"]) == (400, "name in URL does not match name in Eviction object")
        assert len((await client.get(PODS))["items"]) == 2
