"""Routes to the pods of other machines, kept up to date with the Nodes of the cluster.

What is wanted follows from the Nodes alone (routes.py); what is there is read from the kernel each time. So routes that
others removed come back, and those of a Node that is gone go. A node whose own
pods are not reached has the condition `NetworkUnavailable`, for which it is tainted; what is wrong with others is said
in that condition's message, and is theirs to put right.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Final

from mainstay.agent.node.node import NodeCondition
from mainstay.agent.node.routes import NodeRoutes, decide_routes
from mainstay.agent.settings import AgentSettings
from mainstay.api.kind import Object
from mainstay.api.kind_names import NODES
from mainstay.client.client import Client
from mainstay.client.informer import Informers
from mainstay.env import Env, tasks

LOOK_EVERY: Final = timedelta(seconds=30)
_TOGETHER: Final = timedelta(milliseconds=200)
"""Nodes come in groups."""

SetRoutes = Callable[[Mapping[str, str]], Sequence[str]]
"""Have these routes, by network, and none of ours beside them. Blocks. Returns what could not be done. Raises
`OSError`."""

_logger = logging.getLogger(__name__)


class PeerRoutes:
    """The routes of one machine. `run` until cancelled."""

    def __init__(self, client: Client, env: Env, set_routes: SetRoutes, settings: AgentSettings) -> None:
        self.condition: NodeCondition | None = None
        """None: the Nodes are not known yet."""
        self._informers = Informers(client, env)
        self._set = set_routes
        self._settings = settings
        self._changed = asyncio.Event()
        self._worker = tasks.Worker("routes")

    def conditions(self) -> list[NodeCondition]:
        """Of the Node."""
        return [] if self.condition is None else [self.condition]

    async def run(self) -> None:
        nodes = self._informers.get(NODES)
        nodes.subscribe(lambda _: self._changed.set())
        try:
            await nodes.synced()
            while True:
                self._changed.clear()
                await self._set_routes([entry.object() for entry in nodes.cache.entries()])
                try:
                    async with tasks.timeout(LOOK_EVERY):
                        await self._changed.wait()
                    await tasks.sleep(_TOGETHER)
                except TimeoutError:
                    pass
        finally:
            await self._informers.stop()
            self._worker.close()

    async def _set_routes(self, nodes: list[Object]) -> None:
        settings = self._settings
        wanted = decide_routes(nodes, settings.name, settings.pod_cidr, settings.host_address)
        try:
            failed: Sequence[str] = await self._worker.run(self._set, wanted.via)
        except OSError as error:
            failed = [f"routes cannot be read: {error.strerror or error}"]
        condition = _build_condition(wanted, failed)
        if condition != self.condition:
            if wanted.own_problem or wanted.problems or failed:
                _logger.warning("%s: the pod network is not complete: %s", settings.name, condition[3])
            self.condition = condition


def _build_condition(wanted: NodeRoutes, failed: Sequence[str]) -> NodeCondition:
    if own := [*([wanted.own_problem] if wanted.own_problem else ()), *failed]:
        return "NetworkUnavailable", True, "NoRouteCreated", "; ".join(own)
    if wanted.problems:
        return "NetworkUnavailable", False, "RouteCreated", f"some pods are not reached: {'; '.join(wanted.problems)}"
    return "NetworkUnavailable", False, "RouteCreated", f"routes to {len(wanted.via)} other machines"
