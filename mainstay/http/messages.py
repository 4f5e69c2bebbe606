"""What a handler is given, and what it may answer.

A handler that knows its answer at once returns a `Response`, and no task is made for the request. Otherwise it returns
an awaitable of any of the five answers. What it raises becomes an answer too: a `StatusError` its Status, anything else
a 500.

A handler that takes heads (`HttpServer.start(on_head=True)`) is called as soon as the head of a request is there. If
the body is not there yet, `Request.arriving` is set: the handler decides by the head, and then either answers, in
which case the body is never read, or awaits `arriving.read()`, which completes `Request.body`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from mainstay.http.streams import BodyStream, PieceTurns, Tunnel
from mainstay.http.websocket import WebSocket


class Headers:
    """The headers of a request, by name whatever its case. Repeated ones are kept, in order."""

    __slots__ = ("_first", "_pairs")

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._pairs = [(name.lower(), value) for name, value in pairs]
        self._first = dict(reversed(self._pairs))

    @classmethod
    def of_parsed(cls, pairs: list[tuple[str, str]], by_name: dict[str, str]) -> "Headers":
        """Of pairs whose names are in lower case already, and the first value of each name."""
        headers = cls.__new__(cls)
        headers._pairs = pairs
        headers._first = by_name
        return headers

    def get(self, name: str) -> str | None:
        """The first value."""
        return self._first.get(name) or self._first.get(name.lower())

    def getall(self, name: str) -> list[str]:
        wanted = name.lower()
        return [value for name, value in self._pairs if name == wanted]

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._first

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Name in lower case and value of each, as they came."""
        return iter(self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Headers) and self._pairs == other._pairs

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        hidden = ("authorization", "cookie")
        return f"Headers({[(name, '…' if name in hidden else value) for name, value in self._pairs]!r})"


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end of the connection."""

    host: str
    port: int
    certificate: dict[str, Any] | None = None
    """What `ssl.SSLObject.getpeercert` says of a client certificate that was verified."""

    @classmethod
    def behind(cls, transport: asyncio.BaseTransport) -> "Peer":
        name = transport.get_extra_info("peername")
        host, port = (name[0], name[1]) if name else ("", 0)
        # An empty certificate is one that was not verified.
        return cls(host, port, transport.get_extra_info("peercert") or None)


class BodyArrival(Protocol):
    """The body of a request whose head alone has arrived."""

    async def read(self, share: float = 1.0, owner: str = "", bytes_max: int | None = None) -> None:
        """Read it into `Request.body`. Raises `StatusError`: it is malformed, too large (for the server, or longer than
        `bytes_max`) or too slow; or 429, if the server already holds more than this share of the bytes that bodies may
        take, or too many of this owner.
        """


@dataclass(slots=True)
class Request:
    method: str
    target: str
    """The path and query as they were sent."""
    path: str
    """Percent-decoded, without the query."""
    query: str
    """As it was sent, without the question mark; empty if there is none."""
    headers: Headers
    body: bytes
    peer: Peer
    arriving: BodyArrival | None = None
    """Set if the body was not there with the head."""


@dataclass(slots=True)
class Response:
    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class LongResponse:
    """An answer too long to be made at once: its body is made piece by piece, as the client takes it."""

    status: int
    pieces: Iterator[bytes]
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    turns: PieceTurns | None = None
    """None: a turn of the loop for each piece."""

    def close(self) -> None:
        """No more of it is wanted. Called by the connection, however the answer ends; may be called again."""
        if self.turns is not None:
            self.turns.end()


@dataclass(slots=True)
class StreamResponse:
    """An answer of unknown length. Its head is sent at once, then `run` writes until it returns.

    `run` is cancelled when the client goes away. When it fails, the connection is cut off.
    """

    status: int
    run: Callable[[BodyStream], Awaitable[None]]
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    turns: PieceTurns | None = None
    """For `BodyStream.turn`. None: a turn of the loop each."""


@dataclass(slots=True)
class UpgradeResponse:
    """Go on as a WebSocket, until `run` returns. A request that asked for no WebSocket is answered 400."""

    run: Callable[[WebSocket], Awaitable[None]]
    subprotocol: str | None = None
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class TunnelResponse:
    """Switch to the protocol that the client asked for and another server speaks, until `run` returns.

    `run` passes the bytes on and back. It is cancelled when the client goes away. If it cannot even begin, `drop` is
    called instead.
    """

    run: Callable[[Tunnel], Awaitable[None]]
    drop: Callable[[], None]
    headers: tuple[tuple[str, str], ...] = ()
    """Of the answer (101), as that server has given them."""


Answer = Response | LongResponse | StreamResponse | UpgradeResponse | TunnelResponse
Handler = Callable[[Request], Answer | Awaitable[Answer]]
