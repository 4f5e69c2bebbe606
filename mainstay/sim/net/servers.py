"""What `create_server` gives: accepts connections on one or more sockets until it is closed.

`wait_closed` waits for the connections too, as asyncio does since Python 3.12; before, it returned at once.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING

from mainstay.sim.net.transport import SimTransport
from mainstay.sim.net.wire import TcpEnd

if TYPE_CHECKING:
    from mainstay.sim.loop.loop import SimLoop
    from mainstay.sim.net.sockets import SimSocket


class SimServer(asyncio.AbstractServer):
    """Listens on sockets that are already bound."""

    def __init__(
        self,
        loop: "SimLoop",
        sockets: "list[SimSocket]",
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        context: Context,
    ) -> None:
        self._loop = loop
        self._sockets: list[SimSocket] | None = sockets
        self._protocol_factory = protocol_factory
        self._context = context
        self._is_serving = False
        self._transports: dict[SimTransport, None] = {}
        self._serving_forever: asyncio.Future[None] | None = None
        self._closed_waiters: list[asyncio.Future[None]] = []

    def __repr__(self) -> str:
        return f"<SimServer sockets={self.sockets!r}>"

    @property
    def sockets(self) -> "tuple[SimSocket, ...]":
        return tuple(self._sockets or ())

    def get_loop(self) -> "SimLoop":
        return self._loop

    def is_serving(self) -> bool:
        return self._is_serving

    async def start_serving(self) -> None:
        self._start_serving()
        await asyncio.sleep(0)

    async def serve_forever(self) -> None:
        if self._serving_forever is not None:
            raise RuntimeError(f"server {self!r} is already being awaited on serve_forever()")
        if self._sockets is None:
            raise RuntimeError(f"server {self!r} is closed")
        self._start_serving()
        self._serving_forever = self._loop.create_future()
        try:
            await self._serving_forever
        except asyncio.CancelledError:
            self.close()
            await self.wait_closed()
            raise
        finally:
            self._serving_forever = None

    def close(self) -> None:
        if self._sockets is None:
            return
        for sock in self._sockets:
            sock.close()
        self._sockets = None
        self._is_serving = False
        if self._serving_forever is not None:
            self._serving_forever.cancel()
        self._wake_waiters_if_done()

    def close_clients(self) -> None:
        for transport in list(self._transports):
            transport.close()

    def abort_clients(self) -> None:
        for transport in list(self._transports):
            transport.abort()

    async def wait_closed(self) -> None:
        if self._sockets is None and not self._transports:
            return
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._closed_waiters.append(waiter)
        await waiter

    def detach(self, transport: SimTransport) -> None:
        """A connection that was accepted here is over."""
        del self._transports[transport]
        self._wake_waiters_if_done()

    def _start_serving(self) -> None:
        if self._is_serving or self._sockets is None:
            return
        self._is_serving = True
        for sock in self._sockets:
            sock.listen()
            sock.serve(self._accept, self._context)

    def _accept(self, sock: "SimSocket", end: TcpEnd) -> None:
        transport = SimTransport(self._loop, sock, end, self._protocol_factory(), server=self)
        self._transports[transport] = None

    def _wake_waiters_if_done(self) -> None:
        if self._sockets is None and not self._transports:
            for waiter in self._closed_waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self._closed_waiters.clear()
