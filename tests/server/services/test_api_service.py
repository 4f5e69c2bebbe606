"""The Service `kubernetes` exists, leads to the API servers that are alive, and comes back when it is deleted."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any

import aiohttp
import pytest

from mainstay.env import Chance, Env, tasks
from mainstay.http.server import HttpServer
from mainstay.server.auth.authentication import Authenticator
from mainstay.server.request.app import Api
from mainstay.sim.simulation import Simulation
from mainstay.store import open_memory
from mainstay.store.etcd import EtcdStore
from mainstay.store.interface import Store
from tests.server.world import PORT, TOKENS, Client
from tests.store.fake_etcd import FakeEtcd
from tests.twins import services as twins

SERVICES = "/api/v1/namespaces/default/services"
ENDPOINTS = "/api/v1/namespaces/default/endpoints"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
SECOND = timedelta(seconds=1)
Twin = Callable[[pytest.MonkeyPatch], None]


class Running:
    """An API server that others are told of."""

    def __init__(self, api: Api, http: HttpServer) -> None:
        self.api = api
        self.http = http

    async def stop(self) -> None:
        await self.http.drain(SECOND)
        await self.api.stop()

    def crash(self) -> None:
        """It renews its lease no more. What else it does is not looked at here."""
        service = self.api._service
        assert service is not None
        assert service._task is not None
        service._task.cancel()
        self.api._service = None


async def a_running(sim: Simulation, store: Store, name: str, address: str, port: int = PORT) -> Running:
    given = sim.env(name)
    env = Env(given.clock, Chance(name.encode()), given.disk)
    with sim.network.host(name).active():
        api = await Api.start(store, env, Authenticator(TOKENS))
        http = await HttpServer.start(api.answer, "0.0.0.0", PORT, on_head=True)
        await api.advertise(address, port, f"http://{address}:{port}")
    return Running(api, http)


@asynccontextmanager
async def a_client(sim: Simulation, server: str) -> AsyncIterator[Client]:
    with sim.network.host("client").active():
        async with aiohttp.ClientSession() as session:
            yield Client(session, server)


async def addresses_in(client: Client) -> list[str]:
    """Where the Endpoints lead; the slices must say the same."""
    found = await client.get(f"{ENDPOINTS}/kubernetes")
    subsets = sorted(
        f"{address['ip']}:{subset['ports'][0]['port']}"
        for subset in found["subsets"]
        for address in subset["addresses"]
    )
    listed = (await client.get(f"{SLICES}?labelSelector=kubernetes.io/service-name%3Dkubernetes"))["items"]
    sliced = sorted(
        f"{each['addresses'][0]}:{slice_['ports'][0]['port']}" for slice_ in listed for each in slice_["endpoints"]
    )
    assert sliced == subsets
    return subsets


async def test_one_server_is_found_at_the_first_service_address(sim):
    server = await a_running(sim, await open_memory(), "server", "192.0.2.7")
    async with a_client(sim, "server") as client:
        service = await client.get(f"{SERVICES}/kubernetes")

        assert service["spec"]["clusterIP"] == "10.96.0.1"
        assert service["spec"]["ports"] == [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": PORT}]
        assert service["metadata"]["labels"] == {"component": "apiserver", "provider": "kubernetes"}
        assert await addresses_in(client) == [f"192.0.2.7:{PORT}"]
        assert (await client.get(f"{SLICES}/kubernetes"))["addressType"] == "IPv4"
    await server.stop()


@pytest.mark.parametrize("path", [SERVICES, ENDPOINTS, SLICES])
async def test_what_is_deleted_is_restored(sim, path):
    server = await a_running(sim, await open_memory(), "server", "192.0.2.7")
    async with a_client(sim, "server") as client:
        before = await client.get(f"{path}/kubernetes")
        await client.delete(f"{path}/kubernetes")
        await tasks.sleep(11 * SECOND)

        after = await client.get(f"{path}/kubernetes")
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        for each in (before, after):
            del each["metadata"]
        assert after == before
    await server.stop()


async def test_what_is_changed_is_corrected_and_the_rest_left_alone(sim):
    server = await a_running(sim, await open_memory(), "server", "192.0.2.7")
    async with a_client(sim, "server") as client:
        stray = [{"addresses": [{"ip": "192.0.2.66"}], "ports": [{"port": 1}]}]
        await client.patch(f"{ENDPOINTS}/kubernetes", {"subsets": stray, "metadata": {"labels": {"mine": "yes"}}})
        await tasks.sleep(11 * SECOND)

        assert await addresses_in(client) == [f"192.0.2.7:{PORT}"]
        assert (await client.get(f"{ENDPOINTS}/kubernetes"))["metadata"]["labels"]["mine"] == "yes"
    await server.stop()


async def test_nothing_is_written_when_nothing_has_changed(sim):
    store = await open_memory()
    server = await a_running(sim, store, "server", "192.0.2.7")
    await tasks.sleep(SECOND)
    before = await store.revision()
    await tasks.sleep(timedelta(minutes=10))
    assert await store.revision() == before
    await server.stop()


async def lose_a_server(sim: Simulation) -> None:
    """Three servers over one etcd: one crashes, one stops, one goes on; the first comes back at another port."""
    etcd = FakeEtcd()

    def a_store(name: str) -> EtcdStore:
        return EtcdStore(etcd.client(), chance=Chance(name.encode()))

    async with AsyncExitStack() as closing:
        first = await a_running(sim, a_store("a"), "server-a", "192.0.2.1")
        closing.push_async_callback(first.stop)
        second = await a_running(sim, a_store("b"), "server-b", "192.0.2.2")
        closing.push_async_callback(second.stop)
        third = await a_running(sim, a_store("c"), "server-c", "192.0.2.3")
        client = await closing.enter_async_context(a_client(sim, "server-a"))
        await tasks.sleep(25 * SECOND)
        everyone = [f"192.0.2.{number}:{PORT}" for number in (1, 2, 3)]
        assert await addresses_in(client) == everyone

        second.crash()
        await tasks.sleep(10 * SECOND)
        assert await addresses_in(client) == everyone, "it may only be slow"
        await tasks.sleep(20 * SECOND)
        assert await addresses_in(client) == [everyone[0], everyone[2]]

        await third.stop()
        assert await addresses_in(client) == [everyone[0]]

        again = await a_running(sim, a_store("d"), "server-d", "192.0.2.1", 7443)
        closing.push_async_callback(again.stop)
        await tasks.sleep(15 * SECOND)
        assert await addresses_in(client) == [everyone[0], "192.0.2.1:7443"]
        again.crash()
        await tasks.sleep(40 * SECOND)
        assert await addresses_in(client) == [everyone[0]]


async def test_servers_over_one_store_are_found_while_they_are_alive(sim):
    await lose_a_server(sim)


@pytest.mark.parametrize("twin", [twins.counts_a_server_for_ever, twins.counts_only_itself], ids=lambda t: t.__name__)
async def test_a_server_that_is_counted_wrongly_is_found(sim, twin, monkeypatch):
    twin(monkeypatch)
    with pytest.raises(AssertionError):
        await lose_a_server(sim)


async def test_the_address_may_be_taken_and_the_server_starts_all_the_same(sim, caplog):
    store = await open_memory()
    first = await a_running(sim, store, "server", "192.0.2.7")
    async with a_client(sim, "server") as client:
        first.crash()
        await client.delete(f"{SERVICES}/kubernetes")
        spec: dict[str, Any] = {"clusterIP": "10.96.0.1", "ports": [{"port": 80}]}
        await client.create(SERVICES, {"metadata": {"name": "greedy"}, "spec": spec})
        await first.api.advertise("192.0.2.7", PORT, "http://192.0.2.7")
        assert "already allocated" in caplog.text

        await client.delete(f"{SERVICES}/greedy")
        await tasks.sleep(11 * SECOND)
        assert (await client.get(f"{SERVICES}/kubernetes"))["spec"]["clusterIP"] == "10.96.0.1"
    await first.stop()
