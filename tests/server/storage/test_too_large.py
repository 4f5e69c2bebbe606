"""What the store cannot hold is 413, by whichever way it has become so large: clients do not send it again."""

import pytest

from mainstay.store.interface import TRANSACTION_BYTES_MAX
from tests.server.world import CONFIGMAPS, PODS, a_configmap, a_pod, a_server

pytestmark = pytest.mark.filterwarnings("ignore:Sending a large body")
APPLY = "application/apply-patch+yaml"
HALF = "x" * (TRANSACTION_BYTES_MAX // 2)


async def test_a_pod_that_is_too_large_is_refused_for_good(sim):
    env = [{"name": f"V{number}", "value": "x" * 1000} for number in range(1600)]
    async with a_server(sim) as client:
        answer = await client.ask("POST", PODS, a_pod("web", containers=[{"name": "c", "image": "x", "env": env}]))
        assert (answer.status, answer.body["reason"]) == (413, "RequestEntityTooLarge")
        assert "Retry-After" not in answer.headers
        assert (await client.ask("GET", f"{PODS}/web")).status == 404


async def test_a_map_whose_keys_make_its_owners_too_large_is_refused(sim):
    """Each key is in the object twice: as data, and as a managed field."""
    async with a_server(sim) as client:
        answer = await client.ask(
            "POST", CONFIGMAPS, {**a_configmap("web"), "data": {f"key-{n}": "" for n in range(70_000)}}
        )
        assert answer.status == 413


@pytest.mark.parametrize("kind", ["json", "merge", "strategic-merge", "apply"])
async def test_an_object_that_a_patch_makes_too_large_stays_as_it_was(sim, kind):
    async with a_server(sim) as client:
        before = await client.create(PODS, a_pod("web", containers=[{"name": "c", "image": "x", "workingDir": HALF}]))
        patch: object = {"status": {"message": HALF}}
        path = f"{PODS}/web/status"
        if kind == "json":
            patch = [{"op": "add", "path": "/status/message", "value": HALF}]
        elif kind == "apply":
            patch = {"apiVersion": "v1", "kind": "Pod", "status": {"message": HALF}}
            path += "?fieldManager=me"
        media = APPLY if kind == "apply" else f"application/{kind}-patch+json"

        answer = await client.ask("PATCH", path, patch, media)

        assert (answer.status, answer.body["reason"]) == (413, "RequestEntityTooLarge"), answer.body["message"]
        assert await client.get(f"{PODS}/web") == before


async def test_a_binding_that_makes_its_pod_too_large_is_refused(sim):
    async with a_server(sim) as client:
        half = [{"name": "c", "image": "x", "workingDir": "x" * (TRANSACTION_BYTES_MAX - 200_000)}]
        await client.create(PODS, a_pod("web", containers=half))
        room = {"cpu": "4", "memory": "4Gi", "pods": "10"}
        node = {"metadata": {"name": "n"}, "status": {"allocatable": room, "capacity": room}}
        await client.create("/api/v1/nodes", node)
        metadata = {"namespace": "default", "name": "web", "annotations": {"a": "x" * 220_000}}
        answer = await client.ask(
            "POST", "/apis/mainstay.dev/v1/bindings", {"items": [{"metadata": metadata, "target": {"name": "n"}}]}
        )
        assert answer.body["items"][0]["code"] == 413


async def test_a_name_that_is_too_long_for_the_store_is_a_bad_request(sim):
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    async with a_server(sim) as client:
        answer = await client.ask("POST", roles, {"metadata": {"name": "x" * 2000}})
        assert answer.status == 400
        assert (await client.ask("GET", f"{roles}/{'x' * 2000}")).status == 400
