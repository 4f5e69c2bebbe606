"""What an agent does when its node is removed from the cluster, and `mainstay agent --clean` for one that could not.

First everything stops and is removed that pods have, then the agent says so in its lease, and last it removes its own
files, the credential among them. A file says that the node was removed, so that a supervisor which starts the agent
again gets a clear error instead of a new node.
"""

import os
from pathlib import Path

import click

from mainstay.agent.credential_file import LEFT_FILE
from mainstay.agent.runner import CannotRun
from mainstay.api import times
from mainstay.api.annotations import LEFT
from mainstay.api.kind_names import LEASES
from mainstay.cli.readiness import LEASE_NAMESPACE
from mainstay.client.client import Client
from mainstay.env import Chance, Env, SystemClock, SystemDisk, disk, machine, tasks
from mainstay.http.certificates import write_whole


def find_directory(data_dir: Path | None, node: str) -> Path:
    """The data directory of an agent."""
    return data_dir or machine.state_dir(os.environ) / f"agent.{node}"


def clean_node(data_dir: Path | None, name: str) -> None:
    """Remove what a stopped agent has left on this machine. Raises `click.ClickException`."""
    directory = find_directory(data_dir, name or machine.hostname().lower())
    if not disk.is_directory(directory):
        click.echo(f"mainstay: nothing to clean: {directory} does not exist")
        return
    from mainstay.agent.runners.process.cleanup import clean_machine

    try:
        found = tasks.run(clean_machine(directory))
        if found.left:
            raise click.ClickException("not everything could be removed: " + "; ".join(found.left))
        forget_cluster(directory, Env(SystemClock(), Chance.fresh(), SystemDisk(directory)))
    except CannotRun as error:
        raise click.ClickException(f"{error}: stop that agent first") from error
    pods = f"{found.pods} {'pod' if found.pods == 1 else 'pods'}"
    click.echo(f"mainstay: ended {found.ended} containers, removed {pods} and the credential in {directory}")


def forget_cluster(directory: Path, env: Env) -> None:
    """The last thing that a node does which was removed: what it has of the cluster goes."""
    from mainstay.agent.runners.process.cleanup import remove_files

    env.disk.close()
    left = remove_files(directory, LEFT_FILE)
    write_whole(env.disk, LEFT_FILE, b"this node was removed from its cluster\n")
    env.disk.close()
    if left:
        raise click.ClickException(f"could not remove {', '.join(left)}")


async def leave_cluster(client: Client, env: Env, directory: Path, node: str) -> bool:
    """Stop everything, and say so. Returns whether nothing is left but the files of the agent."""
    from mainstay.agent.runners.process.cleanup import clean_machine

    click.echo(f"mainstay agent {node}: leaving the cluster: stopping pods")
    found = await clean_machine(directory)
    shown = "; ".join(found.left) or times.format_time(env.clock.wall())
    annotations = {LEFT: f"incomplete: {shown}" if found.left else shown}
    await client.patch(LEASES, node, LEASE_NAMESPACE, {"metadata": {"annotations": annotations}})
    if found.left:
        raise click.ClickException(f"this node cannot leave the cluster: {shown}")
    click.echo(f"mainstay agent {node}: left the cluster")
    return True
