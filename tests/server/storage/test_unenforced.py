"""What is accepted and not enforced is said in the answer, or refused."""

from typing import Any

import pytest

from mainstay.api.unenforced import KINDS
from tests.server.world import DEPLOYMENTS, PODS, a_server

STATEFUL_SETS = "/apis/apps/v1/namespaces/default/statefulsets"
SERVICES = "/api/v1/namespaces/default/services"
MERGE = "application/merge-patch+json"
SUBDOMAIN = "subdomain: not enforced: there is no cluster DNS: read the EndpointSlices of the Service"


def a_pod(name: str = "a", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "x:1", "command": ["sleep"]}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def a_deployment(**spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": a_pod(**spec)["spec"]}
    return {"metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}


async def test_a_field_is_named_in_a_warning_with_what_to_do(sim):
    async with a_server(sim) as client:
        answer = await client.ask("POST", PODS, a_pod(subdomain="web"))
        assert (answer.status, answer.warnings) == (201, [f"spec.{SUBDOMAIN}"])
        assert (await client.ask("POST", PODS, a_pod("b"))).warnings == []


async def test_every_kind_of_write_warns(sim):
    where = f"spec.template.spec.{SUBDOMAIN}"
    async with a_server(sim) as client:
        dry = await client.ask("POST", f"{DEPLOYMENTS}?dryRun=All", a_deployment(subdomain="x"))
        assert dry.warnings == [where]
        created = await client.ask("POST", DEPLOYMENTS, a_deployment())
        assert created.warnings == []
        path = f"{DEPLOYMENTS}/a"

        patch = {"spec": {"template": {"spec": {"subdomain": "x"}}}}
        assert (await client.ask("PATCH", path, patch, MERGE)).warnings == [where]
        assert (await client.ask("PATCH", path, {"metadata": {"labels": {"x": "y"}}}, MERGE)).warnings == []
        assert (await client.ask("PATCH", path, {"spec": {"replicas": 3}}, MERGE)).warnings == [where]
        whole = (await client.get(path)) | {"spec": a_deployment(subdomain="y")["spec"]}
        assert (await client.ask("PUT", path, whole)).warnings == [where]
        status = (await client.get(path)) | {"status": {"observedGeneration": 1}}
        assert (await client.ask("PUT", f"{path}/status", status)).warnings == []

        applied = {"apiVersion": "apps/v1", "kind": "Deployment"} | a_deployment(subdomain="z")
        query = "?fieldManager=me&force=true"
        apply = "application/apply-patch+yaml"
        assert (await client.ask("PATCH", f"{path}{query}&dryRun=All", applied, apply)).warnings == [where]
        assert (await client.ask("PATCH", f"{path}{query}", applied, apply)).warnings == [where]
        fresh = applied | {"metadata": {"name": "new"}}
        made = await client.ask("PATCH", f"{DEPLOYMENTS}/new{query}", fresh, apply)
        assert (made.status, made.warnings) == (201, [where])


async def test_a_kind_that_nothing_acts_on_is_said_to_be(sim):
    body = a_deployment()
    body["spec"]["serviceName"] = "a"
    async with a_server(sim) as client:
        answer = await client.ask("POST", STATEFUL_SETS, body)
        text = "no controller makes its pods: use a Deployment, or run a controller of your own"
        assert (answer.status, answer.warnings) == (201, [f"StatefulSet: stored but not acted on: {text}"])
        assert len(KINDS) > 20


async def test_a_service_says_that_nothing_routes_to_it_unless_it_is_headless(sim):
    def a_service(name: str, **spec: Any) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}, **spec}}

    async with a_server(sim) as client:
        usual = await client.ask("POST", SERVICES, a_service("a"))
        assert usual.warnings == [
            "spec.type: not enforced: nothing routes traffic to Services, so its address has no effect: read its "
            "EndpointSlices, or set clusterIP: None"
        ]
        assert (await client.ask("POST", SERVICES, a_service("b", clusterIP="None"))).warnings == []
        balanced = await client.ask("POST", SERVICES, a_service("c", type="LoadBalancer"))
        assert [each.partition(":")[0] for each in balanced.warnings] == ["spec.type"]


@pytest.mark.parametrize("path", [PODS, DEPLOYMENTS])
async def test_what_promises_isolation_is_refused(sim, path):
    made = a_pod if path == PODS else a_deployment
    async with a_server(sim) as client:
        refused = await client.ask("POST", path, made(runtimeClassName="gvisor"))
        assert (refused.status, refused.body["reason"]) == (422, "Invalid")
        assert (
            "runtimeClassName: Forbidden: not supported: agents have one runner, and no other isolation"
            in refused.body["message"]
        )
        assert refused.warnings == []
        assert (await client.ask("POST", path, made())).status == 201


async def test_a_controllers_pod_is_not_warned_about_again_but_refused_all_the_same(sim):
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "a", "uid": "1", "controller": True}

    def owned(name: str, **spec: Any) -> dict[str, Any]:
        return a_pod(**spec) | {"metadata": {"name": name, "ownerReferences": [owner]}}

    async with a_server(sim) as client:
        answer = await client.ask("POST", PODS, owned("a", subdomain="web"))
        assert (answer.status, answer.warnings) == (201, [])
        assert (await client.ask("POST", PODS, owned("b", runtimeClassName="gvisor"))).status == 422


async def test_a_resize_is_warned_about(sim):
    async with a_server(sim) as client:
        pod = a_pod()
        pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
        await client.create(PODS, pod)
        body = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}
        answer = await client.ask("PATCH", f"{PODS}/a/resize", body, "application/strategic-merge-patch+json")
        text = "pods/resize: not enforced: agents do not resize containers that run: delete the pod"
        assert (answer.status, answer.warnings) == (200, [text])
