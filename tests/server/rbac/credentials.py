"""Real credentials, and an API server in process that they are shown to.

Certificates are signed by the authority of a data directory, and verified in a TLS handshake with the server's own
settings: the server is given what that says of the client. Tokens are issued by the API.
"""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from mainstay.api.errors import StatusError
from mainstay.client.config import from_kubeconfig_file
from mainstay.env import Chance, Env, SystemClock, SystemDisk
from mainstay.http.messages import Headers, LongResponse, Peer, Request, Response
from mainstay.server.auth.authentication import Authenticator
from mainstay.server.auth.authorization import User
from mainstay.server.auth.certificates import Certificates, ensure_certificates, issue_client, tls_context
from mainstay.server.auth.kubeconfig import write_kubeconfigs
from mainstay.server.auth.tokens import AccountTokens
from mainstay.server.request.app import Api
from mainstay.sim.simulation import Simulation
from mainstay.store import open_memory
from tests.server.auth.test_token_requests import KEY

_NAME: Final = "localhost"


@dataclass(frozen=True)
class Credential:
    """What a client shows: a certificate, a token, or neither; and whom it acts as."""

    certificate: dict[str, Any] | None = None
    token: str = ""
    acts_as: str = ""

    def headers(self) -> list[tuple[str, str]]:
        shown = [("Authorization", f"Bearer {self.token}")] if self.token else []
        return [*shown, ("Impersonate-User", self.acts_as)] if self.acts_as else shown


class Authority:
    """The authority of a data directory. Blocks."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._disk = SystemDisk(directory)
        self._made: Certificates = ensure_certificates(self._disk, SystemClock(), [_NAME])
        self._server = tls_context(directory / "server.crt", directory / "server.key", self._made.authority)

    def component(self, stem: str) -> Credential:
        """That of a kubeconfig which the server makes: `admin`, `scheduler`, `controllers`."""
        write_kubeconfigs(self._disk, SystemClock(), f"https://{_NAME}:6443", self._made.authority, has_tls=True)
        config = from_kubeconfig_file(self._directory / ("kubeconfig" if stem == "admin" else f"{stem}.kubeconfig"))
        return self._shown(config.tls.certificate.encode(), config.tls.key.encode())

    def user(self, user: User) -> Credential:
        issued = issue_client(self._disk, SystemClock(), user)
        return self._shown(issued.certificate, issued.key)

    def close(self) -> None:
        self._disk.close()

    def _shown(self, certificate: bytes, key: bytes) -> Credential:
        """Shake hands, and take what the server's side says of the client."""
        path = self._directory / "shown.pem"
        path.write_bytes(certificate + key)
        context = ssl.create_default_context(cadata=self._made.authority.decode())
        context.load_cert_chain(path)
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = context.wrap_bio(to_client, to_server, server_hostname=_NAME)
        server = self._server.wrap_bio(to_server, to_client, server_side=True)
        for _ in range(4):
            for end in (client, server):
                try:
                    end.do_handshake()
                except ssl.SSLWantReadError:
                    continue
        return Credential(server.getpeercert())


class DirectClient:
    """Asks a server in process."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def ask(
        self, shown: Credential, method: str, target: str, body: Any = None, content_type: str = "application/json"
    ) -> tuple[int, Any]:
        """The status of the answer, and its body."""
        path, _, query = target.partition("?")
        sent = b"" if body is None else msgspec.json.encode(body)
        headers = Headers([("Content-Type", content_type), ("Accept", "application/json"), *shown.headers()])
        peer = Peer("10.0.0.1", 4711, shown.certificate)
        try:
            answer = self._api.answer(Request(method, target, path, query, headers, sent, peer))
            if not isinstance(answer, Response | LongResponse):
                answer = await answer  # type: ignore[misc]
        except StatusError as error:
            return error.code, str(error)
        if isinstance(answer, Response):
            return answer.status, msgspec.json.decode(answer.body) if answer.body[:1] == b"{" else answer.body
        return getattr(answer, "status", 101), None

    async def create(self, shown: Credential, path: str, body: Any) -> Any:
        status, answer = await self.ask(shown, "POST", path, body)
        assert status == 201, answer
        return answer


@asynccontextmanager
async def a_direct_server(sim: Simulation) -> AsyncIterator[DirectClient]:
    """With a key for tokens of service accounts, and without any static token."""
    given = sim.env("server")
    env = Env(given.clock, Chance(b"server"), given.disk)
    with sim.network.host("server").active():
        store = await open_memory()
        api = await Api.start(store, env, Authenticator({}, AccountTokens(KEY, store, env)))
    try:
        yield DirectClient(api)
    finally:
        await api.stop()
