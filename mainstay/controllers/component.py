"""All controllers in one process, over shared caches, under one lease: of several processes one acts at a time.

Each can be left out by its name. Loops that are no controllers of one kind (own_loop.py) run under the same term.
"""

from collections.abc import Coroutine, Sequence
from typing import Any, Final

from mainstay.client.client import Client
from mainstay.controllers.all import CONTROLLERS, OWN_LOOPS
from mainstay.controllers.own_loop import Around, OwnLoop
from mainstay.env import Env
from mainstay.runtime.component import Component, ComponentSettings
from mainstay.runtime.controller import Controller
from mainstay.runtime.loop import Recorder
from mainstay.runtime.terms import Term

LEASE: Final = "mainstay-controllers"


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
        name: str = LEASE,
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

    def _beside(self, term: Term | None) -> Sequence[Coroutine[Any, Any, None]]:
        around = Around(self.client, self.informers, self._env, term, self._recorder, self.settings.build, self.events)
        return [each.make(around).run() for each in self._own_loops]
