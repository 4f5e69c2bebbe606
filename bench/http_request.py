"""What does a request cost the server, between the socket and the handler and back?

A real server on loopback, without TLS, and a client in a process of its own with 8 connections, each asking again as
soon as it is answered. The headers are those of kubectl. The answer is 2 KB that are ready; the second figure makes a
task for each request, and the third sends a body of 1 KB. CPU time is the server's alone.
"""

import asyncio
import statistics
import sys
from asyncio.subprocess import PIPE
from collections.abc import Iterable
from datetime import timedelta

from bench.measure import Figure, Stopwatch, main
from mainstay.env import SystemClock, network, tasks
from mainstay.http.messages import Handler, Request, Response
from mainstay.http.server import HttpServer

CONNECTIONS = 8
BODY = b'{"kind":"Pod","padding":"%b"}' % (b"x" * 2020)
HEADERS = (("Audit-Id", "a3c2b0a4-3e52-4b4f-8c37-1f1a2b3c4d5e"), ("Cache-Control", "no-cache, private"))
_HEAD = (
    b"%b /api/v1/namespaces/default/pods/web-1 HTTP/1.1\r\nHost: 127.0.0.1:6443\r\n"
    b"User-Agent: kubectl/v1.36.4 (linux/amd64) kubernetes/8dcc5e2\r\nAccept: application/json\r\n"
    b"Authorization: Bearer 0123456789abcdef0123456789abcdef\r\nAccept-Encoding: gzip\r\n%b\r\n"
)
GET = _HEAD % (b"GET", b"")
POST = _HEAD % (b"PUT", b"Content-Type: application/json\r\nContent-Length: 1024\r\n") + b"x" * 1024


def ready(request: Request) -> Response:
    return Response(200, BODY, headers=HEADERS)


async def in_a_task(request: Request) -> Response:
    return Response(200, BODY, headers=HEADERS)


def measure(quick: bool) -> Iterable[Figure]:
    requests, rounds = (3_000, 3) if quick else (40_000, 7)
    for name, request, handler, goal in (
        ("http: GET, 2 KB that are ready", GET, ready, "≤ 20"),
        ("http: GET, 2 KB, in a task", GET, in_a_task, ""),
        ("http: PUT, 1 KB there and 2 KB back", POST, ready, ""),
    ):
        watches = [tasks.run(_one_round(request, handler, requests)) for _ in range(rounds)]
        cpu_us = statistics.median(watch.cpu_s for watch in watches) / requests * 1e6
        yield Figure(name, cpu_us, "CPU µs", cpu_us, goal)
        rate = statistics.median(requests / watch.wall_s for watch in watches)
        yield Figure(f"{name}: rate, client on the same machine", rate, "/s", cpu_us)


async def _one_round(request: bytes, handler: Handler, requests: int) -> Stopwatch:
    server = await HttpServer.start(handler, "127.0.0.1", 0, clock=SystemClock())
    port = server.addresses[0][1]
    answer_bytes = await _length_of_answer(request, port)
    arguments = [str(port), request.hex(), str(answer_bytes), str(CONNECTIONS), str(requests // CONNECTIONS)]
    client = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench._http_client", *arguments, stdin=PIPE, stdout=PIPE
    )
    assert client.stdin is not None
    assert client.stdout is not None
    await client.stdout.readline()
    with Stopwatch() as watch:
        client.stdin.write(b"\n")
        answered = await client.stdout.readline()
    if answered != b"done\n" or await client.wait() != 0:
        raise AssertionError("the client got a wrong answer")
    await server.drain(timedelta(seconds=1))
    return watch


async def _length_of_answer(request: bytes, port: int) -> int:
    class Once(asyncio.Protocol):
        answer: "asyncio.Future[bytes]"

        def __init__(self) -> None:
            self.answer = asyncio.get_running_loop().create_future()

        def data_received(self, data: bytes) -> None:
            self.answer.set_result(data)

    transport, once = await network.connect(Once, "127.0.0.1", port)
    transport.write(request)
    answer = await once.answer
    if not answer.endswith(BODY):
        raise AssertionError(f"the answer came in pieces: {answer!r}")
    transport.close()
    return len(answer)


if __name__ == "__main__":
    main(measure)
