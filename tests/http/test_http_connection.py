"""Requests and answers over one connection, in virtual time."""

import asyncio
import gzip
import json
from collections.abc import Iterator
from datetime import timedelta

import pytest

from mainstay.api.errors import StatusError, StatusReason
from mainstay.env import tasks
from mainstay.http.limits import HttpLimits
from mainstay.http.messages import Answer, LongResponse, Request, Response, StreamResponse
from mainstay.http.server import HttpServer
from mainstay.http.streams import BodyStream
from tests.http.clients import LOCALHOST, connected, echo, get, hear, later, now_s, post, serving

SECOND = timedelta(seconds=1)


# What a handler sees.


async def test_the_handler_sees_the_request_as_it_was_sent():
    seen: list[Request] = []

    def handler(request: Request) -> Response:
        seen.append(request)
        return Response(200)

    async with serving(handler) as server:
        client = await connected(server)
        await client.ask(
            b"PATCH /api/v1/pods/a%20b%2Fc?watch=1&x=%20 HTTP/1.1\r\nHost: h\r\nX-A: 1  \r\nx-a: 2\r\n"
            b"Content-Length: 3\r\n\r\nabc"
        )
    [request] = seen
    assert (request.method, request.target) == ("PATCH", "/api/v1/pods/a%20b%2Fc?watch=1&x=%20")
    assert (request.path, request.query, request.body) == ("/api/v1/pods/a b/c", "watch=1&x=%20", b"abc")
    assert request.headers.get("X-a") == "1"
    assert request.headers.getall("X-A") == ["1", "2"]
    assert request.headers.get("y") is None
    assert list(request.headers) == [("host", "h"), ("x-a", "1"), ("x-a", "2"), ("content-length", "3")]
    assert (request.peer.host, request.peer.certificate) == (LOCALHOST, None)


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/", "/"),
        ("//a", "//a"),
        ("/a?b?c", "/a"),
        ("/%C3%A9", "/é"),
        ("http://there/a/b?c", "/a/b"),
        ("http://there", "/"),
        ("*", "*"),
    ],
)
async def test_the_path_is_decoded(target: str, path: str):
    async with serving(lambda request: Response(200, request.path.encode())) as server:
        client = await connected(server)
        assert (await client.ask(get(target).replace(b"GET *", b"OPTIONS *"))).body.decode() == path


async def test_a_chunked_body_is_put_together():
    async with serving(echo) as server:
        client = await connected(server)
        reply = await client.ask(
            b"PUT /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nT: t\r\n\r\n"
        )
        assert reply.body == b"PUT /x abcde"
        assert (await client.ask(get())).body == b"GET / "


# Answers.


async def test_one_connection_serves_many_requests():
    async with serving(echo) as server:
        client = await connected(server)
        for number in range(3):
            reply = await client.ask(get(f"/{number}"))
            assert reply.body == f"GET /{number} ".encode()
            assert reply.headers == {"content-type": "text/plain", "content-length": "7"}
        assert server.connections == 1


async def test_pipelined_requests_are_answered_in_order():
    async def slow(request: Request) -> Answer:
        await tasks.sleep(timedelta(seconds=10 - int(request.path[1:])))
        return echo(request)

    def handler(request: Request):
        return slow(request) if int(request.path[1:]) % 2 else echo(request)

    async with serving(handler) as server:
        client = await connected(server)
        client.send(b"".join(get(f"/{number}") for number in range(6)))
        assert [(await client.reply()).body for _ in range(6)] == [f"GET /{number} ".encode() for number in range(6)]


async def test_any_number_of_pipelined_requests_is_answered_and_few_wait():
    async with serving(later(timedelta(milliseconds=1)), HttpLimits(pipelined=3)) as server:
        client = await connected(server)
        client.send(b"".join(get(f"/{number}") for number in range(2000)))
        for number in range(2000):
            assert (await client.reply()).body == f"GET /{number} ".encode()


async def test_a_head_request_is_answered_without_the_body():
    async with serving(echo) as server:
        client = await connected(server)
        reply = await client.ask(get("/abc").replace(b"GET", b"HEAD"))
        assert reply.headers["content-length"] == "10"
        assert (await client.ask(get())).body == b"GET / "


@pytest.mark.parametrize("status", [204, 304])
async def test_some_answers_have_no_body_and_no_length(status: int):
    async with serving(lambda request: Response(status, b"ignored")) as server:
        client = await connected(server)
        assert (await client.ask(get())).headers == {}
        assert (await client.ask(get())).status == status


async def test_connection_close_is_honoured_and_what_follows_is_ignored():
    async with serving(echo) as server:
        client = await connected(server)
        client.send(get("/1", "Connection: close") + get("/2"))
        reply = await client.reply()
        assert reply.closes
        assert await client.end() == b""


async def test_http_1_0_is_answered_and_closed():
    async with serving(echo) as server:
        client = await connected(server)
        reply = await client.ask(get("/", "Connection: keep-alive", version="1.0"))
        assert (reply.body, reply.closes) == (b"GET / ", True)
        assert await client.end() == b""


async def test_a_client_that_asks_is_told_to_send_its_body():
    async with serving(echo) as server:
        client = await connected(server)
        head, body = post(b"abc", "Expect: 100-continue").split(b"\r\n\r\n")
        client.send(head + b"\r\n\r\n")
        assert (await client.reply()).status == 100
        assert (await client.ask(body)).body == b"POST / abc"
        # With its body the question has answered itself.
        assert (await client.ask(post(b"abc", "Expect: 100-continue"))).status == 200


async def test_the_word_to_continue_waits_for_earlier_answers():
    async with serving(later(SECOND)) as server:
        client = await connected(server)
        head, body = post(b"abc", "Expect: 100-continue").split(b"\r\n\r\n")
        client.send(get("/1") + head + b"\r\n\r\n")
        assert (await client.reply()).body == b"GET /1 "
        assert (await client.reply()).status == 100
        assert (await client.ask(body)).body == b"POST / abc"


async def test_headers_of_the_handler_are_sent():
    headers = (("Warning", '299 - "é"'), ("Warning", "299 - b"))
    async with serving(lambda request: Response(200, headers=headers)) as server:
        client = await connected(server)
        client.send(get())
        assert b'Warning: 299 - "\xc3\xa9"\r\nWarning: 299 - b\r\n' in await client.take_until(b"\r\n\r\n")


async def test_the_date_is_that_of_the_clock(sim):
    server = await HttpServer.start(echo, LOCALHOST, 0, clock=sim.get_clock("server"))
    client = await connected(server)
    first = (await client.ask(get())).headers["date"]
    await tasks.sleep(timedelta(milliseconds=400))
    assert (await client.ask(get())).headers["date"] == first
    await tasks.sleep(timedelta(seconds=1))
    assert (await client.ask(get())).headers["date"] != first
    assert first.endswith(" GMT")
    await server.drain(SECOND)


# Compression.

LARGE = b"pod " * 50_000


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [("gzip", "gzip"), ("deflate, GZIP;q=0.5", "gzip"), ("gzip;q=0", None), ("identity", None), (None, None)],
)
async def test_large_answers_are_compressed_when_asked_for(accepted: str | None, encoding: str | None):
    async with serving(lambda request: Response(200, LARGE)) as server:
        client = await connected(server)
        reply = await client.ask(get("/", *([f"Accept-Encoding: {accepted}"] if accepted else [])))
    assert reply.headers.get("content-encoding") == encoding
    assert (gzip.decompress(reply.body) if encoding else reply.body) == LARGE


async def test_small_answers_and_encoded_ones_are_left_alone():
    def handler(request: Request) -> Response:
        return Response(200, LARGE, headers=(("Content-Encoding", "br"),)) if request.path == "/br" else echo(request)

    async with serving(handler) as server:
        client = await connected(server)
        assert "content-encoding" not in (await client.ask(get("/", "Accept-Encoding: gzip"))).headers
        assert (await client.ask(get("/br", "Accept-Encoding: gzip"))).body == LARGE


async def test_compression_can_be_switched_off():
    async with serving(lambda request: Response(200, LARGE), HttpLimits(gzip=False)) as server:
        client = await connected(server)
        assert (await client.ask(get("/", "Accept-Encoding: gzip"))).body == LARGE


# Long answers.


def in_pieces(count: int, made: list[int] | None = None) -> LongResponse:
    def pieces() -> Iterator[bytes]:
        for number in range(count):
            if made is not None:
                made.append(number)
            yield LARGE

    return LongResponse(200, pieces())


@pytest.mark.parametrize("accepted", ["gzip", "identity"])
async def test_a_long_answer_comes_whole_and_the_connection_goes_on(accepted: str):
    async with serving(lambda request: in_pieces(20)) as server:
        client = await connected(server)
        for _ in range(2):
            reply = await client.ask(get("/", f"Accept-Encoding: {accepted}"))
            assert reply.headers.get("content-encoding") == ("gzip" if accepted == "gzip" else None)
            assert (gzip.decompress(reply.body) if accepted == "gzip" else reply.body) == LARGE * 20


async def test_others_are_answered_between_the_pieces_of_a_long_answer():
    def handler(request: Request) -> Answer:
        return in_pieces(50, made) if request.path == "/long" else Response(200, str(len(made)).encode())

    made: list[int] = []
    async with serving(handler) as server:
        slow, quick = await connected(server), await connected(server)
        slow.send(get("/long"))
        quick.send(get("/"))
        assert int((await quick.reply()).body) < 50
        assert (await slow.reply()).body == LARGE * 50


async def test_a_long_answer_is_made_as_fast_as_it_is_read_and_an_idle_reader_is_cut_off():
    made: list[int] = []
    async with serving(lambda request: in_pieces(500, made), HttpLimits(piece_within=SECOND)) as server:
        client = await connected(server)
        client.transport.pause_reading()
        client.send(get())
        await tasks.sleep(SECOND / 2)
        assert 0 < len(made) < 100
        await tasks.sleep(10 * SECOND)
        client.transport.resume_reading()
        assert len(await client.end()) < len(made) * len(LARGE)
        assert len(made) < 100


# Failures of the handler.


@pytest.mark.parametrize("at_once", [True, False])
async def test_an_api_error_becomes_its_status(at_once: bool):
    error = StatusError(429, StatusReason.TOO_MANY_REQUESTS, "slow down", retry_after_s=7, headers={"X-A": "b"})

    def handler(request: Request):
        if at_once:
            raise error

        async def fail() -> Response:
            raise error

        return fail()

    async with serving(handler) as server:
        client = await connected(server)
        reply = await client.ask(get())
        assert reply.status == 429
        assert reply.json() == error.status()
        assert (reply.headers["retry-after"], reply.headers["x-a"]) == ("7", "b")
        assert not reply.closes
        assert (await client.ask(get())).status == 429


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_bug_is_a_500_that_tells_the_client_nothing_and_the_loop_all(at_once: bool, failures):
    hear(failures)
    bug = KeyError("secret")

    def handler(request: Request):
        if at_once:
            raise bug

        async def fail() -> Response:
            raise bug

        return fail()

    async with serving(handler) as server:
        client = await connected(server)
        reply = await client.ask(get())
    assert (reply.status, reply.json()["reason"]) == (500, "InternalError")
    assert b"secret" not in reply.body
    assert failures == [bug]


@pytest.mark.parametrize("value", ["a\r\nSet-Cookie: x", "a\nb", "a\rb", "a\0"])
async def test_a_header_cannot_smuggle_in_another_nor_fail_the_request(value: str):
    async with serving(lambda request: Response(200, headers=(("Warning", value), ("X-Good", "yes")))) as server:
        client = await connected(server)
        reply = await client.ask(get())
    assert (reply.status, reply.headers["x-good"]) == (200, "yes")
    assert reply.headers["warning"] == value.replace("\r", "?").replace("\n", "?").replace("\0", "?")
    assert "set-cookie" not in reply.headers


async def test_a_handler_that_waits_for_something_cancelled_is_a_bug(failures):
    hear(failures)

    async def handler(request: Request) -> Response:
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        future.cancel()
        return await future

    async with serving(handler) as server:
        client = await connected(server)
        assert (await client.ask(get())).status == 500
    assert [type(failure) for failure in failures] == [asyncio.CancelledError]


async def test_what_runs_for_a_client_is_cancelled_when_it_goes_away():
    ended = asyncio.Event()

    async def handler(request: Request) -> Response:
        try:
            await tasks.sleep(timedelta(days=1))
        finally:
            ended.set()
        return Response(200)

    async with serving(handler) as server:
        client = await connected(server)
        client.send(get())
        await tasks.sleep(SECOND)
        client.close()
        await ended.wait()
        await tasks.sleep(SECOND)
        assert server.connections == 0
    assert now_s() < 10


async def test_a_handler_that_never_began_is_put_away_too():
    async def handler(request: Request) -> Response:
        raise AssertionError("the client is gone")

    async with serving(handler) as server:
        client = await connected(server)
        client.send(get())
        client.transport.write_eof()
        await tasks.sleep(SECOND)
        assert server.connections == 0


# Draining.


async def test_draining_closes_what_is_idle_and_finishes_what_runs():
    async with serving(later(timedelta(seconds=5))) as server:
        idle, busy = await connected(server), await connected(server)
        busy.send(get())
        await tasks.sleep(SECOND)
        await server.drain(timedelta(seconds=30))
        assert now_s() == pytest.approx(5, abs=0.1)
        await tasks.sleep(SECOND)
        assert await idle.end() == b""
        reply = await busy.reply()
        assert (reply.status, reply.closes) == (200, True)
        await busy.end()
        with pytest.raises(ConnectionRefusedError):
            await connected(server)


async def test_draining_tells_streams_to_end_and_they_can_say_a_last_word():
    async def run(stream: BodyStream) -> None:
        await stream.wait_closed()
        assert stream.write(b"bye")

    async with serving(lambda request: StreamResponse(200, run)) as server:
        client = await connected(server)
        client.send(get())
        await tasks.sleep(SECOND)
        await server.drain(timedelta(seconds=30))
        assert (await client.reply()).body == b"bye"
        assert now_s() < 3


async def test_draining_takes_no_longer_than_its_grace():
    async def run(stream: BodyStream) -> None:
        await tasks.sleep(timedelta(days=1))

    async with serving(lambda request: StreamResponse(200, run)) as server:
        client = await connected(server)
        client.send(get())
        await client.head()
        await server.drain(timedelta(seconds=30))
        assert now_s() == pytest.approx(30, abs=0.1)
        assert server.connections == 0
        assert await client.end() == b""


async def test_a_request_that_is_half_there_is_finished_while_draining():
    async with serving(echo) as server:
        client = await connected(server)
        client.send(get("/x")[:10])
        await tasks.sleep(SECOND)
        draining = tasks.spawn(server.drain(timedelta(seconds=30)), name="drain")
        await tasks.sleep(SECOND)
        reply = await client.ask(get("/x")[10:])
        assert (reply.body, reply.closes) == (b"GET /x ", True)
        await draining


async def test_a_status_says_what_was_wrong():
    async with serving(echo) as server:
        client = await connected(server)
        client.send(b"hello\r\n\r\n")
        reply = await client.reply()
        assert json.loads(reply.body)["kind"] == "Status"
