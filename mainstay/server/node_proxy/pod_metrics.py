"""Metrics that pods serve themselves: `custom.metrics.k8s.io`, asked of the agents of their nodes, which ask the pods.

    GET …/namespaces/NAMESPACE/pods/NAME/METRIC        NAME may be *, for all that `labelSelector` selects
        ?labelSelector=app=web&metricLabelSelector=queue=a

The answer is a MetricValueList, as adapters for Prometheus give it. Pods of which nothing is known are not in it; if
that are all, the metric is not found. Nothing is stored. How pods take part: agent/serve/pod_metrics.py.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import msgspec

from mainstay.api import labels
from mainstay.api.errors import StatusError, StatusReason
from mainstay.api.json_values import UNREADABLE
from mainstay.api.kind import Object
from mainstay.api.kinds.metrics import POD_CUSTOM_METRICS
from mainstay.api.quantity import Quantity
from mainstay.env import tasks
from mainstay.http.messages import Answer
from mainstay.http.outgoing import ExchangeBroken
from mainstay.server.node_proxy.agents import Connector, find_address
from mainstay.server.request.answers import answer_json
from mainstay.server.request.handlers import ResourceCall
from mainstay.server.request.target import RequestTarget
from mainstay.server.storage.keyspace import CORE
from mainstay.store.interface import Store

ANY: Final = "*"
ASKED_AT_ONCE: Final = 32
ANSWERED_WITHIN: Final = timedelta(seconds=4)
ANSWER_BYTES_MAX: Final = 1024 * 1024
PODS_AT_ONCE: Final = 100
"""That an agent is asked about in one request."""
_MILLI: Final = 10**6  # Billionths in a thousandth.


class _Metadata(msgspec.Struct):
    name: str
    labels: dict[str, str] | None = None


class _Spec(msgspec.Struct):
    node: str = msgspec.field(name="nodeName", default="")


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


class _Value(msgspec.Struct):
    """As an agent says it."""

    at: str
    milli: int


class _Answer(msgspec.Struct):
    pods: dict[str, _Value]


_decode_pod = msgspec.json.Decoder(_Pod).decode
_decode_answer = msgspec.json.Decoder(_Answer).decode


class PodMetricReads:
    def __init__(self, store: Store, connector: Connector) -> None:
        self._store = store
        self._connector = connector
        self._free = asyncio.Semaphore(ASKED_AT_ONCE)

    async def answer(self, asked: ResourceCall) -> Answer:
        target, options = asked.target, asked.options
        selector = labels.parse(options.get("labelSelector"))
        metric_selector = options.get("metricLabelSelector")
        labels.parse(metric_selector)
        values = await self._find(target, selector, metric_selector)
        if not values:
            what = "pods" if target.name == ANY else f"pod {target.name}"
            text = f"the server could not find the metric {target.subresource} for {what}"
            raise StatusError(404, StatusReason.NOT_FOUND, text, {})
        items = [_show(target, name, values[name]) for name in sorted(values)]
        kind = {"kind": "MetricValueList", "apiVersion": POD_CUSTOM_METRICS.group_version}
        return answer_json(200, {**kind, "metadata": {}, "items": items})

    async def _find(
        self, target: RequestTarget, selector: labels.LabelSelector, metric_selector: str
    ) -> dict[str, _Value]:
        by_node: dict[str, list[str]] = {}
        prefix = f"{CORE}/pods/{target.namespace}/"
        for entry in (await self._store.range(prefix)).entries:
            pod = _decode_pod(entry.value)
            if not pod.spec.node or target.name not in (ANY, pod.metadata.name):
                continue
            if selector.matches(pod.metadata.labels or {}):
                by_node.setdefault(pod.spec.node, []).append(pod.metadata.name)
        found: dict[str, _Value] = {}

        async def ask(node: str, pods: Sequence[str]) -> None:
            async with self._free:
                found.update(await self._ask(node, pods, target, metric_selector))

        batches = [
            (node, pods[begin : begin + PODS_AT_ONCE])
            for node, pods in sorted(by_node.items())
            for begin in range(0, len(pods), PODS_AT_ONCE)
        ]
        await tasks.together([ask(node, pods) for node, pods in batches], name="ask for metrics of pods")
        return found

    async def _ask(
        self, node: str, pods: Sequence[str], target: RequestTarget, metric_selector: str
    ) -> dict[str, _Value]:
        entry = await self._store.get(f"{CORE}/nodes/{node}")
        if entry is None:
            return {}
        query = [("metric", target.subresource), ("selector", metric_selector), ("node", node)]
        query += [("pod", name) for name in pods]
        try:
            async with tasks.timeout(ANSWERED_WITHIN):
                agent = find_address(msgspec.json.decode(entry.value))
                exchange, _ = await self._connector.ask(agent, ["podmetrics", target.namespace], query)
                try:
                    body = await exchange.read_all(ANSWER_BYTES_MAX, ANSWERED_WITHIN)
                finally:
                    exchange.close()
                return _decode_answer(body).pods
        except (StatusError, ExchangeBroken, TimeoutError, *UNREADABLE):
            return {}  # Its pods count as those of which nothing is known.


def _show(target: RequestTarget, name: str, value: _Value) -> Object:
    return {
        "describedObject": {"kind": "Pod", "namespace": target.namespace, "name": name, "apiVersion": "/v1"},
        "metric": {"name": target.subresource},
        "timestamp": value.at,
        "value": str(Quantity(value.milli * _MILLI)),
    }
