"""Metadata of every kind are of the right types after every way to write an object, or nothing is stored.

Each case is one that used to be stored, or to be answered with 500.
"""

import json
from typing import Any

import pytest

from mainstay.api.kind import Object
from mainstay.store import open_memory
from mainstay.store.interface import Check, Put, Store
from tests.api.definitions import a_crd
from tests.server.world import PODS, Client, a_pod, a_server

COMPONENTS = "/apis/mainstay.dev/v1/componentstates"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"

WRONG: dict[str, Object] = {
    "labels that are a number": {"labels": 0},
    "labels that are empty text": {"labels": ""},
    "labels that are a list": {"labels": []},
    "labels that are text": {"labels": "x"},
    "a label that is a number": {"labels": {"a": 5}},
    "an annotation that is an object": {"annotations": {"a": {"b": 1}}},
    "a finalizer that is a number": {"finalizers": [7]},
    "an owner that is a number": {"ownerReferences": [0]},
    "a controller that is text": {
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b", "controller": "yes"}]
    },
    "managed fields that are a number": {"managedFields": 3},
    "managed fields of numbers": {"managedFields": [3]},
    "a name that is a number": {"name": 3},
    "a generateName that is a list": {"generateName": ["x"]},
    "a creation time that is no time": {"creationTimestamp": "yesterday"},
    "a grace period that is text": {"deletionGracePeriodSeconds": "9"},
    "a generation that is a fraction": {"generation": 1.5},
}


def a_widget(name: str, **metadata: Any) -> Object:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name, **metadata}}


def a_component(name: str, **metadata: Any) -> Object:
    return {"apiVersion": "mainstay.dev/v1", "kind": "ComponentState", "metadata": {"name": name, **metadata}}


async def with_objects(client: Client) -> None:
    crd = a_crd("widgets", "Widget")
    await client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    await client.create(COMPONENTS, a_component("one"))
    await client.create(PODS, a_pod("one"))
    while (await client.ask("POST", WIDGETS, a_widget("one"))).status != 201:
        pass  # It is not established yet.


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("place", [COMPONENTS, WIDGETS, PODS], ids=["own kind", "custom kind", "pod"])
async def test_wrong_metadata_are_refused_by_every_way_to_write(sim, what, place):
    async with a_server(sim) as client:
        await with_objects(client)
        before = await client.get(f"{place}/one")
        wrong = WRONG[what]
        whole = {**before, "metadata": {**before["metadata"], **wrong}}
        operations = [{"op": "add", "path": f"/metadata/{name}", "value": value} for name, value in wrong.items()]
        applied = {name: before[name] for name in ("apiVersion", "kind")} | {"metadata": wrong}
        made: Object = {"metadata": {"name": "two", **wrong}}
        if place == PODS:
            made["spec"] = a_pod("two")["spec"]

        answers = [
            await client.ask("POST", place, made),
            await client.ask("PUT", f"{place}/one", whole),
            await client.ask("PATCH", f"{place}/one", operations, "application/json-patch+json"),
            await client.ask("PATCH", f"{place}/one", {"metadata": wrong}, "application/merge-patch+json"),
            await client.ask("PATCH", f"{place}/one", {"metadata": wrong}, "application/strategic-merge-patch+json"),
            await client.ask(
                "PATCH", f"{place}/one?fieldManager=me&force=true", applied, "application/apply-patch+yaml"
            ),
        ]

        expected = [(400,), (400,), (422,), (422,), (422,) if place == PODS else (415,), (400,)]
        assert all(a.status in e for a, e in zip(answers, expected, strict=True)), [(a.status, a.body) for a in answers]
        assert await client.get(f"{place}/one") == before


@pytest.mark.parametrize("value", [0, "", [], {"a": 5}])
async def test_a_patch_with_wrong_labels_ends_no_watch(sim, value):
    async with a_server(sim) as client:
        await with_objects(client)
        async with client.watch(f"{COMPONENTS}?watch=1&labelSelector=a%3Db") as events, client.watch(f"{PODS}?watch=1"):
            patch = [{"op": "add", "path": "/metadata/labels", "value": value}]
            answer = await client.ask("PATCH", f"{COMPONENTS}/one", patch, "application/json-patch+json")
            assert answer.status == 422
            await client.create(COMPONENTS, a_component("two", labels={"a": "b"}))
            assert (await events.next())["object"]["metadata"]["name"] == "two"


async def test_null_and_unknown_metadata_are_dropped_with_a_warning(sim):
    async with a_server(sim) as client:
        await with_objects(client)
        patch = [
            {"op": "add", "path": "/metadata/labels", "value": None},
            {"op": "add", "path": "/metadata/colour", "value": "red"},
        ]
        for place in (COMPONENTS, WIDGETS):
            answer = await client.ask("PATCH", f"{place}/one", patch, "application/json-patch+json")
            assert answer.status == 200
            assert answer.headers["Warning"] == '299 - "unknown field \\"metadata.colour\\""'
            assert "colour" not in answer.body["metadata"]
            assert "labels" not in answer.body["metadata"]
            strict = await client.ask(
                "PATCH", f"{place}/one?fieldValidation=Strict", patch, "application/json-patch+json"
            )
            assert strict.status == 422


@pytest.mark.parametrize("patch", [{"metadata": "x"}, {"metadata": {"resourceVersion": 5}}, {"spec": 3}, {"kind": 1}])
async def test_a_patch_of_a_scale_that_makes_no_sense_is_refused(sim, patch):
    place = "/apis/apps/v1/namespaces/default/replicasets"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    async with a_server(sim) as client:
        await client.create(place, {"metadata": {"name": "web"}, "spec": spec})
        answer = await client.ask("PATCH", f"{place}/web/scale", patch, "application/merge-patch+json")
        assert (answer.status, answer.body["reason"]) == (422, "Invalid")


@pytest.mark.parametrize(
    "body",
    [b'{"items":[{"metadata":{"name":"\xff"},"target":{"name":"n"}}]}', b'{"items":' + b"[" * 5000, b"{}", b"\xff"],
)
async def test_a_batch_of_bindings_that_cannot_be_read_is_refused(sim, body):
    async with a_server(sim) as client:
        answer = await client.ask("POST", "/apis/mainstay.dev/v1/bindings", body)
        assert answer.status == 400


async def test_a_binding_cannot_bring_labels_that_are_none(sim):
    async with a_server(sim) as client:
        await client.create(PODS, a_pod("web"))
        item = {"metadata": {"namespace": "default", "name": "web", "labels": {"": "!"}}, "target": {"name": "n"}}
        answer = await client.ask("POST", "/apis/mainstay.dev/v1/bindings", {"items": [item]})
        assert answer.body["items"][0]["code"] == 422
        assert "nodeName" not in (await client.get(f"{PODS}/web"))["spec"]


OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1"}


@pytest.mark.parametrize(
    ("metadata", "field", "text"),
    [
        ({"ownerReferences": [{**OWNER, "uid": ""}]}, "metadata.ownerReferences.uid", "must not be empty"),
        (
            {"ownerReferences": [{**OWNER, "apiVersion": "a/b/c"}]},
            "metadata.ownerReferences.apiVersion",
            "version must",
        ),
        (
            {"ownerReferences": [{**OWNER, "controller": True}, {**OWNER, "name": "b", "controller": True}]},
            "metadata.ownerReferences",
            'Found "true" in references for ReplicaSet/web and ReplicaSet/b',
        ),
        (
            {"ownerReferences": [{**OWNER, "apiVersion": "v1", "kind": "Event"}]},
            "metadata.ownerReferences",
            "disallowed",
        ),
        ({"finalizers": ["a b/c"]}, "metadata.finalizers", "prefix part"),
        ({"finalizers": ["keep"]}, "metadata.finalizers", "neither a standard finalizer name"),
        ({"finalizers": ["orphan", "foregroundDeletion"]}, "metadata.finalizers", "cannot be both set"),
        ({"generateName": "Web_"}, "metadata.generateName", "RFC 1123"),
    ],
)
async def test_metadata_of_the_right_types_must_make_sense_too(sim, metadata, field, text):
    async with a_server(sim) as client:
        answer = await client.ask("POST", PODS, {**a_pod("web"), "metadata": {"name": "web", **metadata}})
        assert answer.status == 422
        assert any(each["field"] == field and text in each["message"] for each in answer.body["details"]["causes"])


async def poison(store: Store, metadata: Object) -> None:
    key = "mainstay.dev/componentstates/one"
    entry = await store.get(key)
    assert entry is not None
    poisoned = json.loads(entry.value)
    poisoned["metadata"] |= metadata
    await store.commit([Check(key, entry.revision)], [Put(key, json.dumps(poisoned, separators=(",", ":")).encode())])


async def test_an_object_that_an_older_version_has_poisoned_is_repaired_at_the_start(sim):
    """Version 0.2 stored this. Its labels ended the feed, its finalizers every informer of the kind."""
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await client.create(COMPONENTS, a_component("one", labels={"good": "yes"}, annotations={"a": "b"}))
    await poison(store, {"labels": {"bad": 5, "good": "yes"}, "finalizers": [7], "annotations": 0, "x": 1})

    async with a_server(sim, "second", store) as client:
        found = await client.get(f"{COMPONENTS}/one")
        assert found["metadata"]["labels"] == {"good": "yes"}
        assert not {"finalizers", "annotations", "x"} & set(found["metadata"])
        assert len((await client.get(f"{COMPONENTS}?labelSelector=good%3Dyes"))["items"]) == 1
        await client.delete(f"{COMPONENTS}/one")


@pytest.mark.parametrize("how", ["delete", "patch", "list"])
async def test_a_poisoned_object_can_be_deleted_patched_and_listed_without_a_restart(sim, how):
    """Another server, of an older version, may write one at any time."""
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await client.create(COMPONENTS, a_component("one"))
        await poison(store, {"labels": 0, "finalizers": [7], "managedFields": 5, "ownerReferences": [0]})

        if how == "delete":
            await client.delete(f"{COMPONENTS}/one")
        elif how == "patch":
            patched = await client.patch(f"{COMPONENTS}/one", {"metadata": {"labels": {"a": "b"}}})
            assert patched["metadata"]["labels"] == {"a": "b"}
            assert "ownerReferences" not in patched["metadata"]
        else:
            assert (await client.get(f"{COMPONENTS}?labelSelector=a%3Db"))["items"] == []


@pytest.mark.parametrize("kind", ["json", "merge", "strategic-merge", "apply"])
@pytest.mark.parametrize("validation", ["Strict", "Warn", "Ignore"])
async def test_a_key_that_is_twice_in_a_patch_is_an_error_a_warning_or_nothing(sim, kind, validation):
    body = b'{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a":"b","a":"c"}}}'
    if kind == "json":
        body = b'[{"op":"add","path":"/metadata/labels","value":{"a":"b","a":"c"}}]'
    media = "application/apply-patch+yaml" if kind == "apply" else f"application/{kind}-patch+json"
    async with a_server(sim) as client:
        await client.create(PODS, a_pod("one"))
        path = f"{PODS}/one?fieldManager=me&fieldValidation={validation}"
        answer = await client.ask("PATCH", path, body, media)
        assert answer.status == ({"apply": 400}.get(kind, 422) if validation == "Strict" else 200)
        assert ("Warning" in answer.headers) == (validation == "Warn")
        if validation != "Strict":
            assert answer.body["metadata"]["labels"] == {"a": "c"}


@pytest.mark.parametrize("replicas", ["x", -1, 1.5, None, {}])
async def test_a_scale_that_is_applied_is_checked_as_any_other(sim, replicas):
    place = "/apis/apps/v1/namespaces/default/replicasets"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {}, "spec": {"replicas": replicas}}
    async with a_server(sim) as client:
        await client.create(place, {"metadata": {"name": "web"}, "spec": spec})
        answer = await client.ask("PATCH", f"{place}/web/scale?fieldManager=me", scale, "application/apply-patch+yaml")
        assert answer.status == 400
        assert (await client.get(f"{place}/web"))["spec"]["replicas"] == 1


HUGE = 2**63 - 1


async def test_a_grace_period_of_ages_does_not_break_the_deletion(sim):
    async with a_server(sim) as client:
        for name, seconds in (("asked", 30), ("said", HUGE), ("below", -5)):
            await client.create(PODS, a_pod(name, nodeName="n1", terminationGracePeriodSeconds=seconds))
        asked = await client.delete(f"{PODS}/asked", {"gracePeriodSeconds": HUGE})
        said = await client.delete(f"{PODS}/said")
        below = await client.delete(f"{PODS}/below")
        given = [each["metadata"]["deletionGracePeriodSeconds"] for each in (asked, said, below)]
        assert given == [2**31 - 1, 2**31 - 1, 1]


@pytest.mark.parametrize("amount", ["1e18", "1e400", "9999999999999999999999"])
async def test_pods_that_no_machine_can_hold_are_charged_with_what_can_be_stored(sim, amount):
    async with a_server(sim) as client:
        requests = {"requests": {"cpu": amount, "memory": amount}}
        containers = [{"name": "c", "image": "x", "resources": requests}]
        for name in ("one", "two"):
            await client.create(PODS, a_pod(name, nodeName="n1", containers=containers))
        await client.create(PODS, a_pod("three", containers=containers))
        node = {"metadata": {"name": "n2"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "9"}}}
        await client.create("/api/v1/nodes", node)
        item = {"metadata": {"namespace": "default", "name": "three"}, "target": {"name": "n2"}}
        answer = await client.ask("POST", "/apis/mainstay.dev/v1/bindings", {"items": [item]})
        assert (answer.body["items"][0]["code"], answer.body["items"][0]["reason"]) == (409, "CapacityChanged")
