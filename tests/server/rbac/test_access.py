"""Roles and bindings have effect, in a server."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from mainstay.api.errors import StatusError, StatusReason
from mainstay.env import tasks
from mainstay.server.rbac import service
from mainstay.server.rbac.rules import PolicyRule
from mainstay.server.storage.writes import ObjectWriter
from mainstay.sim.simulation import Simulation
from mainstay.store import open_memory
from tests.server.auth.test_token_requests import KEY
from tests.server.rbac.served import (
    ALICE,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    RBAC,
    ROLE_BINDINGS,
    ROLES,
    a_binding,
    a_group,
    a_path_rule,
    a_role,
    a_rule,
    an_account,
    ask_as,
    grant,
)
from tests.server.world import CONFIGMAPS, DEPLOYMENTS, PODS, a_configmap, a_deployment, a_pod, a_server

KUBE_PODS = "/api/v1/namespaces/kube-system/pods"
REVIEWS = "/apis/authorization.k8s.io/v1"


async def test_a_service_account_may_do_what_its_role_says_and_no_more(sim: Simulation):
    """The reproduction of C3."""
    async with a_server(sim, signing_key=KEY) as client:
        await client.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "ci"}})
        issued = await client.create("/api/v1/namespaces/default/serviceaccounts/ci/token", {"spec": {}})
        by_token = {"Authorization": f"Bearer {issued['status']['token']}"}
        before = await client.ask("GET", PODS, **by_token)
        await grant(client, an_account("ci"), a_rule("get list", "pods"))

        listed = await client.ask("GET", PODS, **by_token)
        made = await client.ask("POST", PODS, a_pod("web"), **by_token)
        elsewhere = await client.ask("GET", KUBE_PODS, **by_token)

    assert (before.status, listed.status, elsewhere.status, made.status) == (403, 200, 200, 403)
    assert made.body["message"] == (
        'pods is forbidden: User "system:serviceaccount:default:ci" cannot create resource "pods" in API group ""'
        ' in the namespace "default"'
    )


async def test_a_role_binding_counts_in_its_namespace_alone(sim: Simulation):
    async with a_server(sim) as client:
        await client.create(ROLES, a_role("reader", a_rule("get list", "pods")))
        await client.create(ROLE_BINDINGS, a_binding("reader", "reader", ALICE, kind="Role"))
        await client.create(ROLE_BINDINGS, a_binding("view", "view", a_group("devs")))

        own = await ask_as(client, "alice", "GET", PODS)
        other = await ask_as(client, "alice", "GET", KUBE_PODS)
        everywhere = await ask_as(client, "alice", "GET", "/api/v1/pods")
        in_group = await ask_as(client, "bob", "GET", DEPLOYMENTS, Impersonate_Group="devs")
        namespace = await ask_as(client, "bob", "GET", "/api/v1/namespaces/default", Impersonate_Group="devs")
        secrets = await ask_as(client, "bob", "GET", "/api/v1/namespaces/default/secrets", Impersonate_Group="devs")

    assert (own.status, other.status, everywhere.status) == (200, 403, 403)
    assert (in_group.status, namespace.status, secrets.status) == (200, 200, 403)
    assert everywhere.body["message"].endswith('cannot list resource "pods" in API group "" at the cluster scope')


async def test_rules_may_name_objects_subresources_and_paths(sim: Simulation):
    async with a_server(sim) as client:
        await client.create(CONFIGMAPS, a_configmap("mine"))
        await client.create(CONFIGMAPS, a_configmap("other"))
        await client.create(DEPLOYMENTS, a_deployment("web"))
        await grant(
            client,
            ALICE,
            a_rule("get list update", "configmaps", resourceNames=["mine"]),
            a_rule("get", "*/scale", "apps"),
            a_path_rule("/metrics", "/journal/*"),
        )

        async def status_of(path: str) -> int:
            return (await ask_as(client, "alice", "GET", path)).status

        found = {
            "mine": await status_of(f"{CONFIGMAPS}/mine"),
            "other": await status_of(f"{CONFIGMAPS}/other"),
            "all": await status_of(CONFIGMAPS),
            "selected": await status_of(f"{CONFIGMAPS}?fieldSelector=metadata.name%3Dmine"),
            "selected other": await status_of(f"{CONFIGMAPS}?fieldSelector=metadata.name%3Dother"),
            "scale": await status_of(f"{DEPLOYMENTS}/web/scale"),
            "deployment": await status_of(f"{DEPLOYMENTS}/web"),
            "metrics": await status_of("/metrics"),
            "journal": await status_of("/journal/extent"),
            "openapi": await status_of("/openapi/v3"),
        }

    assert found == {
        "mine": 200,
        "other": 403,
        "all": 403,
        "selected": 200,
        "selected other": 403,
        "scale": 200,
        "deployment": 403,
        "metrics": 200,
        "journal": 404,  # There is none.
        "openapi": 200,
    }


async def test_an_update_or_apply_that_creates_takes_the_right_to_create(sim: Simulation):
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", **a_role("new")}
    async with a_server(sim) as client:
        await grant(client, ALICE, a_rule("update patch", "roles", "rbac.authorization.k8s.io"))
        put = await ask_as(client, "alice", "PUT", f"{ROLES}/new", role)
        applied = await client.ask(
            "PATCH", f"{ROLES}/new?fieldManager=m", role, "application/apply-patch+yaml", Impersonate_User="alice"
        )
        await client.create(ROLES, a_role("new"))
        again = await ask_as(client, "alice", "PUT", f"{ROLES}/new", role)

    assert (put.status, applied.status, again.status) == (403, 403, 200)
    assert 'cannot create resource "roles"' in put.body["message"]


async def test_a_refusal_says_which_role_does_not_exist(sim: Simulation):
    async with a_server(sim) as client:
        await client.create(CLUSTER_ROLE_BINDINGS, a_binding("gone", "gone", ALICE))
        refused = await ask_as(client, "alice", "GET", PODS)

    assert refused.body["message"].endswith(': RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found')


async def test_deleting_a_collection_is_a_right_of_its_own(sim: Simulation):
    async with a_server(sim) as client:
        await grant(client, ALICE, a_rule("delete", "configmaps"))
        refused = await ask_as(client, "alice", "DELETE", CONFIGMAPS)

    assert refused.status == 403
    assert "cannot deletecollection resource" in refused.body["message"]


@pytest.mark.parametrize(
    ("path", "anonymous", "user"),
    [
        ("/healthz", 200, 200),
        ("/livez", 200, 200),
        ("/readyz", 200, 200),
        ("/version", 200, 200),
        ("/api", 403, 200),
        ("/apis/apps/v1", 403, 200),
        ("/openapi/v3", 403, 200),
        ("/metrics", 403, 403),
        ("/journal/extent", 403, 403),
        ("/", 403, 403),
    ],
)
async def test_pages_are_for_those_whom_roles_allow_them(sim: Simulation, path: str, anonymous: int, user: int):
    async with a_server(sim) as client:
        by_anonymous = await client.ask("GET", path, Authorization="")
        by_user = await client.ask("GET", path, Authorization="Bearer usertoken")

    assert (by_anonymous.status, by_user.status) == (anonymous, user)


# Aggregation.


async def test_an_aggregating_role_has_the_rules_of_all_it_selects_at_once(sim: Simulation):
    everything = {"clusterRoleSelectors": [{"matchLabels": {"monitored": "yes"}}]}
    async with a_server(sim) as client:
        await client.create(CLUSTER_ROLES, {"metadata": {"name": "all"}, "aggregationRule": everything})
        await client.create(CLUSTER_ROLE_BINDINGS, a_binding("all", "all", ALICE))
        before = await ask_as(client, "alice", "GET", PODS)
        await client.create(CLUSTER_ROLES, a_role("part", a_rule("list", "pods"), monitored="yes"))
        after = await ask_as(client, "alice", "GET", PODS)
        await tasks.sleep(timedelta(seconds=3))
        shown = await client.get(f"{CLUSTER_ROLES}/all")
        await client.delete(f"{CLUSTER_ROLES}/part")
        gone = await ask_as(client, "alice", "GET", PODS)
        await tasks.sleep(timedelta(seconds=3))
        shown_then = await client.get(f"{CLUSTER_ROLES}/all")

    assert (before.status, after.status, gone.status) == (403, 200, 403)
    assert shown["rules"] == [{"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}]
    assert shown_then["rules"] == []


async def test_a_role_whose_rules_cannot_be_written_is_tried_less_and_less_often(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    usual, is_broken = service._show_rules, True

    async def show(writes: ObjectWriter, name: str, rules: Sequence[PolicyRule]) -> None:
        if is_broken and name == "broken":
            raise StatusError(422, StatusReason.INVALID, "no")
        await usual(writes, name, rules)

    monkeypatch.setattr(service, "_show_rules", show)
    everything = {"clusterRoleSelectors": [{"matchLabels": {"monitored": "yes"}}]}
    async with a_server(sim) as client:
        await client.create(CLUSTER_ROLES, a_role("part", a_rule("list", "pods"), monitored="yes"))
        for name in ("broken", "whole"):
            await client.create(CLUSTER_ROLES, {"metadata": {"name": name}, "aggregationRule": everything})
        await tasks.sleep(timedelta(hours=1))
        failures = caplog.text.count("cannot write the rules of ClusterRole broken")
        await client.create(CLUSTER_ROLES, a_role("other", a_rule("get", "pods"), monitored="yes"))
        await tasks.sleep(timedelta(seconds=3))
        whole = await client.get(f"{CLUSTER_ROLES}/whole")
        is_broken = False
        await tasks.sleep(timedelta(minutes=5))
        mended = await client.get(f"{CLUSTER_ROLES}/broken")

    assert 10 < failures < 25
    assert len(whole["rules"]) == 2
    assert mended["rules"] == whole["rules"]


async def test_a_custom_kind_joins_admin_edit_and_view_by_label(sim: Simulation):
    rule = a_rule("get list", "websites", "example.com")
    label = {"metadata": {"name": "websites-view", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}}
    async with a_server(sim) as client:
        await client.create(CLUSTER_ROLES, {**label, "rules": [rule]})
        for role in ("view", "edit", "admin"):
            await client.create(ROLE_BINDINGS, a_binding(role, role, {**ALICE, "name": role}))
            review = {
                "spec": {
                    "user": role,
                    "resourceAttributes": {
                        "verb": "list",
                        "group": "example.com",
                        "resource": "websites",
                        "namespace": "default",
                    },
                }
            }
            answer = await client.create(f"{REVIEWS}/subjectaccessreviews", review)
            assert answer["status"] == {
                "allowed": True,
                "reason": f'RBAC: allowed by RoleBinding "{role}/default" of ClusterRole "{role}" to User "{role}"',
            }


# Reviews.


async def test_reviews_say_what_is_allowed_and_why(sim: Simulation):
    def asking(verb: str, **more: str) -> dict[str, object]:
        return {"spec": {"resourceAttributes": {"verb": verb, "resource": "pods", "namespace": "default", **more}}}

    async with a_server(sim) as client:
        await grant(client, ALICE, a_rule("get", "pods"))
        own = f"{REVIEWS}/selfsubjectaccessreviews"
        allowed = await ask_as(client, "alice", "POST", own, asking("get"))
        refused = await ask_as(client, "alice", "POST", own, asking("delete"))
        page = await ask_as(
            client, "alice", "POST", own, {"spec": {"nonResourceAttributes": {"verb": "get", "path": "/version"}}}
        )
        nothing = await ask_as(client, "alice", "POST", own, {"spec": {}})
        others = await ask_as(client, "alice", "POST", f"{REVIEWS}/subjectaccessreviews", asking("get"))
        local = f"{REVIEWS}/namespaces/kube-system/localsubjectaccessreviews"
        mismatch = await client.ask("POST", local, {"spec": {**asking("get")["spec"], "user": "alice"}})  # type: ignore[dict-item]
        without_user = await client.ask("POST", f"{REVIEWS}/subjectaccessreviews", asking("get"))

    reason = 'RBAC: allowed by ClusterRoleBinding "granted" of ClusterRole "granted" to User "alice"'
    assert allowed.body["status"] == {"allowed": True, "reason": reason}
    assert refused.body["status"] == {"allowed": False}
    assert page.body["status"]["allowed"] is True
    assert (nothing.status, others.status, mismatch.status, without_user.status) == (422, 403, 422, 422)
    assert "must match metadata.namespace" in mismatch.body["message"]


async def test_a_rules_review_lists_what_a_user_may_do_in_a_namespace(sim: Simulation):
    path = f"{REVIEWS}/selfsubjectrulesreviews"
    async with a_server(sim) as client:
        await client.create(ROLES, a_role("reader", a_rule("get", "pods", resourceNames=["web"])))
        await client.create(ROLE_BINDINGS, a_binding("reader", "reader", ALICE, kind="Role"))
        here = await ask_as(client, "alice", "POST", path, {"spec": {"namespace": "default"}})
        there = await ask_as(client, "alice", "POST", path, {"spec": {"namespace": "kube-system"}})
        nowhere = await ask_as(client, "alice", "POST", path, {"spec": {}})

    mine = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["web"]}
    assert mine in here.body["status"]["resourceRules"]
    assert mine not in there.body["status"]["resourceRules"]
    assert here.body["status"]["incomplete"] is False
    assert any("/version" in rule["nonResourceURLs"] for rule in here.body["status"]["nonResourceRules"])
    assert nowhere.status == 400


# Impersonation.


async def test_a_user_impersonates_those_whom_a_role_names(sim: Simulation):
    async with a_server(sim) as client:
        bob = {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"], "resourceNames": ["bob"]}
        devs = {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["groups"], "resourceNames": ["devs"]}
        scopes = a_rule("impersonate", "userextras/scopes", "authentication.k8s.io")
        await grant(client, ALICE, bob, devs, scopes)
        await client.create(ROLES, a_role("accounts", a_rule("impersonate", "serviceaccounts")))
        await client.create(ROLE_BINDINGS, a_binding("accounts", "accounts", ALICE, kind="Role"))

        async def acting(**headers: str) -> int:
            sent = {"Authorization": "Bearer usertoken", **headers}
            answer = await client.ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, **sent)
            return answer.status

        found = [
            await acting(Impersonate_User="bob"),
            await acting(Impersonate_User="bob", Impersonate_Group="devs", Impersonate_Extra_scopes="view"),
            await acting(Impersonate_User="eve"),
            await acting(Impersonate_User="bob", Impersonate_Group="system:masters"),
            await acting(Impersonate_User="bob", Impersonate_Extra_teams="shop"),
            await acting(Impersonate_User="bob", Impersonate_Uid="7"),
            await acting(Impersonate_User="system:serviceaccount:default:ci"),
            await acting(Impersonate_User="system:serviceaccount:kube-system:ci"),
        ]

    assert found == [201, 201, 403, 403, 403, 403, 201, 403]


# Escalation.


async def test_a_user_grants_no_more_than_they_have(sim: Simulation):
    async with a_server(sim) as client:
        rbac = "rbac.authorization.k8s.io"
        manage = a_rule("create update patch", "roles rolebindings clusterroles clusterrolebindings", rbac)
        await grant(client, ALICE, manage, a_rule("get list", "pods"))
        held = await ask_as(client, "alice", "POST", ROLES, a_role("held", a_rule("get", "pods")))
        more = await ask_as(client, "alice", "POST", ROLES, a_role("more", a_rule("get delete", "pods secrets")))
        grown = await client.ask(
            "PATCH",
            f"{ROLES}/held",
            {"rules": [a_rule("*", "pods")]},
            "application/merge-patch+json",
            Impersonate_User="alice",
        )
        applied = await client.ask(
            "PATCH",
            f"{ROLES}/held?fieldManager=m&force=true",
            {"apiVersion": f"{rbac}/v1", "kind": "Role", **a_role("held", a_rule("*", "pods"))},
            "application/apply-patch+yaml",
            Impersonate_User="alice",
        )
        bound = await ask_as(client, "alice", "POST", ROLE_BINDINGS, a_binding("b", "held", ALICE, kind="Role"))
        admin = await ask_as(client, "alice", "POST", ROLE_BINDINGS, a_binding("a", "cluster-admin", ALICE))
        missing = await ask_as(client, "alice", "POST", ROLE_BINDINGS, a_binding("m", "missing", ALICE))
        aggregating = {"metadata": {"name": "x"}, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {}}]}}
        aggregated = await ask_as(client, "alice", "POST", CLUSTER_ROLES, aggregating)

    assert (held.status, bound.status) == (201, 201)
    assert (more.status, grown.status, applied.status, admin.status) == (403, 403, 403, 403)
    assert (missing.status, aggregated.status) == (404, 403)
    assert more.body["message"] == (
        'roles.rbac.authorization.k8s.io "more" is forbidden: user "alice" (groups=["system:authenticated"])'
        " is attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}\n'
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "delete"]}'
    )
    assert missing.body["message"] == 'clusterrole.rbac.authorization.k8s.io "missing" not found'
    assert "must have cluster-admin privileges to use an aggregationRule" in aggregated.body["message"]


async def test_a_role_too_large_to_compare_is_to_be_split(sim: Simulation, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("mainstay.server.rbac.escalation.LOOKS_MAX", 100)
    async with a_server(sim) as client:
        await grant(client, ALICE, a_rule("create", "roles", "rbac.authorization.k8s.io"), a_rule("get", "pods"))
        large = a_role("large", a_rule("get", "pods", resourceNames=[f"p{number}" for number in range(101)]))
        answer = await ask_as(client, "alice", "POST", ROLES, large)

    assert answer.status == 422
    assert "split the role" in answer.body["message"]


async def test_escalate_and_bind_are_rights_of_their_own(sim: Simulation):
    async with a_server(sim) as client:
        rbac = "rbac.authorization.k8s.io"
        await grant(
            client,
            ALICE,
            a_rule("create escalate", "roles", rbac),
            a_rule("create", "rolebindings", rbac),
            a_rule("bind", "clusterroles", rbac, resourceNames=["view"]),
        )
        escalated = await ask_as(client, "alice", "POST", ROLES, a_role("any", a_rule("*", "*", "*")))
        bound = await ask_as(client, "alice", "POST", ROLE_BINDINGS, a_binding("v", "view", ALICE))
        other = await ask_as(client, "alice", "POST", ROLE_BINDINGS, a_binding("e", "edit", ALICE))

    assert (escalated.status, bound.status, other.status) == (201, 201, 403)


async def test_a_cluster_admin_by_binding_grants_everything(sim: Simulation):
    async with a_server(sim) as client:
        await client.create(CLUSTER_ROLE_BINDINGS, a_binding("root", "cluster-admin", ALICE))
        made = await ask_as(client, "alice", "POST", CLUSTER_ROLE_BINDINGS, a_binding("r2", "cluster-admin", ALICE))
        aggregating = {"metadata": {"name": "x"}, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {}}]}}
        aggregated = await ask_as(client, "alice", "POST", CLUSTER_ROLES, aggregating)

    assert (made.status, aggregated.status) == (201, 201)


async def test_a_binding_stays_with_its_role(sim: Simulation):
    async with a_server(sim) as client:
        await client.create(ROLE_BINDINGS, a_binding("b", "view", ALICE))
        changed = await client.ask("PUT", f"{ROLE_BINDINGS}/b", a_binding("b", "edit", ALICE))

    assert changed.status == 422
    assert "cannot change roleRef" in changed.body["message"]


# What every cluster has.


async def test_the_bootstrap_roles_are_there_and_bring_back_what_is_missing(sim: Simulation):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        first = await client.get(f"{CLUSTER_ROLES}/system:basic-user")
        await client.patch(f"{CLUSTER_ROLES}/system:basic-user", {"rules": [a_rule("get", "pods")]})
        await client.patch(f"{CLUSTER_ROLE_BINDINGS}/system:discovery", {"subjects": [ALICE]})
        await client.patch(
            f"{CLUSTER_ROLES}/system:monitoring",
            {"metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}, "rules": []},
        )
        await client.delete(f"{CLUSTER_ROLES}/view")
    async with a_server(sim, "second", store=store) as client:
        role = await client.get(f"{CLUSTER_ROLES}/system:basic-user")
        binding = await client.get(f"{CLUSTER_ROLE_BINDINGS}/system:discovery")
        protected = await client.get(f"{CLUSTER_ROLES}/system:monitoring")
        view = await client.get(f"{CLUSTER_ROLES}/view")
        revision = await store.revision()
    async with a_server(sim, "third", store=store) as client:
        roles = await client.get(f"{RBAC}/clusterroles")
        changed = (await store.revision()) - revision

    assert first["metadata"]["labels"] == {"kubernetes.io/bootstrapping": "rbac-defaults"}
    assert first["metadata"]["annotations"] == {"rbac.authorization.kubernetes.io/autoupdate": "true"}
    assert role["rules"][0] == a_rule("get", "pods")
    assert len(role["rules"]) == 4
    assert [each["name"] for each in binding["subjects"]] == ["alice", "system:authenticated"]
    assert protected["rules"] == []
    assert view["rules"]
    assert changed <= 1  # The epoch that every server begins; no role.
    assert {"cluster-admin", "admin", "edit", "view", "system:node"} <= {
        each["metadata"]["name"] for each in roles["items"]
    }
