"""`mainstay scheduler`: decides which node each pod goes to."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Final

import click

from mainstay.cli.address import Address
from mainstay.cli.logs import set_up_logs
from mainstay.client.client import Client
from mainstay.client.config import BadConfig, Config
from mainstay.env import Chance, Env, SystemClock, SystemDisk, machine, signals, tasks
from mainstay.http.messages import Request, Response
from mainstay.http.server import HttpServer
from mainstay.journal.decisions import DecisionRecorder
from mainstay.journal.errors import InUse
from mainstay.runtime.main import config_of
from mainstay.runtime.metrics import CONTENT_TYPE
from mainstay.scheduler.component import LEASE, Scheduler, SchedulerSettings
from mainstay.scheduler.metrics import SchedulerMetrics

_DRAIN_WITHIN: Final = timedelta(seconds=1)


@click.command()
@click.option(
    "--kubeconfig",
    default="",
    metavar="FILE",
    help="How to reach the API server. If absent: $KUBECONFIG, else the pod's own account, else ~/.kube/config.",
)
@click.option("--share", is_flag=True, help="Decide at once, together with other schedulers, without being elected.")
@click.option(
    "--lease", default=LEASE, show_default=True, metavar="NAME", help="Of those with this lease, one decides."
)
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="NAME",
    help="Decide for pods with this schedulerName. May be repeated.  [default: default-scheduler, mainstay]",
)
@click.option(
    "--policy", default="", metavar="NAME", help="The PlacementPolicy to go by, while it is there and active."
)
@click.option(
    "--metrics", type=Address(), metavar="HOST:PORT", help="Serve /metrics, /healthz and /readyz there, in plain HTTP."
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where decisions are recorded.  [default: ~/.local/state/mainstay/INSTANCE]",
)
@click.option(
    "--instance",
    default="",
    metavar="NAME",
    help="What this process is called, to tell it from others.  [default: scheduler.HOSTNAME]",
)
@click.option("--journal/--no-journal", default=True, show_default=True, help="Record every decision, for a week.")
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Of standard error."
)
@click.option("-v", "--verbose", count=True, help="Say more. Twice: even more.")
def scheduler(
    kubeconfig: str,
    share: bool,
    lease: str,
    names: tuple[str, ...],
    policy: str,
    metrics: tuple[str, int] | None,
    data_dir: Path | None,
    instance: str,
    journal: bool,
    log_format: str,
    verbose: int,
) -> None:
    """Decide which node each pod goes to.

    Of several processes with the same lease one decides, and another takes over when it is gone. With --share all of
    them decide at once, which needs a Mainstay server: it refuses what two of them take for the same room.

    \b
        mainstay scheduler --kubeconfig ./data/kubeconfig
    """
    settings = SchedulerSettings(lease_name="" if share else lease, policy_name=policy)
    if names:
        settings = replace(settings, names=names)
    set_up_logs(log_format, verbose)
    machine.keep_files_private()
    instance = instance or f"scheduler.{machine.hostname().lower()}"
    directory = data_dir or _state_dir(os.environ) / instance
    try:
        env = Env(SystemClock(), Chance.fresh(), SystemDisk(directory))
    except OSError as error:
        raise click.ClickException(f"cannot use the data directory {directory}: {error.strerror}") from None
    try:
        config = config_of(kubeconfig)
        tasks.run(_run(config, env, instance, settings, journal, metrics))
    except BadConfig as error:
        raise click.ClickException(str(error)) from error
    except InUse as error:
        raise click.ClickException(f"another scheduler records into {directory}: give each its --instance") from error
    except OSError as error:
        raise click.ClickException(f"{error.filename or 'the network'}: {error.strerror}") from error


async def _run(
    config: Config,
    env: Env,
    instance: str,
    settings: SchedulerSettings,
    has_journal: bool,
    address: tuple[str, int] | None,
) -> None:
    stopping = signals.StopSignals()
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(stopping.close)
        client = await stack.enter_async_context(Client(config, env, user_agent="mainstay-scheduler"))
        recorder = await stack.enter_async_context(_recorder(env)) if has_journal else None
        component = Scheduler(
            client,
            env,
            instance=instance,
            settings=settings,
            recorder=recorder.record if recorder is not None else None,
        )
        if address is not None:
            await stack.enter_async_context(_metrics(component, *address))
        click.echo(f"mainstay scheduler asks {', '.join(config.servers)}")
        running = tasks.spawn(component.run(), name="scheduler")
        asked = tasks.spawn(stopping.first(), name="wait for a signal")
        try:
            await asyncio.wait([running, asked], return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
        finally:
            await tasks.stop(running)
            await tasks.stop(asked)


@contextlib.asynccontextmanager
async def _recorder(env: Env) -> AsyncIterator[DecisionRecorder]:
    recorder = DecisionRecorder(env.disk, env.clock)
    await recorder.start()
    try:
        yield recorder
    finally:
        await recorder.close()


@contextlib.asynccontextmanager
async def _metrics(component: Scheduler, host: str, port: int) -> AsyncIterator[None]:
    measured = SchedulerMetrics(component)

    def answer(request: Request) -> Response:
        match request.path:
            case "/metrics":
                return Response(200, measured.render(), content_type=CONTENT_TYPE)
            case "/healthz" | "/livez":
                return Response(200, b"ok", content_type="text/plain")
            case "/readyz":
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


def _state_dir(environ: Mapping[str, str]) -> Path:
    given = environ.get("XDG_STATE_HOME")
    return Path(given) / "mainstay" if given else Path(environ.get("HOME", ".")) / ".local" / "state" / "mainstay"
