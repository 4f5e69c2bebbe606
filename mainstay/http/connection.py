"""One connection: requests are read, handed to the handler one after the other, and answered in that order.

    bytes ─► reader ─► ready ─► handler ─► Response ──────────────────────► written at once
                   └─► head ────┘      └─► anything else ─► one task ─────► written when it is there

A handler that takes heads is called before the body of a long request is read (arrival.py). A body that came with its
head, in one piece, is simply there.

At most one request is being answered; those behind it wait in the reader's queue, and when too many do, the connection
is not read. A handler that answers at once costs no task and no timer. Timers exist for a head or a body that did not
come in one piece; idleness is noticed by one slow timer that only looks whether anything has happened.

When the client closes, or only its sending half, it is gone: what runs for it is cancelled.

After a refusal the client may still be sending. Closing at once would answer that with a reset, which can overtake the
refusal; so the connection lingers a moment, reading and dropping.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, cast

from mainstay.api.errors import StatusError, StatusReason, bad_request
from mainstay.env import tasks
from mainstay.http import encoder
from mainstay.http.arrival import Arrival, BodyMemory
from mainstay.http.connection_table import ConnectionEntry, ConnectionTable
from mainstay.http.limits import HttpLimits
from mainstay.http.long_answer import stream_pieces
from mainstay.http.messages import (
    Answer,
    Handler,
    LongResponse,
    Peer,
    Request,
    Response,
    StreamResponse,
    TunnelResponse,
    UpgradeResponse,
)
from mainstay.http.reader import ReaderPhase, RequestReader
from mainstay.http.streams import BodyStream, Outlet, StreamMemory, Tunnel
from mainstay.http.websocket import WebSocket, find_accept_token

# Bytes given to the parser before looking how many requests they were: the shortest request has some 26.
FEED_BYTES_MAX: Final = 16 * 1024


@dataclass(slots=True)
class ConnectionContext:
    """What the connections of one server share."""

    handler: Handler
    limits: HttpLimits
    date: encoder.DateHeader
    bodies: BodyMemory
    streams: StreamMemory
    table: ConnectionTable
    on_head: bool = False
    """Whether the handler is called before the body is read."""
    connections: "dict[ServerConnection, None]" = field(default_factory=dict)
    is_draining: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while draining, when the last connection is gone."""


class ServerConnection(asyncio.Protocol):
    """The protocol of one accepted connection."""

    __slots__ = (
        "_answering",
        "_arrival",
        "_body_reserved",
        "_close_timer",
        "_deadline",
        "_deadline_of",
        "_entry",
        "_held",
        "_idle_timer",
        "_is_closing",
        "_is_fresh",
        "_lingers",
        "_loop",
        "_outlet",
        "_reader",
        "_service",
        "_stream",
        "_task",
        "_tunnel",
        "_was_active",
        "_websocket",
    )

    _outlet: Outlet
    _reader: RequestReader

    def __init__(self, service: ConnectionContext, entry: ConnectionEntry | None = None) -> None:
        """`entry` is that of the handshake, if there was one."""
        self._service = service
        self._entry = entry
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._answering: object = None
        self._stream: BodyStream | None = None
        self._websocket: WebSocket | None = None
        self._tunnel: Tunnel | None = None
        self._held = b""  # Read but not parsed: see `_must_hold`.
        self._arrival: Arrival | None = None  # Of the body of the request that is being answered, until it is settled.
        self._body_reserved = 0, ""  # How many bytes, for whom.
        self._is_closing = False  # Nothing is read any more, except to drop it.
        self._lingers = False  # The client may still be sending when the last answer is written.
        self._was_active = False
        self._is_fresh = True  # Its client has asked nothing yet.
        self._deadline: asyncio.TimerHandle | None = None
        self._deadline_of: tuple[int, ReaderPhase] | None = None
        self._close_timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._outlet = Outlet(cast(asyncio.Transport, transport))  # uvloop's only behave like one.
        peer = Peer.behind(transport)
        self._reader = RequestReader(self._service.limits, peer)
        self._service.connections[self] = None
        is_certified = peer.certificate is not None
        self._entry = self._service.table.open(self._entry, peer.host, self, is_certified=is_certified)
        if self._entry.is_surplus or self._service.is_draining:
            message = "the server has too many connections, or is shutting down"
            self._send_refusal(StatusError(503, StatusReason.SERVICE_UNAVAILABLE, message, retry_after_s=1))
            self._close()
        else:
            self._idle_timer = self._call_later(self._service.limits.first_within, self._look_whether_begun)

    def data_received(self, data: bytes) -> None:
        if self._websocket is not None:
            self._feed_websocket(data)
        elif self._tunnel is not None:
            self._tunnel.feed(data)
        elif self._is_closing or self._reader.is_last:
            pass
        elif (
            len(data) <= FEED_BYTES_MAX
            and not self._reader.ready
            and not self._held
            and not self._reader.is_upgrading
            and self._reader.phase is not ReaderPhase.BODY
        ):
            used = self._reader.feed(data)
            self._after_feeding()
            if used < len(data):
                self._parse(data[used:])
        else:
            self._parse(self._held + data if self._held else data)

    def eof_received(self) -> bool:
        self._let_go()
        self._close()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._outlet.lose()
        self._is_closing = True
        self._let_go()
        for timer in (self._deadline, self._idle_timer, self._close_timer):
            if timer is not None:
                timer.cancel()
        # No cycle is left: the collector comes by so seldom that what was read would stay, with the buffers of TLS.
        self._deadline = self._idle_timer = self._close_timer = self._arrival = None
        self._held = b""
        self._reader.close()
        self._leave_if_over()

    def pause_writing(self) -> None:
        self._outlet.pause()

    def resume_writing(self) -> None:
        self._was_active = True
        self._outlet.resume()
        self._advance()
        self._read_on()

    # From bytes to requests.

    def _parse(self, data: bytes) -> None:
        """Feed the reader piece by piece, and hold what is left while it cannot be parsed."""
        reader = self._reader
        self._held = b""
        view = memoryview(data)
        at = 0
        while at < len(view) and not reader.is_last and not self._is_closing:
            if reader.is_upgrading and self._task is None and not reader.ready:
                reader.go_on()  # It was answered, and not by an upgrade.
            if self._must_hold():
                self._held = bytes(view[at:])
                # A client that waits for an answer loses nothing by this, only its going away is noticed later.
                self._outlet.pause_reading()
                return
            at += reader.feed(view[at : at + FEED_BYTES_MAX])
            self._after_feeding()

    def _must_hold(self) -> bool:
        """Whether no more can be parsed now: the last request may bring another protocol, too many wait, or the
        handler has not asked for the body that comes next."""
        reader, arrival = self._reader, self._arrival
        return (
            reader.is_upgrading
            or len(reader.ready) >= self._service.limits.pipelined
            or (arrival is not None and not arrival.is_wanted)
            or (self._service.on_head and reader.is_head_there)
        )

    def _after_feeding(self) -> None:
        reader = self._reader
        if self._arrival is not None:
            self._notice_arrival(self._arrival)
        if reader.ready or reader.is_last:
            self._advance()
        if reader.phase is ReaderPhase.BODY:
            self._begin_body()
        if reader.phase is not ReaderPhase.BETWEEN or self._deadline is not None:
            self._set_deadline()

    def _begin_body(self) -> None:
        """A head is there, without its body. If nothing is ahead of it: ask the handler, or the client to go on."""
        reader = self._reader
        if self._task is not None or reader.ready or self._outlet.is_paused or self._is_closing:
            return
        if not self._service.on_head:
            self._send_continue()
        elif reader.is_head_there:
            self._was_active = True
            request = reader.take_head()
            request.arriving = self._arrival = Arrival(self._read_body)
            self._handle(request)
            if reader.is_last:
                self._advance()

    def _read_on(self) -> None:
        """Something was answered: go on with what was held back because of it."""
        if self._task is None and not self._is_closing and not self._reader.ready:
            self._outlet.resume_reading()
            if self._reader.phase is ReaderPhase.BODY:
                self._begin_body()
            if self._held:
                self._parse(self._held)

    def _send_continue(self) -> None:
        if self._reader.wants_continue:
            self._reader.wants_continue = False
            self._outlet.send(encoder.CONTINUE)

    # Bodies that the handler asks for.

    def _read_body(self, share: float, owner: str, bytes_max: int | None) -> None:
        """The handler wants the body. Raises `StatusError` if there is no room for it."""
        if bytes_max is not None:
            self._reader.limit_body(bytes_max)
        size = self._reader.body_bytes_declared
        size = self._reader.body_bytes_max if size is None else size
        self._service.bodies.reserve(size, share, owner)
        self._body_reserved = size, owner
        self._send_continue()
        self._deadline_of = None
        self._set_deadline()
        self._outlet.resume_reading()
        if self._held:
            self._parse(self._held)

    def _notice_arrival(self, arrival: Arrival) -> None:
        reader = self._reader
        if reader.refusal is not None:
            # The handler is told, and what it makes of it is the answer.
            error, reader.refusal = reader.refusal, None
            self._arrival, self._lingers = None, True
            arrival.fail(error)
        elif not reader.is_body_awaited:
            self._arrival = None
            arrival.complete()

    def _leave_body(self) -> None:
        """The answer is there, and the body is not. Drop a short one, to go on with this connection afterwards."""
        reader, self._arrival = self._reader, None
        size = reader.body_bytes_declared
        if size is not None and size <= self._service.limits.dropped_bytes and not reader.wants_continue:
            reader.drop_body()
        else:
            reader.stop()
            self._lingers = True

    # From requests to answers.

    def _advance(self) -> None:
        """Answer what is ready, in order, as far as it can be done now."""
        reader = self._reader
        while reader.ready and self._task is None and not self._outlet.is_paused and not self._is_closing:
            self._was_active = True
            self._handle(reader.ready.popleft())
        if self._task is None and not reader.ready and not self._is_closing:
            if reader.refusal is not None:
                self._refuse(reader.refusal)
            elif reader.is_last and self._lingers:
                self._linger()
            elif reader.is_last or (self._service.is_draining and reader.phase is ReaderPhase.BETWEEN):
                self._close()

    def _handle(self, request: Request) -> None:
        if self._is_fresh and self._entry is not None:
            self._is_fresh = False
            self._service.table.use(self._entry)
        try:
            answer = self._service.handler(request)
            if type(answer) is Response:
                self._write(request, answer)
                return
        except StatusError as error:
            self._write(request, encoder.build_response(error))
            return
        except Exception as error:  # noqa: BLE001 - reported; one request's bug must not end the server
            self._write(request, self._failed(request, error))
            return
        self._answering = answer
        self._task = tasks.begin(self._answer(request, answer), name=f"{request.method} {request.path}")
        self._task.add_done_callback(self._answered)

    def _answered(self, task: asyncio.Task[None]) -> None:
        answer, self._answering = self._answering, None
        if (close := getattr(answer, "close", None)) is not None:
            close()  # It may have been cancelled before it could begin.
        self._task = None
        self._service.bodies.release(*self._body_reserved)
        self._body_reserved = 0, ""
        if not task.cancelled() and (error := task.exception()) is not None:
            message = f"task {task.get_name()!r} failed"
            self._loop.call_exception_handler({"message": message, "exception": error, "task": task})
        self._stream = None
        self._leave_if_over()
        self._advance()
        self._read_on()

    async def _answer(self, request: Request, answer: Answer | Awaitable[Answer]) -> None:
        """Wait for the answer if need be, and write it, however long it is."""
        try:
            if not isinstance(answer, Response | LongResponse | StreamResponse | UpgradeResponse | TunnelResponse):
                answer = await answer
            match answer:
                case Response():
                    self._write(request, answer)
                case LongResponse():
                    try:
                        await self._run_stream(request, stream_pieces(request, answer, self._service.limits))
                    finally:
                        answer.close()
                case StreamResponse():
                    await self._run_stream(request, answer)
                case UpgradeResponse():
                    await self._run_websocket(request, answer)
                case TunnelResponse():
                    await self._run_tunnel(answer)
        except StatusError as error:
            self._answer_failure(request, encoder.build_response(error))
        except asyncio.CancelledError as error:
            if cast("asyncio.Task[None]", asyncio.current_task()).cancelling():
                if self._outlet.is_open:
                    self._outlet.transport.abort()  # It was cancelled: there will be no answer.
                raise
            # Not this task was cancelled but one that it waited for.
            self._answer_failure(request, self._failed(request, error))
        except Exception as error:  # noqa: BLE001 - reported; one request's bug must not end the server
            self._answer_failure(request, self._failed(request, error))

    def _answer_failure(self, request: Request, response: Response) -> None:
        if self._stream is not None or self._tunnel is not None:
            self._outlet.transport.abort()  # Its head is sent, and a clean end would be a lie.
        elif self._websocket is not None:
            self._websocket.finish(1011)
            self._linger()
        else:
            self._write(request, response)

    def _write(self, request: Request, response: Response) -> None:
        if self._arrival is not None:
            self._leave_body()
        service, body = self._service, response.body
        limits = service.limits
        is_compressible = limits.gzip_above_bytes < len(body) <= limits.gzip_at_once_bytes
        if is_compressible and limits.gzip and encoder.accepts_gzip(request):
            response = encoder.compressed(response)
            body = response.body
        head = encoder.head_of_response(response, date=service.date.line(), closes=self._is_last_answer())
        if request.method == "HEAD" or response.status in encoder.WITHOUT_BODY:
            body = b""
        self._outlet.send(head, body)

    def _is_last_answer(self) -> bool:
        reader = self._reader
        return (reader.is_last or self._service.is_draining) and not reader.ready and reader.refusal is None

    async def _run_stream(self, request: Request, response: StreamResponse) -> None:
        if self._arrival is not None:
            self._leave_body()
        closes = self._is_last_answer()
        # HTTP/1.0 has no chunks. What the reader says is of the last request it has read, which may not be this one.
        is_chunked = not (self._reader.is_http_1_0 and self._reader.is_last and closes)
        date = self._service.date.line()
        self._outlet.send(encoder.head_of_stream(response, date=date, is_chunked=is_chunked, closes=closes))
        if request.method == "HEAD":
            return
        bytes_max = self._service.limits.stream_bytes
        memory, turns = self._service.streams, response.turns
        stream = BodyStream(self._outlet, bytes_max=bytes_max, is_chunked=is_chunked, turns=turns, memory=memory)
        self._stream = stream
        if self._service.is_draining or self._outlet.is_lost:
            stream.end_soon()
        try:
            await response.run(stream)
        finally:
            memory.forget(stream)
        if stream.is_too_slow or stream.is_broken_off:
            self._outlet.transport.abort()
        elif is_chunked:
            self._outlet.send(encoder.LAST_CHUNK)

    async def _run_websocket(self, request: Request, response: UpgradeResponse) -> None:
        token = find_accept_token(request.method, request.headers)
        if token is None or not self._reader.is_upgrading or self._reader.ready:
            raise bad_request("this path requires a WebSocket upgrade")
        self._outlet.send(encoder.head_of_upgrade(response, token, date=self._service.date.line()))
        limits = self._service.limits
        websocket = WebSocket(self._outlet, limits.message_bytes, self._service.streams, response.subprotocol)
        self._websocket = websocket
        if self._outlet.is_lost:
            websocket.end()
        else:
            self._outlet.resume_reading()
            self._feed_websocket(self._held)
            if self._service.is_draining:
                websocket.end_soon()
        await response.run(websocket)
        websocket.finish(1000)
        self._linger()
        if websocket.is_shaken_off:
            self._close()

    async def _run_tunnel(self, response: TunnelResponse) -> None:
        if not self._reader.is_upgrading or self._reader.ready:
            response.drop()
            raise bad_request("this path requires a protocol upgrade")
        self._outlet.send(encoder.head_of_tunnel(response, date=self._service.date.line()))
        tunnel = self._tunnel = Tunnel(self._outlet, self._service.limits.message_bytes)
        self._outlet.resume_reading()
        tunnel.feed(self._held)
        self._held = b""
        if self._outlet.is_lost or self._service.is_draining:
            tunnel.end()
        await response.run(tunnel)
        tunnel.end()  # What still comes is dropped.
        self._linger()

    def _feed_websocket(self, data: bytes) -> None:
        websocket = cast(WebSocket, self._websocket)
        websocket.feed(data)
        if websocket.is_shaken_off and self._task is None:
            self._close()

    def _failed(self, request: Request, error: BaseException) -> Response:
        message = f"the handler of {request.method} {request.path} failed"
        self._loop.call_exception_handler({"message": message, "exception": error, "protocol": self})
        return encoder.build_response(encoder.internal_error())

    # Refusing and closing.

    def _refuse(self, error: StatusError) -> None:
        self._send_refusal(error)
        self._linger()

    def _send_refusal(self, error: StatusError) -> None:
        response = encoder.build_response(error)
        head = encoder.head_of_response(response, date=self._service.date.line(), closes=True)
        self._outlet.send(head, response.body)

    def _linger(self) -> None:
        """The answer is complete. Give the client a moment to read it, dropping what still comes."""
        self._is_closing = True
        if not self._outlet.is_open:
            return
        if self._websocket is None and self._outlet.transport.can_write_eof():
            self._outlet.transport.write_eof()
        self._outlet.resume_reading()
        self._close_timer = self._call_later(self._service.limits.linger, self._close)

    def _close(self) -> None:
        """Close when all is written, or when that takes too long."""
        self._is_closing = True
        if self._close_timer is not None:
            self._close_timer.cancel()
        if self._outlet.is_open:
            is_written = self._outlet.transport.get_write_buffer_size() == 0
            self._outlet.transport.close()
            if not is_written:
                self._close_timer = self._call_later(self._service.limits.close_within, self._outlet.transport.abort)

    def _let_go(self) -> None:
        """The client is gone."""
        if self._stream is not None:
            self._stream.end_soon()
        if self._websocket is not None:
            self._websocket.end()
        if self._tunnel is not None:
            self._tunnel.end()
        if self._task is not None:
            self._task.cancel()

    def _leave_if_over(self) -> None:
        """A connection counts until the transport is gone and nothing runs for it."""
        service = self._service
        if self._outlet.is_lost and self._task is None:
            service.connections.pop(self, None)
            if self._entry is not None:
                service.table.leave(self._entry)
                self._entry = None
            if service.is_draining and not service.connections:
                service.ended.set()

    # For the table of connections, and for the server.

    @property
    def peer(self) -> Peer:
        return self._reader.peer

    @property
    def is_busy(self) -> bool:
        return self._task is not None

    def drop(self) -> None:
        self._outlet.transport.abort()

    def end_soon(self) -> None:
        """The server goes down: end what has no end, finish what was begun, and close."""
        if self._stream is not None:
            self._stream.end_soon()
        if self._websocket is not None:
            self._websocket.end_soon()
        if self._tunnel is not None:
            self._tunnel.end()
        self._advance()

    def cut_off(self) -> None:
        """The time for that is over."""
        self._let_go()
        self._outlet.transport.abort()

    # Time.

    def _set_deadline(self) -> None:
        """What is being read did not come in one piece. Each head and each body has its own time."""
        phase, limits = self._reader.phase, self._service.limits
        reading = (self._reader.begun, phase)
        if reading == self._deadline_of:
            return
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._deadline_of = reading
        if phase is not ReaderPhase.BETWEEN:
            within = limits.head_within if phase is ReaderPhase.HEAD else limits.body_within
            self._deadline = self._call_later(within, self._reading_took_too_long)

    def _reading_took_too_long(self) -> None:
        self._deadline = self._deadline_of = None
        if self._outlet.is_reading_paused or self._must_hold():
            self._set_deadline()  # It was we who did not read.
        elif not self._is_closing:
            self._reader.give_up(StatusError(408, "RequestTimeout", "the request took too long to arrive"))
            if self._arrival is not None:
                self._notice_arrival(self._arrival)
            self._advance()

    def _look_whether_begun(self) -> None:
        if self._reader.begun == 0 and not self._is_closing:
            self._close()
        else:
            self._idle_timer = self._call_later(self._service.limits.idle_within, self._look_whether_idle)

    def _look_whether_idle(self) -> None:
        is_reading = self._reader.phase is not ReaderPhase.BETWEEN and not self._outlet.is_reading_paused
        if not (self._was_active or is_reading or self._task is not None or self._is_closing):
            if self._outlet.transport.get_write_buffer_size() > 0:
                self._outlet.transport.abort()  # It does not fetch its answers.
            else:
                self._close()
            return
        self._was_active = False
        self._idle_timer = self._call_later(self._service.limits.idle_within, self._look_whether_idle)

    def _call_later(self, delay: timedelta, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(delay.total_seconds(), callback)
