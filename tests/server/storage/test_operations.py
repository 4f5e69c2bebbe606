"""Writes that are sent again, and writes of leaders that are none any more."""

from datetime import timedelta

import pytest

from mainstay.env import tasks
from mainstay.store import open_memory
from tests.server.world import CONFIGMAPS, PODS, Client, a_configmap, a_pod, a_server

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


async def test_an_operation_that_is_sent_again_happens_once(sim):
    async with a_server(sim) as client:
        named = {"metadata": {"generateName": "one-"}, "data": {"a": "1"}}
        first = await client.ask("POST", CONFIGMAPS, named, Mainstay_Operation="op-1")
        again = await client.ask("POST", CONFIGMAPS, named, Mainstay_Operation="op-1")

        assert (first.status, again.status) == (201, 201)
        assert again.body == first.body
        assert ("Mainstay-Repeated" in first.headers, again.headers["Mainstay-Repeated"]) == (False, "true")
        assert len((await client.get(CONFIGMAPS))["items"]) == 1


async def test_an_operation_is_known_to_every_server_and_after_the_object_has_moved_on(sim):
    store = await open_memory()
    async with a_server(sim, "one", store) as one, a_server(sim, "two", store) as two:
        created = await one.ask("POST", CONFIGMAPS, a_configmap("x", a="1"), Mainstay_Operation="op-1")
        version = created.body["metadata"]["resourceVersion"]
        await two.ask("PUT", f"{CONFIGMAPS}/x", a_configmap("x", a="2"))

        again = await two.ask("POST", CONFIGMAPS, a_configmap("x", a="1"), Mainstay_Operation="op-1")
        assert (again.status, again.body["metadata"]["resourceVersion"], again.body["data"]) == (
            201,
            version,
            {"a": "1"},
        )
        assert (await one.get(f"{CONFIGMAPS}/x"))["data"] == {"a": "2"}


async def test_one_id_for_two_requests_is_refused(sim):
    async with a_server(sim) as client:
        await client.ask("POST", CONFIGMAPS, a_configmap("x"), Mainstay_Operation="op-1")
        other = await client.ask("POST", CONFIGMAPS, a_configmap("y"), Mainstay_Operation="op-1")

        assert (other.status, other.body["details"]["causes"][0]["reason"]) == (422, "OperationReused")
        assert [item["metadata"]["name"] for item in (await client.get(CONFIGMAPS))["items"]] == ["x"]


async def test_a_write_that_was_refused_may_be_tried_again_under_its_id(sim):
    async with a_server(sim) as client:
        there = await client.create(CONFIGMAPS, a_configmap("x"))
        assert (await client.ask("POST", CONFIGMAPS, a_configmap("x"), Mainstay_Operation="op-1")).status == 409
        await client.delete(f"{CONFIGMAPS}/x")
        made = await client.ask("POST", CONFIGMAPS, a_configmap("x"), Mainstay_Operation="op-1")
        assert (made.status, made.body["metadata"]["uid"] != there["metadata"]["uid"]) == (201, True)


async def test_an_operation_that_changed_nothing_changes_nothing_later(sim):
    async with a_server(sim) as client:
        await client.create(CONFIGMAPS, a_configmap("x", a="1"))
        same = await client.ask("PUT", f"{CONFIGMAPS}/x", a_configmap("x", a="1"), Mainstay_Operation="op-1")
        await client.ask("PUT", f"{CONFIGMAPS}/x", a_configmap("x", a="2"))

        again = await client.ask("PUT", f"{CONFIGMAPS}/x", a_configmap("x", a="1"), Mainstay_Operation="op-1")
        assert (again.status, again.body) == (200, same.body)
        assert (await client.get(f"{CONFIGMAPS}/x"))["data"] == {"a": "2"}


async def test_a_removal_is_an_operation_too_and_leaves_the_next_of_that_name_alone(sim):
    async with a_server(sim) as client:
        await client.create(CONFIGMAPS, a_configmap("x"))
        first = await client.ask("DELETE", f"{CONFIGMAPS}/x", Mainstay_Operation="op-1")
        await client.create(CONFIGMAPS, a_configmap("x"))
        again = await client.ask("DELETE", f"{CONFIGMAPS}/x", Mainstay_Operation="op-1")

        assert again.body == first.body
        assert (await client.ask("GET", f"{CONFIGMAPS}/x")).status == 200


async def test_a_binding_that_is_sent_again_is_not_a_conflict(sim):
    async with a_server(sim) as client:
        await client.create(PODS, a_pod("web"))
        body = {"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "n1"}}
        for operation, status, repeated in (("op-1", 201, None), ("op-1", 201, "true"), ("op-2", 409, None)):
            answer = await client.ask("POST", f"{PODS}/web/binding", body, Mainstay_Operation=operation)
            assert (answer.status, answer.headers.get("Mainstay-Repeated")) == (status, repeated)


async def test_an_eviction_that_is_sent_again_is_answered_and_leaves_the_next_of_that_name_alone(sim):
    async with a_server(sim) as client:
        body = {"metadata": {"name": "web"}}
        for repeated in (None, "true"):
            await client.create(PODS, a_pod("web"))
            answer = await client.ask("POST", f"{PODS}/web/eviction", body, Mainstay_Operation="op-1")
            assert (answer.status, answer.headers.get("Mainstay-Repeated")) == (201, repeated)
        assert (await client.ask("GET", f"{PODS}/web")).status == 200


async def test_operations_are_forgotten_after_an_hour(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await client.ask("POST", CONFIGMAPS, a_configmap("x"), Mainstay_Operation="op-1")
        await tasks.sleep(timedelta(minutes=50))
        assert len((await store.range("~operations/")).entries) == 1
        await tasks.sleep(timedelta(minutes=20))
        assert (await store.range("~operations/")).entries == []


@pytest.mark.parametrize("name", ["", " ", "a/b", "x" * 129, "ü"])
async def test_an_id_that_is_none_is_refused(sim, name):
    async with a_server(sim) as client:
        answer = await client.ask("POST", CONFIGMAPS, a_configmap("x"), Mainstay_Operation=name)
        assert answer.status == (201 if not name.strip() else 400)


async def acquired(client: Client, holder: str, version: str = "") -> str:
    """Become the holder of the lease `boss`. The term."""
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15}
    if not version:
        return str(
            (await client.create(LEASES, {"metadata": {"name": "boss"}, "spec": spec}))["metadata"]["resourceVersion"]
        )
    body = {"metadata": {"name": "boss", "resourceVersion": version}, "spec": spec}
    answer = await client.ask("PUT", f"{LEASES}/boss", body)
    assert answer.status == 200
    return str(answer.body["metadata"]["resourceVersion"])


async def test_a_deposed_leaders_write_is_refused(sim):
    async with a_server(sim) as client:
        first = await acquired(client, "one")
        made = await client.ask("POST", CONFIGMAPS, a_configmap("x"), Mainstay_Term=f"kube-system/boss={first}")
        assert made.status == 201

        second = await acquired(client, "two", first)
        for method, path, body in (
            ("POST", CONFIGMAPS, a_configmap("y")),
            ("PUT", f"{CONFIGMAPS}/x", a_configmap("x", a="1")),
            ("DELETE", f"{CONFIGMAPS}/x", None),
        ):
            late = await client.ask(method, path, body, Mainstay_Term=f"kube-system/boss={first}")
            assert (late.status, late.body["details"]["causes"][0]["reason"]) == (409, "Fenced")
        assert [item.get("data") for item in (await client.get(CONFIGMAPS))["items"]] == [None]
        good = await client.ask("POST", CONFIGMAPS, a_configmap("y"), Mainstay_Term=f"kube-system/boss={second}")
        assert good.status == 201


async def test_a_renewal_does_not_end_the_term(sim):
    async with a_server(sim) as client:
        term = await acquired(client, "one")
        patch = {"spec": {"renewTime": "2026-01-01T00:00:01.000000Z"}}
        renewed = await client.ask("PATCH", f"{LEASES}/boss", patch, "application/merge-patch+json")
        assert renewed.body["metadata"]["resourceVersion"] != term
        made = await client.ask("POST", CONFIGMAPS, a_configmap("x"), Mainstay_Term=f"kube-system/boss={term}")
        assert made.status == 201


async def test_a_lease_that_is_gone_ends_the_term_and_the_next_one_does_not_bring_it_back(sim):
    async with a_server(sim) as client:
        term = await acquired(client, "one")
        await client.delete(f"{LEASES}/boss")
        assert (
            await client.ask("POST", CONFIGMAPS, a_configmap("x"), Mainstay_Term=f"kube-system/boss={term}")
        ).status == 409
        await acquired(client, "one")
        assert (
            await client.ask("POST", CONFIGMAPS, a_configmap("x"), Mainstay_Term=f"kube-system/boss={term}")
        ).status == 409


@pytest.mark.parametrize("term", ["boss", "kube-system/boss", "kube-system/boss=0", "kube-system/boss=x", "a/b/c=1"])
async def test_a_term_that_cannot_be_read_is_refused(sim, term):
    async with a_server(sim) as client:
        assert (await client.ask("POST", CONFIGMAPS, a_configmap("x"), Mainstay_Term=term)).status == 400
