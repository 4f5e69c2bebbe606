"""What the tests of faults have in common: a worker that writes what it is told and watches configmaps, and servers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from mainstay.api.kind_names import CONFIG_MAPS
from mainstay.client.client import Client
from mainstay.client.informer import Informer, Informers
from mainstay.env import Env, tasks
from mainstay.sim.cluster.history import FaultInjected
from mainstay.sim.cluster.world import World
from mainstay.sim.run.choices import Choice, Tape
from mainstay.sim.simulation import Simulation


def drawn(chosen: dict[str, int] | None = None) -> Simulation:
    """A simulation in which these choices are made, the first of each label, and all others are benign."""
    return Simulation(tape=Tape(Choice(label, 0, 99, to) for label, to in (chosen or {}).items()))


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def a_configmap(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


@dataclass
class Scene:
    """A worker that writes what it is told, and watches configmaps; and two servers."""

    sim: Simulation
    world: World
    admin: Client
    clients: list[Client]
    """The worker's, one for each incarnation,"""
    informers: list[Informer]
    """and its informers."""

    async def write(self, name: str) -> Any:
        """A write of the worker, made from outside."""
        with self.sim.network.host("worker").active():
            return await self.clients[-1].create(CONFIG_MAPS, a_configmap(name), "default")

    def known(self) -> list[str]:
        """What the worker's cache has."""
        return [entry.key.name for entry in self.informers[-1].cache.entries()]

    def faults(self) -> list[str]:
        return [event.what for event in self.world.history.events if isinstance(event, FaultInjected)]

    async def exists(self, name: str) -> bool:
        return await self.world.store.get(f"core/configmaps/default/{name}") is not None


Writes = Callable[[Client], Awaitable[None]]


@asynccontextmanager
async def a_scene(
    sim: Simulation, writes: Writes | None = None, *, limits: Any = None, servers: int = 2, disk: bool = False
) -> AsyncIterator[Scene]:
    world = World(sim, disk=disk)
    for number in range(servers):
        world.add_server(f"server-{number}")
    clients: list[Client] = []
    informers: list[Informer] = []

    async def main(env: Env) -> None:
        async with world.client_for("worker", env, limits=limits) as client:
            clients.append(client)
            following = Informers(client, env)
            informers.append(following.get(CONFIG_MAPS, "default"))
            await following.synced()
            if writes is not None:
                await writes(client)
            await asyncio.Event().wait()

    world.add_program("worker", main)
    world.know("admin")
    await world.boot()
    await tasks.sleep(seconds(0.5))
    with sim.network.host("admin").active():
        async with world.client_for("admin", sim.env("admin")) as admin:
            yield Scene(sim, world, admin, clients, informers)


def run(sim: Simulation, scene: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await scene()

    with sim:
        sim.run(main(), limit=timedelta(hours=2))
