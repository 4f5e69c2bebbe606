"""`mainstay down`: stop a cluster on this machine.

If a supervisor is there it is asked to do it, and waited for. If it was killed its work is done here, in the same way:
what runs is found as `mainstay up` would find it.
"""

import asyncio
import contextlib
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import click

from mainstay.cli import cluster as shape
from mainstay.cli.cluster import Cluster
from mainstay.cli.cluster_stop import LEFT_OVER, stop_cluster
from mainstay.cli.data_dir import data_dir_option
from mainstay.cli.exits import Exit
from mainstay.cli.log_output import set_up_logs
from mainstay.env import SystemClock, SystemDisk, commands, disk, machine, signals, tasks
from mainstay.supervisor import records
from mainstay.supervisor.machine import SystemMachine
from mainstay.supervisor.supervisor import Supervised, Supervisor

_TRIES: Final = 3
# Longer than a supervisor takes that has to kill everything in the end.
_PATIENCE: Final = timedelta(seconds=90)
_ASK_AGAIN_AFTER: Final = timedelta(milliseconds=250)
_ASKED_MAX: Final = 20
_TRY_AGAIN_AFTER: Final = timedelta(milliseconds=200)


@click.command()
@data_dir_option("Of the cluster.")
@click.option("--now", is_flag=True, help="Do not wait for anything to end by itself.")
def down(data_dir: Path, now: bool) -> int:
    """Stop the cluster that `mainstay up` runs, workloads too.

    What is stored stays: the next `mainstay up` goes on with it. To forget it, remove the data directory.

    Ctrl-C while this waits: do not wait for anything to end by itself.
    """
    set_up_logs("text", 0)
    machine.keep_files_private()
    if not disk.is_directory(data_dir / "run"):
        click.echo(f"mainstay: there is no cluster in {data_dir}")
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
            # It may have been killed before it was done, or have failed. Whatever is left is ended here.
            match await _stop_here(directory, hurried):
                case True:
                    click.echo("mainstay: all is stopped. `mainstay up` goes on with what is stored")
                    return Exit.SATISFIED
                case False:
                    raise click.ClickException(LEFT_OVER)
            # One has come between the two.
            await tasks.sleep(_TRY_AGAIN_AFTER)
    finally:
        await tasks.stop(hurrying)
        stopping.close()
    raise click.ClickException(f"somebody starts the cluster in {directory} again and again: stop that first")


async def _hurry(stopping: signals.StopSignals, hurried: asyncio.Event) -> None:
    await stopping.first()
    hurried.set()


async def _stop_by_supervisor(directory: Path, hurried: asyncio.Event) -> None:
    """Ask the supervisor, and wait until it is gone. Nothing if there is none."""
    runs = SystemDisk(directory / "run")
    found = records.read(runs, records.SUPERVISOR)
    if found is None or not commands.send(found.identity, signal.SIGTERM):
        return
    click.echo(f"mainstay: stopping what process {found.pid} looks after")
    gone = tasks.spawn(commands.ended(found.identity), name="wait for the supervisor")
    waiting = tasks.spawn(hurried.wait(), name="wait to be hurried")
    try:
        await _at_most(_PATIENCE, gone, waiting)
        for _ in range(_ASKED_MAX):
            if not hurried.is_set() or gone.done():
                break
            # Two signals at once are one. So not at once, and not only once.
            await _at_most(_ASK_AGAIN_AFTER, gone)
            commands.send(found.identity, signal.SIGTERM)
        if not gone.done():
            # It hangs, or is stopped. What it was to do is done without it.
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
    """Do it without one. None if there is one after all; False if some workloads do not end."""
    settings = shape.read_settings(SystemDisk(directory)) or shape.ClusterSettings()
    cluster = Cluster(directory, settings)
    processes = SystemMachine(directory, cluster.logs)
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
