"""What the commands that run a component share: options, data directory, metrics, stopping."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Protocol

import click

from mainstay.cli.log_output import set_up_logs
from mainstay.cli.readiness import wait_for_server
from mainstay.client.client import Client
from mainstay.client.config import BadConfig, Config
from mainstay.client.informer import Informers
from mainstay.env import Chance, Env, SystemClock, SystemDisk, machine, signals, tasks
from mainstay.env.disk_checks import add_disk_checks
from mainstay.env.health import Health
from mainstay.http.health_pages import answer_health, is_health_path
from mainstay.http.messages import Request, Response
from mainstay.http.server import HttpServer
from mainstay.journal.decisions import DecisionRecorder
from mainstay.journal.record import DecisionRecord
from mainstay.loop.decision_log import log_decision
from mainstay.loop.metrics import CONTENT_TYPE, OPEN_METRICS, ComponentMetrics, MeasuredComponent
from mainstay.loop.program import load_config
from mainstay.loop.record import Recorder
from mainstay.loop.record_shipper import Shipper

_DRAIN_WITHIN: Final = timedelta(seconds=1)


class Runnable(MeasuredComponent, Protocol):
    async def run(self) -> None: ...


Make = Callable[[Client, Env, str, Recorder | None], Runnable]
"""Makes the component from its client, its environment, its instance name and the recorder of its decisions."""
Measure = Callable[[Any], ComponentMetrics]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOptions:
    """The options that every component has (component_options.py)."""

    kubeconfig: str
    metrics: tuple[str, int] | None
    data_dir: Path | None
    instance: str
    journal: bool
    log_format: str
    verbose: int


def run_component(name: str, make: Make, options: ProcessOptions, measure: Measure = ComponentMetrics) -> None:
    """Run a component until SIGTERM or SIGINT. Raises `click.ClickException` for errors that its user can fix."""
    set_up_logs(options.log_format, options.verbose)
    machine.keep_files_private()
    options = replace(options, instance=options.instance or f"{name}.{machine.hostname().lower()}")
    directory = options.data_dir or machine.state_dir(os.environ) / options.instance
    try:
        env = Env(SystemClock(), Chance.fresh(), SystemDisk(directory))
    except OSError as error:
        raise click.ClickException(f"cannot use data directory {directory}: {error.strerror}") from None
    try:
        config = load_config(options.kubeconfig)
        tasks.run(_run(name, make, config, env, directory, options, measure))
    except BadConfig as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{error.filename or 'network'}: {error.strerror}") from error


async def _run(
    name: str,
    make: Make,
    config: Config,
    env: Env,
    directory: Path,
    options: ProcessOptions,
    measure: Measure,
) -> None:
    stopping = signals.StopSignals()
    instance = options.instance
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(stopping.close)
        health = stack.enter_context(Health(env.clock).active())
        client = await stack.enter_async_context(Client(config, env, user_agent=f"mainstay-{name}"))
        shipper = await stack.enter_async_context(shipping(client, env, instance)) if options.journal else None
        component = make(client, env, instance, None if shipper is None else add_log(shipper.record))
        add_disk_checks(health, directory)
        health.add("informer-sync", lambda: find_unsynced(component.informers))
        if options.metrics is not None:
            measured = measure(component)
            measured.shipper = shipper
            await stack.enter_async_context(_metrics(health, measured, *options.metrics))
        click.echo(f"mainstay {name}: connecting to {', '.join(config.servers)}")
        await run_until_signal(_run_once_served(config, component), stopping, health)


async def run_until_signal(work: Coroutine[Any, Any, None], stopping: signals.StopSignals, health: Health) -> None:
    """Do the work of a process until a signal comes. Raises what the work raises, and `click.ClickException` when a
    vital task has ended: the supervisor restarts the process."""
    works = [tasks.spawn(each, name=name) for each, name in ((work, "work"), (stopping.first(), "wait for a signal"))]
    failing = tasks.spawn(health.failed(), name="wait for a failure")
    health.watch_loop().start()
    await health.listen()
    try:
        await asyncio.wait([*works, failing], return_when=asyncio.FIRST_COMPLETED)
        if works[0].done():
            works[0].result()
        elif failing.done():
            raise click.ClickException(failing.result())
        health.stopping()
    finally:
        for task in (*works, failing):
            await tasks.stop(task)


def find_unsynced(informers: Informers) -> str:
    """Say which caches are not filled. A standby is ready, too: to take over."""
    found = informers.all()
    if not found:
        return "no cache is filled yet"
    return ", ".join(f"{each.collection} is not filled" for each in found if not each.cache.is_synced)


async def _run_once_served(config: Config, component: Runnable) -> None:
    await wait_for_server(config)
    await component.run()


def shipping(client: Client, env: Env, instance: str) -> Shipper:
    """Make the shipper that sends the decisions of a process on this machine to the server's journal."""
    return Shipper(client, env, source=instance, local=DecisionRecorder(env.disk, env.clock))


def add_log(recorder: Recorder) -> Recorder:
    """Make a recorder that also logs each decision."""

    def record(made: DecisionRecord) -> None:
        recorder(made)
        log_decision(made)

    return record


@contextlib.asynccontextmanager
async def _metrics(health: Health, measured: ComponentMetrics, host: str, port: int) -> AsyncIterator[None]:
    def answer(request: Request) -> Response | Awaitable[Response]:
        match request.path:
            case "/metrics" if "application/openmetrics-text" in (request.headers.get("accept") or ""):
                return Response(200, measured.render_open(), content_type=OPEN_METRICS)
            case "/metrics":
                return Response(200, measured.render(), content_type=CONTENT_TYPE)
            case path if is_health_path(path):
                return answer_health(health, request)
            case _:
                return Response(404, b"", content_type="text/plain")

    http = await HttpServer.start(answer, host, port)
    try:
        yield
    finally:
        await http.drain(_DRAIN_WITHIN)
