"""Connections that a server opens itself, and what comes over them: to an agent, or into a pod.

`RawConnection` carries bytes, with back-pressure both ways: `write` waits for the other side, and what came and was not
fetched is bounded. `Exchange` asks one thing over HTTP/1.1 on such a connection. When the answer is a change of
protocol (101), bytes go on as they are; otherwise `read` gives its body, piece by piece.

Over TLS the other side has to show one certificate, known by its digest, and not a name that some authority vouches
for: see certificates.py. It is compared before anything is sent.

One connection is one request: nothing is kept for the next. The caller closes it.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeVar, cast

from httptools import HttpParserCallbackError, HttpParserError, HttpParserUpgrade, HttpResponseParser

from mainstay.env import network, tasks
from mainstay.env.memory_file import memory_file
from mainstay.http.certificates import compute_fingerprint
from mainstay.http.messages import Headers
from mainstay.http.streams import Inlet, Outlet

READ_BYTES_MAX: Final = 256 * 1024
"""What may have come and not been fetched. Beyond it the connection is not read."""
HEAD_BYTES_MAX: Final = 64 * 1024
CLOSED_WITHIN: Final = timedelta(seconds=2)
"""How long the other side may take for what was written before a connection was closed."""


class ExchangeBroken(Exception):
    """No answer, or not all of it. The message says why, as the end of a sentence."""


class WrongCertificate(Exception):
    """Another server answers than the expected one. Nothing was sent to it."""

    def __init__(self, shown: str) -> None:
        super().__init__(shown)
        self.shown = shown
        """The digest of what they showed."""


class WrongAddress(Exception):
    """All addresses of the host are ones that the caller does not connect to. Nothing was sent. Says which and why."""


class RawConnection(asyncio.Protocol):
    """Made by `connect`."""

    _outlet: Outlet
    _inlet: Inlet

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._outlet = Outlet(cast(asyncio.Transport, transport))  # uvloop's only behave like one.
        self._inlet = Inlet(self._outlet, READ_BYTES_MAX)

    def data_received(self, data: bytes) -> None:
        self._inlet.feed(data)

    def eof_received(self) -> bool:
        self._inlet.end()
        return self._outlet.transport.can_write_eof()  # Where one half can be closed, the other may go on.

    def connection_lost(self, error: Exception | None) -> None:
        self._outlet.lose()
        self._inlet.end()

    def pause_writing(self) -> None:
        self._outlet.pause()

    def resume_writing(self) -> None:
        self._outlet.resume()

    async def read(self) -> bytes:
        """Some bytes. Empty if there will be no more."""
        return await self._inlet.read()

    async def write(self, data: bytes) -> bool:
        """Send some bytes, and wait until more can be taken. False if the other side is gone."""
        if not self._outlet.is_open:
            return False
        self._outlet.send(data)
        await self._outlet.drain()
        return True

    def write_eof(self) -> None:
        """That was all, where it can be said."""
        if self._outlet.is_open and self._outlet.transport.can_write_eof():
            self._outlet.transport.write_eof()

    def close(self) -> None:
        """Be done with it. What was written goes out, if it is taken soon; what comes is not looked at."""
        self._inlet.end()
        self._outlet.resume_reading()  # Or the end of the other side would never be noticed.
        if self._outlet.is_open:
            transport = self._outlet.transport
            is_written = transport.get_write_buffer_size() == 0
            transport.close()
            if not is_written:
                asyncio.get_running_loop().call_later(CLOSED_WITHIN.total_seconds(), transport.abort)


@dataclass(frozen=True, slots=True)
class AnswerHead:
    status: int
    headers: Headers


class Exchange(RawConnection):
    """One question and its answer."""

    def __init__(self) -> None:
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        self._pairs: list[tuple[str, str]] = []
        self._head: asyncio.Future[AnswerHead] = asyncio.get_running_loop().create_future()
        self._head_bytes = 0
        self._is_complete = False
        self._failure = ""

    async def ask(self, request: bytes, within: timedelta) -> AnswerHead:
        """Send a request, and wait for the head of the answer. Raises `ExchangeBroken`."""
        self._outlet.send(request)
        try:
            async with tasks.timeout(within):
                return await asyncio.shield(self._head)
        except TimeoutError:
            raise ExchangeBroken(f"no answer within {within.total_seconds():g} s") from None

    async def read(self) -> bytes:
        """A piece of the body. Empty at its end. Raises `ExchangeBroken` if it has none."""
        piece = await self._inlet.read()
        if not piece and self._failure:
            raise ExchangeBroken(self._failure)
        return piece

    async def read_all(self, bytes_max: int, within: timedelta) -> bytes:
        """The whole body. Raises `ExchangeBroken`, also if it is too long or takes too long."""
        pieces: list[bytes] = []
        try:
            async with tasks.timeout(within):
                while piece := await self.read():
                    pieces.append(piece)
                    if sum(map(len, pieces)) > bytes_max:
                        raise ExchangeBroken(f"the answer is longer than {bytes_max} bytes")
        except TimeoutError:
            raise ExchangeBroken(f"the answer was not complete after {within.total_seconds():g} s") from None
        return b"".join(pieces)

    # What the transport calls.

    def data_received(self, data: bytes) -> None:
        parser = self._parser
        if parser is None:
            self._inlet.feed(data)
            return
        if not self._head.done():
            self._head_bytes += len(data)
        try:
            parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            self._parser = None
            self._is_complete = True
            if rest := data[cast(int, upgrade.args[0]) :]:
                self._inlet.feed(rest)
        except HttpParserCallbackError:
            raise  # One of our own callbacks has failed.
        except HttpParserError as error:
            self._fail(f"invalid HTTP answer: {error}")
        if not self._head.done() and self._head_bytes > HEAD_BYTES_MAX:
            self._fail(f"the head of the answer is longer than {HEAD_BYTES_MAX} bytes")

    def eof_received(self) -> bool:
        if self._head.done() and self._head.exception() is None:
            headers = self._head.result().headers
            if headers.get("content-length") is None and headers.get("transfer-encoding") is None:
                self._is_complete = True  # Such a body ends with the connection.
        self._end("the connection was closed before the answer was complete")
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._outlet.lose()
        self._end(f"the connection broke: {error}" if error else "the connection was closed")
        self._parser = None  # It knows this object, which knows it.

    def _fail(self, why: str) -> None:
        self._end(why)
        self._outlet.transport.abort()

    def _end(self, why: str) -> None:
        if not self._is_complete and not self._failure:
            self._failure = why
        if not self._head.done():
            self._head.set_exception(ExchangeBroken(self._failure or why))
            self._head.exception()  # Retrieved, even if no task waits for it.
        self._inlet.end()

    # Callbacks of the parser, in this order.

    def on_header(self, name: bytes, value: bytes) -> None:
        self._pairs.append((name.decode("latin-1"), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        status = cast(HttpResponseParser, self._parser).get_status_code()
        if (status >= 200 or status == 101) and not self._head.done():
            self._head.set_result(AnswerHead(status, Headers(self._pairs)))
        self._pairs = []

    def on_body(self, data: bytes) -> None:
        self._inlet.feed(data)

    def on_message_complete(self) -> None:
        if self._head.done() and cast(HttpResponseParser, self._parser).get_status_code() >= 200:
            self._is_complete = True
            self._inlet.end()


ConnectionT = TypeVar("ConnectionT", bound=RawConnection)


async def connect(
    made: type[ConnectionT],
    host: str,
    port: int,
    within: timedelta,
    *,
    tls: ssl.SSLContext | None = None,
    digest: str = "",
    problem_with: Callable[[str], str] | None = None,
) -> ConnectionT:
    """Open a connection; over TLS, only to a server that has the certificate of this digest.

    `problem_with` says what is wrong with an address that the name of the host stands for: it is not connected to.

    Raises `OSError` (`TimeoutError` is one), `WrongCertificate`, `WrongAddress`.
    """
    async with tasks.timeout(within):
        addresses = [host] if problem_with is None else await _resolve(host, port, problem_with)
        transport, connection = await _connect_to_any(made, addresses, port, tls, host)
    network.be_patient(transport)  # The caller decides how long to wait.
    if tls is not None:
        shown = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        if shown is None or compute_fingerprint(shown) != digest:
            transport.abort()
            raise WrongCertificate("none" if shown is None else compute_fingerprint(shown))
    return connection


async def _resolve(host: str, port: int, problem_with: Callable[[str], str]) -> list[str]:
    found = {address: problem_with(address) for address in await network.resolve(host, port)}
    allowed = [address for address, problem in found.items() if not problem]
    if not allowed:
        raise WrongAddress("; ".join(f"{address} {problem}" for address, problem in found.items()))
    return allowed


async def _connect_to_any(
    made: type[ConnectionT], addresses: Sequence[str], port: int, tls: ssl.SSLContext | None, name: str
) -> tuple[asyncio.Transport, ConnectionT]:
    for address in addresses[:-1]:
        with contextlib.suppress(OSError):
            return await network.connect(made, address, port, tls=tls, server_name=name)
    return await network.connect(made, addresses[-1], port, tls=tls, server_name=name)


def client_tls(certificate: bytes, key: bytes) -> ssl.SSLContext:
    """For connections on which the other side is known by its digest. Both are PEM; they are what we show. Blocks."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    # Whom we talk to is decided by `connect`, and more strictly.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with memory_file(certificate + b"\n" + key) as path:
        context.load_cert_chain(path)
    return context
