"""A right that is taken away, or given, counts with the next request, also where the server hears of changes late."""

from datetime import timedelta
from functools import partial

import pytest

from mainstay.env import tasks
from mainstay.sim.simulation import Simulation
from mainstay.store import open_memory
from mainstay.store.local import LocalStore
from tests.server.rbac.served import (
    ALICE,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    a_binding,
    a_role,
    a_rule,
    a_user,
    ask_as,
    delay_watches,
    grant,
)
from tests.server.world import PODS, a_server
from tests.twins.roles import REVOCATION_TWINS, Twin

BEHIND = timedelta(milliseconds=50)


async def a_late_store() -> LocalStore:
    """Tells of each change a while after it was committed."""
    store = await open_memory()
    delay_watches(store, partial(tasks.sleep, BEHIND))
    return store


async def check_next_request(sim: Simulation) -> None:
    async with a_server(sim, store=await a_late_store()) as client:

        async def may_list() -> bool:
            return (await ask_as(client, "alice", "GET", PODS)).status == 200

        assert not await may_list()
        await grant(client, ALICE, a_rule("get list", "pods"))
        assert await may_list()
        await client.delete(f"{CLUSTER_ROLE_BINDINGS}/granted")
        assert not await may_list()
        await client.create(CLUSTER_ROLE_BINDINGS, a_binding("granted", "granted", ALICE))
        assert await may_list()
        await client.patch(f"{CLUSTER_ROLE_BINDINGS}/granted", {"subjects": [a_user("bob")]})
        assert not await may_list()
        await client.patch(f"{CLUSTER_ROLE_BINDINGS}/granted", {"subjects": [ALICE]})
        assert await may_list()
        await client.patch(f"{CLUSTER_ROLES}/granted", {"rules": [a_rule("get", "pods")]})
        assert not await may_list()
        put = await client.ask("PUT", f"{CLUSTER_ROLES}/granted", a_role("granted", a_rule("list", "pods")))
        assert put.status == 200
        assert await may_list()
        await client.delete(f"{CLUSTER_ROLE_BINDINGS}?fieldSelector=metadata.name%3Dgranted")
        assert not await may_list()


async def test_a_change_of_roles_counts_with_the_next_request(sim: Simulation):
    await check_next_request(sim)


@pytest.mark.parametrize("twin", REVOCATION_TWINS, ids=lambda twin: twin.__name__)
async def test_a_server_with_a_bug_is_found_out(sim: Simulation, twin: Twin, monkeypatch: pytest.MonkeyPatch):
    twin(monkeypatch)

    with pytest.raises(AssertionError):
        await check_next_request(sim)
