"""Handlers of what only agents can answer: streams of pods, and what nodes and pods use."""

from mainstay.api import kind_names
from mainstay.api.errors import StatusError, StatusReason
from mainstay.api.kind import ANY_SUBRESOURCE
from mainstay.api.kinds import metrics as usage_kinds
from mainstay.env import Clock
from mainstay.http.messages import Answer
from mainstay.server.node_proxy.agents import Connector
from mainstay.server.node_proxy.pod_metrics import PodMetricReads
from mainstay.server.node_proxy.pod_streams import PARTS, PodStreams
from mainstay.server.node_proxy.usage import UsageReads
from mainstay.server.request.handlers import HandlerTable, ResourceCall, serve
from mainstay.server.request.served_kinds import Registry
from mainstay.server.request.target import Verb, method_not_allowed
from mainstay.server.storage.read_handlers import ReadHandlers
from mainstay.store.interface import Store


class NodeProxyHandlers:
    def __init__(self, store: Store, registry: Registry, connector: Connector, clock: Clock) -> None:
        usage = UsageReads(store, clock, connector)
        self._metrics = PodMetricReads(store, connector)
        self._streams = PodStreams(store, registry.require(kind_names.NODES), connector)
        self._usage = ReadHandlers(lambda user: usage, clock)

    def add_to(self, table: HandlerTable) -> None:
        for part in PARTS:
            table.add(kind_names.PODS, part, serve((Verb.GET, Verb.CREATE), self.stream))
        proxied = (Verb.GET, Verb.CREATE, Verb.UPDATE, Verb.PATCH, Verb.DELETE)
        table.add(kind_names.PODS, "proxy", serve(proxied, self.refuse_pod_proxy))
        table.add(None, "proxy", serve(proxied, self.refuse_proxy))
        metrics = usage_kinds.POD_CUSTOM_METRICS.reference
        table.add(metrics, ANY_SUBRESOURCE, serve((Verb.GET,), self._metrics.answer))
        for kind in (usage_kinds.NODE_METRICS, usage_kinds.POD_METRICS):
            handlers = serve((Verb.GET,), self._usage.get) | serve((Verb.LIST,), self._usage.list)
            table.add(kind.reference, "", handlers)

    async def stream(self, asked: ResourceCall) -> Answer:
        return await self._streams.answer(asked.request, asked.target, asked.options)

    async def refuse_pod_proxy(self, asked: ResourceCall) -> Answer:
        await self._streams.require_pod(asked.target)
        raise StatusError(501, StatusReason.METHOD_NOT_ALLOWED, "pods/proxy is not served here", {})

    async def refuse_proxy(self, asked: ResourceCall) -> Answer:
        raise method_not_allowed()
