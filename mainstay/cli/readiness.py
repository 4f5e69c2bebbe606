"""The readiness of a cluster on one machine, read from its API server.

A node is ready when its condition says so *and* its agent has renewed the lease since it started: the condition of
before a power cut is still in the API.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from mainstay.api import times
from mainstay.api.kind_names import LEASES, NODES
from mainstay.api.well_known_labels import ZONE_LABEL
from mainstay.client.client import Client
from mainstay.client.config import BadConfig, Config, from_kubeconfig_file
from mainstay.client.errors import ApiError
from mainstay.client.limits import RETRY, ClientLimits
from mainstay.env import Env, network, tasks

LEASE_NAMESPACE: Final = "kube-node-lease"

ARRIVAL_WITHIN: Final = timedelta(seconds=10)
_LOOK_EVERY: Final = timedelta(milliseconds=50)
_ONCE: Final = ClientLimits(within=timedelta(seconds=3), retry=replace(RETRY, attempts_max=1))


@dataclass(frozen=True, slots=True)
class NodeState:
    name: str
    is_ready: bool
    zone: str
    renewed: datetime | None
    """The last heartbeat of its agent."""


@contextlib.asynccontextmanager
async def connect(kubeconfig: Path, url: str, env: Env) -> AsyncIterator[Client | None]:
    """Make a client of the administrator that does not retry. None while no server listens at `url`.

    While a server moves to another port, the file still has the old one.
    """
    try:
        config = from_kubeconfig_file(kubeconfig)
    except BadConfig:
        yield None
        return
    address = config.addresses[0]
    if config.servers != (url,) or not await is_listening(address.host, address.port):
        yield None
        return
    async with Client(config, env, user_agent="mainstay", limits=_ONCE) as client:
        yield client


async def read_nodes(client: Client) -> Mapping[str, NodeState] | None:
    """Read all nodes, by name. None if the server does not answer."""
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


def find_ready(wanted: Sequence[str], nodes: Mapping[str, NodeState], since: Mapping[str, datetime]) -> list[str]:
    """Find the wanted nodes that are ready. `since` is the start time of each agent."""
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

    A client backs off from a server that does not answer: right for one that has failed, wrong for one that is just
    starting beside it.
    """
    with contextlib.suppress(TimeoutError):
        async with tasks.timeout(at_most):
            while not any([await is_listening(address.host, address.port) for address in config.addresses]):
                await tasks.sleep(_LOOK_EVERY)


async def is_listening(host: str, port: int) -> bool:
    """Whether a server accepts connections there."""
    try:
        async with tasks.timeout(timedelta(seconds=1)):
            transport, _ = await network.connect(asyncio.Protocol, host, port)
    except (OSError, TimeoutError):
        return False
    transport.abort()
    return True


async def check_port(host: str, port: int) -> None:
    """Check that this process may listen there. Raises `OSError`."""
    server = await network.listen(asyncio.Protocol, host, port)
    server.close()
    await server.wait_closed()


async def find_free_port(host: str) -> int:
    """Find a free port. Raises `OSError`."""
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
