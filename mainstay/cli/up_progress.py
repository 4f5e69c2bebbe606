"""Telling how far a cluster has come while it starts, and how to use it then."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import click

from mainstay.cli import cluster as shape
from mainstay.cli.cluster import SERVER, Cluster
from mainstay.env import Clock, Disk, Env, commands, tasks
from mainstay.supervisor import records

LOOK_EVERY: Final = timedelta(milliseconds=50)


@dataclass(slots=True)
class Progress:
    """What is told while a cluster starts."""

    clock: Clock
    began_ns: int
    told: set[str] = field(default_factory=set)

    def taken(self) -> str:
        return f"{(self.clock.monotonic_ns() - self.began_ns) / 1e9:.1f} s"

    def once(self, name: str, text: str) -> None:
        if name not in self.told:
            self.told.add(name)
            say(f"  {mark('✓', 'green')} {name:<14}{text:<42}{self.taken()}")


async def wait_until_ready(cluster: Cluster, env: Env, runs: Disk, progress: Progress, patience: timedelta) -> bool:
    """Tell what is ready, as it becomes so. Returns whether all of it is."""
    try:
        async with tasks.timeout(patience):
            await _tell_until_ready(cluster, env, runs, progress)
    except TimeoutError:
        return False
    return True


async def _tell_until_ready(cluster: Cluster, env: Env, runs: Disk, progress: Progress) -> None:
    from mainstay.cli.readiness import are_up, asking, nodes_of

    wanted = [node.name for node in cluster.nodes()]
    zones = {node.name: node.zone for node in cluster.nodes()}
    while True:
        async with asking(cluster.kubeconfig, cluster.url, env) as client:
            nodes = None if client is None else await nodes_of(client)
            while client is not None and nodes is not None:
                running = _running(runs)
                if SERVER in running:
                    progress.once(SERVER, f"process {running[SERVER].pid}, {cluster.url}")
                for name in cluster.deciders():
                    if name in running:
                        progress.once(name, f"process {running[name].pid}")
                since = {name: record.since for name, record in running.items()}
                ready = are_up(wanted, nodes, since)
                for name in ready:
                    progress.once(name, f"process {running[name].pid}, {zones[name]}, Ready")
                if len(ready) == len(wanted) and {each.name for each in cluster.components()} <= running.keys():
                    return
                await tasks.sleep(LOOK_EVERY)
                nodes = await nodes_of(client)
        await tasks.sleep(LOOK_EVERY)


def _running(runs: Disk) -> Mapping[str, records.Record]:
    return {name: record for name, record in records.read_all(runs).items() if commands.is_alive(record.identity)}


def show_use(cluster: Cluster, *, is_detached: bool) -> None:
    """How to go on from here."""
    option = "" if cluster.data_dir == shape.default_data_dir() else f" --data-dir {cluster.data_dir}"
    lines = [
        f"  export KUBECONFIG={cluster.kubeconfig}",
        "  kubectl get nodes                 without kubectl: mainstay get nodes",
        f"  mainstay status{option}",
        f"  tail -f {cluster.logs}/*.log",
        f"`mainstay down{option}` stops it." if is_detached else "Ctrl-C stops everything, workloads too.",
    ]
    say("\n".join(lines))


def say(text: str, *, err: bool = False) -> None:
    """To whoever watches. If nobody does any more, that is no reason to leave a cluster alone."""
    with contextlib.suppress(OSError):
        click.echo(text, err=err)


def nodes_text(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def mark(text: str, colour: str) -> str:
    # Colours only on a terminal: click takes them out elsewhere.
    return click.style(text, fg=colour)
