"""Bootstrap tokens and signing requests, at a server: who gets a certificate at once, who waits, who is refused."""

from datetime import timedelta
from typing import Any

import pytest
from cryptography.x509.oid import NameOID

from mainstay.api import times
from mainstay.env import Chance, tasks
from mainstay.sim.simulation import Simulation
from mainstay.store import open_memory
from mainstay.store.etcd import EtcdStore
from mainstay.store.interface import Store
from tests.server.auth.authority import (
    CLIENT,
    CREDENTIALS,
    NODE_CLIENT,
    REQUESTS,
    SECRETS,
    a_certificate,
    a_node_request,
    a_signing_request,
    a_token,
    an_authority,
)
from tests.server.world import Answer, Client, a_server
from tests.store.fake_etcd import FakeEtcd

TOKEN = "Bearer abcdef.0123456789abcdef"
STORES = ("memory", "etcd")


async def a_store(which: str) -> Store:
    if which == "memory":
        return await open_memory()
    return EtcdStore(FakeEtcd().client(), chance=Chance(b"store"))


async def join(client: Client, request: dict[str, Any], token: str = TOKEN) -> Answer:
    return await client.ask("POST", REQUESTS, request, Authorization=token)


@pytest.mark.parametrize("which", STORES)
async def test_a_machine_with_a_token_gets_a_certificate_of_a_new_node_at_once(sim: Simulation, which: str):
    async with a_server(sim, store=await a_store(which), authority=an_authority()) as client:
        await client.create(SECRETS, a_token())
        answer = await join(client, a_node_request("worker-2", "laptop"))
        assert answer.status == 201, answer
        spec, status = answer.body["spec"], answer.body["status"]
        assert spec["username"] == "system:bootstrap:abcdef"
        assert "system:bootstrappers" in spec["groups"]
        assert [each["type"] for each in status["conditions"]] == ["Approved"]
        certificate = a_certificate(answer.body)
        assert certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "system:node:worker-2"
        record = await client.get(f"{CREDENTIALS}/system:node:worker-2")
        assert [each["serialNumber"] for each in record["status"]["certificates"]] == [f"{certificate.serial_number:x}"]
        # The answer was lost: the same machine reads its request, and may also ask once more.
        again = await client.ask("GET", f"{REQUESTS}/node-csr-laptop", Authorization=TOKEN)
        assert again.body["status"] == status
        assert (await join(client, a_node_request("worker-2", "laptop", "once-more"))).status == 201


async def test_a_token_does_not_take_over_a_node(sim: Simulation):
    async with a_server(sim, authority=an_authority()) as client:
        await client.create(SECRETS, a_token())
        await client.create("/api/v1/nodes", {"metadata": {"name": "worker-1"}})
        answer = await join(client, a_node_request("worker-1", "thief"))
        assert answer.status == 403
        assert 'node "worker-1" exists already' in answer.body["message"]
        assert (await join(client, a_node_request("worker-2", "laptop"))).status == 201
        answer = await join(client, a_node_request("worker-2", "thief"))
        assert answer.status == 403
        assert answer.body["details"]["causes"][0]["reason"] == "NameTaken"
        assert [each["metadata"]["name"] for each in (await client.get(REQUESTS))["items"]] == ["node-csr-laptop"]


async def test_a_token_for_a_node_replaces_its_machine_once(sim: Simulation):
    async with a_server(sim, authority=an_authority()) as client:
        await client.create(SECRETS, a_token())
        first = await join(client, a_node_request("worker-1", "old-machine"))
        await client.create("/api/v1/nodes", {"metadata": {"name": "worker-1"}})
        await client.create(SECRETS, a_token("fedcba", node_name="worker-1"))
        special = "Bearer fedcba.0123456789abcdef"
        assert (await join(client, a_node_request("worker-9", "new-machine"), special)).status == 403
        second = await join(client, a_node_request("worker-1", "new-machine"), special)
        assert second.status == 201, second
        record = await client.get(f"{CREDENTIALS}/system:node:worker-1")
        assert record["spec"]["revokedSerialNumbers"] == [f"{a_certificate(first.body).serial_number:x}"]
        third = await join(client, a_node_request("worker-1", "third-machine"), special)
        assert third.status == 403
        assert third.body["details"]["causes"][0]["reason"] == "TokenUsed"


@pytest.mark.parametrize("which", STORES)
async def test_a_token_that_is_over_is_refused_and_removed(sim: Simulation, which: str):
    async with a_server(sim, store=await a_store(which), authority=an_authority()) as client:
        now = sim.env("server").clock.wall()
        await client.create(SECRETS, a_token(expiration=times.format_time(now + timedelta(hours=1))))
        assert (await client.ask("GET", f"{REQUESTS}/x", Authorization=TOKEN)).status == 404
        await tasks.sleep(timedelta(hours=1))
        assert (await join(client, a_node_request("worker-2", "laptop"))).status == 401
        await tasks.sleep(timedelta(minutes=2))
        assert (await client.get(SECRETS))["items"] == []


async def test_a_deleted_token_ends_at_once(sim: Simulation):
    async with a_server(sim, authority=an_authority()) as client:
        await client.create(SECRETS, a_token())
        await client.delete(f"{SECRETS}/bootstrap-token-abcdef")
        assert (await join(client, a_node_request("worker-2", "laptop"))).status == 401


@pytest.mark.parametrize(
    "changed",
    [
        {"token_secret": "0123456789abcdee"},
        {"usage_bootstrap_authentication": "false"},
        {"auth_extra_groups": "system:masters"},
        {"token_id": "abcdeg"},
    ],
)
async def test_a_token_that_does_not_match_its_secret_is_refused(sim: Simulation, changed: dict[str, str]):
    async with a_server(sim, authority=an_authority()) as client:
        secret = a_token()
        secret["stringData"] |= {name.replace("_", "-"): value for name, value in changed.items()}
        await client.create(SECRETS, secret)
        assert (await client.ask("GET", REQUESTS, Authorization=TOKEN)).status == 401


async def test_a_token_may_only_ask_for_certificates(sim: Simulation):
    async with a_server(sim, authority=an_authority()) as client:
        await client.create(SECRETS, a_token())
        for path in ("/api/v1/nodes", SECRETS, REQUESTS, CREDENTIALS, "/api/v1/namespaces/kube-system/configmaps"):
            assert (await client.ask("GET", path, Authorization=TOKEN)).status == 403, path


async def test_another_request_waits_for_an_administrator(sim: Simulation):
    async with a_server(sim, authority=an_authority()) as client:
        spec = {"signerName": CLIENT, "usages": ["client auth"], "expirationSeconds": 3600}
        request = a_signing_request("jane", ("devs",), "desk")
        made = await client.create(REQUESTS, {"metadata": {"name": "jane"}, "spec": {"request": request, **spec}})
        assert made["status"] == {}
        assert made["spec"]["username"] == "admin"
        approved = {**made, "status": {"conditions": [{"type": "Approved", "status": "True", "reason": "Known"}]}}
        path = f"{REQUESTS}/jane/approval"
        assert (await client.ask("PUT", path, approved, Authorization="Bearer usertoken")).status == 403
        answer = await client.ask("PUT", path, approved)
        assert answer.status == 200, answer
        certificate = a_certificate(answer.body)
        assert certificate.not_valid_after_utc - sim.env("server").clock.wall() <= timedelta(hours=1)
        assert (await client.get(f"{CREDENTIALS}/jane"))["status"]["certificates"][0]["request"] == "jane"
        denied = {**made, "status": {"conditions": [{"type": "Denied", "status": "True"}]}}
        denied["metadata"].pop("resourceVersion", None)
        assert (await client.ask("PUT", path, denied)).status == 422


@pytest.mark.parametrize(
    ("user", "groups", "signer", "problem"),
    [
        ("jane", ("system:masters",), CLIENT, "system:masters is not allowed"),
        ("jane", ("system:mainstay:servers",), CLIENT, "users and groups system:… are parts of the cluster"),
        ("system:kube-scheduler", (), CLIENT, "parts of the cluster"),
        ("worker-2", ("system:nodes",), NODE_CLIENT, "does not begin with system:node:"),
        ("system:node:worker-2", ("devs",), NODE_CLIENT, "organization is not system:nodes"),
    ],
)
async def test_a_request_that_no_signer_may_sign_is_refused(
    sim: Simulation, user: str, groups: tuple[str, ...], signer: str, problem: str
):
    async with a_server(sim, authority=an_authority()) as client:
        spec = {"request": a_signing_request(user, groups, "x"), "signerName": signer, "usages": ["client auth"]}
        answer = await client.ask("POST", REQUESTS, {"metadata": {"name": "x"}, "spec": spec})
        assert answer.status == 422
        assert problem in answer.body["message"]


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"request": "bm9uc2Vuc2U="}, "spec.request: Invalid value"),
        ({"usages": []}, "spec.usages: Required value"),
        ({"usages": ["client auth", "client auth"]}, "Duplicate value"),
        ({"usages": ["flying"]}, "Unsupported value"),
        ({"signerName": "nonsense"}, "must be a fully qualified domain and path"),
        ({"expirationSeconds": 5}, "may not specify a duration less than 600 seconds"),
    ],
)
async def test_fields_are_validated_as_in_kubernetes(sim: Simulation, spec: dict[str, Any], problem: str):
    async with a_server(sim, authority=an_authority()) as client:
        answer = await client.ask("POST", REQUESTS, a_node_request("a", "b", **spec))
        assert answer.status == 422, answer
        assert problem in answer.body["message"]


async def test_a_request_for_an_unknown_signer_is_left_to_others(sim: Simulation):
    async with a_server(sim, authority=an_authority()) as client:
        made = await client.create(REQUESTS, a_node_request("a", "b", "other", signerName="example.com/ours"))
        path = f"{REQUESTS}/other"
        approved = {**made, "status": {"conditions": [{"type": "Approved", "status": "True"}]}}
        assert "certificate" not in (await client.ask("PUT", f"{path}/approval", approved)).body["status"]
        signed = {"status": {"certificate": "LS0t"}}
        found = await client.patch(f"{path}/status", signed)
        assert found["status"]["certificate"] == "LS0t"
        assert [each["type"] for each in found["status"]["conditions"]] == ["Approved"]


async def test_old_requests_are_removed(sim: Simulation):
    async with a_server(sim, authority=an_authority()) as client:
        await client.create(SECRETS, a_token())
        await join(client, a_node_request("worker-2", "laptop"))
        await client.create(REQUESTS, a_node_request("worker-3", "other"))
        await tasks.sleep(timedelta(hours=1, minutes=2))
        assert [each["metadata"]["name"] for each in (await client.get(REQUESTS))["items"]] == ["node-csr-other"]
        await tasks.sleep(timedelta(days=1))
        assert (await client.get(REQUESTS))["items"] == []


async def test_a_record_goes_with_its_last_certificate_unless_it_revokes(sim: Simulation):
    async with a_server(sim, authority=an_authority(timedelta(hours=2))) as client:
        await client.create(SECRETS, a_token())
        await join(client, a_node_request("worker-2", "laptop"))
        await join(client, a_node_request("worker-3", "other"))
        await client.patch(f"{CREDENTIALS}/system:node:worker-3", {"spec": {"revokedBefore": "2099-01-01T00:00:00Z"}})
        await tasks.sleep(timedelta(hours=3))
        found = (await client.get(CREDENTIALS))["items"]
        assert [each["metadata"]["name"] for each in found] == ["system:node:worker-3"]


async def test_anonymous_reads_cluster_info_and_no_other_object(sim: Simulation):
    async with a_server(sim, authority=an_authority()) as client:
        base = "/api/v1/namespaces/kube-public/configmaps"
        for path in (base, f"{base}/kube-root-ca.crt", "/api/v1/namespaces/default/configmaps/cluster-info"):
            assert (await client.ask("GET", path, Authorization="")).status == 403
        assert (await client.ask("GET", f"{base}/cluster-info", Authorization="")).status in (200, 404)
