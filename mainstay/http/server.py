"""Listening, and going down without losing what was begun."""

import ssl
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from mainstay.env import Clock, network, tasks
from mainstay.http.arrival import BodyMemory
from mainstay.http.connection import ConnectionContext, ServerConnection
from mainstay.http.connection_table import ConnectionEntry, ConnectionTable
from mainstay.http.encoder import DateHeader
from mainstay.http.limits import HttpLimits
from mainstay.http.messages import Handler
from mainstay.http.streams import StreamMemory

__all__ = ["HttpLimits", "HttpServer"]

# What is cancelled has this long to end. Longer would be a bug, which must not keep the server from going down.
CANCELLED_WITHIN: Final = timedelta(seconds=2)


class _TableGuard:
    """Admits clients to the table of connections before their handshake (implements `network.ConnectionGuard`)."""

    def __init__(self, service: ConnectionContext) -> None:
        self._service = service

    def enter(self, address: str, handshake: network.Handshake) -> ConnectionEntry | None:
        return self._service.table.enter(address, handshake)

    def leave(self, entry: ConnectionEntry) -> None:
        self._service.table.leave(entry)

    def build_protocol(self, entry: ConnectionEntry) -> ServerConnection:
        return ServerConnection(self._service, entry)


class HttpServer:
    """Accepts connections on one address until it is drained."""

    def __init__(self, listener: network.PortListener, service: ConnectionContext) -> None:
        self._listener = listener
        self._service = service
        self.addresses: list[tuple[str, int]] = [sock.getsockname()[:2] for sock in listener.sockets]

    @classmethod
    async def start(
        cls,
        handler: Handler,
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        limits: HttpLimits = HttpLimits(),  # noqa: B008 - frozen
        clock: Clock | None = None,
        on_head: bool = False,
    ) -> "HttpServer":
        """Listen. Port 0 takes any free one; see `addresses`. With a clock, answers carry the date. `on_head`: the
        handler is called before the body is read (`Request.arriving`).

        Raises `OSError` if the address cannot be had.
        """
        table = ConnectionTable(limits)
        bodies, streams = BodyMemory(limits.bodies_bytes), StreamMemory(limits.streams_bytes)
        service = ConnectionContext(handler, limits, DateHeader(clock), bodies, streams, table, on_head)
        listener: network.PortListener
        if tls is None:
            listener = await network.listen(lambda: ServerConnection(service), host, port)
        else:
            listener = await network.listen_tls(_TableGuard(service), host, port, tls, limits.handshake_within)
        return cls(listener, service)

    @property
    def connections(self) -> int:
        """How many there are now."""
        return len(self._service.connections)

    @property
    def body_bytes_held(self) -> int:
        """Of bodies that did not come with their heads."""
        return self._service.bodies.held

    @property
    def connections_dropped(self) -> int:
        """How many were closed, or not let in, because there were too many."""
        return self._service.table.dropped

    def end_clients(self, is_ended: Callable[[Mapping[str, Any]], bool]) -> None:
        """Close the connections of clients with a certificate of which the function says so, and what runs on them."""
        for connection in list(self._service.connections):
            certificate = connection.peer.certificate
            if certificate is not None and is_ended(certificate):
                connection.cut_off()

    async def drain(self, grace: timedelta) -> None:
        """Accept nothing more, finish what was begun, tell streams to end, and close.

        What is not over after the grace is cancelled and cut off. May be called again; then with the shorter grace.
        """
        service = self._service
        service.is_draining = True
        self._listener.close()
        for connection in list(service.connections):
            connection.end_soon()
        if await self._ended_within(grace):
            return
        for connection in list(service.connections):
            connection.cut_off()
        await self._ended_within(CANCELLED_WITHIN)

    async def _ended_within(self, limit: timedelta) -> bool:
        if not self._service.connections:
            return True
        try:
            async with tasks.timeout(limit):
                await self._service.ended.wait()
        except TimeoutError:
            return False
        return True
