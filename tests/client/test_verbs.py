"""Every verb, through the client, against the real API server."""

from typing import Any

import pytest

from mainstay.api.kind import Propagation
from mainstay.api.kind_names import CONFIG_MAPS, DEPLOYMENTS, DISRUPTION_BUDGETS, NAMESPACES, NODES, PODS
from mainstay.client.call import PatchType, WriteOptions
from mainstay.client.client import ListPage
from mainstay.client.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    Throttled,
    Unauthorized,
)
from mainstay.store import open_memory
from tests.client.world import a_client, a_world
from tests.server.world import a_configmap, a_deployment, a_pod


async def test_what_was_created_can_be_read(sim):
    async with a_world(sim) as world:
        made = await world.client.create(CONFIG_MAPS, a_configmap("one", k="v"), "default")

        assert made["metadata"]["uid"]
        assert await world.client.get(CONFIG_MAPS, "one", "default") == made
        assert made == await world.asking.get("/api/v1/namespaces/default/configmaps/one")


async def test_the_namespace_may_stand_in_the_object(sim):
    async with a_world(sim) as world:
        new = a_configmap("one")
        new["metadata"]["namespace"] = "default"

        assert (await world.client.create(CONFIG_MAPS, new))["metadata"]["namespace"] == "default"
        assert new == {"metadata": {"name": "one", "namespace": "default"}, "data": {}}  # It is not ours to change.


async def test_kinds_without_a_namespace_and_in_a_group(sim):
    async with a_world(sim) as world:
        await world.client.create(NODES, {"metadata": {"name": "n1"}})
        await world.client.create(DEPLOYMENTS, a_deployment("web"), "default")

        assert (await world.client.get(NODES, "n1"))["kind"] == "Node"
        assert (await world.client.get(NAMESPACES, "default"))["metadata"]["name"] == "default"
        scale = await world.client.get(DEPLOYMENTS, "web", "default", subresource="scale")
        assert (scale["kind"], scale["spec"]) == ("Scale", {"replicas": 1})


async def test_a_list_comes_in_pages(sim):
    async with a_world(sim) as world:
        for name in ("a", "b", "c"):
            await world.client.create(CONFIG_MAPS, a_configmap(name), "default")

        first = await world.client.list(CONFIG_MAPS, "default", limit=2)
        second = await world.client.list(CONFIG_MAPS, "default", limit=2, continue_=first.continue_)

        assert [item["metadata"]["name"] for item in first.items + second.items] == ["a", "b", "c"]
        assert (first.remaining, bool(first.continue_)) == (1, True)
        assert (second.remaining, second.continue_, second.revision) == (None, "", first.revision)


async def test_a_list_can_be_had_without_taking_the_items_apart(sim):
    async with a_world(sim) as world:
        await world.client.create(CONFIG_MAPS, a_configmap("a"), "default")

        page = await world.client.list_raw(CONFIG_MAPS)

        assert [b'"name":"a"' in item for item in page.items] == [True]
        assert page.revision == (await world.client.list(CONFIG_MAPS)).revision


async def test_a_list_selects_by_labels_fields_and_version(sim):
    async with a_world(sim) as world:
        await world.client.create(CONFIG_MAPS, a_configmap("a", {"app": "x"}), "default")
        before = await world.client.list(CONFIG_MAPS, "default")
        await world.client.create(CONFIG_MAPS, a_configmap("b", {"app": "z"}), "default")

        async def names(**how: Any) -> list[str]:
            page = await world.client.list(CONFIG_MAPS, "default", **how)
            return [item["metadata"]["name"] for item in page.items]

        assert await names(labels="app in (x, y)") == ["a"]
        assert await names(fields="metadata.name=b") == ["b"]
        assert await names(resource_version=before.revision, match="Exact") == ["a"]
        assert await names(resource_version=before.revision, match="NotOlderThan") == ["a", "b"]


async def test_an_empty_list_is_a_list(sim):
    async with a_world(sim) as world:
        page = await world.client.list(PODS)

        assert page == ListPage([], page.revision, "", None)


async def test_a_replacement_of_what_was_read(sim):
    async with a_world(sim) as world:
        made = await world.client.create(CONFIG_MAPS, a_configmap("one", k="1"), "default")

        replaced = await world.client.replace(CONFIG_MAPS, {**made, "data": {"k": "2"}})

        assert replaced["data"] == {"k": "2"}
        with pytest.raises(Conflict) as refused:
            await world.client.replace(CONFIG_MAPS, {**made, "data": {"k": "3"}})
        assert not refused.value.may_have_happened


async def test_the_status_is_written_by_itself(sim):
    async with a_world(sim) as world:
        made = await world.client.create(DEPLOYMENTS, a_deployment("web"), "default")
        changed = {**made, "spec": {**made["spec"], "replicas": 9}, "status": {"replicas": 3}}

        written = await world.client.replace(DEPLOYMENTS, changed, subresource="status")

        assert (written["spec"]["replicas"], written["status"]["replicas"]) == (1, 3)


async def test_patches_of_each_kind(sim):
    async with a_world(sim) as world:
        await world.client.create(DEPLOYMENTS, a_deployment("web"), "default")
        target = (DEPLOYMENTS, "web", "default")
        container = {"name": "side", "image": "y"}

        await world.client.patch(*target, {"spec": {"replicas": 2}})
        strategic = {"spec": {"template": {"spec": {"containers": [container]}}}}
        await world.client.patch(*target, strategic, type=PatchType.STRATEGIC)
        steps = [{"op": "add", "path": "/spec/paused", "value": True}]
        await world.client.patch(*target, steps, type=PatchType.JSON)

        spec = (await world.client.get(*target))["spec"]
        assert (spec["replicas"], spec["paused"]) == (2, True)
        assert [each["name"] for each in spec["template"]["spec"]["containers"]] == ["side", "c"]


async def test_a_patch_may_be_given_as_bytes(sim):
    async with a_world(sim) as world:
        await world.client.create(CONFIG_MAPS, a_configmap("one"), "default")

        assert (await world.client.patch(CONFIG_MAPS, "one", "default", b'{"data":{"k":"v"}}'))["data"] == {"k": "v"}


async def test_what_is_applied_is_made_and_then_belongs_to_its_manager(sim):
    async with a_world(sim) as world:
        wanted = {"metadata": {"name": "one", "namespace": "default"}, "data": {"k": "1"}}

        made = await world.client.apply(CONFIG_MAPS, wanted, manager="ann")

        assert made["metadata"]["managedFields"][0]["manager"] == "ann"
        other = {**wanted, "data": {"k": "2"}}
        with pytest.raises(Conflict) as refused:
            await world.client.apply(CONFIG_MAPS, other, manager="bob")
        assert refused.value.causes[0].field == ".data.k"
        assert (await world.client.apply(CONFIG_MAPS, other, manager="bob", force=True))["data"] == {"k": "2"}


async def test_a_deletion_only_of_the_one_that_was_meant(sim):
    async with a_world(sim) as world:
        made = await world.client.create(CONFIG_MAPS, a_configmap("one"), "default")

        with pytest.raises(Conflict):
            await world.client.delete(CONFIG_MAPS, "one", "default", uid="another")
        with pytest.raises(Conflict):
            await world.client.delete(CONFIG_MAPS, "one", "default", resource_version="1")
        answer = await world.client.delete(CONFIG_MAPS, "one", "default", uid=made["metadata"]["uid"])

        assert answer["status"] == "Success"
        with pytest.raises(NotFound):
            await world.client.get(CONFIG_MAPS, "one", "default")


async def test_a_deletion_with_its_options(sim):
    async with a_world(sim) as world:
        await world.client.create(DEPLOYMENTS, a_deployment("web"), "default")

        held = await world.client.delete(
            DEPLOYMENTS, "web", "default", propagation=Propagation.FOREGROUND, grace_s=5, write=WriteOptions()
        )

        assert held["metadata"]["finalizers"] == ["foregroundDeletion"]


async def test_parts_of_an_object_are_made(sim):
    async with a_world(sim) as world:
        await world.client.create(NODES, {"metadata": {"name": "n1"}, "status": {"allocatable": {"pods": "1"}}})
        await world.client.create(PODS, a_pod("one"), "default")
        binding = {"metadata": {"name": "one"}, "target": {"kind": "Node", "name": "n1"}}

        await world.client.create(PODS, binding, "default", subresource="binding")

        assert (await world.client.get(PODS, "one", "default"))["spec"]["nodeName"] == "n1"


async def test_a_dry_run_changes_nothing(sim):
    async with a_world(sim) as world:
        write = WriteOptions(dry_run=True)
        await world.client.create(CONFIG_MAPS, a_configmap("kept"), "default")

        assert (await world.client.create(CONFIG_MAPS, a_configmap("one"), "default", write=write))[
            "kind"
        ] == "ConfigMap"
        await world.client.delete(CONFIG_MAPS, "kept", "default", write=write)

        assert [each["metadata"]["name"] for each in (await world.client.list(CONFIG_MAPS, "default")).items] == [
            "kept"
        ]


async def test_a_write_says_who_manages_the_fields_and_how_strictly_they_are_read(sim):
    async with a_world(sim) as world:
        made = await world.client.create(
            CONFIG_MAPS, a_configmap("one", k="v"), "default", write=WriteOptions(field_manager="me")
        )

        assert made["metadata"]["managedFields"][0]["manager"] == "me"
        with pytest.raises(BadRequest):
            wrong = {**a_configmap("two"), "dta": {}}
            await world.client.create(CONFIG_MAPS, wrong, "default", write=WriteOptions(field_validation="Strict"))


async def test_any_other_request(sim):
    async with a_world(sim) as world:
        version = await world.client.request("GET", "/version")
        listed = await world.client.request("GET", "/api/v1/pods", query={"limit": "1"}, headers={"Accept": "*/*"})
        review = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}
        who = await world.client.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=review)

        assert (version.status, version.headers["content-type"]) == (200, "application/json")
        assert b"PodList" in listed.body
        assert b'"username":"admin"' in who.body
        with pytest.raises(NotFound):
            await world.client.request("GET", "/nothing/here")


@pytest.mark.parametrize("wrong", ["api", "/a b", "/a\r\nX: y", "/ä"])
async def test_a_path_that_would_change_the_request_is_a_bug(sim, wrong):
    with pytest.raises(ValueError, match="path"):
        await a_client(sim).request("GET", wrong)


async def test_headers_and_methods_that_are_not_the_callers(sim):
    client = a_client(sim)
    with pytest.raises(ValueError, match="content-length"):
        await client.request("GET", "/version", headers={"Content-Length": "5"})
    with pytest.raises(ValueError, match="printable"):
        await client.request("GET", "/version", headers={"X": "a\r\nY: b"})
    with pytest.raises(ValueError, match="HEAD"):
        await client.request("HEAD", "/version")


async def test_no_name_is_not_all_names(sim):
    async with a_world(sim) as world:
        await world.client.create(CONFIG_MAPS, a_configmap("one"), "default")

        for ask in (world.client.get, world.client.delete):
            with pytest.raises(ValueError, match="has no name"):
                await ask(CONFIG_MAPS, "", "default")

        assert len((await world.client.list(CONFIG_MAPS, "default")).items) == 1


async def test_odd_names_stay_in_their_place(sim):
    async with a_world(sim) as world:
        for name in ("a/b", "..", "a?b=c", "ä", "a%2fb"):
            with pytest.raises(ApiError) as refused:
                await world.client.get(CONFIG_MAPS, name, "default")
            assert isinstance(refused.value, NotFound | BadRequest)


# Errors, each by its own way.


async def test_errors_are_named_for_what_to_do_next(sim):
    async with a_world(sim) as world:
        await world.client.create(CONFIG_MAPS, a_configmap("one"), "default")

        with pytest.raises(AlreadyExists) as taken:
            await world.client.create(CONFIG_MAPS, a_configmap("one"), "default")
        with pytest.raises(NotFound) as missing:
            await world.client.get(CONFIG_MAPS, "two", "default")
        with pytest.raises(Invalid) as invalid:
            await world.client.create(CONFIG_MAPS, a_configmap("NO"), "default")
        with pytest.raises(BadRequest):
            await world.client.patch(CONFIG_MAPS, "one", "default", b"{")
        with pytest.raises(BadRequest) as odd:
            await world.client.request("DELETE", "/api/v1/namespaces/default/bindings")

        assert (taken.value.status, taken.value.reason) == (409, "AlreadyExists")
        assert taken.value.details == {"name": "one", "kind": "configmaps"}
        assert str(missing.value) == 'configmaps "two" not found'
        assert [cause.field for cause in invalid.value.causes] == ["metadata.name"]
        assert odd.value.status == 405


async def test_a_stranger_is_unauthorized_and_a_user_may_be_forbidden(sim):
    async with a_world(sim), a_client(sim, token="wrong") as stranger, a_client(sim, token="usertoken") as user:
        with pytest.raises(Unauthorized):
            await stranger.list(PODS)
        with pytest.raises(Forbidden) as refused:
            await user.list(NODES)

        assert refused.value.status == 403


async def test_a_page_that_is_too_old_has_expired(sim):
    store = await open_memory()
    async with a_world(sim, store=store) as world:
        for name in ("a", "b", "c"):
            await world.client.create(CONFIG_MAPS, a_configmap(name), "default")
        page = await world.client.list(CONFIG_MAPS, "default", limit=1)
        await world.client.create(CONFIG_MAPS, a_configmap("d"), "default")
        await store.compact(await store.revision())

        with pytest.raises(Expired):
            await world.client.list(CONFIG_MAPS, "default", limit=1, continue_=page.continue_)


async def test_an_eviction_that_a_budget_does_not_allow_is_throttled_and_not_repeated(sim):
    budgets = DISRUPTION_BUDGETS
    async with a_world(sim) as world:
        pod = a_pod("one")
        pod["metadata"]["labels"] = {"app": "x"}
        pod = await world.client.create(PODS, pod, "default")
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await world.client.replace(PODS, {**pod, "status": ready}, subresource="status")
        budget = {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": "x"}}, "minAvailable": 1}}
        made = await world.client.create(budgets, budget, "default")
        status = {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
        status["observedGeneration"] = made["metadata"]["generation"]
        await world.client.replace(budgets, {**made, "status": status}, subresource="status")

        with pytest.raises(Throttled) as refused:
            await world.client.create(PODS, {"metadata": {"name": "one"}}, "default", subresource="eviction")

        assert refused.value.causes[0].reason == "DisruptionBudget"
        assert world.client.counts.repeats == 0
