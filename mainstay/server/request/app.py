"""The API server, put together from its rooms.

Each room brings its handlers (handlers.py) and what goes on in its background. What a request goes through is in
chain.py; this module knows neither kinds nor paths.
"""

from typing import Final

from mainstay.env import Env
from mainstay.server.auth.authentication import Authenticator
from mainstay.server.auth.handlers import AuthHandlers
from mainstay.server.crd.definitions import Definitions
from mainstay.server.decisions.journal import ServerJournal
from mainstay.server.decisions.service import DecisionService
from mainstay.server.node_proxy.agents import Connector
from mainstay.server.node_proxy.handlers import NodeProxyHandlers
from mainstay.server.placement.handlers import PlacementHandlers
from mainstay.server.placement.placement import Placement
from mainstay.server.request.bodies import Bodies
from mainstay.server.request.handlers import HandlerTable
from mainstay.server.request.pipeline import PipelineOptions, build_pipeline
from mainstay.server.request.served_kinds import build_registry
from mainstay.server.storage.object_storage import ObjectStorage
from mainstay.store.interface import Store

_BY_DEFAULT: Final = PipelineOptions()


class Api:
    """Make one with `await Api.start(store, env, authenticator)`; `answer` is the handler for the HTTP layer."""

    def __init__(
        self,
        env: Env,
        authenticator: Authenticator,
        objects: ObjectStorage,
        placement: Placement,
        journal: ServerJournal | None,
        connector: Connector,
        options: PipelineOptions,
    ) -> None:
        store, self.feed = objects.store, objects.feed
        self.registry = build_registry()
        self.registry.on_removal(objects.end_watches)
        self._objects = objects
        self._placement = placement
        self._definitions = Definitions(store, self.feed, self.registry, env.clock)
        self._decisions = DecisionService(journal, store, self.feed, env)
        handlers, bodies = HandlerTable(), Bodies(self._definitions)
        objects.add_handlers(handlers, bodies, self._definitions)
        self._decisions.add_handlers(handlers)
        PlacementHandlers(store, placement, objects.writes, bodies, env.clock).add_to(handlers)
        AuthHandlers(authenticator, bodies, env.clock).add_to(handlers)
        NodeProxyHandlers(store, self.registry, connector, env.clock).add_to(handlers)
        observer = build_pipeline(store, env, authenticator, self.registry, handlers, self._decisions, options)
        observer.metrics.watched(self.feed.tallies)
        self.answer = observer.answer

    @classmethod
    async def start(
        cls,
        store: Store,
        env: Env,
        authenticator: Authenticator,
        connector: Connector | None = None,
        journal: ServerJournal | None = None,
        options: PipelineOptions = _BY_DEFAULT,
    ) -> "Api":
        """Agents are asked through the connector."""
        placement = Placement(store, env.clock)
        objects = await ObjectStorage.open(store, env, placement.points, placement.committer)
        api = cls(env, authenticator, objects, placement, journal, connector or Connector(), options)
        await objects.start()
        await api._decisions.start()
        await objects.make_namespaces(api.registry)
        await api._definitions.start()
        objects.start_sweeper()
        placement.start()
        return api

    async def stop(self) -> None:
        await self._placement.stop()
        await self._definitions.stop()
        await self._decisions.stop()
        await self._objects.stop()
