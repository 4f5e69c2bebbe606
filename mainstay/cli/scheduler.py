"""`mainstay scheduler`: run a scheduler."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from mainstay.cli.component_options import component_options

if TYPE_CHECKING:
    from mainstay.api.feature_gates import FeatureGates
    from mainstay.client.client import Client
    from mainstay.env import Env
    from mainstay.loop.record import Recorder
    from mainstay.scheduler.component import Scheduler


@click.command()
@click.option("--share", is_flag=True, help="Decide without leader election")
@click.option("--lease", default="", metavar="NAME", help="Lease for leader election  [default: mainstay-scheduler]")
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="NAME",
    help="schedulerName to serve; repeatable  [default: default-scheduler, mainstay]",
)
@click.option("--policy", default="", metavar="NAME", help="PlacementPolicy for pods in no scope")
@component_options("scheduler")
def scheduler(
    share: bool, lease: str, names: tuple[str, ...], policy: str, gates: "FeatureGates", **common: Any
) -> None:
    """Run a scheduler.

    \b
        mainstay scheduler --kubeconfig ./data/kubeconfig
        mainstay scheduler --share --instance scheduler-2

    Of several schedulers with the same lease, one leads and the others stand by. With --share all of them decide at
    once. This needs a Mainstay server, which rejects binds that would overcommit a node.
    """
    from mainstay.cli.component_process import ProcessOptions, run_component
    from mainstay.env.build import build
    from mainstay.loop.component import SCHEDULER_LEASE
    from mainstay.scheduler.component import Scheduler, SchedulerSettings
    from mainstay.scheduler.metrics import SchedulerMetrics
    from mainstay.scheduler.settings import CycleSettings

    settings = SchedulerSettings(
        lease_name="" if share else lease or SCHEDULER_LEASE,
        policy_name=policy,
        build=build(),
        cycle=CycleSettings(gates=gates),
    )
    if names:
        settings = replace(settings, names=names)

    def make(client: "Client", env: "Env", instance: str, recorder: "Recorder | None") -> "Scheduler":
        return Scheduler(client, env, instance=instance, settings=settings, recorder=recorder)

    run_component("scheduler", make, ProcessOptions(**common), SchedulerMetrics)
