"""What agents may do: by name (node_authorizer.py), and by what is bound to them (node_restriction.py)."""

import pytest

from mainstay.server.auth.authorization import NODES, AccessAttributes, User
from tests.server.access import some_authorizers
from tests.server.auth.test_token_requests import KEY
from tests.server.world import PODS, Client, a_pod, a_server

AGENT = User("system:node:n1", (NODES, "system:authenticated"))
AUTHORIZERS = some_authorizers()
AS_AGENT = {"Impersonate_User": "system:node:n1", "Impersonate_Group": NODES}
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
TOKEN = "/api/v1/namespaces/default/serviceaccounts/web/token"
READY = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}


def an_action(
    verb: str, resource: str, name: str = "", subresource: str = "", namespace: str = "default", selector: str = ""
) -> AccessAttributes:
    resource, _, group = resource.partition(".")
    return AccessAttributes(verb, group, resource, namespace, name, subresource, selector)


@pytest.mark.parametrize(
    "action",
    [
        an_action("list", "pods", selector="spec.nodeName=n1"),
        an_action("watch", "pods", selector="spec.nodeName=n1,status.phase!=Failed"),
        an_action("get", "nodes", "n1", namespace=""),
        an_action("get", "leases.coordination.k8s.io", "n1", namespace="kube-node-lease"),
        an_action("list", "services"),
        an_action("list", "nodes", namespace=""),
        an_action("watch", "nodes", namespace=""),
        an_action("patch", "pods", "p", "status"),
        an_action("create", "pods", "p", "eviction"),
        an_action("delete", "pods", "p"),
        an_action("create", "events"),
        an_action("patch", "events", "e"),
        an_action("create", "nodes"),
        an_action("patch", "nodes", "n1", "status"),
        an_action("get", "nodes", "n1", "ghosts"),
        an_action("update", "nodes", "n1", "ghosts"),
        an_action("update", "leases.coordination.k8s.io", "n1", namespace="kube-node-lease"),
    ],
    ids=str,
)
def test_agents_may_do_what_they_need(action):
    assert AUTHORIZERS.decide(AGENT, action).allowed


@pytest.mark.parametrize(
    "action",
    [
        an_action("list", "secrets"),
        an_action("watch", "secrets"),
        an_action("get", "pods", "p", "exec"),
        an_action("create", "pods", "p", "exec"),
        an_action("get", "pods", "p", "log"),
        an_action("create", "pods"),
        an_action("patch", "pods", "p"),
        an_action("create", "pods", "p", "binding"),
        an_action("list", "pods"),
        an_action("watch", "pods", selector="spec.nodeName=n2"),
        an_action("watch", "pods", selector="spec.nodeName!=n1"),
        an_action("get", "pods", "p"),
        an_action("get", "secrets", "s"),
        an_action("get", "configmaps", "c"),
        an_action("list", "configmaps"),
        an_action("get", "serviceaccounts", "web"),
        an_action("create", "serviceaccounts", "web", "token"),
        an_action("get", "persistentvolumes", "pv", namespace=""),
        an_action("get", "nodes", "n2", namespace=""),
        an_action("get", "secrets.example.com", "s"),
        an_action("get", "leases.coordination.k8s.io", "n2", namespace="kube-node-lease"),
        an_action("patch", "componentstates.mainstay.dev", "repair", namespace=""),
        an_action("patch", "componentstates.mainstay.dev", "repair", "status", namespace=""),
        an_action("deletecollection", "pods"),
        an_action("deletecollection", "nodes"),
        an_action("delete", "nodes", "n1"),
        an_action("patch", "nodes", "n2", "status"),
        an_action("get", "nodes", "n2", "ghosts"),
        an_action("update", "nodes", "n2", "ghosts"),
        an_action("update", "leases.coordination.k8s.io", "n2", namespace="kube-node-lease"),
        an_action("update", "leases.coordination.k8s.io", "n1", namespace="kube-system"),
        an_action("deletecollection", "events"),
        an_action("create", "serviceaccounts"),
        an_action("create", "secrets"),
    ],
    ids=str,
)
def test_agents_may_do_no_more(action):
    assert not AUTHORIZERS.decide(AGENT, action).allowed


async def two_pods(client: Client) -> None:
    await client.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "web"}})
    for name in ("n1", "n2"):
        await client.create("/api/v1/nodes", {"metadata": {"name": name}})
        await client.create(PODS, a_pod(f"on-{name}", nodeName=name, serviceAccountName="web"))


async def test_an_agent_writes_about_pods_that_are_bound_to_its_node(sim):
    async with a_server(sim) as client:
        await two_pods(client)
        patch = "application/strategic-merge-patch+json"

        own = await client.ask("PATCH", f"{PODS}/on-n1/status", READY, patch, **AS_AGENT)
        other = await client.ask("PATCH", f"{PODS}/on-n2/status", READY, patch, **AS_AGENT)
        gone = await client.ask("PATCH", f"{PODS}/nowhere/status", READY, patch, **AS_AGENT)

        assert (own.status, other.status, gone.status) == (200, 403, 404)
        assert other.body["message"] == (
            'pods "on-n2" is forbidden: node "n1" can only update pod status for pods with spec.nodeName set to itself'
        )


async def test_an_agent_removes_pods_that_are_bound_to_its_node(sim):
    async with a_server(sim) as client:
        await two_pods(client)

        other = await client.ask("DELETE", f"{PODS}/on-n2", {"gracePeriodSeconds": 0}, **AS_AGENT)
        own = await client.ask("DELETE", f"{PODS}/on-n1", {"gracePeriodSeconds": 0}, **AS_AGENT)

        assert (other.status, own.status) == (403, 200)


async def test_an_agent_makes_a_node_and_a_lease_of_its_own_name(sim):
    async with a_server(sim) as client:
        for path in ("/api/v1/nodes", LEASES):
            other = await client.ask("POST", path, {"metadata": {"name": "n2"}}, **AS_AGENT)
            own = await client.ask("POST", path, {"metadata": {"name": "n1"}}, **AS_AGENT)
            assert (other.status, own.status) == (403, 201)


async def test_an_agent_has_tokens_for_the_pods_that_are_bound_to_its_node(sim):
    async with a_server(sim, signing_key=KEY) as client:
        await two_pods(client)
        uids = {name: (await client.get(f"{PODS}/{name}"))["metadata"]["uid"] for name in ("on-n1", "on-n2")}

        async def asked(reference: dict[str, str] | None) -> tuple[int, str]:
            body = {"spec": {"boundObjectRef": reference} if reference else {}}
            answer = await client.ask("POST", TOKEN, body, **AS_AGENT)
            return answer.status, answer.body.get("message", "")

        pod = {"kind": "Pod", "apiVersion": "v1"}
        assert await asked({**pod, "name": "on-n1", "uid": uids["on-n1"]}) == (201, "")
        refused = 'serviceaccounts "web" is forbidden: node "n1" requested token '
        assert await asked({**pod, "name": "on-n2", "uid": uids["on-n2"]}) == (
            403,
            refused + "bound to a pod scheduled elsewhere",
        )
        assert await asked({**pod, "name": "on-n1"}) == (403, refused + "with a pod binding without a uid")
        assert await asked(None) == (403, refused + "not bound to a pod")
        assert (await asked({**pod, "name": "on-n1", "uid": uids["on-n2"]}))[0] == 409


async def test_an_agent_has_tokens_for_the_audiences_that_volumes_of_the_pod_name(sim):
    async with a_server(sim, signing_key=KEY) as client:
        await client.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "web"}})
        await client.create("/api/v1/nodes", {"metadata": {"name": "n1"}})
        source = {"serviceAccountToken": {"path": "vault", "audience": "vault", "expirationSeconds": 3600}}
        volumes = [{"name": "tokens", "projected": {"sources": [source]}}]
        of_pod = {"nodeName": "n1", "serviceAccountName": "web", "volumes": volumes}
        for name, mounts in (("with", True), ("without", False)):
            await client.create(PODS, a_pod(name, automountServiceAccountToken=mounts, **of_pod))

        async def ask_for(pod: str, *audiences: str) -> tuple[int, str]:
            uid = (await client.get(f"{PODS}/{pod}"))["metadata"]["uid"]
            reference = {"kind": "Pod", "apiVersion": "v1", "name": pod, "uid": uid}
            body = {"spec": {"boundObjectRef": reference, "audiences": list(audiences)}}
            answer = await client.ask("POST", TOKEN, body, **AS_AGENT)
            return answer.status, answer.body.get("message", "").partition("forbidden: ")[2]

        refused = 'node "n1" is not authorized to request tokens for audience '
        assert await ask_for("with") == await ask_for("with", "vault") == await ask_for("without", "vault") == (201, "")
        assert await ask_for("with", "bank") == (403, f'{refused}"bank"')
        assert await ask_for("with", "vault", "bank") == (403, 'node "n1" may only request 0 or 1 audiences')
        assert (await ask_for("without"))[0] == 403  # No volume of it has a token for this server.
