"""What a server has read may have changed when it commits: each thing that a write was decided from is a condition of
its commit, at whichever key it is. One case for each such condition, and the bug that leaves it out."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from mainstay.env import tasks
from mainstay.server.auth.authorization import User
from mainstay.server.placement.ledger.charge import charge_key, decode_charge
from mainstay.server.placement.ledger.ledger import build_write, ledger_in, ledger_key, released
from mainstay.server.placement.ledger.recount import find_drift, recount
from mainstay.sim.simulation import Simulation
from mainstay.store.interface import DeleteEntry
from tests.server import world
from tests.server.late_store import LateStore, open_late
from tests.server.placement.reservation_cases import (
    NODES,
    RESERVATIONS,
    Broken,
    a_node,
    a_reservation,
    name_of,
    needing,
    require_exact,
    to,
)
from tests.server.world import CONFIGMAPS, PODS, Answer, Client, a_configmap, a_server
from tests.twins import transactions

NAMESPACES = "/api/v1/namespaces"
AGENT = {"Authorization": "Bearer agent-of-n1"}


@pytest.fixture(autouse=True)
def agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent of n1 has a token too."""
    user = User("system:node:n1", ("system:nodes", "system:authenticated"))
    monkeypatch.setitem(world.TOKENS, "agent-of-n1", user)


async def remove_namespace(client: Client, name: str) -> None:
    """As the controller does: delete it, then finalize it when nothing is left in it."""
    await client.delete(f"{NAMESPACES}/{name}")
    for kind in ("serviceaccounts", "configmaps"):
        for each in (await client.get(f"{NAMESPACES}/{name}/{kind}"))["items"]:
            await client.delete(f"{NAMESPACES}/{name}/{kind}/{each['metadata']['name']}")
    going = await client.get(f"{NAMESPACES}/{name}")
    going["spec"]["finalizers"] = []
    assert (await client.ask("PUT", f"{NAMESPACES}/{name}/finalize", going)).status == 200
    assert (await client.ask("GET", f"{NAMESPACES}/{name}")).status == 404


async def a_create_is_refused_if_its_namespace_is_gone_at_the_commit(sim: Simulation) -> None:
    store = await open_late()
    async with a_server(sim, "one", store) as one, a_server(sim, "two", store) as two:
        await one.create(NAMESPACES, {"metadata": {"name": "team"}})
        key = "core/configmaps/team/x"
        store.before_commit(key, lambda: remove_namespace(two, "team"))
        answer = await one.ask("POST", f"{NAMESPACES}/team/configmaps", a_configmap("x"))

        assert (answer.status, await store.get(key)) == (404, None)


async def a_create_is_refused_if_its_namespace_is_going_at_the_commit(sim: Simulation) -> None:
    store = await open_late()
    async with a_server(sim, "one", store) as one, a_server(sim, "two", store) as two:
        await one.create(NAMESPACES, {"metadata": {"name": "team"}})
        key = "core/configmaps/team/x"
        store.before_commit(key, lambda: two.delete(f"{NAMESPACES}/team"))
        answer = await one.ask("POST", f"{NAMESPACES}/team/configmaps", a_configmap("x"))

        assert (answer.status, await store.get(key)) == (403, None)


async def two_reservations(client: Client) -> None:
    """The first of them expires after ten seconds."""
    await a_node(client, "n1")
    for intent, seconds in (("first", 10), ("second", 6000)):
        await client.create(RESERVATIONS, a_reservation(intent, seconds=seconds))
    for name in ("a", "b"):
        await client.create(PODS, needing(name, reservation=name_of("first")))


async def reserved(store: LateStore, client: Client) -> tuple[str, dict[str, int]]:
    """The phase of the first, and what the ledger holds."""
    await require_exact(store)
    first = await client.get(f"{RESERVATIONS}/{name_of('first')}")
    return first["status"]["phase"], ledger_in(await store.get(ledger_key("n1"))).held


async def a_binding_does_not_use_a_reservation_that_has_expired_at_the_commit(sim: Simulation) -> None:
    store = await open_late()
    async with a_server(sim, store=store) as client:
        await two_reservations(client)
        store.before_commit("core/pods/default/a", lambda: tasks.sleep(timedelta(seconds=20)))
        answer = await client.ask("POST", f"{PODS}/a/binding", to("n1"))

        assert answer.status == 201, answer  # There is room for it besides.
        assert await reserved(store, client) == ("Expired", {"cpu": 1000, "pods": 1})


async def a_binding_does_not_use_a_reservation_that_another_pod_has_used_at_the_commit(sim: Simulation) -> None:
    store = await open_late()
    async with a_server(sim, "one", store) as one, a_server(sim, "two", store) as two:
        await two_reservations(one)
        store.before_commit("core/pods/default/a", lambda: two.create(f"{PODS}/b/binding", to("n1")))
        answer = await one.ask("POST", f"{PODS}/a/binding", to("n1"))

        assert answer.status == 201, answer
        assert await reserved(store, one) == ("Confirmed", {"cpu": 1000, "pods": 1})
        first = await one.get(f"{RESERVATIONS}/{name_of('first')}")
        assert first["status"]["pod"]["name"] == "b"


async def a_binding_that_is_delivered_twice_at_the_same_time_is_answered_twice(sim: Simulation) -> None:
    store = await open_late()
    async with a_server(sim, "one", store) as one, a_server(sim, "two", store) as two:
        await a_node(one, "n1")
        await one.create(PODS, needing("a"))
        sent = f"{PODS}/a/binding", to("n1")
        first = []

        async def deliver() -> None:
            first.append(await two.ask("POST", *sent, Mainstay_Operation="op-1"))

        store.before_commit("core/pods/default/a", deliver)
        second = await one.ask("POST", *sent, Mainstay_Operation="op-1")

        assert [each.status for each in (*first, second)] == [201, 201], second
        assert ("Mainstay-Repeated" in first[0].headers, second.headers.get("Mainstay-Repeated")) == (False, "true")
        other = await one.ask("POST", *sent, Mainstay_Operation="op-2")
        assert (other.status, other.body["details"]["causes"][0]["reason"]) == (409, "AlreadyBound")


async def an_update_that_is_delivered_twice_at_the_same_time_is_answered_twice(sim: Simulation) -> None:
    store = await open_late()
    async with a_server(sim, "one", store) as one, a_server(sim, "two", store) as two:
        await one.create(CONFIGMAPS, a_configmap("x", count="1"))
        sent = f"{CONFIGMAPS}/x", a_configmap("x", count="2")
        store.before_commit("core/configmaps/default/x", lambda: two.ask("PUT", *sent, Mainstay_Operation="op-1"))
        second = await one.ask("PUT", *sent, Mainstay_Operation="op-1")

        assert (second.status, second.headers.get("Mainstay-Repeated")) == (200, "true")


async def a_write_that_is_delivered_twice_is_not_refused_for_what_it_has_done_itself(sim: Simulation) -> None:
    store = await open_late()
    async with a_server(sim, "one", store) as one, a_server(sim, "two", store) as two:
        await a_node(one, "n1")
        await one.create(PODS, needing("a"))
        for number, sent in enumerate(
            (
                ("POST", f"{PODS}/a/binding", to("n1")),
                ("POST", f"{PODS}/a/eviction", {"metadata": {"name": "a"}}),
                ("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0}),
                ("POST", PODS, needing("a")),
            )
        ):
            first: list[Answer] = []

            async def deliver(number: int = number, sent: Any = sent, first: list[Answer] = first) -> None:
                first.append(await two.ask(*sent, Mainstay_Operation=f"op-{number}"))

            store.after_get("~operations/", deliver)
            second = await one.ask(*sent, Mainstay_Operation=f"op-{number}")
            assert (second.status, second.body) == (first[0].status, first[0].body)
            repeated = [each.headers.get("Mainstay-Repeated") for each in (*first, second)]
            assert repeated == [None, "true"]


async def a_deletion_with_grace_leaves_the_next_of_the_name_alone_when_it_is_repeated(sim: Simulation) -> None:
    store = await open_late()
    async with a_server(sim, store=store) as client:
        await a_node(client, "n1")
        for name in ("a", "b"):
            await client.create(PODS, needing(name))
            await client.create(f"{PODS}/{name}/binding", to("n1"))
        first = await client.ask("DELETE", f"{PODS}/a", Mainstay_Operation="op-1")
        assert first.body["metadata"]["deletionGracePeriodSeconds"] == 30
        force = {"gracePeriodSeconds": 0, "preconditions": {"uid": first.body["metadata"]["uid"]}}
        assert (await client.ask("DELETE", f"{PODS}/a", force, **AGENT)).status == 200
        there = await client.create(PODS, needing("a"))
        await client.create(f"{PODS}/a/binding", to("n1"))
        again = await client.ask("DELETE", f"{PODS}/a", Mainstay_Operation="op-1")

        assert (again.status, again.body, again.headers.get("Mainstay-Repeated")) == (200, first.body, "true")
        now = (await client.get(f"{PODS}/a"))["metadata"]
        assert (now["uid"], now.get("deletionTimestamp")) == (there["metadata"]["uid"], None)


async def forget_charge(store: LateStore, name: str) -> None:
    """A mistake, or a hand in the store: a pod that is on n1 is not charged to it any more."""
    entry = await store.get(charge_key("default", name))
    assert entry is not None
    ledger = released(ledger_in(await store.get(ledger_key("n1"))), decode_charge(entry.value))
    await store.commit([], [DeleteEntry(entry.key), build_write(ledger_key("n1"), ledger, None)])


async def a_recount_does_not_charge_a_pod_that_has_ended_at_the_commit(sim: Simulation) -> None:
    store = await open_late()
    async with a_server(sim, store=store) as client:
        await a_node(client, "n1")
        await client.create(PODS, needing("a"))
        await client.create(f"{PODS}/a/binding", to("n1"))
        await forget_charge(store, "a")
        over = {"status": {"phase": "Succeeded"}}
        store.before_commit(charge_key("default", "a"), lambda: client.patch(f"{PODS}/a/status", over))
        assert await recount(store, "n1")

        drift, _, _ = await find_drift(store, "n1")
        assert (drift.is_none, ledger_in(await store.get(ledger_key("n1"))).used) == (True, {})
        answer = await client.ask("POST", f"{NODES}/n1/recount")
        assert (answer.status, answer.body["wasWrong"]) == (200, False)


async def a_pod_that_ends_gives_back_what_a_recount_has_charged_before_the_commit(sim: Simulation) -> None:
    store = await open_late()
    async with a_server(sim, store=store) as client:
        await a_node(client, "n1")
        for name, end in (("a", "patch"), ("b", "delete")):
            await client.create(PODS, needing(name))
            await client.create(f"{PODS}/{name}/binding", to("n1"))
            await forget_charge(store, name)
            store.before_commit(f"core/pods/default/{name}", lambda: recount(store, "n1"))
            if end == "patch":
                await client.patch(f"{PODS}/{name}/status", {"status": {"phase": "Succeeded"}})
            else:
                answer = await client.ask("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0}, **AGENT)
                assert answer.status == 200

            drift, _, _ = await find_drift(store, "n1")
            assert (drift.is_none, ledger_in(await store.get(ledger_key("n1"))).used) == (True, {})


Case = Callable[[Simulation], Awaitable[None]]
CASES: list[tuple[Case, transactions.Twin]] = [
    (
        a_create_is_refused_if_its_namespace_is_gone_at_the_commit,
        transactions.creates_whatever_has_become_of_the_namespace,
    ),
    (
        a_create_is_refused_if_its_namespace_is_going_at_the_commit,
        transactions.creates_whatever_has_become_of_the_namespace,
    ),
    (
        a_binding_does_not_use_a_reservation_that_has_expired_at_the_commit,
        transactions.uses_a_reservation_whatever_has_become_of_it,
    ),
    (
        a_binding_does_not_use_a_reservation_that_another_pod_has_used_at_the_commit,
        transactions.uses_a_reservation_whatever_has_become_of_it,
    ),
    (
        a_binding_that_is_delivered_twice_at_the_same_time_is_answered_twice,
        transactions.refuses_a_write_for_what_it_has_done_itself,
    ),
    (
        an_update_that_is_delivered_twice_at_the_same_time_is_answered_twice,
        transactions.tries_again_after_its_own_repetition,
    ),
    (
        a_write_that_is_delivered_twice_is_not_refused_for_what_it_has_done_itself,
        transactions.refuses_a_write_for_what_it_has_done_itself,
    ),
    (
        a_deletion_with_grace_leaves_the_next_of_the_name_alone_when_it_is_repeated,
        transactions.remembers_only_deletions_that_are_over,
    ),
    (
        a_recount_does_not_charge_a_pod_that_has_ended_at_the_commit,
        transactions.charges_a_pod_that_may_have_ended,
    ),
    (
        a_pod_that_ends_gives_back_what_a_recount_has_charged_before_the_commit,
        transactions.ends_a_pod_that_may_be_charged_by_now,
    ),
]
NAMES = [case.__name__ for case, _ in CASES]


@pytest.mark.parametrize("case", [case for case, _ in CASES], ids=NAMES)
async def test_it_holds_that(sim: Simulation, case: Case):
    await case(sim)


@pytest.mark.parametrize(("case", "twin"), CASES, ids=NAMES)
async def test_a_bug_is_found_by(sim: Simulation, case: Case, twin: transactions.Twin, monkeypatch: pytest.MonkeyPatch):
    twin(monkeypatch)

    with pytest.raises((AssertionError, Broken)):
        await case(sim)
