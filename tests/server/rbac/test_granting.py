"""Who has lost a right grants it no more, also if that happens while the grant is on its way, or on another server."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from mainstay.env import Chance, tasks
from mainstay.server.rbac.escalation import KEYS_MAX
from mainstay.sim.simulation import Simulation
from mainstay.store import open_memory
from mainstay.store.etcd import EtcdStore
from mainstay.store.interface import Check, DeleteEntry, Entry, Put, Store, Write
from tests.server.rbac.served import (
    ALICE,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    GROUP,
    ROLE_BINDINGS,
    ROLES,
    a_binding,
    a_role,
    a_rule,
    a_user,
    ask_as,
    delay_watches,
)
from tests.server.world import Client, a_server
from tests.store.fake_etcd import FakeEtcd
from tests.twins.roles import GRANTING_TWINS, Twin

WRITES_ROLES = a_rule("create update", "roles rolebindings", GROUP)
READS_PODS = a_rule("get list", "pods")
EVE = a_user("eve")


@pytest.fixture(params=["memory", "etcd"])
def which(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


async def a_store(which: str = "memory") -> Store:
    return await open_memory() if which == "memory" else EtcdStore(FakeEtcd().client(), chance=Chance(b"store"))


def take_away(store: Store, *keys: str) -> None:
    """Delete these, past the server, when a role or binding of Eve's is about to be committed."""
    honest = store.commit

    async def commit(checks: Sequence[Check], writes: Sequence[Write]) -> Any:
        if any(isinstance(each, Put) and each.key.endswith("/eves") for each in writes):
            for key in keys:
                await honest([], [DeleteEntry(key)])
        return await honest(checks, writes)

    store.commit = commit  # type: ignore[method-assign]


async def let_alice_grant(client: Client) -> None:
    """She may read pods, and write roles and bindings. Twice over for the former, by a role that aggregates another."""
    await client.create(CLUSTER_ROLES, a_role("writer", WRITES_ROLES))
    await client.create(CLUSTER_ROLE_BINDINGS, a_binding("alice-writes", "writer", ALICE))
    await client.create(CLUSTER_ROLES, a_role("pods", READS_PODS, aggregated="yes"))
    selector = {"clusterRoleSelectors": [{"matchLabels": {"aggregated": "yes"}}]}
    await client.create(CLUSTER_ROLES, {**a_role("reader"), "aggregationRule": selector})
    await client.create(CLUSTER_ROLE_BINDINGS, a_binding("alice-reads", "reader", ALICE))


async def grant_to_eve(client: Client, what: str) -> int:
    if what == "role":
        return (await ask_as(client, "alice", "POST", ROLES, a_role("eves", READS_PODS))).status
    return (await ask_as(client, "alice", "POST", ROLE_BINDINGS, a_binding("eves", "reader", EVE))).status


TAKEN_AWAY = {
    "the binding": f"{GROUP}/clusterrolebindings/alice-reads",
    "the role": f"{GROUP}/clusterroles/reader",
    "the aggregated role": f"{GROUP}/clusterroles/pods",
}


async def check_granting(sim: Simulation, which: str, what: str, key: str) -> None:
    store = await a_store(which)
    async with a_server(sim, store=store) as client:
        await let_alice_grant(client)
        take_away(store, key)

        # If it is the bound role that is gone, that is the answer.
        assert await grant_to_eve(client, what) in ((403,) if what == "role" else (403, 404))
        assert (await client.ask("GET", f"{ROLES if what == 'role' else ROLE_BINDINGS}/eves")).status == 404


@pytest.mark.parametrize("key", TAKEN_AWAY.values(), ids=list(TAKEN_AWAY))
async def test_a_role_is_not_written_by_rights_that_went_meanwhile(sim: Simulation, which: str, key: str):
    await check_granting(sim, which, "role", key)


async def test_a_binding_is_not_written_by_rights_that_went_meanwhile(sim: Simulation, which: str):
    await check_granting(sim, which, "binding", TAKEN_AWAY["the binding"])


@pytest.mark.parametrize("what", ["role", "binding"])
async def test_other_rights_of_the_user_may_go_meanwhile(sim: Simulation, which: str, what: str):
    store = await a_store(which)
    async with a_server(sim, store=store) as client:
        await let_alice_grant(client)
        take_away(store, f"{GROUP}/clusterrolebindings/alice-writes")

        assert await grant_to_eve(client, what) == 201


NARROWED: dict[str, tuple[str, dict[str, Any]]] = {
    "the binding": (TAKEN_AWAY["the binding"], {"subjects": []}),
    "the role": (TAKEN_AWAY["the role"], {"aggregationRule": None, "rules": []}),
    "the aggregated role": (TAKEN_AWAY["the aggregated role"], {"rules": []}),
}


async def check_narrowing(sim: Simulation, which: str, key: str, change: dict[str, Any]) -> None:
    """The server hears of a change by which Alice loses a right while it reads by what she has that right."""
    store = await a_store(which)
    async with a_server(sim, store=store) as client:
        await let_alice_grant(client)
        await tasks.sleep(timedelta(seconds=5))  # The aggregated rules are written.
        honest = store.get
        narrowed = False

        async def get(asked: str, *, at: int | None = None) -> Entry | None:
            nonlocal narrowed
            if asked in TAKEN_AWAY.values() and not narrowed:
                narrowed = True
                entry = await honest(key)
                assert entry is not None
                await store.commit([], [Put(key, json.dumps({**json.loads(entry.value), **change}).encode())])
                await tasks.sleep(timedelta(seconds=1))
            return await honest(asked, at=at)

        store.get = get  # type: ignore[method-assign, assignment]

        assert await grant_to_eve(client, "role") == 403
        assert narrowed


@pytest.mark.parametrize(("key", "change"), NARROWED.values(), ids=list(NARROWED))
async def test_a_change_that_arrives_during_the_check_counts(
    sim: Simulation, which: str, key: str, change: dict[str, Any]
):
    await check_narrowing(sim, which, key, change)


@pytest.mark.parametrize("verb", ["escalate", "bind"])
async def test_the_right_to_grant_anything_may_not_go_meanwhile(sim: Simulation, verb: str):
    store = await a_store()
    async with a_server(sim, store=store) as client:
        await client.create(CLUSTER_ROLES, a_role("pods", READS_PODS))
        free = a_rule(verb, "roles clusterroles", GROUP)
        for name, rule in (("writes", WRITES_ROLES), ("free", free)):
            await client.create(CLUSTER_ROLES, a_role(name, rule))
            await client.create(CLUSTER_ROLE_BINDINGS, a_binding(f"alice-{name}", name, ALICE))
        take_away(store, f"{GROUP}/clusterrolebindings/alice-free")

        body = a_role("eves", READS_PODS) if verb == "escalate" else a_binding("eves", "pods", EVE)
        answer = await ask_as(client, "alice", "POST", ROLES if verb == "escalate" else ROLE_BINDINGS, body)

        assert answer.status == 403


@pytest.mark.parametrize("twin", GRANTING_TWINS, ids=lambda twin: twin.__name__)
async def test_a_server_with_a_bug_is_found_out(sim: Simulation, twin: Twin, monkeypatch: pytest.MonkeyPatch):
    twin(monkeypatch)

    with pytest.raises(AssertionError):
        for key in TAKEN_AWAY.values():
            await check_granting(sim, "memory", "role", key)
        for key, change in NARROWED.values():
            await check_narrowing(sim, "memory", key, change)


# A server that is behind.


@asynccontextmanager
async def two_servers(sim: Simulation) -> AsyncIterator[tuple[Client, Client, Callable[[], None]]]:
    """Of one store. After the call, the second one hears of no change any more."""
    etcd = FakeEtcd()
    stores = [EtcdStore(etcd.client(), chance=Chance(name)) for name in (b"one", b"two")]
    hears = asyncio.Event()
    hears.set()
    delay_watches(stores[1], hears.wait)
    async with a_server(sim, "one", stores[0]) as one, a_server(sim, "two", stores[1]) as two:
        yield one, two, hears.clear


ROLE = f"{CLUSTER_ROLES}/pods"
BINDING = f"{CLUSTER_ROLE_BINDINGS}/alice-pods"


@pytest.mark.parametrize("how", ["role narrowed", "role deleted", "binding narrowed", "binding deleted"])
async def test_a_right_is_not_restored_by_what_gave_it_before(sim: Simulation, how: str):
    async with two_servers(sim) as (one, late, fall_behind):
        role, binding = a_role("pods", READS_PODS), a_binding("alice-pods", "pods", ALICE)
        writes = a_rule("create update", "clusterroles clusterrolebindings", GROUP)
        await one.create(CLUSTER_ROLES, a_role("writer", writes))
        await one.create(CLUSTER_ROLE_BINDINGS, a_binding("alice-writes", "writer", ALICE))
        await one.create(CLUSTER_ROLES, role)
        await one.create(CLUSTER_ROLE_BINDINGS, binding)
        await tasks.sleep(timedelta(seconds=1))
        what, change = how.split()
        path, body = (ROLE, role) if what == "role" else (BINDING, binding)

        fall_behind()
        if change == "deleted":
            await one.delete(path)
            answer = await ask_as(late, "alice", "POST", path.rpartition("/")[0], body)
        else:
            await one.patch(path, {"rules": []} if what == "role" else {"subjects": []})
            answer = await ask_as(late, "alice", "PUT", path, body)

        assert answer.status == 403


@pytest.mark.parametrize("bound", ["pods", "reader"])
async def test_a_role_that_another_server_has_widened_is_not_bound(sim: Simulation, bound: str):
    """Also if it aggregates the role that was widened."""
    async with two_servers(sim) as (one, late, fall_behind):
        await let_alice_grant(one)
        await one.create(CLUSTER_ROLES, a_role("holder", READS_PODS))
        await one.create(CLUSTER_ROLE_BINDINGS, a_binding("alice-holds", "holder", ALICE))
        await one.delete(f"{CLUSTER_ROLE_BINDINGS}/alice-reads")
        await tasks.sleep(timedelta(seconds=5))
        assert await bind(late, bound, "before") == 201

        fall_behind()
        await one.patch(ROLE, {"rules": [READS_PODS, a_rule("get", "secrets")]})

        assert await bind(late, bound, "eves") == 403


async def bind(client: Client, role: str, name: str) -> int:
    return (await ask_as(client, "alice", "POST", ROLE_BINDINGS, a_binding(name, role, EVE))).status


# Many bindings.


@pytest.mark.parametrize("enough", ["everything", "all pods"])
async def test_a_role_that_is_enough_is_found_behind_many_that_are_not(sim: Simulation, enough: str):
    async with a_server(sim) as client:
        names = [f"p{number}" for number in range(KEYS_MAX)]
        for name in names:
            await client.create(CLUSTER_ROLES, a_role(name, a_rule("get", "pods", resourceNames=[name])))
            await client.create(CLUSTER_ROLE_BINDINGS, a_binding(name, name, ALICE))
        await client.create(CLUSTER_ROLES, a_role("writer", WRITES_ROLES))
        await client.create(CLUSTER_ROLE_BINDINGS, a_binding("alice-writes", "writer", ALICE))
        wanted = a_role("eves", a_rule("get", "pods", resourceNames=names))

        refused = await ask_as(client, "alice", "POST", ROLES, wanted)
        rule = a_rule("*", "*", "*") if enough == "everything" else READS_PODS
        await client.create(CLUSTER_ROLES, a_role("z", rule, {"nonResourceURLs": ["*"], "verbs": ["*"]}))
        await client.create(CLUSTER_ROLE_BINDINGS, a_binding("z", "z", ALICE))
        allowed = await ask_as(client, "alice", "POST", ROLES, wanted)

    assert refused.status == 422
    assert "bind fewer roles to the user" in refused.body["message"]
    assert allowed.status == 201
