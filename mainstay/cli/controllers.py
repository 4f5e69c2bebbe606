"""`mainstay controllers`: keeps what is there equal to what is wanted."""

from datetime import timedelta
from typing import Any, Final

import click

from mainstay.cli.component_process import component_options, run_component
from mainstay.cli.durations import Duration
from mainstay.client.client import Client
from mainstay.controllers.component import Controllers, UnknownController, chosen
from mainstay.controllers.metrics import ControllersMetrics
from mainstay.env import Env
from mainstay.env.build import build
from mainstay.loop.component import CONTROLLERS_LEASE, ComponentSettings
from mainstay.loop.fencing import LeaseTimes
from mainstay.loop.lease import LeaseSettings
from mainstay.loop.record import Recorder

RETRY_EVERY: Final = timedelta(seconds=2)


class Names(click.ParamType[tuple[str, ...]]):
    """Names with commas between them."""

    name = "names"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        return tuple([name.strip() for name in str(value).split(",") if name.strip()])


@click.command()
@click.option("--only", type=Names(), default=(), metavar="NAME,…", help="Run these controllers and no others.")
@click.option("--without", type=Names(), default=(), metavar="NAME,…", help="Run all controllers but these.")
@click.option(
    "--lease", default=CONTROLLERS_LEASE, show_default=True, metavar="NAME", help="Of those with this lease, one acts."
)
@click.option(
    "--lease-duration",
    type=Duration(),
    default="15s",
    show_default=True,
    metavar="TIME",
    help="After how long without a renewal another process takes over.",
)
@component_options("controllers")
def controllers(
    only: tuple[str, ...], without: tuple[str, ...], lease: str, lease_duration: timedelta, **common: Any
) -> None:
    """Keep what is there equal to what is wanted: deployments, replica sets and all the rest.

    Of several processes with the same lease one acts, and another takes over when it is gone; the server refuses what
    the first may still send. Processes that run different controllers need different leases.

    \b
        mainstay controllers --kubeconfig ./data/kubeconfig
        mainstay controllers --only deployment,replicaset --lease workloads
    """
    try:
        wanted, loops = chosen(only, without)
    except UnknownController as error:
        raise click.UsageError(str(error)) from error
    if not wanted and not loops:
        raise click.UsageError("no controller is left to run")

    try:
        times = LeaseTimes(duration=lease_duration, renew_every=lease_duration / 4)
    except ValueError as error:
        raise click.UsageError(f"--lease-duration: {error}") from error
    election = LeaseSettings(times=times, retry_every=min(RETRY_EVERY, lease_duration / 8))
    settings = ComponentSettings(lease=election, has_events=True, build=build())

    def make(client: Client, env: Env, instance: str, recorder: Recorder | None) -> Controllers:
        return Controllers(
            client,
            env,
            name=lease,
            instance=instance,
            controllers=wanted,
            loops=loops,
            settings=settings,
            recorder=recorder,
        )

    run_component("controllers", make, measure=ControllersMetrics, **common)
