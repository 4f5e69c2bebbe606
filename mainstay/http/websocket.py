"""WebSocket messages over a connection, framed by wsproto.

The handshake and the life of the connection are connection.py's. Here: messages in and out, pings answered, fragments
put together, the close handshake, and limits. What was received and not yet fetched is bounded: beyond it the
connection is not read, and TCP makes the client wait. No extensions are offered, so nothing is compressed.
"""

import asyncio
import base64
import binascii
import hashlib
from collections import deque
from typing import Final, Protocol

from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import LocalProtocolError

from mainstay.http.streams import Outlet, StreamMemory

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3.


class HandshakeHeaders(Protocol):
    def get(self, name: str) -> str | None: ...

    def getall(self, name: str) -> list[str]: ...


def find_accept_token(method: str, headers: HandshakeHeaders) -> str | None:
    """The answer to a WebSocket handshake. None if the request is none."""
    upgrades = [each.strip().lower() for value in headers.getall("upgrade") for each in value.split(",")]
    if method != "GET" or "websocket" not in upgrades or headers.get("sec-websocket-version") != "13":
        return None
    return accept_token(headers.get("sec-websocket-key") or "")


def accept_token(key: str) -> str | None:
    """What proves to the client that its handshake was understood. None if the key is not one."""
    try:
        if len(base64.b64decode(key, validate=True)) != 16:
            return None
    except (binascii.Error, ValueError):
        return None
    return base64.b64encode(hashlib.sha1(key.encode() + _GUID, usedforsecurity=False).digest()).decode()


class WebSocket:
    """An open WebSocket, given to the `run` of an `UpgradeResponse`."""

    def __init__(
        self, outlet: Outlet, message_bytes_max: int, memory: StreamMemory, subprotocol: str | None = None
    ) -> None:
        """`memory` is for sessions that keep what is to be sent."""
        self.subprotocol = subprotocol
        self.memory = memory
        self._outlet = outlet
        self._message_bytes_max = message_bytes_max
        self._frames = Connection(ConnectionType.SERVER)
        self._received: deque[str | bytes] = deque()
        self._received_size = 0
        self._parts: list[str | bytes] = []
        self._parts_size = 0
        self._is_ended = False  # No more messages will come.
        self._waiter: asyncio.Future[None] | None = None

    # For the session that runs on it.

    @property
    def closed(self) -> bool:
        """Either side has closed, or the connection is gone. Nothing can be sent any more."""
        return self._frames.state is not ConnectionState.OPEN or not self._outlet.is_open

    @property
    def waiting_bytes(self) -> int:
        """What was sent and the client has not taken yet."""
        return self._outlet.transport.get_write_buffer_size() if self._outlet.is_open else 0

    async def send_text(self, text: str) -> bool:
        """Send one message, and wait until the client can take more. False if it was not sent: the client is gone."""
        return await self._send(TextMessage(data=text))

    async def send_bytes(self, data: bytes) -> bool:
        """Send one message, and wait until the client can take more. False if it was not sent: the client is gone."""
        return await self._send(BytesMessage(data=data))

    async def receive(self) -> str | bytes | None:
        """The next message. None if there will be no more: the client has closed or is gone, or the server ends."""
        while not self._received:
            if self._is_ended:
                return None
            if self._waiter is not None:
                raise RuntimeError("two tasks receive from one WebSocket")
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        message = self._received.popleft()
        self._received_size -= len(message)
        if self._received_size <= self._message_bytes_max // 2:
            self._outlet.resume_reading()
        return message

    def be_patient(self) -> None:
        """Let the client take as long as it likes. Otherwise it is lost after a while in which it takes nothing."""
        self._outlet.be_patient()

    def ping(self) -> None:
        """Send something that the client need not understand. If it is gone, that will show.

        For sessions that do not receive for long: a connection that is not read does not report its end.
        """
        if not self.closed:
            self._outlet.send(self._frames.send(Ping()))

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Say that nothing more will be sent. What the client still sends can be received until it answers."""
        self._send_close(code, reason)
        await self._outlet.drain()

    async def _send(self, message: TextMessage | BytesMessage) -> bool:
        if self.closed:
            return False
        self._outlet.send(self._frames.send(message))
        await self._outlet.drain()
        return True

    def _send_close(self, code: int, reason: str) -> None:
        if self._frames.state in (ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING):
            self._outlet.send(self._frames.send(CloseConnection(code=code, reason=reason)))

    # For the connection.

    @property
    def is_shaken_off(self) -> bool:
        """Both sides have said that they close."""
        return self._frames.state is ConnectionState.CLOSED

    def feed(self, data: bytes) -> None:
        """Take bytes from the client."""
        try:
            self._frames.receive_data(data)
            for event in self._frames.events():
                match event:
                    case TextMessage() | BytesMessage():
                        self._take_part(event)
                    case Ping():
                        if not self.closed:
                            self._outlet.send(self._frames.send(event.response()))
                    case CloseConnection():
                        # In answer to the client's own, or because of what it did wrong.
                        self._send_close(event.code, event.reason or "")
                        self.end()
                    case _:
                        pass
        except LocalProtocolError:
            self.end()  # It goes on talking after it has closed.

    def _take_part(self, part: TextMessage | BytesMessage) -> None:
        if self._is_ended:
            return
        self._parts.append(part.data if isinstance(part.data, str) else bytes(part.data))
        self._parts_size += len(part.data)
        if self._parts_size > self._message_bytes_max:
            self._parts.clear()
            self._send_close(CloseReason.MESSAGE_TOO_BIG, f"the limit is {self._message_bytes_max} bytes")
            self.end()
        elif part.message_finished:
            parts, self._parts, self._parts_size = self._parts, [], 0
            whole = "".join(parts) if isinstance(part, TextMessage) else b"".join(parts)  # type: ignore[arg-type]
            self._received.append(whole)
            self._received_size += len(whole)
            if self._received_size > self._message_bytes_max:
                self._outlet.pause_reading()
            self._wake()

    def end_soon(self) -> None:
        """The server is going down."""
        self._send_close(CloseReason.GOING_AWAY, "the server is shutting down")
        self.end()

    def finish(self, code: int) -> None:
        """The session is over."""
        self._send_close(code, "")
        self.end()
        self._received.clear()
        self._outlet.resume_reading()  # The client's close has to be read.

    def end(self) -> None:
        """No more messages will come."""
        self._is_ended = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
