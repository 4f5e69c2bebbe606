"""`mainstay node`: drain nodes, and remove them from the cluster."""

from datetime import timedelta

import click

from mainstay.cli.cluster_access import Command, call_cluster, cluster_options, load_config
from mainstay.cli.durations import Duration
from mainstay.cli.node_drain import DrainOptions, drain_node
from mainstay.cli.node_removal import remove_node


@click.group()
def node() -> None:
    """Drain nodes, and remove them.

    \b
        mainstay node drain worker-2
        mainstay node remove worker-2
    """


@node.command(cls=Command)
@click.argument("name", metavar="NODE")
@click.option("--timeout", type=Duration(), default="10m", show_default=True, metavar="DURATION", help="Give up then")
@click.option("--grace-period", type=int, default=-1, metavar="SECONDS", help="Grace period  [default: of each pod]")
@click.option("--ignore-daemonsets", is_flag=True, help="Leave pods of DaemonSets alone")
@click.option("--delete-emptydir-data", is_flag=True, help="Also evict pods with emptyDir volumes")
@click.option("--force", is_flag=True, help="Also evict pods that nothing recreates")
@cluster_options
def drain(
    name: str,
    timeout: timedelta,
    grace_period: int,
    ignore_daemonsets: bool,
    delete_emptydir_data: bool,
    force: bool,
    kubeconfig: str,
    context: str,
) -> int:
    """Evict the pods of a node.

    \b
        mainstay node drain worker-2
        mainstay node drain worker-2 --ignore-daemonsets --timeout 5m

    The node is cordoned first, so that no new pods come. Evictions respect PodDisruptionBudgets: while one does not
    allow an eviction, the command names it and waits. It returns when the pods are gone. `kubectl uncordon` takes the
    node back into service.
    """
    options = DrainOptions(timeout, grace_period, ignore_daemonsets, delete_emptydir_data, force)
    config = load_config(kubeconfig, context)
    return call_cluster(config, lambda client, screen: drain_node(client, screen, name, options))


@node.command(cls=Command)
@click.argument("name", metavar="NODE")
@click.option("--timeout", type=Duration(), default="10m", show_default=True, metavar="DURATION", help="Give up then")
@click.option("--force", is_flag=True, help="Lose pods, and do without the agent")
@cluster_options
def remove(name: str, timeout: timedelta, force: bool, kubeconfig: str, context: str) -> int:
    """Remove a node from the cluster.

    \b
        mainstay node remove worker-2
        mainstay node remove worker-2 --force

    Drains the node, lets its agent stop and remove everything on the machine, its credential included, then removes the
    Node and revokes the credential. The machine can join again with a new token.

    --force also removes pods that nothing recreates, and a node whose agent does not answer: make sure that the machine
    is off or cut off, because its pods may still run there.
    """
    config = load_config(kubeconfig, context)
    return call_cluster(
        config, lambda client, screen: remove_node(client, screen, name, timeout=timeout, is_forced=force)
    )
