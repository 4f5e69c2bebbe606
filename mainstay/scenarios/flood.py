"""A user floods the API server with lists that it reads slowly: nodes renew their leases in time all the same.

Each list takes seats of the user's priority level until its client stalls, so the level is full all the time, and most
of the flood waits in its queues or is sent away. Nodes have a level of their own, whose seats are theirs at any time. A
lease that is renewed late is how a cluster that is only busy begins to move pods.
"""

import asyncio
from datetime import timedelta
from typing import Final, cast

from mainstay.api.kind_names import CLUSTER_ROLE_BINDINGS, CONFIG_MAPS, LEASES, NAMESPACES
from mainstay.client.client import Client
from mainstay.env import Env, network, tasks
from mainstay.server.auth.authorization import User
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.cluster.history import Event, RevisionCommitted
from mainstay.sim.cluster.server_proxy import TOKEN
from mainstay.sim.cluster.world import PORT, World
from mainstay.sim.run.scenario import Scenario, Stage

SERVER: Final = "server"
NODES: Final = ("node-1", "node-2")
GREEDY: Final = "greedy"
CONNECTIONS: Final = 300
RENEWED_WITHIN: Final = timedelta(seconds=12)
"""A node renews its lease every 10 s."""

_NAMESPACE: Final = "flood"
_OBJECTS: Final = 1_000  # So that a list takes ten seats.
_OBJECT_BYTES: Final = 700
_GIVES_UP_AFTER: Final = timedelta(seconds=4)
"""More lists are asked for than there are seats for in that time."""
_LEASES: Final = "coordination.k8s.io/leases/kube-node-lease/"
_BINDING: Final = {
    "metadata": {"name": GREEDY},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"kind": "User", "name": GREEDY}],
}
_REQUEST: Final = (
    f"GET /api/v1/namespaces/{_NAMESPACE}/configmaps HTTP/1.1\r\nHost: {SERVER}\r\n"
    f"Authorization: Bearer {TOKEN}{GREEDY}\r\n\r\n"
).encode()


class _Stalling(asyncio.Protocol):
    """Asks for a list, and takes nothing of it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        opened = cast(asyncio.Transport, transport)
        opened.pause_reading()
        opened.write(_REQUEST)


class FloodStage(Stage):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._is_begun = asyncio.Event()
        self._is_over = False
        world.add_server(SERVER)
        for node in NODES:
            world.add_node(node)
        world.add_program("admin", self._prepare, is_spared=True)
        world.add_program(GREEDY, self._flood, user=User(GREEDY, ()), is_spared=True)
        self._is_prepared = asyncio.Event()

    async def ready(self) -> None:
        await self._is_prepared.wait()

    async def begin(self) -> None:
        self._is_begun.set()

    async def finish(self) -> None:
        self._is_over = True

    async def _prepare(self, env: Env) -> None:
        async with self.world.client_for("admin", env) as client:
            await client.create(CLUSTER_ROLE_BINDINGS, _BINDING)
            await client.create(NAMESPACES, {"metadata": {"name": _NAMESPACE}})
            await asyncio.gather(*(_make(client, number) for number in range(_OBJECTS)))
            while len((await client.list(LEASES, "kube-node-lease")).items) < len(NODES):
                await tasks.sleep(timedelta(seconds=1))
        self._is_prepared.set()
        await asyncio.Event().wait()

    async def _flood(self, env: Env) -> None:
        await self._is_begun.wait()
        await tasks.together((self._ask_again_and_again() for _ in range(CONNECTIONS)), name=GREEDY)
        await asyncio.Event().wait()

    async def _ask_again_and_again(self) -> None:
        while not self._is_over:
            transport, _ = await network.connect(_Stalling, SERVER, PORT)
            await tasks.sleep(_GIVES_UP_AFTER)
            transport.abort()


async def _make(client: Client, number: int) -> None:
    made = {"metadata": {"name": f"c{number}"}, "data": {"text": "x" * _OBJECT_BYTES}}
    await client.create(CONFIG_MAPS, made, _NAMESPACE)


class RenewedInTime:
    """Each lease of a node is renewed within `RENEWED_WITHIN`."""

    name = "renewed in time"

    def __init__(self) -> None:
        self._last: dict[str, RevisionCommitted] = {}

    def saw(self, event: Event) -> None:
        if not isinstance(event, RevisionCommitted) or not event.key.startswith(_LEASES):
            return
        before = self._last.get(event.key)
        self._last[event.key] = event
        if before is not None and event.at_ns - before.at_ns > RENEWED_WITHIN.total_seconds() * 1e9:
            took_s = (event.at_ns - before.at_ns) / 1e9
            raise Violated(self.name, f"{event.key} was renewed after {took_s:.1f} s", [before, event])

    async def at_end(self, world: World) -> None:
        """Everything was told while it happened."""


SCENARIO: Final = Scenario(
    name="flood",
    about="A user floods the API server with lists: flow control lets nodes renew their leases in time.",
    make=FloodStage,
    checkers=lambda: [WatchContract(), AcknowledgedWrites(), RenewedInTime()],
    faults=(),
    lasts=timedelta(seconds=30),
    calm=timedelta(minutes=10),
    ids=(),
)
