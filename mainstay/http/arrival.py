"""The body of a request that is answered by its head first (implements `BodyArrival` of messages.py).

    head ─► handler ─► read() ─► body, filled in by the reader ─► the handler goes on
                  └─► an answer without it ─► a short body is read and dropped; otherwise the connection is closed

Until the handler asks for it, no more of the body is parsed, and hardly more read: what the client sends stays in the
system's buffers. `BodyMemory` counts what all bodies of a server take together.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Final

from mainstay.api.errors import StatusError, StatusReason

OWNER_SHARE: Final = 0.25
"""How much of the room for bodies one owner may take."""


class BodyMemory:
    """The bytes of all bodies that are being read or used. `bytes_max` bounds their sum."""

    __slots__ = ("_by_owner", "_bytes_max", "held")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._by_owner: Counter[str] = Counter()
        self.held = 0

    def reserve(self, size: int, share: float, owner: str = "") -> None:
        """Count a body until `release`. Raises `StatusError` (429) if that is beyond this share of the whole, or beyond
        the share of its owner, if it has one."""
        if self.held + size > self._bytes_max * share:
            raise _too_many("the server is reading too many bodies at once")
        if owner and self._by_owner[owner] + size > self._bytes_max * OWNER_SHARE:
            raise _too_many("you are sending too many bodies at once")
        self.held += size
        if owner:
            self._by_owner[owner] += size

    def release(self, size: int, owner: str = "") -> None:
        self.held -= size
        if owner:
            self._by_owner[owner] -= size
            if not self._by_owner[owner]:
                del self._by_owner[owner]


def _too_many(why: str) -> StatusError:
    message = f"Too many requests, please try again later: {why}"
    return StatusError(429, StatusReason.TOO_MANY_REQUESTS, message, retry_after_s=1)


class Arrival:
    """`want` is called when the handler asks for the body, with the arguments of `read`. It may raise."""

    __slots__ = ("_arrived", "_want", "is_wanted")

    def __init__(self, want: Callable[[float, str, int | None], None]) -> None:
        self._want = want
        self._arrived: asyncio.Future[None] | None = None
        self.is_wanted = False

    async def read(self, share: float = 1.0, owner: str = "", bytes_max: int | None = None) -> None:
        """See `BodyArrival`."""
        self._arrived = asyncio.get_running_loop().create_future()
        self.is_wanted = True
        try:
            self._want(share, owner, bytes_max)
        except StatusError:
            self.is_wanted = False
            raise
        await self._arrived

    # For the connection.

    def complete(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)

    def fail(self, error: StatusError) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_exception(error)
