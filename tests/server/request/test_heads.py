"""Who sends a request, and whether they may, is decided by its head: the body of a refused one is never read."""

import json

import pytest

from mainstay.env import network
from tests.http.clients import Client, Reply
from tests.server.world import CONFIGMAPS, PODS, PORT, a_server

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
USER = "Authorization: Bearer usertoken"


async def asked_without_body(target: str, length: int, *headers: str) -> Reply:
    _, client = await network.connect(Client, "server", PORT)
    return await client.ask(a_head(target, length, *headers))


def a_head(target: str, length: int, *headers: str) -> bytes:
    lines = [f"POST {target} HTTP/1.1", "Host: server", f"Content-Length: {length}", *headers]
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n"


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("X-Nothing: 1", 403),
        ("Authorization: Bearer wrong", 401),
        ("Authorization: Bearer usertoken", 403),
    ],
)
async def test_a_request_without_rights_is_refused_before_its_body_is_sent(sim, header: str, status: int):
    async with a_server(sim):
        with sim.network.host("client").active():
            for _ in range(80):
                reply = await asked_without_body(CONFIGMAPS, 3_000_000, header)
                assert (reply.status, reply.closes) == (status, True)
                assert reply.json()["code"] == status


async def test_a_path_that_is_not_served_is_answered_before_its_body_is_sent(sim):
    async with a_server(sim):
        with sim.network.host("client").active():
            reply = await asked_without_body("/apis/no/v1/things", 3_000_000, "Authorization: Bearer admintoken")
            assert reply.status == 404


@pytest.mark.parametrize(
    "target",
    [
        REVIEWS,
        f"{PODS}/web/eviction",
        f"{PODS}/web/binding",
        "/api/v1/namespaces/default/bindings",
        "/api/v1/namespaces/default/serviceaccounts/default/token",
    ],
)
async def test_a_body_that_is_too_long_for_its_kind_is_refused_before_it_is_sent(sim, target: str):
    async with a_server(sim):
        with sim.network.host("client").active():
            reply = await asked_without_body(target, 100_000, "Authorization: Bearer admintoken")
            assert (reply.status, reply.json()["reason"]) == (413, "RequestEntityTooLarge")


async def test_slow_senders_of_one_user_leave_room_for_the_bodies_of_others(sim):
    async with a_server(sim) as client:
        for name in ("alice", "bob"):
            await allow(client, name)
        with sim.network.host("client").active():
            for number in range(10):
                _, slow = await network.connect(Client, "server", PORT)
                slow.send(a_head(CONFIGMAPS, 3_000_000, USER))
                if number >= 5:
                    reply = await slow.reply()
                    assert (reply.status, reply.headers["retry-after"]) == (429, "1")
            as_bob = ("Authorization: Bearer admintoken", "Impersonate-User: bob")
            _, other = await network.connect(Client, "server", PORT)
            sent = json.dumps({"metadata": {"name": "b"}, "data": {"text": "x" * 900_000}}).encode()
            assert (await other.ask(a_head(CONFIGMAPS, len(sent), *as_bob) + sent)).status == 201


async def allow(client, name: str) -> None:
    """Let a user do everything in the namespace default."""
    subject = {"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "ClusterRole", "name": "edit", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"metadata": {"name": name}, "subjects": [subject], "roleRef": role}
    await client.create("/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", binding)


async def test_a_body_behind_its_head_is_stored(sim):
    body = {"metadata": {"name": "a"}, "data": {"text": "x" * 400_000}}
    async with a_server(sim) as client:
        await client.create(CONFIGMAPS, body)
        assert (await client.get(f"{CONFIGMAPS}/a"))["data"] == body["data"]
        with sim.network.host("client").active():
            _, raw = await network.connect(Client, "server", PORT)
            body["metadata"]["name"] = "b"
            sent = json.dumps(body).encode()
            raw.send(
                f"POST {CONFIGMAPS} HTTP/1.1\r\nHost: server\r\nAuthorization: Bearer admintoken\r\n"
                f"Content-Length: {len(sent)}\r\nExpect: 100-continue\r\n\r\n".encode()
            )
            assert (await raw.head()).status == 100
            assert (await raw.ask(sent)).status == 201
