"""From a request to its answer: which server, how often, how long.

One server is asked until it fails, then the next one. Each has a pool of connections and a breaker; a server that has
failed again and again is left alone, and if that is so of all of them a request fails at once. What may be sent a
second time is decided in retry_policy.py.

An operation id makes a repeat safe only where the server knows such ids. A Kubernetes API server ignores them, so
before the first repeat that depends on one, the server is asked what it is.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from email.utils import parsedate_to_datetime
from typing import Final, Protocol

import msgspec

from mainstay.client import breaker
from mainstay.client.breaker import BreakerState
from mainstay.client.call import Call, Repeat, header_line
from mainstay.client.config import BadConfig, ClientTls, Config, ServerAddress
from mainstay.client.connection import (
    ClientConnection,
    ConnectionBroken,
    MalformedResponse,
    ServerResponse,
    Sink,
    nanoseconds,
)
from mainstay.client.credentials import Credentials
from mainstay.client.errors import ApiError, Unauthorized, Unavailable, build_error
from mainstay.client.limits import ClientLimits
from mainstay.client.pool import ConnectionPool, RequestNotSent, ShutDown
from mainstay.client.retry_policy import RequestAttempt, RequestFailure, wait_before_repeat
from mainstay.client.tls import show_certificate, tls_context
from mainstay.env import Env, tasks

_VERSION: Final = Call("GET", "/version")
_CANNOT: Final = frozenset({502, 503, 504})
"""Answers that are about the server, or what is between, as a whole."""


@dataclass(slots=True)
class RequestCounts:
    """What has happened so far, for metrics."""

    requests: int = 0
    repeats: int = 0
    unanswered: int = 0
    """Sent, and no answer came."""
    unsent: int = 0
    """No connection could be had."""


@dataclass(frozen=True, slots=True)
class ServerState:
    """One server as the client sees it."""

    address: str
    condition: BreakerState
    connections: int
    connections_opened: int


class _Server:
    __slots__ = ("address", "breaker", "lines", "pool")

    def __init__(self, address: ServerAddress, pool: ConnectionPool, lines: bytes) -> None:
        self.address = address
        self.pool = pool
        self.lines = lines
        self.breaker: breaker.State = breaker.HEALTHY


class _AllLeftAlone(RequestNotSent):
    """Every breaker is open."""


class Sender:
    def __init__(self, config: Config, env: Env, user_agent: str, limits: ClientLimits) -> None:
        """Blocks while it reads certificates. Raises `BadConfig`."""
        self._clock = env.clock
        self._limits = limits
        self._within_ns = nanoseconds(limits.within)
        self._jitter = env.chance.stream("client", "repeats")
        self._credentials = Credentials(config, env.clock)
        addresses = config.addresses
        tls = self._tls = tls_context(config.tls) if any(address.is_tls for address in addresses) else None
        agent = header_line("User-Agent", user_agent)
        self._servers = [self._server(address, config, tls, agent) for address in addresses]
        # Not all clients begin with the same server.
        self._current = env.chance.stream("client", "first server").randrange(len(self._servers))
        self._knows_operations: bool | None = None
        self.counts = RequestCounts()

    def _server(self, address: ServerAddress, config: Config, tls: ssl.SSLContext | None, agent: bytes) -> _Server:
        used = tls if address.is_tls else None
        pool = ConnectionPool(address, used, config.tls.server_name, self._limits, self._clock)
        return _Server(address, pool, header_line("Host", address.authority) + agent)

    def show_certificate(self, tls: ClientTls) -> None:
        """Show another certificate from the next connection on. Raises `BadConfig`."""
        if self._tls is not None:
            show_certificate(self._tls, tls)
        for server in self._servers:
            server.pool.drop_idle()

    def states(self) -> list[ServerState]:
        return [
            ServerState(str(server.address), breaker.condition(server.breaker), server.pool.size, server.pool.opened)
            for server in self._servers
        ]

    async def close(self) -> None:
        for server in self._servers:
            server.pool.shut_down()
        for server in self._servers:
            await server.pool.wait_shut_down()

    # Requests.

    async def send(self, call: Call) -> ServerResponse:
        """The answer, if it is a success. Raises `ApiError` otherwise."""
        return await self._send(call, None)

    async def follow(self, call: Call, sink: "ConnectedSink") -> ServerResponse:
        """The same for an answer without end: its head is returned, its body goes to the sink."""
        return await self._send(call, sink)

    async def _send(self, call: Call, sink: "ConnectedSink | None") -> ServerResponse:
        until_ns = self._clock.monotonic_ns() + self._within_ns
        self.counts.requests += 1
        number = 0
        may_have_happened = False
        while True:
            number += 1
            retry_after = None
            try:
                response = await self._attempt(call, sink, until_ns)
                if 200 <= response.status < 300:
                    return response
                retry_after = parse_retry_after(response.headers)
                failure, error = self._refusal(call, response, retry_after, is_first=number == 1)
            except RequestNotSent as unsent:
                failure = (
                    RequestFailure.FINAL if isinstance(unsent, _AllLeftAlone | ShutDown) else RequestFailure.NOT_SENT
                )
                error = Unavailable(f"{call}: {unsent}")
            except ConnectionBroken as broken:
                failure = RequestFailure.FINAL if isinstance(broken, MalformedResponse) else RequestFailure.NO_ANSWER
                error = Unavailable(f"{call}: {broken}", may_have_happened=not call.is_read)
            except BadConfig as unusable:  # A token file that is not there any more.
                failure, error = RequestFailure.FINAL, Unauthorized(f"{call}: {unusable}")
            # Of any attempt: a later one that was refused does not undo an earlier one.
            may_have_happened = error.may_have_happened = may_have_happened or error.may_have_happened
            is_safe = call.repeat is Repeat.SAFE or (
                failure in (RequestFailure.NO_ANSWER, RequestFailure.UNABLE)
                and call.repeat is Repeat.BY_OPERATION
                and number < self._limits.retry.attempts_max
                and await self._server_knows_operations(until_ns)
            )
            left = timedelta(microseconds=(until_ns - self._clock.monotonic_ns()) // 1000)
            attempt = RequestAttempt(
                number, failure, retry_after, is_safe, len(self._servers), left, self._jitter.random()
            )
            wait = wait_before_repeat(attempt, self._limits.retry)
            if wait is None:
                raise error
            if wait:
                await tasks.sleep(wait)
            self.counts.repeats += 1

    def _refusal(
        self, call: Call, response: ServerResponse, retry_after: timedelta | None, *, is_first: bool
    ) -> tuple[RequestFailure, ApiError]:
        error = build_error(response.status, response.body, retry_after=retry_after, is_read=call.is_read)
        if response.status == 401 and is_first and self._credentials.refused():
            return RequestFailure.NOT_SENT, error  # There is a newer token: as if it had not been tried.
        if response.status == 429 or (response.status == 503 and not error.may_have_happened and retry_after):
            return RequestFailure.REFUSED, error
        return (RequestFailure.UNABLE if response.status >= 500 else RequestFailure.FINAL), error

    async def _attempt(self, call: Call, sink: "ConnectedSink | None", until_ns: int) -> ServerResponse:
        """Send it once. Raises `RequestNotSent`, `ConnectionBroken`."""
        server = self._choose()
        # Before there is a connection, so that a file which cannot be read costs none.
        head = call.head(server.address.prefix, server.lines + self._credentials.header())
        pool = server.pool
        connection: ClientConnection | None = None
        try:
            if sink is not None:
                connection = await pool.open_apart()
                sink.connection = connection
                response = await connection.follow(head, sink, until_ns)
            else:
                connection = pool.take() or await pool.acquire(until_ns)
                response = await connection.exchange(head, call.body, until_ns)
        except RequestNotSent:
            self.counts.unsent += 1
            self._failed(server)
            raise
        except BaseException as error:
            if connection is not None:
                pool.discard(connection)
            if isinstance(error, ConnectionBroken):
                self.counts.unanswered += 1
                pool.drop_idle()
                self._failed(server)
            elif isinstance(server.breaker, breaker.BreakerProbing):
                self._failed(server)  # The caller that probed gave up. Others need not wait until the probe times out.
            raise
        if sink is None:
            pool.give_back(connection)
        elif response.status >= 300:
            pool.discard(connection)
        if response.status in _CANNOT:
            self._failed(server)
        elif server.breaker is not breaker.HEALTHY:
            server.breaker = breaker.succeeded(server.breaker)
        return response

    # Servers.

    def _choose(self) -> _Server:
        servers = self._servers
        server = servers[self._current]
        if server.breaker is breaker.HEALTHY:
            return server
        now_ns = self._clock.monotonic_ns()
        for step in range(len(servers)):
            place = (self._current + step) % len(servers)
            admitted = breaker.admit(servers[place].breaker, now_ns, self._limits.breaker)
            if admitted is not None:
                self._current = place
                servers[place].breaker = admitted
                return servers[place]
        raise _AllLeftAlone("no server available: every server keeps failing; retrying shortly")

    def _failed(self, server: _Server) -> None:
        server.breaker = breaker.failed(server.breaker, self._clock.monotonic_ns(), self._limits.breaker)
        if server is self._servers[self._current]:
            self._current = (self._current + 1) % len(self._servers)

    async def _server_knows_operations(self, until_ns: int) -> bool:
        if self._knows_operations is None:
            try:
                response = await self._attempt(_VERSION, None, until_ns)
                version = msgspec.json.decode(response.body)
            except (RequestNotSent, ConnectionBroken, msgspec.DecodeError):
                return False  # Not known, so not safe. It is asked again when it matters next.
            if response.status == 200 and isinstance(version, dict):
                self._knows_operations = version.get("gitCommit") == "mainstay"
        return self._knows_operations is True


class ConnectedSink(Sink, Protocol):
    """A sink that knows its connection, to hold it back and to end it."""

    connection: ClientConnection


class CallSender(Protocol):
    """What sends requests: a `Sender`, or one that sends them as another user."""

    @property
    def counts(self) -> RequestCounts: ...

    async def send(self, call: Call) -> ServerResponse: ...

    async def follow(self, call: Call, sink: ConnectedSink) -> ServerResponse: ...

    def states(self) -> list[ServerState]: ...

    async def close(self) -> None: ...


class ImpersonatingSender:
    """Implements `CallSender`: by the connections of another sender, as a user that its own one may impersonate."""

    def __init__(self, sender: CallSender, user: str) -> None:
        self._sender = sender
        self._line = header_line("Impersonate-User", user)

    @property
    def counts(self) -> RequestCounts:
        return self._sender.counts

    async def send(self, call: Call) -> ServerResponse:
        return await self._sender.send(self._sign(call))

    async def follow(self, call: Call, sink: ConnectedSink) -> ServerResponse:
        return await self._sender.follow(self._sign(call), sink)

    def states(self) -> list[ServerState]:
        return self._sender.states()

    async def close(self) -> None:
        """The connections are the other sender's."""

    def _sign(self, call: Call) -> Call:
        return Call(call.method, call.target, call.lines + self._line, call.body, call.repeat)


def parse_retry_after(headers: Mapping[str, str]) -> timedelta | None:
    """What a server asks for, in seconds. A date is taken as one second: no clock of ours is that of the server."""
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit() and len(value) <= 9:
        return timedelta(seconds=int(value))
    try:
        parsedate_to_datetime(value)
    except ValueError:
        return None
    return timedelta(seconds=1)
