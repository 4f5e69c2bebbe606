"""What the commands that run a component share: options, data directory, metrics, stopping."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Protocol

import click

from mainstay.cli.log_output import set_up_logs
from mainstay.cli.readiness import wait_for_server
from mainstay.client.client import Client
from mainstay.client.config import BadConfig, Config
from mainstay.env import Chance, Env, SystemClock, SystemDisk, machine, signals, tasks
from mainstay.env.invariants import find_broken
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
    instance = options.instance or f"{name}.{machine.hostname().lower()}"
    directory = options.data_dir or machine.state_dir(os.environ) / instance
    try:
        env = Env(SystemClock(), Chance.fresh(), SystemDisk(directory))
    except OSError as error:
        raise click.ClickException(f"cannot use data directory {directory}: {error.strerror}") from None
    try:
        config = load_config(options.kubeconfig)
        tasks.run(_run(name, make, config, env, instance, options.journal, options.metrics, measure))
    except BadConfig as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{error.filename or 'network'}: {error.strerror}") from error


async def _run(
    name: str,
    make: Make,
    config: Config,
    env: Env,
    instance: str,
    has_journal: bool,
    address: tuple[str, int] | None,
    measure: Measure,
) -> None:
    stopping = signals.StopSignals()
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(stopping.close)
        client = await stack.enter_async_context(Client(config, env, user_agent=f"mainstay-{name}"))
        shipper = await stack.enter_async_context(shipping(client, env, instance)) if has_journal else None
        component = make(client, env, instance, None if shipper is None else add_log(shipper.record))
        if address is not None:
            measured = measure(component)
            measured.shipper = shipper
            await stack.enter_async_context(_metrics(component, measured, *address))
        click.echo(f"mainstay {name}: connecting to {', '.join(config.servers)}")
        running = tasks.spawn(_run_once_served(config, component), name=name)
        asked = tasks.spawn(stopping.first(), name="wait for a signal")
        try:
            await asyncio.wait([running, asked], return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
        finally:
            await tasks.stop(running)
            await tasks.stop(asked)


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
async def _metrics(
    component: MeasuredComponent, measured: ComponentMetrics, host: str, port: int
) -> AsyncIterator[None]:
    def answer(request: Request) -> Response:
        match request.path:
            case "/metrics" if "application/openmetrics-text" in (request.headers.get("accept") or ""):
                return Response(200, measured.render_open(), content_type=OPEN_METRICS)
            case "/metrics":
                return Response(200, measured.render(), content_type=CONTENT_TYPE)
            case "/healthz" | "/livez":
                return Response(200, b"ok", content_type="text/plain")
            case "/readyz":
                if (bug := find_broken()) is not None:
                    return Response(503, str(bug).encode(), content_type="text/plain")
                # A standby is ready, too: to take over.
                is_ready = bool(component.informers.all()) and all(
                    informer.cache.is_synced for informer in component.informers.all()
                )
                return Response(200 if is_ready else 503, b"ok" if is_ready else b"caches", content_type="text/plain")
            case _:
                return Response(404, b"", content_type="text/plain")

    http = await HttpServer.start(answer, host, port)
    try:
        yield
    finally:
        await http.drain(_DRAIN_WITHIN)
