"""Stop a cluster on this machine: in order, workloads included.

First scheduler and controllers, then the agents, which would restart workloads; then the workloads; last the server, so
that all others can still write their last status. Objects stay stored: the next `mainstay up` runs the same pods.
"""

import asyncio
import logging
from datetime import timedelta
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mainstay.cli.cluster import LocalCluster, StopOrder
from mainstay.env import tasks
from mainstay.env.disk import directories_in
from mainstay.supervisor.supervisor import Supervisor

if TYPE_CHECKING:
    from mainstay.agent.runners.process.shutdown import ShutdownResult

STOPPED: Final = "Stopped. `mainstay up` continues with the stored objects."
LEFT_OVER: Final = "stopped, except for the workloads named above: end them by hand"
WORKLOAD_GRACE: Final = timedelta(seconds=10)
_LOOK_EVERY: Final = timedelta(seconds=1)

_log = logging.getLogger(__name__)


class WorkloadsEnd(Enum):
    """The result of stopping the workloads of a node."""

    NONE = auto()
    """It had none."""
    ENDED = auto()
    LEFT = auto()
    """Some still run."""


async def stop_cluster(cluster: LocalCluster, supervisor: Supervisor, hurried: asyncio.Event) -> bool:
    """Stop everything. Returns False if some workloads do not end, after a warning for each. `hurried`: kill without
    a grace period."""
    await supervisor.stop(StopOrder.NODES)
    ends: list[WorkloadsEnd] = []
    try:
        names = directories_in(cluster.data_dir / "nodes")

        async def stop_one(node: str) -> None:
            ends.append(await stop_workloads(cluster, node, hurried))

        await tasks.together([stop_one(name) for name in names], name="stop workloads")
    finally:
        await supervisor.stop(StopOrder.SERVER)
    return WorkloadsEnd.LEFT not in ends


async def stop_workloads(cluster: LocalCluster, node: str, hurried: asyncio.Event) -> WorkloadsEnd:
    """Stop the workloads of a node whose agent has stopped. Logs a warning for each that does not end."""
    from mainstay.agent.runner import CannotRun

    try:
        first, last = await _stop_all(cluster.component_directory(node), hurried)
    except CannotRun as error:
        # An agent runs that this cluster does not know. It manages them.
        _log.warning("the workloads of %s are not stopped: %s", node, error)
        return WorkloadsEnd.LEFT
    for container in last.left:
        _log.warning("container %s of pod %s was killed, but does not end", container.name, container.pod_uid)
    if last.left:
        return WorkloadsEnd.LEFT
    return WorkloadsEnd.ENDED if first.count else WorkloadsEnd.NONE


async def _stop_all(directory: Path, hurried: asyncio.Event) -> tuple["ShutdownResult", "ShutdownResult"]:
    """Returns what ran at first, and what is left in the end."""
    from mainstay.agent.runners.process.shutdown import stop_everything

    first, grace = None, WORKLOAD_GRACE
    # Never cancelled, because that could leave the directory locked. So check `hurried` in between.
    while grace > timedelta(0) and not hurried.is_set():
        stopped = await stop_everything(directory, grace, at_most=_LOOK_EVERY - grace)
        first = first or stopped
        if not stopped.left:
            return first, stopped
        grace -= _LOOK_EVERY
    stopped = await stop_everything(directory, timedelta(0))
    return first or stopped, stopped
