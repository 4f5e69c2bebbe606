"""The credential of a node reads what its pods refer to, and changes only what is its own (H4, M3, H5)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mainstay.env import Chance
from mainstay.server.auth.node_index import NodeIndex
from mainstay.server.auth.node_restriction import is_forbidden_label
from mainstay.sim.simulation import Simulation
from mainstay.store import open_memory
from mainstay.store.etcd import EtcdStore
from mainstay.store.interface import Entry, Store
from tests.server.auth.test_token_requests import KEY
from tests.server.world import PODS, Answer, Client, a_configmap, a_pod, a_server
from tests.store.fake_etcd import FakeEtcd
from tests.twins import access as twins

CORE = "/api/v1/namespaces/default"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"


@pytest.fixture(params=["memory", "etcd"])
def which(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


async def a_store(which: str) -> Store:
    return await open_memory() if which == "memory" else EtcdStore(FakeEtcd().client(), chance=Chance(b"store"))


class NodeClient:
    """Asks with the credential of a node."""

    def __init__(self, client: Client, node: str = "n1") -> None:
        self._client = client
        self._as = {"Impersonate_User": f"system:node:{node}", "Impersonate_Group": "system:nodes"}

    async def ask(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Answer:
        return await self._client.ask(method, path, body, content_type, **self._as)

    async def status(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> int:
        return (await self.ask(method, path, body, content_type)).status

    async def refusal(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> str:
        answer = await self.ask(method, path, body, content_type)
        assert answer.status == 403, answer
        message: str = answer.body["message"]
        return message


@asynccontextmanager
async def two_nodes(sim: Simulation, which: str = "memory") -> AsyncIterator[tuple[Client, NodeClient]]:
    """A server with the nodes n1 and n2."""
    async with a_server(sim, store=await a_store(which), signing_key=KEY) as client:
        for name in ("n1", "n2"):
            node = NodeClient(client, name)
            status = {"capacity": {"pods": "10"}, "allocatable": {"pods": "10"}}
            assert await node.status("POST", "/api/v1/nodes", {"metadata": {"name": name}, "status": status}) == 201
        yield client, NodeClient(client)


def a_secret(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": {"k": "dg=="}}


async def bind(client: Client, pod: str, node: str) -> None:
    await client.create(f"{PODS}/{pod}/binding", {"target": {"kind": "Node", "name": node}})


async def test_a_node_does_not_read_what_none_of_its_pods_refers_to(sim, which):
    """The reproduction of H4."""
    async with two_nodes(sim, which) as (client, node):
        await client.create("/api/v1/namespaces/kube-system/secrets", a_secret("other"))
        await client.create(f"{CORE}/configmaps", a_configmap("other"))

        message = await node.refusal("GET", "/api/v1/namespaces/kube-system/secrets/other")
        assert message == (
            'secrets "other" is forbidden: User "system:node:n1" cannot get resource "secrets" in API group "" in the'
            " namespace \"kube-system\": no relationship found between node 'n1' and this object"
        )
        assert await node.status("GET", f"{CORE}/configmaps/other") == 403
        assert await node.status("GET", f"{CORE}/serviceaccounts/default") == 403
        for path in ("secrets", "configmaps", "serviceaccounts", "pods"):
            assert await node.status("GET", f"{CORE}/{path}") == 403, path
            assert await node.status("GET", f"/api/v1/{path}") == 403, path


REFERENCES: dict[str, dict[str, Any]] = {
    "a volume": {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]},
    "a projected volume": {"volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": "s"}}]}}]},
    "a pull secret": {"imagePullSecrets": [{"name": "s"}]},
    "a variable": {
        "containers": [
            {
                "name": "c",
                "image": "x:1",
                "env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
            }
        ]
    },
    "all of it": {"containers": [{"name": "c", "image": "x:1", "envFrom": [{"secretRef": {"name": "s"}}]}]},
    "an init container": {"initContainers": [{"name": "i", "image": "x:1", "envFrom": [{"secretRef": {"name": "s"}}]}]},
}


@pytest.mark.parametrize("spec", REFERENCES.values(), ids=REFERENCES)
async def test_a_node_reads_a_secret_from_the_binding_of_its_pod_to_the_end_of_it(sim, spec):
    async with two_nodes(sim) as (client, node):
        secret, other = f"{CORE}/secrets/s", NodeClient(client, "n2")
        await client.create(f"{CORE}/secrets", a_secret("s"))
        await client.create(PODS, a_pod("web", **spec))
        assert await node.status("GET", secret) == 403

        await bind(client, "web", "n1")
        assert await node.status("GET", secret) == 200
        assert await node.status("GET", f"{CORE}/secrets?fieldSelector=metadata.name%3Ds") == 200
        assert await other.status("GET", secret) == 403

        assert await node.status("DELETE", f"{PODS}/web", {"gracePeriodSeconds": 0}) == 200
        assert await node.status("GET", secret) == 403


async def test_what_one_pod_no_longer_needs_another_may(sim):
    async with two_nodes(sim) as (client, node):
        await client.create(f"{CORE}/configmaps", a_configmap("shared"))
        volumes = [{"name": "v", "configMap": {"name": "shared"}}]
        for name in ("a", "b"):
            await client.create(PODS, a_pod(name, nodeName="n1", volumes=volumes))
        for name, after in (("a", 200), ("b", 403)):
            await node.ask("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
            assert await node.status("GET", f"{CORE}/configmaps/shared") == after


async def test_a_node_reads_its_own_pods_and_their_account(sim, which):
    async with two_nodes(sim, which) as (client, node):
        for name in ("n1", "n2"):
            await client.create(PODS, a_pod(f"on-{name}", nodeName=name))

        assert await node.status("GET", f"{PODS}/on-n1") == 200
        assert await node.status("GET", f"{PODS}/on-n2") == 403
        assert await node.status("GET", f"{PODS}/gone") == 404
        assert await node.status("GET", f"{CORE}/serviceaccounts/default") == 200
        own = await node.ask("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1")
        assert [each["metadata"]["name"] for each in own.body["items"]] == ["on-n1"]
        assert await node.status("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn2") == 403
        assert await node.status("GET", "/api/v1/nodes/n1") == 200
        assert await node.status("GET", "/api/v1/nodes/n2") == 403


async def test_a_node_reads_the_claim_of_its_pod_and_the_volume_behind_it(sim):
    async with two_nodes(sim) as (client, node):
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        await client.create(f"{CORE}/persistentvolumeclaims", {"metadata": {"name": "data"}, "spec": claim})
        for name, claimed in (("pv", "data"), ("other", "no")):
            spec = {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": "/x"},
                "claimRef": {"namespace": "default", "name": claimed},
            }
            await client.create("/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": spec})
        assert await node.status("GET", "/api/v1/persistentvolumes/pv") == 403
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
        await client.create(PODS, a_pod("db", nodeName="n1", volumes=volumes))

        assert await node.status("GET", f"{CORE}/persistentvolumeclaims/data") == 200
        assert await node.status("GET", "/api/v1/persistentvolumes/pv") == 200
        assert await node.status("GET", "/api/v1/persistentvolumes/other") == 403


async def read_through_another_server(sim: Simulation) -> None:
    """A node has heard of its pods from one server, and reads their Secret at another one, which may be behind."""
    etcd = FakeEtcd()

    def a_view(name: str) -> EtcdStore:
        return EtcdStore(etcd.client(), chance=Chance(name.encode()))

    async with (
        a_server(sim, "first", a_view("a"), KEY) as client,
        a_server(sim, "second", a_view("b"), KEY) as late,
    ):
        await client.create("/api/v1/nodes", {"metadata": {"name": "n1"}})
        await client.create(f"{CORE}/secrets", a_secret("s"))
        for number in range(20):
            volumes = [{"name": "v", "secret": {"secretName": "s"}}]
            await client.create(PODS, a_pod(f"p{number}", nodeName="n1", volumes=volumes))
            assert await NodeClient(late).status("GET", f"{CORE}/secrets/s") == 200
            await client.delete(f"{PODS}/p{number}", {"gracePeriodSeconds": 0})


async def test_a_server_that_is_behind_asks_the_store_before_it_refuses(sim):
    await read_through_another_server(sim)


async def test_a_server_that_refuses_what_it_does_not_know_yet_is_found(sim, monkeypatch):
    twins.refuses_what_it_has_not_heard_of(monkeypatch)
    with pytest.raises(AssertionError):
        await read_through_another_server(sim)


# What a node may change.


@pytest.mark.parametrize(
    ("label", "is_forbidden"),
    [
        ("node-restriction.kubernetes.io/zone", True),
        ("team.node-restriction.kubernetes.io/zone", True),
        ("node-role.kubernetes.io/control-plane", True),
        ("kubernetes.io/anything", True),
        ("scheduling.k8s.io/x", True),
        ("kubernetes.io/hostname", False),
        ("topology.kubernetes.io/zone", False),
        ("node.kubernetes.io/instance-type", False),
        ("gpu.node.kubernetes.io/x", False),
        ("kubelet.kubernetes.io/x", False),
        ("example.com/tier", False),
        ("notkubernetes.io/x", False),
        ("plain", False),
    ],
)
def test_a_node_sets_no_labels_that_steer_what_runs_there(label, is_forbidden):
    assert is_forbidden_label(label) == is_forbidden


async def test_a_node_does_not_give_itself_roles_or_drop_its_taints(sim):
    """The reproduction of M3."""
    async with two_nodes(sim) as (client, node):
        path, taint = "/api/v1/nodes/n1", {"key": "dedicated", "effect": "NoSchedule"}
        found = await client.get(path)
        await client.patch(path, {"spec": {"taints": [*(found["spec"].get("taints") or []), taint]}})
        for label in ("node-restriction.kubernetes.io/tier", "node-role.kubernetes.io/control-plane"):
            patch = {"metadata": {"labels": {label: "x"}}}
            assert await node.refusal("PATCH", path, patch, MERGE) == (
                f'nodes "n1" is forbidden: node "n1" is not allowed to modify labels: {label}'
            )
            assert await node.status("PATCH", f"{path}/status", patch, MERGE) in (200, 403)
            assert label not in (await client.get(path))["metadata"].get("labels", {})
        text = 'nodes "n1" is forbidden: node "n1" is not allowed to modify taints'
        assert await node.refusal("PATCH", path, {"spec": {"taints": []}}, MERGE) == text
        assert await node.refusal("PATCH", path, {"spec": {"taints": None}}, MERGE) == text
        replaced = {**(await client.get(path)), "spec": {}}
        assert await node.refusal("PUT", path, replaced) == text
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}
        owned = {"metadata": {"ownerReferences": [owner]}}
        assert (await node.refusal("PATCH", path, owned, MERGE)).endswith("is not allowed to modify ownerReferences")

        allowed = {"metadata": {"labels": {"example.com/tier": "gold", "topology.kubernetes.io/zone": "a"}}}
        assert await node.status("PATCH", path, allowed, MERGE) == 200
        assert await node.status("PATCH", f"{path}/status", {"status": {"phase": "Running"}}, MERGE) == 200


async def test_a_node_that_is_ready_removes_the_taint_of_new_nodes_and_no_other(sim):
    async with two_nodes(sim) as (client, node):
        path = "/api/v1/nodes/n1"
        new = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
        evicting = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
        await client.patch(path, {"spec": {"taints": [new, evicting]}})

        assert await node.status("PATCH", path, {"spec": {"taints": [new]}}, MERGE) == 403
        assert await node.status("PATCH", path, {"spec": {"taints": []}}, MERGE) == 403
        assert await node.status("PATCH", path, {"spec": {"taints": [evicting]}}, MERGE) == 200


async def test_a_node_is_not_registered_with_labels_that_it_may_not_set(sim):
    async with a_server(sim) as client:
        labels = {"node-role.kubernetes.io/control-plane": "", "example.com/a": "b"}
        body = {"metadata": {"name": "n1", "labels": labels}}
        assert await NodeClient(client).refusal("POST", "/api/v1/nodes", body) == (
            'nodes "n1" is forbidden: node "n1" is not allowed to set the following labels:'
            " node-role.kubernetes.io/control-plane"
        )
        taints = [{"key": "dedicated", "effect": "NoSchedule"}]
        tainted = {"metadata": {"name": "n1"}, "spec": {"taints": taints}}
        assert await NodeClient(client).status("POST", "/api/v1/nodes", tainted) == 201


async def test_a_node_writes_no_state_of_components(sim):
    """The reproduction of H5, its part about nodes."""
    async with two_nodes(sim) as (client, node):
        path = "/apis/mainstay.dev/v1/componentstates"
        await client.create(path, {"metadata": {"name": "repair"}})
        patch = [{"op": "add", "path": "/metadata/finalizers", "value": ["example.com/x"]}]
        assert await node.status("PATCH", f"{path}/repair", patch, JSON_PATCH) == 403
        assert await node.status("PATCH", f"{path}/repair/status", patch, JSON_PATCH) == 403
        assert await node.status("POST", path, {"metadata": {"name": "n1"}}) == 403


async def test_a_node_evicts_and_changes_its_own_pods_only(sim):
    async with two_nodes(sim) as (client, node):
        for name in ("n1", "n2"):
            await client.create(PODS, a_pod(f"on-{name}", nodeName=name))
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction"}

        def evicting(pod: str) -> dict[str, Any]:
            return {**eviction, "metadata": {"name": pod, "namespace": "default"}}

        assert await node.status("POST", f"{PODS}/on-n2/eviction", evicting("on-n2")) == 403
        labelled = {"metadata": {"labels": {"app": "db"}}, "status": {"message": "x"}}
        assert await node.refusal("PATCH", f"{PODS}/on-n1/status", labelled, MERGE) == (
            'pods "on-n1" is forbidden: node "n1" cannot update labels through pod status'
        )
        assert await node.status("PATCH", f"{PODS}/on-n1/status", {"status": {"message": "x"}}, MERGE) == 200
        # Nothing would change, but the answer would show the pod.
        assert await node.status("PATCH", f"{PODS}/on-n2/status", {}, MERGE) == 403
        assert await node.status("POST", PODS, a_pod("own", nodeName="n1")) == 403
        assert await node.status("POST", f"{PODS}/on-n1/eviction", evicting("on-n1")) == 201


async def test_tokens_only_for_accounts_of_own_pods(sim, which):
    async with two_nodes(sim, which) as (client, node):
        await client.create(f"{CORE}/serviceaccounts", {"metadata": {"name": "robot"}})
        pod = await client.create(PODS, a_pod("web", nodeName="n1"))
        bound = {"kind": "Pod", "apiVersion": "v1", "name": "web", "uid": pod["metadata"]["uid"]}
        body = {"spec": {"boundObjectRef": bound}}

        assert await node.status("POST", f"{CORE}/serviceaccounts/default/token", body) == 201
        assert "no relationship" in await node.refusal("POST", f"{CORE}/serviceaccounts/robot/token", body)


async def test_a_token_request_of_a_node_is_small(sim):
    """YAML is not even parsed: a megabyte would keep the event loop busy for a second."""
    async with two_nodes(sim) as (client, node):
        await client.create(PODS, a_pod("web", nodeName="n1"))
        body = b"spec: [" + b"[]," * 300_000 + b"[]]"
        answer = await node.ask("POST", f"{CORE}/serviceaccounts/default/token", body, "application/yaml")
        assert (answer.status, answer.body["reason"]) == (413, "RequestEntityTooLarge")


# The index.


def an_entry(key: str, value: bytes, created: int = 1) -> Entry:
    return Entry(key, value, created, created, 1)


def test_a_pod_that_is_created_again_elsewhere_counts_there():
    index = NodeIndex()
    bound = b'{"metadata":{},"spec":{"nodeName":"%s","serviceAccountName":"a"}}'
    index.put(an_entry("core/pods/x/p", bound % b"n1"))
    index.put(an_entry("core/pods/x/p", bound % b"n2", created=7))
    assert not index.refers("n1", "serviceaccounts", "x", "a")
    assert index.refers("n2", "serviceaccounts", "x", "a")
    index.remove("core/pods/x/p")
    assert not index.refers("n2", "serviceaccounts", "x", "a")


def test_pods_that_were_read_count_when_the_index_has_come_to_them():
    index = NodeIndex()
    value = b'{"metadata":{},"spec":{"nodeName":"n1","serviceAccountName":"a%d"}}'
    index.reset([an_entry(f"core/pods/x/p{number}", value % number) for number in range(250)])
    index.remove("core/pods/x/p200")
    rounds = 0
    while not index.is_complete:
        index.take()
        rounds += 1
    assert rounds == 3
    assert index.refers("n1", "serviceaccounts", "x", "a249")
    assert not index.refers("n1", "serviceaccounts", "x", "a200")
