"""The commit points on a real etcd: two servers, each with a store of its own, and clients that race for the same room.

What the pretend etcd of other tests promises, the real one has to keep: that a transaction sees all of its checks.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

import aiohttp
import pytest

from mainstay.env import Chance, Env, SystemClock, SystemDisk
from mainstay.http.server import HttpServer
from mainstay.server.auth.authentication import Authenticator
from mainstay.server.request.app import Api
from mainstay.sim.run.choices import Choices
from mainstay.store.etcd import open_etcd
from mainstay.store.interface import Store
from tests.requirements import needs
from tests.server.placement import binding_races
from tests.server.placement.ledger_cases import NODES, a_node, a_sized_pod, history_of, require_ledgers
from tests.server.quota.quota_cases import QUOTAS, a_quota
from tests.server.world import CONFIGMAPS, PODS, TOKENS, Client, a_configmap
from tests.store.etcd_process import shared_etcd, unique_prefix

pytestmark = [pytest.mark.slow, pytest.mark.real_loop, needs("etcd")]


@asynccontextmanager
async def two_servers(tmp_path) -> AsyncIterator[tuple[list[Client], Store]]:
    """On one etcd; and a store through which to look at what they have done."""
    prefix, endpoint = unique_prefix(), shared_etcd(is_compacted=False).endpoint
    async with AsyncExitStack() as stack:
        stores = [await open_etcd([endpoint], prefix, chance=Chance(b"%d" % n)) for n in range(3)]
        for store in stores:
            stack.push_async_callback(store.close)
        session = await stack.enter_async_context(aiohttp.ClientSession())
        clients = []
        for number, store in enumerate(stores[:2]):
            env = Env(SystemClock(), Chance(b"server %d" % number), SystemDisk(tmp_path))
            authenticator = Authenticator(TOKENS)
            api = await Api.start(store, env, authenticator)
            stack.push_async_callback(api.stop)
            http = await HttpServer.start(api.answer, "127.0.0.1", 0, on_head=True)
            stack.push_async_callback(http.drain, timedelta(seconds=1))
            client = Client(session, "")
            client.base = f"http://127.0.0.1:{http.addresses[0][1]}"
            clients.append(client)
        yield clients, stores[2]


@pytest.mark.parametrize("seed", range(3))
async def test_no_node_is_given_away_twice(seed, tmp_path):
    async with two_servers(tmp_path) as (servers, store):
        choices = Choices(seed)
        await binding_races.prepare(servers[0], choices)

        await binding_races.race(servers, choices)

        assert require_ledgers(await history_of(store)) > 0


async def test_of_many_bindings_at_once_as_many_succeed_as_there_is_room_for(tmp_path):
    async with two_servers(tmp_path) as (servers, store):
        await servers[0].create(NODES, a_node(cpu="5"))
        for number in range(12):
            await servers[0].create(PODS, a_sized_pod(f"p{number}"))

        answers = await asyncio.gather(
            *[
                server.ask("POST", f"{PODS}/p{number}/binding", {"target": {"kind": "Node", "name": "n1"}})
                for number in range(12)
                for server in servers
            ]
        )

        causes = [each.body["details"]["causes"][0]["reason"] for each in answers if each.status == 409]
        assert sum(each.status == 201 for each in answers) == 5
        assert len(causes) == 24 - 5
        # Who has read its pod before that was bound, and comes when the node is full, is told the latter.
        assert {*causes} <= {"AlreadyBound", "CapacityChanged"}
        assert require_ledgers(await history_of(store)) == 5


async def test_two_servers_do_not_overshoot_a_quota(tmp_path):
    async with two_servers(tmp_path) as (servers, _):
        await servers[0].create(QUOTAS, a_quota("team", configmaps="7"))

        answers = await asyncio.gather(
            *[servers[number % 2].ask("POST", CONFIGMAPS, a_configmap(f"c{number}")) for number in range(20)]
        )

        assert sorted(each.status for each in answers) == [201] * 7 + [403] * 13
        assert (await servers[1].get(f"{QUOTAS}/team"))["status"]["used"] == {"configmaps": "7"}
