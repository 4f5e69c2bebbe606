"""What an agent answers itself: logs, commands in containers, ports of pods, what is used.

Only API servers ask, on behalf of their clients. They know the agent by its certificate, whose digest is in the Node,
and it knows them by a certificate of the cluster's authority, in one of the groups of `ASKING`. Where the cluster has
no TLS (a simulation, a test on one machine) neither shows one, and any client that can connect has access.

    GET /logs/NAMESPACE/POD/CONTAINER    text, as logs.py says
    GET /exec/NAMESPACE/POD/CONTAINER    a WebSocket, as sessions.py says; /attach likewise
    GET /portforward/NAMESPACE/POD       a WebSocket, as ports.py says
    GET /usage                           what is used, of all nodes of this process
    GET /podmetrics/NAMESPACE            metrics that pods serve themselves, as pod_metrics.py says
    GET /healthz, /livez, /readyz        for any caller, and one check (/readyz/NAME) for API servers

Each but the last says in its query which node is meant (`node`), because one process may be the agent of many, and
the uid of the pod (`uid`), because a pod may have been replaced by another one of the same name since.
"""

import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Final, Protocol
from urllib.parse import parse_qs

import msgspec

from mainstay.agent.runner import Runner, Usage
from mainstay.agent.serve import logs, ports, sessions
from mainstay.agent.serve.pod_metrics import PODS_MAX, PodScraper
from mainstay.agent.serve.pod_request import PodRequest
from mainstay.api import labels, times
from mainstay.api.errors import StatusError, StatusReason, bad_request
from mainstay.api.kind import Object
from mainstay.env import Env
from mainstay.env.health import Health, find_current
from mainstay.http.certificates import ServingCertificate, tls_context
from mainstay.http.health_pages import HEALTH_PATHS, answer_health, is_health_path
from mainstay.http.messages import Answer, Request, Response
from mainstay.http.server import HttpServer

ASKING: Final = frozenset({"system:mainstay:servers", "system:masters"})
GRACE: Final = timedelta(seconds=1)

_HERE: Final = ("localhost", "127.0.0.1", "::1")

_log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode


class Lookup(Protocol):
    """Which pods are here."""

    def find(self, namespace: str, name: str) -> Object | None:
        """The pod of this name as the agent has last seen it, if it is bound here."""


_PARTS: Final[dict[str, Callable[[PodRequest], Answer | Awaitable[Answer]]]] = {
    "logs": logs.answer,
    "exec": sessions.answer_exec,
    "attach": sessions.answer_attach,
    "portforward": ports.answer,
}


class AgentServing:
    """Make one with `await AgentServing.start(…)`, tell it of each node with `serve`, and `stop` it."""

    def __init__(self, env: Env, *, is_open: bool) -> None:
        self._clock = env.clock
        self._health = find_current() or Health(env.clock)
        self._health.add("node", lambda: "" if self._nodes else "the agent is starting")
        self._is_open = is_open  # No client certificate is required.
        self._nodes: dict[str, tuple[Lookup, Runner]] = {}
        self._scraper = PodScraper(env.clock)
        self._http: HttpServer | None = None
        self.port = 0

    @classmethod
    async def start(
        cls, env: Env, host: str, port: int, *, certificate: ServingCertificate | None = None, authorities: str = ""
    ) -> "AgentServing":
        """Listen; port 0 takes any free one. Until `serve` is called there is nothing to ask about.

        `authorities` (PEM) are those that the certificates of clients have to be of. Without a certificate of its own
        the agent speaks plain HTTP. Raises `OSError`, `BadCertificate`.
        """
        tls = None
        if certificate is not None:
            tls = tls_context(certificate.certificate, certificate.key, authorities.encode())
        elif host not in _HERE:
            _log.warning("serving without TLS: any client that can connect can run commands in the pods of this node")
        serving = cls(env, is_open=tls is None)
        serving._http = http = await HttpServer.start(serving.answer, host, port, tls=tls, clock=env.clock)
        serving.port = http.addresses[0][1]
        return serving

    def serve(self, node: str, lookup: Lookup, runner: Runner) -> None:
        """From now on, answer for this node."""
        self._nodes[node] = (lookup, runner)

    async def stop(self) -> None:
        """End what goes on: those who follow a log, and commands in containers."""
        if self._http is not None:
            await self._http.drain(GRACE)

    def answer(self, request: Request) -> Answer | Awaitable[Answer]:
        if request.path in HEALTH_PATHS:
            return answer_health(self._health, request)
        self._require_known(request)
        if is_health_path(request.path):
            return answer_health(self._health, request)
        if not self._nodes:
            raise StatusError(503, StatusReason.SERVICE_UNAVAILABLE, "the agent is starting")
        _, part, *rest = request.path.split("/")
        if part == "usage" and not rest:
            return self._usage()
        if part == "podmetrics" and len(rest) == 1:
            return self._pod_metrics(request, rest[0])
        if part not in _PARTS or len(rest) != (2 if part == "portforward" else 3) or not all(rest):
            raise StatusError(404, StatusReason.NOT_FOUND, "page not found", {})
        return _PARTS[part](self._asked(request, *rest))

    def _require_known(self, request: Request) -> None:
        if self._is_open:
            return
        certificate = request.peer.certificate
        if certificate is None:
            raise StatusError(401, StatusReason.UNAUTHORIZED, "client certificate required")
        groups = {
            value
            for attributes in certificate.get("subject", ())
            for attribute, value in attributes
            if attribute == "organizationName"
        }
        if not groups & ASKING:
            raise StatusError(403, StatusReason.FORBIDDEN, "only API servers may use this address")

    def _asked(self, request: Request, namespace: str, name: str, container: str = "") -> PodRequest:
        query = parse_qs(request.query, keep_blank_values=True)
        node, lookup, runner = self._find_node(query)
        pod = lookup.find(namespace, name)
        if pod is None:
            what = f'container "{container}" in pod "{name}" is waiting to start' if container else f'pod "{name}"'
            raise bad_request(f'{what}: pod not found by the agent of node "{node}"')
        if query.get("uid", [pod["metadata"]["uid"]])[0] != pod["metadata"]["uid"]:
            text = f'the agent of node "{node}" has another pod named "{name}" (other uid)'
            raise StatusError(409, StatusReason.CONFLICT, text, {"name": name, "kind": "pods"})
        return PodRequest(request, query, pod, container, runner, self._clock)

    def _find_node(self, query: dict[str, list[str]]) -> tuple[str, Lookup, Runner]:
        node = query.get("node", [next(iter(self._nodes))])[0]
        if node not in self._nodes:
            text = f'node "{node}" is not served by this agent'
            raise StatusError(404, StatusReason.NOT_FOUND, text, {"name": node, "kind": "nodes"})
        return node, *self._nodes[node]

    async def _pod_metrics(self, request: Request, namespace: str) -> Response:
        query = parse_qs(request.query, keep_blank_values=True)
        names, metric = query.get("pod", []), query.get("metric", [""])[0]
        if not metric or len(names) > PODS_MAX:
            raise bad_request(f"name a metric, and at most {PODS_MAX} pods")
        _, lookup, _ = self._find_node(query)
        selector = labels.parse(query.get("selector", [""])[0])
        pods = [pod for name in dict.fromkeys(names) if (pod := lookup.find(namespace, name)) is not None]
        return Response(200, _encode({"pods": await self._scraper.scrape(pods, metric, selector)}))

    async def _usage(self) -> Response:
        # A runner may be that of many nodes, and is asked once.
        usages: dict[int, dict[str, Any]] = {}
        nodes: dict[str, dict[str, Any]] = {}
        for node, (_, runner) in self._nodes.items():
            if id(runner) not in usages:
                usages[id(runner)] = _shown(await runner.usage())
            nodes[node] = usages[id(runner)]
        return Response(200, _encode({"nodes": nodes}))


def _shown(usage: Usage) -> dict[str, Any]:
    return {
        "at": times.format_micro_time(usage.at),
        "windowSeconds": usage.window.total_seconds(),
        "cpuNanocores": usage.node.cpu_nanocores,
        "memoryBytes": usage.node.memory_bytes,
        "containers": [
            {
                "podUid": container.pod_uid,
                "name": container.name,
                "cpuNanocores": used.cpu_nanocores,
                "memoryBytes": used.memory_bytes,
            }
            for container, used in sorted(usage.containers.items())
        ],
    }
