"""What commands that run a component of the control plane have in common: options, where they keep things, stopping."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import click

from mainstay.cli.address import Address
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
from mainstay.loop.metrics import CONTENT_TYPE, OPEN_METRICS, ComponentMetrics, Measured
from mainstay.loop.program import config_of
from mainstay.loop.record import Recorder
from mainstay.loop.record_shipper import Shipper

_DRAIN_WITHIN: Final = timedelta(seconds=1)

C = TypeVar("C", bound=Callable[..., Any])


class Runnable(Measured, Protocol):
    async def run(self) -> None: ...


Make = Callable[[Client, Env, str, Recorder | None], Runnable]
"""Makes the component, given its client, its surroundings, its instance and where its decisions are recorded."""
Measure = Callable[[Any], ComponentMetrics]


def component_options(name: str) -> Callable[[C], C]:
    """The options that every component has. The command gets them as keywords, and hands them on to `run_component`."""
    options = [
        click.option(
            "--kubeconfig",
            default="",
            metavar="FILE",
            help="How to reach the API server. "
            "If absent: $KUBECONFIG, else the pod's own account, else ~/.kube/config.",
        ),
        click.option(
            "--metrics",
            type=Address(),
            metavar="HOST:PORT",
            help="Serve /metrics, /healthz and /readyz there, in plain HTTP.",
        ),
        click.option(
            "--data-dir",
            type=click.Path(file_okay=False, path_type=Path),
            metavar="DIR",
            help="Where decisions are recorded if the server keeps no journal, as a Kubernetes one."
            "  [default: ~/.local/state/mainstay/INSTANCE]",
        ),
        click.option(
            "--instance",
            default="",
            metavar="NAME",
            help=f"What this process is called, to tell it from others.  [default: {name}.HOSTNAME]",
        ),
        click.option(
            "--journal/--no-journal",
            default=True,
            show_default=True,
            help="Record every decision in the server's journal.",
        ),
        click.option(
            "--log-format",
            type=click.Choice(["text", "json"]),
            default="text",
            show_default=True,
            help="Of standard error.",
        ),
        click.option("-v", "--verbose", count=True, help="Say more. Twice: even more."),
    ]

    def add(command: C) -> C:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def run_component(
    name: str,
    make: Make,
    *,
    kubeconfig: str,
    metrics: tuple[str, int] | None,
    data_dir: Path | None,
    instance: str,
    journal: bool,
    log_format: str,
    verbose: int,
    measure: Measure = ComponentMetrics,
) -> None:
    """Run a component until SIGTERM or SIGINT. Raises `click.ClickException` for what its user can mend."""
    set_up_logs(log_format, verbose)
    machine.keep_files_private()
    instance = instance or f"{name}.{machine.hostname().lower()}"
    directory = data_dir or machine.state_dir(os.environ) / instance
    try:
        env = Env(SystemClock(), Chance.fresh(), SystemDisk(directory))
    except OSError as error:
        raise click.ClickException(f"cannot use the data directory {directory}: {error.strerror}") from None
    try:
        config = config_of(kubeconfig)
        tasks.run(_run(name, make, config, env, instance, journal, metrics, measure))
    except BadConfig as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{error.filename or 'the network'}: {error.strerror}") from error


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
        component = make(client, env, instance, None if shipper is None else telling(shipper.record))
        if address is not None:
            measured = measure(component)
            measured.shipper = shipper
            await stack.enter_async_context(_metrics(component, measured, *address))
        click.echo(f"mainstay {name} asks {', '.join(config.servers)}")
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
    """Where a process of this machine sends what it decides."""
    return Shipper(client, env, source=instance, local=DecisionRecorder(env.disk, env.clock))


def telling(recorder: Recorder) -> Recorder:
    """Records a decision, and says so in the log."""

    def record(made: DecisionRecord) -> None:
        recorder(made)
        log_decision(made)

    return record


@contextlib.asynccontextmanager
async def _metrics(component: Measured, measured: ComponentMetrics, host: str, port: int) -> AsyncIterator[None]:
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
                # One that only stands by is ready to take over.
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
