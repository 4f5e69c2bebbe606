"""What nodes and pods use: `metrics.k8s.io`, asked of the agents when a client wants to know.

An agent answers for all nodes of its process at once. It is asked at most every `KEPT_FOR`, has `ANSWERED_WITHIN` to
answer, and not too many are asked at the same time. Nodes whose agents do not answer are left out, as are pods of which
nothing was measured yet: `kubectl top` shows them as unknown, or not at all. Nothing is stored.

`UsageReads` gives objects in the form in which the store would have them, and so stands in for server/storage/reads.py.
"""

import asyncio
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Final

import msgspec

from mainstay.api import times
from mainstay.api.errors import StatusError, not_found
from mainstay.api.json_values import UNREADABLE
from mainstay.api.kind import Kind, Object
from mainstay.api.kinds.metrics import NODE_METRICS
from mainstay.env import Clock, tasks
from mainstay.http.outgoing import ExchangeBroken
from mainstay.server.node_proxy.agents import AgentAddress, Connector, find_address
from mainstay.server.request.target import Options
from mainstay.server.storage.keyspace import CORE, build_key
from mainstay.server.storage.reads import Listed
from mainstay.server.storage.selection import Selection
from mainstay.server.storage.stored import stored
from mainstay.store.interface import Entry, Store

KEPT_FOR: Final = timedelta(seconds=10)
ANSWERED_WITHIN: Final = timedelta(seconds=2)
ASKED_AT_ONCE: Final = 32
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024

Listing = list[Entry]
"""A name for what would otherwise be taken for the method."""

_PODS: Final = f"{CORE}/pods/"
_NODES: Final = f"{CORE}/nodes/"


class _Container(msgspec.Struct, rename="camel"):
    pod_uid: str
    name: str
    cpu_nanocores: int
    memory_bytes: int


class _Usage(msgspec.Struct, rename="camel"):
    """Of a node, as its agent says it (agent/serve/server.py)."""

    at: str
    window_seconds: float
    cpu_nanocores: int
    memory_bytes: int
    containers: list[_Container]


class _Answer(msgspec.Struct):
    nodes: dict[str, _Usage]


class _Metadata(msgspec.Struct):
    name: str
    uid: str
    namespace: str = ""
    labels: dict[str, str] | None = None
    creation: str = msgspec.field(name="creationTimestamp", default="")


class _Spec(msgspec.Struct):
    node: str = msgspec.field(name="nodeName", default="")


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


class _Node(msgspec.Struct):
    metadata: _Metadata


_decode_answer = msgspec.json.Decoder(_Answer).decode
_decode_pod = msgspec.json.Decoder(_Pod).decode
_decode_node = msgspec.json.Decoder(_Node).decode


class UsageReads:
    def __init__(self, store: Store, clock: Clock, connector: Connector) -> None:
        self._store = store
        self._clock = clock
        self._connector = connector
        self._kept: dict[AgentAddress, tuple[int, dict[str, _Usage]]] = {}
        self._free = asyncio.Semaphore(ASKED_AT_ONCE)

    async def get(self, kind: Kind, namespace: str, name: str, options: Options) -> Entry:
        """What one node or pod uses. Raises `StatusError` (404), also if no agent knows."""
        place = f"{_NODES}{name}" if kind is NODE_METRICS else f"{_PODS}{namespace}/{name}"
        entry = await self._store.get(place)
        found: Listing = [] if entry is None else await self._measured(kind, [entry])
        if not found:
            raise not_found(kind.plural, kind.group, name)
        return found[0]

    async def list(self, selection: Selection, options: Options) -> Listed:
        """What those of a kind use that are selected."""
        kind = selection.kind
        own = build_key(kind, "", "")
        place = (_NODES if kind is NODE_METRICS else _PODS) + selection.prefix.removeprefix(own)
        page = await self._store.range(place)
        # Selectors are about name, namespace and labels, which are those of the node or pod itself.
        chosen = [entry for entry in page.entries if selection.matches is None or selection.matches(entry)]
        return Listed(await self._measured(kind, chosen), {"resourceVersion": str(page.revision)})

    async def _measured(self, kind: Kind, entries: Iterable[Entry]) -> Listing:
        if kind is NODE_METRICS:
            nodes = {entry.key.removeprefix(_NODES): entry for entry in entries}
            usages = await self._usages(nodes.values())
            return [_of_node(entry, usages[name]) for name, entry in nodes.items() if name in usages]
        pods = [(entry, _decode_pod(entry.value)) for entry in entries]
        wanted = sorted({pod.spec.node for _, pod in pods if pod.spec.node})
        found = [await self._store.get(_NODES + name) for name in wanted]
        usages = await self._usages(entry for entry in found if entry is not None)
        return list(_of_pods(pods, usages))

    async def _usages(self, nodes: Iterable[Entry]) -> dict[str, _Usage]:
        """What is used on these nodes, by name, of those that can be asked."""
        agents: dict[AgentAddress, None] = {}
        for entry in nodes:
            obj: Object = msgspec.json.decode(entry.value)
            try:
                found = find_address(obj)
            except StatusError:
                continue
            agents[AgentAddress("", found.host, found.port, found.digest)] = None  # One may be that of many nodes.
        await tasks.together([self._refresh(agent) for agent in agents], name="ask what is used")
        return {name: usage for agent in agents if agent in self._kept for name, usage in self._kept[agent][1].items()}

    async def _refresh(self, agent: AgentAddress) -> None:
        async with self._free:
            now_ns, kept_ns = self._clock.monotonic_ns(), KEPT_FOR // timedelta(microseconds=1) * 1000
            for known in [each for each, (at_ns, _) in self._kept.items() if now_ns - at_ns >= kept_ns]:
                del self._kept[known]
            if agent not in self._kept:
                usages = await self._ask(agent)
                if usages is not None:
                    self._kept[agent] = (self._clock.monotonic_ns(), usages)

    async def _ask(self, agent: AgentAddress) -> dict[str, _Usage] | None:
        try:
            async with tasks.timeout(ANSWERED_WITHIN):
                exchange, _ = await self._connector.ask(agent, ["usage"])
                try:
                    body = await exchange.read_all(ANSWER_BYTES_MAX, ANSWERED_WITHIN)
                finally:
                    exchange.close()
                return _decode_answer(body).nodes
        except (StatusError, ExchangeBroken, TimeoutError, *UNREADABLE):
            return None  # Why is shown by a request for a log, and by the Node.


def _of_node(entry: Entry, usage: _Usage) -> Entry:
    return _entry(entry, _decode_node(entry.value).metadata, usage, {"usage": _amounts(usage)})


def _of_pods(pods: Iterable[tuple[Entry, _Pod]], usages: dict[str, _Usage]) -> Iterator[Entry]:
    by_pod: dict[str, list[_Container]] = {}
    for usage in usages.values():
        for container in usage.containers:
            by_pod.setdefault(container.pod_uid, []).append(container)
    for entry, pod in pods:
        used = by_pod.get(pod.metadata.uid)
        if used and pod.spec.node in usages:
            containers = [{"name": each.name, "usage": _amounts(each)} for each in used]
            yield _entry(entry, pod.metadata, usages[pod.spec.node], {"containers": containers})


def _entry(entry: Entry, metadata: _Metadata, usage: _Usage, rest: Object) -> Entry:
    shown: Object = {"name": metadata.name}
    if metadata.namespace:
        shown["namespace"] = metadata.namespace
    shown |= {"uid": metadata.uid, "creationTimestamp": metadata.creation}
    if metadata.labels:
        shown["labels"] = metadata.labels
    moment = times.format_time(times.parse_time(usage.at))
    obj = {"metadata": shown, "timestamp": moment, "window": f"{usage.window_seconds:g}s", **rest}
    return Entry(entry.key, stored(obj), entry.created, entry.revision, entry.version)


def _amounts(used: _Usage | _Container) -> dict[str, str]:
    """In the units of Kubernetes' own metrics server."""
    return {"cpu": f"{used.cpu_nanocores}n", "memory": f"{used.memory_bytes // 1024}Ki"}
