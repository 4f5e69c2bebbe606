"""A component: controllers that run together in one process, over shared caches, led by one of several processes.

Controllers without a lease run at once; with one they run only while this process holds it, and everything they write
carries the term. Either way the caches are kept filled, so that a new leader need not begin with reading everything.
Beside controllers, which decide per key, a component runs loops on other schedules (kernel.py).
"""

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from mainstay.api.feature_gates import DEFAULT_GATES, FeatureGates
from mainstay.client.client import Client
from mainstay.client.informer import Informers
from mainstay.env import Env, tasks, vital
from mainstay.loop.component_state import ComponentState, PublishSettings, start_publishing
from mainstay.loop.controller import Controller
from mainstay.loop.controller_loop import ControllerLoop, LoopSettings
from mainstay.loop.events import EventRecorder
from mainstay.loop.holds import Holding
from mainstay.loop.kernel import Loop, LoopContext, LoopSpec
from mainstay.loop.lease import Leader, LeaseSettings
from mainstay.loop.queue.items import Figures
from mainstay.loop.queue_settings import LiveQueueSettings
from mainstay.loop.record import Recorder
from mainstay.loop.term import Term

LEASE_NAMESPACE = "kube-system"
CONTROLLERS_LEASE = "mainstay-controllers"
SCHEDULER_LEASE = "mainstay-scheduler"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentSettings:
    loop: LoopSettings = field(default_factory=LoopSettings)
    lease: LeaseSettings = field(default_factory=LeaseSettings)
    publish: PublishSettings = field(default_factory=PublishSettings)
    build: str = ""
    gates: FeatureGates = DEFAULT_GATES
    has_events: bool = False
    """Whether people are told of what is done, as Events. Programs do so (`main.run`); tests count writes."""
    is_operated: bool = False
    """Whether its queues follow ControllerSettings, and their figures are published. Programs do so."""
    impersonates: bool = True
    """Whether each controller of the cluster itself acts as a user of its own (controllers/component.py)."""


class Component:
    """`run` until cancelled."""

    role: str = ""
    """What part of the control plane it is, if it is one."""

    def __init__(
        self,
        name: str,
        controllers: Sequence[Controller | LoopSpec],
        client: Client,
        env: Env,
        *,
        instance: str = "",
        elected: bool = True,
        settings: ComponentSettings | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        """With `elected`, several processes may run a component of this name, and one of them at a time acts.

        `instance` tells them apart: the machine's name, for example. It stays the same when a process restarts.
        """
        self.name = name
        self.instance = instance or name
        self.identity = f"{self.instance}_{env.chance.uid('identity', 0)}"
        self.settings = settings or ComponentSettings()
        self.informers = Informers(client, env)
        self.term: Term | None = None
        self.loops: list[Loop] = []
        self._controllers = controllers
        self.client = client
        self._env = env
        self._is_elected = elected
        self._recorder = recorder
        self.events = EventRecorder(client, env.clock, name, self.instance) if self.settings.has_events else None
        self._queue_settings = (
            LiveQueueSettings(client, self.informers, self.settings.loop.queue) if self.settings.is_operated else None
        )
        self.holding = Holding(
            client, self.informers, env, recorder=recorder, build=self.settings.build, events=self.events
        )

    async def run(self) -> None:
        """Raises what a controller's loop raises: a cache that cannot be fed any more, a bug."""
        # Asked for now, so that they fill while this process is only a candidate.
        self.loops = self._controller_loops(None)
        publishing = start_publishing(self.instance, self.state, self.client, self._env, self.settings.publish)
        following = None
        if self._queue_settings is not None:
            following = vital.spawn(self._queue_settings.follow(), name="queue-settings", may_end=True)
        telling = None if self.events is None else self.events.start()
        try:
            if not self._is_elected:
                await self._lead(None)
                return
            leader = Leader(self.client, self._env, LEASE_NAMESPACE, self.name, self.identity, self.settings.lease)
            await leader.run(self._lead)
        finally:
            await tasks.stop(publishing)
            if following is not None:
                await tasks.stop(following)
            if telling is not None:
                await tasks.stop(telling)
            self.holding.close()
            await self.informers.stop()

    def state(self) -> ComponentState:
        revisions = {informer.cache.kind.text: informer.cache.revision for informer in self.informers.all()}
        term = self.term.text if self.term is not None else ""
        return ComponentState(
            revisions,
            self.settings.build,
            self.settings.gates.all,
            term=term,
            controllers=self.holding.gates,
            queues=self._measure_queues() if self.settings.is_operated and self.is_leading else {},
            errors={loop.kernel.name: loop.kernel.counters.errors_in_a_row for loop in self.loops},
            role=self.role,
        )

    def _measure_queues(self) -> dict[str, Figures]:
        queues = [loop.kernel.queue for loop in self.loops]
        return {queue.name: queue.figures() for queue in queues if queue is not None}

    @property
    def is_leading(self) -> bool:
        return self.term is not None or not self._is_elected

    async def _lead(self, term: Term | None) -> None:
        self.term = term
        specs = [each for each in self._controllers if isinstance(each, LoopSpec)]
        self.loops = [*self._controller_loops(term), *[each.make(self._context(each.name, term)) for each in specs]]
        try:
            works = [*(loop.run() for loop in self.loops), *self._beside()]
            await tasks.together(works, name=f"{self.name} controller")
        finally:
            self.term = None

    def _beside(self) -> Sequence[Coroutine[Any, Any, None]]:
        """What else runs while this process leads."""
        return ()

    def client_for(self, controller: str) -> Client:
        """By which a controller writes. What is in its caches comes by the client of the component."""
        return self.client

    def _context(self, controller: str, term: Term | None) -> LoopContext:
        client, build = self.client_for(controller), self.settings.build
        return LoopContext(
            client,
            self.informers,
            self._env,
            term,
            self._recorder,
            build,
            self.events,
            self.holding,
            self._queue_settings,
            self.settings.gates,
        )

    def _controller_loops(self, term: Term | None) -> list[Loop]:
        controllers = [each for each in self._controllers if isinstance(each, Controller)]
        return [ControllerLoop(each, self._context(each.name, term), self.settings.loop) for each in controllers]
