"""A stream gives the bytes of an answer as they come, holds no more than it may, and tells an end from a break."""

import asyncio
from datetime import timedelta

import pytest

from mainstay.client.errors import NotFound, Unavailable
from mainstay.client.limits import ClientLimits
from mainstay.env import tasks
from tests.client.world import a_client, a_scripted_server, an_answer, seconds

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
PATH = "/api/v1/namespaces/default/pods/web/log"


def a_chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def test_pieces_come_as_they_are_sent_however_long_it_is_silent(sim):
    asked: list[bytes] = []

    def answer(request: bytes, transport: asyncio.Transport) -> None:
        asked.append(request)
        transport.write(HEAD + a_chunk(b"first\nsec"))
        loop = asyncio.get_running_loop()
        loop.call_later(3600, transport.write, a_chunk(b"ond\n"))
        loop.call_later(3601, transport.write, b"0\r\n\r\n")

    query = [("follow", "true"), ("container", "a b")]
    async with a_scripted_server(sim, answer), a_client(sim) as client, client.stream(PATH, query) as stream:
        assert [piece async for piece in stream] == [b"first\nsec", b"ond\n"]
    assert asked[0].startswith(b"GET /api/v1/namespaces/default/pods/web/log?follow=true&container=a+b HTTP/1.1\r\n")
    assert b"Accept: */*\r\n" in asked[0]


async def test_a_stream_that_breaks_off_is_no_end_and_what_came_is_there(sim):
    def answer(request: bytes, transport: asyncio.Transport) -> None:
        transport.write(HEAD + a_chunk(b"all there is"))
        asyncio.get_running_loop().call_later(1, transport.abort)

    async with a_scripted_server(sim, answer), a_client(sim) as client, client.stream(PATH, []) as stream:
        assert await anext(stream) == b"all there is"
        with pytest.raises(Unavailable, match="broke off"):
            await anext(stream)


async def test_a_refusal_is_raised_before_anything_is_read(sim):
    def answer(request: bytes, transport: asyncio.Transport) -> None:
        body = (
            b'{"kind":"Status","status":"Failure","code":404,"reason":"NotFound","message":"pods \\"web\\" not found"}'
        )
        transport.write(an_answer("404 Not Found", body, "Content-Type: application/json"))

    async with a_scripted_server(sim, answer), a_client(sim) as client:
        with pytest.raises(NotFound, match='pods "web" not found'):
            async with client.stream(PATH, []):
                pass


async def test_no_more_than_the_limit_is_buffered_until_it_is_read(sim):
    written = 0
    pouring: list[asyncio.Task[None]] = []

    def answer(request: bytes, transport: asyncio.Transport) -> None:
        transport.write(HEAD)

        async def pour() -> None:
            nonlocal written
            for _ in range(1000):
                if transport.get_write_buffer_size() == 0:
                    transport.write(a_chunk(b"x" * 10_000))
                    written += 10_000
                await tasks.sleep(timedelta(milliseconds=10))
            transport.write(b"0\r\n\r\n")

        pouring.append(tasks.spawn(pour(), name="pour"))

    async with (
        a_scripted_server(sim, answer),
        a_client(sim, limits=ClientLimits(unread_bytes=100_000)) as client,
        client.stream(PATH, []) as stream,
    ):
        await tasks.sleep(seconds(9))
        held = written
        assert held < 1_000_000
        assert sum([len(piece) async for piece in stream]) == written
        assert written > held
