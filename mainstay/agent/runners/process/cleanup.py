"""Remove everything that an agent has left on its machine: for a node that leaves its cluster, or has left it.

Containers are ended, then goes what is of pods: directories, mounts, cgroups, network links and routes. Credentials and
records of the agent are removed by `remove_files`, which comes last: until then it may be tried again.
"""

import os
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import IPv4Network
from pathlib import Path
from typing import Final

from mainstay.agent.runners.process import cgroups
from mainstay.agent.runners.process.beneath import remove_tree
from mainstay.agent.runners.process.places import find_pods
from mainstay.agent.runners.process.pod_network import SUBNET_FILE, RoutedNetwork
from mainstay.agent.runners.process.runner import ProcessRunner
from mainstay.agent.runners.process.shutdown import stop_everything
from mainstay.env import tasks

GRACE: Final = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class CleanupResult:
    ended: int
    """Containers that still ran."""
    pods: int
    """Pods whose files were removed."""
    left: tuple[str, ...]
    """What could not be removed, in words."""


async def clean_machine(directory: Path, grace: timedelta = GRACE) -> CleanupResult:
    """Everything but the agent's own files. Raises `CannotRun` if an agent runs in this directory."""
    stopped = await stop_everything(directory, grace)
    left = [f"container {each.name} of pod {each.pod_uid} does not end" for each in stopped.left]
    network = _find_network(directory)
    count = 0
    if (directory / "pods").is_dir() and not left:
        runner = ProcessRunner(directory, None, network)
        await runner.start()
        try:
            uids = list(runner.pods())
            for uid in uids:
                await runner.forget(uid)
            count = len(uids)
        finally:
            await runner.stop()
    worker = tasks.Worker("cleanup")
    try:
        if network is not None:
            await worker.run(network.remove_all)
        await worker.run(_clean_cgroups, directory)
        left += await worker.run(_find_leftovers, directory)
    finally:
        worker.close()
    return CleanupResult(stopped.count, count, tuple(left))


def remove_files(directory: Path, keep: str) -> list[str]:
    """Remove what is in the directory, but for one file. Returns what is still there. Blocks."""
    pods = find_pods(directory)
    remove_tree(str(pods))
    return [str(each) for each in sorted(directory.iterdir()) if each.name != keep and not remove_tree(str(each))]


def _find_network(directory: Path) -> RoutedNetwork | None:
    try:
        subnet = IPv4Network((directory / SUBNET_FILE).read_text().strip())
    except (FileNotFoundError, ValueError):
        return None
    return RoutedNetwork(directory, subnet)


def _clean_cgroups(directory: Path) -> None:
    cgroups.find(directory).clean()


def _find_leftovers(directory: Path) -> list[str]:
    """What is still mounted below the directory."""
    pods = os.fsencode(find_pods(directory).resolve())
    with open("/proc/self/mountinfo", "rb") as mounts:
        places = [line.split(b" ")[4] for line in mounts]
    return [f"{os.fsdecode(place)} is mounted" for place in places if place.startswith(pods + b"/")]
