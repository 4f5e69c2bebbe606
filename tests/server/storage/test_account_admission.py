"""Pods run as service accounts that exist, and find a token of theirs at the well-known path."""

from typing import Any

import pytest

from mainstay.env import Chance
from mainstay.server.auth.request_signer import ClusterAuthority
from mainstay.store import open_memory
from mainstay.store.etcd import EtcdStore
from mainstay.store.interface import Store
from tests.server.world import PODS, Answer, Client, a_pod, a_server
from tests.store.fake_etcd import FakeEtcd

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
NAMESPACES = "/api/v1/namespaces"
PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
ENFORCED = {"kubernetes.io/enforce-mountable-secrets": "true"}


@pytest.fixture(params=["memory", "etcd"])
def which(request: pytest.FixtureRequest) -> str:
    """A store that answers at once, or one that has to be asked."""
    name: str = request.param
    return name


async def a_store(which: str) -> Store:
    return await open_memory() if which == "memory" else EtcdStore(FakeEtcd().client(), chance=Chance(b"store"))


async def refused(client: Client, pod: Any, path: str = PODS) -> str:
    answer: Answer = await client.ask("POST", path, pod)
    assert answer.status == 403, answer
    message: str = answer.body["message"]
    return message


def mounts(container: Any) -> list[Any]:
    found: list[Any] = container.get("volumeMounts") or []
    return found


async def test_a_pod_gets_token_ca_and_namespace_at_the_well_known_path(sim, which):
    async with a_server(sim, store=await a_store(which), authority=ClusterAuthority(PEM)) as client:
        pod = await client.create(PODS, a_pod("web", initContainers=[{"name": "i", "image": "x:1"}]))

        spec = pod["spec"]
        (volume,) = spec["volumes"]
        assert volume == {
            "name": volume["name"],
            "projected": {
                "sources": [
                    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                    {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
                    {
                        "downwardAPI": {
                            "items": [
                                {
                                    "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                                    "path": "namespace",
                                }
                            ]
                        }
                    },
                ],
                "defaultMode": 420,
            },
        }
        assert volume["name"].startswith("kube-api-access-")
        assert len(volume["name"]) == len("kube-api-access-XXXXX")
        mount = {"name": volume["name"], "readOnly": True, "mountPath": PATH}
        assert mounts(spec["containers"][0]) == mounts(spec["initContainers"][0]) == [mount]
        assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")


async def test_a_server_without_a_ca_has_none_to_hand_out(sim):
    async with a_server(sim) as client:
        pod = await client.create(PODS, a_pod("web"))

        sources = pod["spec"]["volumes"][0]["projected"]["sources"]
        assert [next(iter(each)) for each in sources] == ["serviceAccountToken", "downwardAPI"]
        answer = await client.ask("GET", "/api/v1/namespaces/default/configmaps/kube-root-ca.crt")
        assert answer.status == 404


async def test_two_pods_have_volumes_of_different_names(sim):
    async with a_server(sim) as client:
        made = [await client.create(PODS, a_pod(name)) for name in ("a", "b")]
        assert len({each["spec"]["volumes"][0]["name"] for each in made}) == 2


async def test_a_container_keeps_what_it_mounts_there_itself(sim):
    async with a_server(sim) as client:
        own = {"name": "mine", "mountPath": PATH}
        containers = [{"name": "a", "image": "x:1", "volumeMounts": [own]}, {"name": "b", "image": "x:1"}]
        volumes = [{"name": "mine", "emptyDir": {}}]
        both = (await client.create(PODS, a_pod("both", containers=containers, volumes=volumes)))["spec"]
        only = (await client.create(PODS, a_pod("only", containers=containers[:1], volumes=volumes)))["spec"]

        assert mounts(both["containers"][0]) == [own]
        assert [each["mountPath"] for each in mounts(both["containers"][1])] == [PATH]
        assert [each["name"] for each in both["volumes"]] == ["mine", mounts(both["containers"][1])[0]["name"]]
        assert [each["name"] for each in only["volumes"]] == ["mine"]


@pytest.mark.parametrize(
    ("of_account", "of_pod", "is_mounted"),
    [(None, None, True), (False, None, False), (False, True, True), (True, False, False), (None, False, False)],
)
async def test_the_pod_decides_before_its_account_whether_a_token_is_mounted(sim, of_account, of_pod, is_mounted):
    async with a_server(sim) as client:
        account: dict[str, Any] = {"metadata": {"name": "web"}}
        if of_account is not None:
            account["automountServiceAccountToken"] = of_account
        await client.create(ACCOUNTS, account)
        said = {} if of_pod is None else {"automountServiceAccountToken": of_pod}

        pod = await client.create(PODS, a_pod("web", serviceAccountName="web", **said))

        assert bool(pod["spec"].get("volumes")) == is_mounted


async def test_a_pod_of_an_account_that_does_not_exist_is_refused(sim, which):
    async with a_server(sim, store=await a_store(which)) as client:
        assert await refused(client, a_pod("web", serviceAccountName="robot")) == (
            'pods "web" is forbidden: error looking up service account default/robot: serviceaccount "robot" not found'
        )
        answer = await client.ask("POST", PODS, a_pod("web", serviceAccountName="robot"))
        assert [each["reason"] for each in answer.body["details"]["causes"]] == ["ServiceAccountNotFound"]
        await client.create(ACCOUNTS, {"metadata": {"name": "robot"}})
        await client.create(PODS, a_pod("web", serviceAccountName="robot"))
        await client.delete(f"{ACCOUNTS}/robot")
        assert "not found" in await refused(client, a_pod("other", serviceAccountName="robot"))


async def test_a_pod_in_a_namespace_that_does_not_exist_is_told_so(sim, which):
    async with a_server(sim, store=await a_store(which)) as client:
        answer = await client.ask("POST", f"{NAMESPACES}/nowhere/pods", a_pod("web"))
        assert (answer.status, answer.body["message"]) == (404, 'namespaces "nowhere" not found')


async def test_a_pod_that_comes_right_after_its_namespace_is_accepted(sim, which):
    async with a_server(sim, store=await a_store(which), authority=ClusterAuthority(PEM)) as client:
        await client.create(NAMESPACES, {"metadata": {"name": "team"}})
        await client.create(f"{NAMESPACES}/team/pods", a_pod("web"))

        account = await client.get(f"{NAMESPACES}/team/serviceaccounts/default")
        assert account["metadata"]["namespace"] == "team"
        authorities = await client.get(f"{NAMESPACES}/team/configmaps/kube-root-ca.crt")
        assert authorities["data"] == {"ca.crt": PEM}
        assert account["metadata"]["uid"] != authorities["metadata"]["uid"]


async def test_a_namespace_that_was_only_tried_out_leaves_nothing(sim):
    async with a_server(sim) as client:
        await client.create(f"{NAMESPACES}?dryRun=All", {"metadata": {"name": "team"}})
        assert (await client.get(f"{NAMESPACES}/team/serviceaccounts"))["items"] == []


async def test_image_pull_secrets_of_the_account_are_those_of_a_pod_without(sim):
    async with a_server(sim) as client:
        await client.create(ACCOUNTS, {"metadata": {"name": "web"}, "imagePullSecrets": [{"name": "hub"}]})
        without = await client.create(PODS, a_pod("without", serviceAccountName="web"))
        own = [{"name": "own"}]
        having = await client.create(PODS, a_pod("with", serviceAccountName="web", imagePullSecrets=own))

        assert without["spec"]["imagePullSecrets"] == [{"name": "hub"}]
        assert having["spec"]["imagePullSecrets"] == own


async def test_an_account_may_restrict_which_secrets_its_pods_refer_to(sim):
    async with a_server(sim) as client:
        metadata = {"name": "web", "annotations": ENFORCED}
        listed = {"secrets": [{"name": "good"}], "imagePullSecrets": [{"name": "hub"}]}
        await client.create(ACCOUNTS, {"metadata": metadata, **listed})

        def with_secret(name: str) -> dict[str, Any]:
            return a_pod("web", serviceAccountName="web", volumes=[{"name": "v", "secret": {"secretName": name}}])

        def with_env(**source: Any) -> dict[str, Any]:
            return a_pod("web", serviceAccountName="web", containers=[{"name": "c", "image": "x:1", **source}])

        tail = "is not allowed because service account web does not reference that secret"
        assert await refused(client, with_secret("bad")) == (
            f'pods "web" is forbidden: volume with secret.secretName="bad" {tail}'
        )
        reference = {"secretKeyRef": {"name": "bad", "key": "k"}}
        assert await refused(client, with_env(env=[{"name": "E", "valueFrom": reference}])) == (
            f'pods "web" is forbidden: container c with envVar E referencing secret.secretName="bad" {tail}'
        )
        assert await refused(client, with_env(envFrom=[{"secretRef": {"name": "bad"}}])) == (
            f'pods "web" is forbidden: container c with envFrom referencing secret.secretName="bad" {tail}'
        )
        assert "imagePullSecret" in await refused(
            client, a_pod("web", serviceAccountName="web", imagePullSecrets=[{"name": "bad"}])
        )
        await client.create(PODS, with_secret("good"))


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public", "kube-node-lease"])
async def test_the_namespaces_of_the_system_cannot_be_deleted(sim, name):
    async with a_server(sim) as client:
        answer = await client.ask("DELETE", f"{NAMESPACES}/{name}")

        assert (answer.status, answer.body["message"]) == (
            403,
            f'namespaces "{name}" is forbidden: this namespace may not be deleted',
        )
        assert (await client.get(f"{NAMESPACES}/{name}/serviceaccounts/default"))["metadata"]["name"] == "default"


async def test_any_other_namespace_can_be_deleted(sim):
    async with a_server(sim) as client:
        await client.create(NAMESPACES, {"metadata": {"name": "team"}})
        assert (await client.delete(f"{NAMESPACES}/team"))["status"]["phase"] == "Terminating"
        message = await refused(client, a_pod("web"), f"{NAMESPACES}/team/pods")
        assert message.endswith("because it is being terminated")
