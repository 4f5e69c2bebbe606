"""All controllers in one process, over shared caches, under one lease: of several processes one acts at a time.

Each can be left out by its name. Each acts as a user of its own, with the rights that it needs (server/rbac/): the
process impersonates it, by the same connections. Controllers of others act as the user of the process.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Final

from mainstay.api.component_roles import ComponentRole
from mainstay.api.kind_names import NODES, PODS
from mainstay.api.system_users import build_controller_user
from mainstay.client.client import Client
from mainstay.client.indexes import NODE, REGION, ZONE
from mainstay.client.informer import Informer
from mainstay.client.join import Join
from mainstay.client.pump import Collection
from mainstay.controllers.pods.stage_durations import StageDurations
from mainstay.controllers.registry import CONTROLLERS, LOOPS
from mainstay.env import Env
from mainstay.loop.component import CONTROLLERS_LEASE, Component, ComponentSettings
from mainstay.loop.controller import Controller
from mainstay.loop.kernel import LoopSpec
from mainstay.loop.record import Recorder

_OURS: Final = frozenset([*(each.name for each in CONTROLLERS), *(each.name for each in LOOPS)])


class UnknownController(Exception):
    """There is none of this name."""


def chosen(
    only: Sequence[str] = (), without: Sequence[str] = ()
) -> tuple[tuple[Controller, ...], tuple[LoopSpec, ...]]:
    """The controllers and loops of these names, or all, but not those. Raises `UnknownController`."""
    names = [*(each.name for each in CONTROLLERS), *(each.name for each in LOOPS)]
    for name in (*only, *without):
        if name not in names:
            raise UnknownController(f"unknown controller {name!r}: use one of {', '.join(sorted(names))}")

    def is_chosen(name: str) -> bool:
        return (not only or name in only) and name not in without

    controllers = tuple([each for each in CONTROLLERS if is_chosen(each.name)])
    return controllers, tuple([each for each in LOOPS if is_chosen(each.name)])


class Controllers(Component):
    """`run` until cancelled."""

    role = ComponentRole.CONTROLLERS

    def __init__(
        self,
        client: Client,
        env: Env,
        *,
        name: str = CONTROLLERS_LEASE,
        instance: str = "controllers",
        controllers: Sequence[Controller] = CONTROLLERS,
        loops: Sequence[LoopSpec] = LOOPS,
        elected: bool = True,
        settings: ComponentSettings | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        """`name` is the lease; `instance` tells several processes apart, and stays when one of them restarts."""
        super().__init__(
            name,
            [*controllers, *loops],
            client,
            env,
            instance=instance,
            elected=elected,
            settings=settings,
            recorder=recorder,
        )
        self.stages = StageDurations(env.clock)
        self.pods_by_node: Join | None = None
        """To find pods by zone and region, while it leads. None unless both pods and nodes are in a cache."""

    def client_for(self, controller: str) -> Client:
        if not self.settings.impersonates or controller not in _OURS:
            return self.client
        return self.client.act_as(build_controller_user(controller))

    def _beside(self) -> Sequence[Coroutine[Any, Any, None]]:
        # Only if they are in a cache anyway.
        found = {informer.collection: informer for informer in self.informers.all()}
        pods, nodes = found.get(Collection(PODS)), found.get(Collection(NODES))
        if pods is None:
            return ()
        if nodes is not None:
            pods.cache.add_indexes((NODE,))
            nodes.cache.add_indexes((ZONE, REGION))
            self.pods_by_node = Join(pods.cache, NODE, nodes.cache)
        return [self._measure(pods)]

    async def _measure(self, pods: Informer) -> None:
        pods.subscribe(self.stages.changed)
        try:
            await asyncio.Event().wait()
        finally:
            pods.unsubscribe(self.stages.changed)
            self.pods_by_node = None
