"""ValidatingAdmissionPolicies in a server: what matches, what is denied, and what is said about it."""

import json
from typing import Any

import pytest

from mainstay.server.auth.authentication import Authenticator
from mainstay.server.request.audit import Audit
from mainstay.server.request.pipeline import PipelineOptions
from tests.server.policies.policy_cases import (
    BINDINGS,
    CONFIG_MAPS,
    POLICIES,
    SMALL,
    a_binding,
    a_map,
    a_policy,
    a_rule,
    denied,
    enforce,
    put_map,
)
from tests.server.world import TOKENS, a_server


async def test_a_write_that_a_policy_denies_is_refused_with_the_policy_and_the_expression(sim):
    async with a_server(sim) as client:
        await enforce(client)

        assert (await put_map(client, "small", 1)).status == 201
        refused = await put_map(client)

        text = denied(f"failed expression: {SMALL}")
        assert (refused.status, refused.body["reason"], refused.body["message"]) == (422, "Invalid", text)
        assert refused.body["details"]["causes"][0]["reason"] == "AdmissionPolicyViolated"


async def test_updates_patches_applies_and_deletions_are_evaluated(sim):
    async with a_server(sim) as client:
        await put_map(client, "kept", 1)
        await put_map(client, "free", 1)
        rule = a_rule(operations=["*"])
        allows = "request.operation == 'DELETE' ? oldObject.metadata.name != 'kept' : object.data.size() <= 1"
        await enforce(client, a_policy("small", allows, match={"resourceRules": [rule]}))

        patch = {"data": {"x": "1", "y": "2"}}
        kept = f"{CONFIG_MAPS}/kept"
        applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}, **patch}
        answers = [
            await client.ask("PATCH", kept, patch, "application/merge-patch+json"),
            await client.ask("PATCH", f"{kept}?fieldManager=m&force=true", applied, "application/apply-patch+yaml"),
            await client.ask("PUT", kept, {"metadata": {"name": "kept"}, **patch}),
            await client.ask("DELETE", kept),
            await client.ask("DELETE", CONFIG_MAPS + "?fieldSelector=metadata.name=kept"),
            await client.ask("DELETE", f"{CONFIG_MAPS}/free"),
        ]

        assert [answer.status for answer in answers] == [422, 422, 422, 422, 422, 200]
        assert (await client.get(kept))["data"] == {"k0": "v"}


async def test_a_dry_run_is_denied_too_and_policies_can_know_it(sim):
    async with a_server(sim) as client:
        await enforce(client, a_policy("small", "!request.dryRun"))

        assert (await put_map(client, query="?dryRun=All")).status == 422
        assert (await put_map(client)).status == 201


async def test_a_policy_without_a_binding_or_a_binding_without_a_policy_does_nothing(sim):
    async with a_server(sim) as client:
        await client.create(POLICIES, a_policy("lonely"))
        await client.create(BINDINGS, a_binding("nosuch"))

        assert (await put_map(client)).status == 201


async def test_what_is_deleted_no_longer_denies(sim):
    async with a_server(sim) as client:
        await enforce(client)
        assert (await put_map(client)).status == 422

        await client.delete(f"{BINDINGS}/small")

        assert (await put_map(client)).status == 201


async def test_a_changed_policy_holds_at_once_on_its_server(sim):
    async with a_server(sim) as client:
        await enforce(client)
        await client.patch(f"{POLICIES}/small", {"spec": {"validations": [{"expression": "object.data.size() <= 2"}]}})

        assert (await put_map(client)).status == 201
        assert (await put_map(client, "d", 3)).status == 422


@pytest.mark.parametrize(
    ("match", "is_denied"),
    [
        ({"resourceRules": [a_rule("*")]}, True),
        ({"resourceRules": [a_rule("*/*")]}, True),
        ({"resourceRules": [a_rule("secrets")]}, False),
        ({"resourceRules": [a_rule(apiGroups=["apps"])]}, False),
        ({"resourceRules": [a_rule(apiGroups=["*"])]}, True),
        ({"resourceRules": [a_rule(operations=["UPDATE"])]}, False),
        ({"resourceRules": [a_rule(apiVersions=["v2"])], "matchPolicy": "Exact"}, False),
        ({"resourceRules": [a_rule(apiVersions=["v1"])], "matchPolicy": "Exact"}, True),
        ({"resourceRules": [a_rule(scope="Cluster")]}, False),
        ({"resourceRules": [a_rule(scope="Namespaced")]}, True),
        ({"resourceRules": [a_rule(resourceNames=["other"])]}, False),
        ({"resourceRules": [a_rule(resourceNames=["c"])]}, True),
        ({"excludeResourceRules": [a_rule()]}, False),
        ({"excludeResourceRules": [a_rule(resourceNames=["other"])]}, True),
        ({"objectSelector": {"matchLabels": {"team": "a"}}}, True),
        ({"objectSelector": {"matchLabels": {"team": "b"}}}, False),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}}, False),
    ],
)
@pytest.mark.parametrize("place", ["policy", "binding"])
async def test_the_rules_of_a_policy_and_of_a_binding_say_what_it_is_about(sim, match, is_denied, place):
    async with a_server(sim) as client:
        binding = a_binding("small", **({"matchResources": match} if place == "binding" else {}))
        await enforce(client, a_policy(match=match if place == "policy" else None), binding)

        answer = await put_map(client, labels={"team": "a"})

        assert answer.status == (422 if is_denied else 201)


async def test_a_namespace_is_selected_by_its_own_labels(sim):
    async with a_server(sim) as client:
        selector = {"namespaceSelector": {"matchLabels": {"watched": "yes"}}}
        rules = {"resourceRules": [a_rule("namespaces")], **selector}
        await enforce(client, a_policy("small", "false", match=rules))

        watched = {"metadata": {"name": "b", "labels": {"watched": "yes"}}}
        assert (await client.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "a"}})).status == 201
        assert (await client.ask("POST", "/api/v1/namespaces", watched)).status == 422


async def test_a_status_is_seen_by_rules_that_name_it_with_the_whole_object(sim):
    async with a_server(sim) as client:
        rule = a_rule("pods/status", operations=["UPDATE"])
        whole = "object.spec.containers[0].name == 'c' && object.status.phase != 'Failed'"
        await enforce(client, a_policy("small", whole, match={"resourceRules": [rule]}))
        await client.create(
            "/api/v1/namespaces/default/pods",
            {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}},
        )

        path, kind = "/api/v1/namespaces/default/pods/p/status", "application/merge-patch+json"
        assert (await client.ask("PATCH", path, {"status": {"phase": "Running"}}, kind)).status == 200
        assert (await client.ask("PATCH", path, {"status": {"phase": "Failed"}}, kind)).status == 422


@pytest.mark.parametrize(
    ("condition", "is_denied"),
    [("object.metadata.name == 'c'", True), ("object.metadata.name != 'c'", False), ("object.nosuch == 1", True)],
)
async def test_match_conditions_decide_whether_a_policy_is_evaluated(sim, condition, is_denied):
    async with a_server(sim) as client:
        await enforce(client, a_policy(matchConditions=[{"name": "it", "expression": condition}]))

        assert (await put_map(client)).status == (422 if is_denied else 201)


async def test_a_condition_that_is_not_met_decides_even_if_another_fails(sim):
    async with a_server(sim) as client:
        conditions = [{"name": "a", "expression": "object.nosuch == 1"}, {"name": "b", "expression": "false"}]
        await enforce(client, a_policy(matchConditions=conditions))

        assert (await put_map(client)).status == 201


@pytest.mark.parametrize(("policy", "status"), [("Fail", 422), ("Ignore", 201)])
async def test_an_expression_that_fails_is_treated_as_the_failure_policy_says(sim, policy, status):
    async with a_server(sim) as client:
        await enforce(client, a_policy("small", "object.nosuch == 1", failurePolicy=policy))

        answer = await put_map(client)

        assert answer.status == status
        if status == 422:
            text = "expression 'object.nosuch == 1' resulted in error: Key not found in map : \"nosuch\""
            assert answer.body["message"] == denied(text)


async def test_an_expression_that_could_take_too_long_fails_and_the_server_goes_on(sim):
    async with a_server(sim) as client:
        await enforce(client, a_policy("small", "object.data.map(a, object.data.map(b, b)).size() > 0"))

        answer = await put_map(client, entries=900)

        assert (answer.status, "could take" in answer.body["message"]) == (422, True)


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        ({"message": "too large"}, "too large"),
        ({"messageExpression": "'%d entries'.format([object.data.size()])"}, "2 entries"),
        ({"message": "too large", "messageExpression": "string(object.nosuch)"}, "too large"),
        ({"message": "too large", "messageExpression": "'a\\nb'"}, "too large"),
        ({}, f"failed expression: {SMALL}"),
    ],
)
async def test_a_denial_is_said_in_the_words_of_the_policy(sim, validation, message):
    async with a_server(sim) as client:
        await enforce(client, a_policy(validations=[{"expression": SMALL, **validation}]))

        assert (await put_map(client)).body["message"] == denied(message)


@pytest.mark.parametrize(
    ("reason", "code"), [("Unauthorized", 401), ("Forbidden", 403), ("RequestEntityTooLarge", 413), ("Invalid", 422)]
)
async def test_the_reason_of_a_validation_decides_the_status_code(sim, reason, code):
    async with a_server(sim) as client:
        await enforce(client, a_policy(validations=[{"expression": SMALL, "reason": reason}]))

        answer = await put_map(client)

        assert (answer.status, answer.body["reason"]) == (code, reason)


async def test_variables_are_evaluated_when_they_are_needed(sim):
    async with a_server(sim) as client:
        variables = [
            {"name": "entries", "expression": "object.data.size()"},
            {"name": "twice", "expression": "variables.entries * 2"},
            {"name": "broken", "expression": "object.nosuch"},
        ]
        policy = a_policy("small", "variables.twice <= 2", variables=variables)
        policy["spec"]["validations"][0]["messageExpression"] = "string(variables.entries)"
        await enforce(client, policy)

        assert (await put_map(client, "d", 1)).status == 201
        assert (await put_map(client)).body["message"] == denied("2")


async def test_expressions_see_the_request_the_user_the_old_object_and_the_namespace(sim):
    async with a_server(sim) as client:
        await put_map(client, "old", 1)
        seen = (
            "request.userInfo.username == 'admin'",
            "'system:masters' in request.userInfo.groups",
            "request.resource.resource == 'configmaps' && request.kind.kind == 'ConfigMap'",
            "request.namespace == 'default' && request.name == object.metadata.name",
            "namespaceObject.metadata.name == 'default'",
            "request.operation == 'CREATE' ? oldObject == null : oldObject.data.size() == 1",
            "object.kind == 'ConfigMap' && object.apiVersion == 'v1'",
        )
        await enforce(client, a_policy("small", *seen))

        assert (await put_map(client)).status == 201
        await client.patch(f"{CONFIG_MAPS}/old", {"data": {"x": "1"}})


async def test_warn_and_audit_let_a_write_through_and_say_so(sim):
    disk = sim.env("server").disk
    audit = await Audit.start(disk, "audit.log", Authenticator(TOKENS))
    async with a_server(sim, options=PipelineOptions(audit=audit)) as client:
        annotation = {"key": "size", "valueExpression": "string(object.data.size())"}
        await enforce(client, a_policy(auditAnnotations=[annotation]), a_binding("small", "Warn", "Audit"))
        await enforce(client, a_policy("strict", "object.data.size() < 3"))

        warned = await put_map(client)
        refused = await put_map(client, "d", 3)

        text = (
            f"Validation failed for ValidatingAdmissionPolicy 'small' with binding 'small': failed expression: {SMALL}"
        )
        assert (warned.status, warned.warnings) == (201, [text])
        assert refused.status == 422
        policy = await client.get(f"{POLICIES}/strict")
    await audit.close()
    lines = [json.loads(line) for line in disk.read("audit.log").splitlines()]
    last = [line["annotations"] for line in lines if line["verb"] == "create" and "configmaps" in line["requestURI"]]
    failure = json.loads(last[0]["validation.policy.admission.k8s.io/validation_failure"])
    assert (failure[0]["policy"], failure[0]["expressionIndex"], last[0]["small/size"]) == ("small", 0, "2")
    named = f"strict uid={policy['metadata']['uid']} revision={policy['metadata']['resourceVersion']}"
    assert last[1]["mainstay.dev/policies"] == named


def limits(name: str, most: int, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "data": {"most": str(most)}}


def a_policy_with_parameters(**spec: Any) -> dict[str, Any]:
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    match = {"objectSelector": {"matchLabels": {"counted": "yes"}}}
    return a_policy("small", "object.data.size() <= int(params.data.most)", match=match, paramKind=kind, **spec)


async def ask_counted(client: Any, entries: int, name: str = "c") -> int:
    return int((await put_map(client, name, entries, labels={"counted": "yes"})).status)


async def test_parameters_are_found_by_name_in_the_namespace_of_the_object(sim):
    async with a_server(sim) as client:
        await client.create(CONFIG_MAPS, limits("limits", 1))
        reference = {"name": "limits", "parameterNotFoundAction": "Deny"}
        await enforce(client, a_policy_with_parameters(), a_binding("small", paramRef=reference))

        assert (await ask_counted(client, 2), await ask_counted(client, 1, "d")) == (422, 201)
        await client.patch(f"{CONFIG_MAPS}/limits", {"data": {"most": "2"}})
        assert await ask_counted(client, 2) == 201


async def test_a_policy_is_evaluated_with_each_object_that_a_selector_finds(sim):
    async with a_server(sim) as client:
        for name, most in (("a", 3), ("b", 1), ("unrelated", 0)):
            await client.create(CONFIG_MAPS, limits(name, most, **({} if name == "unrelated" else {"limits": "yes"})))
        selector = {"matchLabels": {"limits": "yes"}}
        reference = {"selector": selector, "namespace": "default", "parameterNotFoundAction": "Deny"}
        await enforce(client, a_policy_with_parameters(), a_binding("small", paramRef=reference))

        assert (await ask_counted(client, 2), await ask_counted(client, 1)) == (422, 201)


@pytest.mark.parametrize(("action", "status"), [("Deny", 422), ("Allow", 201)])
async def test_parameters_that_are_not_there_deny_or_allow(sim, action, status):
    async with a_server(sim) as client:
        reference = {"name": "nosuch", "parameterNotFoundAction": action}
        await enforce(client, a_policy_with_parameters(), a_binding("small", paramRef=reference))

        assert await ask_counted(client, 1) == status


@pytest.mark.parametrize(("policy", "status"), [("Fail", 422), ("Ignore", 201)])
async def test_a_kind_of_parameters_that_is_not_served_is_a_failure(sim, policy, status):
    async with a_server(sim) as client:
        kind = {"apiVersion": "acme.io/v1", "kind": "Limit"}
        reference = {"name": "x", "parameterNotFoundAction": "Allow"}
        given = a_policy("small", "params.most > 1", paramKind=kind, failurePolicy=policy)
        await enforce(client, given, a_binding("small", paramRef=reference))

        assert (await put_map(client)).status == status


async def test_policies_bindings_and_reviews_are_exempt(sim):
    async with a_server(sim) as client:
        everything = a_rule("*", apiGroups=["*"], apiVersions=["*"], operations=["*"])
        await enforce(client, a_policy("none", "false", match={"resourceRules": [everything]}))

        assert (await put_map(client)).status == 422
        review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
        reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        assert (await client.ask("POST", reviews, review)).status == 201
        await client.delete(f"{BINDINGS}/none")
        await client.delete(f"{POLICIES}/none")
        assert (await put_map(client)).status == 201


async def test_an_expression_whose_type_is_known_through_a_variable_is_accepted(sim):
    variables = [{"name": "small", "expression": "object.data.size() < 5"}]
    async with a_server(sim) as client:
        for expression in ("variables.small", "request.dryRun", "object.data.?x.orValue('').matches('^[a-z]*$')"):
            policy = a_policy(variables=variables, validations=[{"expression": expression}])
            answer = await client.ask("POST", f"{POLICIES}?dryRun=All", policy)
            assert answer.status == 201, answer.body


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"validations": [{"expression": "object.data.size( <= 1"}]}, "line 1, column 19: Syntax error"),
        ({"validations": [{"expression": "object.size()"}]}, "must evaluate to bool, not to int"),
        ({"validations": [{"expression": "object.spec.paused"}]}, "must evaluate to bool, and the type of a field"),
        ({"validations": [{"expression": "object.spec.paused"}]}, "for example object.spec.paused == true"),
        ({"validations": [{"expression": "object.data['x']"}]}, "must evaluate to bool"),
        ({"validations": [{"expression": "object.data.x.matches('[')"}]}, "invalid regular expression: missing ]: ["),
        (
            {"validations": [{"expression": "quantity(object.data.x).isLessThan(quantity('1'))"}]},
            "undeclared reference to 'quantity': this function of Kubernetes is not supported",
        ),
        (
            {"variables": [{"name": "a", "expression": "1"}], "validations": [{"expression": "variables.a"}]},
            "must evaluate to bool, not to int",
        ),
        ({"validations": [{"expression": "params.x == 1"}]}, "the policy has no paramKind"),
        ({"validations": [{"expression": "variables.x == 1"}]}, "undeclared reference to 'variables'"),
        (
            {"variables": [{"name": "a", "expression": "1"}], "validations": [{"expression": "variables.b == 1"}]},
            "undefined field 'b'",
        ),
        (
            {"validations": [{"expression": "authorizer.path('/x').check('get').allowed()"}]},
            "the variable authorizer is not supported",
        ),
        ({"validations": [{"expression": "true", "messageExpression": "1"}]}, "must evaluate to string"),
        ({"validations": [{"expression": "true", "messageExpression": "object.kind"}]}, "example string(object.kind)"),
        ({"matchConditions": [{"name": "a", "expression": "nosuch"}]}, "spec.matchConditions[0].expression"),
        ({"auditAnnotations": [{"key": "a", "valueExpression": "1"}]}, "must evaluate to string or null"),
        ({"validations": []}, "validations or auditAnnotations must be provided"),
        ({"matchConstraints": {}}, "spec.matchConstraints.resourceRules: Required value"),
        ({"failurePolicy": "Sometimes"}, "spec.failurePolicy: Unsupported value"),
    ],
)
async def test_a_policy_that_cannot_be_used_is_refused_when_it_is_created(sim, spec, said):
    async with a_server(sim) as client:
        answer = await client.ask("POST", POLICIES, a_policy(**spec))

        assert (answer.status, said in answer.body["message"]) == (422, True), answer.body["message"]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"validationActions": []}, "at least one validation action is required"),
        ({"validationActions": ["Deny", "Warn"]}, "must not contain both Deny and Warn"),
        ({"validationActions": ["Maybe"]}, "Unsupported value"),
        ({"policyName": ""}, "spec.policyName: Required value"),
        ({"paramRef": {"parameterNotFoundAction": "Deny"}}, "one of name or selector must be specified"),
        ({"paramRef": {"name": "a"}}, "spec.paramRef.parameterNotFoundAction: Required value"),
    ],
)
async def test_a_binding_that_makes_no_sense_is_refused(sim, spec, said):
    async with a_server(sim) as client:
        answer = await client.ask("POST", BINDINGS, a_binding(**spec))

        assert (answer.status, said in answer.body["message"]) == (422, True), answer.body["message"]


async def test_what_policies_do_not_see_is_warned_about(sim):
    async with a_server(sim) as client:
        rule = a_rule("pods/exec", "deployments/scale", operations=["CONNECT"])
        answer = await client.ask("POST", POLICIES, a_policy(match={"resourceRules": [rule]}))

        assert (answer.status, len(answer.warnings)) == (201, 3)
        assert all("not enforced" in each for each in answer.warnings)


async def test_a_stored_policy_says_which_generation_was_compiled(sim):
    async with a_server(sim) as client:
        await client.create(POLICIES, a_policy())
        changed = await client.patch(f"{POLICIES}/small", {"spec": {"failurePolicy": "Ignore"}})

        assert (changed["metadata"]["generation"], changed["status"]["observedGeneration"]) == (2, 2)


async def test_only_administrators_write_policies(sim):
    async with a_server(sim) as client:
        answer = await client.ask("POST", POLICIES, a_policy(), Authorization="Bearer usertoken")

        assert answer.status == 403


async def test_a_write_of_several_kinds_at_once_is_seen_object_by_object(sim):
    async with a_server(sim) as client:
        await put_map(client, "a", 1)
        await put_map(client, "b", 1)
        rule = a_rule(operations=["DELETE"])
        await enforce(client, a_policy("small", "oldObject.metadata.name != 'b'", match={"resourceRules": [rule]}))

        assert (await client.ask("DELETE", CONFIG_MAPS)).status == 422
        names = [each["metadata"]["name"] for each in (await client.get(CONFIG_MAPS))["items"]]
        assert "b" in names
        assert (await client.ask("POST", CONFIG_MAPS, a_map("e", 5))).status == 201
