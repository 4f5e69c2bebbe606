"""Reservations: room is held once, used once, given back once; and of one intent there is only ever one."""

import asyncio
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.api.reservations import reservation_name
from mainstay.server.placement.ledger.ledger import ledger_in, ledger_key
from mainstay.store import open_memory
from mainstay.store.interface import Store
from tests.server.placement import reservation_cases
from tests.server.placement.reservation_cases import (
    DELAYS,
    LOSSES,
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
from tests.server.world import PODS, Client, a_server
from tests.twins.quotas import RESERVATION_TWINS, Twin

pytestmark = pytest.mark.slow

SEEDS = range(15)


async def held(store: Store, node: str = "n1") -> dict[str, int]:
    return ledger_in(await store.get(ledger_key(node))).held


async def cause(client: Client, path: str, body: dict[str, Any]) -> tuple[int, str]:
    answer = await client.ask("POST", path, body)
    return answer.status, answer.body["details"]["causes"][0]["reason"]


# Names.


@given(st.text(), st.text(min_size=1), st.integers(0), st.text(min_size=1))
def test_a_name_is_always_the_same_and_can_be_a_name(name, uid, generation, intent):
    found = reservation_name({"name": name, "uid": uid}, generation, intent)

    assert found == reservation_name({"uid": uid, "name": name, "kind": "Job"}, generation, intent)
    assert len(found) <= 63
    assert re.fullmatch("[a-z0-9]([-a-z0-9]*[a-z0-9])?", found)


@given(st.lists(st.tuples(st.sampled_from(["u", "u1", "u11"]), st.integers(0, 12), st.sampled_from(["a", "1", "1a"]))))
def test_different_intents_have_different_names(intents):
    names = {each: reservation_name({"uid": each[0]}, each[1], each[2]) for each in intents}

    assert len(set(names.values())) == len(names)


# A life.


async def test_a_reservation_holds_room_from_the_revision_that_makes_it(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await a_node(client, "n1")
        made = await client.create(RESERVATIONS, a_reservation("replica-042"))

        assert made["metadata"]["name"] == name_of("replica-042")
        assert made["status"] == {"phase": "Active"}
        entry = await store.get(ledger_key("n1"))
        assert entry is not None
        assert str(entry.revision) == made["metadata"]["resourceVersion"]
        assert await held(store) == {"cpu": 1000, "pods": 1}


async def test_the_number_of_reservations_can_be_limited(sim):
    async with a_server(sim) as client:
        await a_node(client, "n1", cpu="8", memory="8Gi", pods="10")
        quota = {"metadata": {"name": "team"}, "spec": {"hard": {"count/reservations.mainstay.dev": "1"}}}
        await client.create("/api/v1/namespaces/default/resourcequotas", quota)

        first = await client.ask("POST", RESERVATIONS, a_reservation("replica-1"))
        second = await client.ask("POST", RESERVATIONS, a_reservation("replica-2"))

        assert (first.status, second.status) == (201, 403)
        assert "exceeded quota: team" in second.body["message"]


async def test_who_tries_again_finds_the_first(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await a_node(client, "n1")
        await a_node(client, "n2")
        await client.create(RESERVATIONS, a_reservation("replica-042"))

        again = await client.ask("POST", RESERVATIONS, a_reservation("replica-042", node="n2"))

        assert (again.status, again.body["reason"]) == (409, "AlreadyExists")
        assert await held(store, "n2") == {}
        other = {**a_reservation("replica-042"), "metadata": {"name": "another-name"}}
        assert (await client.ask("POST", RESERVATIONS, other)).status == 422


async def test_what_is_not_there_cannot_be_held(sim):
    async with a_server(sim) as client:
        assert await cause(client, RESERVATIONS, a_reservation("a", node="nowhere")) == (409, "NodeGone")

        await a_node(client, "n1", cpu="2")
        await client.create(RESERVATIONS, a_reservation("b", resources={"cpu": "1500m"}))
        answer = await client.ask("POST", RESERVATIONS, a_reservation("c"))
        assert (answer.status, answer.body["details"]["causes"][0]["reason"]) == (409, "CapacityChanged")
        assert "cpu: requested 1, free 500m" in answer.body["message"]

        await client.patch(f"{NODES}/n1", {"spec": {"unschedulable": True}})
        small = a_reservation("d", resources={"cpu": "1m"})
        assert await cause(client, RESERVATIONS, small) == (409, "NodeNotAccepting")


async def test_ports_are_held_too(sim):
    async with a_server(sim) as client:
        await a_node(client, "n1")
        await client.create(RESERVATIONS, a_reservation("a", ports=[{"hostPort": 80}]))

        assert await cause(client, RESERVATIONS, a_reservation("b", ports=[{"hostPort": 80}])) == (409, "PortTaken")
        assert (await client.ask("POST", RESERVATIONS, a_reservation("c", ports=[{"hostPort": 81}]))).status == 201


@pytest.mark.parametrize("how", ["deleted", "released"])
async def test_what_is_let_go_is_free_at_once(sim, how):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await a_node(client, "n1")
        path = f"{RESERVATIONS}/{name_of('a')}"
        await client.create(RESERVATIONS, a_reservation("a"))
        if how == "deleted":
            await client.delete(path)
        else:
            await client.patch(f"{path}/status", {"status": {"phase": "Released"}})
            assert (await client.ask("POST", RESERVATIONS, a_reservation("a"))).status == 409
            await client.delete(path)

        assert await held(store) == {}
        assert (await client.ask("POST", RESERVATIONS, a_reservation("a"))).status == 201
        await require_exact(store)


async def test_a_finalizer_keeps_the_room_until_the_end(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await a_node(client, "n1")
        body = {**a_reservation("a"), "metadata": {"finalizers": ["example.com/wait"]}}
        path = f"{RESERVATIONS}/{name_of('a')}"
        await client.create(RESERVATIONS, body)

        await client.delete(path)
        assert await held(store) == {"cpu": 1000, "pods": 1}
        await client.patch(path, {"metadata": {"finalizers": None}})
        assert await held(store) == {}


async def test_expiry_is_a_commit_and_not_what_a_clock_says(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await a_node(client, "n1")
        await client.create(RESERVATIONS, a_reservation("a", seconds=10))
        await client.create(RESERVATIONS, a_reservation("b", seconds=10))
        longer = a_reservation("b", seconds=100)["spec"]["expiresAt"]
        await client.patch(f"{RESERVATIONS}/{name_of('b')}", {"spec": {"expiresAt": longer}})

        await asyncio.sleep(12)

        phases = [(await client.get(f"{RESERVATIONS}/{name_of(each)}"))["status"]["phase"] for each in "ab"]
        assert phases == ["Expired", "Active"]
        assert await held(store) == {"cpu": 1000, "pods": 1}
        await asyncio.sleep(100)
        assert await held(store) == {}


async def test_a_server_that_comes_later_ends_what_has_expired(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await a_node(client, "n1")
        await client.create(RESERVATIONS, a_reservation("a", seconds=10))
    await asyncio.sleep(60)
    assert await held(store) == {"cpu": 1000, "pods": 1}
    async with a_server(sim, "later", store) as client:
        await asyncio.sleep(2)
        assert await held(store) == {}


# Its pod.


async def test_the_pod_takes_over_the_room_in_the_transaction_that_binds_it(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await a_node(client, "n1", cpu="1")
        await client.create(RESERVATIONS, a_reservation("a"))
        await client.create(PODS, needing("mine", reservation=name_of("a")))
        await client.create(PODS, needing("other"))

        assert await cause(client, f"{PODS}/other/binding", to("n1")) == (409, "ReservationHeld")
        assert (await client.ask("POST", f"{PODS}/mine/binding", to("n1"))).status == 201

        pod, reservation = await client.get(f"{PODS}/mine"), await client.get(f"{RESERVATIONS}/{name_of('a')}")
        assert reservation["status"] == {
            "phase": "Confirmed",
            "pod": {"name": "mine", "uid": pod["metadata"]["uid"]},
        }
        assert reservation["metadata"]["resourceVersion"] == pod["metadata"]["resourceVersion"]
        ledger = ledger_in(await store.get(ledger_key("n1")))
        assert (ledger.used, ledger.held) == ({"cpu": 1000, "pods": 1}, {})
        await client.delete(f"{RESERVATIONS}/{name_of('a')}")
        await require_exact(store)


async def test_a_pod_is_not_bound_past_its_reservation(sim):
    async with a_server(sim) as client:
        await a_node(client, "n1")
        await a_node(client, "n2")
        await client.create(RESERVATIONS, a_reservation("a", pod={"name": "mine"}))
        for name in ("mine", "thief"):
            await client.create(PODS, needing(name, reservation=name_of("a")))

        assert await cause(client, f"{PODS}/mine/binding", to("n2")) == (409, "ReservationHeld")
        assert await cause(client, f"{PODS}/thief/binding", to("n1")) == (409, "ReservationHeld")


async def test_when_its_reservation_is_over_a_pod_is_bound_like_any_other(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await a_node(client, "n1")
        await a_node(client, "n2")
        await client.create(RESERVATIONS, a_reservation("a", seconds=5))
        await client.create(PODS, needing("mine", reservation=name_of("a")))
        await asyncio.sleep(10)

        assert (await client.ask("POST", f"{PODS}/mine/binding", to("n2"))).status == 201
        await require_exact(store)


async def test_fifty_at_once_hold_as_many_as_there_is_room_for(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await a_node(client, "n1", cpu="20", pods="100")

        answers = await asyncio.gather(
            *(client.ask("POST", RESERVATIONS, a_reservation(f"replica-{n}")) for n in range(50))
        )

        assert sorted(answer.status for answer in answers) == [201] * 20 + [409] * 30
        await require_exact(store)


# With two servers, and with losses.


@pytest.mark.parametrize("seed", SEEDS)
def test_however_it_goes_nothing_is_held_twice_or_for_ever(seed):
    reservation_cases.run(reservation_cases.race, seed)
    reservation_cases.run(reservation_cases.race, seed, LOSSES)


@pytest.mark.parametrize("twin", RESERVATION_TWINS, ids=lambda twin: twin.__name__)
def test_a_planted_bug_is_found(twin: Twin, monkeypatch: pytest.MonkeyPatch):
    twin(monkeypatch)
    for seed in range(20):
        try:
            reservation_cases.run(reservation_cases.race, seed, DELAYS)
        except Broken:
            return
    pytest.fail("the planted bug was not found")
