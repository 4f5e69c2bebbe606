"""Whom an agent answers, over real TLS, and how it is known. What it answers: tests/server/node_proxy."""

import json
import ssl
from datetime import timedelta
from pathlib import Path

import pytest

from mainstay.agent.serve.server import AgentServing
from mainstay.env import Chance, Env, SystemClock, SystemDisk
from mainstay.env.invariants import broken
from mainstay.http.certificates import ServingCertificate, ensure_self_signed
from mainstay.http.outgoing import Exchange, ExchangeBroken, WrongCertificate, client_tls, connect
from mainstay.server.auth.authorization import User
from mainstay.server.auth.certificates import Certificates, ensure_certificates, issue_client
from tests.agent.fake_runner import FakeRunner

pytestmark = pytest.mark.real_loop

HOST = "127.0.0.1"
WITHIN = timedelta(seconds=5)
CLOCK = SystemClock()
GET = b"GET /usage HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n"


class NoPods:
    def find(self, namespace: str, name: str) -> None:
        return None


@pytest.fixture
def cluster(tmp_path) -> SystemDisk:
    """The data directory of a server."""
    return SystemDisk(tmp_path / "server")


@pytest.fixture
def certificates(cluster) -> Certificates:
    return ensure_certificates(cluster, CLOCK, ["localhost"])


async def an_agent(directory: Path, certificates: Certificates) -> tuple[AgentServing, ServingCertificate]:
    disk = SystemDisk(directory)
    own = ensure_self_signed(disk, directory, CLOCK, "system:node:n1", [HOST])
    env = Env(CLOCK, Chance.fresh(), disk)
    authorities = certificates.authority.decode()
    serving = await AgentServing.start(env, HOST, 0, certificate=own, authorities=authorities)
    serving.serve("n1", NoPods(), FakeRunner())
    return serving, own


async def asked(serving: AgentServing, digest: str, tls: ssl.SSLContext, request: bytes = GET) -> tuple[int, bytes]:
    exchange = await connect(Exchange, HOST, serving.port, WITHIN, tls=tls, digest=digest)
    try:
        head = await exchange.ask(request, WITHIN)
        return head.status, await exchange.read_all(100_000, WITHIN)
    finally:
        exchange.close()


async def test_the_server_of_the_cluster_is_answered(tmp_path, certificates):
    serving, own = await an_agent(tmp_path / "n1", certificates)

    status, body = await asked(serving, own.digest, client_tls(certificates.agents, certificates.agents_key))

    assert (status, list(json.loads(body)["nodes"])) == (200, ["n1"])
    await serving.stop()


async def test_others_of_the_cluster_are_not(tmp_path, cluster, certificates):
    serving, own = await an_agent(tmp_path / "n1", certificates)
    for user, group, wanted in (("system:node:n2", "system:nodes", 403), ("root", "system:masters", 200)):
        issued = issue_client(cluster, CLOCK, User(user, (group,)))
        assert (await asked(serving, own.digest, client_tls(issued.certificate, issued.key)))[0] == wanted
    await serving.stop()


async def test_a_caller_without_a_certificate_only_learns_whether_the_agent_is_healthy(tmp_path, certificates):
    serving, own = await an_agent(tmp_path / "n1", certificates)
    anonymous = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anonymous.check_hostname = False
    anonymous.verify_mode = ssl.CERT_NONE

    assert (await asked(serving, own.digest, anonymous))[0] == 401
    for path in (b"/healthz", b"/livez", b"/readyz"):
        assert await asked(serving, own.digest, anonymous, GET.replace(b"/usage", path)) == (200, b"ok")
    broken("a pod has one worker", "pod web-1")
    status, text = await asked(serving, own.digest, anonymous, GET.replace(b"/usage", b"/readyz"))
    assert status == 500
    assert b"[-]invariants failed: reason withheld\n" in text
    assert (await asked(serving, own.digest, anonymous, GET.replace(b"/usage", b"/readyz/invariants")))[0] == 401
    await serving.stop()


async def test_a_certificate_of_another_cluster_counts_for_nothing(tmp_path, certificates):
    serving, own = await an_agent(tmp_path / "n1", certificates)
    issued = issue_client(SystemDisk(tmp_path / "other"), CLOCK, User("x", ("system:mainstay:servers",)))

    with pytest.raises((OSError, ExchangeBroken), match=r"(?i)alert|closed|broke|reset"):
        await asked(serving, own.digest, client_tls(issued.certificate, issued.key))
    await serving.stop()


async def test_nothing_is_sent_to_an_agent_with_another_certificate(tmp_path, certificates):
    serving, own = await an_agent(tmp_path / "n1", certificates)
    tls = client_tls(certificates.agents, certificates.agents_key)

    with pytest.raises(WrongCertificate) as wrong:
        await asked(serving, "sha256:" + "0" * 64, tls)

    assert wrong.value.shown == own.digest
    await serving.stop()


async def test_until_there_is_a_node_the_agent_is_starting(tmp_path):
    env = Env(CLOCK, Chance.fresh(), SystemDisk(tmp_path))
    serving = await AgentServing.start(env, HOST, 0)
    exchange = await connect(Exchange, HOST, serving.port, WITHIN)

    assert (await exchange.ask(GET, WITHIN)).status == 503
    exchange.close()
    await serving.stop()


def test_a_certificate_of_its_own_is_made_once(tmp_path):
    disk = SystemDisk(tmp_path)
    first = ensure_self_signed(disk, tmp_path, CLOCK, "system:node:n1", [HOST, "node-1"])

    assert ensure_self_signed(disk, tmp_path, CLOCK, "system:node:n1", [HOST, "node-1"]) == first
    assert ensure_self_signed(disk, tmp_path, CLOCK, "system:node:n1", ["10.0.0.1"]).digest != first.digest
    assert disk.names() == ["serving.crt", "serving.key"]


def test_a_certificate_is_made_again_before_it_expires_and_when_it_was_lost(tmp_path):
    disk = SystemDisk(tmp_path)
    old = ensure_self_signed(disk, tmp_path, _Past(), "system:node:n1", [HOST])
    new = ensure_self_signed(disk, tmp_path, CLOCK, "system:node:n1", [HOST])
    disk.remove("serving.crt")

    assert len({old.digest, new.digest, ensure_self_signed(disk, tmp_path, CLOCK, "n", [HOST]).digest}) == 3


class _Past(SystemClock):
    def wall(self):
        return super().wall() - timedelta(days=3600)
