"""A watch over a WebSocket: one text message for each event, for clients that live in a browser."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from mainstay.env import tasks
from mainstay.env.invariants import broken
from mainstay.http.websocket import WebSocket
from mainstay.server.watch.session import Outgoing

WAITING_BYTES_MAX: Final = 4_000_000  # More than this behind, and a client is cut off. All together: `StreamMemory`.


def over_websocket(run: Callable[[Outgoing], Awaitable[None]]) -> Callable[[WebSocket], Awaitable[None]]:
    """What runs a watch on a WebSocket instead of a stream."""

    async def run_on(socket: WebSocket) -> None:
        messages = _Messages(socket)
        sending = tasks.spawn(messages.send_to(socket), name="websocket watch")
        listening = tasks.spawn(messages.listen_to(socket), name="websocket listening")
        try:
            await run(messages)
            if not messages.is_too_slow:
                messages.finish()
                await asyncio.wait([sending])
                await socket.close()
        finally:
            socket.memory.forget(messages)
            await tasks.stop(sending)
            await tasks.stop(listening)

    return run_on


class _Messages:
    """Implements `Outgoing` (session.py)."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self.is_too_slow = False
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._news = asyncio.Event()
        self._taken = asyncio.Event()
        self._closed = asyncio.Event()
        self._finished = False

    def write(self, data: bytes) -> bool:
        if self._closed.is_set():
            return False
        size = self.waiting_bytes
        if size > WAITING_BYTES_MAX or not self._socket.memory.note(self, size):
            self._cut_off()
            return False
        self._waiting.extend(data.splitlines())
        self._waiting_bytes += len(data)
        self._news.set()
        return True

    @property
    def waiting_bytes(self) -> int:
        """What the client has not taken yet."""
        return self._waiting_bytes + self._socket.waiting_bytes

    def _cut_off(self) -> None:
        """Keep nothing more for the client."""
        self.is_too_slow = True
        self._waiting.clear()
        self._waiting_bytes = 0
        self.end_soon()

    async def turn(self) -> None:
        await tasks.turns(1)

    async def drain(self) -> None:
        while self._waiting_bytes > WAITING_BYTES_MAX // 2 and not self._closed.is_set():
            self._taken.clear()
            await self._taken.wait()

    def end_soon(self) -> None:
        self._closed.set()
        self._taken.set()

    async def wait_closed(self) -> None:
        await self._closed.wait()

    def finish(self) -> None:
        self._finished = True
        self._news.set()

    async def send_to(self, socket: WebSocket) -> None:
        while True:
            while self._waiting:
                line = self._waiting.popleft()
                self._waiting_bytes -= len(line) + 1
                if self._waiting_bytes < 0 or (self._waiting_bytes and not self._waiting):
                    story = {"lines": len(self._waiting), "bytes": self._waiting_bytes}
                    raise broken("the bytes that wait are those of the lines that wait", "websocket", **story)
                self._taken.set()
                if not await socket.send_text(line.decode()):
                    self.end_soon()
                    return
            if self._finished:
                return
            self._news.clear()
            await self._news.wait()

    async def listen_to(self, socket: WebSocket) -> None:
        """Nothing that the client says matters, except that it goes."""
        while await socket.receive() is not None:
            pass
        self.end_soon()
