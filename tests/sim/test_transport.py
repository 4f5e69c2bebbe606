"""The simulated transport against what asyncio promises. Where both are named, the production loop must agree."""

import asyncio
import contextvars
import errno
import random
import socket
from collections.abc import Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from mainstay.sim.errors import Unhandled
from mainstay.sim.net.wire import WINDOW_BYTES
from mainstay.sim.simulation import Simulation

MEGABYTE = b"0123456789abcdef" * 65536

on_both_loops = pytest.mark.parametrize(
    "loop",
    [
        pytest.param("simulated", marks=pytest.mark.sim),
        pytest.param("production", marks=pytest.mark.real_loop),
    ],
)


class Recorder(asyncio.Protocol):
    """Notes what it is told, and lets a test wait for it."""

    def __init__(self, *, keep_open: bool = False) -> None:
        self.calls: list[str] = []
        self.data = bytearray()
        self.pieces: list[bytes] = []
        self.error: Exception | None = None
        self.keep_open = keep_open
        self._changed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self._note("made")

    def data_received(self, data: bytes) -> None:
        self.data += data
        self.pieces.append(data)
        if self.calls[-1] != "data":
            self.calls.append("data")
        self._changed.set()

    def eof_received(self) -> bool:
        self._note("eof")
        return self.keep_open

    def connection_lost(self, exc: Exception | None) -> None:
        self.error = exc
        self._note("lost")

    def pause_writing(self) -> None:
        self._note("pause")

    def resume_writing(self) -> None:
        self._note("resume")

    def _note(self, call: str) -> None:
        self.calls.append(call)
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def got(self, size: int) -> bytes:
        await self.until(lambda: len(self.data) >= size)
        return bytes(self.data)

    async def was_told(self, call: str) -> None:
        await self.until(lambda: call in self.calls)


@asynccontextmanager
async def connected(client: Any = None, server: Any = None) -> Any:
    """A connection between two protocols, which are in place when the block begins."""
    loop = asyncio.get_running_loop()
    client, server = client or Recorder(), server or Recorder()
    listener = await loop.create_server(lambda: server, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    transport, _ = await loop.create_connection(lambda: client, "127.0.0.1", port)
    await server.was_told("made")
    try:
        yield client, server
    finally:
        listener.close()
        transport.abort()
        if server.transport is not None:
            server.transport.abort()


@on_both_loops
async def test_what_is_written_arrives_in_order(loop):
    async with connected() as (client, server):
        client.transport.write(b"one ")
        client.transport.writelines([b"two ", bytearray(b"three "), memoryview(b"four ")])
        client.transport.write(b"")
        assert await server.got(19) == b"one two three four "
        server.transport.write(b"answer")
        assert await client.got(6) == b"answer"


@on_both_loops
async def test_a_buffer_may_be_changed_once_it_is_written(loop):
    async with connected() as (client, server):
        buffer = bytearray(MEGABYTE)
        client.transport.write(buffer)
        buffer[:] = bytes(len(buffer))
        assert await server.got(len(MEGABYTE)) == MEGABYTE


@on_both_loops
async def test_text_cannot_be_written(loop):
    async with connected() as (client, _):
        with pytest.raises(TypeError):
            client.transport.write("text")


@on_both_loops
async def test_closing_sends_what_is_buffered_and_then_ends_both_sides(loop):
    async with connected() as (client, server):
        for _ in range(4):
            client.transport.write(MEGABYTE)
        client.transport.close()
        client.transport.close()
        assert client.transport.is_closing()
        assert await server.got(4 * len(MEGABYTE)) == 4 * MEGABYTE
        await client.was_told("lost")
        await server.was_told("lost")
        assert server.calls == ["made", "data", "eof", "lost"]
        assert client.calls.count("lost") == 1
        assert client.error is None
        assert server.error is None


@on_both_loops
async def test_aborting_does_not_wait_for_what_is_buffered(loop):
    async with connected() as (client, server):
        server.transport.pause_reading()
        for _ in range(16):
            client.transport.write(MEGABYTE)
        client.transport.abort()
        await client.was_told("lost")
        assert client.error is None
        assert client.transport.get_write_buffer_size() == 0


@on_both_loops
async def test_writes_after_closing_are_ignored(loop):
    async with connected() as (client, server):
        client.transport.write(b"before")
        client.transport.close()
        client.transport.write(b"after")
        await server.was_told("lost")
        assert server.data == b"before"
        assert client.calls.count("lost") == 1


@on_both_loops
async def test_half_a_connection_can_be_closed(loop):
    async with connected(server=Recorder(keep_open=True)) as (client, server):
        assert client.transport.can_write_eof()
        client.transport.write(b"question")
        client.transport.write_eof()
        await server.was_told("eof")
        server.transport.write(b"answer")
        assert await client.got(6) == b"answer"
        assert "lost" not in server.calls
        server.transport.close()
        await client.was_told("lost")
        assert client.calls == ["made", "data", "eof", "lost"]
        assert client.error is None


@on_both_loops
async def test_a_stream_ends_after_all_that_was_buffered(loop):
    async with connected() as (client, server):
        client.transport.write(4 * MEGABYTE)
        client.transport.write_eof()
        await server.was_told("eof")
        assert len(server.data) == 4 * len(MEGABYTE)


@on_both_loops
async def test_nothing_can_be_written_after_the_end_of_the_stream(loop):
    async with connected(server=Recorder(keep_open=True)) as (client, _):
        client.transport.write_eof()
        client.transport.write_eof()
        with pytest.raises(RuntimeError):
            client.transport.write(b"more")


@on_both_loops
async def test_an_end_of_stream_closes_a_protocol_that_does_not_keep_it_open(loop):
    async with connected() as (client, server):
        client.transport.write_eof()
        await server.was_told("lost")
        assert server.calls == ["made", "eof", "lost"]


@on_both_loops
async def test_a_protocol_that_pauses_reading_gets_the_rest_when_it_resumes(loop):
    async with connected() as (client, server):
        server.transport.pause_reading()
        server.transport.pause_reading()
        assert not server.transport.is_reading()
        client.transport.write(b"held back")
        client.transport.write_eof()
        server.transport.write(b"!")
        await client.got(1)
        assert server.calls == ["made"]
        server.transport.resume_reading()
        server.transport.resume_reading()
        assert server.transport.is_reading()
        assert await server.got(9) == b"held back"
        await server.was_told("lost")
        assert server.calls == ["made", "data", "eof", "lost"]


@on_both_loops
async def test_a_reader_that_stops_stops_the_writer_and_lets_it_go_on(loop):
    async with connected() as (client, server):
        server.transport.pause_reading()
        written = 0
        while "pause" not in client.calls:
            client.transport.write(MEGABYTE)
            written += len(MEGABYTE)
            assert written < 100 * len(MEGABYTE)
        low, high = client.transport.get_write_buffer_limits()
        assert client.transport.get_write_buffer_size() > high
        server.transport.resume_reading()
        await client.was_told("resume")
        assert client.transport.get_write_buffer_size() <= low
        assert len(await server.got(written)) == written
        assert client.calls == ["made", "pause", "resume"]


@on_both_loops
async def test_the_limits_of_the_write_buffer_can_be_set(loop):
    async with connected() as (client, _):
        client.transport.set_write_buffer_limits()
        assert client.transport.get_write_buffer_limits() == (16 * 1024, 64 * 1024)
        client.transport.set_write_buffer_limits(low=1000)
        assert client.transport.get_write_buffer_limits() == (1000, 4000)
        client.transport.set_write_buffer_limits(high=100)
        assert client.transport.get_write_buffer_limits() == (25, 100)
        with pytest.raises(ValueError, match="high"):
            client.transport.set_write_buffer_limits(high=1, low=2)


class Filled(asyncio.BufferedProtocol):
    """Takes data through a buffer of its own, a few bytes at a time."""

    def __init__(self) -> None:
        self.buffer = bytearray(10)
        self.data = bytearray()
        self.is_lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    async def was_told(self, call: str) -> None:
        assert call == "made"

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data += self.buffer[:nbytes]

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost.set_result(None)


@on_both_loops
async def test_a_buffered_protocol_gets_data_in_its_own_buffer(loop):
    async with connected(server=Filled()) as (client, server):
        client.transport.write(b"more than ten bytes of data")
        client.transport.close()
        await server.is_lost
        assert server.data == b"more than ten bytes of data"


@on_both_loops
async def test_a_protocol_can_be_replaced(loop):
    async with connected() as (client, server):
        successor = Recorder()
        successor.calls.append("made")
        server.transport.set_protocol(successor)
        assert server.transport.get_protocol() is successor
        client.transport.write(b"to whom it concerns")
        await successor.got(19)
        assert server.data == b""


@on_both_loops
async def test_both_ends_know_their_addresses(loop):
    async with connected() as (client, server):
        assert client.transport.get_extra_info("peername") == server.transport.get_extra_info("sockname")
        assert client.transport.get_extra_info("sockname") == server.transport.get_extra_info("peername")
        assert client.transport.get_extra_info("peername")[0] == "127.0.0.1"
        assert client.transport.get_extra_info("socket").family == socket.AF_INET
        assert client.transport.get_extra_info("nonsense", "default") == "default"


@on_both_loops
async def test_a_failing_protocol_loses_its_connection_and_the_loop_is_told(loop):
    class Failing(Recorder):
        def data_received(self, data: bytes) -> None:
            raise ValueError("bad data")

    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    async with connected(server=Failing()) as (client, server):
        client.transport.write(b"data")
        await server.was_told("lost")
        await client.was_told("lost")
        assert isinstance(server.error, ValueError)
        assert [type(context["exception"]) for context in told] == [ValueError]


@on_both_loops
async def test_a_protocol_is_called_in_the_context_its_connection_was_made_in(loop):
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="none")
    seen: list[str] = []

    class Looking(Recorder):
        def data_received(self, data: bytes) -> None:
            seen.append(who.get())
            super().data_received(data)

    who.set("creator")
    async with connected(server=Looking()) as (client, server):
        who.set("writer")
        client.transport.write(b"data")
        await server.got(4)
        assert seen == ["creator"]


@on_both_loops
async def test_a_client_protocol_is_called_in_the_context_its_transport_was_made_in(loop):
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="none")
    seen: list[str] = []

    class Looking(Recorder):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            seen.append(who.get())
            super().connection_made(transport)

    async def connect(address: Any) -> socket.socket:
        who.set("connector")
        sock = socket.socket()
        sock.setblocking(False)
        await running.sock_connect(sock, address)
        return sock

    running = asyncio.get_running_loop()
    who.set("creator")
    async with await running.create_server(Recorder, "127.0.0.1", 0) as server:
        sock = await asyncio.create_task(connect(server.sockets[0].getsockname()))
        transport, _ = await running.create_connection(Looking, sock=sock)
        transport.abort()
    assert seen == ["creator"]


@on_both_loops
async def test_data_for_a_closed_connection_is_answered_by_a_reset(loop):
    async with connected(client=Recorder(keep_open=True)) as (client, server):
        server.transport.close()
        await client.was_told("eof")
        for _ in range(100):  # The first one is on its way before either end knows.
            client.transport.write(b"hello?")
            await asyncio.sleep(0.001)
            if client.transport.is_closing():
                break
        await client.was_told("lost")
        assert isinstance(client.error, ConnectionError)


@on_both_loops
async def test_a_connection_closed_with_data_unread_is_reset(loop):
    async with connected() as (client, server):
        server.transport.pause_reading()
        client.transport.write(4 * MEGABYTE)
        await client.was_told("pause")
        server.transport.abort()
        await client.was_told("lost")
        assert isinstance(client.error, ConnectionError)


@on_both_loops
async def test_a_little_data_unread_is_enough_for_a_reset(loop):
    async with connected() as (client, server):
        server.transport.pause_reading()
        client.transport.write(b"never read")
        await asyncio.sleep(0.001)
        server.transport.abort()
        await client.was_told("lost")
        assert isinstance(client.error, ConnectionResetError)


@on_both_loops
async def test_a_server_waits_for_its_connections_when_it_is_closed(loop):
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read())
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        assert server.is_serving()
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(3 * MEGABYTE)
        await writer.drain()
        writer.write_eof()
        assert await reader.read() == 3 * MEGABYTE
        writer.close()
        await writer.wait_closed()
    assert not server.is_serving()
    assert not server.sockets
    await server.wait_closed()


@on_both_loops
async def test_serving_forever_ends_by_cancellation(loop):
    server = await asyncio.get_running_loop().create_server(Recorder, "127.0.0.1", 0, start_serving=False)
    assert not server.is_serving()
    serving = asyncio.ensure_future(server.serve_forever())
    await asyncio.sleep(0)
    assert server.is_serving()
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert not server.is_serving()


@on_both_loops
async def test_a_taken_port_is_refused(loop):
    running = asyncio.get_running_loop()
    async with await running.create_server(Recorder, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        for address in ("127.0.0.1", "0.0.0.0"):
            with pytest.raises(OSError, match=f"Errno {errno.EADDRINUSE}"):
                await running.create_server(Recorder, address, port)
    # And free again.
    (await running.create_server(Recorder, "127.0.0.1", port)).close()


@on_both_loops
async def test_a_closed_server_does_not_listen(loop):
    running = asyncio.get_running_loop()
    server = await running.create_server(Recorder, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    with pytest.raises(ConnectionRefusedError):
        await running.create_connection(Recorder, "127.0.0.1", port)


# From here on, what only a simulation can promise.


async def test_writes_to_a_lost_connection_are_ignored_and_warned_of(caplog):
    async with connected() as (client, _):
        client.transport.abort()
        await client.was_told("lost")
        for _ in range(6):
            client.transport.write(b"long after")
        assert [record.message for record in caplog.records] == ["socket.send() raised exception."]


async def test_what_is_written_at_one_instant_arrives_in_one_piece():
    async with connected() as (client, server):
        for number in range(100):
            client.transport.write(b"%d," % number)
        await server.was_told("data")
        assert len(server.pieces) == 1


async def test_no_more_than_a_window_is_on_the_way_or_unread():
    async with connected() as (client, server):
        server.transport.pause_reading()
        client.transport.write(4 * MEGABYTE)
        await asyncio.sleep(60)
        assert client.transport.get_write_buffer_size() == 4 * len(MEGABYTE) - WINDOW_BYTES


async def test_a_small_message_is_not_copied_on_its_way():
    async with connected() as (client, server):
        message = b"a message of its own"
        client.transport.write(message)
        await server.was_told("data")
        assert server.pieces[0] is message


async def test_a_paused_reader_hears_of_a_reset_after_the_data_that_came_before(sim):
    async with connected() as (client, server):
        server.transport.pause_reading()
        client.transport.write(b"last words")
        await asyncio.sleep(1)
        sim.network.reset("localhost", "localhost")
        await client.was_told("lost")
        assert server.calls == ["made"]
        server.transport.resume_reading()
        await server.was_told("lost")
        assert server.calls == ["made", "data", "lost"]
        assert isinstance(server.error, ConnectionResetError)


async def test_a_writer_hears_of_a_reset_even_if_it_does_not_read(sim):
    async with connected() as (client, server):
        server.transport.pause_reading()
        sim.network.reset("localhost", "localhost")
        await client.was_told("lost")
        server.transport.write(b"too late")
        await server.was_told("lost")
        assert isinstance(server.error, ConnectionResetError)


@pytest.mark.parametrize("seed", range(40))
async def test_whatever_happens_to_a_link_nothing_is_lost_doubled_or_reordered(sim, seed):
    chance = random.Random(seed)
    network = sim.network
    jitter = timedelta(milliseconds=chance.choice([0, 5, 500]))
    network.set_latency("here", "there", timedelta(milliseconds=1), jitter=jitter)
    sent = {"client": bytearray(), "server": bytearray()}
    client, server = Recorder(keep_open=True), Recorder(keep_open=True)
    with network.host("there").active():
        await sim.loop.create_server(lambda: server, "0.0.0.0", 80)
    with network.host("here").active():
        await sim.loop.create_connection(lambda: client, "there", 80)
    await server.was_told("made")
    for step in range(60):
        for name, protocol in (("client", client), ("server", server)):
            if chance.random() < 0.5:
                data = b"%d," % step * chance.choice([1, 10, 1000, 100_000])
                sent[name] += data
                protocol.transport.write(data)
            if chance.random() < 0.3:
                chance.choice([protocol.transport.pause_reading, protocol.transport.resume_reading])()
        if chance.random() < 0.3:
            network.cut(*chance.sample(["here", "there"], 2), one_way=chance.random() < 0.5)
        if chance.random() < 0.4:
            network.heal_all()
        await asyncio.sleep(chance.choice([0, 0.001, 0.1, 3]))
        assert sent["client"].startswith(server.data)
        assert sent["server"].startswith(client.data)
    network.heal_all()
    for protocol in (client, server):
        protocol.transport.resume_reading()
        protocol.transport.write_eof()
    await asyncio.sleep(600)
    for protocol, peer in ((client, "server"), (server, "client")):
        assert protocol.data == sent[peer]
        assert protocol.calls.count("eof") == 1
        assert protocol.calls.count("pause") == protocol.calls.count("resume")
        assert protocol.transport.get_write_buffer_size() == 0


def test_an_unhandled_failure_ends_the_run():
    class Failing(Recorder):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            raise ValueError("bad start")

    async def main() -> None:
        async with connected(server=Failing()):
            await asyncio.sleep(1)

    with Simulation() as simulation, pytest.raises(Unhandled) as failure:
        simulation.run(main())
    assert isinstance(failure.value.__cause__, ValueError)
