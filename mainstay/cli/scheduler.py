"""`mainstay scheduler`: decides which node each pod goes to."""

from dataclasses import replace
from typing import Any

import click

from mainstay.cli.component_process import component_options, run_component
from mainstay.client.client import Client
from mainstay.env import Env
from mainstay.env.build import build
from mainstay.loop.component import SCHEDULER_LEASE
from mainstay.loop.record import Recorder
from mainstay.scheduler.component import Scheduler, SchedulerSettings
from mainstay.scheduler.metrics import SchedulerMetrics


@click.command()
@click.option("--share", is_flag=True, help="Decide at once, together with other schedulers, without being elected.")
@click.option(
    "--lease", default=SCHEDULER_LEASE, show_default=True, metavar="NAME", help="Of those with this lease, one decides."
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
@component_options("scheduler")
def scheduler(share: bool, lease: str, names: tuple[str, ...], policy: str, **common: Any) -> None:
    """Decide which node each pod goes to.

    Of several processes with the same lease one decides, and another takes over when it is gone. With --share all of
    them decide at once, which needs a Mainstay server: it refuses what two of them take for the same room.

    \b
        mainstay scheduler --kubeconfig ./data/kubeconfig
    """
    settings = SchedulerSettings(lease_name="" if share else lease, policy_name=policy, build=build())
    if names:
        settings = replace(settings, names=names)

    def make(client: Client, env: Env, instance: str, recorder: Recorder | None) -> Scheduler:
        return Scheduler(client, env, instance=instance, settings=settings, recorder=recorder)

    run_component("scheduler", make, measure=SchedulerMetrics, **common)
