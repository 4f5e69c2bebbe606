"""Clients and servers for the tests of HTTP: bytes in, bytes out."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from mainstay.env import network, tasks
from mainstay.http.limits import HttpLimits
from mainstay.http.messages import Answer, Handler, Request, Response
from mainstay.http.server import HttpServer

LOCALHOST = "127.0.0.1"
DEFAULT = HttpLimits()


@dataclass(frozen=True)
class Reply:
    """One response as it came."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def closes(self) -> bool:
        return self.headers.get("connection") == "close"


class Client(asyncio.Protocol):
    """A connection that sends what it is told, and takes responses apart."""

    def __init__(self) -> None:
        self.received = b""
        self.is_over = False
        self.can_read = True
        self._news = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self.received += data
        self._news.set()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_over = True
        self._news.set()

    def send(self, data: bytes) -> None:
        self.transport.write(data)

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            assert not self.is_over, f"the connection ended after {self.received!r}"
            self._news.clear()
            await self._news.wait()

    async def end(self) -> bytes:
        """Wait for the end of the connection: what is left unread."""
        await self.until(lambda: self.is_over)
        return self.received

    async def take(self, count: int) -> bytes:
        await self.until(lambda: len(self.received) >= count)
        taken, self.received = self.received[:count], self.received[count:]
        return taken

    async def take_until(self, mark: bytes) -> bytes:
        await self.until(lambda: mark in self.received)
        return await self.take(self.received.index(mark) + len(mark))

    async def head(self) -> Reply:
        first, *lines = (await self.take_until(b"\r\n\r\n")).decode().split("\r\n")[:-2]
        version, status, _ = first.split(" ", 2)
        assert version == "HTTP/1.1"
        headers = [line.split(": ", 1) for line in lines]
        assert all(len(pair) == 2 for pair in headers), headers
        return Reply(int(status), {name.lower(): value for name, value in headers}, b"")

    async def reply(self, *, to: str = "GET") -> Reply:
        head = await self.head()
        if to == "HEAD" or head.status in (204, 304) or head.status < 200:
            return head
        if head.headers.get("transfer-encoding") == "chunked":
            body = b""
            while chunk := await self.chunk():
                body += chunk
        else:
            body = await self.take(int(head.headers["content-length"]))
        return Reply(head.status, head.headers, body)

    async def chunk(self) -> bytes:
        """The next chunk; empty is the end."""
        size = int(await self.take_until(b"\r\n"), 16)
        return (await self.take(size + 2))[:-2]

    async def ask(self, request: bytes) -> Reply:
        self.send(request)
        return await self.reply(to=request.split(b" ", 1)[0].decode())

    def close(self) -> None:
        self.transport.close()


async def connected(server: HttpServer, *, tls: ssl.SSLContext | None = None) -> Client:
    host, port = server.addresses[0]
    _, client = await network.connect(Client, host, port, tls=tls)
    return client


@asynccontextmanager
async def serving(
    handler: Handler, limits: HttpLimits = DEFAULT, *, tls: ssl.SSLContext | None = None, on_head: bool = False
) -> AsyncIterator[HttpServer]:
    server = await HttpServer.start(handler, LOCALHOST, 0, limits=limits, tls=tls, on_head=on_head)
    try:
        yield server
    finally:
        await server.drain(timedelta(0))


def get(target: str = "/", *headers: str, version: str = "1.1") -> bytes:
    lines = [f"GET {target} HTTP/{version}", "Host: there", *headers]
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n"


def post(body: bytes, *headers: str, target: str = "/") -> bytes:
    lines = [f"POST {target} HTTP/1.1", "Host: there", f"Content-Length: {len(body)}", *headers]
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + body


def echo(request: Request) -> Response:
    """Says what it was asked."""
    return Response(200, f"{request.method} {request.target} {request.body.decode('latin-1')}".encode(), "text/plain")


def later(delay: timedelta, answer: Callable[[Request], Answer] = echo) -> Callable[[Request], Awaitable[Answer]]:
    async def handler(request: Request) -> Answer:
        await tasks.sleep(delay)
        return answer(request)

    return handler


def now_s() -> float:
    return asyncio.get_running_loop().time()


def hear(failures: list[BaseException]) -> None:
    """Let the loop's exception handler add to the fixture `failures`."""
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["exception"]))
