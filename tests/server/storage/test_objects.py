"""Objects through the API: made, changed, removed."""

import asyncio
import json

import pytest

from mainstay.store import open_memory
from tests.server.world import CONFIGMAPS, DEPLOYMENTS, PODS, a_configmap, a_deployment, a_pod, a_server


async def test_an_object_is_given_an_identity_and_can_be_read_back(sim):
    async with a_server(sim) as client:
        made = await client.create(CONFIGMAPS, a_configmap("one", k="v"))

        assert made["kind"] == "ConfigMap"
        assert made["metadata"]["namespace"] == "default"
        assert made["metadata"]["uid"]
        assert made["metadata"]["creationTimestamp"].endswith("Z")
        assert await client.get(f"{CONFIGMAPS}/one") == made


async def test_a_name_can_be_taken_once(sim):
    async with a_server(sim) as client:
        await client.create(CONFIGMAPS, a_configmap("one"))

        answer = await client.ask("POST", CONFIGMAPS, a_configmap("one"))

        assert (answer.status, answer.body["reason"]) == (409, "AlreadyExists")
        assert answer.body["details"] == {"name": "one", "kind": "configmaps"}


async def test_a_generated_name_has_the_prefix_and_is_new_each_time(sim):
    async with a_server(sim) as client:
        body = {"metadata": {"generateName": "gen-"}}
        names = {(await client.create(CONFIGMAPS, body))["metadata"]["name"] for _ in range(20)}

        assert len(names) == 20
        assert all(name.startswith("gen-") and len(name) == 9 for name in names)


async def test_an_update_of_an_old_version_is_a_conflict(sim):
    async with a_server(sim) as client:
        first = await client.create(CONFIGMAPS, a_configmap("one", k="1"))
        await client.patch(f"{CONFIGMAPS}/one", {"data": {"k": "2"}})

        answer = await client.ask("PUT", f"{CONFIGMAPS}/one", {**first, "data": {"k": "3"}})

        assert (answer.status, answer.body["reason"]) == (409, "Conflict")
        assert "the object has been modified" in answer.body["message"]
        assert (await client.get(f"{CONFIGMAPS}/one"))["data"] == {"k": "2"}


async def test_a_write_that_changes_nothing_makes_no_version_and_no_event(sim):
    async with a_server(sim) as client:
        made = await client.create(CONFIGMAPS, a_configmap("one", k="v"))
        version = made["metadata"]["resourceVersion"]
        async with client.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={version}") as events:
            assert await client.patch(f"{CONFIGMAPS}/one", {"data": {"k": "v"}}) == made
            answer = await client.ask("PUT", f"{CONFIGMAPS}/one", made)
            assert answer.body == made
            await client.patch(f"{CONFIGMAPS}/one", {"data": {"k": "new"}})

            assert (await events.next())["object"]["data"] == {"k": "new"}


async def test_patches_without_a_version_never_conflict(sim):
    async with a_server(sim) as client:
        await client.create(CONFIGMAPS, a_configmap("one"))

        await asyncio.gather(*(client.patch(f"{CONFIGMAPS}/one", {"data": {f"k{n}": "v"}}) for n in range(15)))

        assert len((await client.get(f"{CONFIGMAPS}/one"))["data"]) == 15


async def test_the_three_kinds_of_patches(sim):
    async with a_server(sim) as client:
        await client.create(DEPLOYMENTS, a_deployment("web"))
        path = f"{DEPLOYMENTS}/web"

        container = {"name": "side", "image": "y"}
        merged = await client.patch(
            path, {"spec": {"template": {"spec": {"containers": [container]}}}}, "strategic-merge"
        )
        replaced = await client.patch(path, [{"op": "replace", "path": "/spec/replicas", "value": 4}], "json")
        plain = await client.patch(path, {"spec": {"replicas": None}}, "merge")

        names = [each["name"] for each in merged["spec"]["template"]["spec"]["containers"]]
        assert sorted(names) == ["c", "side"]
        assert replaced["spec"]["replicas"] == 4
        assert plain["spec"]["replicas"] == 1  # Nothing was said, so the default is filled in.


async def test_generation_counts_changes_of_what_is_wanted_only(sim):
    async with a_server(sim) as client:
        made = await client.create(DEPLOYMENTS, a_deployment("web"))
        path = f"{DEPLOYMENTS}/web"
        labelled = await client.patch(path, {"metadata": {"labels": {"a": "b"}}})
        status = await client.patch(f"{path}/status", {"status": {"replicas": 3}})
        scaled = await client.patch(path, {"spec": {"replicas": 2}})

        generations = [each["metadata"]["generation"] for each in (made, labelled, status, scaled)]
        assert generations == [1, 1, 1, 2]


async def test_status_and_spec_are_written_through_different_doors(sim):
    async with a_server(sim) as client:
        await client.create(DEPLOYMENTS, a_deployment("web"))
        path = f"{DEPLOYMENTS}/web"

        await client.patch(f"{path}/status", {"spec": {"replicas": 9}, "status": {"replicas": 3}})
        obj = await client.patch(path, {"spec": {"replicas": 2}, "status": {"replicas": 7}})

        assert (obj["spec"]["replicas"], obj["status"]["replicas"]) == (2, 3)


async def test_a_pods_status_is_the_same_whichever_way_it_is_patched(sim):
    # A patch that speaks of the status alone does not read the rest of the pod; a JSON patch does.
    async with a_server(sim) as client:
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": None}]}
        whole = [{"op": "add", "path": f"/status/{name}", "value": value} for name, value in status.items()]
        label = {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}
        part = {"metadata": {"labels": {"a": "b"}}, "status": status}
        ways = {"json": [*whole, label], "merge": part, "strategic-merge": part}
        found = []
        for way, patch in ways.items():
            made = await client.create(PODS, a_pod(way, nodeSelector={"x": "y"}, automountServiceAccountToken=False))
            await client.patch(f"{PODS}/{way}/status", patch, way)
            changed = await client.patch(f"{PODS}/{way}/status", patch, way)
            assert changed == await client.get(f"{PODS}/{way}")
            assert changed["spec"] == made["spec"]
            for unique in ("name", "uid", "resourceVersion", "creationTimestamp"):
                del changed["metadata"][unique]
            found.append(changed)

        assert found[0] == found[1] == found[2]
        assert found[0]["status"]["conditions"] == [{"type": "Ready", "status": "True"}]


async def test_a_status_patch_that_speaks_of_the_spec_leaves_it_alone(sim):
    async with a_server(sim) as client:
        made = await client.create(PODS, a_pod("one"))

        patch = {"spec": {"nodeName": "n"}, "status": {"phase": "Running"}}
        changed = await client.patch(f"{PODS}/one/status", patch, "strategic-merge")

        assert (changed["spec"], changed["status"]["phase"]) == (made["spec"], "Running")


async def test_scale_shows_and_sets_the_replicas(sim):
    async with a_server(sim) as client:
        await client.create(DEPLOYMENTS, a_deployment("web", 3))

        scale = await client.get(f"{DEPLOYMENTS}/web/scale")
        after = await client.patch(f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": 5}})

        assert (scale["kind"], scale["spec"], scale["status"]["selector"]) == ("Scale", {"replicas": 3}, "app=web")
        assert after["spec"] == {"replicas": 5}
        assert (await client.get(f"{DEPLOYMENTS}/web"))["spec"]["replicas"] == 5


async def test_an_object_with_finalizers_stays_until_the_last_is_gone(sim):
    async with a_server(sim) as client:
        body = a_configmap("one")
        body["metadata"]["finalizers"] = ["example.com/a"]
        made = await client.create(CONFIGMAPS, body)
        start = made["metadata"]["resourceVersion"]

        deleted = await client.delete(f"{CONFIGMAPS}/one")
        assert "deletionTimestamp" in deleted["metadata"]
        more = {"metadata": {"finalizers": ["example.com/a", "b.io/b"]}}
        again = await client.ask("PATCH", f"{CONFIGMAPS}/one", more, "application/merge-patch+json")
        assert again.status == 422
        await client.patch(f"{CONFIGMAPS}/one", {"metadata": {"finalizers": None}})

        assert (await client.ask("GET", f"{CONFIGMAPS}/one")).status == 404
        async with client.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={start}") as events:
            assert [event["type"] for event in await events.take(2)] == ["MODIFIED", "DELETED"]


async def test_a_bound_pod_is_given_time_to_end_and_an_unbound_one_is_not(sim):
    async with a_server(sim) as client:
        await client.create(PODS, a_pod("waiting"))
        await client.create(PODS, a_pod("running"))
        binding = {"metadata": {"name": "running"}, "target": {"kind": "Node", "name": "n1"}}
        assert (await client.ask("POST", f"{PODS}/running/binding", binding)).status == 201

        await client.delete(f"{PODS}/waiting")
        ending = await client.delete(f"{PODS}/running")

        assert (await client.ask("GET", f"{PODS}/waiting")).status == 404
        assert ending["metadata"]["deletionGracePeriodSeconds"] == 30
        assert (await client.get(f"{PODS}/running"))["spec"]["nodeName"] == "n1"
        await client.delete(f"{PODS}/running?gracePeriodSeconds=0")
        assert (await client.ask("GET", f"{PODS}/running")).status == 404


async def test_of_many_schedulers_that_bind_one_pod_exactly_one_succeeds(sim):
    async with a_server(sim) as client:
        await client.create(PODS, a_pod("web"))

        def binding(node: int) -> dict[str, object]:
            return {"metadata": {"name": "web"}, "target": {"kind": "Node", "name": f"n{node}"}}

        answers = await asyncio.gather(*(client.ask("POST", f"{PODS}/web/binding", binding(n)) for n in range(10)))

        assert sorted(answer.status for answer in answers) == [201] + [409] * 9
        pod = await client.get(f"{PODS}/web")
        assert [each["type"] for each in pod["status"]["conditions"]] == ["PodScheduled"]


async def test_preconditions_keep_a_deletion_from_hitting_the_wrong_object(sim):
    async with a_server(sim) as client:
        made = await client.create(CONFIGMAPS, a_configmap("one"))

        for preconditions in ({"uid": "another uid"}, {"resourceVersion": "1"}):
            answer = await client.ask("DELETE", f"{CONFIGMAPS}/one", {"preconditions": preconditions})
            assert (answer.status, answer.body["reason"]) == (409, "Conflict")
        await client.delete(f"{CONFIGMAPS}/one", {"preconditions": {"uid": made["metadata"]["uid"]}})


async def test_a_collection_is_deleted_by_label(sim):
    async with a_server(sim) as client:
        for number in range(4):
            await client.create(CONFIGMAPS, a_configmap(f"c{number}", {"even": str(number % 2 == 0)}))

        deleted = await client.delete(f"{CONFIGMAPS}?labelSelector=even%3DTrue")

        assert [each["metadata"]["name"] for each in deleted["items"]] == ["c0", "c2"]
        left = await client.get(CONFIGMAPS)
        assert [each["metadata"]["name"] for each in left["items"]] == ["c1", "c3"]


async def test_a_dry_run_does_everything_but_keep_it(sim):
    async with a_server(sim) as client:
        answer = await client.ask("POST", f"{CONFIGMAPS}?dryRun=All", a_configmap("one"))
        assert (answer.status, "resourceVersion" in answer.body["metadata"]) == (201, False)
        assert (await client.ask("GET", f"{CONFIGMAPS}/one")).status == 404

        await client.create(CONFIGMAPS, a_configmap("one", k="v"))
        await client.ask("PATCH", f"{CONFIGMAPS}/one?dryRun=All", {"data": {"k": "w"}}, "application/merge-patch+json")
        await client.ask("DELETE", f"{CONFIGMAPS}/one?dryRun=All")
        assert (await client.get(f"{CONFIGMAPS}/one"))["data"] == {"k": "v"}


async def test_nothing_is_made_in_a_namespace_that_is_not_there_or_is_going(sim):
    async with a_server(sim) as client:
        missing = await client.ask("POST", "/api/v1/namespaces/none/configmaps", a_configmap("one"))
        assert (missing.status, missing.body["message"]) == (404, 'namespaces "none" not found')

        await client.create("/api/v1/namespaces", {"metadata": {"name": "going"}})
        gone = await client.delete("/api/v1/namespaces/going")
        assert gone["status"]["phase"] == "Terminating"
        late = await client.ask("POST", "/api/v1/namespaces/going/configmaps", a_configmap("one"))
        assert (late.status, late.body["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")


async def test_a_write_can_say_which_decision_made_it_and_why(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        headers = {"Mainstay_Decision": "d-17", "Mainstay_Cause": "w-3"}
        answer = await client.ask("POST", CONFIGMAPS, a_configmap("one"), **headers)
        revision = int(answer.body["metadata"]["resourceVersion"])

        (entry,) = (await store.range("~lineage/")).entries
        said = {"key": "core/configmaps/default/one", "decision": "d-17", "cause": "w-3"}
        assert (entry.revision, json.loads(entry.value)) == (revision, said)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"a":', "unexpected"),
        (b"\xff\xfe{}", ""),
        (b'{"metadata":{"name":"x"},"data":{"a":1}}', "data"),
        (b"[]", ""),
        (b'{"metadata":{"name":"Bad_Name"}}', "RFC 1123"),
        (b'{"metadata":{}}', "name or generateName is required"),
        (b'{"metadata":{"name":"x","namespace":"other"}}', "does not match the namespace"),
        (b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"}}', "Pod"),
    ],
)
async def test_a_bad_body_is_refused_in_words_and_changes_nothing(sim, body, said):
    async with a_server(sim) as client:
        before = (await client.get(CONFIGMAPS))["metadata"]["resourceVersion"]

        answer = await client.ask("POST", CONFIGMAPS, body)

        assert answer.status in (400, 422), answer
        assert said.lower() in answer.body["message"].lower()
        assert (await client.get(CONFIGMAPS))["metadata"]["resourceVersion"] == before


async def test_others_than_masters_may_nothing_and_anonymous_ones_look_at_health(sim):
    async with a_server(sim) as client:
        alice = await client.ask("GET", PODS, Authorization="Bearer usertoken")
        anonymous = await client.ask("GET", PODS, Authorization="")
        wrong = await client.ask("GET", PODS, Authorization="Bearer nope")

        assert (alice.status, anonymous.status, wrong.status) == (403, 403, 401)
        assert 'User "alice" cannot list resource "pods"' in alice.body["message"]
        for path in ("/healthz", "/livez", "/readyz", "/version"):
            assert (await client.ask("GET", path, Authorization="")).status == 200
        assert (await client.ask("GET", "/apis", Authorization="")).status == 403


async def test_fields_that_a_custom_kind_does_not_have_are_reported_as_asked(sim):
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "Gear", "plural": "gears"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    gears = "/apis/example.com/v1/namespaces/default/gears"
    async with a_server(sim) as client:
        crd = {"metadata": {"name": "gears.example.com"}, "spec": spec}
        await client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        await asyncio.sleep(1)
        body = {
            "apiVersion": "example.com/v1",
            "kind": "Gear",
            "metadata": {"name": "g"},
            "spec": {"size": 1, "sise": 2},
        }

        strict = await client.ask("POST", f"{gears}?fieldValidation=Strict", body)
        warned = await client.ask("POST", f"{gears}?fieldValidation=Warn", body)

        assert (strict.status, 'unknown field "spec.sise"' in strict.body["message"]) == (400, True)
        assert (warned.status, warned.body["spec"]) == (201, {"size": 1})
        assert warned.headers["Warning"] == '299 - "unknown field \\"spec.sise\\""'
