"""A watch as a client reads it: events one by one, or as many as have come.

    async with client.watch(PODS, resource_version="5000") as watch:
        async for event in watch:
            ...

Bytes come in as the server sends them and are cut into lines; a line is looked at only when it is fetched. Objects stay
bytes, for whoever needs more of them than that they are there. When nobody fetches, no more is read from the server.

The end of the iteration is the server's: begin another watch from the last version seen. `Unavailable` means that the
connection broke, which comes to the same. Other errors are the server's words in the stream: `Expired` and the like.
A stream on which nothing comes is not an error here.
"""

import asyncio
from collections import deque
from types import TracebackType
from typing import Final, Literal, Self

import msgspec

from mainstay.client.call import Call
from mainstay.client.connection import Broken, Connection
from mainstay.client.errors import ApiError, Unavailable, error_of_event
from mainstay.client.limits import Limits
from mainstay.client.sending import Sender

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]

_SHOWN_BYTES: Final = 200  # Of something that is no event.


class WatchEvent(msgspec.Struct, frozen=True, gc=False):
    """One change, or a bookmark. `object` is JSON."""

    type: EventType
    object: bytes


class _Line(msgspec.Struct, gc=False):
    type: EventType
    object: msgspec.Raw


_MODIFIED: Final = b'{"type":"MODIFIED","object":'

_decode = msgspec.json.Decoder(_Line).decode


class Watch:
    """Made by `Client.watch`. Nothing is asked before it is entered."""

    def __init__(self, sender: Sender, call: Call, limits: Limits) -> None:
        self._sender = sender
        self._call = call
        self._limits = limits
        self._lines = _Lines(limits)

    async def __aenter__(self) -> Self:
        """Raises `ApiError` if the server does not give the watch."""
        await self._sender.follow(self._call, self._lines)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lines.stop()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WatchEvent:
        lines = self._lines
        while not lines.ready:
            if not await lines.wait():
                raise StopAsyncIteration
        return self._event(lines.take())

    async def fetch(self, count_max: int = 10_000) -> list[WatchEvent]:
        """All that have come, at least one. Empty at the end.

        An error in the stream is raised when everything before it was fetched.
        """
        lines = self._lines
        while not lines.ready:
            if not await lines.wait():
                return []
        events: list[WatchEvent] = []
        while lines.ready and len(events) < count_max:
            line = lines.take()
            try:
                events.append(self._event(line))
            except ApiError:
                if not events:
                    raise
                lines.put_back(line)
                break
        return events

    def _event(self, line: bytes) -> WatchEvent:
        if line.startswith(_MODIFIED) and line.endswith(b"}"):
            # By far the most. What follows is the object, and is read by whoever needs it.
            return WatchEvent("MODIFIED", line[len(_MODIFIED) : -1])
        try:
            read = _decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            shown = line[:_SHOWN_BYTES].decode(errors="replace")
            raise Unavailable(f"{self._call}: the watch delivered what is no event: {error}: {shown}") from None
        content = bytes(read.object)
        if read.type == "ERROR":
            raise error_of_event(content)
        return WatchEvent(read.type, content)


class _Lines:
    """Takes the bytes of a stream and gives its lines. Implements `Follower` (sending.py)."""

    connection: Connection

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.ready: deque[bytes] = deque()
        self._ready_bytes = 0
        self._parts: list[bytes] = []  # Of a line of which the end has not come.
        self._parts_bytes = 0
        self._is_paused = False
        self._is_ended = False
        self._error: Broken | None = None
        self._waiter: asyncio.Future[None] | None = None

    # For the watch.

    async def wait(self) -> bool:
        """Wait for a line. False at the end. Raises `Unavailable`."""
        if self._error is not None:
            raise Unavailable(f"the watch broke off: {self._error}")
        if self._is_ended:
            return False
        if self._waiter is not None:
            raise RuntimeError("two tasks read one watch")
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
        return True

    def take(self) -> bytes:
        line = self.ready.popleft()
        self._ready_bytes -= len(line)
        if self._is_paused and self._ready_bytes <= self._limits.unread_bytes // 2:
            self._is_paused = False
            self.connection.resume_reading()
        return line

    def put_back(self, line: bytes) -> None:
        self.ready.appendleft(line)
        self._ready_bytes += len(line)

    def stop(self) -> None:
        self._is_ended = True
        self.connection.abort()
        self._wake()

    # For the connection.

    def feed(self, data: bytes) -> None:
        if not self._parts and data.find(b"\n") == len(data) - 1:
            whole, rest = [data[:-1]], b""  # One event, in one piece: the usual case, and quicker than splitting.
        else:
            *whole, rest = data.split(b"\n")
        if whole:
            if self._parts:
                self._parts.append(whole[0])
                whole[0] = b"".join(self._parts)
                self._parts, self._parts_bytes = [], 0
            for line in whole:
                if line:
                    self.ready.append(line)
                    self._ready_bytes += len(line)
            if not self._is_paused and self._ready_bytes > self._limits.unread_bytes:
                self._is_paused = True
                self.connection.pause_reading()
            self._wake()
        if rest:
            self._parts.append(rest)
            self._parts_bytes += len(rest)
            if self._parts_bytes > self._limits.event_bytes:
                self.fail(Broken(f"an event is longer than {self._limits.event_bytes} bytes"))
                self.connection.abort()

    def end(self) -> None:
        if self._parts:
            self.fail(Broken("the stream ended within an event"))
        self._is_ended = True
        self._wake()

    def fail(self, error: Broken) -> None:
        if self._error is None and not self._is_ended:
            self._error = error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
