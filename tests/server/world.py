"""An API server in the simulator, and a client that talks to it over the simulated network."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import aiohttp

from mainstay.api.pod_security_checks import SecurityLevel
from mainstay.env import Chance, Env
from mainstay.http.server import HttpServer
from mainstay.server.auth.authentication import Authenticator
from mainstay.server.auth.authorization import User
from mainstay.server.auth.bootstrap_tokens import BootstrapTokens
from mainstay.server.auth.jwt import SigningKey
from mainstay.server.auth.request_signer import NO_AUTHORITY, ClusterAuthority
from mainstay.server.auth.tokens import AccountTokens
from mainstay.server.request.app import Api
from mainstay.server.request.pipeline import PipelineOptions
from mainstay.sim.simulation import Simulation
from mainstay.store import open_memory
from mainstay.store.interface import Store

PORT = 6443
ADMIN = User("admin", ("system:masters", "system:authenticated"))
ALICE = User("alice", ("devs", "system:authenticated"))
TOKENS = {"admintoken": ADMIN, "usertoken": ALICE}

NO_OPTIONS = PipelineOptions()


@dataclass
class Answer:
    status: int
    body: Any
    headers: dict[str, str]
    warnings: list[str] = field(default_factory=list)
    """The texts of its `Warning` headers."""


class Client:
    """Asks one server. Bodies are JSON unless they are bytes."""

    def __init__(self, session: aiohttp.ClientSession, server: str) -> None:
        self.session = session
        self.base = f"http://{server}:{PORT}"

    async def ask(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json", **headers: str
    ) -> Answer:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent = {
            "Authorization": "Bearer admintoken",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        if data is not None:
            sent["Content-Type"] = content_type
        async with self.session.request(method, self.base + path, data=data, headers=sent) as response:
            text = await response.read()
            is_json = response.content_type == "application/json" and text
            shown = json.loads(text) if is_json else text.decode()
            warnings = [json.loads(each.removeprefix("299 - ")) for each in response.headers.getall("Warning", [])]
            return Answer(response.status, shown, dict(response.headers), warnings)

    async def get(self, path: str, **headers: str) -> Any:
        answer = await self.ask("GET", path, **headers)
        assert answer.status == 200, answer
        return answer.body

    async def create(self, path: str, body: Any) -> Any:
        answer = await self.ask("POST", path, body)
        assert answer.status == 201, answer
        return answer.body

    async def patch(self, path: str, body: Any, kind: str = "merge") -> Any:
        answer = await self.ask("PATCH", path, body, f"application/{kind}-patch+json")
        assert answer.status == 200, answer
        return answer.body

    async def label_namespace(self, name: str = "default", **levels: str) -> None:
        """Set Pod Security labels: `enforce="privileged"` lets pods use ports and paths of the machine."""
        labels = {f"pod-security.kubernetes.io/{mode.replace('_', '-')}": level for mode, level in levels.items()}
        await self.patch(f"/api/v1/namespaces/{name}", {"metadata": {"labels": labels}})

    async def delete(self, path: str, body: Any = None) -> Any:
        answer = await self.ask("DELETE", path, body)
        assert answer.status == 200, answer
        return answer.body

    @asynccontextmanager
    async def watch(self, path: str, **headers: str) -> AsyncIterator["Events"]:
        sent = {"Authorization": "Bearer admintoken", **headers}
        timeout = aiohttp.ClientTimeout(total=None)
        async with self.session.get(self.base + path, headers=sent, timeout=timeout) as response:
            assert response.status == 200, await response.text()
            yield Events(response)


class Events:
    """What a watch delivers, one by one."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def next(self, within: float = 5) -> Any:
        """The next event; None at the end of the stream."""
        async with asyncio.timeout(within):
            line = await self.response.content.readline()
        return json.loads(line) if line else None

    async def take(self, count: int) -> list[Any]:
        return [await self.next() for _ in range(count)]


@asynccontextmanager
async def a_server(
    sim: Simulation,
    name: str = "server",
    store: Store | None = None,
    signing_key: SigningKey | None = None,
    options: PipelineOptions = NO_OPTIONS,
    security: SecurityLevel = SecurityLevel.BASELINE,
    authority: ClusterAuthority = NO_AUTHORITY,
) -> AsyncIterator[Client]:
    """A server on a host of its own, and a client on another. With a key it issues tokens of service accounts; with
    an authority it hands out its certificates, and signs with it."""
    given = sim.env(name)
    env = Env(given.clock, Chance(name.encode()), given.disk)
    with sim.network.host(name).active():
        used = store or await open_memory()
        accounts = None if signing_key is None else AccountTokens(signing_key, used, env)
        authenticator = Authenticator(TOKENS, accounts, BootstrapTokens(used, env.clock))
        api = await Api.start(used, env, authenticator, options=options, security=security, authority=authority)
        http = await HttpServer.start(api.answer, "0.0.0.0", PORT, on_head=True)
    with sim.network.host("client").active():
        async with aiohttp.ClientSession() as session:
            try:
                yield Client(session, name)
            finally:
                await http.drain(timedelta(seconds=1))
                await api.stop()


CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def a_configmap(name: str, labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name}
    if labels:
        metadata["labels"] = labels
    return {"metadata": metadata, "data": data}


def a_pod(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "x:1"}], **spec}}


def a_deployment(name: str, replicas: int = 1) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"metadata": {"name": name}, "spec": spec}
