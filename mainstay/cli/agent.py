"""`mainstay agent`: run a node. The options are here, the program is in node_process.py."""

import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mainstay.cli.address import AddressParam
from mainstay.cli.component_options import log_options
from mainstay.cli.durations import Duration
from mainstay.cli.log_output import set_up_logs
from mainstay.cli.node_options import Capacity, Labels, NodeName, Subnet, Taints

if TYPE_CHECKING:
    from mainstay.cli.node_join import JoinOptions


def _parse_join(
    url: str, token: str, hashes: tuple[str, ...], kubeconfig: str, count: int | None
) -> "JoinOptions | None":
    from mainstay.cli.node_join import JoinOptions
    from mainstay.client.config import BadConfig, parse_address

    if not url:
        if token or hashes:
            raise click.UsageError("missing option --join: the URL of the API server")
        return None
    if kubeconfig or count is not None:
        raise click.UsageError("--join excludes --kubeconfig and --count: remove them")
    if re.fullmatch(r"[a-z0-9]{6}\.[a-z0-9]{16}", token) is None:
        raise click.UsageError("--token must have the form abcdef.0123456789abcdef (`mainstay token create` makes one)")
    for each in hashes:
        if re.fullmatch(r"sha256:[0-9a-fA-F]{64}", each) is None:
            raise click.UsageError(f"--ca-hash {each!r} must have the form sha256:… with 64 hexadecimal digits")
    if not hashes:
        raise click.UsageError("missing option --ca-hash: without it any server could take the token")
    try:
        parse_address(url)
    except BadConfig as error:
        raise click.UsageError(f"--join: {error}") from None
    return JoinOptions(url.rstrip("/"), token, hashes)


@click.command()
@click.option("--name", type=NodeName(), metavar="NAME", help="Name, or prefix with --count  [default: hostname]")
@click.option(
    "--kubeconfig", default="", metavar="FILE", help="Cluster to use  [default: $KUBECONFIG, else ~/.kube/config]"
)
@click.option("--join", default="", metavar="URL", help="Join the cluster of this API server, once")
@click.option("--token", default="", metavar="TOKEN", help="Token of `mainstay token create`")
@click.option("--ca-hash", "hashes", multiple=True, metavar="sha256:…", help="Hash of the cluster's CA, with the token")
@click.option("--clean", is_flag=True, help="Remove what a stopped agent has left, and end")
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
    help="Addresses of pods; not 127/8: for all nodes",
)
@click.option(
    "--address",
    default="",
    metavar="HOST",
    help="Host at which servers reach the agent  [default: 127.0.0.1; after --join, that towards the server]",
)
@click.option(
    "--listen",
    type=AddressParam(),
    metavar="HOST:PORT",
    help="Address for logs and exec; port 0: a free one  [default: port 0 of --address]",
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
    join: str,
    token: str,
    hashes: tuple[str, ...],
    clean: bool,
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
        mainstay agent --join https://10.0.0.1:6443 --token … --ca-hash sha256:…

    --join makes this machine a node, with a token of `mainstay token create`. The credential that it gets is stored in
    the data directory and renews itself: later starts need neither token nor kubeconfig. --clean ends the pods of a
    stopped agent and removes its files, mounts, cgroups, network links and credential.

    Containers are processes of this machine: `command` in the pod names the program, there are no images. They survive
    the agent; the next agent with the same data directory adopts them.

    An agent that cannot reach its server terminates pods with the annotation mainstay.dev/at-most-one before its lease
    expires, so that they never run on two nodes. --lease-duration, --renew-every and --stopping set when that is.
    """
    from mainstay.cli.node_leave import clean_node
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
    if clean:
        clean_node(data_dir, name or "")
        return
    joining = _parse_join(join, token, hashes, kubeconfig, count)
    run_node(kubeconfig, data_dir, joining, name=name or "", runner=runner, count=count, lease=lease, **rest)
