"""Stopping a cluster on this machine: in order, workloads included.

First whoever decides, then the agents, which would otherwise start workloads again; then what the agents left running;
last the server, so that everybody could still say a last word. Objects stay as they are stored: with the next `mainstay
up` the same pods run again.
"""

import asyncio
import logging
from datetime import timedelta
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mainstay.cli.cluster import Cluster, Turn
from mainstay.env import tasks
from mainstay.env.disk import directories_in
from mainstay.supervisor.supervisor import Supervisor

if TYPE_CHECKING:
    from mainstay.agent.runners.process.shutdown import Stopped

LEFT_OVER: Final = "all is stopped, but for some workloads: see above"
WORKLOAD_GRACE: Final = timedelta(seconds=10)
_LOOK_EVERY: Final = timedelta(seconds=1)

_log = logging.getLogger(__name__)


class WorkloadsEnd(Enum):
    """What became of the workloads of a node."""

    NONE = auto()
    """There were none."""
    ENDED = auto()
    LEFT = auto()
    """Some still run."""


async def stop_cluster(cluster: Cluster, supervisor: Supervisor, hurried: asyncio.Event) -> bool:
    """Returns when nothing of it runs any more; or False if some workloads do not end, which was said then. `hurried`:
    do not wait for anything to end by itself."""
    await supervisor.stop(Turn.NODES)
    ends: list[WorkloadsEnd] = []
    try:
        names = directories_in(cluster.data_dir / "nodes")
        works = [_end_those_of(cluster, name, hurried, ends) for name in names]
        await tasks.together(works, name="end workloads")
    finally:
        await supervisor.stop(Turn.SERVER)
    return WorkloadsEnd.LEFT not in ends


async def _end_those_of(cluster: Cluster, node: str, hurried: asyncio.Event, ends: list[WorkloadsEnd]) -> None:
    ends.append(await end_workloads_of(cluster, node, hurried))


async def end_workloads_of(cluster: Cluster, node: str, hurried: asyncio.Event) -> WorkloadsEnd:
    """End what an agent has left running that does not run itself any more. If something is left, it is said what."""
    # Only here: one who stops nothing does without.
    from mainstay.agent.runner import CannotRun

    try:
        first, last = await _end_all(cluster.directory_of(node), hurried)
    except CannotRun as error:
        # There is an agent that nobody here knows of. It looks after them.
        _log.warning("the workloads of %s are not ended: %s", node, error)
        return WorkloadsEnd.LEFT
    for container in last.left:
        _log.warning("%s of pod %s does not end, although it was killed", container.name, container.pod_uid)
    if last.left:
        return WorkloadsEnd.LEFT
    return WorkloadsEnd.ENDED if first.count else WorkloadsEnd.NONE


async def _end_all(directory: Path, hurried: asyncio.Event) -> tuple["Stopped", "Stopped"]:
    """What was found at first, and what is left in the end."""
    from mainstay.agent.runners.process.shutdown import stop_everything

    first, grace = None, WORKLOAD_GRACE
    # Never cancelled, because that could leave the directory locked: it is looked at in between whether it is urgent.
    while grace > timedelta(0) and not hurried.is_set():
        stopped = await stop_everything(directory, grace, at_most=_LOOK_EVERY - grace)
        first = first or stopped
        if not stopped.left:
            return first, stopped
        grace -= _LOOK_EVERY
    stopped = await stop_everything(directory, timedelta(0))
    return first or stopped, stopped
