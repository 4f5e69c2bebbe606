"""A cluster on this machine that is looked after by this very process, until it is told to stop."""

import asyncio
import contextlib
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from mainstay.cli import cluster as shape
from mainstay.cli.cluster import SERVER, CannotStart, Cluster, ClusterSettings, Told
from mainstay.cli.cluster_stop import LEFT_OVER, WorkloadsEnd, end_workloads_of, stop_cluster
from mainstay.cli.exits import Exit
from mainstay.cli.up_progress import Progress, mark, nodes_text, say, show_use, wait_until_ready
from mainstay.env import Chance, Env, SystemClock, SystemDisk, commands, log_files, signals, tasks
from mainstay.env.disk import DiskFull, directories_in
from mainstay.supervisor import records
from mainstay.supervisor.machine import SystemMachine
from mainstay.supervisor.supervisor import Failure, Supervised, Supervisor

FAILURES_MAX: Final = 3
"""While a cluster is started for the first time: after so many failures of one component in a row it is given up."""
LINES_SHOWN: Final = 8
CREDENTIALS_LOOKED_AT_EVERY: Final = timedelta(hours=12)


async def run_in_foreground(directory: Path, told: Told, patience: timedelta) -> int:
    """Until SIGINT or SIGTERM. Returns the exit code. Raises `CannotStart`, `DiskFull`, `OSError`."""
    return await _Foreground(directory, told).run(patience)


class _Foreground:
    """A cluster that is looked after by this very process."""

    def __init__(self, directory: Path, told: Told) -> None:
        self._disk = SystemDisk(directory)
        self._clock = SystemClock()
        self._env = Env(self._clock, Chance.fresh(), self._disk)
        self._worker = tasks.Worker("up")
        self._directory = directory
        self._sizes: dict[str, int] = {}
        self._is_ready = False
        self._was_there = False
        self._renewed: list[str] = []
        self._given_up: asyncio.Future[Failure] | None = None
        settings = shape.settings_for(self._disk, told)
        self._cluster = Cluster(directory, settings)
        self._processes = SystemMachine(directory, self._cluster.logs)
        self._runs = SystemDisk(self._cluster.run)
        self._supervisor = Supervisor(self._processes, self._runs, self._clock, own=commands.own_identity())

    async def run(self, patience: timedelta) -> int:
        stopping = signals.StopSignals()
        began_ns = self._clock.monotonic_ns()
        try:
            await self._supervisor.lock()
        except Supervised as other:
            raise CannotStart(
                f"the cluster in {self._directory} is up already, looked after by process {other.pid}."
                " `mainstay status` shows it, `mainstay down` stops it"
            ) from None
        try:
            await self._prepare()
            return await self._run(stopping, Progress(self._clock, began_ns), patience)
        finally:
            await self._supervisor.close()
            self._worker.close()
            stopping.close()

    async def _prepare(self) -> None:
        settings = self._cluster.settings
        if not await self._worker.run(self._has_server):
            settings = await self._with_port(settings)
        self._cluster = Cluster(self._directory, settings)
        await self._worker.run(shape.write_settings, self._disk, settings)
        self._renewed = await self._renew()

    def _has_server(self) -> bool:
        """Whether it runs already, and where it is wanted."""
        record = records.read(self._runs, SERVER)
        (wanted,) = [component for component in self._cluster.components() if component.name == SERVER]
        return record is not None and record.argv == wanted.argv and commands.is_alive(record.identity)

    async def _with_port(self, settings: ClusterSettings) -> ClusterSettings:
        from mainstay.cli.readiness import a_free_port, is_taken

        try:
            if settings.port == 0:
                return msgspec.structs.replace(settings, port=await a_free_port(settings.host))
        except OSError as error:
            raise CannotStart(f"cannot listen on {settings.host}: {error.strerror or error}") from None
        if await is_taken(settings.host, settings.port):
            raise CannotStart(
                f"port {settings.port} of {settings.host} is taken by another process: stop that one, or choose another"
                " with --port (0 takes any free one)"
            )
        return settings

    async def _renew(self) -> list[str]:
        from mainstay.cli.credentials import ensure_all
        from mainstay.server.auth.certificates import BadCertificate

        try:
            return await self._worker.run(ensure_all, self._cluster, self._disk, self._clock)
        except BadCertificate as error:
            raise CannotStart(f"{self._directory}: {error}") from None

    async def _run(self, stopping: signals.StopSignals, progress: Progress, patience: timedelta) -> int:
        cluster, supervisor = self._cluster, self._supervisor
        components = cluster.components()
        self._given_up = asyncio.get_running_loop().create_future()
        supervisor.on_failure = self._failed
        for component in components:
            self._sizes[component.name] = log_files.size(self._processes.log_of(component.name))
        adopted = await supervisor.begin(components)
        self._was_there = bool(adopted)
        for name in self._renewed:
            supervisor.renew(name)
        say(f"mainstay up: {nodes_text(cluster.settings.nodes)}, data in {self._directory}")
        if adopted:
            say(f"  found running, and taken over: {', '.join(adopted)}")
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
                await self._end_what_is_not_wanted()
                await asyncio.wait([running, asked], return_when=asyncio.FIRST_COMPLETED)
            elif self._given_up.done():
                code = Exit.ERROR
                failure = self._given_up.result()
                say(f"mainstay: {failure.name} does not start, so all is stopped again. It says:", err=True)
                self._show_log(failure.name)
            supervisor.leave_off()
            await running
        finally:
            for task in (ready, asked, renewing, running):
                await tasks.stop(task)
        return code if await self._stop(stopping) else Exit.ERROR

    async def _end_what_is_not_wanted(self) -> None:
        """There were more nodes the last time. Their agents have been ended; their workloads are here."""
        wanted = {node.name for node in self._cluster.nodes()}
        for name in directories_in(self._directory / "nodes"):
            is_over = name not in wanted and name not in self._supervisor.running()
            if not is_over:
                continue
            if await end_workloads_of(self._cluster, name, asyncio.Event()) is WorkloadsEnd.ENDED:
                say(f"  {name} is not run any more, nor are its pods. `kubectl delete node {name}` forgets it")

    async def _stop(self, stopping: signals.StopSignals) -> bool:
        say("mainstay: stopping. Once more Ctrl-C: at once")
        hurried = asyncio.Event()
        hurrying = tasks.spawn(_hurry(stopping, self._supervisor, hurried), name="hurry")
        try:
            is_all = await stop_cluster(self._cluster, self._supervisor, hurried)
        finally:
            await tasks.stop(hurrying)
        say(
            "mainstay: all is stopped. `mainstay up` goes on with what is stored"
            if is_all
            else f"mainstay: {LEFT_OVER}"
        )
        return is_all

    async def _renew_regularly(self) -> None:
        while True:
            await tasks.sleep(CREDENTIALS_LOOKED_AT_EVERY)
            try:
                for name in await self._renew():
                    self._supervisor.renew(name)
            except (CannotStart, DiskFull, OSError) as error:
                say(f"mainstay: the credentials cannot be renewed: {error}", err=True)

    def _failed(self, failure: Failure) -> None:
        again = f"started again in {failure.pause.total_seconds():.1f} s"
        text = f"  {mark('✗', 'red')} {failure.name:<14}{_how(failure)}; {again}"
        is_hopeless = not self._is_ready and not self._was_there and failure.failures >= FAILURES_MAX
        if is_hopeless and self._given_up is not None:
            if not self._given_up.done():
                self._given_up.set_result(failure)
            return
        say(text, err=True)
        if failure.failures in (2, FAILURES_MAX) or failure.failures % 10 == 0:
            # One that ends once may have been killed. One that does so again has something to say; but not every time.
            self._show_log(failure.name)

    def _show_log(self, name: str) -> None:
        path = self._processes.log_of(name)
        lines = log_files.last_lines(path, LINES_SHOWN, after=self._sizes.get(name, 0))
        for line in lines:
            say(f"      {line}", err=True)
        say(f"      ({'more of it' if lines else 'nothing'} in {path})", err=True)

    def _say_ready(self, is_ready: bool, progress: Progress, patience: timedelta) -> None:
        if not is_ready:
            say(
                f"mainstay: not all is ready after {patience.total_seconds():.0f} s; still trying. `mainstay status`"
                f" and the files in {self._cluster.logs} show more",
                err=True,
            )
            return
        say(f"All is ready after {progress.taken()}.")
        show_use(self._cluster, is_detached=False)


async def _hurry(stopping: signals.StopSignals, supervisor: Supervisor, hurried: asyncio.Event) -> None:
    await stopping.second()
    hurried.set()
    supervisor.hurry()


def _how(failure: Failure) -> str:
    if failure.why:
        return f"cannot be started: {failure.why}"
    code = failure.exit_code
    if code is None:
        return "has ended"
    if code >= 0:
        return f"has ended with exit code {code}"
    with contextlib.suppress(ValueError):
        return f"was ended by {signal.Signals(-code).name}"
    return f"was ended by signal {-code}"
