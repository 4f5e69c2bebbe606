"""Print the progress of a starting cluster, and how to use it."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import click

from mainstay.cli.cluster import SERVER, LocalCluster
from mainstay.cli.data_dir import default_data_dir
from mainstay.env import Clock, Disk, Env, commands, tasks
from mainstay.supervisor import records

LOOK_EVERY: Final = timedelta(milliseconds=50)


@dataclass(slots=True)
class StartProgress:
    """The progress of a starting cluster."""

    clock: Clock
    began_ns: int
    shown: set[str] = field(default_factory=set)

    def elapsed(self) -> str:
        return f"{(self.clock.monotonic_ns() - self.began_ns) / 1e9:.1f} s"

    def show_once(self, name: str, text: str) -> None:
        if name not in self.shown:
            self.shown.add(name)
            say(f"  {mark('✓', 'green')} {name:<14}{text:<42}{self.elapsed()}")


async def wait_until_ready(
    cluster: LocalCluster, env: Env, runs: Disk, progress: StartProgress, patience: timedelta
) -> bool:
    """Print each component as it becomes ready. Returns whether all of them are."""
    try:
        async with tasks.timeout(patience):
            await _show_until_ready(cluster, env, runs, progress)
    except TimeoutError:
        return False
    return True


async def _show_until_ready(cluster: LocalCluster, env: Env, runs: Disk, progress: StartProgress) -> None:
    from mainstay.cli.readiness import connect, find_ready, read_nodes

    wanted = [node.name for node in cluster.nodes()]
    zones = {node.name: node.zone for node in cluster.nodes()}
    while True:
        async with connect(cluster.kubeconfig, cluster.url, env) as client:
            nodes = None if client is None else await read_nodes(client)
            while client is not None and nodes is not None:
                running = _running(runs)
                if SERVER in running:
                    progress.show_once(SERVER, f"process {running[SERVER].pid}, {cluster.url}")
                for name in cluster.deciders():
                    if name in running:
                        progress.show_once(name, f"process {running[name].pid}")
                since = {name: record.since for name, record in running.items()}
                ready = find_ready(wanted, nodes, since)
                for name in ready:
                    progress.show_once(name, f"process {running[name].pid}, {zones[name]}, Ready")
                if len(ready) == len(wanted) and {each.name for each in cluster.components()} <= running.keys():
                    return
                await tasks.sleep(LOOK_EVERY)
                nodes = await read_nodes(client)
        await tasks.sleep(LOOK_EVERY)


def _running(runs: Disk) -> Mapping[str, records.ProcessRecord]:
    return {name: record for name, record in records.read_all(runs).items() if commands.is_alive(record.identity)}


def show_use(cluster: LocalCluster, *, is_detached: bool) -> None:
    """Print how to use the cluster."""
    option = "" if cluster.data_dir == default_data_dir() else f" --data-dir {cluster.data_dir}"
    lines = [
        f"  export KUBECONFIG={cluster.kubeconfig}",
        "  kubectl get nodes                 or, without kubectl: mainstay get nodes",
        f"  mainstay status{option}",
        f"  tail -f {cluster.logs}/*.log",
        f"`mainstay down{option}` stops it." if is_detached else "Press Ctrl-C to stop the cluster and its workloads.",
    ]
    say("\n".join(lines))


def say(text: str, *, err: bool = False) -> None:
    """Print a line. A closed terminal is no reason to abandon the cluster."""
    with contextlib.suppress(OSError):
        click.echo(text, err=err)


def mark(text: str, colour: str) -> str:
    # Colours only on a terminal: click takes them out elsewhere.
    return click.style(text, fg=colour)
