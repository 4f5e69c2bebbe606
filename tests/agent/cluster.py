"""A small simulated cluster with agents, and what tests ask of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from mainstay.agent.fleet import PretendSettings
from mainstay.agent.settings import AgentSettings
from mainstay.client.client import Client
from mainstay.env import tasks
from mainstay.sim.cluster.history import ContainerEnded, ContainerStarted, RequestReceived
from mainstay.sim.cluster.world import World
from mainstay.sim.simulation import Simulation


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def a_container(name: str = "c", **more: Any) -> dict[str, Any]:
    return {"name": name, "image": "x:1", "command": ["serve"], **more}


def a_pod(name: str, node: str = "node-0", *containers: dict[str, Any], **more: Any) -> dict[str, Any]:
    """`more` is for the spec, but for `metadata`."""
    metadata = {"name": name, **more.pop("metadata", {})}
    return {"metadata": metadata, "spec": {"nodeName": node, "containers": list(containers) or [a_container()], **more}}


def an_at_most_one(name: str, node: str = "node-0") -> dict[str, Any]:
    return a_pod(name, node, metadata={"annotations": {"mainstay.dev/at-most-one": "true"}})


@asynccontextmanager
async def a_cluster(
    sim: Simulation, *nodes: str, settings: PretendSettings | AgentSettings | None = None, servers: int = 1
) -> AsyncIterator[tuple[World, Client]]:
    world = World(sim)
    for number in range(servers):
        world.add_server(f"server-{number}")
    for node in nodes:
        world.add_node(node, settings)
    world.know("admin")
    await world.boot()
    await tasks.sleep(seconds(1))
    with sim.network.host("admin").active():
        async with world.client_for("admin", sim.env("admin")) as client:
            yield world, client


def an_agent(name: str = "node-0", **more: Any) -> AgentSettings:
    """Settings of an agent that does all that agents do."""
    return AgentSettings(name=name, **more)


def readiness(pod: dict[str, Any]) -> str:
    return next(str(each["status"]) for each in pod["status"]["conditions"] if each["type"] == "Ready")


def state_of(pod: dict[str, Any], container: str = "c") -> dict[str, Any]:
    statuses = [*pod["status"].get("initContainerStatuses", ()), *pod["status"].get("containerStatuses", ())]
    found: dict[str, Any] = next(each for each in statuses if each["name"] == container)
    return found


def begun(world: World) -> list[tuple[str, str, int]]:
    """Machine, pod and attempt of all containers that were begun, in order."""
    return [
        (each.machine, each.pod.partition("/")[2], each.attempt)
        for each in world.history.events
        if isinstance(each, ContainerStarted)
    ]


def ended(world: World) -> list[tuple[str, str, int, str]]:
    return [
        (each.machine, each.pod.partition("/")[2], each.attempt, each.reason)
        for each in world.history.events
        if isinstance(each, ContainerEnded)
    ]


def writes_of(world: World, who: str, part: str = "/pods/") -> list[str]:
    return [
        event.method
        for event in world.history.events
        if isinstance(event, RequestReceived) and event.who == who and part in event.path and event.is_write
    ]
