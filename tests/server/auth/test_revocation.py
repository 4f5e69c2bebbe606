"""Certificates that are revoked: by serial number, by user and time; refused at once, and what runs is ended."""

import ssl
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from mainstay.api.errors import StatusError
from mainstay.env import Chance, tasks
from mainstay.http.messages import Headers, Peer, Request, Response
from mainstay.server.auth.authentication import Authenticator
from mainstay.server.auth.revocation import Revocations
from mainstay.server.request.app import Api
from mainstay.sim.simulation import Simulation
from mainstay.store import open_memory
from mainstay.store.etcd import EtcdStore
from tests.server.auth.authority import (
    CREDENTIALS,
    REQUESTS,
    SECRETS,
    a_certificate,
    a_node_request,
    a_token,
    an_authority,
)
from tests.server.world import a_server
from tests.store.fake_etcd import FakeEtcd

NODE = "system:node:worker-1"
TOKEN = "Bearer abcdef.0123456789abcdef"


def as_peer(user: str, serial: str, issued: datetime, groups: tuple[str, ...] = ()) -> dict[str, Any]:
    """A certificate as `ssl` tells it."""
    subject = [(("organizationName", group),) for group in groups]
    shown = issued.strftime("%b %d %H:%M:%S %Y GMT")
    return {"subject": (*subject, (("commonName", user),)), "serialNumber": serial.upper(), "notBefore": shown}


def revoking(**spec: Any) -> bytes:
    return msgspec.json.encode({"metadata": {"name": "x"}, "spec": spec})


ISSUED = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("spec", "name", "is_revoked"),
    [
        ({}, NODE, False),
        ({"revokedSerialNumbers": ["a1f"]}, "serial:a1f", True),
        ({"revokedSerialNumbers": ["a1e"]}, NODE, False),
        ({"revokedBefore": "2026-01-01T12:00:00Z"}, NODE, True),
        ({"revokedBefore": "2026-01-01T11:59:59Z"}, NODE, False),
        ({"revokedBefore": "2026-01-01T12:00:00Z"}, "system:node:worker-2", False),
    ],
)
def test_what_a_credential_revokes(spec: dict[str, Any], name: str, is_revoked: bool):
    index = Revocations()
    index.put(name, revoking(**spec))
    certificate = as_peer(NODE, "0A1F", ISSUED, ("system:nodes",))
    assert index.is_revoked(certificate) == is_revoked
    assert ssl.cert_time_to_seconds(certificate["notBefore"]) == ISSUED.timestamp()
    index.put(name, None)
    assert not index.is_revoked(certificate)


async def test_a_revoked_certificate_is_refused_from_then_on_and_a_later_one_is_not(sim: Simulation):
    env = sim.env("server")
    authenticator = Authenticator({})
    api = await Api.start(await open_memory(), env, authenticator)
    ended: list[bool] = []
    now = env.clock.wall().replace(microsecond=0)
    admin = as_peer("root", "1", now, ("system:masters",))
    node = as_peer(NODE, "2", now - timedelta(hours=1), ("system:nodes",))

    def end_connections(is_revoked: Any) -> None:
        ended.extend([is_revoked(node), is_revoked(admin)])

    api.credentials.end_connections_by(end_connections)

    async def ask(certificate: dict[str, Any], method: str, path: str, body: Any = None) -> Response:
        data = b"" if body is None else msgspec.json.encode(body)
        headers = Headers([("content-type", "application/json"), ("content-length", str(len(data)))])
        try:
            answer = api.answer(Request(method, path, path, "", headers, data, Peer("10.0.0.1", 1, certificate)))
            found = await answer if isinstance(answer, Awaitable) else answer
        except StatusError as error:
            return Response(error.code)
        assert isinstance(found, Response)
        return found

    own = "/api/v1/nodes/worker-1"
    assert (await ask(node, "GET", own)).status == 404
    spec = {"revokedBefore": "2099-01-01T00:00:00Z"}
    answer = await ask(admin, "POST", CREDENTIALS, {"metadata": {"name": NODE}, "spec": spec})
    assert answer.status == 201
    stored_at = msgspec.json.decode(answer.body)["spec"]["revokedBefore"]
    assert stored_at == now.strftime("%Y-%m-%dT%H:%M:%SZ"), "a time in the future is stored as now"
    await tasks.sleep(timedelta(seconds=1))
    assert (await ask(node, "GET", own)).status == 401
    assert ended == [True, False]
    later = as_peer(NODE, "3", now + timedelta(seconds=1), ("system:nodes",))
    assert (await ask(later, "GET", own)).status == 404
    taken_back = await ask(admin, "PUT", f"{CREDENTIALS}/{NODE}", {"metadata": {"name": NODE}, "spec": {}})
    assert taken_back.status == 422
    await api.stop()


async def test_a_removed_node_joins_again_with_a_certificate_that_is_not_revoked(sim: Simulation):
    async with a_server(sim, authority=an_authority()) as client:
        await client.create(SECRETS, a_token())
        first = await client.ask(
            "POST", REQUESTS, a_node_request("a", "old"), Authorization="Bearer abcdef.0123456789abcdef"
        )
        assert first.status == 201
        await client.patch(f"{CREDENTIALS}/system:node:a", {"spec": {"revokedBefore": "2099-01-01T00:00:00Z"}})
        again = await client.ask(
            "POST", REQUESTS, a_node_request("a", "new"), Authorization="Bearer abcdef.0123456789abcdef"
        )
        assert again.status == 201, again
        revoked = (await client.get(f"{CREDENTIALS}/system:node:a"))["spec"]["revokedBefore"]
        index = Revocations()
        index.put("system:node:a", revoking(revokedBefore=revoked))
        for answer, expected in ((first, True), (again, False)):
            found = a_certificate(answer.body)
            shown = as_peer("system:node:a", f"{found.serial_number:x}", found.not_valid_before_utc)
            assert index.is_revoked(shown) == expected


@pytest.mark.parametrize(
    "changed",
    [
        {"spec": "text"},
        {"spec": {"revokedBefore": 5}},
        {"spec": {"revokedBefore": "tomorrow"}},
        {"spec": {"revokedSerialNumbers": [1]}},
        {"spec": {"revokedSerialNumbers": ["xyz"]}},
        {"spec": {"other": True}},
        {"status": {"certificates": [{"serialNumber": "1"}]}},
        {"status": {"certificates": {}}},
    ],
)
async def test_a_credential_that_makes_no_sense_is_refused(sim: Simulation, changed: dict[str, Any]):
    async with a_server(sim) as client:
        await client.create(CREDENTIALS, {"metadata": {"name": "jane"}})
        path = f"{CREDENTIALS}/jane/status" if "status" in changed else f"{CREDENTIALS}/jane"
        answer = await client.ask("PUT", path, {"metadata": {"name": "jane"}, **changed})
        assert answer.status == 422, answer


async def test_a_revocation_reaches_the_other_servers_of_one_etcd(sim: Simulation):
    etcd = FakeEtcd()
    apis, authenticators = [], []
    for name in ("first", "second"):
        store = EtcdStore(etcd.client(), chance=Chance(name.encode()))
        authenticators.append(Authenticator({}))
        apis.append(await Api.start(store, sim.env(name), authenticators[-1]))
    now = sim.env("first").clock.wall()
    node = as_peer(NODE, "2", now - timedelta(hours=1), ("system:nodes",))
    assert not any(each.revocations.is_revoked(node) for each in authenticators)
    admin = as_peer("root", "1", now, ("system:masters",))
    body = msgspec.json.encode({"metadata": {"name": NODE}, "spec": {"revokedBefore": "2099-01-01T00:00:00Z"}})
    headers = Headers([("content-type", "application/json"), ("content-length", str(len(body)))])
    answer = apis[0].answer(Request("POST", CREDENTIALS, CREDENTIALS, "", headers, body, Peer("10.0.0.1", 1, admin)))
    assert isinstance(answer, Awaitable)
    await answer
    await tasks.sleep(timedelta(seconds=2))
    assert all(each.revocations.is_revoked(node) for each in authenticators)
    for api in apis:
        await api.stop()
