"""Answers without an end: what is given to the code that writes a watch or a log.

`Outlet` is a connection's way out, with its back-pressure: transports say when they have too much to send and when they
can take more. `Inlet` is its way in, for bytes that are no requests, and `Tunnel` is both. `BodyStream` writes through
an outlet as HTTP chunks. It never waits for the client on its own: a writer that serves many streams writes to each and
gives up those that are too slow.
"""

import asyncio
from collections import deque
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, Final, Protocol

from mainstay.env import network, tasks

# Below this, joining a chunk with its frame is cheaper than handing over three pieces.
JOIN_BYTES_MAX: Final = 64 * 1024


class _GoneTransport(asyncio.Transport):
    """In place of one that is lost."""

    def is_closing(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        """It is."""

    def abort(self) -> None:
        """It is closed."""


_GONE: Final = _GoneTransport()


class Outlet:
    """A connection's transport, with back-pressure. Nothing is asked of it once it is closing: uvloop would raise."""

    __slots__ = ("_loop", "_waiters", "is_lost", "is_paused", "is_reading_paused", "transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.is_paused = False
        self.is_reading_paused = False
        self.is_lost = False
        self._loop = asyncio.get_running_loop()
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def is_open(self) -> bool:
        return not self.is_lost and not self.transport.is_closing()

    def send(self, head: bytes, body: bytes = b"") -> None:
        transport = self.transport
        if self.is_lost or transport.is_closing():
            return
        if len(body) <= JOIN_BYTES_MAX:
            transport.write(head + body)
        else:
            transport.writelines((head, body))

    def pause_reading(self) -> None:
        if not self.is_reading_paused and self.is_open:
            self.is_reading_paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        if self.is_reading_paused and self.is_open:
            self.is_reading_paused = False
            self.transport.resume_reading()

    def be_patient(self) -> None:
        """Do not give the other side up because it takes nothing for a while."""
        if self.is_open:
            network.be_patient(self.transport)

    async def drain(self) -> None:
        """Wait until the transport takes more, or is gone."""
        while self.is_paused and not self.is_lost:
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        self._wake()

    def lose(self) -> None:
        self.is_lost = True
        self.transport = _GONE  # The real one, with its buffers, goes as soon as its loop lets go of it.
        self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


class Inlet:
    """What came over a connection and was not fetched yet. Beyond a limit the connection is not read."""

    __slots__ = ("_bytes_max", "_is_ended", "_outlet", "_pieces", "_size", "_waiter")

    def __init__(self, outlet: Outlet, bytes_max: int) -> None:
        self._outlet = outlet
        self._bytes_max = bytes_max
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._is_ended = False
        self._waiter: asyncio.Future[None] | None = None

    def feed(self, data: bytes) -> None:
        if self._is_ended or not data:
            return
        self._pieces.append(data)
        self._size += len(data)
        if self._size > self._bytes_max:
            self._outlet.pause_reading()
        self._wake()

    def end(self) -> None:
        """No more will come. What is there can still be fetched."""
        self._is_ended = True
        self._wake()

    async def read(self) -> bytes:
        """Some bytes; by one task at a time. Empty if there will be no more."""
        while not self._pieces:
            if self._is_ended:
                return b""
            if self._waiter is not None:
                raise RuntimeError("two tasks read from one connection")
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        piece = self._pieces.popleft()
        self._size -= len(piece)
        if self._size <= self._bytes_max // 2:
            self._outlet.resume_reading()
        return piece

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Tunnel:
    """The bytes of a connection whose two ends speak a protocol that is not looked at here."""

    __slots__ = ("_inlet", "_outlet")

    def __init__(self, outlet: Outlet, bytes_max: int) -> None:
        self._outlet = outlet
        self._inlet = Inlet(outlet, bytes_max)
        outlet.be_patient()

    async def read(self) -> bytes:
        """What the client sent. Empty if there will be no more: it is gone, or the server ends."""
        return await self._inlet.read()

    async def write(self, data: bytes) -> bool:
        """Send some bytes, and wait until the client can take more. False if it is gone."""
        if not self._outlet.is_open:
            return False
        self._outlet.send(data)
        await self._outlet.drain()
        return True

    # For the connection.

    def feed(self, data: bytes) -> None:
        self._inlet.feed(data)

    def end(self) -> None:
        self._inlet.end()


class PieceTurns(Protocol):
    """When the pieces of a long answer may be made: many of them share one processor."""

    async def wait(self) -> None:
        """Return when it is this answer's turn to make one piece."""

    def end(self) -> None:
        """No more pieces are made, or only when the client goes on taking them. May be called again."""


class WaitingStream(Protocol):
    @property
    def waiting_bytes(self) -> int:
        """What is not sent yet."""


class StreamMemory:
    """What waits to be sent on all streams of a server together. Beyond the limit, a stream with more than its share is
    cut off: slow clients are bounded one by one, and also all together."""

    __slots__ = ("_bytes_max", "_waiting")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._waiting: dict[WaitingStream, int] = {}

    @property
    def total(self) -> int:
        return sum(self._waiting.values())

    def note(self, stream: WaitingStream, size: int) -> bool:
        """This much waits to be sent on a stream. False if that is too much."""
        if not size:
            self._waiting.pop(stream, None)
            return True
        self._waiting[stream] = size
        # What the others have waiting may be less by now: so first a look at whether it is worth adding up.
        return size * len(self._waiting) <= self._bytes_max or self._is_within()

    def forget(self, stream: WaitingStream) -> None:
        self._waiting.pop(stream, None)

    def _is_within(self) -> bool:
        for each in self._waiting:
            self._waiting[each] = each.waiting_bytes
        return self.total <= self._bytes_max


class BodyStream:
    """The body of a `StreamResponse`, while it is being written."""

    __slots__ = ("_bytes_max", "_closed", "_is_chunked", "_memory", "_outlet", "_turns", "is_broken_off", "is_too_slow")

    def __init__(
        self,
        outlet: Outlet,
        *,
        bytes_max: int,
        is_chunked: bool,
        turns: PieceTurns | None = None,
        memory: StreamMemory | None = None,
    ) -> None:
        self._turns = turns
        self._outlet = outlet
        self._memory = memory
        self._bytes_max = bytes_max
        self._is_chunked = is_chunked
        self._closed = asyncio.Event()
        self.is_too_slow = False
        self.is_broken_off = False

    def write(self, data: bytes) -> bool:
        """Send some bytes; never waits.

        False means that they were not taken, because the client is gone or has too much waiting already. Return then:
        the connection is cut off, so that the client cannot take what it has for all there was.
        """
        outlet = self._outlet
        if self.is_too_slow or not outlet.is_open:
            return False
        waiting = outlet.transport.get_write_buffer_size()
        if waiting > self._bytes_max or (self._memory is not None and not self._memory.note(self, waiting)):
            self.is_too_slow = True
            return False
        if not data:
            return True  # An empty chunk would be the end.
        if not self._is_chunked:
            outlet.transport.write(data)
        elif len(data) <= JOIN_BYTES_MAX:
            outlet.transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        else:
            outlet.transport.writelines((b"%x\r\n" % len(data), data, b"\r\n"))
        return True

    async def turn(self) -> None:
        """Let others have their turn before more is made. For writers of much at once."""
        if self._turns is None:
            await tasks.turns(1)
        else:
            await self._turns.wait()

    @property
    def waiting_bytes(self) -> int:
        """What is not sent yet."""
        return self._outlet.transport.get_write_buffer_size() if self._outlet.is_open else 0

    @property
    def is_behind(self) -> bool:
        """Whether the client has more waiting than the transport likes."""
        return self._outlet.is_paused

    def be_patient(self) -> None:
        """Let the client take as long as it likes. For callers that wait in `drain` and hold nothing up by that."""
        self._outlet.be_patient()

    async def drain(self) -> None:
        """Wait until the transport takes more, or the client is gone."""
        await self._outlet.drain()

    async def drains_within(self, limit: timedelta) -> bool:
        """The same, but not for ever. False if the client has not taken enough by then."""
        try:
            async with tasks.timeout(limit):
                await self._outlet.drain()
        except TimeoutError:
            return False
        return True

    async def drained_within(self, limit: timedelta) -> bool:
        """The same, and if the client has not taken enough by then, it is cut off."""
        if not await self.drains_within(limit):
            self.is_too_slow = True
        return not self.is_too_slow

    @property
    def closed(self) -> bool:
        """The client is gone, or the server wants the stream to end. Last words can still be written to the latter."""
        return self._closed.is_set()

    async def wait_closed(self) -> None:
        await self._closed.wait()

    def end_soon(self) -> None:
        """Called by the connection: the client is gone, or the server is shutting down."""
        self._closed.set()

    def break_off(self) -> None:
        """There should have been more, and cannot be. The connection is cut off, so that the client knows."""
        self.is_broken_off = True


async def while_open(stream: BodyStream, work: Coroutine[Any, Any, None]) -> None:
    """Do some work for a stream, until it is done or the stream is to end. What the work raises is raised."""
    await tasks.until_one_ends((work, stream.wait_closed()), name="write a stream")
