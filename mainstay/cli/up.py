"""`mainstay up`: a whole cluster on this machine, kept running.

Here is only the command. What a cluster consists of is in cluster.py; how it is kept running in up_foreground.py and
mainstay/supervisor; with --detach that is done by another process of the same command, which up_detached.py starts.
"""

from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from mainstay.cli import cluster as shape
from mainstay.cli.cluster import CannotStart, Told
from mainstay.cli.data_dir import data_dir_option
from mainstay.cli.durations import Duration
from mainstay.cli.log_output import set_up_logs
from mainstay.cli.node_options import checked_capacity
from mainstay.cli.up_detached import run_detached
from mainstay.cli.up_foreground import run_in_foreground
from mainstay.env import machine, tasks
from mainstay.env.disk import DiskFull


def _checked_lease(ctx: click.Context, param: click.Parameter, value: timedelta | None) -> timedelta | None:
    """Now, and not by each agent that cannot start with it."""
    if value is not None and value < shape.LEASE_MIN:
        raise click.BadParameter(f"a lease lasts at least {shape.LEASE_MIN.total_seconds():g}s", ctx, param)
    return value


@click.command()
@data_dir_option("Where everything is kept. Made if it is not there.")
@click.option(
    "--nodes",
    type=click.IntRange(0, shape.NODES_MAX),
    metavar="N",
    help=f"How many nodes, each a process of its own.  [default: as the last time, else {shape.NODES}]",
)
@click.option(
    "--zones",
    type=click.IntRange(1, shape.ZONES_MAX),
    metavar="N",
    help=f"In how many zones they are.  [default: as the last time, else {shape.ZONES}]",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help=f"Of the API server. 0 takes any free one.  [default: as the last time, else {shape.PORT}]",
)
@click.option(
    "--host", metavar="ADDRESS", help="Where the API server listens.  [default: as the last time, else 127.0.0.1]"
)
@click.option(
    "--capacity",
    callback=checked_capacity,
    metavar="cpu=4,memory=8Gi,…",
    help="What each node has.  [default: what the machine has]",
)
@click.option(
    "--runner", type=click.Choice(["process", "pretend"]), help="What nodes do with pods.  [default: as the last time]"
)
@click.option(
    "--lease-duration",
    type=Duration(),
    callback=_checked_lease,
    metavar="TIME",
    help="After how long a silent node counts as lost.  [default: 40s]",
)
@click.option("--scheduler/--no-scheduler", default=None, help="Whether a scheduler is run.  [default: it is]")
@click.option("--controllers/--no-controllers", default=None, help="Whether controllers are run.  [default: they are]")
@click.option(
    "--controllers-count",
    type=click.IntRange(1, shape.CONTROLLERS_MAX),
    metavar="N",
    help="How many processes of controllers: one acts, the others stand by.  [default: as the last time, else 1]",
)
@click.option("--journal/--no-journal", default=None, help="Whether history is recorded.  [default: it is]")
@click.option("-d", "--detach", is_flag=True, help="Return as soon as all is ready. It goes on in the background.")
@click.option(
    "--wait",
    "patience",
    type=Duration(),
    default="60s",
    show_default=True,
    metavar="TIME",
    help="For how long to wait until all is ready.",
)
def up(data_dir: Path, detach: bool, patience: timedelta, **told: Any) -> int:
    """Run a whole cluster on this machine: API server, scheduler, controllers and some nodes, each its own process.

    \b
        mainstay up
        export KUBECONFIG=~/.local/state/mainstay/cluster/kubeconfig
        kubectl get nodes

    A process that ends is started again. Ctrl-C stops everything, workloads too; what is stored is there the next
    time. If this command itself is killed all the rest lives on, and the next `mainstay up` takes it over.

    \b
    Exit codes: 0 stopped as asked (with --detach: all is ready), 1 could not start, 124 not ready in time.
    """
    set_up_logs("text", 0)
    machine.keep_files_private()
    try:
        if detach:
            return tasks.run(run_detached(data_dir, Told.of(told), patience))
        return tasks.run(run_in_foreground(data_dir, Told.of(told), patience))
    except CannotStart as error:
        raise click.ClickException(str(error)) from error
    except DiskFull as error:
        raise click.ClickException(f"{error}: make some, and try again") from error
    except OSError as error:
        raise click.ClickException(f"{error.filename or data_dir}: {error.strerror or error}") from error
