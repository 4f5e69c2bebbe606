"""A whole cluster on one machine: how soon is it up, and what do a thousand nodes cost?

Started as users start it: `mainstay up` with three nodes that run real processes; then a server, a scheduler and one
agent that pretends to be a thousand nodes, as processes of their own, durable, with TLS and journal on. Pods are
created by this process, which then only counts those that are ready on a watch. Nothing is random but what the
components draw themselves, so there is no seed.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from bench._api_server import ApiServer
from bench._scheduler_cluster import SchedulerProcess, bench_client, each, pod
from bench.measure import Figure, main, rounds
from mainstay.api.kind_names import NODES, PODS
from mainstay.client.client import Client
from mainstay.env import tasks

WITHIN_S: Final = 300
HEARTBEATS_OVER_S: Final = 30


def measure(quick: bool) -> Iterable[Figure]:
    spread = rounds(_up, 1 if quick else 5)
    yield Figure("cluster: `mainstay up` to 3 nodes ready", spread.median, "s", None, "≤ 5")
    yield from _thousand(*(50, 300) if quick else (1_000, 10_000))


def _up() -> float:
    with TemporaryDirectory(prefix="bench-up-") as directory:
        command = [sys.executable, "-m", "mainstay.cli.main"]
        place = f"--data-dir={directory}/data"
        start = time.perf_counter()
        subprocess.run([*command, "up", place, "--nodes=3", "--detach"], check=True, stdout=subprocess.DEVNULL)
        took = time.perf_counter() - start
        try:
            shown = subprocess.run([*command, "status", place, "-o", "json"], check=True, stdout=subprocess.PIPE)
            nodes = json.loads(shown.stdout)["nodes"]
            if len(nodes) != 3 or not all(node["ready"] for node in nodes):
                raise AssertionError(f"`mainstay up` has returned, and not all nodes are ready: {nodes}")
        finally:
            subprocess.run([*command, "down", place], check=True, stdout=subprocess.DEVNULL)
        return took


class Agents(ApiServer):
    """One process that pretends to be many nodes. What it costs is measured as a server's."""

    def __init__(self, kubeconfig: Path, directory: Path, count: int) -> None:
        self._command = [sys.executable, "-m", "mainstay.cli.main", "agent", "--runner=pretend", f"--count={count}"]
        self._command += ["--name=node", f"--kubeconfig={kubeconfig}", f"--data-dir={directory}", "--start-delay=1s"]

    def __enter__(self) -> "Agents":
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        return self


def _thousand(nodes: int, pods: int) -> Iterator[Figure]:
    name = f"cluster: {nodes:,} pretend nodes"
    with TemporaryDirectory(prefix="bench-cluster-") as text:
        directory = Path(text)
        with (
            ApiServer(directory / "server") as server,
            SchedulerProcess(server.kubeconfig, directory / "scheduler") as scheduler,
            Agents(server.kubeconfig, directory / "agents", nodes) as agents,
        ):
            start = time.perf_counter()
            tasks.run(_until_nodes_ready(server, directory, nodes))
            yield Figure(f"{name}: all ready", time.perf_counter() - start, "s")
            seconds = 5 if nodes < 1_000 else HEARTBEATS_OVER_S
            before = server.cpu_s()
            time.sleep(seconds)
            goal = "≤ 0.15" if nodes == 1_000 else ""
            yield Figure(
                f"{name}: their heartbeats, in the server", (server.cpu_s() - before) / seconds, "cores", None, goal
            )
            took = tasks.run(_until_pods_ready(server, directory, pods))
            yield Figure(
                f"{name}: {pods:,} pods created → all ready", took, "s", None, "≤ 60" if nodes == 1_000 else ""
            )
            yield Figure(f"{name}: memory of the agents", agents.memory_mb(), "MB")
            yield Figure(f"{name}: memory of the server", server.memory_mb(), "MB")
            yield Figure(f"{name}: memory of the scheduler", scheduler.memory_mb(), "MB")


async def _until_nodes_ready(server: ApiServer, directory: Path, count: int) -> None:
    async with bench_client(server, directory) as client, asyncio.timeout(WITHIN_S):
        while True:
            found = await client.list(NODES)
            if sum(map(_is_ready, found.items)) >= count:
                return
            await asyncio.sleep(0.2)


def _is_ready(obj: Any) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


async def _until_pods_ready(server: ApiServer, directory: Path, count: int) -> float:
    """Create them, and count on a watch how many are ready. From the first create to the last that is ready."""
    async with bench_client(server, directory) as client, asyncio.timeout(WITHIN_S):
        version = (await client.list(PODS, "default", limit=1)).revision
        async with client.watch(PODS, "default", resource_version=version) as watch:
            start = time.perf_counter()
            creating = tasks.spawn(_create(client, count), name="create pods")
            ready: set[str] = set()
            while len(ready) < count:
                for event in await watch.fetch(1000):
                    changed = json.loads(event.object)
                    if _is_ready(changed):
                        ready.add(changed["metadata"]["name"])
            took = time.perf_counter() - start
            await creating
            return took


async def _create(client: Client, count: int) -> None:
    await each(count, lambda number: client.create(PODS, pod(number), "default"))


if __name__ == "__main__":
    main(measure)
