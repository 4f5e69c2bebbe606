"""`mainstay up --detach`: start the same command in the background and wait until the cluster is ready."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Final

import click
import msgspec

from mainstay.cli import cluster as shape
from mainstay.cli.cluster import ClusterCannotStart, ClusterSettings, GivenSettings, LocalCluster
from mainstay.cli.counts import render_count
from mainstay.cli.exits import Exit
from mainstay.cli.up_progress import LOOK_EVERY, StartProgress, show_use, wait_until_ready
from mainstay.env import Chance, Env, SystemClock, SystemDisk, commands, log_files, signals, tasks
from mainstay.env.commands import Identity
from mainstay.supervisor import records

LINES_SHOWN: Final = 12


async def run_detached(directory: Path, given: GivenSettings, patience: timedelta) -> int:
    disk, clock = SystemDisk(directory), SystemClock()
    env = Env(clock, Chance.fresh(), disk)
    runs = SystemDisk(directory / "run")
    settings = shape.merge_settings(disk, given)
    progress = StartProgress(clock, clock.monotonic_ns())
    other = records.read(runs, records.SUPERVISOR)
    log = directory / "logs" / f"{records.SUPERVISOR}.log"
    size = log_files.size(log)
    if other is not None and not commands.is_alive(other.identity):
        other = None
    if other is not None and settings != shape.read_settings(disk):
        raise ClusterCannotStart(
            f"the cluster in {directory} is already running (process {other.pid}) with other options: run"
            " `mainstay down` first, or omit the options"
        )
    click.echo(f"mainstay up: {render_count(settings.nodes, 'node')}, data in {directory}")
    if other is not None:
        keeper = other.identity
    else:
        SystemDisk(log.parent)
        click.echo("  starting …")
        # Pass on all settings: only the background process writes them to the data directory.
        keeper = commands.start([*shape.up_command(directory), *_arguments(settings)], cwd=directory, output=log)
    async with _interruptible() as asked:
        ready = tasks.spawn(
            _wait(LocalCluster(directory, settings), env, runs, progress, patience, keeper), name="wait"
        )
        try:
            await asyncio.wait([ready, asked], return_when=asyncio.FIRST_COMPLETED)
            if not ready.done():
                raise ClusterCannotStart("interrupted; the cluster starts in the background, `mainstay down` stops it")
            is_ready = ready.result()
        finally:
            await tasks.stop(ready)
    if not commands.is_alive(keeper):
        for line in log_files.last_lines(log, LINES_SHOWN, after=size):
            click.echo(line.removeprefix("mainstay: "), err=True)
        raise ClusterCannotStart(f"the cluster did not start; its log is {log}")
    cluster = LocalCluster(directory, shape.read_settings(disk) or settings)
    if not is_ready:
        click.echo(
            f"mainstay: not ready after {patience.total_seconds():.0f} s; still starting in the background."
            f" Check `mainstay status` and the logs in {cluster.logs}",
            err=True,
        )
        return Exit.TIMEOUT
    click.echo(f"Ready in {progress.elapsed()}.")
    show_use(cluster, is_detached=True)
    return Exit.SATISFIED


async def _wait(
    cluster: LocalCluster, env: Env, runs: SystemDisk, progress: StartProgress, patience: timedelta, keeper: Identity
) -> bool:
    """Wait until the cluster is ready or the background process has ended."""
    gone = tasks.spawn(commands.ended(keeper), name="wait for the end of the background process")
    try:
        while not gone.done() and (settings := _taken_up(env, cluster.settings)) is None:
            await tasks.sleep(LOOK_EVERY)
        if gone.done():
            return False
        assert settings is not None
        waiting = tasks.spawn(
            wait_until_ready(LocalCluster(cluster.data_dir, settings), env, runs, progress, patience),
            name="wait until ready",
        )
        try:
            await asyncio.wait([waiting, gone], return_when=asyncio.FIRST_COMPLETED)
            return waiting.done() and waiting.result()
        finally:
            await tasks.stop(waiting)
    finally:
        await tasks.stop(gone)


def _taken_up(env: Env, wanted: ClusterSettings) -> ClusterSettings | None:
    """Read the settings of the background process once it has written them. It may have chosen a port."""
    found = shape.read_settings(env.disk)
    if found is None or not found.port:
        return None
    return found if found == msgspec.structs.replace(wanted, port=found.port, network=found.network) else None


@contextlib.asynccontextmanager
async def _interruptible() -> AsyncIterator["asyncio.Task[None]"]:
    stopping = signals.StopSignals()
    asked = tasks.spawn(stopping.first(), name="wait for a signal")
    try:
        yield asked
    finally:
        await tasks.stop(asked)
        stopping.close()


def _arguments(settings: ClusterSettings) -> list[str]:
    given = ["--nodes", str(settings.nodes), "--zones", str(settings.zones), "--port", str(settings.port)]
    given += ["--host", settings.host, "--runner", settings.runner]
    if settings.capacity:
        given += ["--capacity", settings.capacity]
    if settings.lease_duration_s:
        given += ["--lease-duration", f"{settings.lease_duration_s:g}s"]
    given.append("--scheduler" if settings.has_scheduler else "--no-scheduler")
    given.append("--controllers" if settings.has_controllers else "--no-controllers")
    given += ["--controllers-count", str(settings.controllers_count)]
    given.append("--journal" if settings.has_journal else "--no-journal")
    return given
