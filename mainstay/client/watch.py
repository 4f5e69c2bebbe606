"""A watch as a client reads it: events one by one, or as many as have come.

    async with client.watch(PODS, resource_version="5000") as watch:
        async for event in watch:
            ...

Bytes come in as the server sends them and are cut into lines; a line is looked at only when it is fetched. Objects stay
bytes, for callers that need their contents. While the caller does not fetch, no more is read from the server.

The end of the iteration is the server's: begin another watch from the last version seen. `Unavailable` means that the
connection broke, which comes to the same. Other errors are the server's words in the stream: `Expired` and the like.
A stream on which nothing comes is not an error here.
"""

from types import TracebackType
from typing import Final, Literal, Self

import msgspec

from mainstay.client.call import Call
from mainstay.client.connection import ConnectionBroken
from mainstay.client.dispatch import CallSender
from mainstay.client.errors import ApiError, Unavailable, error_of_event
from mainstay.client.limits import ClientLimits
from mainstay.client.receive_buffer import Unread

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]

_SHOWN_BYTES: Final = 200  # Of something that is no event.


class WatchEvent(msgspec.Struct, frozen=True, gc=False):
    """One change, or a bookmark. `object` is JSON."""

    type: EventType
    object: bytes


class _Line(msgspec.Struct, gc=False):
    type: EventType
    object: msgspec.Raw


_BEGINNINGS: Final[tuple[tuple[EventType, bytes], ...]] = (
    ("MODIFIED", b'{"type":"MODIFIED","object":'),
    ("BOOKMARK", b'{"type":"BOOKMARK","object":'),
)

_decode = msgspec.json.Decoder(_Line).decode


class Watch:
    """Made by `Client.watch`. Nothing is asked before it is entered."""

    def __init__(self, sender: CallSender, call: Call, limits: ClientLimits) -> None:
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
        for type_, beginning in _BEGINNINGS:
            if line.startswith(beginning) and line.endswith(b"}"):
                # By far the most. What follows is the object, and is parsed by callers that need it.
                return WatchEvent(type_, line[len(beginning) : -1])
        try:
            read = _decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            shown = line[:_SHOWN_BYTES].decode(errors="replace")
            raise Unavailable(f"{self._call}: invalid event in the watch: {error}: {shown}") from None
        content = bytes(read.object)
        if read.type == "ERROR":
            raise error_of_event(content)
        return WatchEvent(read.type, content)


class _Lines(Unread):
    """The bytes of a watch, cut into lines."""

    what = "watch"

    def __init__(self, limits: ClientLimits) -> None:
        super().__init__(limits)
        self._parts: list[bytes] = []  # Of a line of which the end has not come.
        self._parts_bytes = 0

    def put_back(self, line: bytes) -> None:
        self.ready.appendleft(line)
        self._ready_bytes += len(line)

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
            self._hold([line for line in whole if line])
        if rest:
            self._parts.append(rest)
            self._parts_bytes += len(rest)
            if self._parts_bytes > self._limits.event_bytes:
                self.fail(ConnectionBroken(f"an event is longer than {self._limits.event_bytes} bytes"))
                self.connection.abort()

    def end(self) -> None:
        if self._parts:
            self.fail(ConnectionBroken("the stream ended in the middle of an event"))
        super().end()
