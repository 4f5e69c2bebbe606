"""Pod Security admission: what labels of a namespace do to pods, to what makes pods, and to pods that are there."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from mainstay.api.pod_security import TEMPLATE_PATHS
from mainstay.api.pod_security_checks import SecurityLevel
from mainstay.server.auth.authentication import Authenticator
from mainstay.server.request.audit import Audit
from mainstay.server.request.pipeline import PipelineOptions
from mainstay.server.storage import pod_security
from mainstay.sim.simulation import Simulation
from mainstay.store import open_memory
from mainstay.store.interface import Check, Committed, TransactionRefused, Write
from tests.server.world import PODS, Answer, Client, a_server
from tests.twins.pod_security import LABEL_TWINS, Twin

NAMESPACES = "/api/v1/namespaces"
DEFAULT = f"{NAMESPACES}/default"
STRICT = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
UNRESTRICTED = (
    'allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false), '
    'unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]), '
    'runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true), '
    'seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or '
    '"Localhost")'
)


def spec(context: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "x:1", **({"securityContext": context} if context else {})}
    return {"containers": [container], **fields}


def a_pod(name: str, context: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec(context, **fields)}


HOST_PATH: dict[str, Any] = {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}


def warnings(answer: Answer) -> list[str]:
    """Those of Pod Security."""
    return [each for each in answer.warnings if "PodSecurity" in each]


async def test_a_namespace_without_labels_enforces_baseline(sim):
    async with a_server(sim) as client:
        assert (await client.ask("POST", PODS, a_pod("plain"))).status == 201
        refused = await client.ask("POST", PODS, a_pod("host", {"privileged": True}, **HOST_PATH))

        assert (refused.status, refused.body["reason"]) == (403, "Forbidden")
        assert refused.body["message"] == (
            'pods "host" is forbidden: violates PodSecurity "baseline:latest": hostPath volumes (volume "v"), '
            'privileged (container "c" must not set securityContext.privileged=true)'
        )
        assert refused.body["details"]["causes"][0]["reason"] == "PodSecurityViolated"
        assert (await client.ask("GET", f"{PODS}/host")).status == 404


async def test_the_label_restricted_is_enforced_from_the_moment_in_which_it_is_set(sim):
    """C4 of the attacks: it was accepted and changed nothing."""
    async with a_server(sim) as client:
        await client.label_namespace(enforce="restricted")
        refused = await client.ask("POST", PODS, a_pod("a"))
        assert refused.status == 403
        assert (
            refused.body["message"]
            == f'pods "a" is forbidden: violates PodSecurity "restricted:latest": {UNRESTRICTED}'
        )
        assert (await client.ask("POST", PODS, a_pod("a", STRICT))).status == 201

        await client.label_namespace(enforce="privileged")
        assert (await client.ask("POST", PODS, a_pod("b", {"privileged": True}, **HOST_PATH))).status == 201
        await client.patch(DEFAULT, {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": None}}})
        assert (await client.ask("POST", PODS, a_pod("c", {"privileged": True}))).status == 403


async def test_a_label_of_another_server_over_the_same_store_holds_at_once(sim):
    store = await open_memory()
    async with a_server(sim, "one", store) as one, a_server(sim, "two", store) as two:
        await one.label_namespace(enforce="restricted")
        assert (await two.ask("POST", PODS, a_pod("a"))).status == 403


async def test_kube_system_is_labelled_privileged(sim):
    async with a_server(sim) as client:
        assert (await client.get(f"{NAMESPACES}/kube-system"))["metadata"]["labels"] == {
            "kubernetes.io/metadata.name": "kube-system",
            "pod-security.kubernetes.io/enforce": "privileged",
        }
        path = f"{NAMESPACES}/kube-system/pods"
        assert (await client.ask("POST", path, a_pod("a", {"privileged": True}, hostNetwork=True))).status == 201


async def test_a_dry_run_is_refused_and_warned_as_the_write_would_be(sim):
    async with a_server(sim) as client:
        await client.label_namespace(warn="restricted")
        refused = await client.ask("POST", f"{PODS}?dryRun=All", a_pod("a", {"privileged": True}))
        assert refused.status == 403
        allowed = await client.ask("POST", f"{PODS}?dryRun=All", a_pod("a"))
        assert allowed.status == 201
        assert warnings(allowed) == [f'would violate PodSecurity "restricted:latest": {UNRESTRICTED}']


async def test_warn_and_audit_let_a_pod_pass(sim):
    async with a_server(sim) as client:
        await client.label_namespace(enforce="privileged", warn="baseline", audit="baseline")
        answer = await client.ask("POST", PODS, a_pod("a", hostPID=True))
        assert answer.status == 201
        assert warnings(answer) == ['would violate PodSecurity "baseline:latest": host namespaces (hostPID=true)']


async def test_the_audit_log_names_the_policy_and_what_it_would_refuse(sim):
    disk = sim.env("server").disk
    audit = await Audit.start(disk, "audit.log", Authenticator({}))
    async with a_server(sim, options=PipelineOptions(audit=audit)) as client:
        await client.label_namespace(audit="restricted")
        await client.create(PODS, a_pod("a"))
        await client.ask("POST", PODS, a_pod("b", hostPID=True))
        await audit.close()
    written = [json.loads(line)["annotations"] for line in disk.read("audit.log").splitlines()]
    created, refused = ({name.rpartition("/")[2]: each[name] for name in each} for each in written[-2:])
    assert (created["enforce-policy"], created["decision"]) == ("baseline:latest", "allow")
    assert created["audit-violations"] == f'would violate PodSecurity "restricted:latest": {UNRESTRICTED}'
    assert refused["enforce-policy"] == "baseline:latest"
    assert refused["audit-violations"].startswith(
        'would violate PodSecurity "restricted:latest": host namespaces (hostPID=true), allowPrivilegeEscalation'
    )


@pytest.mark.parametrize(
    ("level", "statuses"), [("privileged", [201, 201]), ("baseline", [201, 403]), ("restricted", [403, 403])]
)
async def test_the_server_has_a_level_for_namespaces_without_labels(sim, level, statuses):
    async with a_server(sim, security=SecurityLevel(level)) as client:
        answers = [await client.ask("POST", PODS, each) for each in (a_pod("a"), a_pod("b", hostPID=True))]
        assert [each.status for each in answers] == statuses


def _templated(group: str, plural: str, template: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    path = TEMPLATE_PATHS[group, plural]
    labelled = {"metadata": {"labels": {"app": "a"}}, "spec": template}
    obj: dict[str, Any] = {"metadata": {"name": "a"}}
    inner = obj
    for step in path[:-1]:
        inner = inner.setdefault(step, {})
    inner[path[-1]] = labelled
    match plural:
        case "deployments" | "replicasets" | "statefulsets" | "daemonsets":
            obj["spec"]["selector"] = {"matchLabels": {"app": "a"}}
        case "replicationcontrollers":
            obj["spec"]["selector"] = {"app": "a"}
        case "cronjobs":
            obj["spec"]["schedule"] = "* * * * *"
    if plural == "statefulsets":
        obj["spec"]["serviceName"] = "a"
    if plural in ("jobs", "cronjobs"):
        template["restartPolicy"] = "Never"
    root = f"/apis/{group}/v1" if group else "/api/v1"
    return f"{root}/namespaces/default/{plural}", obj


@pytest.mark.parametrize(("group", "plural"), TEMPLATE_PATHS)
async def test_what_makes_pods_is_warned_about_and_not_refused(sim, group, plural):
    async with a_server(sim) as client:
        await client.label_namespace(enforce="restricted")
        path, obj = _templated(group, plural, spec({**STRICT, "privileged": True, "allowPrivilegeEscalation": True}))
        expected = [
            'would violate PodSecurity "restricted:latest": privileged (container "c" must not set '
            'securityContext.privileged=true), allowPrivilegeEscalation != false (container "c" must set '
            "securityContext.allowPrivilegeEscalation=false)"
        ]
        created = await client.ask("POST", path, obj)
        assert (created.status, warnings(created)) == (201, expected)
        labelled = {"metadata": {"labels": {"x": "y"}}}
        patched = await client.ask("PATCH", f"{path}/a", labelled, "application/merge-patch+json")
        assert (patched.status, warnings(patched)) == (200, expected)


async def test_templates_in_a_namespace_without_labels_are_warned_about_what_pods_are_refused_for(sim):
    async with a_server(sim) as client:
        path, obj = _templated("apps", "deployments", spec({"privileged": True}))
        answer = await client.ask("POST", path, obj)
        assert (answer.status, warnings(answer)) == (
            201,
            [
                'would violate PodSecurity "baseline:latest": privileged (container "c" must not set '
                "securityContext.privileged=true)"
            ],
        )
        await client.label_namespace(enforce="privileged")
        obj["metadata"]["name"] = "b"
        assert warnings(await client.ask("POST", path, obj)) == []


async def test_an_update_is_checked_if_it_changes_an_image(sim):
    async with a_server(sim) as client:
        await client.create(PODS, a_pod("a"))
        await client.label_namespace(enforce="restricted")
        kind = "application/merge-patch+json"
        assert (await client.ask("PATCH", f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}}, kind)).status == 200
        image = {"spec": {"containers": [{"name": "c", "image": "x:2"}]}}
        refused = await client.ask("PATCH", f"{PODS}/a", image, "application/strategic-merge-patch+json")
        assert refused.status == 403
        assert refused.body["message"].startswith('pods "a" is forbidden: violates PodSecurity "restricted:latest"')


@pytest.mark.parametrize("subresource", ["resize", "ephemeralcontainers", "status"])
async def test_no_subresource_makes_a_pod_privileged(sim, subresource):
    async with a_server(sim) as client:
        await client.create(PODS, a_pod("a"))
        context = {"spec": {"containers": [{"name": "c", "securityContext": {"privileged": True}}], "hostPID": True}}
        kind = "application/strategic-merge-patch+json"
        await client.ask("PATCH", f"{PODS}/a/{subresource}", context, kind)
        debugger = {
            "spec": {"ephemeralContainers": [{"name": "d", "image": "x", "securityContext": {"privileged": True}}]}
        }
        await client.ask("PATCH", f"{PODS}/a/{subresource}", debugger, kind)
        whole = await client.get(f"{PODS}/a")
        whole["spec"]["containers"][0]["securityContext"] = {"privileged": True}
        await client.ask("PUT", f"{PODS}/a/{subresource}", whole)

        stored = (await client.get(f"{PODS}/a"))["spec"]
        assert "securityContext" not in stored["containers"][0]
        assert "hostPID" not in stored
        assert "ephemeralContainers" not in stored


async def test_ephemeral_containers_are_refused_with_what_to_do_instead(sim):
    async with a_server(sim) as client:
        await client.create(PODS, a_pod("a"))
        body = {"spec": {"ephemeralContainers": [{"name": "d", "image": "x"}]}}
        path = f"{PODS}/a/ephemeralcontainers"
        answer = await client.ask("PATCH", path, body, "application/strategic-merge-patch+json")
        assert answer.status == 422
        assert "ephemeral containers are not supported: use `kubectl exec`" in answer.body["message"]


async def test_a_resize_changes_amounts_and_nothing_else(sim):
    async with a_server(sim) as client:
        pod = a_pod("a")
        pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
        await client.create(PODS, pod)
        kind = "application/strategic-merge-patch+json"

        def resize(**fields: Any) -> dict[str, Any]:
            return {"spec": {"containers": [{"name": "c", **fields}]}}

        path = f"{PODS}/a/resize"
        resized = await client.ask("PATCH", path, resize(resources={"requests": {"cpu": "2"}}), kind)
        assert (resized.status, resized.body["spec"]["containers"][0]["resources"]["requests"]) == (200, {"cpu": "2"})
        other = await client.ask("PATCH", path, resize(image="y"), kind)
        assert (other.status, "only cpu and memory" in other.body["message"]) == (422, True)
        wrong = await client.ask("PATCH", path, resize(resources={"requests": {"cpu": "-1"}}), kind)
        assert wrong.status == 422
        better = {"requests": {"cpu": "2", "memory": "1"}, "limits": {"cpu": "2", "memory": "1"}}
        promoted = await client.ask("PATCH", path, resize(resources=better), kind)
        assert (promoted.status, "QOS Class may not change" in promoted.body["message"]) == (422, True)


# Namespaces.


async def test_labels_that_make_no_sense_are_refused(sim):
    async with a_server(sim) as client:
        bad = {"pod-security.kubernetes.io/enforce": "strict", "pod-security.kubernetes.io/warn-version": "1.2"}
        refused = await client.ask("POST", NAMESPACES, {"metadata": {"name": "x", "labels": bad}})
        assert (refused.status, refused.body["reason"]) == (422, "Invalid")
        assert [each["field"] for each in refused.body["details"]["causes"]] == [
            "metadata.labels[pod-security.kubernetes.io/enforce]",
            "metadata.labels[pod-security.kubernetes.io/warn-version]",
        ]
        patch = {"metadata": {"labels": bad}}
        assert (await client.ask("PATCH", DEFAULT, patch, "application/merge-patch+json")).status == 422


async def label(client: Client, **labels: str) -> list[str]:
    named = {f"pod-security.kubernetes.io/{mode}": level for mode, level in labels.items()}
    answer = await client.ask("PATCH", DEFAULT, {"metadata": {"labels": named}}, "application/merge-patch+json")
    assert answer.status == 200
    return answer.warnings


async def test_a_stricter_label_names_the_pods_that_violate_it(sim):
    async with a_server(sim) as client:
        assert await label(client, enforce="privileged") == []
        for name in ("c", "b", "a"):
            await client.create(PODS, a_pod(name, hostPID=True))
        await client.create(PODS, a_pod("path", **HOST_PATH))
        for name in ("d", "e"):
            await client.create(PODS, a_pod(name, {"privileged": True}))
        await client.create(PODS, a_pod("fine", STRICT))

        assert await label(client, enforce="baseline") == [
            'existing pods in namespace "default" violate the new PodSecurity enforce level "baseline:latest"',
            "a (and 2 other pods): host namespaces",
            "d (and 1 other pod): privileged",
            "path: hostPath volumes",
        ]
        assert await label(client, enforce="baseline", warn="restricted") == []
        assert len((await client.get(PODS))["items"]) == 7
        assert await label(client, enforce="privileged") == []


async def test_only_so_many_pods_are_compared(sim, monkeypatch):
    monkeypatch.setattr(pod_security, "PODS_CHECKED_MAX", 4)
    monkeypatch.setattr(pod_security, "_PAGE", 2)
    async with a_server(sim) as client:
        for number in range(7):
            await client.create(PODS, a_pod(f"p{number}"))
        assert (await label(client, enforce="restricted"))[0] == (
            "new PodSecurity enforce level only checked against the first 4 of 7 existing pods"
        )


# A label that is set while a pod is on its way in.


async def check_race(sim: Simulation) -> None:
    """Once a pod was looked at, and before it is committed, another server makes the namespace restricted."""
    store = await open_memory()
    async with a_server(sim, "one", store) as one, a_server(sim, "two", store) as two:
        await two.create(PODS, a_pod("before"))
        honest, labelled = store.commit, list[bool]()

        async def commit(checks: Sequence[Check], writes: Sequence[Write]) -> Committed | TransactionRefused:
            if any(each.key == "core/pods/default/a" for each in writes) and not labelled:
                labelled.append(True)
                await one.label_namespace(enforce="restricted")
            return await honest(checks, writes)

        store.commit = commit  # type: ignore[method-assign]
        answer = await two.ask("POST", PODS, a_pod("a"))
        assert labelled
        assert answer.status == 403
        assert [each["metadata"]["name"] for each in (await one.get(PODS))["items"]] == ["before"]


async def test_a_label_holds_for_a_pod_that_is_on_its_way_in(sim):
    await check_race(sim)


@pytest.mark.parametrize("twin", LABEL_TWINS, ids=lambda twin: twin.__name__)
async def test_a_server_that_goes_by_old_labels_is_found_out(sim, twin: Twin, monkeypatch: pytest.MonkeyPatch):
    twin(monkeypatch)

    with pytest.raises(AssertionError):
        await check_race(sim)
