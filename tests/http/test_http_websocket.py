"""WebSockets: aiohttp's client against our server in virtual time, and raw frames for what it would not send."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.env import tasks
from mainstay.http.limits import HttpLimits
from mainstay.http.messages import Request, UpgradeResponse
from mainstay.http.server import HttpServer
from mainstay.http.websocket import WebSocket
from tests.http.clients import Client, connected, echo, get, later, serving

SECOND = timedelta(seconds=1)
HANDSHAKE = (
    "Connection: keep-alive, Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)


async def repeat(websocket: WebSocket) -> None:
    while (message := await websocket.receive()) is not None:
        if isinstance(message, str):
            await websocket.send_text(message)
        else:
            await websocket.send_bytes(message)


def repeating(request: Request) -> UpgradeResponse:
    return UpgradeResponse(repeat)


def frame(opcode: int, payload: bytes = b"", *, is_final: bool = True) -> bytes:
    """As a client sends it: masked, here with zeros."""
    head = bytes([opcode | (0x80 if is_final else 0)])
    size = len(payload)
    length = bytes([0x80 | size]) if size < 126 else bytes([0x80 | 126]) + size.to_bytes(2, "big")
    if size > 0xFFFF:
        length = bytes([0x80 | 127]) + size.to_bytes(8, "big")
    return head + length + bytes(4) + payload


async def opened(server: HttpServer) -> Client:
    client = await connected(server)
    client.send(get("/", *HANDSHAKE))
    head = await client.head()
    assert head.status == 101
    assert head.headers["sec-websocket-accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    return client


@asynccontextmanager
async def aiohttp_socket(server: HttpServer, **options) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    host, port = server.addresses[0]
    async with aiohttp.ClientSession() as session, session.ws_connect(f"http://{host}:{port}/", **options) as socket:
        yield socket


async def test_messages_go_both_ways():
    async with serving(repeating) as server, aiohttp_socket(server) as socket:
        for message in ("hello", "", "é" * 1000):
            await socket.send_str(message)
            assert await socket.receive_str() == message
        for data in (b"\0\1", b"", bytes(300_000)):
            await socket.send_bytes(data)
            assert await socket.receive_bytes() == data
        await socket.ping()
        await tasks.sleep(timedelta(hours=1))
        await socket.send_str("still there")
        assert await socket.receive_str() == "still there"


async def test_the_client_closes():
    codes: list[str] = []

    async def run(websocket: WebSocket) -> None:
        assert await websocket.receive() is None
        assert await websocket.receive() is None
        codes.append(f"{websocket.closed} {await websocket.send_text('too late')}")

    async with serving(lambda request: UpgradeResponse(run)) as server:
        async with aiohttp_socket(server) as socket:
            await socket.close(code=4000)
            assert socket.close_code == 4000
        await tasks.sleep(SECOND)
        assert server.connections == 0
    assert codes == ["True False"]


async def test_the_server_closes_when_there_is_no_more_to_do():
    async def run(websocket: WebSocket) -> None:
        await websocket.send_text("bye")

    async with serving(lambda request: UpgradeResponse(run)) as server, aiohttp_socket(server) as socket:
        assert await socket.receive_str() == "bye"
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
        assert socket.close_code == 1000
        await tasks.sleep(SECOND)
        assert server.connections == 0


async def test_the_server_closes_with_a_reason():
    async def run(websocket: WebSocket) -> None:
        await websocket.close(4001, "enough")

    async with serving(lambda request: UpgradeResponse(run)) as server, aiohttp_socket(server) as socket:
        message = await socket.receive()
        assert (message.data, message.extra) == (4001, "enough")


async def test_a_subprotocol_and_headers_are_agreed_on():
    answer = UpgradeResponse(repeat, "v5.channel.k8s.io", (("X-A", "b"),))
    offered = ["v5.channel.k8s.io", "v4.channel.k8s.io"]
    async with serving(lambda request: answer) as server, aiohttp_socket(server, protocols=offered) as socket:
        assert socket.protocol == "v5.channel.k8s.io"
        assert socket._response.headers["x-a"] == "b"


async def test_a_client_that_goes_away_ends_what_runs():
    ended = asyncio.Event()

    async def run(websocket: WebSocket) -> None:
        try:
            await tasks.sleep(timedelta(days=1))
        finally:
            ended.set()

    async with serving(lambda request: UpgradeResponse(run)) as server:
        client = await opened(server)
        client.transport.abort()
        await ended.wait()


async def test_a_bug_closes_with_1011():
    heard: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context["exception"]))

    async def run(websocket: WebSocket) -> None:
        raise KeyError("bug")

    async with serving(lambda request: UpgradeResponse(run)) as server, aiohttp_socket(server) as socket:
        await socket.receive()
        assert socket.close_code == 1011
    assert [type(error) for error in heard] == [KeyError]


async def test_draining_says_going_away():
    async with serving(repeating) as server, aiohttp_socket(server) as socket:
        draining = tasks.spawn(server.drain(timedelta(seconds=30)), name="drain")
        await socket.receive()
        assert socket.close_code == 1001
        await draining


async def test_frames_sent_with_the_handshake_are_not_lost():
    async with serving(repeating) as server:
        client = await connected(server)
        client.send(get("/", *HANDSHAKE) + frame(1, b"early") + frame(9, b"ping"))
        assert (await client.head()).status == 101
        assert await client.take(13) in (b"\x81\x05early\x8a\x04ping", b"\x8a\x04ping\x81\x05early")


async def test_fragments_are_put_together_around_a_ping():
    async with serving(repeating) as server:
        client = await opened(server)
        client.send(frame(1, b"he", is_final=False) + frame(9) + frame(0, b"llo"))
        assert await client.take(2) == b"\x8a\x00"
        assert await client.take(7) == b"\x81\x05hello"


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (frame(1, bytes(2000)), 1009),
        (frame(2, bytes(600), is_final=False) + frame(0, bytes(600), is_final=False), 1009),
        (frame(1, b"\xff"), 1007),
        (frame(3), 1002),
        (b"\x81\x05hello", 1002),
        (frame(0, b"no beginning"), 1002),
    ],
)
async def test_what_is_wrong_or_too_large_ends_it_with_a_code(sent: bytes, code: int):
    async with serving(repeating, HttpLimits(message_bytes=1000)) as server:
        client = await opened(server)
        client.send(sent)
        close = await client.take(4)
        assert (close[0], int.from_bytes(close[2:], "big")) == (0x88, code)
        await client.end()


async def test_unreceived_messages_are_not_read():
    received = 0

    async def run(websocket: WebSocket) -> None:
        nonlocal received
        await tasks.sleep(timedelta(minutes=1))
        while await websocket.receive():
            received += 1

    async with serving(lambda request: UpgradeResponse(run), HttpLimits(message_bytes=10_000)) as server:
        client = await opened(server)
        for _ in range(100):
            client.send(frame(2, bytes(9_000)))
        await tasks.sleep(timedelta(seconds=30))
        assert client.transport.get_write_buffer_size() > 300_000
        await tasks.sleep(timedelta(minutes=1))
        assert received == 100


@pytest.mark.parametrize(
    "headers",
    [
        (),
        HANDSHAKE[:3],
        (*HANDSHAKE[:3], "Sec-WebSocket-Key: short"),
        (*HANDSHAKE[:2], "Sec-WebSocket-Version: 8", HANDSHAKE[3]),
        ("Connection: Upgrade", "Upgrade: SPDY/3.1", *HANDSHAKE[2:]),
    ],
)
async def test_what_is_no_handshake_is_a_400_and_the_connection_goes_on(headers: tuple[str, ...]):
    async with serving(repeating) as server:
        client = await connected(server)
        for _ in range(2):
            reply = await client.ask(get("/", *headers))
            assert (reply.status, reply.json()["reason"]) == (400, "BadRequest")


@pytest.mark.parametrize("handler", [echo, later(SECOND)], ids=["at once", "later"])
async def test_an_upgrade_that_the_handler_does_not_want_is_a_plain_request(handler):
    async with serving(handler) as server:
        client = await connected(server)
        client.send(get("/1", *HANDSHAKE) * 3000 + get("/2"))
        for _ in range(3000):
            assert (await client.reply()).body == b"GET /1 "
        assert (await client.reply()).body == b"GET /2 "


@pytest.mark.slow
@given(st.lists(st.one_of(st.binary(max_size=30), st.builds(frame, st.integers(0, 15), st.binary(max_size=200)))))
@settings(max_examples=200)
async def test_whatever_frames_come_the_server_neither_breaks_nor_hangs(frames: list[bytes]):
    async with serving(repeating, HttpLimits(message_bytes=1000)) as server:
        client = await opened(server)
        for each in frames:
            client.send(each)
            await tasks.sleep(timedelta(milliseconds=1))
        client.transport.write_eof()
        await client.end()
        await tasks.sleep(SECOND)
        assert server.connections == 0


@pytest.mark.real_loop
async def test_it_works_over_real_sockets():
    data = os.urandom(200_000)
    async with serving(repeating) as server, aiohttp_socket(server) as socket:
        await socket.send_bytes(data)
        assert await socket.receive_bytes() == data
