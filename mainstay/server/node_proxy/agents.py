"""Asking the agent of a node: where it is, whether it is the right one, and what it answers.

A Node says where its agent listens (`status.addresses`, `status.daemonEndpoints`) and which certificate it has (an
annotation). Both are read again for each question, so an agent that was started again is found as soon as its Node says
so. A server at that address with another certificate is not spoken to, whichever authority has signed it.

A Node is written by its agent, and a node that was taken over may name any address. So link-local addresses (cloud
metadata is there), multicast and the like are refused, also those that a name stands for; and an answer to the client
says nothing of who was found at an address: that is in the log of the server.

The agent knows us by a certificate of the cluster's authority (server/auth/certificates.py). A server without TLS also
talks to agents that have none.
"""

import logging
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from urllib.parse import quote, urlencode

import msgspec

from mainstay.api.annotations import AGENT_CERTIFICATE
from mainstay.api.errors import StatusError, StatusReason
from mainstay.api.ip_addresses import find_problem
from mainstay.api.json_values import UNREADABLE
from mainstay.api.kind import Object
from mainstay.http.messages import Headers
from mainstay.http.outgoing import (
    AnswerHead,
    Exchange,
    ExchangeBroken,
    WrongAddress,
    WrongCertificate,
    connect,
)

"""The annotation of a Node that says which certificate its agent has: `sha256:` and the digest."""

CONNECTED_WITHIN: Final = timedelta(seconds=5)
ANSWERED_WITHIN: Final = timedelta(seconds=10)
ERROR_BYTES_MAX: Final = 64 * 1024

_ADDRESS_TYPES: Final = ("InternalIP", "InternalDNS", "ExternalIP", "ExternalDNS", "Hostname")  # The best first.
_ERRORS_FROM: Final = 400
_PORT_MAX: Final = 65535

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AgentAddress:
    node: str
    host: str
    port: int
    digest: str
    """Of its certificate. Empty: it has none."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.digest else 'http'}://{host}:{self.port}"


def find_address(node: Object) -> AgentAddress:
    """Where the agent of a node is. Raises `StatusError` (503) if its Node does not say."""
    metadata, status = node["metadata"], node.get("status") or {}
    name = metadata["name"]
    by_type = {each.get("type"): each.get("address") for each in status.get("addresses") or ()}
    host = next((by_type[each] for each in _ADDRESS_TYPES if by_type.get(each)), "")
    port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port") or 0
    if not host or not port:
        raise _unavailable(f'node "{name}" has no agent address: its agent has never run, or only pretends')
    if not 0 < port <= _PORT_MAX:
        raise _unavailable(f'node "{name}" has no agent address: port {port} must be between 1 and {_PORT_MAX}')
    return AgentAddress(name, host, port, (metadata.get("annotations") or {}).get(AGENT_CERTIFICATE) or "")


class Connector:
    """Opens connections to agents. The default is for clusters without TLS."""

    def __init__(self, tls: ssl.SSLContext | None = None, *, is_plain_allowed: bool = True) -> None:
        self.tls = tls
        """What we show. Others take its place when certificates are renewed."""
        self._is_plain_allowed = is_plain_allowed

    async def ask(
        self,
        agent: AgentAddress,
        path: Iterable[str],
        query: Iterable[tuple[str, str]] = (),
        *,
        method: str = "GET",
        headers: Iterable[tuple[str, str]] = (("Connection", "close"),),
    ) -> tuple[Exchange, AnswerHead]:
        """Ask something, and wait for the head of the answer. The caller closes the exchange.

        An answer that is an error is raised as the `StatusError` that it is. If there is none, that is a 503.
        """
        exchange = await self._connect(agent)
        try:
            head = await exchange.ask(_request(method, agent, path, query, headers), ANSWERED_WITHIN)
            if head.status < _ERRORS_FROM:
                return exchange, head
            error = _error_in(head, await exchange.read_all(ERROR_BYTES_MAX, ANSWERED_WITHIN), agent)
        except ExchangeBroken as broken:
            exchange.close()
            raise _unavailable(f'the agent of node "{agent.node}" at {agent} gives no answer: {broken}') from None
        except BaseException:
            exchange.close()
            raise
        exchange.close()
        raise error

    async def _connect(self, agent: AgentAddress) -> Exchange:
        tls = self.tls if agent.digest else None
        if agent.digest and tls is None:
            raise _unavailable(
                f'the agent of node "{agent.node}" requires a client certificate, and this server has none'
            )
        if not agent.digest and not self._is_plain_allowed:
            text = f'node "{agent.node}" has no certificate of its agent (annotation {AGENT_CERTIFICATE})'
            raise _unavailable(f"{text}, so the agent cannot be verified")
        try:
            return await connect(
                Exchange,
                agent.host,
                agent.port,
                CONNECTED_WITHIN,
                tls=tls,
                digest=agent.digest,
                problem_with=find_problem,
            )
        except WrongAddress as wrong:
            raise _unavailable(f'node "{agent.node}" has no usable agent address: {wrong}') from None
        except WrongCertificate as wrong:
            _logger.warning("%s shows certificate %s, and node %s has %s", agent, wrong.shown, agent.node, agent.digest)
            raise _unavailable(
                f'the server at {agent} is not the agent of node "{agent.node}": it has another certificate than'
                f" {agent.digest}, which the Node names. Nothing was sent. An agent that has just started writes its"
                " certificate into its Node soon; retry later"
            ) from None
        except TimeoutError:
            why = f"no connection within {CONNECTED_WITHIN.total_seconds():g} s"
        except ssl.SSLError as error:
            _logger.warning("no TLS with the agent of node %s at %s: %s", agent.node, agent, error)
            why = "the TLS handshake failed"
        except OSError as error:
            why = error.strerror or str(error)
        raise _unavailable(f'the agent of node "{agent.node}" cannot be reached at {agent}: {why}')


def _request(
    method: str,
    agent: AgentAddress,
    path: Iterable[str],
    query: Iterable[tuple[str, str]],
    headers: Iterable[tuple[str, str]],
) -> bytes:
    asked = urlencode(list(query))
    target = "".join(f"/{quote(part, safe='')}" for part in path) + (f"?{asked}" if asked else "")
    host = f"[{agent.host}]" if ":" in agent.host else agent.host
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}:{agent.port}", "User-Agent: mainstay-server"]
    lines += [f"{name}: {value}" for name, value in headers]
    # What a client sent in a header was read by a strict parser: there is no line break in it.
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def passed_on(headers: Headers) -> list[tuple[str, str]]:
    """Of the headers of a request that asks for another protocol, those that the agent needs."""
    names = ("connection", "upgrade", "sec-websocket-key", "sec-websocket-version", "sec-websocket-protocol")
    return [(name, value) for name, value in headers if name in names]


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""
    code: int = 0
    details: dict[str, object] | None = None


_decode_status = msgspec.json.Decoder(_Status).decode


def _error_in(head: AnswerHead, body: bytes, agent: AgentAddress) -> StatusError:
    try:
        status = _decode_status(body)
    except UNREADABLE:
        status = _Status()
    if not status.message or head.status in (401, 403):
        # What an agent thinks of this server is no answer to the client, who may well ask.
        text = status.message or f"it answers {head.status}"
        return _unavailable(f'the agent of node "{agent.node}" at {agent} does not answer this server: {text}')
    return StatusError(head.status, status.reason or StatusReason.INTERNAL_ERROR, status.message, status.details)


def _unavailable(message: str) -> StatusError:
    return StatusError(503, StatusReason.SERVICE_UNAVAILABLE, message)
