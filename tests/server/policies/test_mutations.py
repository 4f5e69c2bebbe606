"""MutatingAdmissionPolicies in a server: what they change, in which order, and what is refused."""

import asyncio
import json
from typing import Any

import pytest

from mainstay.server.auth.authentication import Authenticator
from mainstay.server.request.audit import Audit
from mainstay.server.request.pipeline import PipelineOptions
from tests.server.policies.policy_cases import CONFIG_MAPS, a_map, a_rule, enforce, put_map
from tests.server.policies.policy_cases import a_policy as a_validating_policy
from tests.server.world import TOKENS, Client, a_server

GROUP = "/apis/admissionregistration.k8s.io/v1"
POLICIES = f"{GROUP}/mutatingadmissionpolicies"
BINDINGS = f"{GROUP}/mutatingadmissionpolicybindings"
LABEL = 'Object{metadata: Object.metadata{labels: {"team": "a"}}}'
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"


def apply_configuration(expression: str) -> dict[str, Any]:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def a_json_patch(expression: str) -> dict[str, Any]:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def a_policy(name: str = "label", *mutations: Any, match: Any = None, **spec: Any) -> dict[str, Any]:
    """`mutations` are expressions of apply configurations, or mutations."""
    given = {
        "matchConstraints": {"resourceRules": [a_rule()], **(match or {})},
        "mutations": [apply_configuration(each) if isinstance(each, str) else each for each in mutations or (LABEL,)],
        "reinvocationPolicy": "Never",
    }
    return {"metadata": {"name": name}, "spec": {**given, **spec}}


def a_binding(policy: str, name: str = "", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name or policy}, "spec": {"policyName": policy, **spec}}


async def mutate_by(client: Client, *policies: dict[str, Any]) -> None:
    for policy in policies:
        await client.create(POLICIES, policy)
        await client.create(BINDINGS, a_binding(policy["metadata"]["name"]))


def for_deployments(name: str, *mutations: Any, **spec: Any) -> dict[str, Any]:
    rule = a_rule("deployments", apiGroups=["apps"])
    return a_policy(name, *mutations, match={"resourceRules": [rule]}, **spec)


def a_deployment(name: str = "web", replicas: int = 1) -> dict[str, Any]:
    container = {"name": "app", "image": "app:1", "command": ["run"]}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    selector = {"matchLabels": {"app": name}}
    return {
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    }


async def test_an_apply_configuration_is_merged_into_what_was_sent(sim):
    async with a_server(sim) as client:
        await mutate_by(client, a_policy())

        made = await put_map(client, "c", 1, labels={"app": "x"})

        assert made.body["metadata"]["labels"] == {"app": "x", "team": "a"}
        assert made.body["data"] == {"k0": "v"}


async def test_updates_patches_and_applies_are_changed_too(sim):
    async with a_server(sim) as client:
        await put_map(client, "c", 1)
        await mutate_by(client, a_policy())
        path = f"{CONFIG_MAPS}/c"
        applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"x": "3"}}

        patched = await client.ask("PATCH", path, {"data": {"x": "1"}, "metadata": {"labels": None}}, MERGE)
        replaced = await client.ask("PUT", path, {"metadata": {"name": "c"}, "data": {"x": "2"}})
        apply = await client.ask("PATCH", f"{path}?fieldManager=m&force=true", applied, "application/apply-patch+yaml")

        assert [each.body["metadata"]["labels"] for each in (patched, replaced, apply)] == [{"team": "a"}] * 3
        [owner] = [each for each in apply.body["metadata"]["managedFields"] if each["manager"] == "m"]
        assert owner["fieldsV1"] == {"f:data": {"f:x": {}}}  # What the policy adds belongs to nobody.


async def test_a_json_patch_is_carried_out_with_its_keys_escaped(sim):
    expression = """[
      JSONPatch{op: "test", path: "/data/k0", value: "v"},
      JSONPatch{op: "add", path: "/metadata/annotations", value: {}},
      JSONPatch{op: "add", path: "/metadata/annotations/" + jsonpatch.escapeKey("a.io/x"), value: request.operation},
      JSONPatch{op: "copy", from: "/data/k0", path: "/data/copy"}
    ]"""
    async with a_server(sim) as client:
        await mutate_by(client, a_policy("patch", a_json_patch(expression)))

        made = await put_map(client, "c", 1)

        assert made.body["metadata"]["annotations"] == {"a.io/x": "CREATE"}
        assert made.body["data"] == {"k0": "v", "copy": "v"}


async def test_a_json_patch_whose_test_fails_changes_nothing(sim):
    expression = '[JSONPatch{op: "test", path: "/data/k0", value: "w"}, JSONPatch{op: "remove", path: "/data"}]'
    async with a_server(sim) as client:
        await mutate_by(client, a_policy("patch", a_json_patch(expression)))

        made = await put_map(client, "c", 1)

        assert (made.status, made.body["data"]) == (201, {"k0": "v"})


async def test_mutations_and_policies_see_what_those_before_them_made(sim):
    replicas = "Object{spec: Object.spec{replicas: object.spec.replicas + 100}}"
    patch = a_json_patch('[JSONPatch{op: "replace", path: "/spec/replicas", value: object.spec.replicas * 2}]')
    async with a_server(sim) as client:
        await mutate_by(client, for_deployments("b", patch), for_deployments("a", replicas, replicas))

        made = await client.create(DEPLOYMENTS, a_deployment(replicas=1))

        assert made["spec"]["replicas"] == 402


async def test_a_policy_runs_once_more_if_a_later_one_changed_the_object(sim):
    def counting(name: str, **spec: Any) -> dict[str, Any]:
        counted = f"string(int(object.?data.?{name}.orValue('0')) + 1)"
        return a_policy(name, f"Object{{data: {{'{name}': {counted}}}}}", **spec)

    async with a_server(sim) as client:
        again = {"reinvocationPolicy": "IfNeeded"}
        await mutate_by(client, counting("a", **again), counting("b"), counting("c", **again))

        made = await put_map(client, "c", 0)

        assert made.body["data"] == {"a": "2", "b": "1", "c": "1"}


async def test_what_a_policy_adds_gets_defaults_and_is_validated(sim):
    sidecar = """Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{
        containers: [Object.spec.template.spec.containers{name: "proxy", image: "proxy:2"}]}}}}"""
    async with a_server(sim) as client:
        await mutate_by(client, for_deployments("sidecar", sidecar))

        made = await client.create(DEPLOYMENTS, a_deployment())

        app, proxy = made["spec"]["template"]["spec"]["containers"]
        assert (app["name"], app["command"], proxy["name"]) == ("app", ["run"], "proxy")
        assert proxy["imagePullPolicy"] == "IfNotPresent"


async def test_an_object_that_a_policy_makes_invalid_is_refused_with_the_policy(sim):
    async with a_server(sim) as client:
        await mutate_by(client, for_deployments("broken", "Object{spec: Object.spec{replicas: -1}}"))

        refused = await client.ask("POST", DEPLOYMENTS, a_deployment())

        assert (refused.status, refused.body["reason"]) == (422, "Invalid")
        text = "the object was changed by MutatingAdmissionPolicy 'broken' before it was validated"
        assert refused.body["message"].endswith(f"({text})")
        causes = [(each["reason"], each.get("field")) for each in refused.body["details"]["causes"]]
        assert causes == [("AdmissionPolicyViolated", None), ("FieldValueInvalid", "spec.replicas")]
        assert (await client.ask("GET", f"{DEPLOYMENTS}/web")).status == 404


async def test_an_update_that_a_policy_makes_invalid_is_refused_and_changes_nothing(sim):
    async with a_server(sim) as client:
        made = await client.create(DEPLOYMENTS, a_deployment())
        await mutate_by(client, for_deployments("broken", "Object{spec: Object.spec{replicas: -1}}"))

        refused = await client.ask("PATCH", f"{DEPLOYMENTS}/web", {"spec": {"paused": True}}, MERGE)

        assert refused.status == 422
        assert "MutatingAdmissionPolicy 'broken'" in refused.body["message"]
        assert (await client.get(f"{DEPLOYMENTS}/web"))["metadata"] == made["metadata"]


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        ('{op: "replace", path: "/metadata/name", value: "d"}', "metadata.name may not be changed"),
        ('{op: "replace", path: "/metadata/namespace", value: "kube-system"}', "metadata.namespace may not be changed"),
        ('{op: "remove", path: "/metadata/uid"}', "metadata.uid may not be changed"),
        ('{op: "replace", path: "/kind", value: "Secret"}', "kind may not be changed: it is ConfigMap"),
        ('{op: "remove", path: "/metadata"}', "metadata may not be removed"),
        ('{op: "add", path: "/metadata/managedFields", value: []}', "metadata.managedFields may not be changed"),
        ('{op: "add", path: "/spec", value: 1}', "unknown field spec"),
        ('{op: "add", path: "/data/x", value: 1}', "cannot unmarshal number"),
        ('{op: "add", path: "/data/x", value: timestamp("2026-01-01T00:00:00Z")}', "has no form in JSON"),
        ('{op: "remove", path: "/data/none"}', 'JSON patch: remove "/data/none": the path does not exist'),
        ('{op: "replace", path: "/data/none/x", value: 1}', 'replace "/data/none/x": the path does not exist'),
        ('{op: "add", path: "/data/x", value: object.data.none}', "Key not found"),
    ],
)
async def test_a_patch_that_cannot_be_done_is_refused_or_ignored_as_the_policy_says(sim, patch, said):
    async with a_server(sim) as client:
        policy = a_policy("patch", a_json_patch(f"[JSONPatch{patch}]"))
        await mutate_by(client, policy)

        refused = await put_map(client, "c", 1)
        await client.patch(f"{POLICIES}/patch", {"spec": {"failurePolicy": "Ignore"}})
        ignored = await put_map(client, "c", 1)

        text = "configmaps \"c\" is forbidden: MutatingAdmissionPolicy 'patch' with binding 'patch' denied request:"
        assert refused.status == 422
        assert refused.body["message"].startswith(f"{text} expression '[JSONPatch")
        assert said in refused.body["message"]
        assert (ignored.status, ignored.body["data"]) == (201, {"k0": "v"})


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("Object{spec: Object.spec{selector: Object.spec.selector{matchLabels: {'a': 'b'}}}}", ".spec.selector"),
        (
            "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers:"
            " [Object.spec.template.spec.containers{name: 'app', args: ['x']}]}}}}",
            ".spec.template.spec.containers[0].args",
        ),
        ("Object{spec: Object.spec{replicasx: 1}}", ".spec.replicasx: field not declared in schema"),
        ("Object{metadata: Object.metadata{name: 'other'}}", "metadata.name may not be changed"),
        ("request.name", "must evaluate to an Object"),
    ],
)
async def test_an_apply_configuration_that_does_not_fit_is_refused(sim, expression, said):
    async with a_server(sim) as client:
        await mutate_by(client, for_deployments("bad", expression))

        refused = await client.ask("POST", DEPLOYMENTS, a_deployment())

        assert refused.status == 422
        assert said in refused.body["message"]


async def test_conditions_parameters_and_variables_are_evaluated(sim):
    async with a_server(sim) as client:
        await client.create(CONFIG_MAPS, a_map("defaults", 0) | {"data": {"team": "core"}})
        policy = a_policy(
            "team",
            "Object{metadata: Object.metadata{labels: {'team': variables.team}}}",
            paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
            matchConditions=[{"name": "unlabelled", "expression": "!has(object.metadata.labels)"}],
            variables=[{"name": "team", "expression": "params.data.team"}],
        )
        await client.create(POLICIES, policy)
        reference = {"name": "defaults", "parameterNotFoundAction": "Deny"}
        await client.create(BINDINGS, a_binding("team", paramRef=reference))

        labels = [
            (await put_map(client, "a", 1)).body["metadata"]["labels"],
            (await put_map(client, "b", 1, labels={"x": "y"})).body["metadata"]["labels"],
        ]
        assert labels == [{"team": "core"}, {"x": "y"}]

        await client.delete(f"{CONFIG_MAPS}/defaults")
        refused = await put_map(client, "c", 1)
        assert refused.status == 422
        assert "no params found" in refused.body["message"]


async def test_validating_policies_see_what_mutating_ones_made(sim):
    async with a_server(sim) as client:
        await enforce(client, a_validating_policy("labelled", "object.metadata.?labels.?team.hasValue()"))
        before = await put_map(client, "before", 1)
        await mutate_by(client, a_policy())

        assert (before.status, (await put_map(client, "after", 1)).status) == (422, 201)


async def test_what_a_policy_sets_is_resolved_as_if_the_user_had_sent_it(sim):
    spec = "Object{spec: Object.spec{priorityClassName: 'urgent', serviceAccountName: 'robot'}}"
    async with a_server(sim) as client:
        await client.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "robot"}})
        classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
        await client.create(classes, {"metadata": {"name": "urgent"}, "value": 1000})
        await mutate_by(client, a_policy("urgent", spec, match={"resourceRules": [a_rule("pods")]}))

        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        made = await client.create(PODS, pod)

        assert (made["spec"]["priority"], made["spec"]["serviceAccountName"]) == (1000, "robot")


async def test_of_a_status_only_the_status_is_changed(sim):
    change = "Object{metadata: Object.metadata{labels: {'a': 'b'}}, status: Object.status{observedGeneration: 7}}"
    async with a_server(sim) as client:
        made = await client.create(DEPLOYMENTS, a_deployment())
        rule = a_rule("deployments/status", apiGroups=["apps"], operations=["UPDATE"])
        await mutate_by(client, a_policy("status", change, match={"resourceRules": [rule]}))

        path = f"{DEPLOYMENTS}/web"
        patched = await client.ask("PATCH", f"{path}/status", {"status": {"replicas": 1}}, MERGE)
        renamed = await client.ask("PATCH", path, {"metadata": {"labels": {"c": "d"}}}, MERGE)

        assert patched.body["status"] == {"observedGeneration": 7, "replicas": 1}
        assert patched.body["metadata"].get("labels") == made["metadata"].get("labels")
        assert renamed.body["metadata"]["labels"] == {"c": "d"}


async def test_the_status_of_a_pod_can_be_changed_by_a_policy(sim):
    change = "Object{status: Object.status{message: 'of ' + object.spec.containers[0].name}}"
    async with a_server(sim) as client:
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        await client.create(PODS, pod)
        await mutate_by(client, a_policy("status", change, match={"resourceRules": [a_rule("pods/status")]}))

        patched = await client.ask("PATCH", f"{PODS}/p/status", {"status": {"reason": "Odd"}}, MERGE)

        assert (patched.body["status"]["reason"], patched.body["status"]["message"]) == ("Odd", "of c")
        assert (await client.get(f"{PODS}/p"))["spec"]["containers"][0]["image"] == "i"


async def test_a_generated_name_is_changed_by_no_policy_and_mutated_once(sim):
    append = a_json_patch('[JSONPatch{op: "add", path: "/data/name", value: object.metadata.name}]')
    async with a_server(sim) as client:
        await mutate_by(client, a_policy("name", append))

        made = await client.create(CONFIG_MAPS, {"metadata": {"generateName": "c-"}, "data": {"a": "b"}})

        assert made["data"] == {"a": "b", "name": made["metadata"]["name"]}


async def test_a_custom_object_is_changed_and_pruned_by_its_schema(sim):
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
    names = {"kind": "Box", "plural": "boxes", "singular": "box"}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]
    spec = {"group": "acme.io", "scope": "Namespaced", "names": names, "versions": versions}
    async with a_server(sim) as client:
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await client.create(definitions, {"metadata": {"name": "boxes.acme.io"}, "spec": spec})
        rule = a_rule("boxes", apiGroups=["acme.io"])
        await mutate_by(
            client,
            a_policy("a", "Object{spec: Object.spec{size: 3}}", match={"resourceRules": [rule]}),
            a_policy(
                "b", "Object{spec: Object.spec{colour: 1}}", match={"resourceRules": [rule]}, failurePolicy="Ignore"
            ),
        )
        path = "/apis/acme.io/v1/namespaces/default/boxes"
        box = {"apiVersion": "acme.io/v1", "kind": "Box", "metadata": {"name": "b"}}

        made = await client.create(path, box)

        assert made["spec"] == {"size": 3}


async def test_a_dry_run_is_changed_and_not_stored(sim):
    async with a_server(sim) as client:
        await mutate_by(client, a_policy())

        tried = await put_map(client, "c", 1, "?dryRun=All")

        assert tried.body["metadata"]["labels"] == {"team": "a"}
        assert (await client.ask("GET", f"{CONFIG_MAPS}/c")).status == 404


async def test_policies_are_exempt_and_a_binding_limits_where_one_holds(sim):
    async with a_server(sim) as client:
        rule = a_rule("*", apiGroups=["*"])
        await client.create(POLICIES, a_policy("all", match={"resourceRules": [rule]}))
        selector = {"matchLabels": {"mutate": "yes"}}
        await client.create(BINDINGS, a_binding("all", matchResources={"objectSelector": selector}))

        other = await client.create(
            POLICIES, a_policy("other") | {"metadata": {"name": "o", "labels": {"mutate": "yes"}}}
        )
        chosen = await put_map(client, "a", 1, labels={"mutate": "yes"})
        left_alone = await put_map(client, "b", 1)

        assert other["metadata"]["labels"] == {"mutate": "yes"}
        assert chosen.body["metadata"]["labels"] == {"mutate": "yes", "team": "a"}
        assert "labels" not in left_alone.body["metadata"]


async def test_the_audit_log_names_the_policies_that_changed_a_write(sim):
    disk = sim.env("api").disk
    audit = await Audit.start(disk, "audit.log", Authenticator(TOKENS))
    async with a_server(sim, options=PipelineOptions(audit=audit)) as client:
        await mutate_by(client, a_policy())
        policy = (await client.get(f"{POLICIES}/label"))["metadata"]
        await put_map(client, "c", 1)
        await put_map(client, "d", 1, labels={"team": "a"})
    await audit.close()
    lines = [json.loads(line) for line in disk.read("audit.log").splitlines()]
    written = {
        each["objectRef"]["name"]: each["annotations"]
        for each in lines
        if each["verb"] == "create" and each["objectRef"]["resource"] == "configmaps"
    }

    named = f"label uid={policy['uid']} revision={policy['resourceVersion']}"
    assert written["c"]["mainstay.dev/mutations"] == named
    assert "mainstay.dev/mutations" not in written["d"]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"mutations": []}, "spec.mutations: Required value: mutations must contain at least one item"),
        ({"reinvocationPolicy": ""}, "spec.reinvocationPolicy: Required value"),
        ({"reinvocationPolicy": "Always"}, 'spec.reinvocationPolicy: Unsupported value: "Always"'),
        ({"mutations": [{"patchType": "Merge"}]}, 'spec.mutations[0].patchType: Unsupported value: "Merge"'),
        ({"mutations": [{"patchType": "JSONPatch"}]}, "spec.mutations[0].jsonPatch.expression: Required value"),
        (
            {"mutations": [a_json_patch("[]") | apply_configuration("Object{}")]},
            "spec.mutations[0].jsonPatch: Forbidden: must not be specified when patchType is ApplyConfiguration",
        ),
        (
            {"matchConstraints": {"resourceRules": [a_rule(operations=["DELETE"])]}},
            'spec.matchConstraints.resourceRules[0].operations[0]: Unsupported value: "DELETE"',
        ),
        (
            {"mutations": [apply_configuration("Object{spec: nope}")]},
            "column 14: undeclared reference to 'nope'",
        ),
        ({"mutations": [apply_configuration("'teapot'")]}, "must evaluate to Object, not to string"),
        ({"mutations": [a_json_patch("{'a': 1}")]}, "must evaluate to a list of JSONPatch, not to map"),
        ({"mutations": [apply_configuration("Object{a: params.x}")]}, "undeclared reference to 'params'"),
        ({"mutations": [apply_configuration("Object{a: variables.x}")]}, "undeclared reference to 'variables'"),
        ({"variables": [{"name": "x", "expression": "Object{a: }"}]}, "spec.variables[0].expression"),
    ],
)
async def test_a_policy_that_cannot_be_used_is_refused_when_it_is_written(sim, spec, said):
    async with a_server(sim) as client:
        refused = await client.ask("POST", POLICIES, a_policy(**spec))

        assert refused.status == 422
        assert said in refused.body["message"]


async def test_a_binding_that_matches_deletions_is_refused(sim):
    async with a_server(sim) as client:
        match = {"resourceRules": [a_rule(operations=["DELETE"])]}
        refused = await client.ask("POST", BINDINGS, a_binding("label", matchResources=match))

        assert refused.status == 422
        assert 'operations[0]: Unsupported value: "DELETE"' in refused.body["message"]


async def test_a_write_that_is_decided_again_is_changed_once(sim):
    """Two writers of one object: the slower one is decided again, from what the faster one has written."""
    append = a_json_patch('[JSONPatch{op: "add", path: "/data/seen", value: object.data.?seen.orValue("") + "x"}]')
    async with a_server(sim) as client:
        await put_map(client, "c", 1)
        await mutate_by(client, a_policy("append", append))
        path = f"{CONFIG_MAPS}/c"

        async with asyncio.TaskGroup() as group:
            for number in range(5):
                group.create_task(client.ask("PATCH", path, {"data": {f"n{number}": "1"}}, MERGE))

        assert (await client.get(path))["data"]["seen"] == "xxxxx"
