"""kr8s, as it comes, against a real server process."""

# What it says of its types is not always so.
# mypy: disable-error-code="arg-type,no-any-return,no-untyped-call,union-attr"

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import kr8s
import pytest
from kr8s.asyncio import Api
from kr8s.asyncio.objects import ConfigMap, Deployment, Namespace, Pod

from tests.clients.server_process import shared_server, unique_name

pytestmark = [
    pytest.mark.slow,
    pytest.mark.real_loop,
    # It knows which versions of Kubernetes it was tried with, and says so once per connection.
    pytest.mark.filterwarnings("ignore:Kubernetes version:UserWarning"),
]

LIMIT_S = 20


@asynccontextmanager
async def connected() -> AsyncIterator[Api]:
    """A client with a namespace of its own."""
    namespace = unique_name()
    api = await kr8s.asyncio.api(kubeconfig=str(shared_server().kubeconfig), namespace=namespace)
    try:
        await (await Namespace({"metadata": {"name": namespace}}, api=api)).create()
        await (await ConfigMap.get("kube-root-ca.crt", namespace=namespace, api=api)).delete()  # Tests count them.
        yield api
    finally:
        # It never closes its connections itself.
        if api._session is not None:
            await api._session.aclose()


async def a_configmap(api: Api, name: str, labels: dict[str, str] | None = None, **data: str) -> ConfigMap:
    body = {"metadata": {"name": name, "namespace": api.namespace, "labels": labels or {}}, "data": data}
    return await ConfigMap(body, api=api)


async def test_an_object_is_created_changed_and_deleted():
    async with connected() as api:
        settings = await a_configmap(api, "settings", colour="red")
        assert not await settings.exists()
        await settings.create()
        assert await settings.exists()

        await settings.patch({"data": {"size": "9"}})
        assert (await ConfigMap.get("settings", api=api)).data == {"colour": "red", "size": "9"}
        await settings.label({"tier": "front"})
        await settings.annotate({"note": "ours"})
        await settings.refresh()
        assert (settings.labels, settings.annotations) == ({"tier": "front"}, {"note": "ours"})

        await settings.delete()
        await settings.wait("delete", timeout=LIMIT_S)
        assert not await settings.exists()


async def test_lists_are_selected():
    async with connected() as api:
        for number in range(5):
            await (await a_configmap(api, f"part-{number}", {"odd": str(number % 2)})).create()

        async def names(*which: str, **selectors: str | dict[str, str]) -> list[str]:
            return [each.name async for each in api.get("configmaps", *which, **selectors)]

        assert await names() == [f"part-{number}" for number in range(5)]
        assert await names(label_selector={"odd": "1"}) == ["part-1", "part-3"]
        assert await names(field_selector="metadata.name=part-2") == ["part-2"]
        assert await names("part-3") == ["part-3"]


async def test_a_deployment_is_scaled():
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    async with connected() as api:
        web = await Deployment({"metadata": {"name": "web", "namespace": api.namespace}, "spec": spec}, api=api)
        await web.create()

        await web.patch({"spec": {"replicas": 3}}, subresource="scale")

        assert (await Deployment.get("web", api=api)).replicas == 3


async def test_waiting_ends_when_a_condition_holds():
    spec = {"containers": [{"name": "c", "image": "x:1"}]}
    ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    async with connected() as api:
        pod = await Pod({"metadata": {"name": "one", "namespace": api.namespace}, "spec": spec}, api=api)
        await pod.create()
        async with asyncio.TaskGroup() as group:
            group.create_task(pod.wait(["condition=Ready", "jsonpath='{.status.phase}'=Running"], "all", LIMIT_S))
            await (await Pod.get("one", api=api)).patch(ready, subresource="status")

        await pod.refresh()
        assert pod.status.phase == "Running"


async def test_a_watch_delivers_changes():
    async with connected() as api, asyncio.timeout(LIMIT_S):
        await (await a_configmap(api, "one")).create()
        seen = []
        async for change, each in api.watch("configmaps"):
            seen.append((change, each.name))
            if len(seen) == 1:
                await (await a_configmap(api, "two")).create()
            elif len(seen) == 2:
                await each.patch({"data": {"a": "b"}})
            elif len(seen) == 3:
                await each.delete()
            else:
                break

    assert seen == [("ADDED", "one"), ("ADDED", "two"), ("MODIFIED", "two"), ("DELETED", "two")]


async def test_the_server_says_what_it_serves_and_who_asks():
    async with connected() as api:
        assert (await api.version())["gitVersion"].startswith("v1.")
        served = {(each["version"], each["name"], each["kind"]) for each in await api.api_resources()}
        assert ("apps/v1", "deployments", "Deployment") in served
        assert await api.whoami() == "kubernetes-admin"
