"""An answer that comes bit by bit, as bytes: the log of a container.

    async with client.stream("/api/v1/namespaces/default/pods/web/log", [("follow", "true")]) as stream:
        async for piece in stream:
            ...

Pieces are as they came and need not end where a line does. While the caller does not fetch, no more is read from the
server. The end of the iteration is the server's; `Unavailable` means that the connection broke, and that there may have
been more. A stream on which nothing comes is not an error here.
"""

from types import TracebackType
from typing import Self

from mainstay.client.call import Call
from mainstay.client.dispatch import CallSender
from mainstay.client.limits import ClientLimits
from mainstay.client.receive_buffer import Unread


class ResponseStream:
    """Made by `Client.stream`. Nothing is asked before it is entered."""

    def __init__(self, sender: CallSender, call: Call, limits: ClientLimits) -> None:
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


class _Pieces(Unread):
    """Bytes as they come."""

    what = "stream"

    def feed(self, data: bytes) -> None:
        self._hold([data])
