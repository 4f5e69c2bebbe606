"""What only the agent of a pod's node can answer: its log, commands in it, its ports.

    client ─► pod ─► container, options ─► Node ─► agent ─► head of its answer
           ◄─ what it says, piece by piece: a log ◄──┤
           ◄─ bytes both ways: a WebSocket, not looked at ◄─┘

A question is checked here as far as the pod tells; the rest is the agent's (agent/serve/server.py), in the same words
as Kubernetes' own. SPDY, the older way to run a command or forward a port, is not spoken: such a request gets the same
checks, and then a 400 from the agent.
"""

from collections.abc import Sequence
from typing import Final

from mainstay.api import times
from mainstay.api.errors import (
    StatusCause,
    bad_request,
    forbidden_value,
    invalid,
    invalid_value,
    not_found,
    not_supported,
)
from mainstay.api.kind import Kind, Object
from mainstay.env import tasks
from mainstay.http.messages import Answer, Request, StreamResponse, TunnelResponse
from mainstay.http.outgoing import AnswerHead, Exchange, ExchangeBroken
from mainstay.http.streams import BodyStream, Tunnel, while_open
from mainstay.server.node_proxy.agents import Connector, find_address, passed_on
from mainstay.server.request.target import Options, RequestTarget
from mainstay.server.storage.keyspace import build_key
from mainstay.server.storage.stored import read
from mainstay.store.interface import Store

PARTS: Final = ("log", "exec", "attach", "portforward")

_STREAMS: Final = {"": "", "All": "", "Stdout": "stdout", "Stderr": "stderr"}
_ANSWERED: Final = ("upgrade", "connection", "sec-websocket-accept", "sec-websocket-protocol")
_SWITCHING: Final = 101

Query = list[tuple[str, str]]


class PodStreams:
    def __init__(self, store: Store, nodes: Kind, connector: Connector) -> None:
        self._store = store
        self._nodes = nodes
        self._connector = connector

    async def answer(self, request: Request, target: RequestTarget, options: Options) -> Answer:
        """Answer a request to one of these parts of a pod. Raises `StatusError`."""
        pod = await self.require_pod(target)
        path, query = _question(target, pod, options)
        node = (pod.get("spec") or {}).get("nodeName")
        if not node:
            raise bad_request(f"pod {target.name} does not have a host assigned")
        address = find_address(await self._get(self._nodes, "", node))
        query += [("node", node), ("uid", pod["metadata"]["uid"])]
        if target.subresource == "log":
            exchange, _ = await self._connector.ask(address, path, query)
            return StreamResponse(200, lambda stream: _pass_on(exchange, stream), "text/plain")
        headers = passed_on(request.headers)
        exchange, head = await self._connector.ask(address, path, query, method=request.method, headers=headers)
        return _tunnel(exchange, head)

    async def require_pod(self, target: RequestTarget) -> Object:
        """Raises `StatusError` (404)."""
        return await self._get(target.kind, target.namespace, target.name)

    async def _get(self, kind: Kind, namespace: str, name: str) -> Object:
        entry = await self._store.get(build_key(kind, namespace, name))
        if entry is None:
            raise not_found(kind.plural, kind.group, name)
        return read(kind, entry)


def _question(target: RequestTarget, pod: Object, options: Options) -> tuple[list[str], Query]:
    """What to ask the agent: the path and the query."""
    place = [target.namespace, target.name]
    match target.subresource:
        case "log":
            query = _log_query(options)
            return ["logs", *place, container_in(pod, options.get("container"))], query
        case "portforward":
            return ["portforward", *place], [("ports", port) for port in options.all("ports")]
        case part:
            query = [(name, "true") for name in ("stdin", "stdout", "stderr", "tty") if options.flag(name)]
            query += [("command", word) for word in options.all("command")]
            return [part, *place, container_in(pod, options.get("container"))], query


def container_in(pod: Object, name: str) -> str:
    """The container that is meant: the only one, if none was named. Raises `StatusError` (400)."""
    spec, pod_name = pod.get("spec") or {}, pod["metadata"]["name"]
    containers = _names(spec.get("containers"))
    first = _names(spec.get("initContainers"))
    if name:
        if name not in (*containers, *first, *_names(spec.get("ephemeralContainers"))):
            raise bad_request(f"container {name} is not valid for pod {pod_name}")
        return name
    if len(containers) == 1:
        return containers[0]
    text = f"a container name must be specified for pod {pod_name}, choose one of: [{' '.join(containers)}]"
    raise bad_request(text + (f" or one of the init containers: [{' '.join(first)}]" if first else ""))


def _names(containers: Sequence[Object] | None) -> list[str]:
    return [each["name"] for each in containers or ()]


def _log_query(options: Options) -> Query:
    """Raises `StatusError`: 400 for what makes no sense, 422 for what cannot be."""
    causes: list[StatusCause] = []
    query = [(name, "true") for name in ("follow", "previous", "timestamps") if options.flag(name)]
    for name, least in (("tailLines", 0), ("limitBytes", 1), ("sinceSeconds", 1)):
        number = _number(options, name)
        if number is not None and number < least:
            detail = "must be greater than or equal to 0" if least == 0 else "must be greater than 0"
            causes.append(invalid_value(name, number, detail))
        elif number is not None:
            query.append((name, str(number)))
    if since := options.get("sinceTime"):
        try:
            times.parse_time(since)
        except ValueError as error:
            raise bad_request(str(error)) from None
        if "sinceSeconds" in options:
            causes.append(forbidden_value("", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
        query.append(("sinceTime", since))
    stream = options.get("stream")
    if stream not in _STREAMS:
        causes.append(not_supported("stream", stream, ["All", "Stderr", "Stdout"]))
    elif _STREAMS[stream]:
        if "tailLines" in options:
            detail = "`tailLines` and specific `stream` are mutually exclusive for now"
            causes.append(forbidden_value("", detail))
        query.append(("stream", _STREAMS[stream]))
    if causes:
        raise invalid("PodLogOptions", "", "", causes)
    return query


def _number(options: Options, name: str) -> int | None:
    """Other than most numbers of a query, these may be negative, and are refused only then."""
    text = options.get(name)
    is_negative = text.startswith("-") and text[1:].isascii() and text[1:].isdigit()
    return int(text[:19]) if is_negative else options.number(name)


async def _pass_on(exchange: Exchange, stream: BodyStream) -> None:
    """A log, as fast as the client takes it. If it breaks off on the one side, it does so on the other."""
    stream.be_patient()
    try:
        await while_open(stream, _copy(exchange, stream))
    except ExchangeBroken:
        stream.break_off()
    finally:
        exchange.close()


async def _copy(exchange: Exchange, stream: BodyStream) -> None:
    while piece := await exchange.read():
        if not stream.write(piece):
            return
        await stream.drain()


def _tunnel(exchange: Exchange, head: AnswerHead) -> TunnelResponse:
    if head.status != _SWITCHING:
        exchange.close()
        raise AssertionError(f"an agent answers a WebSocket with {head.status}")

    async def run(tunnel: Tunnel) -> None:
        try:
            await tasks.until_one_ends((_bring(tunnel, exchange), _fetch(exchange, tunnel)), name="tunnel")
        finally:
            exchange.close()

    headers = tuple((name, value) for name, value in head.headers if name in _ANSWERED)
    return TunnelResponse(run, exchange.close, headers)


async def _bring(tunnel: Tunnel, exchange: Exchange) -> None:
    while data := await tunnel.read():
        if not await exchange.write(data):
            return


async def _fetch(exchange: Exchange, tunnel: Tunnel) -> None:
    while data := await exchange.read():
        if not await tunnel.write(data):
            return
