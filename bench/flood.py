"""Floods: do leases, leaders and administrators get through?

`mainstay up` as users start it, with three nodes, durable, with TLS. Another process floods the API server over 200
greedy connections: lists of 20,000 ConfigMaps of 1 KB, watches that begin with these, creates, YAML bodies of 1 MB,
reviews (which every user may ask for) in YAML, connections that say nothing. Each is done by a user with rights and by
one without. Meanwhile this process, as the administrator, gets an object ten times a second over one connection, and
watches the leases of nodes and components.

A gap is the time between two renewals of a node's lease, as a watch tells of them; a node renews every 10 s. The floods
and this process share the machine with the cluster, so that figures are those of a busy one.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from bench._flood_load import KILOBYTE, NAMESPACE
from bench._scheduler_cluster import each
from bench.measure import Figure, main
from mainstay.api.kind_names import CLUSTER_ROLE_BINDINGS, CONFIG_MAPS, LEASES, NAMESPACES, SERVICE_ACCOUNTS
from mainstay.client.client import Client
from mainstay.client.config import from_kubeconfig_file
from mainstay.env import Chance, Env, SystemClock, SystemDisk, tasks

GET_EVERY_S: Final = 0.1
FLOODS: Final = ("lists", "watches", "creates", "YAML", "YAML reviews", "bare TCP")


@dataclass(slots=True)
class Seen:
    """What the administrator sees during one flood."""

    gets_s: list[float] = field(default_factory=list)
    renewed: dict[str, float] = field(default_factory=dict)
    gap_s: float = 0.0
    holders: dict[str, str] = field(default_factory=dict)
    leader_changes: int = 0

    def take_lease(self, lease: Any) -> None:
        metadata, spec, now = lease["metadata"], lease.get("spec") or {}, time.monotonic()
        name = metadata["name"]
        if metadata["namespace"] == "kube-node-lease":
            if name in self.renewed:
                self.gap_s = max(self.gap_s, now - self.renewed[name])
            self.renewed[name] = now
        else:
            holder = spec.get("holderIdentity") or ""
            if self.holders.setdefault(name, holder) != holder:
                self.leader_changes += 1
            self.holders[name] = holder

    def end(self) -> None:
        """What was not renewed until now counts as well."""
        now = time.monotonic()
        self.gap_s = max(self.gap_s, *(now - at for at in self.renewed.values()), 0.0)


def measure(quick: bool) -> Iterable[Figure]:
    objects, connections, seconds = (500, 40, 1) if quick else (20_000, 200, 40)
    with TemporaryDirectory(prefix="bench-flood-") as directory:
        command, place = [sys.executable, "-m", "mainstay.cli.main"], f"--data-dir={directory}/data"
        up = [*command, "up", place, "--nodes=3", "--port=0", "--detach", "--wait=180s"]
        subprocess.run(up, check=True, stdout=subprocess.DEVNULL)
        try:
            yield from tasks.run(_measure(Path(directory), objects, connections, seconds))
        finally:
            subprocess.run([*command, "down", place], check=True, stdout=subprocess.DEVNULL)


async def _measure(directory: Path, objects: int, connections: int, seconds: int) -> list[Figure]:
    kubeconfig = directory / "data" / "kubeconfig"
    figures: list[Figure] = []
    async with _client(kubeconfig, directory) as client:
        tokens = await _prepare(client, objects)
        command = [sys.executable, "-m", "bench._flood_load", str(kubeconfig), str(connections)]
        load = await asyncio.create_subprocess_exec(
            *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, limit=1 << 20
        )
        assert load.stdin is not None
        assert load.stdout is not None
        await load.stdout.readline()
        for flood in FLOODS:
            for user, token in tokens.items() if flood != "bare TCP" else (("no user", ""),):
                seen = Seen()
                watching = tasks.spawn(_watch_leases(client, seen), name="watch leases")
                asking = tasks.spawn(_ask_often(client, seen), name="ask")
                load.stdin.write(json.dumps({"flood": flood, "token": token, "seconds": seconds}).encode() + b"\n")
                answers = json.loads(await load.stdout.readline())
                await tasks.stop(asking)
                await tasks.stop(watching)
                seen.end()
                name = f"flood: {connections} × {flood}, {user}"
                print(f"# {name}: {answers}, load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
                figures += _figures(name, seen)
        load.stdin.close()
        await load.wait()
    return figures


def _figures(name: str, seen: Seen) -> Iterable[Figure]:
    gets = sorted(seen.gets_s)
    yield Figure(f"{name}: longest gap between renewals of a node's lease", seen.gap_s, "s", None, "≤ 12")
    yield Figure(f"{name}: leader changes", seen.leader_changes, "", None, "≤ 0")
    yield Figure(f"{name}: administrator's GET, p50", statistics.median(gets) * 1000, "ms")
    yield Figure(f"{name}: administrator's GET, p99", gets[int(len(gets) * 0.99)] * 1000, "ms", None, "≤ 1000")
    yield Figure(f"{name}: administrator's GET, max", gets[-1] * 1000, "ms")


async def _ask_often(client: Client, seen: Seen) -> None:
    while True:
        start = time.monotonic()
        try:
            await client.get(CONFIG_MAPS, "item-0", NAMESPACE)
        finally:
            took_s = waited_s = time.monotonic() - start
            # What would have been asked meanwhile would have waited as well.
            while waited_s > 0:
                seen.gets_s.append(waited_s)
                waited_s -= GET_EVERY_S
        await asyncio.sleep(max(0.0, GET_EVERY_S - took_s))


async def _watch_leases(client: Client, seen: Seen) -> None:
    listed = await client.list(LEASES)
    for lease in listed.items:
        if lease["metadata"]["namespace"] != "kube-node-lease":
            seen.take_lease(lease)
    async with client.watch(LEASES, resource_version=listed.revision) as watch:
        while True:
            for event in await watch.fetch(100):
                lease = json.loads(event.object)
                if "name" in lease["metadata"]:  # Not a bookmark.
                    seen.take_lease(lease)


async def _prepare(client: Client, objects: int) -> dict[str, str]:
    """Make what is listed, and two users. Returns their tokens."""
    for name in (NAMESPACE, f"{NAMESPACE}-made"):
        await client.create(NAMESPACES, {"metadata": {"name": name}})
    data = {"a": KILOBYTE}
    await each(
        objects,
        lambda number: client.create(CONFIG_MAPS, {"metadata": {"name": f"item-{number}"}, "data": data}, NAMESPACE),
    )
    tokens: dict[str, str] = {}
    for user in ("with rights", "without rights"):
        name = user.replace(" ", "-")
        await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": name}}, NAMESPACE)
        request = {"metadata": {"name": name}, "spec": {"expirationSeconds": 7200}}
        made = await client.create(SERVICE_ACCOUNTS, request, NAMESPACE, subresource="token")
        tokens[user] = made["status"]["token"]
    binding = {
        "metadata": {"name": "flood"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "with-rights", "namespace": NAMESPACE}],
    }
    await client.create(CLUSTER_ROLE_BINDINGS, binding)
    return tokens


@asynccontextmanager
async def _client(kubeconfig: Path, directory: Path) -> AsyncIterator[Client]:
    env = Env(SystemClock(), Chance.fresh(), SystemDisk(directory / "client"))
    async with Client(from_kubeconfig_file(kubeconfig), env) as client:
        yield client


if __name__ == "__main__":
    main(measure)
