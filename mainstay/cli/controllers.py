"""`mainstay controllers`: run the controllers."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import click

from mainstay.cli.component_options import component_options
from mainstay.cli.durations import Duration

if TYPE_CHECKING:
    from mainstay.api.feature_gates import FeatureGates
    from mainstay.client.client import Client
    from mainstay.controllers.component import Controllers
    from mainstay.env import Env
    from mainstay.loop.record import Recorder

RETRY_EVERY: Final = timedelta(seconds=2)


class ControllerNames(click.ParamType[tuple[str, ...]]):
    """Comma-separated names."""

    name = "names"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        return tuple([name.strip() for name in str(value).split(",") if name.strip()])


@click.command()
@click.option("--only", type=ControllerNames(), default=(), metavar="NAME,…", help="Run only these controllers")
@click.option("--without", type=ControllerNames(), default=(), metavar="NAME,…", help="Run all controllers but these")
@click.option("--lease", default="", metavar="NAME", help="Lease for leader election  [default: mainstay-controllers]")
@click.option(
    "--lease-duration",
    type=Duration(),
    default="15s",
    show_default=True,
    metavar="DURATION",
    help="Time until a standby takes over",
)
@click.option("--workers", type=click.IntRange(1, 100), default=4, show_default=True, help="Workers per controller")
@click.option(
    "--resync", type=Duration(), default="30m", show_default=True, metavar="DURATION", help="Look at everything again"
)
@click.option("--impersonate/--no-impersonate", default=True, show_default=True, help="Act as one user per controller")
@component_options("controllers")
def controllers(
    only: tuple[str, ...],
    without: tuple[str, ...],
    lease: str,
    lease_duration: timedelta,
    workers: int,
    resync: timedelta,
    impersonate: bool,
    gates: "FeatureGates",
    **common: Any,
) -> None:
    """Run the controllers.

    \b
        mainstay controllers --kubeconfig ./data/kubeconfig
        mainstay controllers --only deployment,replicaset --lease workloads

    Of several processes with the same lease, one leads and the others stand by. When the leader fails, a standby takes
    over and the server rejects what the old leader may still send. Processes that run different controllers need
    different leases.

    Each controller acts as the user system:controller:NAME, which the user of the kubeconfig must be allowed to
    impersonate. --no-impersonate is for API servers that have no roles for these users, such as those of Kubernetes.

    Objects of kind ControllerSettings change how the queues are paced without a restart; `mainstay top queues` shows
    them. --resync 0s is never.
    """
    from mainstay.cli.component_process import ProcessOptions, run_component
    from mainstay.controllers.component import Controllers, UnknownController, chosen
    from mainstay.controllers.metrics import ControllersMetrics
    from mainstay.env.build import build
    from mainstay.loop.component import CONTROLLERS_LEASE, ComponentSettings
    from mainstay.loop.controller_loop import LoopSettings
    from mainstay.loop.fencing import LeaseTimes
    from mainstay.loop.lease import LeaseSettings
    from mainstay.loop.queue.items import QueueSettings

    try:
        wanted, loops = chosen(only, without)
    except UnknownController as error:
        raise click.UsageError(str(error)) from error
    if not wanted and not loops:
        raise click.UsageError("--only and --without leave no controller to run")

    try:
        times = LeaseTimes(duration=lease_duration, renew_every=lease_duration / 4)
    except ValueError as error:
        raise click.UsageError(f"--lease-duration: {error}") from error
    election = LeaseSettings(times=times, retry_every=min(RETRY_EVERY, lease_duration / 8))
    loop = LoopSettings(workers=workers, queue=QueueSettings(resync=resync or None))
    settings = ComponentSettings(
        loop=loop,
        lease=election,
        has_events=True,
        is_operated=True,
        build=build(),
        gates=gates,
        impersonates=impersonate,
    )

    def make(client: "Client", env: "Env", instance: str, recorder: "Recorder | None") -> "Controllers":
        return Controllers(
            client,
            env,
            name=lease or CONTROLLERS_LEASE,
            instance=instance,
            controllers=wanted,
            loops=loops,
            settings=settings,
            recorder=recorder,
        )

    run_component("controllers", make, ProcessOptions(**common), ControllersMetrics)
