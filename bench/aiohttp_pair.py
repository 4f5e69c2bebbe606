"""What a request over the simulated network costs: aiohttp's client and server, both inside one run.

One session asks one server for a small JSON body, again and again over one connection, as a controller does. All of
the simulator is on: tape, trace and the patches of foreign code. Most of the cost is aiohttp's own; the second figure,
asyncio's streams with messages of the same size, shows what the loop and the network need without it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import aiohttp
from aiohttp import web

from bench.measure import Figure, Stopwatch, main, rounds
from mainstay.sim.net.network import Network
from mainstay.sim.simulation import Simulation

SEED = 1
PORT = 8080
BODY = {"kind": "Lease", "metadata": {"name": "node-17", "resourceVersion": "918812"}, "spec": {"holder": "node-17"}}
REQUEST = bytes(130)
RESPONSE = bytes(270)

Ask = Callable[[], Awaitable[object]]
Pair = Callable[[Network], AbstractAsyncContextManager[Ask]]


def measure(quick: bool) -> Iterable[Figure]:
    requests, times = (300, 3) if quick else (3000, 7)
    for name, pair, count, goal in (
        ("sim: aiohttp request and response", aiohttp_pair, requests, "≤ 700"),
        ("sim: streams request and response", streams_pair, 10 * requests, ""),
    ):
        cpu_us = rounds(lambda pair=pair, count=count: cpu_us_per_request(pair, count), times).median  # type: ignore[misc]
        yield Figure(name, cpu_us, "CPU µs", cpu_us, goal)


def cpu_us_per_request(pair: Pair, requests: int) -> float:
    async def ask_again_and_again(ask: Ask) -> None:
        for _ in range(requests):
            await ask()

    watch = Stopwatch()
    with Simulation(SEED) as simulation:
        connection = pair(simulation.network)
        ask = simulation.run(connection.__aenter__())
        # Around the run and not inside it, where clocks show virtual time.
        with watch:
            simulation.run(ask_again_and_again(ask))
        simulation.run(connection.__aexit__(None, None, None))
    return watch.cpu_s / requests * 1e6


@asynccontextmanager
async def aiohttp_pair(network: Network) -> AsyncIterator[Ask]:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response(BODY)

    app = web.Application()
    app.router.add_get("/lease", answer)
    runner = web.AppRunner(app, access_log=None)
    with network.host("server").active():
        await runner.setup()
        await web.TCPSite(runner, "0.0.0.0", PORT).start()
    async with aiohttp.ClientSession(f"http://server:{PORT}") as session:

        async def ask() -> None:
            async with session.get("/lease") as response:
                await response.json()

        await ask()
        yield ask
    await runner.cleanup()


@asynccontextmanager
async def streams_pair(network: Network) -> AsyncIterator[Ask]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(len(REQUEST)):
            writer.write(RESPONSE)
        writer.close()

    with network.host("server").active():
        server = await asyncio.start_server(answer, "0.0.0.0", PORT)
    reader, writer = await asyncio.open_connection("server", PORT)

    async def ask() -> None:
        writer.write(REQUEST)
        await reader.readexactly(len(RESPONSE))

    yield ask
    writer.close()
    server.close()
    await server.wait_closed()


if __name__ == "__main__":
    main(measure)
