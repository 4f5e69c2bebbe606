"""Requests that are decided by their head, before the body is read, in virtual time."""

from datetime import timedelta

from mainstay.api.errors import StatusError, StatusReason
from mainstay.env import tasks
from mainstay.http.limits import HttpLimits
from mainstay.http.messages import Answer, Request
from tests.http.clients import connected, echo, get, post, serving

LONG = 1_000_000
FORBIDDEN = StatusError(403, StatusReason.FORBIDDEN, "no")


def refuse(request: Request) -> Answer:
    raise FORBIDDEN


async def refuse_later(request: Request) -> Answer:
    await tasks.sleep(timedelta(seconds=1))
    raise FORBIDDEN


async def read_and_echo(request: Request) -> Answer:
    if request.arriving is not None:
        await request.arriving.read()
    return echo(request)


def head(length: int = LONG, *headers: str) -> bytes:
    """Of a request with a body, which is not sent."""
    return post(b"", *headers).replace(b"Content-Length: 0", f"Content-Length: {length}".encode())


async def test_a_refusal_by_the_head_does_not_wait_for_the_body():
    for handler in (refuse, refuse_later):
        async with serving(handler, on_head=True) as server:
            client = await connected(server)
            reply = await client.ask(head())
            assert (reply.status, reply.closes) == (403, True)
            assert await client.end() == b""


async def test_what_is_sent_after_a_refusal_is_dropped_and_not_held():
    async with serving(refuse, on_head=True) as server:
        client = await connected(server)
        client.send(head() + b"x" * (LONG - 1))
        assert (await client.reply()).status == 403
        assert server.body_bytes_held == 0
        await client.end()


async def test_a_short_body_is_dropped_and_the_connection_goes_on():
    async with serving(
        lambda request: refuse(request) if request.method == "POST" else echo(request), on_head=True
    ) as server:
        client = await connected(server)
        client.send(head(4))
        first = await client.reply()
        assert (first.status, first.closes) == (403, False)
        assert (await client.ask(b"body" + get("/next"))).body == b"GET /next "


async def test_a_body_that_comes_later_is_read_when_the_handler_asks_for_it():
    async with serving(read_and_echo, on_head=True) as server:
        client = await connected(server)
        client.send(head(6))
        await tasks.sleep(timedelta(seconds=1))
        client.send(b"abc")
        await tasks.sleep(timedelta(seconds=1))
        assert server.body_bytes_held == 6
        assert (await client.ask(b"def" + get("/next"))).body == b"POST / abcdef"
        assert (await client.reply()).body == b"GET /next "
        assert server.body_bytes_held == 0


async def test_a_long_body_in_one_piece_is_read():
    body = b"x" * 300_000
    async with serving(read_and_echo, on_head=True) as server:
        client = await connected(server)
        for _ in range(2):
            assert (await client.ask(post(body))).body == b"POST / " + body


async def test_heads_behind_a_request_wait_for_their_turn():
    seen: list[str] = []

    async def slow(request: Request) -> Answer:
        seen.append(request.target)
        await tasks.sleep(timedelta(seconds=1))
        return await read_and_echo(request)

    async with serving(slow, on_head=True) as server:
        client = await connected(server)
        client.send(get("/1") + post(b"x" * 40_000, target="/2") + get("/3"))
        await tasks.sleep(timedelta(milliseconds=500))
        assert seen == ["/1"]
        assert [len((await client.reply()).body) for _ in range(3)] == [7, 40_008, 7]


async def test_100_continue_is_sent_only_when_the_body_is_wanted():
    async with serving(refuse, on_head=True) as server:
        client = await connected(server)
        reply = await client.ask(head(4, "Expect: 100-continue"))
        assert (reply.status, reply.closes) == (403, True)
    async with serving(read_and_echo, on_head=True) as server:
        client = await connected(server)
        client.send(head(4, "Expect: 100-continue"))
        assert (await client.head()).status == 100
        assert (await client.ask(b"body")).body == b"POST / body"


async def test_the_handler_hears_that_a_body_is_too_large_or_too_slow():
    heard: list[int] = []

    async def hear(request: Request) -> Answer:
        try:
            return await read_and_echo(request)
        except StatusError as error:
            heard.append(error.code)
            raise

    chunks = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with serving(hear, HttpLimits(body_bytes=10_000), on_head=True) as server:
        for sent, status in ((chunks + b"4000\r\n" + b"x" * 16_384, 413), (chunks + b"zz\r\n", 400), (head(9), 408)):
            client = await connected(server)
            reply = await client.ask(sent)
            assert (reply.status, reply.closes) == (status, True)
            await client.end()
        assert server.body_bytes_held == 0
    assert heard[-1] == 408


async def test_a_body_in_chunks_is_refused_as_soon_as_it_is_longer_than_the_handler_reads():
    async def read_little(request: Request) -> Answer:
        if request.arriving is not None:
            await request.arriving.read(bytes_max=1000)
        return echo(request)

    def chunk(size: int) -> bytes:
        return b"%x\r\n%b\r\n" % (size, b"x" * size)

    chunks = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with serving(read_little, on_head=True) as server:
        client = await connected(server)
        client.send(chunks + chunk(900))
        await tasks.sleep(timedelta(seconds=1))
        assert server.body_bytes_held == 1000
        refused = await client.ask(chunk(101))  # Its end is not there.
        assert (refused.status, refused.closes) == (413, True)
        assert refused.json()["message"] == "Request entity too large: limit is 1000 bytes"
        await client.end()

        other = await connected(server)
        assert (await other.ask(chunks + chunk(900) + b"0\r\n\r\n")).status == 200
        assert (await other.ask(post(b"x" * 900_000)[:-1])).status == 413  # One that says its length, too.


async def test_all_bodies_together_are_bounded_and_a_smaller_share_is_full_sooner():
    shares = {"/low": 0.5, "/high": 1.0}

    async def handler(request: Request) -> Answer:
        if request.arriving is not None:
            await request.arriving.read(shares[request.path])
        return echo(request)

    def head_to(target: str) -> bytes:
        return head(LONG).replace(b"POST /", b"POST " + target.encode())

    async with serving(handler, HttpLimits(bodies_bytes=4 * LONG), on_head=True) as server:
        for target in ("/low", "/low", "/high"):
            (await connected(server)).send(head_to(target))
        await tasks.sleep(timedelta(seconds=1))
        assert server.body_bytes_held == 3 * LONG
        refused = await (await connected(server)).ask(head_to("/low"))
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        (await connected(server)).send(head_to("/high"))
        await tasks.sleep(timedelta(seconds=1))
        assert server.body_bytes_held == 4 * LONG
        assert (await (await connected(server)).ask(head_to("/high"))).status == 429


async def test_one_owner_has_a_quarter_of_the_room_until_its_bodies_are_answered():
    async def handler(request: Request) -> Answer:
        if request.arriving is not None:
            await request.arriving.read(1.0, request.path)
        return echo(request)

    def head_to(target: str) -> bytes:
        return head(LONG).replace(b"POST /", b"POST " + target.encode())

    async with serving(handler, HttpLimits(bodies_bytes=4 * LONG), on_head=True) as server:
        first = await connected(server)
        first.send(head_to("/a"))
        await tasks.sleep(timedelta(seconds=1))
        assert (await (await connected(server)).ask(head_to("/a"))).status == 429
        (await connected(server)).send(head_to("/b"))
        await tasks.sleep(timedelta(seconds=1))
        assert server.body_bytes_held == 2 * LONG
        assert (await first.ask(b"x" * LONG)).status == 200
        again = await connected(server)
        assert (await again.ask(head_to("/a") + b"x" * LONG)).status == 200


async def test_a_client_that_goes_away_during_its_body_gives_the_room_back():
    async with serving(read_and_echo, on_head=True) as server:
        client = await connected(server)
        client.send(head() + b"x")
        await tasks.sleep(timedelta(seconds=1))
        assert server.body_bytes_held == LONG
        client.close()
        await tasks.sleep(timedelta(seconds=1))
        assert (server.body_bytes_held, server.connections) == (0, 0)
