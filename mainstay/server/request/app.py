"""The API server, put together from its rooms.

Each room brings its handlers (handlers.py) and what goes on in its background. What a request goes through is in
chain.py; this module knows neither kinds nor paths.
"""

from dataclasses import replace
from typing import Final

from mainstay.api.kind_names import COMPONENT_STATES, CONFIG_MAPS, NAMESPACES
from mainstay.api.pod_security_checks import SecurityLevel
from mainstay.env import Env
from mainstay.env.health import Health
from mainstay.server.auth.authentication import Authenticator
from mainstay.server.auth.credential_service import NO_AUTHORITY, ClusterAuthority, CredentialService
from mainstay.server.auth.handlers import AuthHandlers
from mainstay.server.auth.node_restriction import NodeRestriction
from mainstay.server.crd.definitions import Definitions
from mainstay.server.decisions.journal import ServerJournal
from mainstay.server.decisions.service import DecisionService
from mainstay.server.flow.configuration import FlowConfiguration
from mainstay.server.health_checks import add_feed_check
from mainstay.server.node_proxy.agents import Connector
from mainstay.server.node_proxy.handlers import NodeProxyHandlers
from mainstay.server.placement.handlers import PlacementHandlers
from mainstay.server.placement.placement import Placement
from mainstay.server.policies.published_state import PublishedState
from mainstay.server.rbac.access_control import AccessControl
from mainstay.server.request.bodies import Bodies
from mainstay.server.request.handlers import HandlerTable
from mainstay.server.request.large_work import LargeWork
from mainstay.server.request.pipeline import PipelineOptions, build_pipeline
from mainstay.server.request.served_kinds import build_registry
from mainstay.server.services.api_service import ApiService, ServerEndpoint
from mainstay.server.storage.account_admission import PodAccounts
from mainstay.server.storage.first_namespaces import make_first_namespaces
from mainstay.server.storage.namespace_contents import NamespacePoint
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
        access: AccessControl,
        journal: ServerJournal | None,
        connector: Connector,
        options: PipelineOptions,
    ) -> None:
        store, self.feed = objects.store, objects.feed
        self.registry = build_registry()
        self.registry.on_removal(objects.end_watches)
        objects.policies.inputs.kinds = self.registry
        self._objects = objects
        self._authenticator = authenticator
        self.credentials = CredentialService(objects.store, env.clock, authenticator.revocations)
        self._clock = env.clock
        self._service: ApiService | None = None
        self._state: PublishedState | None = None
        self._large = LargeWork(has_helper=options.has_processes)
        options = replace(options, large=self._large)
        self._placement = placement
        self._access = access
        authorizers = access.authorizers
        self._definitions = Definitions(store, self.feed, self.registry, env.clock)
        self._decisions = DecisionService(journal, store, self.feed, env, authorizers)
        handlers, bodies = HandlerTable(), Bodies(self._definitions, self._large)
        objects.add_handlers(handlers, bodies, self._definitions, authorizers)
        access.roles.add_handlers(handlers)
        self._decisions.add_handlers(handlers)
        PlacementHandlers(store, placement, objects.writes, bodies, env.clock).add_to(handlers)
        restriction = NodeRestriction(store, access.nodes.bindings.index)
        AuthHandlers(authenticator, authorizers, restriction, bodies, env.clock).add_to(handlers)
        self._connector = connector
        NodeProxyHandlers(store, self.registry, connector, env.clock).add_to(handlers)
        observer = build_pipeline(store, env, authenticator, access, self.registry, handlers, self._decisions, options)
        observer.metrics.watched(self.feed.tallies)
        self.answer = observer.answer
        self._flow = FlowConfiguration(observer.flow.configure)

    @classmethod
    async def start(
        cls,
        store: Store,
        env: Env,
        authenticator: Authenticator,
        connector: Connector | None = None,
        journal: ServerJournal | None = None,
        options: PipelineOptions = _BY_DEFAULT,
        security: SecurityLevel = SecurityLevel.BASELINE,
        authority: ClusterAuthority = NO_AUTHORITY,
    ) -> "Api":
        """Agents are asked through the connector. `security` is what namespaces enforce that do not say. Pods, and
        machines that join, check the server with the certificates of `authority`."""
        with (options.health or Health(env.clock)).active() as health:
            access = AccessControl()
            points = access.build_commit_points(store, env, authority.signer)
            points["", "Namespace"] = (NamespacePoint(env, authority.authorities),)
            placement = Placement(store, env.clock, points)
            accounts = PodAccounts(store, has_ca=bool(authority.authorities))
            objects = await ObjectStorage.open(store, env, placement.points, placement.committer, security, accounts)
            api = cls(env, authenticator, objects, placement, access, journal, connector or Connector(), options)
            api.credentials.authorities = authority.authorities
            add_feed_check(health, store, api.feed)
            await api._start(env)
            return api

    async def _start(self, env: Env) -> None:
        objects = self._objects
        await objects.start()
        await self._decisions.start()
        await make_first_namespaces(objects.writes, self.registry.require(NAMESPACES))
        await self.credentials.start(objects.feed)
        await self._access.roles.start(objects.store, objects.feed, objects.writes, env)
        await self._flow.start(objects.store, objects.feed, env)
        await self._access.nodes.bindings.start(objects.store, objects.feed)
        await self._definitions.start()
        await objects.repair(self.registry)
        objects.start_sweeper()
        self._placement.start()

    async def advertise(self, host: str, port: int, url: str, digest: str = "", token: str = "") -> None:
        """Let others find this server, which listens at this address and shows the certificate of this digest: keep the
        Service `kubernetes`, and ask its peers what they have collected. Without TLS, peers know it by the token."""
        if self._authenticator.discovery is not None:
            self._authenticator.discovery.url = url
        endpoint = ServerEndpoint(host, port, digest)
        service = ApiService(self._objects.store, self._objects.writes, self.registry, self._clock, endpoint)
        self._service = service
        await service.start()
        if self._objects.store.local is None:
            self._decisions.join(service.find_peers, lambda: self._connector.tls, token)
        await self.credentials.publish(self._objects.writes, self.registry.require(CONFIG_MAPS), url)

    def show_certificate(self, digest: str) -> None:
        """Let peers know that this server shows another certificate from now on."""
        if self._service is not None:
            self._service.show(digest)

    def publish_state(self, name: str) -> None:
        """Keep a ComponentState of this server, under a name that no other one has."""
        objects = self._objects
        kind = self.registry.require(COMPONENT_STATES)
        self._state = PublishedState(name, objects, kind, self._clock)
        self._state.start()

    async def stop(self) -> None:
        if self._state is not None:
            await self._state.stop()
        if self._service is not None:
            await self._service.stop()
        await self._placement.stop()
        await self._definitions.stop()
        await self._decisions.stop()
        await self._flow.stop()
        await self._access.nodes.bindings.stop()
        await self._access.roles.stop()
        await self.credentials.stop()
        await self._objects.stop()
        self._large.close()
