"""How far a cluster on one machine has come, asked of its API server.

A node is up when it says that it is ready *and* has renewed its lease since its agent was started: what it said in an
earlier life stays in the API when the machine is switched off.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from mainstay.api import times
from mainstay.api.kind_name import KindName
from mainstay.api.well_known_labels import ZONE_LABEL
from mainstay.client.client import Client
from mainstay.client.config import BadConfig, Config, from_kubeconfig_file
from mainstay.client.errors import ApiError
from mainstay.client.limits import RETRY, Limits
from mainstay.env import Env, network, tasks

NODES: Final = KindName("", "v1", "Node", "nodes", False)
LEASES: Final = KindName("coordination.k8s.io", "v1", "Lease", "leases", True)
LEASE_NAMESPACE: Final = "kube-node-lease"

ARRIVAL_WITHIN: Final = timedelta(seconds=10)
_LOOK_EVERY: Final = timedelta(milliseconds=50)
_ONCE: Final = Limits(within=timedelta(seconds=3), retry=replace(RETRY, attempts_max=1))


@dataclass(frozen=True, slots=True)
class NodeState:
    name: str
    is_ready: bool
    zone: str
    renewed: datetime | None
    """When its agent last said that it is alive."""


@contextlib.asynccontextmanager
async def asking(kubeconfig: Path, url: str, env: Env) -> AsyncIterator[Client | None]:
    """A client for the administrator, that asks once and does not insist. None while there is no server to ask there.

    While a server moves to another port, the file still says the old one.
    """
    try:
        config = from_kubeconfig_file(kubeconfig)
    except BadConfig:
        yield None
        return
    address = config.addresses[0]
    if config.servers != (url,) or not await is_taken(address.host, address.port):
        yield None
        return
    async with Client(config, env, user_agent="mainstay", limits=_ONCE) as client:
        yield client


async def nodes_of(client: Client) -> Mapping[str, NodeState] | None:
    """All nodes, by name. None if the server cannot say for now."""
    try:
        nodes = (await client.list(NODES)).items
        leases = (await client.list(LEASES, LEASE_NAMESPACE)).items
    except ApiError:
        return None
    renewed = {lease["metadata"]["name"]: _renewed(lease) for lease in leases}
    return {
        name: NodeState(name, _is_ready(node), _zone(node), renewed.get(name))
        for node in nodes
        for name in [node["metadata"]["name"]]
    }


def are_up(wanted: Sequence[str], nodes: Mapping[str, NodeState], since: Mapping[str, datetime]) -> list[str]:
    """Those of the wanted nodes that are up. `since` is when the agent of each was started."""
    found = []
    for name in wanted:
        node, started = nodes.get(name), since.get(name)
        if node is None or started is None or node.renewed is None:
            continue
        if node.is_ready and node.renewed >= started:
            found.append(name)
    return found


async def wait_for_server(config: Config, at_most: timedelta = ARRIVAL_WITHIN) -> None:
    """Wait until one of the servers listens, but no longer than this.

    A client that asks in vain leaves a server alone for longer and longer, which is right for one that has failed, and
    wrong for one that is just being started beside it.
    """
    with contextlib.suppress(TimeoutError):
        async with tasks.timeout(at_most):
            while not any([await is_taken(address.host, address.port) for address in config.addresses]):
                await tasks.sleep(_LOOK_EVERY)


async def is_taken(host: str, port: int) -> bool:
    """Whether somebody listens there."""
    try:
        async with tasks.timeout(timedelta(seconds=1)):
            transport, _ = await network.connect(asyncio.Protocol, host, port)
    except (OSError, TimeoutError):
        return False
    transport.abort()
    return True


async def a_free_port(host: str) -> int:
    """One on which nobody listens at the moment. Raises `OSError`."""
    server = await network.listen(asyncio.Protocol, host, 0)
    port: int = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return port


def _is_ready(node: Mapping[str, Any]) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def _zone(node: Mapping[str, Any]) -> str:
    labels = node["metadata"].get("labels") or {}
    zone: str = labels.get(ZONE_LABEL, "")
    return zone


def _renewed(lease: Mapping[str, Any]) -> datetime | None:
    text = (lease.get("spec") or {}).get("renewTime") or ""
    with contextlib.suppress(ValueError):
        return times.parse_time(text)
    return None
