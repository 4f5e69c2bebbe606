"""A server with a journal on a simulated disk, and clients of it.

async with a_journaled_server(sim) as served:
    await served.admin.create(CONFIG_MAPS, a_configmap("one"), "default")
    (await served.journal.writes(kind="configmaps")).records
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from mainstay.client.client import Client
from mainstay.client.config import Config
from mainstay.client.connection import ServerResponse
from mainstay.client.remote_journal import RemoteJournal
from mainstay.env import Chance, Env
from mainstay.http.server import HttpServer
from mainstay.journal import wire
from mainstay.journal.record import Record, encode, joined
from mainstay.server.auth.authentication import Authenticator
from mainstay.server.auth.authorization import User
from mainstay.server.decisions.journal import JournalLimits, ServerJournal, open_journal
from mainstay.server.request.app import Api
from mainstay.server.request.audit import Audit
from mainstay.server.request.metrics import Metrics
from mainstay.server.request.pipeline import PipelineOptions
from mainstay.sim.simulation import Simulation
from mainstay.store import open_memory

PORT = 6443
USERS = {
    "admin": User("admin", ("system:masters", "system:authenticated")),
    "alice": User("alice", ("devs", "system:authenticated")),
    "node-a": User("system:node:node-a", ("system:nodes", "system:authenticated")),
}


@dataclass
class Served:
    sim: Simulation
    journaled: ServerJournal | None
    metrics: Metrics
    clients: dict[str, Client] = field(default_factory=dict)

    @property
    def admin(self) -> Client:
        return self.clients["admin"]

    @property
    def journal(self) -> RemoteJournal:
        return RemoteJournal(self.admin)

    async def tell(self, records: Sequence[Record], who: str = "admin") -> ServerResponse:
        """Send records as a component does."""
        body = joined([encode(each) for each in records])
        return await self.clients[who].request(
            "POST", "/journal/decisions", body=body, headers={"Content-Type": wire.RECORDS}
        )


@asynccontextmanager
async def a_journaled_server(
    sim: Simulation, *, has_journal: bool = True, limits: JournalLimits | None = None, audit_log: bool = False
) -> AsyncIterator[Served]:
    """With `audit_log` there is one of that name on the disk of the host `server`."""
    given = sim.env("server")
    env = Env(given.clock, Chance(b"server"), given.disk)
    async with AsyncExitStack() as closing:
        with sim.network.host("server").active():
            store = await open_memory()
            authenticator = Authenticator({f"token-{name}": user for name, user in USERS.items()})
            metrics = Metrics(env.clock)
            journal = None
            if has_journal:
                disk = sim.get_disk("journal")
                journal = await open_journal(disk, store, env.clock, limits or JournalLimits(), closing, metrics)
            audit = await Audit.start(env.disk, "audit_log", authenticator) if audit_log else None
            if audit is not None:
                closing.push_async_callback(audit.close)
            options = PipelineOptions(metrics, audit)
            api = await Api.start(store, env, authenticator, journal=journal, options=options)
            closing.push_async_callback(api.stop)
            http = await HttpServer.start(api.answer, "0.0.0.0", PORT, on_head=True)
            closing.push_async_callback(http.drain, timedelta(seconds=1))
        served = Served(sim, journal, metrics)
        with sim.network.host("client").active():
            for name in USERS:
                config = Config((f"http://server:{PORT}",), token=f"token-{name}")
                client = Client(config, sim.env("client"), user_agent=f"{name}/1.0")
                served.clients[name] = await closing.enter_async_context(client)
            yield served


def a_configmap(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


def a_pod(name: str, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "x:1"}]
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"containers": containers, **spec}}
