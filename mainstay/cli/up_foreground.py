"""`mainstay up` in the foreground: this process supervises the cluster until a signal stops it."""

import asyncio
import contextlib
import errno
import os
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from mainstay.cli import cluster as shape
from mainstay.cli.cluster import SERVER, ClusterCannotStart, ClusterSettings, GivenSettings, LocalCluster
from mainstay.cli.cluster_stop import LEFT_OVER, STOPPED, WorkloadsEnd, stop_cluster, stop_workloads
from mainstay.cli.counts import render_count
from mainstay.cli.exits import Exit
from mainstay.cli.up_progress import StartProgress, mark, say, show_use, wait_until_ready
from mainstay.env import Chance, Env, SystemClock, SystemDisk, commands, log_files, signals, tasks
from mainstay.env.disk import DiskFull, directories_in
from mainstay.supervisor import records
from mainstay.supervisor.machine import SystemProcessHost
from mainstay.supervisor.supervisor import ComponentFailure, Supervised, Supervisor

FAILURES_MAX: Final = 3
"""During the first start: the start is aborted when a component fails this often in a row."""
LINES_SHOWN: Final = 8
CREDENTIALS_CHECKED_EVERY: Final = timedelta(hours=12)


async def run_in_foreground(directory: Path, given: GivenSettings, patience: timedelta) -> int:
    """Run until SIGINT or SIGTERM. Returns the exit code. Raises `ClusterCannotStart`, `DiskFull`, `OSError`."""
    return await _Foreground(directory, given).run(patience)


class _Foreground:
    """A cluster that this process supervises."""

    def __init__(self, directory: Path, given: GivenSettings) -> None:
        self._disk = SystemDisk(directory)
        self._clock = SystemClock()
        self._env = Env(self._clock, Chance.fresh(), self._disk)
        self._worker = tasks.Worker("up")
        self._directory = directory
        self._sizes: dict[str, int] = {}
        self._is_ready = False
        self._was_there = False
        self._renewed: list[str] = []
        self._given_up: asyncio.Future[ComponentFailure] | None = None
        settings = shape.merge_settings(self._disk, given)
        self._cluster = LocalCluster(directory, settings)
        self._processes = SystemProcessHost(directory, self._cluster.logs)
        self._runs = SystemDisk(self._cluster.run)
        self._supervisor = Supervisor(self._processes, self._runs, self._clock, own=commands.own_identity())

    async def run(self, patience: timedelta) -> int:
        stopping = signals.StopSignals()
        began_ns = self._clock.monotonic_ns()
        try:
            await self._supervisor.lock()
        except Supervised as other:
            raise ClusterCannotStart(
                f"the cluster in {self._directory} is already running (process {other.pid}): check `mainstay status`,"
                " stop it with `mainstay down`, or start another with --data-dir and --port"
            ) from None
        try:
            await self._prepare()
            return await self._run(stopping, StartProgress(self._clock, began_ns), patience)
        finally:
            await self._supervisor.close()
            self._worker.close()
            stopping.close()

    async def _prepare(self) -> None:
        settings = self._cluster.settings
        if not await self._worker.run(self._has_server):
            settings = await self._with_port(settings)
        self._cluster = LocalCluster(self._directory, settings)
        await self._worker.run(shape.write_settings, self._disk, settings)
        self._renewed = await self._renew()

    def _has_server(self) -> bool:
        """Whether the server already runs with these settings."""
        record = records.read(self._runs, SERVER)
        (wanted,) = [component for component in self._cluster.components() if component.name == SERVER]
        return record is not None and record.argv == wanted.argv and commands.is_alive(record.identity)

    async def _with_port(self, settings: ClusterSettings) -> ClusterSettings:
        from mainstay.cli.readiness import check_port, find_free_port

        try:
            if settings.port == 0:
                return msgspec.structs.replace(settings, port=await find_free_port(settings.host))
            await check_port(settings.host, settings.port)
        except PermissionError:
            raise ClusterCannotStart(
                f"no permission to listen on port {settings.port}: choose one above 1023 with --port"
            ) from None
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise ClusterCannotStart(
                    f"port {settings.port} on {settings.host} is in use by another process: stop it, or choose another"
                    " port with --port (0 takes a free one)"
                ) from None
            reason = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else str(error)
            raise ClusterCannotStart(
                f"cannot listen on {settings.host}:{settings.port}: {reason}; use an address"
                " of this machine with --host"
            ) from None
        return settings

    async def _renew(self) -> list[str]:
        from mainstay.cli.credentials import ensure_all
        from mainstay.server.auth.certificates import BadCertificate

        try:
            return await self._worker.run(ensure_all, self._cluster, self._disk, self._clock)
        except BadCertificate as error:
            raise ClusterCannotStart(f"{self._directory}: {error}") from None

    async def _run(self, stopping: signals.StopSignals, progress: StartProgress, patience: timedelta) -> int:
        cluster, supervisor = self._cluster, self._supervisor
        components = cluster.components()
        self._given_up = asyncio.get_running_loop().create_future()
        supervisor.on_failure = self._failed
        for component in components:
            self._sizes[component.name] = log_files.size(self._processes.log_path(component.name))
        adopted = await supervisor.begin(components)
        self._was_there = bool(adopted)
        for name in self._renewed:
            supervisor.renew(name)
        say(f"mainstay up: {render_count(cluster.settings.nodes, 'node')}, data in {self._directory}")
        if adopted:
            say(f"  adopted running processes: {', '.join(adopted)}")
        if missing := [component.name for component in components if component.name not in adopted]:
            say(f"  starting {', '.join(missing)} …")
        running = tasks.spawn(supervisor.run(), name="supervise")
        asked = tasks.spawn(stopping.first(), name="wait for a signal")
        renewing = tasks.spawn(self._renew_regularly(), name="renew credentials")
        ready = tasks.spawn(
            wait_until_ready(cluster, self._env, self._runs, progress, patience), name="wait until ready"
        )
        code = Exit.SATISFIED
        try:
            waiting: list[asyncio.Future[Any]] = [running, asked, ready, self._given_up]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if ready.done():
                self._is_ready = True
                self._say_ready(ready.result(), progress, patience)
                await self._stop_removed_nodes()
                await asyncio.wait([running, asked], return_when=asyncio.FIRST_COMPLETED)
            elif self._given_up.done():
                code = Exit.ERROR
                failure = self._given_up.result()
                times = "once" if failure.failures == 1 else f"{failure.failures} times"
                say(f"mainstay: {failure.name} failed to start {times}; stopping. Its log:", err=True)
                self._show_log(failure.name)
            supervisor.leave_off()
            await running
        finally:
            for task in (ready, asked, renewing, running):
                await tasks.stop(task)
        return code if await self._stop(stopping) else Exit.ERROR

    async def _stop_removed_nodes(self) -> None:
        """Stop the workloads of nodes that the last `up` had and this one has not. Their agents are already stopped."""
        wanted = {node.name for node in self._cluster.nodes()}
        for name in directories_in(self._directory / "nodes"):
            is_over = name not in wanted and name not in self._supervisor.running()
            if not is_over:
                continue
            if await stop_workloads(self._cluster, name, asyncio.Event()) is WorkloadsEnd.ENDED:
                say(f"  {name} and its pods are stopped; `kubectl delete node {name}` removes it")

    async def _stop(self, stopping: signals.StopSignals) -> bool:
        say("Stopping. Press Ctrl-C again to force")
        hurried = asyncio.Event()
        hurrying = tasks.spawn(_hurry(stopping, self._supervisor, hurried), name="hurry")
        try:
            is_all = await stop_cluster(self._cluster, self._supervisor, hurried)
        finally:
            await tasks.stop(hurrying)
        say(STOPPED if is_all else f"mainstay: {LEFT_OVER}")
        return is_all

    async def _renew_regularly(self) -> None:
        while True:
            await tasks.sleep(CREDENTIALS_CHECKED_EVERY)
            try:
                for name in await self._renew():
                    self._supervisor.renew(name)
            except (ClusterCannotStart, DiskFull, OSError) as error:
                say(f"mainstay: cannot renew credentials: {error}", err=True)

    def _failed(self, failure: ComponentFailure) -> None:
        again = f"restarting in {failure.pause.total_seconds():.1f} s"
        text = f"  {mark('✗', 'red')} {failure.name:<14}{_describe(failure)}; {again}"
        is_final = failure.failures >= FAILURES_MAX or failure.exit_code == Exit.BLOCKED
        is_hopeless = not self._is_ready and not self._was_there and is_final
        if is_hopeless and self._given_up is not None:
            if not self._given_up.done():
                self._given_up.set_result(failure)
            return
        say(text, err=True)
        if failure.failures in (2, FAILURES_MAX) or failure.failures % 10 == 0:
            # One exit may be a kill; repeated exits have a reason in the log, but do not print it every time.
            self._show_log(failure.name)

    def _show_log(self, name: str) -> None:
        path = self._processes.log_path(name)
        lines = log_files.last_lines(path, LINES_SHOWN, after=self._sizes.get(name, 0))
        for line in lines:
            say(f"      {line}", err=True)
        say(f"      (log file {path}{'' if lines else ', empty'})", err=True)

    def _say_ready(self, is_ready: bool, progress: StartProgress, patience: timedelta) -> None:
        if not is_ready:
            say(
                f"mainstay: not ready after {patience.total_seconds():.0f} s; still starting. Check `mainstay status`"
                f" and the logs in {self._cluster.logs}",
                err=True,
            )
            return
        say(f"Ready in {progress.elapsed()}.")
        show_use(self._cluster, is_detached=False)


async def _hurry(stopping: signals.StopSignals, supervisor: Supervisor, hurried: asyncio.Event) -> None:
    await stopping.second()
    hurried.set()
    supervisor.hurry()


def _describe(failure: ComponentFailure) -> str:
    if failure.why:
        return f"cannot start: {failure.why}"
    code = failure.exit_code
    if code is None:
        return "exited"
    if code >= 0:
        return f"exited with code {code}"
    with contextlib.suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"
