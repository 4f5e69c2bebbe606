"""What is malformed, too large or too slow is refused, said so, and the connection closed."""

import asyncio
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.env import tasks
from mainstay.http.limits import HttpLimits
from mainstay.http.messages import Peer, Request, Response, StreamResponse
from mainstay.http.reader import RequestReader
from mainstay.http.streams import BodyStream
from tests.http.clients import connected, echo, get, later, post, serving

SECOND = timedelta(seconds=1)
SMALL = HttpLimits(url_bytes=100, header_bytes=1000, body_bytes=2000)


def now_s() -> float:
    return asyncio.get_running_loop().time()


def chunked(*lines: str) -> bytes:
    head = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    return (head + "".join(f"{line}\r\n" for line in lines)).encode()


def with_headers(*headers: str) -> bytes:
    return get("/", *headers)


MALFORMED = {
    "no HTTP": b"hello\r\n\r\n",
    "TLS on a plain port": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "an unknown method": b"FETCH / HTTP/1.1\r\nHost: h\r\n\r\n",
    "bare line feeds": b"GET / HTTP/1.1\nHost: h\n\n",
    "both lengths": b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "both lengths, reversed": chunked("0", "").replace(b"chunked\r\n", b"chunked\r\nContent-Length: 3\r\n"),
    "two lengths": post(b"abc", "Content-Length: 3"),
    "two different lengths": post(b"abc", "Content-Length: 4"),
    "a list of lengths": post(b"abc").replace(b": 3", b": 3, 3"),
    "a signed length": post(b"abc").replace(b": 3", b": +3"),
    "a negative length": post(b"abc").replace(b": 3", b": -3"),
    "a hexadecimal length": post(b"abc").replace(b": 3", b": 0x3"),
    "an empty length": post(b"abc").replace(b": 3", b":"),
    "an endless length": post(b"abc").replace(b": 3", b": 99999999999999999999"),
    "a coding that is not the last": chunked("0", "").replace(b": chunked", b": chunked, gzip"),
    "two codings": chunked("0", "").replace(b"chunked\r\n", b"chunked\r\nTransfer-Encoding: chunked\r\n"),
    "chunks in HTTP/1.0": chunked("0", "").replace(b"/1.1", b"/1.0"),
    "a chunk with a bad size": chunked("3x", "abc", "0", ""),
    "a chunk with an endless size": chunked("fffffffffffffffff", "abc"),
    "a chunk longer than it says": chunked("2", "abc", "0", ""),
    "a space before the colon": with_headers("A : b"),
    "a folded header": with_headers("A: b", " c"),
    "a header without a name": with_headers(": b"),
    "a header without a colon": with_headers("hello"),
    "NUL in a header": with_headers("A: b\0c"),
    "NUL in a name": with_headers("A\0: b"),
    "a bare carriage return": with_headers("A: b\rX: c"),
    "NUL in the target": get("/a\0"),
    "NUL in the path, escaped": get("/a%00"),
    "a bad escape": get("/a%zz"),
    "half an escape": get("/a%2"),
    "a path that is not UTF-8": get("/%ff"),
    "a fragment": get("/a#b"),
    "a target that is no path": get("pods"),
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": with_headers("Host: other"),
    "an upgrade with a body": post(b"abc", "Connection: upgrade", "Upgrade: websocket"),
}


@pytest.mark.parametrize("request_bytes", MALFORMED.values(), ids=MALFORMED.keys())
@pytest.mark.parametrize("step", [1, 1 << 20], ids=["byte by byte", "at once"])
async def test_a_malformed_request_is_a_400_with_a_status_and_the_end(request_bytes: bytes, step: int):
    asked: list[str] = []

    def handler(request: Request) -> Response:
        asked.append(request.path)
        return Response(200)

    async with serving(handler) as server:
        client = await connected(server)
        client.send(get("/good"))
        for at in range(0, len(request_bytes), step):
            client.send(request_bytes[at : at + step])
        client.send(get("/smuggled"))
        assert (await client.reply()).status == 200
        reply = await client.reply()
        status = reply.json()
        assert (reply.status, reply.closes) == (400, True)
        assert (status["kind"], status["reason"], status["code"]) == ("Status", "BadRequest", 400)
        assert await client.end() == b""
    assert asked == ["/good"]


@pytest.mark.parametrize(
    ("request_bytes", "code"),
    [
        (b"GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505),
        (b"GET /\r\n\r\n", 505),
        (chunked("0", "").replace(b": chunked", b": gzip, chunked"), 501),
        (chunked("0", "").replace(b": chunked", b": xchunked"), 501),
        (b"CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n", 405),
        (post(b"abc", "Expect: a miracle"), 417),
        (get("/" + "x" * 100), 414),
        (get("/" + "x" * 100)[:110], 414),
        (get("/", "A: " + "x" * 1000), 431),
        (get("/", *(f"A{number}: b" for number in range(200))), 431),
        (post(b"x" * 2001), 413),
        (post(b"x" * 2001)[:80], 413),
        (chunked(*(["100", "x" * 256] * 8), "0", ""), 413),
    ],
)
async def test_what_is_too_much_is_refused_with_its_own_code(request_bytes: bytes, code: int):
    async with serving(echo, SMALL) as server:
        client = await connected(server)
        reply = await client.ask(request_bytes)
        assert (reply.status, reply.closes, reply.json()["code"]) == (code, True, code)
        assert await client.end() == b""


async def test_what_is_just_not_too_much_is_answered():
    async with serving(echo, SMALL) as server:
        client = await connected(server)
        assert (await client.ask(get("/" + "x" * 99))).status == 200
        assert (await client.ask(post(b"x" * 2000))).status == 200
        assert (await client.ask(chunked("7d0", "x" * 2000, "0", ""))).status == 200
        assert (await client.ask(get("/", "A: " + "x" * 900))).status == 200


@pytest.mark.parametrize("begin", [b"GET / HTTP/1.1\r\nA: ", chunked("0") + b"T: ", chunked("1") + b"x\r\n0;"])
async def test_a_header_or_trailer_without_end_is_refused(begin: bytes):
    async with serving(echo) as server:
        client = await connected(server)
        client.send(begin)
        sent = 0
        while not client.received:
            client.send(b"x" * 1000)
            sent += 1000
            await tasks.sleep(timedelta(milliseconds=1))
            assert sent < 200_000
        assert (await client.reply()).status == 431


async def test_a_refusal_arrives_although_the_client_goes_on_sending():
    async with serving(echo, SMALL) as server:
        client = await connected(server)
        client.send(post(b"x" * 5_000_000))
        assert (await client.reply()).status == 413
        await client.end()


async def test_a_refusal_waits_for_its_turn():
    async with serving(later(SECOND)) as server:
        client = await connected(server)
        client.send(get("/1") + b"nonsense\r\n\r\n")
        assert (await client.reply()).body == b"GET /1 "
        assert (await client.reply()).status == 400
        await client.end()


# Time.


async def test_a_head_that_drips_in_is_given_up():
    async with serving(echo, HttpLimits(head_within=timedelta(seconds=10))) as server:
        client = await connected(server)
        for byte in get("/" + "x" * 1000):
            if client.received:
                break
            client.send(bytes([byte]))
            await tasks.sleep(SECOND)
        assert (await client.reply()).status == 408
        assert now_s() < 12
        await client.end()


async def test_a_body_that_drips_in_is_given_up():
    async with serving(echo, HttpLimits(body_within=timedelta(seconds=10))) as server:
        client = await connected(server)
        for byte in post(b"x" * 1000):
            if client.received:
                break
            client.send(bytes([byte]))
            await tasks.sleep(timedelta(milliseconds=100))
        assert (await client.reply()).status == 408
        assert now_s() < 25
        await client.end()


async def test_each_request_has_its_own_time():
    async with serving(echo, HttpLimits(head_within=timedelta(seconds=10))) as server:
        client = await connected(server)
        request = get("/x")
        client.send(request[:5])
        for _ in range(10):
            await tasks.sleep(timedelta(seconds=8))
            client.send(request[5:] + request[:5])
            assert (await client.reply()).body == b"GET /x "


async def test_an_idle_connection_is_closed_without_a_word():
    limits = HttpLimits(first_within=timedelta(seconds=30), idle_within=timedelta(seconds=60))
    async with serving(echo, limits) as server:
        silent, once = await connected(server), await connected(server)
        await once.ask(get())
        assert await silent.end() == b""
        assert now_s() == pytest.approx(30, abs=1)
        assert await once.end() == b""
        assert now_s() == pytest.approx(30 + 60 + 60, abs=1)


async def test_a_connection_is_not_idle_while_something_runs():
    async with serving(later(timedelta(hours=1)), HttpLimits(idle_within=timedelta(seconds=60))) as server:
        client = await connected(server)
        assert (await client.ask(get())).status == 200


async def test_a_client_that_asks_and_never_reads_is_dropped():
    async with serving(lambda request: Response(200, bytes(100_000))) as server:
        client = await connected(server)
        client.transport.pause_reading()
        client.send(get() * 10_000)
        await tasks.sleep(timedelta(minutes=10))
        assert server.connections == 0
        client.transport.abort()


async def test_a_client_that_asks_for_the_end_and_never_reads_is_dropped():
    async with serving(lambda request: Response(200, bytes(10_000_000))) as server:
        client = await connected(server)
        client.transport.pause_reading()
        client.send(get("/", "Connection: close"))
        await tasks.sleep(timedelta(minutes=1))
        assert server.connections == 0
        client.transport.abort()


async def test_more_connections_than_allowed_are_told_to_come_back():
    async with serving(later(timedelta(seconds=9)), HttpLimits(connections=2)) as server:
        first, second, third = [await connected(server) for _ in range(3)]
        reply = await third.reply()
        assert (reply.status, reply.headers["retry-after"], reply.closes) == (503, "1", True)
        await third.end()
        assert (await second.ask(get())).status == 200
        first.close()
        await tasks.sleep(SECOND)
        assert (await (await connected(server)).ask(get())).status == 200


# All that can come.

REQUESTS = [
    get("/1"),
    post(b"abc", target="/2"),
    get("/3", "A: b", "Accept: */*"),
    chunked("3", "abc", "2", "de", "0", "T: t", ""),
    b"\r\n" + get("/5", "Connection: keep-alive"),
    get("/6", "Connection: upgrade", "Upgrade: h2c"),
    post(b"", target="/7"),
    post(b"GET /8 HTTP/1.1\r\nHost: h\r\n\r\n", "Expect: 100-continue"),
    get("/later/9"),
    get("/stream/10"),
]


def any_kind(request: Request):
    async def run(stream: BodyStream) -> None:
        stream.write(request.path.encode())
        await tasks.sleep(SECOND)

    if request.path.startswith("/later"):
        return later(SECOND)(request)
    return StreamResponse(200, run) if request.path.startswith("/stream") else echo(request)


def expected(requests: list[bytes]) -> list[bytes]:
    found: list[bytes] = []
    for request in requests:
        reader = RequestReader(HttpLimits(), Peer("", 0))
        reader.feed(request)
        [parsed] = reader.ready
        is_stream = parsed.path.startswith("/stream")
        found.append(parsed.path.encode() if is_stream else echo(parsed).body)
    return found


@given(
    st.lists(st.sampled_from(REQUESTS), min_size=1, max_size=12),
    st.lists(st.integers(1, 80), min_size=1, max_size=20),
    st.booleans(),
)
@settings(max_examples=150)
async def test_however_requests_are_cut_up_the_answers_are_the_same(
    requests: list[bytes], sizes: list[int], with_pauses: bool
):
    stream = b"".join(requests)
    async with serving(any_kind, HttpLimits(pipelined=3)) as server:
        client = await connected(server)
        at = number = 0
        while at < len(stream):
            size = sizes[number % len(sizes)]
            client.send(stream[at : at + size])
            at, number = at + size, number + 1
            if with_pauses:
                await tasks.sleep(timedelta(milliseconds=5))
        bodies: list[bytes] = []
        while len(bodies) < len(requests):
            reply = await client.reply()
            if reply.status != 100:
                assert reply.status == 200
                bodies.append(reply.body)
        assert bodies == expected(requests)
        assert client.received in (b"", b"HTTP/1.1 100 Continue\r\n\r\n")


PIECES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"\r\n", b"\r\n\r\n", b": ", b"0\r\n\r\n", b"Transfer-Encoding: chunked", b"Content-Length: 5"]),
    st.sampled_from([*REQUESTS, *MALFORMED.values()]),
)


@pytest.mark.slow
@given(st.lists(PIECES, max_size=12))
@settings(max_examples=300)
async def test_whatever_comes_the_server_neither_breaks_nor_hangs(pieces: list[bytes]):
    async with serving(any_kind, HttpLimits(pipelined=3)) as server:
        client = await connected(server)
        for piece in pieces:
            client.send(piece)
            await tasks.sleep(timedelta(milliseconds=1))
        await client.end()  # By refusal, or at last by its idle limit.
        while client.received:
            reply = await client.reply()
            assert reply.status in (100, 200, 400, 405, 408, 413, 417, 501, 505)
        other = await connected(server)
        assert (await other.ask(get("/still"))).body == b"GET /still "
