"""`mainstay up`: start a cluster on this machine and keep it running.

Here are the options. What a cluster consists of is in cluster.py; up_foreground.py and mainstay/supervisor keep it
running; up_detached.py does so in a background process.
"""

from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from mainstay.cli.cluster import CONTROLLERS_MAX, LEASE_MIN, NODES, NODES_MAX, PORT, ZONES, ZONES_MAX, GivenSettings
from mainstay.cli.data_dir import data_dir_option
from mainstay.cli.durations import Duration
from mainstay.cli.log_output import set_up_logs
from mainstay.cli.node_options import check_capacity


def _check_lease(ctx: click.Context, param: click.Parameter, value: timedelta | None) -> timedelta | None:
    """Check it here: each agent would fail to start with it."""
    if value is not None and value < LEASE_MIN:
        raise click.BadParameter(f"must be at least {LEASE_MIN.total_seconds():g}s", ctx, param)
    return value


@click.command()
@data_dir_option("Data directory, made if missing")
@click.option(
    "--nodes",
    type=click.IntRange(0, NODES_MAX),
    metavar="N",
    help=f"Number of nodes  [default: previous, else {NODES}]",
)
@click.option(
    "--zones",
    type=click.IntRange(1, ZONES_MAX),
    metavar="N",
    help=f"Number of zones  [default: previous, else {ZONES}]",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help=f"Port of the API server; 0 takes a free one  [default: previous, else {PORT}]",
)
@click.option("--host", metavar="ADDRESS", help="Address of the API server  [default: previous, else 127.0.0.1]")
@click.option(
    "--capacity",
    callback=check_capacity,
    metavar="cpu=4,memory=8Gi,…",
    help="Capacity of each node  [default: that of the machine]",
)
@click.option(
    "--runner",
    type=click.Choice(["process", "pretend"]),
    help="Run real processes or pretend to  [default: previous, else process]",
)
@click.option(
    "--lease-duration",
    type=Duration(),
    callback=_check_lease,
    metavar="DURATION",
    help="Time without heartbeat until node is lost  [default: previous, else 40s]",
)
@click.option("--scheduler/--no-scheduler", default=None, help="Run the scheduler  [default: previous, else yes]")
@click.option("--controllers/--no-controllers", default=None, help="Run the controllers  [default: previous, else yes]")
@click.option(
    "--controllers-count",
    type=click.IntRange(1, CONTROLLERS_MAX),
    metavar="N",
    help="Controller processes: one leader, standbys  [default: previous, else 1]",
)
@click.option("--journal/--no-journal", default=None, help="Record history  [default: previous, else yes]")
@click.option("-d", "--detach", is_flag=True, help="Run in the background, return when ready")
@click.option(
    "--wait",
    "patience",
    type=Duration(),
    default="60s",
    show_default=True,
    metavar="DURATION",
    help="Time to wait until the cluster is ready",
)
def up(data_dir: Path, detach: bool, patience: timedelta, **given: Any) -> int:
    """Start a cluster on this machine.

    \b
        mainstay up
        mainstay up --detach --nodes 5
        export KUBECONFIG=~/.local/state/mainstay/cluster/kubeconfig
        kubectl get nodes

    Runs an API server, a scheduler, controllers and nodes, each as a process, and restarts them when they fail. Ctrl-C
    stops the cluster and its workloads; its objects are stored, and the next `mainstay up` continues with them. If this
    command is killed, the processes continue, and the next `mainstay up` adopts them. Omitted options keep their
    previous values.

    \b
    Exit codes: 0 stopped (with --detach: ready), 1 cannot start, 124 not ready in time
    """
    from mainstay.cli.cluster import ClusterCannotStart
    from mainstay.cli.up_detached import run_detached
    from mainstay.cli.up_foreground import run_in_foreground
    from mainstay.env import machine, tasks
    from mainstay.env.disk import DiskFull

    set_up_logs("text", 0)
    machine.keep_files_private()
    settings = GivenSettings.parse(given)
    try:
        if detach:
            return tasks.run(run_detached(data_dir, settings, patience))
        return tasks.run(run_in_foreground(data_dir, settings, patience))
    except ClusterCannotStart as error:
        raise click.ClickException(str(error)) from error
    except DiskFull as error:
        raise click.ClickException(f"{error}: free some space and run `mainstay up` again") from error
    except PermissionError as error:
        path = error.filename or data_dir
        raise click.ClickException(f"no permission to use {path}: choose another directory with --data-dir") from error
    except OSError as error:
        what = f"cannot use {error.filename or data_dir}: {error.strerror or error}"
        raise click.ClickException(f"{what}; choose another directory with --data-dir") from error
