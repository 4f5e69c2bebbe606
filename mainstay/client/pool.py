"""The connections to one server: kept for the next request, limited in number, closed when they are not used.

A request takes a connection and gives it back when it was answered. The one that was used last is taken first, so that
those which are not needed become old and are closed. With all in use, requests wait for one in the order they came.

A server may close a connection that is not used; it is then simply not there any more. Only when it does so in the very
moment in which a request is sent does the request fail.
"""

import asyncio
import contextlib
import ssl
from collections import deque
from datetime import timedelta
from typing import Final

from mainstay.client.config import ServerAddress
from mainstay.client.connection import ClientConnection, nanoseconds
from mainstay.client.limits import ClientLimits
from mainstay.env import Clock, network, tasks
from mainstay.env.invariants import broken

GOODBYE_WITHIN: Final = timedelta(seconds=1)
"""How long a server may take to take note that a connection ends."""


class RequestNotSent(Exception):
    """There was no connection to send the request on. Nothing was done."""


class ShutDown(RequestNotSent):
    """And there will be none: the client was closed."""

    def __init__(self) -> None:
        super().__init__("the client was closed")


class ConnectionPool:
    def __init__(
        self, address: ServerAddress, tls: ssl.SSLContext | None, server_name: str, limits: ClientLimits, clock: Clock
    ) -> None:
        self._address = address
        self._tls = tls
        self._server_name = server_name or None
        self._limits = limits
        self._clock = clock
        self._idle: list[ClientConnection] = []  # The one used last is the last.
        self._open: dict[ClientConnection, None] = {}  # Those that count: idle, or in use for a request.
        self._apart: dict[ClientConnection, None] = {}  # Those of watches.
        self._alive: dict[ClientConnection, None] = {}  # All of these, and those that are on their way out.
        self._all_gone = asyncio.Event()
        self._connecting = 0
        self._waiting: deque[asyncio.Future[ClientConnection | None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self.opened = 0
        """How many connections have been made so far."""

    @property
    def size(self) -> int:
        """How many there are now."""
        return len(self._open) + len(self._apart)

    def take(self) -> ClientConnection | None:
        """One that is there and free."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                return connection
            self._forget(connection)
        return None

    async def acquire(self, until_ns: int) -> ClientConnection:
        """One for a request, to be given back. Raises `RequestNotSent`."""
        if (free := self.take()) is not None:
            return free
        if len(self._open) + self._connecting < self._limits.connections:
            self._connecting += 1
        elif (handed := await self._wait_for_one(until_ns)) is not None:
            if handed.is_open:
                return handed
            self.discard(handed)
            raise RequestNotSent(f"{self._address} closed the connection just as it became free")
        try:
            connection = await self._connect()
        except BaseException:
            self._leave_room()
            raise
        self._connecting -= 1
        self._open[connection] = None
        self._check_counts()
        return connection

    async def open_apart(self) -> ClientConnection:
        """One for a watch, which does not count. Ended by its user. Raises `RequestNotSent`."""
        connection = await self._connect()
        self._apart[connection] = None
        return connection

    def give_back(self, connection: ClientConnection) -> None:
        """It was answered, and nothing is under way on it."""
        if self._is_closed or not connection.is_reusable or not connection.is_open or connection.is_sending:
            self.discard(connection)
        elif not self._hand_to_next(connection):
            if connection not in self._open or connection in self._idle:
                raise broken("a connection is given back once", f"connection to {self._address}", idle=len(self._idle))
            connection.idle_since_ns = self._clock.monotonic_ns()
            self._idle.append(connection)
            if self._timer is None:
                self._set_timer()

    def drop_idle(self) -> None:
        """One of them has broken, and the others are likely to: do not try them all."""
        for connection in list(self._idle):
            self.discard(connection)

    def discard(self, connection: ClientConnection) -> None:
        """It cannot be used any more."""
        self._forget(connection)
        connection.abort()

    def shut_down(self) -> None:
        """End all of them. Requests that wait for an answer or for a connection get an error."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(ShutDown())
        self._waiting.clear()
        idle, self._idle = self._idle, []
        for connection in idle:
            self._open.pop(connection, None)
            connection.close()
        for connection in (*self._open, *self._apart):
            connection.abort()

    async def wait_shut_down(self) -> None:
        """Wait until they are gone. Only after `shut_down`."""
        with contextlib.suppress(TimeoutError):
            async with tasks.timeout(GOODBYE_WITHIN):
                while self._alive:
                    self._all_gone.clear()
                    await self._all_gone.wait()
        for connection in self._alive:
            connection.abort()

    async def _connect(self) -> ClientConnection:
        if self._is_closed:
            raise ShutDown()
        try:
            async with tasks.timeout(self._limits.connect_within):
                _, connection = await network.connect(
                    lambda: ClientConnection(self._limits, self._clock, self._lost),
                    self._address.host,
                    self._address.port,
                    tls=self._tls,
                    server_name=self._server_name,
                )
        except TimeoutError:
            limit_s = self._limits.connect_within.total_seconds()
            raise RequestNotSent(f"no connection to {self._address} within {limit_s:g} s") from None
        except OSError as error:  # Of TLS as well.
            raise RequestNotSent(f"no connection to {self._address}: {error}") from error
        self.opened += 1
        if not connection.is_open:
            raise RequestNotSent(f"{self._address} closed the connection immediately")
        self._alive[connection] = None
        if self._was_closed():
            connection.abort()
            raise ShutDown()
        return connection

    def _was_closed(self) -> bool:
        return self._is_closed

    async def _wait_for_one(self, until_ns: int) -> ClientConnection | None:
        """Wait until one is free. None: there is room, which is now taken, for making one."""
        if len(self._waiting) >= self._limits.waiting:
            raise RequestNotSent(
                f"too many requests ({len(self._waiting)}) are waiting for a connection to {self._address}"
            )
        waiter: asyncio.Future[ClientConnection | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            left = timedelta(microseconds=(until_ns - self._clock.monotonic_ns()) // 1000)
            async with tasks.timeout(min(left, self._limits.answer_within)):
                return await waiter
        except BaseException as error:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                # Given something in the moment in which it stopped waiting: the next request can use that.
                if (given := waiter.result()) is not None:
                    self.give_back(given)
                else:
                    self._leave_room()
            if isinstance(error, TimeoutError):
                raise RequestNotSent(
                    f"all {self._limits.connections} connections to {self._address} are in use"
                ) from None
            raise

    def _hand_to_next(self, connection: ClientConnection | None) -> bool:
        """Let the first who waits have this connection, or the room for one. False if no request waits."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return True
        return False

    def _leave_room(self) -> None:
        """No connection is made after all, where there was room taken for one."""
        if not self._hand_to_next(None):
            self._connecting -= 1
            self._check_counts()

    def _lost(self, connection: ClientConnection) -> None:
        """It is gone, whichever side ended it."""
        self._forget(connection)
        self._alive.pop(connection, None)
        if not self._alive:
            self._all_gone.set()

    def _forget(self, connection: ClientConnection) -> None:
        self._apart.pop(connection, None)
        if self._open.pop(connection, connection) is None:
            if connection in self._idle:
                self._idle.remove(connection)
            if self._hand_to_next(None):
                self._connecting += 1

    def _check_counts(self) -> None:
        taken = len(self._open) + self._connecting
        if self._connecting < 0 or taken > self._limits.connections:
            rule = "the connections of a pool are counted, and within their limit"
            raise broken(rule, f"pool of {self._address}", open=len(self._open), connecting=self._connecting)

    # Those that are not used.

    def _set_timer(self) -> None:
        delay_s = self._limits.idle_within.total_seconds()
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._close_idle)

    def _close_idle(self) -> None:
        oldest_ns = self._clock.monotonic_ns() - nanoseconds(self._limits.idle_within)
        kept: list[ClientConnection] = []
        for connection in self._idle:
            if connection.idle_since_ns > oldest_ns:
                kept.append(connection)
            else:
                self._open.pop(connection, None)
                connection.close()
        self._idle = kept
        self._timer = None
        if kept:
            self._set_timer()
