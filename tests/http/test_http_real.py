"""The same over real sockets, on the production loop: plain, and with TLS and client certificates."""

import asyncio
import gc
import ipaddress
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mainstay.api.errors import StatusError, StatusReason
from mainstay.env import tasks
from mainstay.http.connection import ServerConnection
from mainstay.http.limits import HttpLimits
from mainstay.http.messages import Answer, Request, Response, StreamResponse
from mainstay.http.reader import RequestReader
from mainstay.http.streams import BodyStream
from tests.http.clients import connected, echo, get, post, serving

pytestmark = [pytest.mark.slow, pytest.mark.real_loop]

LARGE = b"pod " * 1_000_000


@dataclass(frozen=True)
class Authority:
    """Signs certificates, which are written to a directory."""

    directory: Path
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def made_in(cls, directory: Path) -> "Authority":
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        certificate = cls._draft(name, name, key).add_extension(x509.BasicConstraints(True, None), True)
        made = cls(directory, key, certificate.sign(key, hashes.SHA256()))
        (directory / "ca.pem").write_bytes(made.certificate.public_bytes(serialization.Encoding.PEM))
        return made

    @staticmethod
    def _draft(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
        )

    def issue(self, name: str, *groups: str) -> Path:
        """A certificate and its key, in one file."""
        key = ec.generate_private_key(ec.SECP256R1())
        organisations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*organisations, x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        certificate = self._draft(subject, self.certificate.subject, key).add_extension(names, False)
        file = self.directory / f"{name}.pem"
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + certificate.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        )
        return file

    def server_side(self, *, verify: ssl.VerifyMode = ssl.CERT_OPTIONAL) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.directory / "ca.pem")
        context.load_cert_chain(self.issue("server"))
        context.verify_mode = verify
        return context

    def client_side(self, certificate: Path | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.directory / "ca.pem")
        if certificate is not None:
            context.load_cert_chain(certificate)
        return context


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.made_in(tmp_path)


async def test_requests_are_answered_in_order():
    async def later(request: Request) -> Response:
        await tasks.sleep(timedelta(milliseconds=1))
        return echo(request)

    def handler(request: Request):
        return later(request) if request.path.endswith("0") else echo(request)

    async with serving(handler) as server:
        client = await connected(server)
        client.send(b"".join(get(f"/{number}") for number in range(200)))
        for number in range(200):
            assert (await client.reply()).body == f"GET /{number} ".encode()
        client.close()


async def test_large_bodies_go_both_ways():
    async with serving(lambda request: Response(200, request.body * 4)) as server:
        client = await connected(server)
        assert (await client.ask(post(LARGE[:3_000_000]))).body == LARGE[:3_000_000] * 4
        client.close()


async def test_httpx_is_content():
    """The largest answers are sent as they are: to compress them would take too long in one go."""
    medium = LARGE[: 400 * 1024]
    async with serving(lambda request: Response(200, LARGE if request.path == "/large" else medium)) as server:
        host, port = server.addresses[0]
        async with httpx.AsyncClient() as client:
            for path, content, encoding in (("/", medium, "gzip"), ("/large", LARGE, None)) * 3:
                response = await client.get(f"http://{host}:{port}{path}", headers={"Accept-Encoding": "gzip"})
                assert response.headers.get("content-encoding") == encoding
                assert response.content == content


async def test_a_refusal_arrives_although_the_client_goes_on_sending():
    async with serving(echo) as server:
        client = await connected(server)
        client.send(post(LARGE * 5))
        assert (await client.reply()).status == 413
        await client.end()


async def test_a_slow_client_of_a_stream_is_dropped():
    given_up = asyncio.Event()

    async def run(stream: BodyStream) -> None:
        while stream.write(bytes(100_000)):
            await tasks.sleep(timedelta(0))
        given_up.set()

    async with serving(lambda request: StreamResponse(200, run), HttpLimits(stream_bytes=1_000_000)) as server:
        client = await connected(server)
        client.send(get())
        await client.head()
        client.transport.pause_reading()
        await given_up.wait()
        client.transport.resume_reading()
        await client.end()


async def test_a_client_that_goes_away_cancels_what_runs():
    begun, ended = asyncio.Event(), asyncio.Event()

    async def handler(request: Request) -> Answer:
        begun.set()
        try:
            await tasks.sleep(timedelta(days=1))
        finally:
            ended.set()
        return Response(200)

    async with serving(handler) as server:
        client = await connected(server)
        client.send(get())
        await begun.wait()
        client.close()
        await ended.wait()


async def test_draining_ends_streams_and_closes():
    async def run(stream: BodyStream) -> None:
        await stream.wait_closed()
        stream.write(b"bye")

    async with serving(lambda request: StreamResponse(200, run)) as server:
        idle, client = await connected(server), await connected(server)
        client.send(get())
        head = await client.head()
        await server.drain(timedelta(seconds=30))
        assert (head.status, await client.end()) == (200, b"3\r\nbye\r\n0\r\n\r\n")
        assert await idle.end() == b""


def whoami(request: Request) -> Response:
    certificate = request.peer.certificate
    if certificate is None:
        return Response(200, b"anonymous")
    return Response(200, repr([value for [(_, value)] in certificate["subject"]]).encode())


async def test_a_client_certificate_reaches_the_handler(authority: Authority):
    async with serving(whoami, tls=authority.server_side()) as server:
        alice = authority.client_side(authority.issue("alice", "developers", "system:masters"))
        client = await connected(server, tls=alice)
        assert (await client.ask(get())).body == b"['developers', 'system:masters', 'alice']"
        client.close()
        client = await connected(server, tls=authority.client_side())
        assert (await client.ask(get())).body == b"anonymous"
        client.close()


async def test_a_certificate_of_another_ca_is_refused(authority: Authority, tmp_path: Path):
    (tmp_path / "other").mkdir()
    stranger = Authority.made_in(tmp_path / "other").issue("mallory", "system:masters")
    async with serving(whoami, tls=authority.server_side()) as server:
        with pytest.raises((OSError, AssertionError)):
            # With TLS 1.3 the client learns of it when it reads.
            await (await connected(server, tls=authority.client_side(stranger))).ask(get())
        assert server.connections == 0


async def test_large_bodies_streams_and_refusals_work_over_tls(authority: Authority):
    async def run(stream: BodyStream) -> None:
        for _ in range(10):
            assert stream.write(LARGE[:500_000])
            await stream.drain()

    def handler(request: Request):
        return StreamResponse(200, run) if request.path == "/stream" else Response(200, LARGE)

    async with serving(handler, tls=authority.server_side()) as server:
        client = await connected(server, tls=authority.client_side())
        assert (await client.ask(get())).body == LARGE
        assert len((await client.ask(get("/stream"))).body) == 5_000_000
        client.send(post(LARGE))
        assert (await client.reply()).status == 413
        await client.end()


async def test_draining_works_over_tls(authority: Authority):
    async with serving(echo, tls=authority.server_side()) as server:
        client = await connected(server, tls=authority.client_side())
        await client.ask(get())
        await server.drain(timedelta(seconds=30))
        assert await client.end() == b""


def _find_connections() -> list[object]:
    return [each for each in gc.get_objects() if isinstance(each, ServerConnection | RequestReader)]


@pytest.mark.parametrize("is_tls", [False, True])
async def test_a_connection_that_is_over_leaves_nothing_to_the_collector_of_cycles(authority: Authority, is_tls: bool):
    def refuse(request: Request) -> Answer:
        if request.arriving is not None:
            raise StatusError(403, StatusReason.FORBIDDEN, "no")
        return echo(request)

    async def refuse_body(request: Request) -> Answer:
        if request.arriving is not None:
            await request.arriving.read()
        return refuse(request)

    given, shown = (authority.server_side(), authority.client_side()) if is_tls else (None, None)
    gc.collect()
    others = _find_connections()  # Other tests may have left some behind.
    gc.disable()
    try:
        for handler in (refuse, refuse_body):
            async with serving(handler, tls=given, on_head=True) as server:
                client = await connected(server, tls=shown)
                assert (await client.ask(get())).status == 200
                client.send(post(LARGE[:300_000]))
                assert (await client.reply()).status == 403
                client.close()
                await client.end()
                while server.connections:
                    await tasks.turns(1)
            await tasks.turns(3)
            assert [each for each in _find_connections() if not any(each is other for other in others)] == []
    finally:
        gc.enable()
