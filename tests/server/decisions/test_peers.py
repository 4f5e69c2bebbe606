"""Servers that share a store answer for each other: about all decisions, and saying so when one of them is silent."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import pytest

from mainstay.api.kind_names import CONFIG_MAPS, DECISIONS
from mainstay.client.client import Client
from mainstay.client.config import Config
from mainstay.client.errors import ApiError
from mainstay.client.remote_journal import RemoteJournal
from mainstay.env import Chance, Env, tasks
from mainstay.http.server import HttpServer
from mainstay.journal import wire
from mainstay.journal.errors import JournalUnreachable
from mainstay.journal.record import encode, joined
from mainstay.server.auth.authentication import Authenticator
from mainstay.server.auth.authorization import User
from mainstay.server.decisions import peers
from mainstay.server.decisions.journal import JournalLimits, open_journal
from mainstay.server.request.app import Api
from mainstay.server.request.metrics import Metrics
from mainstay.server.services.api_service import LEASE_LASTS, RECONCILE_EVERY
from mainstay.sim.simulation import Simulation
from mainstay.store.etcd.store import EtcdStore
from tests.journal.builders import a_decision
from tests.server.decisions.journal_world import a_configmap
from tests.store.fake_etcd import FakeEtcd
from tests.twins import peers as twins

PORT = 6443
SERVERS = ("server-0", "server-1")
ADMIN = User("admin", ("system:masters", "system:authenticated"))


@dataclass
class Pair:
    """Two servers over one etcd, and an administrator's client of each."""

    sim: Simulation
    clients: dict[str, Client]
    addresses: dict[str, str]
    apis: dict[str, Api]

    def journal(self, server: str) -> RemoteJournal:
        return RemoteJournal(self.clients[server])

    async def decide(self, server: str, name: str) -> str:
        """Let a component tell a decision to one of them."""
        record = a_decision(name, SERVERS.index(server) + 1)
        body = joined([encode(record)])
        await self.clients[server].request(
            "POST", f"{wire.PATH}decisions", body=body, headers={"Content-Type": wire.RECORDS}
        )
        return record.id

    async def crash(self, server: str) -> None:
        """It renews its lease no more."""
        service = self.apis[server]._service
        assert service is not None
        assert service._task is not None
        service._task.cancel()

    def cut(self) -> None:
        """No byte passes between the two servers any more; clients and etcd are reached."""
        self.sim.network.cut(*SERVERS)


@asynccontextmanager
async def two_servers(sim: Simulation) -> AsyncIterator[Pair]:
    etcd = FakeEtcd()
    async with AsyncExitStack() as closing:
        addresses, apis = {}, {}
        for name in SERVERS:
            given = sim.env(name)
            env = Env(given.clock, Chance(name.encode()), given.disk)
            with sim.network.host(name).active():
                store = EtcdStore(etcd.client(), chance=Chance(name.encode()))
                closing.push_async_callback(store.close)
                metrics = Metrics(env.clock)
                disk = sim.get_disk(f"journal of {name}")
                journal = await open_journal(disk, store, env.clock, JournalLimits(), closing, metrics)
                api = await Api.start(store, env, Authenticator({"token": ADMIN}), journal=journal)
                apis[name] = api
                closing.push_async_callback(api.stop)
                http = await HttpServer.start(api.answer, "0.0.0.0", PORT, on_head=True)
                closing.push_async_callback(http.drain, timedelta(seconds=1))
                addresses[name] = sim.network.host(name).address
                await api.advertise(addresses[name], PORT, f"http://{name}:{PORT}", token="token")
        with sim.network.host("client").active():
            clients = {}
            for name in SERVERS:
                config = Config((f"http://{name}:{PORT}",), token="token")
                clients[name] = await closing.enter_async_context(Client(config, sim.env("client")))
            yield Pair(sim, clients, addresses, apis)


async def test_each_server_answers_with_the_decisions_that_the_other_has_collected(sim: Simulation) -> None:
    async with two_servers(sim) as pair:
        told = [await pair.decide(server, f"pod-of-{server}") for server in SERVERS]
        for server in SERVERS:
            journal = pair.journal(server)
            found = await journal.decisions()
            assert (sorted(each.id for each in found.records), found.is_complete) == (sorted(told), True)
            for each in told:
                assert (await journal.decision(each)) is not None
            listed = await pair.clients[server].list(DECISIONS)
            assert sorted(each["metadata"]["name"] for each in listed.items) == sorted(told)


async def test_each_server_knows_who_asked_the_other_for_a_write(sim: Simulation) -> None:
    async with two_servers(sim) as pair:
        await pair.clients["server-0"].create(CONFIG_MAPS, a_configmap("one"))
        writes = await pair.journal("server-1").writes(kind="configmaps", name="one")
        assert [each.name for each in writes.records] == ["one"]


async def expect_silence_named(sim: Simulation) -> None:
    async with two_servers(sim) as pair:
        told = [await pair.decide(server, f"pod-of-{server}") for server in SERVERS]
        pair.cut()
        found = await pair.journal("server-0").decisions()
        assert [each.id for each in found.records] == told[:1]
        assert not found.is_complete
        assert f"{pair.addresses['server-1']}:{PORT} did not answer" in str(found.damages[0])
        with pytest.raises(JournalUnreachable, match="did not answer"):  # Not "there is none".
            await pair.journal("server-0").decision(told[1])
        with pytest.raises(ApiError, match="did not answer"):
            await pair.clients["server-0"].get(DECISIONS, told[1], "default")


async def test_a_server_that_does_not_answer_is_named(sim: Simulation) -> None:
    await expect_silence_named(sim)


async def test_a_twin_that_hides_a_silent_peer_is_caught(sim: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    twins.answers_as_complete_without_the_peer(monkeypatch)
    with pytest.raises(AssertionError):
        await expect_silence_named(sim)


async def test_a_silent_peer_costs_no_more_than_its_limit(sim: Simulation) -> None:
    async with two_servers(sim) as pair:
        pair.cut()
        async with tasks.timeout(peers.CONNECTED_WITHIN + 2 * peers.ANSWERED_WITHIN):
            await pair.journal("server-0").decisions()


async def test_a_server_that_has_ended_is_no_peer_any_more(sim: Simulation) -> None:
    async with two_servers(sim) as pair:
        await pair.crash("server-1")
        await tasks.sleep(LEASE_LASTS + 3 * RECONCILE_EVERY)
        assert (await pair.journal("server-0").decisions()).is_complete
