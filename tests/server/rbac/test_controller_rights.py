"""Each controller has the rights that it declares to need, and no others; and none of them is a way to more."""

from typing import Any, Final

import pytest

from mainstay.controllers.registry import CONTROLLERS, LOOPS
from mainstay.registry import REGISTRY
from mainstay.server.auth import identities
from mainstay.server.auth.authorization import AccessAttributes, User
from mainstay.server.rbac.authorizer import RbacAuthorizer
from mainstay.server.rbac.bootstrap import build_objects
from mainstay.server.rbac.roles import RoleIndex
from mainstay.server.rbac.rules import split_rule
from mainstay.server.storage.stored import stored
from mainstay.sim.simulation import Simulation
from tests.server.rbac.served import ask_as
from tests.server.world import Client, a_configmap, a_deployment, a_pod, a_server

NAMES: Final = [user.name.removeprefix("system:controller:") for user in identities.CONTROLLER_USERS]
REACH_ALL: Final = ("namespace", "owner-cleanup")
ORDINARY: Final = [name for name in NAMES if name not in REACH_ALL]
READS: Final = ("get", "list", "watch")
WRITES: Final = ("create", "update", "patch", "delete", "deletecollection")
BESIDE: Final = {
    # Its targets are of any kind: it writes their scale, and reads the metrics of their pods, which no store has.
    "horizontal-pod-autoscaler": [
        "get *.*/scale",
        "get *.custom.metrics.k8s.io",
        "list pods.metrics.k8s.io",
        "patch *.*/scale",
    ],
    "node-health": ["create events"],
    "repair": [
        "create componentstates.mainstay.dev",
        "create events",
        "create namespaces/recount",
        "create nodes/recount",
        "get componentstates.mainstay.dev",
        "get componentstates.mainstay.dev/status",
        "patch componentstates.mainstay.dev",
        "patch componentstates.mainstay.dev/status",
    ],
}
"""What is no decision about an object: Events, what the loop says of itself, and what it asks the server to do."""
SILENT: Final = {"endpoints": ["services"], "horizontal-pod-autoscaler": ["deployments.apps", "replicasets.apps"]}
"""Of the kind that it looks after it writes not even the status; of its targets only the scale."""


@pytest.fixture(scope="module")
def index() -> RoleIndex:
    """All that there is from the beginning."""
    index = RoleIndex()
    for key, obj in build_objects().items():
        index.put(key, stored(obj))
    return index


@pytest.fixture(scope="module")
def roles(index: RoleIndex) -> RbacAuthorizer:
    return RbacAuthorizer(index)


def find_rights(index: RoleIndex, user: User) -> set[tuple[str, str, str]]:
    """Verb, kind and subresource, of the rules that a user has anywhere. Kinds are called as declarations do."""
    found = set()
    for namespace in ("kube-system", "kube-node-lease"):
        for granted in index.find_granted(user, namespace):
            for part in (part for rule in granted.rules or () for part in split_rule(rule) if part.groups):
                plural, _, subresource = part.resources[0].partition("/")
                kind = f"{plural}.{part.groups[0]}" if part.groups[0] else plural
                found.add((part.verbs[0], kind, subresource))
    return found


def test_each_controller_has_a_user_and_each_user_a_controller():
    assert sorted(NAMES) == sorted([*(each.name for each in CONTROLLERS), *(each.name for each in LOOPS)])


@pytest.mark.parametrize("name", ORDINARY)
def test_a_controller_has_rights_for_what_it_declares_and_no_others(index: RoleIndex, name: str):
    declared = REGISTRY.declared()[name]
    rights = find_rights(index, identities.build_controller_user(name))

    undeclared = sorted(
        f"{verb} {kind}{'/' if part else ''}{part}"
        for verb, kind, part in rights
        if verb not in (*READS, *WRITES)
        or kind not in (declared.writes if verb in WRITES else {*declared.reads, *declared.writes})
    )
    without = sorted({*declared.writes} - {kind for verb, kind, _ in rights if verb in WRITES})
    assert (undeclared, without) == (BESIDE.get(name, []), SILENT.get(name, []))


SENSITIVE: Final = [
    AccessAttributes("get", "", "secrets", "default", "x"),
    AccessAttributes("list", "", "secrets"),
    AccessAttributes("create", "", "secrets", "default"),
    AccessAttributes("patch", "", "namespaces", "default", "default"),
    AccessAttributes("update", "", "namespaces", "default", "default"),
    AccessAttributes("create", "", "namespaces"),
    AccessAttributes("create", "", "serviceaccounts", "default", "x", "token"),
    AccessAttributes("create", "", "pods", "default", "x", "exec"),
    AccessAttributes("create", "", "pods", "default", "x", "binding"),
    AccessAttributes("get", "", "nodes", "", "n1", "proxy"),
    AccessAttributes("impersonate", "", "users", "", "kubernetes-admin"),
    AccessAttributes("impersonate", "", "groups", "", "system:masters"),
    AccessAttributes("impersonate", "", "serviceaccounts", "kube-system", "x"),
    *(
        AccessAttributes(verb, "rbac.authorization.k8s.io", kind, "default", "x")
        for kind in ("roles", "rolebindings", "clusterroles", "clusterrolebindings")
        for verb in (*READS, *WRITES, "bind", "escalate")
    ),
]


@pytest.mark.parametrize("name", [*ORDINARY, ""])
def test_no_ordinary_controller_touches_secrets_roles_or_labels_of_namespaces(roles: RbacAuthorizer, name: str):
    """Nor does the process in which they run, as itself."""
    user = identities.build_controller_user(name) if name else identities.CONTROLLERS

    assert [str(each) for each in SENSITIVE if roles.decide(user, each).allowed] == []


def test_the_process_acts_as_its_controllers_and_no_others(index: RoleIndex, roles: RbacAuthorizer):
    def may_act_as(user: str) -> bool:
        return roles.decide(identities.CONTROLLERS, AccessAttributes("impersonate", "", "users", name=user)).allowed

    assert all(may_act_as(user.name) for user in identities.CONTROLLER_USERS)
    others = ("kubernetes-admin", "system:kube-scheduler", "system:node:n1", "system:controller:x", "alice")
    assert [user for user in others if may_act_as(user)] == []
    assert {kind for verb, kind, _ in find_rights(index, identities.CONTROLLERS) if verb in WRITES} == {
        "componentstates.mainstay.dev",
        "events",
        "events.events.k8s.io",
        "leases.coordination.k8s.io",
    }


# Garbage collection and the deletion of namespaces, which reach every kind.

COLLECTOR: Final = "system:controller:owner-cleanup"
NAMESPACES: Final = "system:controller:namespace"
CORE: Final = "/api/v1/namespaces/default"
APPS: Final = "/apis/apps/v1/namespaces/default"
PASSWORD: Final = "aHVudGVyMg=="
JSON: Final = "application/json"
APPLY: Final = "application/apply-patch+yaml"
JSON_PATCH: Final = "application/json-patch+json"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"


async def patch_as(client: Client, user: str, path: str, body: dict[str, Any]) -> tuple[int, object]:
    answer = await client.ask("PATCH", path, body, MERGE, Impersonate_User=user)
    return answer.status, answer.body


async def test_the_collector_takes_owners_and_finalizers_out_and_changes_nothing_else(sim: Simulation):
    async with a_server(sim) as client:
        made = a_configmap("c", a="1")
        made["metadata"]["finalizers"] = ["example.com/wait"]
        await client.create(f"{CORE}/configmaps", made)

        status, _ = await patch_as(client, COLLECTOR, f"{CORE}/configmaps/c", {"metadata": {"finalizers": []}})
        assert status == 200
        refused: dict[str, dict[str, Any]] = {
            "/api/v1/namespaces/default": {
                "metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}
            },
            f"{CORE}/configmaps/c": {"data": {"a": "2"}},
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/system:basic-user": {
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve"}]
            },
        }
        for path, body in refused.items():
            status, answer = await patch_as(client, COLLECTOR, path, body)
            assert status == 403, path
            assert "may change only metadata.ownerReferences and metadata.finalizers" in str(answer)

        assert (await client.get(f"{CORE}/configmaps/c"))["data"] == {"a": "1"}


def by_json_patch(*steps: dict[str, Any]) -> tuple[str, object]:
    return JSON_PATCH, list(steps)


OWNED: Final = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "y"}
FIRST_OWNER: Final = {"op": "add", "path": "/metadata/ownerReferences", "value": [OWNED]}
RELEASE: Final[dict[str, Any]] = {"metadata": {"finalizers": []}}
MANAGED: Final = {"manager": "eve", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z"}
TELLING: Final[dict[str, tuple[str, str, str, object]]] = {
    "a copy into an owner": (
        "PATCH",
        "secrets/s",
        *by_json_patch(
            FIRST_OWNER, {"op": "copy", "from": "/data/password", "path": "/metadata/ownerReferences/0/uid"}
        ),
    ),
    "a wrong guess": ("PATCH", "secrets/s", *by_json_patch({"op": "test", "path": "/data/password", "value": "eA=="})),
    "a right guess": (
        "PATCH",
        "secrets/s",
        *by_json_patch({"op": "test", "path": "/data/password", "value": PASSWORD}),
    ),
    "a refused value": ("PATCH", "pods/p", MERGE, {"spec": {"containers": [{"name": "c", "image": "other"}]}}),
    "a refused value, and a release": (
        "PATCH",
        "pods/p",
        MERGE,
        {**RELEASE, "spec": {"containers": [{"name": "c", "image": "other"}]}},
    ),
    "no value": ("PATCH", "pods/p", MERGE, {"spec": None}),
    "a Scale": ("PATCH", "deployments/d/scale", MERGE, {}),
    "a status": ("PATCH", "pods/p/status", MERGE, {}),
    "the status of what is seen whole": ("PATCH", "status", MERGE, {}),
    "other metadata": ("PATCH", "secrets/s", MERGE, {"metadata": {"managedFields": [MANAGED]}}),
    "no metadata": ("PATCH", "secrets/s", MERGE, {"metadata": None}),
    "no object": ("PATCH", "secrets/s", MERGE, [RELEASE]),
    "no JSON": ("PATCH", "secrets/s", MERGE, b"{"),
    "too many levels": ("PATCH", "secrets/s", MERGE, b'{"metadata": {"finalizers": ' + b"[" * 100_000),
    "a strategic merge": ("PATCH", "secrets/s", STRATEGIC, {"metadata": {"$patch": "replace", "finalizers": []}}),
    "an apply": ("PATCH", "secrets/s?fieldManager=x", APPLY, {"apiVersion": "v1", "kind": "Secret", **RELEASE}),
    "an apply that creates": ("PATCH", "secrets/t?fieldManager=x", APPLY, {"apiVersion": "v1", "kind": "Secret"}),
    "an update": ("PUT", "secrets/s", JSON, {"metadata": {"name": "s"}, "data": {}}),
    "another one": ("POST", "secrets", JSON, {"metadata": {"name": "t"}}),
    "a token": ("POST", "serviceaccounts/default/token", JSON, {}),
    "a proxy": ("DELETE", "services/x/proxy", JSON, None),
}


@pytest.mark.parametrize("what", TELLING)
async def test_the_collector_sends_nothing_whose_answer_depends_on_more_than_metadata(sim: Simulation, what: str):
    method, place, content_type, body = TELLING[what]
    async with a_server(sim) as client:
        await client.create(f"{CORE}/secrets", {"metadata": {"name": "s"}, "data": {"password": PASSWORD}})
        env = [{"name": "PASSWORD", "value": PASSWORD}]
        await client.create(f"{CORE}/pods", a_pod("p", containers=[{"name": "c", "image": "i", "env": env}]))
        await client.create(f"{APPS}/deployments", a_deployment("d"))

        path = f"{APPS if place.startswith('deployments') else CORE}/{place}"
        path += ("&" if "?" in path else "?") + "dryRun=All"
        answer = await client.ask(method, path, body, content_type, Impersonate_User=COLLECTOR)

        assert answer.status == 403, answer
        assert PASSWORD not in str(answer.body)


@pytest.mark.parametrize("user", [COLLECTOR, NAMESPACES])
async def test_those_that_reach_every_kind_see_metadata_alone(sim: Simulation, user: str):
    async with a_server(sim) as client:
        secret = {"metadata": {"name": "s"}, "data": {"password": PASSWORD}}
        await client.create(f"{CORE}/secrets", secret)

        answers = {
            "list": await ask_as(client, user, "GET", f"{CORE}/secrets"),
            "table": await ask_as(
                client, user, "GET", f"{CORE}/secrets", Accept="application/json;as=Table;g=meta.k8s.io;v=v1"
            ),
            "delete": await ask_as(client, user, "DELETE", f"{CORE}/secrets/s?dryRun=All"),
        }
        if user == COLLECTOR:
            answers["get"] = await ask_as(client, user, "GET", f"{CORE}/secrets/s")
            answers["yaml"] = await ask_as(client, user, "GET", f"{CORE}/secrets/s", Accept="application/yaml")
            answers["patch"] = await client.ask("PATCH", f"{CORE}/secrets/s", {}, MERGE, Impersonate_User=user)
            async with client.watch(f"{CORE}/secrets?watch=1", **{"Impersonate-User": user}) as events:
                event = await events.next()
                assert (event["object"]["kind"], "data" in event["object"]) == ("PartialObjectMetadata", False)

        assert {name: answer.status for name, answer in answers.items()} == dict.fromkeys(answers, 200)
        assert [name for name, answer in answers.items() if PASSWORD in str(answer.body)] == []
        assert answers["list"].body["kind"] == "PartialObjectMetadataList"
        assert (await ask_as(client, user, "GET", f"{CORE}/pods/x/log")).status == 403
        # But of these, which say what there is to clean up, they see all.
        for path in ("/api/v1/namespaces", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"):
            kind = (await ask_as(client, user, "GET", path)).body["kind"]
            assert kind in ("NamespaceList", "CustomResourceDefinitionList")
