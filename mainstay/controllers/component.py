"""All controllers in one process, over shared caches, under one lease: of several processes one acts at a time.

Each can be left out by its name. Loops that are no controllers of one kind (loop/periodic.py) run under the same term.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from mainstay.api.kind_names import PODS
from mainstay.client.client import Client
from mainstay.client.informer import Informer
from mainstay.client.pump import Collection
from mainstay.controllers.pods.stage_durations import StageDurations
from mainstay.controllers.registry import CONTROLLERS, OWN_LOOPS
from mainstay.env import Env
from mainstay.loop.component import CONTROLLERS_LEASE, Component, ComponentSettings
from mainstay.loop.controller import Controller
from mainstay.loop.controller_loop import Recorder
from mainstay.loop.periodic import Around, OwnLoop
from mainstay.loop.term import Term


class UnknownController(Exception):
    """There is none of this name."""


def chosen(only: Sequence[str] = (), without: Sequence[str] = ()) -> tuple[tuple[Controller, ...], tuple[OwnLoop, ...]]:
    """The controllers and loops of these names, or all, but not those. Raises `UnknownController`."""
    names = [*(each.name for each in CONTROLLERS), *(each.name for each in OWN_LOOPS)]
    for name in (*only, *without):
        if name not in names:
            raise UnknownController(f"there is no controller {name!r}; there are {', '.join(sorted(names))}")

    def is_chosen(name: str) -> bool:
        return (not only or name in only) and name not in without

    controllers = tuple([each for each in CONTROLLERS if is_chosen(each.name)])
    return controllers, tuple([each for each in OWN_LOOPS if is_chosen(each.name)])


class Controllers(Component):
    """`run` until cancelled."""

    def __init__(
        self,
        client: Client,
        env: Env,
        *,
        name: str = CONTROLLERS_LEASE,
        instance: str = "controllers",
        controllers: Sequence[Controller] = CONTROLLERS,
        own_loops: Sequence[OwnLoop] = OWN_LOOPS,
        elected: bool = True,
        settings: ComponentSettings | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        """`name` is the lease; `instance` tells several processes apart, and stays when one of them starts anew."""
        super().__init__(
            name, controllers, client, env, instance=instance, elected=elected, settings=settings, recorder=recorder
        )
        self._own_loops = own_loops
        self.stages = StageDurations(env.clock)

    def _beside(self, term: Term | None) -> Sequence[Coroutine[Any, Any, None]]:
        around = Around(
            self.client,
            self.informers,
            self._env,
            term,
            self._recorder,
            self.settings.build,
            self.events,
            self.holding,
        )
        works = [each.make(around).run() for each in self._own_loops]
        # Only if they are in a cache anyway.
        pods = [informer for informer in self.informers.all() if informer.collection == Collection(PODS)]
        return [*works, *[self._measure(informer) for informer in pods]]

    async def _measure(self, pods: Informer) -> None:
        pods.subscribe(self.stages.changed)
        try:
            await asyncio.Event().wait()
        finally:
            pods.unsubscribe(self.stages.changed)
