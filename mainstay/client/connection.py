"""One connection to a server: requests are written, answers parsed, one at a time. HTTP/1.1 by httptools (llhttp).

    exchange(request) ─► bytes out … bytes in ─► parser ─► Response      an answer as a whole
    follow(request, sink) ─► … ─► Response with the head only            its body goes to the sink as it comes

It knows nothing of servers, repeats or errors of the API. What can go wrong here is that no whole answer comes:
`ConnectionBroken`, or `MalformedResponse` if what came is no HTTP. Either way the connection is over. Waiting is
bounded by silence, not by length: a long answer may take as long as it keeps coming, until the moment that the caller
has set.

Answers are taken as they are sent; no compression is asked for.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol, cast

import msgspec
from httptools import HttpParserCallbackError, HttpParserError, HttpParserUpgrade, HttpResponseParser

from mainstay.api.headers import WARNING
from mainstay.client.limits import ClientLimits
from mainstay.env import Clock

# Below this, head and body go out as one piece: to copy is cheaper than a second call of the system.
JOIN_BYTES_MAX = 64 * 1024
_SECOND_NS = 1_000_000_000
_UNASKED = "the server sent data without a request"


class ServerResponse(msgspec.Struct, frozen=True):
    """An answer. Names of headers are in lower case; of those that came several times, the last one counts. But
    warnings are all there, one in each line."""

    status: int
    headers: dict[str, str]
    body: bytes


class ConnectionBroken(Exception):
    """No whole answer came. What was asked for may have been done."""


class MalformedResponse(ConnectionBroken):
    """Something came, and it makes no sense as an answer. Asking again will hardly help."""


class Sink(Protocol):
    """Takes the body of an answer piece by piece."""

    def feed(self, data: bytes) -> None: ...

    def end(self) -> None:
        """That was all."""

    def fail(self, error: ConnectionBroken) -> None:
        """There will be no more, and that was not all."""


class _Stop(Exception):
    """Leaves the parser, which can only be stopped by an exception from a callback."""


class ClientConnection(asyncio.Protocol):
    """Made by `network.connect`, and then used by one caller at a time."""

    __slots__ = (
        "_body",
        "_body_bytes",
        "_clock",
        "_failure",
        "_head_bytes",
        "_headers",
        "_is_in_body",
        "_is_lost",
        "_limits",
        "_loop",
        "_on_lost",
        "_parser",
        "_silence_s",
        "_sink",
        "_timer",
        "_transport",
        "_until_eof",
        "_until_ns",
        "_waiter",
        "_was_active",
        "idle_since_ns",
        "is_reusable",
    )

    _transport: asyncio.Transport

    def __init__(self, limits: ClientLimits, clock: Clock, on_lost: "Callable[[ClientConnection], None]") -> None:
        self._limits = limits
        self._silence_s = limits.answer_within.total_seconds()
        self._clock = clock
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        self._waiter: asyncio.Future[ServerResponse] | None = None
        self._sink: Sink | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._failure: MalformedResponse | None = None  # Set in a callback of the parser, which cannot raise it itself.
        self._is_lost = False
        self._was_active = False
        self._until_ns = 0
        self.is_reusable = True
        """Another request may be sent once this one is answered."""
        self.idle_since_ns = 0
        """Kept by the pool."""
        self._expect()

    def _expect(self) -> None:
        """Be ready for the head of an answer."""
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._body_bytes = self._head_bytes = 0
        self._is_in_body = self._until_eof = False

    # For callers.

    @property
    def is_open(self) -> bool:
        return not self._is_lost and not self._transport.is_closing()

    def exchange(self, head: bytes, body: bytes, until_ns: int) -> asyncio.Future[ServerResponse]:
        """Send a request, and wait for its answer. Raises `ConnectionBroken`. Cancelling it leaves the connection
        useless.
        """
        waiter = self._waiter = self._loop.create_future()
        self._until_ns = until_ns
        self._wait_for_bytes()
        transport = self._transport
        if not body:
            transport.write(head)
        elif len(body) <= JOIN_BYTES_MAX:
            transport.write(head + body)
        else:
            transport.write(head)
            transport.write(body)
        return waiter

    def follow(self, head: bytes, sink: Sink, until_ns: int) -> asyncio.Future[ServerResponse]:
        """Send a request, and wait for the head of its answer.

        If that is a success, the body goes to the sink, and nothing here limits how long it is silent. If not, the
        answer is given as a whole and the sink not used.
        """
        self._sink = sink
        return self.exchange(head, b"", until_ns)

    def pause_reading(self) -> None:
        if self.is_open:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self.is_open:
            self._transport.resume_reading()

    @property
    def is_sending(self) -> bool:
        """Not all of the last request is out, although it was answered."""
        return self._transport.get_write_buffer_size() > 0

    def close(self) -> None:
        """End it in order. For a connection that waits for nothing."""
        self.is_reusable = False
        self._transport.close()

    def abort(self) -> None:
        """End it now. A request that waits for an answer gets `ConnectionBroken`."""
        self._break(ConnectionBroken("the connection was aborted"))

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's only behave like one.

    def data_received(self, data: bytes) -> None:
        if self._parser is None or (self._waiter is None and self._sink is None):
            # Nothing was asked: whatever it is, it would be taken for the answer to the next request.
            self._break(MalformedResponse(_UNASKED))
            return
        self._was_active = True
        if not self._is_in_body:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserCallbackError:
            if self._failure is None:
                raise  # One of our own callbacks has failed.
            self._break(self._failure)
        except HttpParserUpgrade:
            self._break(MalformedResponse("the server switched to another protocol without a request"))
        except HttpParserError as error:
            self._break(MalformedResponse(f"invalid HTTP answer: {error}"))
        else:
            if not self._is_in_body and self._head_bytes > self._limits.head_bytes:
                self._break(MalformedResponse(f"the head of the answer is longer than {self._limits.head_bytes} bytes"))

    def eof_received(self) -> bool:
        if self._until_eof and self._is_in_body:
            self.is_reusable = False
            self._finish()  # Neither a length nor chunks: the end of the connection is that of the answer.
        else:
            self._break(ConnectionBroken("the server closed the connection before its answer was complete"))
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._is_lost = True
        self.is_reusable = False
        words = f"the connection broke: {error}" if error is not None else "the connection was closed"
        self._fail(ConnectionBroken(words))
        self._parser = None  # It knows this object, which knows it.
        self._on_lost(self)

    # Callbacks of the parser, in this order.

    def on_message_begin(self) -> None:
        if self._waiter is None:
            raise self._stop(_UNASKED)  # Behind the answer, in one piece with it.

    def on_header(self, name: bytes, value: bytes) -> None:
        known = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        self._headers[known] = f"{self._headers[known]}\n{text}" if known == WARNING in self._headers else text

    def on_headers_complete(self) -> None:
        self._is_in_body = True
        headers = self._headers
        self._until_eof = "content-length" not in headers and "transfer-encoding" not in headers
        coding = headers.get("content-encoding", "identity")
        if coding not in ("identity", ""):
            raise self._stop(f"unexpected content encoding {coding!r} in the answer")
        if self._sink is not None:
            status = cast(HttpResponseParser, self._parser).get_status_code()
            if status >= 300:
                self._sink = None
            elif status >= 200:
                self._answer(ServerResponse(status, headers, b""))

    def on_body(self, data: bytes) -> None:
        if self._sink is not None:
            self._sink.feed(data)
            return
        self._body_bytes += len(data)
        if self._body_bytes > self._limits.body_bytes:
            raise self._stop(f"the answer is longer than {self._limits.body_bytes} bytes")
        self._body.append(data)

    def on_message_complete(self) -> None:
        parser = cast(HttpResponseParser, self._parser)
        if parser.get_status_code() < 200:
            self._expect()  # Only that it is being worked on.
            return
        if not parser.should_keep_alive():
            self.is_reusable = False
        self._finish()

    def _finish(self) -> None:
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.end()
        else:
            status = cast(HttpResponseParser, self._parser).get_status_code()
            body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
            self._answer(ServerResponse(status, self._headers, body))
        self._expect()

    def _answer(self, response: ServerResponse) -> None:
        self._stop_waiting()
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(response)

    # Ending.

    def _stop(self, message: str) -> _Stop:
        self._failure = MalformedResponse(message)
        return _Stop()

    def _break(self, error: ConnectionBroken) -> None:
        self.is_reusable = False
        self._fail(error)
        self._transport.abort()

    def _fail(self, error: ConnectionBroken) -> None:
        self._stop_waiting()
        waiter, self._waiter = self._waiter, None
        sink, self._sink = self._sink, None
        if waiter is not None:
            if not waiter.done():
                waiter.set_exception(error)
        elif sink is not None:
            sink.fail(error)

    # Time.

    def _wait_for_bytes(self) -> None:
        self._was_active = False
        left_s = (self._until_ns - self._clock.monotonic_ns()) / _SECOND_NS
        self._timer = self._loop.call_later(max(0.0, min(left_s, self._silence_s)), self._look_whether_silent)

    def _look_whether_silent(self) -> None:
        if self._was_active and self._clock.monotonic_ns() < self._until_ns:
            self._wait_for_bytes()
        else:
            self._timer = None
            self._break(ConnectionBroken("timed out waiting for an answer"))

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def nanoseconds(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1) * 1000
