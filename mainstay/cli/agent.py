"""`mainstay agent`: run a node. The options are here, the program is in node_process.py."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from mainstay.cli.address import AddressParam
from mainstay.cli.component_options import log_options
from mainstay.cli.durations import Duration
from mainstay.cli.log_output import set_up_logs
from mainstay.cli.node_options import Capacity, Labels, NodeName, Subnet, Taints


@click.command()
@click.option("--name", type=NodeName(), metavar="NAME", help="Name, or prefix with --count  [default: hostname]")
@click.option(
    "--kubeconfig", default="", metavar="FILE", help="Cluster to use  [default: $KUBECONFIG, else ~/.kube/config]"
)
@click.option(
    "--runner",
    type=click.Choice(["process", "pretend"]),
    default="process",
    show_default=True,
    help="Run real processes or pretend to",
)
@click.option("--count", type=click.IntRange(1, 100_000), metavar="K", help="Pretend K nodes: NAME-0, NAME-1, …")
@click.option("--labels", type=Labels(), default="", metavar="A=B,…", help="Labels of the node")
@click.option("--taints", type=Taints(), default="", metavar="K=V:EFFECT,…", help="Taints of the node when created")
@click.option(
    "--capacity",
    type=Capacity(),
    default="",
    metavar="cpu=4,memory=8Gi,…",
    help="Capacity  [default: that of the machine]",
)
@click.option(
    "--pods-max", type=click.IntRange(1), default=110, show_default=True, metavar="N", help="Limit of pods on the node"
)
@click.option("--zone", default="", metavar="ZONE", help="Label topology.kubernetes.io/zone")
@click.option("--region", default="", metavar="REGION", help="Label topology.kubernetes.io/region")
@click.option(
    "--pod-cidr",
    type=Subnet(),
    default="127.64.0.0/24",
    show_default=True,
    metavar="NETWORK",
    help="Pod addresses, different for each node; outside 127.0.0.0/8: a network that other machines reach",
)
@click.option(
    "--address", default="127.0.0.1", show_default=True, metavar="HOST", help="Host at which servers reach the agent"
)
@click.option(
    "--listen",
    type=AddressParam(),
    default="127.0.0.1:0",
    show_default=True,
    metavar="HOST:PORT",
    help="Address for logs and exec; port 0: a free one",
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, resolve_path=True, path_type=Path),
    metavar="DIR",
    help="Pods and their logs  [default: ~/.local/state/mainstay/agent.NAME]",
)
@click.option(
    "--lease-duration",
    type=Duration(),
    default="40s",
    show_default=True,
    metavar="DURATION",
    help="Time without heartbeat until node is lost",
)
@click.option(
    "--renew-every", type=Duration(), default="10s", show_default=True, metavar="DURATION", help="Heartbeat interval"
)
@click.option(
    "--stopping",
    type=Duration(),
    default="10s",
    show_default=True,
    metavar="DURATION",
    help="Time for at-most-one pods to terminate",
)
@click.option(
    "--start-delay", type=Duration(), default="1s", show_default=True, metavar="DURATION", help="Pretend: start time"
)
@click.option(
    "--stop-delay", type=Duration(), default="500ms", show_default=True, metavar="DURATION", help="Pretend: stop time"
)
@click.option(
    "--failure-rate",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    metavar="RATE",
    help="Pretend: share of failing containers",
)
@click.option(
    "--journal/--no-journal", default=True, show_default=True, help="Record decisions in the server's journal"
)
@log_options
def agent(
    name: str | None,
    kubeconfig: str,
    runner: str,
    count: int | None,
    lease_duration: timedelta,
    renew_every: timedelta,
    stopping: timedelta,
    data_dir: Path | None,
    log_format: str,
    verbose: int,
    **rest: Any,
) -> None:
    """Run a node.

    \b
        mainstay agent --name node-1 --kubeconfig credentials.yaml
        mainstay agent --name fleet --runner pretend --count 1000

    Containers are processes of this machine: `command` in the pod names the program, there are no images. They survive
    the agent; the next agent with the same data directory adopts them.

    An agent that cannot reach its server terminates pods with the annotation mainstay.dev/at-most-one before its lease
    expires, so that they never run on two nodes. --lease-duration, --renew-every and --stopping set when that is.
    """
    from mainstay.cli.node_process import run_node
    from mainstay.env import machine
    from mainstay.loop.fencing import LeaseTimes

    set_up_logs(log_format, verbose)
    machine.keep_files_private()
    if count is not None and runner != "pretend":
        raise click.UsageError("--count requires --runner pretend")
    try:
        lease = LeaseTimes(duration=lease_duration, renew_every=renew_every, stopping=stopping)
    except ValueError as error:
        raise click.UsageError(f"invalid --lease-duration, --renew-every or --stopping: {error}") from None
    run_node(kubeconfig, data_dir, name=name or "", runner=runner, count=count, lease=lease, **rest)
