"""aiohttp and httpx, as they come, on the simulated network."""

import asyncio
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import aiohttp
import httpx
import pytest
from aiohttp import web

from mainstay.sim.net.network import Network
from mainstay.sim.simulation import Simulation

pytestmark = pytest.mark.slow

URL = "http://server:8080"
CHUNK = bytes(range(256)) * 256
BODY = CHUNK * 80  # 5 MB
AHEAD_MAX = 20 * len(CHUNK)  # A window, and what the libraries buffer on both sides.

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def now_s() -> float:
    return asyncio.get_running_loop().time()


@asynccontextmanager
async def serving(network: Network, handler: Handler, *, keepalive_s: float = 75) -> AsyncIterator[None]:
    """An aiohttp server on the host `server`."""
    app = web.Application(client_max_size=100_000_000)
    app.router.add_route("*", "/{path:.*}", handler)
    with network.host("server").active():
        runner = web.AppRunner(app, keepalive_timeout=keepalive_s)
        await runner.setup()
        await web.TCPSite(runner, "0.0.0.0", 8080).start()
    try:
        yield
    finally:
        await runner.cleanup()


@pytest.fixture(autouse=True)
def _on_a_host_of_its_own(sim):
    """The tests, and so their clients, run on the host `client`."""
    with sim.network.host("client").active():
        yield


async def who_asks(request: web.Request) -> web.Response:
    assert request.transport is not None
    return web.json_response({"peer": request.transport.get_extra_info("peername"), "path": request.path})


# Requests and connections.


async def test_an_aiohttp_client_keeps_its_connection(sim):
    async with serving(sim.network, who_asks), aiohttp.ClientSession(URL) as session:
        answers = []
        for number in range(3):
            async with session.get(f"/{number}") as response:
                assert response.status == 200
                answers.append(await response.json())
    client = sim.network.host("client")
    assert [answer["path"] for answer in answers] == ["/0", "/1", "/2"]
    assert {tuple(answer["peer"]) for answer in answers} == {(client.address, answers[0]["peer"][1])}


async def test_an_httpx_client_keeps_its_connection(sim):
    async with serving(sim.network, who_asks), httpx.AsyncClient(base_url=URL) as client:
        answers = [(await client.get(f"/{number}")).json() for number in range(3)]
    assert [answer["path"] for answer in answers] == ["/0", "/1", "/2"]
    assert len({tuple(answer["peer"]) for answer in answers}) == 1


async def test_both_clients_reconnect_after_the_server_has_closed_an_idle_connection(sim):
    async with (
        serving(sim.network, who_asks, keepalive_s=10),
        aiohttp.ClientSession(URL) as session,
        httpx.AsyncClient(base_url=URL, limits=httpx.Limits(keepalive_expiry=None)) as client,
    ):
        peers = []
        for _ in range(2):
            async with session.get("/") as response:
                peers.append(tuple((await response.json())["peer"]))
            peers.append(tuple((await client.get("/")).json()["peer"]))
            await asyncio.sleep(60)
    assert len(set(peers)) == 4


async def test_many_requests_at_once_are_all_answered(sim):
    async with serving(sim.network, who_asks), aiohttp.ClientSession(URL) as session:

        async def ask(number: int) -> str:
            async with session.get(f"/{number}") as response:
                return str((await response.json())["path"])

        answers = await asyncio.gather(*(ask(number) for number in range(200)))
    assert answers == [f"/{number}" for number in range(200)]


async def test_a_websocket_carries_messages_both_ways(sim):
    async def shout(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            await socket.send_str(message.data.upper())
        return socket

    async with serving(sim.network, shout), aiohttp.ClientSession(URL) as session, session.ws_connect("/") as socket:
        for _ in range(3):
            await socket.send_str("hello")
            assert await socket.receive_str() == "HELLO"
            await asyncio.sleep(3600)


# Large bodies.


async def echo(request: web.Request) -> web.Response:
    return web.Response(body=await request.read())


async def test_five_megabytes_go_there_and_back(sim):
    async with (
        serving(sim.network, echo),
        aiohttp.ClientSession(URL) as session,
        httpx.AsyncClient(base_url=URL) as client,
    ):
        async with session.post("/", data=io.BytesIO(BODY)) as response:
            assert await response.read() == BODY
        assert (await client.post("/", content=BODY)).content == BODY


@pytest.mark.parametrize("library", ["aiohttp", "httpx"])
async def test_an_upload_waits_for_a_server_that_reads_slowly(sim, library):
    produced = consumed = most_ahead = 0

    async def produce() -> AsyncIterator[bytes]:
        nonlocal produced, most_ahead
        for _ in range(80):
            produced += len(CHUNK)
            most_ahead = max(most_ahead, produced - consumed)
            yield CHUNK

    async def consume(request: web.Request) -> web.Response:
        nonlocal consumed
        async for chunk in request.content.iter_chunked(len(CHUNK)):
            consumed += len(chunk)
            await asyncio.sleep(1)
        return web.Response()

    async with serving(sim.network, consume):
        if library == "aiohttp":
            async with aiohttp.ClientSession(URL) as session, session.post("/", data=produce()) as response:
                assert response.status == 200
        else:
            async with httpx.AsyncClient(base_url=URL, timeout=None) as client:
                assert (await client.post("/", content=produce())).status_code == 200
    assert consumed == produced == len(BODY)
    assert most_ahead < AHEAD_MAX
    assert now_s() >= 80


async def test_a_streamed_response_waits_for_a_client_that_reads_slowly(sim):
    produced = consumed = most_ahead = 0

    async def produce(request: web.Request) -> web.StreamResponse:
        nonlocal produced, most_ahead
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        for _ in range(80):
            produced += len(CHUNK)
            most_ahead = max(most_ahead, produced - consumed)
            await response.write(CHUNK)
        return response

    async with serving(sim.network, produce), aiohttp.ClientSession(URL) as session, session.get("/") as response:
        async for chunk in response.content.iter_chunked(len(CHUNK)):
            consumed += len(chunk)
            await asyncio.sleep(1)
    assert consumed == produced == len(BODY)
    assert most_ahead < AHEAD_MAX


async def test_a_watch_delivers_each_line_as_it_is_written(sim):
    async def watch(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for number in range(5):
            await response.write(json.dumps({"revision": number}).encode() + b"\n")
            await asyncio.sleep(10)
        return response

    seen = []
    async with serving(sim.network, watch), aiohttp.ClientSession(URL) as session, session.get("/") as response:
        async for line in response.content:
            seen.append((json.loads(line)["revision"], round(now_s())))
    assert seen == [(0, 0), (1, 10), (2, 20), (3, 30), (4, 40)]


# Failures.


async def never(request: web.Request) -> web.Response:
    await asyncio.sleep(10_000_000)
    return web.Response()


async def test_time_limits_run_in_virtual_time(sim):
    timeout = aiohttp.ClientTimeout(total=30)
    async with (
        serving(sim.network, never),
        aiohttp.ClientSession(URL, timeout=timeout) as session,
        httpx.AsyncClient(base_url=URL, timeout=30) as client,
    ):
        began = now_s()
        with pytest.raises(asyncio.TimeoutError):
            await session.get("/")
        assert now_s() - began == pytest.approx(30, abs=1)  # aiohttp rounds long limits up to a whole second.

        began = now_s()
        with pytest.raises(httpx.ReadTimeout):
            await client.get("/")
        assert now_s() - began == pytest.approx(30, abs=0.1)

        began = now_s()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await session.get("/", timeout=aiohttp.ClientTimeout(total=None))
        assert now_s() - began == 30


def test_waiting_takes_no_real_time():
    async def main(network: Network) -> None:
        async with serving(network, never), aiohttp.ClientSession("http://localhost:8080") as session:
            with pytest.raises(asyncio.TimeoutError):
                await session.get(URL, timeout=aiohttp.ClientTimeout(total=24 * 3600))

    began = time.monotonic()
    with Simulation() as simulation:
        simulation.run(main(simulation.network))
    assert time.monotonic() - began < 10


async def test_a_reset_in_the_middle_of_a_response_is_the_librarys_usual_error(sim):
    async def halfway(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b"half of it")
        await asyncio.sleep(1)
        sim.network.reset("client", "server")
        await asyncio.sleep(1)
        return response

    async with (
        serving(sim.network, halfway),
        aiohttp.ClientSession(URL) as session,
        httpx.AsyncClient(base_url=URL) as client,
    ):
        async with session.get("/") as response:
            with pytest.raises(aiohttp.ClientPayloadError, match="ConnectionResetError"):
                await response.read()
        with pytest.raises(httpx.ReadError):
            await client.get("/")


async def test_a_reset_before_the_response_is_the_librarys_usual_error(sim):
    async def broken(request: web.Request) -> web.Response:
        sim.network.reset("client", "server")
        await asyncio.sleep(1)
        return web.Response()

    async with serving(sim.network, broken), aiohttp.ClientSession(URL) as session:
        with pytest.raises(aiohttp.ClientOSError):
            await session.post("/")


async def test_a_server_that_is_not_there_is_the_librarys_usual_error(sim):
    sim.network.host("server")
    async with aiohttp.ClientSession() as session, httpx.AsyncClient() as client:
        with pytest.raises(aiohttp.ClientConnectorError) as refused:
            await session.get(URL)
        assert isinstance(refused.value.os_error, ConnectionRefusedError)
        with pytest.raises(aiohttp.ClientConnectorDNSError):
            await session.get("http://nowhere:8080")
        with pytest.raises(httpx.ConnectError):
            await client.get(URL)
        with pytest.raises(httpx.ConnectError):
            await client.get("http://nowhere:8080")
        sim.network.vanish("server")
        with pytest.raises(httpx.ConnectTimeout):
            await client.get(URL)


# Sameness.


def digest_of_an_aiohttp_program(seed: int) -> str:
    """Several clients, delays that are drawn, and a cut."""

    async def main(network: Network) -> None:
        network.set_latency("client", "server", timedelta(milliseconds=1), jitter=timedelta(milliseconds=9))
        network.set_latency("other", "server", timedelta(milliseconds=1), jitter=timedelta(milliseconds=9))

        async def ask(numbers: range) -> None:
            async with aiohttp.ClientSession(URL) as session:
                for number in numbers:
                    async with session.post(f"/{number}", json={"number": number}) as response:
                        await response.json()

        async def ask_with_httpx(numbers: range) -> None:
            async with httpx.AsyncClient(base_url=URL) as client:
                for number in numbers:
                    await client.get(f"/{number}", headers={"X-Number": str(number)})

        async def all_of_them() -> None:
            await asyncio.gather(ask(range(10)), ask(range(10, 20)), ask_with_httpx(range(5)))

        async with serving(network, who_asks):
            tasks = [network.host(name).spawn(all_of_them()) for name in ("client", "other")]
            await asyncio.sleep(0.03)
            network.cut("client", "server")
            await asyncio.sleep(1)
            network.heal_all()
            await asyncio.gather(*tasks)

    with Simulation(seed) as simulation:
        simulation.run(main(simulation.network))
        return simulation.digest


def digest_of_a_session_closed_with_requests_in_flight(seed: int) -> str:
    """aiohttp closes its connections in the order of a set."""

    async def main(network: Network) -> None:
        async def ask(session: aiohttp.ClientSession) -> None:
            with pytest.raises(aiohttp.ClientError):
                await session.get("/")

        async with serving(network, never):
            session = aiohttp.ClientSession(URL, connector=aiohttp.TCPConnector(limit=200))
            asking = [asyncio.create_task(ask(session)) for _ in range(100)]
            await asyncio.sleep(60)
            await session.close()
            await asyncio.gather(*asking)

    with Simulation(seed) as simulation:
        simulation.run(main(simulation.network))
        return simulation.digest


def digest_in_another_process(program: Callable[[int], str], seed: int, hash_seed: str) -> str:
    source = f"from {__name__} import *; print({program.__name__}({seed}))"
    root = Path(__file__).parents[2]
    environment = os.environ | {
        "PYTHONHASHSEED": hash_seed,
        "PYTHONPATH": os.pathsep.join([str(root), str(Path(__file__).parent)]),
    }
    command = [sys.executable, "-c", source]
    return subprocess.run(command, cwd=root, env=environment, check=True, capture_output=True, text=True).stdout.strip()


def test_equal_seeds_give_equal_digests_in_any_process():
    here = digest_of_an_aiohttp_program(1)
    assert digest_of_an_aiohttp_program(1) == here
    assert digest_of_an_aiohttp_program(2) != here
    assert digest_in_another_process(digest_of_an_aiohttp_program, 1, hash_seed="0") == here
    assert digest_in_another_process(digest_of_an_aiohttp_program, 1, hash_seed="4711") == here


def test_closing_a_session_with_many_requests_in_flight_is_the_same_in_any_process():
    program = digest_of_a_session_closed_with_requests_in_flight
    here = program(1)
    clutter = [asyncio.Protocol() for _ in range(1000)]  # So that what comes has other addresses.
    assert program(1) == here
    del clutter[::3]
    assert program(1) == here
    assert digest_in_another_process(program, 1, hash_seed="0") == here
    assert digest_in_another_process(program, 1, hash_seed="4711") == here
