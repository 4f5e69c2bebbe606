"""Requests over the simulated network to the HTTP layer, which calls the handler by the head, as in the real server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from mainstay.api.errors import StatusError
from mainstay.env import network, tasks
from mainstay.http.encoder import internal_error
from mainstay.http.messages import Answer, Handler, Request
from mainstay.http.server import HttpServer
from mainstay.sim.simulation import Simulation
from tests.fuzz.deliveries import NUMBER, Delivery, Ending
from tests.fuzz.writers import write_on_as

SMUGGLED: Final = -1
"""The number of a request that no client has sent."""
_PORT: Final = 80
_ANSWERED_WITHIN: Final = timedelta(minutes=5)
_SETTLED_WITHIN: Final = timedelta(seconds=5)

Report = Callable[[BaseException, Request], None]


@dataclass(frozen=True)
class WireAnswer:
    status: int
    """0: the connection ended without an answer."""
    body: bytes = b""
    is_malformed: bool = False


class _Exchange(asyncio.Protocol):
    """A connection of a client, until its first final answer."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.malformed = ""
        self.status = 0
        self.body = b""
        self.is_last = False
        self._is_head = self._is_watch = self._is_answered = False
        self._parser = HttpResponseParser(self)

    def expect(self, method: str, *, is_watch: bool) -> None:
        self.ended.clear()
        self.status, self.body = 0, b""
        self._is_head, self._is_watch, self._is_answered = method == "HEAD", is_watch, False
        self._parser = HttpResponseParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def data_received(self, data: bytes) -> None:
        if self._is_answered:
            return
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self._finish()
        except HttpParserError as error:
            if not self._is_answered:
                self.malformed = f"{error}: {data[:500]!r}"
                self._finish()

    def connection_lost(self, error: Exception | None) -> None:
        self.ended.set()

    # Callbacks of the parser.

    def on_headers_complete(self) -> None:
        if self._is_answered:
            return  # What comes next belongs to bytes that follow the request.
        self.status = self._parser.get_status_code()
        self.is_last = not self._parser.should_keep_alive()
        if self.status == 101 or (self._is_watch and self.status == 200) or (self._is_head and self.status >= 200):
            self._finish()

    def on_body(self, part: bytes) -> None:
        if not self._is_answered:
            self.body += part

    def on_message_complete(self) -> None:
        if self.status >= 200:
            self._finish()

    def _finish(self) -> None:
        self._is_answered = True
        self.ended.set()

    @property
    def answer(self) -> WireAnswer:
        return WireAnswer(self.status if self._is_answered else 0, self.body, bool(self.malformed))


class FuzzConnections:
    """Sends deliveries, each over a connection of its own."""

    def __init__(self, sim: Simulation, http: HttpServer) -> None:
        self._sim = sim
        self._http = http
        self._open = 0

    async def send(self, delivery: Delivery, method: str, *, is_watch: bool) -> tuple[WireAnswer, str]:
        """The answer, and what is wrong with the connection. What the server does for it is over then."""
        self._open += 1
        with self._sim.network.host("client").active():
            transport, exchange = await network.connect(_Exchange, "server", _PORT)
        exchange.expect(method, is_watch=is_watch)
        for step in delivery.steps:
            if transport.is_closing():
                break
            if isinstance(step, bytes):
                transport.write(step)
            elif step:
                await tasks.sleep(timedelta(seconds=step))
        problem = ""
        match delivery.ending:
            case Ending.STAY:
                problem = await self._wait(exchange)
            case Ending.CLOSE:
                transport.close()
            case Ending.ABORT:
                transport.abort()
        answer = exchange.answer if delivery.ending is Ending.STAY else WireAnswer(0)
        if delivery.is_plain and answer.status >= 200 and not (problem or is_watch or exchange.is_last):
            problem = await self._use_again(exchange)
        transport.abort()
        self._open -= 1
        return answer, problem or await self._settle()

    async def _use_again(self, exchange: _Exchange) -> str:
        """The next request on the same connection must get its own answer."""
        exchange.expect("GET", is_watch=False)
        exchange.transport.write(b"GET /readyz HTTP/1.1\r\nHost: server\r\nAuthorization: Bearer admin\r\n\r\n")
        problem = await self._wait(exchange)
        if not problem and (exchange.status, exchange.body) != (200, b"ok"):
            problem = f"the connection is out of step: {exchange.status} {exchange.body!r}"
        return problem

    async def _wait(self, exchange: _Exchange) -> str:
        try:
            async with tasks.timeout(_ANSWERED_WITHIN):
                await exchange.ended.wait()
        except TimeoutError:
            return "no answer"
        return f"malformed answer: {exchange.malformed}" if exchange.malformed else ""

    async def _settle(self) -> str:
        """Wait until the server has let go of the connection, and of what it held for it."""
        try:
            async with tasks.timeout(_SETTLED_WITHIN):
                while not self._open and (self._http.connections or self._http.body_bytes_held):
                    await tasks.sleep(timedelta(milliseconds=5))
        except TimeoutError:
            held = self._http.body_bytes_held
            return f"the server keeps {self._http.connections} connections and {held} bytes of bodies"
        return ""


class _Watched:
    """An answer to come, of which failures are reported."""

    def __init__(self, inner: Awaitable[Answer], request: Request, report: Report) -> None:
        self._inner = inner
        self._request = request
        self._report = report

    def __await__(self) -> Generator[Any, Any, Answer]:
        try:
            return (yield from self._inner.__await__())
        except (StatusError, asyncio.CancelledError):
            raise
        except Exception as error:
            self._report(error, self._request)
            raise internal_error() from error

    def close(self) -> None:
        close = getattr(self._inner, "close", None)
        if close is not None:
            close()


@asynccontextmanager
async def fuzz_connections(sim: Simulation, answer: Handler, report: Report) -> AsyncIterator[FuzzConnections]:
    def handle(request: Request) -> Answer | Awaitable[Answer]:
        number = request.headers.get(NUMBER) or ""
        write_on_as(int(number) if number.isdigit() else SMUGGLED)
        try:
            given = answer(request)
        except StatusError:
            raise
        except Exception as error:
            report(error, request)
            raise internal_error() from error
        return _Watched(given, request, report) if isinstance(given, Awaitable) else given

    with sim.network.host("server").active():
        http = await HttpServer.start(handle, "0.0.0.0", _PORT, on_head=True)
    try:
        yield FuzzConnections(sim, http)
    finally:
        await http.drain(timedelta(0))
