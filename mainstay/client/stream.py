"""An answer that comes bit by bit, as bytes: the log of a container.

    async with client.stream("/api/v1/namespaces/default/pods/web/log", [("follow", "true")]) as stream:
        async for piece in stream:
            ...

Pieces are as they came and need not end where a line does. When nobody fetches, no more is read from the server. The
end of the iteration is the server's; `Unavailable` means that the connection broke, and that there may have been more.
A stream on which nothing comes is not an error here.
"""

import asyncio
from collections import deque
from types import TracebackType
from typing import Self

from mainstay.client.call import Call
from mainstay.client.connection import Broken, Connection
from mainstay.client.errors import Unavailable
from mainstay.client.limits import Limits
from mainstay.client.sending import Sender


class Stream:
    """Made by `Client.stream`. Nothing is asked before it is entered."""

    def __init__(self, sender: Sender, call: Call, limits: Limits) -> None:
        self._sender = sender
        self._call = call
        self._pieces = _Pieces(limits)

    async def __aenter__(self) -> Self:
        """Raises `ApiError` if the server does not give it."""
        await self._sender.follow(self._call, self._pieces)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pieces.stop()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while not self._pieces.ready:
            if not await self._pieces.wait():
                raise StopAsyncIteration
        return self._pieces.take()


class _Pieces:
    """Takes the bytes of a stream and holds them until they are fetched. Implements `Follower` (sending.py)."""

    connection: Connection

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.ready: deque[bytes] = deque()
        self._ready_bytes = 0
        self._is_paused = False
        self._is_ended = False
        self._error: Broken | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def wait(self) -> bool:
        """Wait for a piece. False at the end. Raises `Unavailable`."""
        if self._error is not None:
            raise Unavailable(f"the stream broke off: {self._error}")
        if self._is_ended:
            return False
        if self._waiter is not None:
            raise RuntimeError("two tasks read one stream")
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
        return True

    def take(self) -> bytes:
        piece = self.ready.popleft()
        self._ready_bytes -= len(piece)
        if self._is_paused and self._ready_bytes <= self._limits.unread_bytes // 2:
            self._is_paused = False
            self.connection.resume_reading()
        return piece

    def stop(self) -> None:
        self._is_ended = True
        self.connection.abort()
        self._wake()

    # For the connection.

    def feed(self, data: bytes) -> None:
        self.ready.append(data)
        self._ready_bytes += len(data)
        if not self._is_paused and self._ready_bytes > self._limits.unread_bytes:
            self._is_paused = True
            self.connection.pause_reading()
        self._wake()

    def end(self) -> None:
        self._is_ended = True
        self._wake()

    def fail(self, error: Broken) -> None:
        if self._error is None and not self._is_ended:
            self._error = error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
