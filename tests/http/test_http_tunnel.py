"""Tunnels and the connections behind them, in virtual time: bytes both ways, who waits, and how each side ends."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from mainstay.env import network, tasks
from mainstay.http.messages import Handler, Request, Response, StreamResponse, TunnelResponse
from mainstay.http.outgoing import Exchange, ExchangeBroken, RawConnection, connect
from mainstay.http.server import HttpServer
from mainstay.http.streams import BodyStream, Tunnel
from tests.http.clients import connected, get, serving

WITHIN = timedelta(seconds=5)
UPGRADE = ("Connection: Upgrade", "Upgrade: something")
AGREED = (("Connection", "Upgrade"), ("Upgrade", "something"))
ASK = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def tunnelling(run: Callable[[Tunnel], Awaitable[None]], drop: Callable[[], None] = lambda: None) -> Handler:
    return lambda request: TunnelResponse(run, drop, AGREED)


async def echo(tunnel: Tunnel) -> None:
    while data := await tunnel.read():
        await tunnel.write(data.upper())


async def test_bytes_go_both_ways_also_those_that_came_with_the_request():
    async with serving(tunnelling(echo)) as server:
        client = await connected(server)
        client.send(get("/", *UPGRADE) + b"early ")
        head = await client.head()
        assert (head.status, head.headers["upgrade"]) == (101, "something")
        client.send(b"late")
        assert await client.take(10) == b"EARLY LATE"


async def test_a_request_that_asks_for_no_other_protocol_is_refused_and_the_other_side_let_go():
    dropped: list[bool] = []
    async with serving(tunnelling(echo, lambda: dropped.append(True))) as server:
        client = await connected(server)
        client.send(get("/"))
        assert (await client.head()).status == 400
    assert dropped == [True]


async def test_when_the_client_is_gone_the_tunnel_ends():
    ended = asyncio.Event()

    async def run(tunnel: Tunnel) -> None:
        try:
            await tunnel.read()
            await asyncio.sleep(1_000_000)
        finally:
            ended.set()

    async with serving(tunnelling(run)) as server:
        client = await connected(server)
        client.send(get("/", *UPGRADE))
        await client.head()
        client.transport.close()
        async with tasks.timeout(WITHIN):
            await ended.wait()


async def test_a_client_waits_until_what_it_sends_is_read():
    async def run(tunnel: Tunnel) -> None:
        await asyncio.sleep(60)
        received = 0
        while received < 20_000_000:
            received += len(await tunnel.read())
        await tunnel.write(b"all")

    async with serving(tunnelling(run)) as server:
        client = await connected(server)
        client.send(get("/", *UPGRADE))
        await client.head()
        client.send(bytes(20_000_000))
        await asyncio.sleep(30)
        assert client.transport.get_write_buffer_size() > 15_000_000
        assert await client.take(3) == b"all"


async def test_when_the_server_drains_tunnels_end_in_order():
    async with serving(tunnelling(echo)) as server:
        client = await connected(server)
        client.send(get("/", *UPGRADE) + b"hello")
        await client.head()
        await client.take(5)
        draining = asyncio.create_task(server.drain(timedelta(minutes=1)))
        assert await client.end() == b""
        async with tasks.timeout(WITHIN):
            await draining


# The other way: connections that a server opens.


async def opened(server: HttpServer) -> Exchange:
    host, port = server.addresses[0]
    return await connect(Exchange, host, port, WITHIN)


async def test_the_body_of_an_answer_is_read_in_pieces():
    async def run(stream: BodyStream) -> None:
        for number in range(3):
            stream.write(b"%d" % number)
            await asyncio.sleep(1)

    async with serving(lambda request: StreamResponse(200, run)) as server:
        exchange = await opened(server)
        assert (await exchange.ask(ASK, WITHIN)).status == 200
        assert [await exchange.read() for _ in range(4)] == [b"0", b"1", b"2", b""]
        exchange.close()


async def test_a_body_that_breaks_off_is_no_end():
    async def run(stream: BodyStream) -> None:
        stream.write(b"some")
        await asyncio.sleep(1)
        stream.break_off()

    async with serving(lambda request: StreamResponse(200, run)) as server:
        exchange = await opened(server)
        await exchange.ask(ASK, WITHIN)
        assert await exchange.read() == b"some"
        with pytest.raises(ExchangeBroken):
            await exchange.read()


async def test_what_is_not_fetched_is_not_read():
    written = [0]

    async def run(stream: BodyStream) -> None:
        while stream.write(bytes(10_000)):
            written[0] += 10_000
            await stream.drain()

    async with serving(lambda request: StreamResponse(200, run)) as server:
        exchange = await opened(server)
        await exchange.ask(ASK, WITHIN)
        await asyncio.sleep(10)
        stopped_at = written[0]
        assert stopped_at < 5_000_000
        await asyncio.sleep(10)
        assert written[0] == stopped_at
        for _ in range(1000):
            await exchange.read()
        assert written[0] > stopped_at
        exchange.close()


async def test_an_answer_that_does_not_come_is_broken():
    async def never(request: Request) -> Response:
        await asyncio.sleep(1_000_000)
        return Response(200)

    async with serving(never) as server:
        exchange = await opened(server)
        with pytest.raises(ExchangeBroken, match="no answer within 5 s"):
            await exchange.ask(ASK, WITHIN)
        exchange.close()


async def test_an_answer_that_is_too_long_is_broken():
    async with serving(lambda request: Response(200, bytes(1000))) as server:
        exchange = await opened(server)
        await exchange.ask(ASK, WITHIN)
        with pytest.raises(ExchangeBroken, match="longer than 999 bytes"):
            await exchange.read_all(999, WITHIN)
        exchange.close()


class Rude(asyncio.Protocol):
    """Answers each connection with what it was made with, and closes it."""

    def __init__(self, words: bytes) -> None:
        self._words = words

    def connection_made(self, transport) -> None:
        transport.write(self._words)
        transport.close()


@pytest.mark.parametrize("words", [b"", b"SSH-2.0\r\n\r\n", b"HTTP/1.1 200 OK\r\nA: " + b"x" * 70_000, b"HTTP/1.1 2"])
async def test_an_answer_that_makes_no_sense_is_broken(words):
    server = await network.listen(lambda: Rude(words), "127.0.0.1", 0)
    exchange = await connect(Exchange, "127.0.0.1", server.sockets[0].getsockname()[1], WITHIN)
    with pytest.raises(ExchangeBroken):
        await exchange.ask(ASK, WITHIN)
    exchange.close()
    server.close()


async def test_after_a_change_of_protocol_bytes_go_both_ways():
    async with serving(tunnelling(echo)) as server:
        exchange = await opened(server)
        head = await exchange.ask(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: y\r\n\r\nab", WITHIN)
        assert (head.status, head.headers.get("Upgrade")) == (101, "something")
        assert await exchange.read() == b"AB"
        assert await exchange.write(b"cd")
        assert await exchange.read() == b"CD"
        exchange.close()


async def test_one_half_of_a_connection_can_end_before_the_other():
    class Listener(asyncio.Protocol):
        def connection_made(self, transport) -> None:
            self.transport = transport
            self.heard = b""

        def data_received(self, data: bytes) -> None:
            self.heard += data

        def eof_received(self) -> bool:
            self.transport.write(self.heard.upper())
            self.transport.close()
            return True

    server = await network.listen(Listener, "127.0.0.1", 0)
    raw = await connect(RawConnection, "127.0.0.1", server.sockets[0].getsockname()[1], WITHIN)
    await raw.write(b"hello")
    raw.write_eof()
    assert await raw.read() == b"HELLO"
    assert await raw.read() == b""
    raw.close()
    server.close()
