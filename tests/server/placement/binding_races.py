"""The scenario of several clients that race for the same pods and nodes, over two servers on one store.

They bind, one by one and in batches, on what they remember and not on what is there; pods end, are removed, by force
too; agents report, nodes shrink, are cordoned and replaced; and answers get lost. `run(seed, backend)` raises `Broken`
(ledger_cases.py) if at any revision a node was given away twice, or its ledger was not the sum of its charges.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any

import aiohttp

from mainstay.env import Chance, tasks
from mainstay.sim.run.choices import Choices
from mainstay.sim.simulation import Simulation
from mainstay.store import open_memory
from mainstay.store.etcd import EtcdStore
from mainstay.store.interface import Store
from tests.server.placement.ledger_cases import NODES, a_node, a_sized_pod, history_of, require_ledgers
from tests.server.placement.test_batch_binding import BINDINGS, an_item
from tests.server.world import PODS, Client, a_server
from tests.store.fake_etcd import FakeEtcd, Faults

BACKENDS = ("memory", "fake-etcd")
CLIENTS = 3
TURNS = 12  # Of each client.
PODS_COUNT = 14
NODES_COUNT = 3
LOSSES = Faults(lose_request=0.02, lose_response=0.06, delay_request=0.05, delay_response=0.05)
PATIENCE = (0.0001, 0.002, 0.02)  # How long a client waits that loses an answer.


def run(seed: int, backend: str) -> int:
    """One run. Returns how many pods were bound."""
    with Simulation(seed) as simulation:
        return simulation.run(_run(simulation, backend))


async def _run(sim: Simulation, backend: str) -> int:
    etcd = FakeEtcd(sim.choices)
    memory = await open_memory()

    def store() -> Store:
        return memory if backend == "memory" else EtcdStore(etcd.client(), "/mainstay/", chance=Chance(b"test"))

    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(a_server(sim, f"s{n}", store())) for n in range(2)]
        await prepare(servers[0], sim.choices)
        etcd.faults = LOSSES
        await race(servers, sim.choices)
        etcd.faults = Faults()
        await tasks.sleep(timedelta(minutes=1))  # Until whatever was late has landed.
        return require_ledgers(await history_of(store()))


async def prepare(server: Client, choices: Choices) -> None:
    """Make the nodes and pods that are raced for."""
    await server.label_namespace(enforce="privileged")  # Some pods take a port of their node.
    for number in range(NODES_COUNT):
        await server.create(NODES, a_node(f"n{number}", cpu="3", pods="5"))
    for number in range(PODS_COUNT):
        await server.create(PODS, _pod(choices, number))


async def race(servers: list[Client], choices: Choices) -> None:
    """Let all clients have their turns. There are two servers."""
    racers = [_Racer(choices, servers, f"client {number}") for number in range(CLIENTS)]
    await asyncio.gather(*(racer.race() for racer in racers))


def _pod(choices: Choices, number: int) -> dict[str, Any]:
    cpu = ("1", "500m", "1500m", "2")[choices.choose("cpu of a pod", 4)]
    return a_sized_pod(f"p{number}", cpu, port=(0, 0, 80)[choices.choose("port of a pod", 3)])


async def _patch(server: Client, path: str, patch: dict[str, Any]) -> None:
    await server.ask("PATCH", path, patch, "application/merge-patch+json")


class _Racer:
    """One client. It knows names and nothing else."""

    def __init__(self, choices: Choices, servers: list[Client], name: str) -> None:
        self._choices = choices
        self._servers = servers
        self._name = name

    def _choose(self, what: str, options: int) -> int:
        return self._choices.choose(f"{self._name}: {what}", options)

    async def race(self) -> None:
        for _ in range(TURNS):
            await self._turn()
            await tasks.sleep(timedelta(milliseconds=self._choose("pause", 5)))

    async def _turn(self) -> None:
        server = self._servers[self._choose("server", 2)]
        pod = f"p{self._choose('pod', PODS_COUNT)}"
        node = f"n{self._choose('node', NODES_COUNT)}"
        async with self._impatient():
            match self._choose("turn", 12):
                case 0 | 1 | 2:
                    body = {"metadata": {"name": pod}, "target": {"kind": "Node", "name": node}}
                    await server.ask("POST", f"{PODS}/{pod}/binding", body)
                case 3 | 4 | 5:
                    items = [an_item(f"p{self._choose('pod', PODS_COUNT)}", node) for _ in range(4)]
                    await server.ask("POST", BINDINGS, {"items": items})
                case 6:
                    phase = ("Running", "Failed")[self._choose("phase", 2)]
                    await _patch(server, f"{PODS}/{pod}/status", {"status": {"phase": phase}})
                case 7:
                    await server.ask("DELETE", f"{PODS}/{pod}?gracePeriodSeconds=0")
                    await server.ask("POST", PODS, _pod(self._choices, int(pod[1:])))
                case 8:
                    ghosts = await server.ask("GET", f"{NODES}/{node}/ghosts")
                    if ghosts.status == 200:
                        gone = [each["uid"] for each in ghosts.body["items"]]
                        await server.ask("PUT", f"{NODES}/{node}/ghosts", {"gone": gone})
                case 9:
                    cpu = ("3", "2", "4")[self._choose("cpu of a node", 3)]
                    await _patch(server, f"{NODES}/{node}/status", {"status": {"allocatable": {"cpu": cpu}}})
                case 10:
                    is_cordoned = bool(self._choose("cordon", 2))
                    await _patch(server, f"{NODES}/{node}", {"spec": {"unschedulable": is_cordoned}})
                case _:
                    await server.ask("DELETE", f"{NODES}/{node}")
                    await server.ask("POST", NODES, a_node(node, cpu="3", pods="5"))

    @asynccontextmanager
    async def _impatient(self) -> AsyncIterator[None]:
        """Now and then, do not wait for the answer."""
        seconds = (
            PATIENCE[self._choose("patience", len(PATIENCE))] if self._choose("loses the answer", 5) == 4 else None
        )
        try:
            async with asyncio.timeout(seconds):
                yield
        except (TimeoutError, aiohttp.ClientError):
            pass
