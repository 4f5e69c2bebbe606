"""Removing a node: drain it, let its agent leave, revoke its credential, delete what is stored of it.

The agent is told by an annotation on its lease, which it writes every few seconds, and answers in the same place
(cli/node_leave.py). The credential is revoked before the Node is deleted: an agent that is late cannot register again.
A removal that was interrupted goes on where it was when it is repeated.
"""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import click

from mainstay.api import times
from mainstay.api.annotations import LEAVE, LEFT
from mainstay.api.kind import Object
from mainstay.api.kind_names import CSI_NODES, LEASES, NODES
from mainstay.api.system_users import build_node_user
from mainstay.cli.cluster_access import MANAGER, Screen
from mainstay.cli.credential import revoke_user
from mainstay.cli.exits import Exit
from mainstay.cli.node_drain import DrainOptions, drain_node

if TYPE_CHECKING:
    from mainstay.client.client import Client

LEASE_NAMESPACE: Final = "kube-node-lease"
LOOKED_AT_EVERY: Final = timedelta(seconds=1)


async def remove_node(client: "Client", screen: Screen, node: str, *, timeout: timedelta, is_forced: bool) -> int:
    """Do what `mainstay node remove` does. Raises `ApiError`, `click.ClickException`."""
    from mainstay.env import SystemClock

    clock = SystemClock()
    lease = await _find(client, node)
    is_alive = lease is not None and is_renewed(lease, clock.wall())
    if lease is not None and _annotation(lease, LEFT):
        screen.note(f"the agent of node {node} has left already")
    elif is_alive:
        options = DrainOptions(timeout, -1, ignores_daemon_sets=True, deletes_local_data=True, is_forced=is_forced)
        if await drain_node(client, screen, node, options) != Exit.SATISFIED:
            return Exit.TIMEOUT
        if not await _dismiss(client, screen, node, timeout) and not is_forced:
            text = f"the agent of node {node} has not left within {timeout}: see its log, or use --force"
            raise click.ClickException(text)
    elif not is_forced:
        since = "" if lease is None else f" since {(lease.get('spec') or {}).get('renewTime')}"
        raise click.ClickException(
            f"the agent of node {node} does not answer{since}, so nothing on the machine can be cleaned up: start the"
            " agent, or turn the machine off and use --force"
        )
    else:
        await client.get(NODES, node)
        screen.note(
            f"the agent of node {node} does not answer: its pods may still run, until the machine is off. To remove"
            f" what is left there, run on it: mainstay agent --name {node} --clean"
        )
    await revoke_user(client, build_node_user(node), f"node {node} was removed")
    await _delete(client, node)
    screen.say(f"node {node} removed, its credential is revoked")
    return Exit.SATISFIED


def is_renewed(lease: Object, now: datetime) -> bool:
    """Whether its agent has renewed a lease in time."""
    spec = lease.get("spec") or {}
    renewed = spec.get("renewTime")
    if not renewed or spec.get("holderIdentity") != lease["metadata"]["name"]:
        return False
    return now - times.parse_time(renewed) < timedelta(seconds=spec.get("leaseDurationSeconds") or 0)


async def _find(client: "Client", node: str) -> Object | None:
    from mainstay.client.errors import NotFound

    try:
        return await client.get(LEASES, node, LEASE_NAMESPACE)
    except NotFound:
        return None


async def _dismiss(client: "Client", screen: Screen, node: str, timeout: timedelta) -> bool:
    """Let the agent leave. Returns whether it has."""
    from mainstay.client.call import WriteOptions
    from mainstay.env import SystemClock, tasks

    clock = SystemClock()
    body = {"metadata": {"annotations": {LEAVE: times.format_time(clock.wall())}}}
    await client.patch(LEASES, node, LEASE_NAMESPACE, body, write=WriteOptions(field_manager=MANAGER))
    screen.note(f"waiting for the agent of node {node} to clean up its machine")
    until_ns = clock.monotonic_ns() + int(timeout.total_seconds() * 1e9)
    while clock.monotonic_ns() < until_ns:
        lease = await _find(client, node)
        said = "" if lease is None else _annotation(lease, LEFT)
        if said.startswith("incomplete:"):
            screen.note(f"mainstay: on the machine of node {node}: {said}")
            return False
        if lease is None or said:
            return True
        await tasks.sleep(LOOKED_AT_EVERY)
    return False


async def _delete(client: "Client", node: str) -> None:
    from mainstay.client.errors import NotFound

    for kind, namespace in ((NODES, ""), (LEASES, LEASE_NAMESPACE), (CSI_NODES, "")):
        try:
            await client.delete(kind, node, namespace)
        except NotFound:
            continue


def _annotation(lease: Object, name: str) -> str:
    return str((lease["metadata"].get("annotations") or {}).get(name) or "")
