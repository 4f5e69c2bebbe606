"""What has come of an answer without an end and was not fetched yet: the part that watches and streams share.

It is bounded: beyond so many bytes the connection is not read, and the server has to wait. How bytes become pieces is
for `feed`, which the subclass brings along (watch.py: lines; stream.py: as they come). Together they implement
`ConnectedSink` (dispatch.py).
"""

import asyncio
from collections import deque
from typing import ClassVar

from mainstay.client.connection import ClientConnection, ConnectionBroken
from mainstay.client.errors import Unavailable
from mainstay.client.limits import ClientLimits


class Unread:
    connection: ClientConnection
    what: ClassVar[str]
    """What it is part of, for messages."""

    def __init__(self, limits: ClientLimits) -> None:
        self._limits = limits
        self.ready: deque[bytes] = deque()
        self._ready_bytes = 0
        self._is_paused = False
        self._is_ended = False
        self._error: ConnectionBroken | None = None
        self._waiter: asyncio.Future[None] | None = None

    # For the reader.

    async def wait(self) -> bool:
        """Wait for a piece. False at the end. Raises `Unavailable`."""
        if self._error is not None:
            raise Unavailable(f"the {self.what} broke off: {self._error}")
        if self._is_ended:
            return False
        if self._waiter is not None:
            raise RuntimeError(f"two tasks read one {self.what}")
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

    def end(self) -> None:
        self._is_ended = True
        self._wake()

    def fail(self, error: ConnectionBroken) -> None:
        if self._error is None and not self._is_ended:
            self._error = error
        self._wake()

    # For `feed`.

    def _hold(self, pieces: list[bytes]) -> None:
        self.ready.extend(pieces)
        self._ready_bytes += sum(map(len, pieces))
        if not self._is_paused and self._ready_bytes > self._limits.unread_bytes:
            self._is_paused = True
            self.connection.pause_reading()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
