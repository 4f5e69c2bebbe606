"""Watches as a client reads them: events, the end of a stream, and streams that break."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mainstay.api.kind_names import CONFIG_MAPS, NODES, PODS
from mainstay.client.errors import ApiError, Expired, Forbidden, Unavailable
from mainstay.client.limits import ClientLimits
from mainstay.client.watch import Watch, WatchEvent
from mainstay.env import tasks
from mainstay.sim.simulation import Simulation
from mainstay.store import open_memory
from tests.client.world import GATE_PORT, Answering, a_client, a_gate, a_scripted_server, a_world, an_answer, seconds
from tests.server.world import a_configmap

GATE = f"gate:{GATE_PORT}"
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"


def a_chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def a_line(number: int, kind: str = "ADDED") -> bytes:
    return b'{"type":"%b","object":{"n":%d}}\n' % (kind.encode(), number)


def short(event: WatchEvent) -> tuple[str, str]:
    return event.type, msgspec.json.decode(event.object)["metadata"]["name"]


async def test_what_happens_is_told_in_order_as_json(sim):
    async with a_world(sim) as world:
        client = world.client
        start = (await client.list(CONFIG_MAPS, "default")).revision
        async with client.watch(CONFIG_MAPS, "default", resource_version=start, bookmarks=False) as watch:
            made = await client.create(CONFIG_MAPS, a_configmap("one"), "default")
            await client.patch(CONFIG_MAPS, "one", "default", {"data": {"k": "v"}})
            await client.delete(CONFIG_MAPS, "one", "default")

            first = await anext(watch)
            assert (first.type, json.loads(first.object)) == ("ADDED", made)
            assert [short(await anext(watch)) for _ in range(2)] == [("MODIFIED", "one"), ("DELETED", "one")]


async def test_a_watch_may_begin_with_what_is_there_and_say_when_that_is_all(sim):
    async with a_world(sim) as world:
        await world.client.create(CONFIG_MAPS, a_configmap("a", {"app": "x"}), "default")
        await world.client.create(CONFIG_MAPS, a_configmap("b", {"app": "y"}), "default")
        async with world.client.watch(
            CONFIG_MAPS, labels="app=x", fields="metadata.name=a", initial_events=True
        ) as watch:
            assert short(await anext(watch)) == ("ADDED", "a")
            bookmark = await anext(watch)

        assert bookmark.type == "BOOKMARK"
        annotations = json.loads(bookmark.object)["metadata"]["annotations"]
        assert annotations["k8s.io/initial-events-end"] == "true"


async def test_a_watch_ends_when_the_server_says_so(sim):
    async with a_world(sim) as world:
        async with world.client.watch(PODS, timeout_s=5, bookmarks=False) as watch:
            assert [event async for event in watch] == []
            assert await watch.fetch() == []
        assert sim.clock.monotonic_ns() // 1_000_000_000 == 5


async def test_a_watch_has_a_connection_of_its_own(sim):
    async with a_world(sim, limits=ClientLimits(connections=1)) as world:
        async with world.client.watch(PODS, bookmarks=False), world.client.watch(PODS, bookmarks=False):
            assert (await world.client.list(PODS)).items == []
            assert world.client.servers()[0].connections == 3
        await tasks.sleep(seconds(1))
        assert world.client.servers()[0].connections == 1


async def test_a_version_that_is_gone_has_expired(sim):
    store = await open_memory()
    async with a_world(sim, store=store) as world:
        old = (await world.client.create(CONFIG_MAPS, a_configmap("a"), "default"))["metadata"]["resourceVersion"]
    for number in range(3):
        async with a_world(sim, store=store) as world:
            await world.client.create(CONFIG_MAPS, a_configmap(f"b{number}"), "default")
    await store.compact(await store.revision())
    async with a_world(sim, store=store) as world:
        with pytest.raises(Expired):
            async with world.client.watch(CONFIG_MAPS, resource_version=old) as watch:
                await anext(watch)


async def test_a_watch_that_is_not_given_is_an_error(sim):
    async with a_world(sim, token="usertoken") as world:
        with pytest.raises(Forbidden):
            async with world.client.watch(NODES):
                raise AssertionError("it was given")


@pytest.mark.parametrize("how", ["close", "break"])
async def test_a_watch_that_breaks_says_so_after_all_that_had_come(sim, how):
    async with (
        a_world(sim) as world,
        a_gate(sim) as gate,
        a_client(sim, GATE) as client,
        client.watch(CONFIG_MAPS, "default", bookmarks=False) as watch,
    ):
        await world.client.create(CONFIG_MAPS, a_configmap("one"), "default")
        await tasks.sleep(seconds(1))
        gate.close_all() if how == "close" else gate.break_all()
        await tasks.sleep(seconds(1))

        assert short(await anext(watch)) == ("ADDED", "one")
        for _ in range(2):
            with pytest.raises(Unavailable) as broken:
                await anext(watch)
            assert not broken.value.may_have_happened


async def test_opening_a_watch_is_tried_again(sim):
    async with a_world(sim), a_gate(sim) as gate, a_client(sim, GATE) as client:
        gate.answers_to_lose = 2
        async with client.watch(CONFIG_MAPS, timeout_s=1, bookmarks=False) as watch:
            assert await watch.fetch() == []


async def test_leaving_a_watch_ends_it_at_the_server(sim):
    async with a_world(sim), a_gate(sim) as gate, a_client(sim, GATE) as client:
        async with client.watch(CONFIG_MAPS):
            await tasks.sleep(seconds(1))
            assert len(gate.open) == 1
        await tasks.sleep(seconds(1))
        assert len(gate.open) == 0


async def test_a_closed_client_ends_its_watches(sim):
    async with a_world(sim) as world, world.client.watch(CONFIG_MAPS, bookmarks=False) as watch:
        waiting = asyncio.gather(watch.fetch(), return_exceptions=True)
        await tasks.sleep(seconds(1))
        await world.client.close()

        assert [type(each) for each in await waiting] == [Unavailable]


# Over a server that does as it is told.


def answering(send: Callable[[asyncio.Transport], Coroutine[Any, Any, None]]) -> Answering:
    def answer(_: bytes, transport: asyncio.Transport) -> None:
        running.append(tasks.spawn(send(transport), name="answer"))

    running: list[asyncio.Task[None]] = []
    return answer


def sending(*pieces: bytes, closes: bool = False) -> Answering:
    async def send(transport: asyncio.Transport) -> None:
        for piece in pieces:
            transport.write(piece)
            await tasks.sleep(seconds(0.001))
        if closes:
            transport.close()

    return answering(send)


@asynccontextmanager
async def a_watch(sim: Simulation, answer: Answering, limits: ClientLimits | None = None) -> AsyncIterator[Watch]:
    async with a_scripted_server(sim, answer), a_client(sim, limits=limits) as client, client.watch(PODS) as watch:
        yield watch


async def events_of(watch: Watch) -> list[Any]:
    """All that comes, and the error at the end if there is one."""
    seen: list[Any] = []
    try:
        async for event in watch:
            seen.append(json.loads(event.object)["n"])
    except ApiError as error:
        seen.append(type(error))
    return seen


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(cuts=st.lists(st.integers(1, 60), max_size=12), chunk=st.integers(1, 80))
async def test_events_are_the_same_in_whatever_pieces_they_come(sim, cuts, chunk):
    lines = b"".join(a_line(number) for number in range(8))
    whole = CHUNKED + b"".join(a_chunk(lines[at : at + chunk]) for at in range(0, len(lines), chunk)) + LAST
    pieces, at = [], 0
    for cut in cuts:
        pieces.append(whole[at : at + cut])
        at += cut
    async with a_watch(sim, sending(*filter(None, pieces), whole[at:])) as watch:
        assert await events_of(watch) == list(range(8))


async def test_all_that_has_come_can_be_fetched_at_once(sim):
    lines = b"".join(a_line(number) for number in range(5))
    error = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n'
    async with a_watch(sim, sending(CHUNKED + a_chunk(lines + error))) as watch:
        assert len(await watch.fetch(3)) == 3
        assert len(await watch.fetch()) == 2
        with pytest.raises(Expired):
            await watch.fetch()


async def test_an_answer_without_chunks_ends_with_the_connection(sim):
    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
    async with a_watch(sim, sending(head, a_line(1), closes=True)) as watch:
        assert await events_of(watch) == [1]


@pytest.mark.parametrize(
    "wrong",
    [
        b"nonsense\n",
        b'{"type":"NEW","object":{}}\n',
        b'{"object":{}}\n',
        b'{"type":"ADDED"}\n',
        b'{"type":"ERROR","object":{"kind":"Status","code":500}}\n',
    ],
)
async def test_what_is_no_event_is_told_in_its_turn(sim, wrong):
    pieces = CHUNKED + a_chunk(a_line(1)) + a_chunk(wrong) + LAST
    async with a_watch(sim, sending(pieces)) as watch:
        assert await events_of(watch) == [1, Unavailable]


@pytest.mark.parametrize("end", [a_chunk(b'{"type":"ADD') + LAST, a_chunk(a_line(2))[:-9], b"zz\r\n", b""])
async def test_a_stream_that_ends_within_an_event_or_a_chunk_is_broken(sim, end):
    pieces = CHUNKED + a_chunk(a_line(1)) + end
    async with a_watch(sim, sending(pieces, closes=True)) as watch:
        assert await events_of(watch) == [1, Unavailable]


async def test_an_event_without_end_is_given_up(sim):
    pieces = [CHUNKED, a_chunk(a_line(1)), *[a_chunk(b"x" * 1000)] * 20]
    async with a_watch(sim, sending(*pieces), ClientLimits(event_bytes=10_000)) as watch:
        assert await events_of(watch) == [1, Unavailable]


async def test_a_slow_reader_makes_the_server_wait(sim):
    sent = 0

    async def send(transport: asyncio.Transport) -> None:
        nonlocal sent
        transport.write(CHUNKED)
        while sent < 3000:
            while transport.get_write_buffer_size() > 0:
                await tasks.sleep(seconds(0.01))
            line = b'{"type":"ADDED","object":{"n":%d,"x":"%b"}}\n' % (sent, b"x" * 1000)
            transport.write(a_chunk(line))
            sent += 1
        transport.write(LAST)

    limits = ClientLimits(unread_bytes=100_000)
    async with a_watch(sim, answering(send), limits) as watch:
        await tasks.sleep(seconds(60))
        assert sent < 2000  # What fits into the window of the connection, and what may be unread.
        assert await events_of(watch) == list(range(3000))


async def test_two_readers_of_one_watch_are_a_bug(sim):
    async with a_watch(sim, sending(CHUNKED)) as watch:
        first = asyncio.gather(watch.fetch(), return_exceptions=True)
        await tasks.sleep(seconds(1))
        with pytest.raises(RuntimeError, match="two tasks"):
            await watch.fetch()

    assert list(await first) == [[]]  # A waiter learns that a watch is over when it is left.


async def test_silence_is_no_error(sim):
    async with a_watch(sim, sending(CHUNKED), ClientLimits(answer_within=seconds(1))) as watch:
        with pytest.raises(TimeoutError):
            async with tasks.timeout(seconds(3600)):
                await watch.fetch()


async def test_a_wait_that_was_given_up_loses_nothing(sim):
    late = [CHUNKED, b"", a_chunk(a_line(1))]

    async def send(transport: asyncio.Transport) -> None:
        for piece in late:
            transport.write(piece)
            await tasks.sleep(seconds(1))

    async with a_watch(sim, answering(send)) as watch:
        with pytest.raises(TimeoutError):
            async with tasks.timeout(seconds(1)):
                await anext(watch)
        assert (await anext(watch)).object == b'{"n":1}'


async def test_an_error_instead_of_a_stream_is_that_error(sim):
    body = b'{"kind":"Status","code":410,"reason":"Expired","message":"too old"}'
    async with a_scripted_server(sim, sending(an_answer("410 Gone", body))), a_client(sim) as client:
        with pytest.raises(Expired, match="too old"):
            async with client.watch(PODS):
                raise AssertionError("it was given")
