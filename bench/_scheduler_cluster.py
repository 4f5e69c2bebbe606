"""A whole cluster on one machine: an API server and a scheduler as processes of their own, as users start them.

    python -m bench._scheduler_cluster [--quick]

The server has its durable store, TLS and journal, the scheduler its journal. Nodes and pods are made by this process,
which then only looks at the scheduler's metrics now and then, so that two cores are left to the two. Bindings are
counted from the first look that shows some to the look that shows all (from the look before that, should all of them be
bound between two looks of a busy machine); what they cost is asked of the operating system. The
nodes' agents are not there: no pod is reported as running.
"""

import asyncio
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from bench._api_server import ApiServer
from bench.measure import Figure, main
from mainstay.api.kind_names import NODES, PODS
from mainstay.client.client import Client
from mainstay.client.config import from_kubeconfig_file
from mainstay.env import Chance, Env, SystemClock, SystemDisk, tasks

_LOOK_EVERY_S: Final = 0.1
_WITHIN_S: Final = 300
_AT_ONCE: Final = 32
_SCHEDULED: Final = re.compile(rb'scheduler_schedule_attempts_total\{[^}]*result="scheduled"\} (\d+)')


class SchedulerProcess(ApiServer):
    """A scheduler, for the time of a `with` block. What it costs is measured as a server's."""

    def __init__(self, kubeconfig: Path, directory: Path, *options: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self._command = [sys.executable, "-m", "mainstay.cli.main", "scheduler", "--kubeconfig", str(kubeconfig)]
        self._command += ["--data-dir", str(directory), "--share", "--metrics", f"127.0.0.1:{self._port}", *options]

    def __enter__(self) -> "SchedulerProcess":
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        return self

    def bound(self) -> int:
        """How many pods it has bound so far. 0 as long as it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=10) as page:
                found = _SCHEDULED.search(page.read())
        except OSError:
            return 0
        return int(found[1]) if found else 0

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/readyz", timeout=10):
                return True
        except OSError:
            return False


def measure(quick: bool) -> Iterable[Figure]:
    for nodes, pods in ((1_000, 2_000 if quick else 20_000), (5_000, 2_000 if quick else 20_000)):
        if quick and nodes > 1_000:
            break
        yield from _beforehand(nodes, pods)
    yield from _in_one_go(200 if quick else 1_000, 1_000 if quick else 10_000)
    yield from _one_by_one(200 if quick else 1_000, 30 if quick else 300)
    if not quick:
        yield _memory(5_000, 50_000)


@contextmanager
def _cluster(nodes: int, pods: int) -> Iterator[tuple[ApiServer, Path]]:
    """A server with nodes, and pods without any."""
    with TemporaryDirectory(prefix="bench-scheduler-") as text:
        directory = Path(text)
        with ApiServer(directory / "server") as server:
            tasks.run(fill(server, directory, nodes, pods))
            yield server, directory


def _beforehand(nodes: int, pods: int) -> Iterator[Figure]:
    with _cluster(nodes, pods) as (server, directory):
        yield from _bind_all(server, directory, pods, f"cluster: {pods:,} pods made beforehand, {nodes:,} nodes")


def _bind_all(server: ApiServer, directory: Path, pods: int, name: str) -> Iterator[Figure]:
    with SchedulerProcess(server.kubeconfig, directory / "scheduler") as scheduler:
        cost = cost_of_binding(server, scheduler, pods)
        yield Figure(f"{name}: bound", cost.per_s, "/s", cost.scheduler_us, "≥ 3000")
        yield Figure(f"{name}: of the scheduler's CPU for each", cost.scheduler_us, "µs", None, "≤ 250")
        yield Figure(f"{name}: of the server's CPU for each", cost.server_us, "µs")


def _in_one_go(nodes: int, pods: int) -> Iterator[Figure]:
    with (
        _cluster(nodes, 0) as (server, directory),
        SchedulerProcess(server.kubeconfig, directory / "scheduler") as scheduler,
    ):
        _wait_until_ready(scheduler)
        start = time.perf_counter()
        tasks.run(_create_pods(server, directory, pods))
        _look_until(scheduler, pods)
        wall_s = time.perf_counter() - start
        yield Figure(f"cluster: {pods:,} pods created and bound in one go", pods / wall_s, "/s", None, "≥ 1500")


def _one_by_one(nodes: int, pods: int) -> Iterator[Figure]:
    with (
        _cluster(nodes, 0) as (server, directory),
        SchedulerProcess(server.kubeconfig, directory / "scheduler") as scheduler,
    ):
        _wait_until_ready(scheduler)
        times = sorted(tasks.run(_time_each(server, directory, pods)))
        for share, goal in ((0.5, "≤ 6"), (0.99, "≤ 15")):
            value = times[min(int(share * len(times)), len(times) - 1)]
            name = f"cluster: one pod in a quiet cluster, create → bound, p{round(share * 100)}"
            yield Figure(name, value * 1e3, "ms", None, goal)


def _memory(nodes: int, pods: int) -> Figure:
    with (
        _cluster(nodes, pods) as (server, directory),
        SchedulerProcess(server.kubeconfig, directory / "scheduler") as scheduler,
    ):
        _look_until(scheduler, pods)
        time.sleep(2)
        return Figure(
            f"cluster: memory with {nodes:,} nodes, {pods:,} pods", scheduler.memory_mb(), "MB", None, "≤ 400"
        )


@dataclass(frozen=True, slots=True)
class CostOfBinding:
    per_s: float
    server_us: float
    """CPU time for each."""
    scheduler_us: float


@dataclass(frozen=True, slots=True)
class _Look:
    bound: int
    at: float
    server_s: float
    scheduler_s: float


def cost_of_binding(
    server: ApiServer, scheduler: SchedulerProcess, pods: int, *, settle_s: float = 0.0
) -> CostOfBinding:
    """What the scheduler, started just now, needs for all of `pods`, and then for `settle_s` longer (CPU only)."""

    def look() -> _Look:
        return _Look(scheduler.bound(), time.perf_counter(), server.cpu_s(), scheduler.cpu_s())

    before = first = look()
    began = first.at
    while not first.bound:
        if first.at > began + _WITHIN_S:
            raise AssertionError(f"no pod is bound after {_WITHIN_S} s")
        time.sleep(_LOOK_EVERY_S)
        before, first = first, look()
    start = first if first.bound < pods else before
    _look_until(scheduler, pods)
    wall_s, done = time.perf_counter() - start.at, pods - start.bound
    time.sleep(settle_s)
    end = look()
    return CostOfBinding(
        per_s=done / wall_s,
        server_us=(end.server_s - start.server_s) / done * 1e6,
        scheduler_us=(end.scheduler_s - start.scheduler_s) / done * 1e6,
    )


def _look_until(scheduler: SchedulerProcess, wanted: int) -> None:
    end = time.perf_counter() + _WITHIN_S
    while (found := scheduler.bound()) < wanted:
        if time.perf_counter() > end:
            raise AssertionError(f"{found} of {wanted} pods are bound after {_WITHIN_S} s")
        time.sleep(_LOOK_EVERY_S)


def _wait_until_ready(scheduler: SchedulerProcess) -> None:
    end = time.perf_counter() + _WITHIN_S
    while not scheduler.is_ready():
        if time.perf_counter() > end:
            raise AssertionError("the scheduler does not get ready")
        time.sleep(_LOOK_EVERY_S)
    time.sleep(1)


# What is in the cluster.


def bench_client(server: ApiServer, directory: Path) -> Client:
    env = Env(SystemClock(), Chance(b"7"), SystemDisk(directory / "bench"))
    return Client(from_kubeconfig_file(server.kubeconfig), env, user_agent="bench")


async def fill(server: ApiServer, directory: Path, nodes: int, pods: int) -> None:
    async with bench_client(server, directory) as client:
        await each(nodes, lambda number: _add_node(client, number))
        await each(pods, lambda number: client.create(PODS, pod(number), "default"))


async def _create_pods(server: ApiServer, directory: Path, pods: int) -> None:
    async with bench_client(server, directory) as client:
        await each(pods, lambda number: client.create(PODS, pod(number), "default"))


async def each(count: int, make: Any) -> None:
    async def worker(first: int) -> None:
        for number in range(first, count, _AT_ONCE):
            await make(number)

    await asyncio.gather(*[worker(first) for first in range(_AT_ONCE)])


async def _time_each(server: ApiServer, directory: Path, pods: int) -> list[float]:
    """Create one after the other, and see on a watch when each is bound."""
    found: list[float] = []
    async with bench_client(server, directory) as client:
        version = (await client.list(PODS, "default", limit=1)).revision
        async with client.watch(PODS, "default", resource_version=version) as watch:
            for number in range(pods):
                start = time.perf_counter()
                await client.create(PODS, pod(number), "default")
                wanted = f'"name":"web-{number}"'.encode()
                is_bound = False
                while not is_bound:
                    for event in await watch.fetch(100):
                        is_bound = is_bound or (wanted in event.object and b'"nodeName"' in event.object)
                found.append(time.perf_counter() - start)
                await asyncio.sleep(0.02)
    return found


async def _add_node(client: Client, number: int) -> None:
    name = f"node-{number:05d}"
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % 3}"}
    status = {"cpu": "32", "memory": "128Gi", "ephemeral-storage": "500Gi", "pods": "110"}
    node: dict[str, Any] = {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": status}}
    made = await client.create(NODES, node)
    if (made.get("spec") or {}).get("taints"):  # The server marks it as not ready, and no agent runs to correct that.
        made["spec"]["taints"] = []
        await client.replace(NODES, made)


def pod(number: int) -> dict[str, Any]:
    requests = {"cpu": "250m", "memory": "512Mi"}
    return {
        "metadata": {"name": f"web-{number}", "namespace": "default", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "example.com/web:1", "resources": {"requests": requests}}]},
    }


if __name__ == "__main__":
    main(measure)
