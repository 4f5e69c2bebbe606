"""Answers that are streams: their form, and clients that go away or read too slowly. In virtual time."""

from datetime import timedelta
from functools import partial

from mainstay.env import tasks
from mainstay.http.limits import HttpLimits
from mainstay.http.messages import Request, StreamResponse
from mainstay.http.streams import BodyStream
from tests.http.clients import connected, get, hear, now_s, serving

SECOND = timedelta(seconds=1)


async def count_up(stream: BodyStream) -> None:
    for number in range(3):
        assert stream.write(b"%d\n" % number)
        await tasks.sleep(SECOND)


async def test_a_stream_sends_its_head_at_once_and_then_chunk_by_chunk():
    async def run(stream: BodyStream) -> None:
        await tasks.sleep(timedelta(seconds=30))
        await count_up(stream)

    async with serving(lambda request: StreamResponse(200, run)) as server:
        client = await connected(server)
        client.send(get())
        head = await client.head()
        assert head.headers == {"content-type": "application/json", "transfer-encoding": "chunked"}
        assert now_s() < 1
        seen = []
        while chunk := await client.chunk():
            seen.append((chunk, round(now_s())))
        assert seen == [(b"0\n", 30), (b"1\n", 31), (b"2\n", 32)]
        assert (await client.ask(get())).body == b"0\n1\n2\n"


async def test_a_stream_for_http_1_0_ends_with_the_connection():
    async with serving(lambda request: StreamResponse(200, count_up)) as server:
        client = await connected(server)
        client.send(get(version="1.0"))
        head = await client.head()
        assert head.headers == {"content-type": "application/json", "connection": "close"}
        assert await client.end() == b"0\n1\n2\n"


async def test_a_stream_before_a_request_of_http_1_0_is_still_chunked():
    async with serving(lambda request: StreamResponse(200, count_up)) as server:
        client = await connected(server)
        client.send(get() + get(version="1.0"))
        assert (await client.reply()).body == b"0\n1\n2\n"
        assert (await client.head()).closes
        assert await client.end() == b"0\n1\n2\n"


async def test_a_head_request_does_not_run_the_stream():
    async with serving(lambda request: StreamResponse(200, count_up)) as server:
        client = await connected(server)
        assert (await client.ask(get().replace(b"GET", b"HEAD"))).status == 200
        assert (await client.ask(get())).body == b"0\n1\n2\n"


async def test_a_stream_hears_of_a_client_that_goes_away():
    heard: list[str] = []

    async def run(stream: BodyStream) -> None:
        try:
            await stream.wait_closed()
            heard.append("closed")
            await tasks.sleep(timedelta(days=1))
        finally:
            heard.append(f"ended, {stream.closed=}, {stream.write(b'x')=}")

    async with serving(lambda request: StreamResponse(200, run)) as server:
        client = await connected(server)
        client.send(get())
        await client.head()
        client.close()
        await tasks.sleep(SECOND)
        assert heard == ["ended, stream.closed=True, stream.write(b'x')=False"]
        assert server.connections == 0


async def test_a_client_that_reads_too_slowly_is_dropped():
    written = 0

    async def run(stream: BodyStream) -> None:
        nonlocal written
        while stream.write(bytes(10_000)):
            written += 10_000
            await tasks.sleep(timedelta(milliseconds=1))

    async with serving(lambda request: StreamResponse(200, run), HttpLimits(stream_bytes=100_000)) as server:
        client = await connected(server)
        client.send(get())
        await client.head()
        client.transport.pause_reading()
        await tasks.sleep(timedelta(minutes=1))
        assert server.connections == 0
        assert 100_000 < written < 1_000_000
        client.transport.resume_reading()
        assert not (await client.end()).endswith(b"0\r\n\r\n")


async def test_clients_that_read_too_slowly_are_bounded_all_together():
    held = [0] * 20

    async def run(number: int, stream: BodyStream) -> None:
        while stream.write(bytes(10_000)):
            held[number] += 10_000
            await tasks.sleep(timedelta(milliseconds=1))
        held[number] = 0

    def handler(request: Request) -> StreamResponse:
        return StreamResponse(200, partial(run, int(request.path[1:])))

    async with serving(handler, HttpLimits(stream_bytes=10_000_000, streams_bytes=1_000_000)) as server:
        for number in range(len(held)):
            client = await connected(server)
            client.send(get(f"/{number}"))
            await client.head()
            client.transport.pause_reading()
        most = 0
        for _ in range(1_000):
            await tasks.sleep(timedelta(milliseconds=1))
            most = max(most, sum(held))
        # What the network itself takes in comes on top of it.
        assert most < 10_000_000


async def test_a_stream_that_drains_waits_for_the_client():
    async def run(stream: BodyStream) -> None:
        for _ in range(100):
            assert stream.write(bytes(50_000))
            await stream.drain()

    async with serving(lambda request: StreamResponse(200, run), HttpLimits(stream_bytes=150_000)) as server:
        client = await connected(server)
        client.send(get())
        client.transport.pause_reading()
        await tasks.sleep(timedelta(minutes=1))
        client.transport.resume_reading()
        assert len((await client.reply()).body) == 5_000_000


async def test_a_stream_that_fails_is_cut_off_and_not_ended(failures):
    hear(failures)

    async def run(stream: BodyStream) -> None:
        stream.write(b"half")
        await tasks.sleep(SECOND)
        raise KeyError("bug")

    async with serving(lambda request: StreamResponse(200, run)) as server:
        client = await connected(server)
        client.send(get())
        await client.head()
        assert await client.end() == b"4\r\nhalf\r\n"
    assert [type(failure) for failure in failures] == [KeyError]
