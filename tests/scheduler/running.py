"""A scheduler of ours against a real API server, both in the simulator."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from mainstay.api.kind_names import NODES, PODS
from mainstay.client.client import Client
from mainstay.env import tasks
from mainstay.journal.record import DecisionRecord
from mainstay.scheduler.component import Scheduler, SchedulerSettings
from mainstay.scheduler.cycle import Cycle
from mainstay.sim.simulation import Simulation
from tests.client.world import World, a_client, a_world
from tests.scheduler.objects import Object, a_node, a_pod

SHARED = SchedulerSettings(lease_name="")


@dataclass
class Running:
    world: World
    scheduler: Scheduler
    records: list[DecisionRecord] = field(default_factory=list)

    @property
    def client(self) -> Client:
        return self.world.client

    @property
    def cycle(self) -> Cycle:
        assert self.scheduler.cycle is not None
        return self.scheduler.cycle

    async def add_nodes(self, *names: str, **more: Any) -> None:
        for name in names:
            await self.client.create(NODES, created(a_node(name, **more)))
            # A new node is not ready, and tainted for it. No controller is there to remove the taint when it is.
            await self.client.patch(NODES, name, "", {"spec": {"taints": a_node(name, **more)["spec"]["taints"]}})
            await self.client.patch(NODES, name, "", {"status": a_node(name, **more)["status"]}, subresource="status")

    async def add_pod(self, name: str, **more: Any) -> Object:
        return await self.client.create(PODS, created(a_pod(name, **more)))

    async def pod(self, name: str) -> Object:
        return await self.client.get(PODS, name, "default")

    async def find_node(self, name: str) -> str:
        """Where a pod is; empty if it has no node."""
        return str((await self.pod(name))["spec"].get("nodeName", ""))

    async def bound(self, name: str, within: timedelta = timedelta(minutes=2)) -> str:
        """Wait until a pod has a node."""
        async with tasks.timeout(within):
            while not (node := await self.find_node(name)):
                await tasks.sleep(timedelta(milliseconds=10))
        return node

    async def until(self, is_so: Callable[[], bool], within: timedelta = timedelta(minutes=2)) -> None:
        async with tasks.timeout(within):
            while not is_so():
                await tasks.sleep(timedelta(milliseconds=10))


def created(obj: Object) -> Object:
    """As one creates it: the server says which uid it has. Every container needs an image."""
    metadata = {name: value for name, value in obj["metadata"].items() if name != "uid"}
    spec = dict(obj.get("spec") or {})
    if "containers" in spec:
        spec["containers"] = [{"image": "example.com/web:1", **each} for each in spec["containers"]]
        for each in spec["containers"]:
            if not each.get("ports"):
                each.pop("ports", None)
    return {**obj, "apiVersion": "v1", "metadata": metadata, "spec": spec}


@asynccontextmanager
async def a_scheduler(
    sim: Simulation, *, settings: SchedulerSettings = SHARED, server: str = "", starts: bool = True
) -> AsyncIterator[Running]:
    """One server, one scheduler. With `server` the scheduler talks to that host instead, a gate perhaps."""
    async with a_world(sim) as world:
        client = a_client(sim, server or "server", name="scheduler", user_agent="scheduler/test")
        async with client:
            records: list[DecisionRecord] = []
            scheduler = Scheduler(client, sim.env("scheduler"), settings=settings, recorder=records.append)
            running = Running(world, scheduler, records)
            task: asyncio.Task[None] | None = None
            if starts:
                task = tasks.spawn(scheduler.run(), name="scheduler")
                await running.until(lambda: scheduler.is_deciding)
            try:
                yield running
            finally:
                if task is not None:
                    await tasks.stop(task)


async def conditions(running: Running, name: str) -> dict[str, Object]:
    pod = await running.pod(name)
    return {each["type"]: each for each in (pod.get("status") or {}).get("conditions") or ()}
