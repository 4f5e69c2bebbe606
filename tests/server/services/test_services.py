"""Services through the API: they come with addresses, and give them back."""

import asyncio

from mainstay.env import Chance
from mainstay.store import open_memory
from mainstay.store.etcd import EtcdStore
from mainstay.store.interface import Store
from tests.server.world import Client, a_server
from tests.store.fake_etcd import FakeEtcd

SERVICES = "/api/v1/namespaces/default/services"


def a_service(name: str, **spec: object) -> dict[str, object]:
    return {"metadata": {"name": name}, "spec": {"selector": {"app": name}, "ports": [{"port": 80}], **spec}}


async def taken(store: Store) -> list[str]:
    return [entry.key.rpartition("/")[2] for entry in (await store.range("~addresses/")).entries]


async def address_of(client: Client, name: str) -> str:
    address: str = (await client.get(f"{SERVICES}/{name}"))["spec"]["clusterIP"]
    return address


async def test_a_service_has_its_address_as_long_as_it_is_there(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        made = await client.create(SERVICES, a_service("web"))
        spec = made["spec"]
        assert spec["clusterIPs"] == [spec["clusterIP"]] == await taken(store)

        await client.patch(f"{SERVICES}/web", {"spec": {"selector": {"app": "other"}}})
        assert await address_of(client, "web") == spec["clusterIP"]

        await client.delete(f"{SERVICES}/web")
        assert await taken(store) == []


async def test_the_address_that_the_server_chose_has_no_owner(sim):
    async with a_server(sim) as client:
        made = await client.create(SERVICES, a_service("web"))

        owned = [entry["fieldsV1"]["f:spec"] for entry in made["metadata"]["managedFields"]]
        assert all("f:clusterIP" not in fields for fields in owned)


async def test_a_service_that_waits_for_a_finalizer_keeps_its_address_until_then(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        body = a_service("web")
        body["metadata"] = {"name": "web", "finalizers": ["example.com/wait"]}
        address = (await client.create(SERVICES, body))["spec"]["clusterIP"]

        await client.delete(f"{SERVICES}/web")
        assert await taken(store) == [address]

        await client.patch(f"{SERVICES}/web", {"metadata": {"finalizers": None}})
        assert await taken(store) == []


async def test_a_dry_run_takes_nothing(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        shown = await client.create(f"{SERVICES}?dryRun=All", a_service("web"))

        assert shown["spec"]["clusterIP"]
        assert await taken(store) == []


async def test_many_servers_never_give_out_the_same(sim):
    etcd = FakeEtcd()
    stores = [EtcdStore(etcd.client(), chance=Chance(bytes([n]))) for n in range(2)]
    async with a_server(sim, "one", stores[0]) as one, a_server(sim, "two", stores[1]) as two:
        asked = [
            client.ask("POST", SERVICES, a_service(f"{which}-{n}", type="NodePort", clusterIP=f"10.96.0.{n}"))
            for which, client in (("a", one), ("b", two))
            for n in range(10, 20)
        ]
        answers = await asyncio.gather(*asked)

        assert sorted(answer.status for answer in answers) == [201] * 10 + [422] * 10
        assert len(await taken(stores[0])) == 20
    for store in stores:
        await store.close()


async def test_a_service_that_changes_its_type_takes_and_gives_back(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        address = (await client.create(SERVICES, a_service("web")))["spec"]["clusterIP"]

        opened = await client.patch(f"{SERVICES}/web", {"spec": {"type": "NodePort"}})
        assert await taken(store) == [address, str(opened["spec"]["ports"][0]["nodePort"])]

        await client.patch(f"{SERVICES}/web", {"spec": {"type": "ClusterIP"}})
        assert await taken(store) == [address]

        await client.patch(f"{SERVICES}/web", {"spec": {"type": "ExternalName", "externalName": "example.com"}})
        assert await taken(store) == []
