"""`mainstay down`: stop the cluster on this machine.

If its supervisor runs, ask it to stop and wait. If the supervisor was killed, do its work here, in the same way: find
the processes as `mainstay up` would.
"""

import asyncio
import contextlib
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import click

from mainstay.cli import cluster as shape
from mainstay.cli.cluster import LocalCluster
from mainstay.cli.cluster_stop import LEFT_OVER, STOPPED, stop_cluster
from mainstay.cli.data_dir import data_dir_option
from mainstay.cli.exits import Exit
from mainstay.cli.log_output import set_up_logs
from mainstay.env import SystemClock, SystemDisk, commands, disk, machine, signals, tasks
from mainstay.supervisor import records
from mainstay.supervisor.machine import SystemProcessHost
from mainstay.supervisor.supervisor import Supervised, Supervisor

_TRIES: Final = 3
# Longer than a supervisor needs that has to kill everything.
_PATIENCE: Final = timedelta(seconds=90)
_ASK_AGAIN_AFTER: Final = timedelta(milliseconds=250)
_ASKED_MAX: Final = 20
_TRY_AGAIN_AFTER: Final = timedelta(milliseconds=200)


@click.command()
@data_dir_option("Data directory")
@click.option("--now", is_flag=True, help="Kill processes without a grace period")
def down(data_dir: Path, now: bool) -> int:
    """Stop the cluster and its workloads.

    \b
        mainstay down
        mainstay down --now

    The objects stay stored, and the next `mainstay up` continues with them. To delete them, remove the data directory.
    Ctrl-C while waiting has the effect of --now.
    """
    set_up_logs("text", 0)
    machine.keep_files_private()
    if not disk.is_directory(data_dir / "run"):
        click.echo(f"mainstay: no cluster in {data_dir}")
        return Exit.SATISFIED
    return tasks.run(_down(data_dir, now))


async def _down(directory: Path, is_hurried: bool) -> int:
    stopping = signals.StopSignals()
    hurried = asyncio.Event()
    if is_hurried:
        hurried.set()
    hurrying = tasks.spawn(_hurry(stopping, hurried), name="hurry")
    try:
        for _ in range(_TRIES):
            await _stop_by_supervisor(directory, hurried)
            # The supervisor may have failed or been killed before it was done. Stop the rest here.
            match await _stop_here(directory, hurried):
                case True:
                    click.echo(STOPPED)
                    return Exit.SATISFIED
                case False:
                    raise click.ClickException(LEFT_OVER)
            # A new supervisor has started in between.
            await tasks.sleep(_TRY_AGAIN_AFTER)
    finally:
        await tasks.stop(hurrying)
        stopping.close()
    raise click.ClickException(f"another program keeps starting the cluster in {directory}: stop it first")


async def _hurry(stopping: signals.StopSignals, hurried: asyncio.Event) -> None:
    await stopping.first()
    hurried.set()


async def _stop_by_supervisor(directory: Path, hurried: asyncio.Event) -> None:
    """Ask the supervisor, if there is one, and wait until it has ended."""
    runs = SystemDisk(directory / "run")
    found = records.read(runs, records.SUPERVISOR)
    if found is None or not commands.send(found.identity, signal.SIGTERM):
        return
    click.echo(f"Stopping the cluster of process {found.pid}. Press Ctrl-C to force")
    gone = tasks.spawn(commands.ended(found.identity), name="wait for the supervisor")
    waiting = tasks.spawn(hurried.wait(), name="wait to be hurried")
    try:
        await _at_most(_PATIENCE, gone, waiting)
        for _ in range(_ASKED_MAX):
            if not hurried.is_set() or gone.done():
                break
            # Signals that arrive together count once. So pause between them, and repeat.
            await _at_most(_ASK_AGAIN_AFTER, gone)
            commands.send(found.identity, signal.SIGTERM)
        if not gone.done():
            # It hangs or is suspended. Kill it; the caller does its work.
            commands.send(found.identity, signal.SIGKILL)
            await gone
    finally:
        await tasks.stop(waiting)
        await tasks.stop(gone)


async def _at_most(patience: timedelta, *waited: "asyncio.Task[Any]") -> None:
    with contextlib.suppress(TimeoutError):
        async with tasks.timeout(patience):
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)


async def _stop_here(directory: Path, hurried: asyncio.Event) -> bool | None:
    """Stop without a supervisor. None if there is one after all; False if some workloads do not end."""
    settings = shape.read_settings(SystemDisk(directory)) or shape.ClusterSettings()
    cluster = LocalCluster(directory, settings)
    processes = SystemProcessHost(directory, cluster.logs)
    supervisor = Supervisor(processes, SystemDisk(cluster.run), SystemClock(), own=commands.own_identity())
    try:
        await supervisor.lock()
    except Supervised:
        return None
    await supervisor.begin(cluster.components())
    hurrying = tasks.spawn(_pass_on(hurried, supervisor), name="hurry the supervisor")
    try:
        return await stop_cluster(cluster, supervisor, hurried)
    finally:
        await tasks.stop(hurrying)
        await supervisor.close()


async def _pass_on(hurried: asyncio.Event, supervisor: Supervisor) -> None:
    await hurried.wait()
    supervisor.hurry()
