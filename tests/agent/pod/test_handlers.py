"""Asking a container something, as probes and hooks do: by a command, over HTTP, or by connecting."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mainstay.agent.pod.handlers import HandlerResult, HandlerTarget, ask, find_port
from mainstay.agent.runner import ContainerId
from mainstay.agent.runners.pretend import PretendRunner
from mainstay.env import network
from mainstay.sim.simulation import Simulation
from tests.agent.cluster import a_container, seconds

CONTAINER = a_container(ports=[{"name": "http", "containerPort": 8080}])
WHOM = HandlerTarget(ContainerId("uid", "c", 0), CONTAINER, "pod")


class Answers(asyncio.Protocol):
    """Says the same to everybody, as soon as they have said anything."""

    said: list[bytes] = []  # noqa: RUF012 - emptied by each test

    def __init__(self, text: bytes) -> None:
        self._text = text

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        Answers.said.append(data)
        if self._text:
            self._transport.write(self._text)  # type: ignore[attr-defined]


@asynccontextmanager
async def a_pod_that_answers(sim: Simulation, text: bytes) -> AsyncIterator[PretendRunner]:
    Answers.said.clear()
    with sim.network.host("pod").active():
        server = await network.listen(lambda: Answers(text), "0.0.0.0", 8080)
    with sim.network.host("node").active():
        yield PretendRunner(sim.env("node"))
    server.close()


async def told(sim: Simulation, handler: dict[str, Any], text: bytes = b"HTTP/1.1 200 OK\r\n\r\n") -> HandlerResult:
    async with a_pod_that_answers(sim, text) as runner:
        return await ask(handler, WHOM, runner, seconds(1))


@pytest.mark.parametrize(("status", "is_success"), [(200, True), (204, True), (302, True), (404, False), (503, False)])
async def test_an_answer_is_good_from_200_to_399(sim: Simulation, status: int, is_success: bool):
    text = f"HTTP/1.1 {status} Whatever\r\nContent-Length: 0\r\n\r\n".encode()

    found = await told(sim, {"httpGet": {"port": "http", "path": "/healthz"}}, text)

    assert found.is_success is is_success
    assert is_success or str(status) in found.message


async def test_a_request_has_its_path_and_headers(sim: Simulation):
    headers = [{"name": "X-Who", "value": "probe"}]

    await told(sim, {"httpGet": {"port": 8080, "path": "healthz?a=b", "httpHeaders": headers}})

    request = Answers.said[0].decode()
    assert request.startswith("GET /healthz?a=b HTTP/1.1\r\n")
    assert "x-who: probe\r\n" in request
    assert "host: pod:8080\r\n" in request


@pytest.mark.parametrize(
    "said",
    [
        {"path": "/x HTTP/1.1\r\nhost: other\r\n\r\nGET /y"},
        {"httpHeaders": [{"name": "a", "value": "b\r\nhost: other"}]},
        {"httpHeaders": [{"name": "a\nhost", "value": "other"}]},
    ],
)
async def test_a_request_cannot_be_made_two(sim: Simulation, said: dict[str, Any]):
    found = await told(sim, {"httpGet": {"port": 8080, **said}})
    assert found == HandlerResult(False, "the path, host or headers of the request have control characters")


async def test_who_says_nothing_in_time_has_failed(sim: Simulation):
    found = await told(sim, {"httpGet": {"port": 8080}}, b"")

    assert found == HandlerResult(False, "it took longer than 1s")


async def test_what_is_no_http_has_failed(sim: Simulation):
    found = await told(sim, {"httpGet": {"port": 8080}}, b"hello\r\n")

    assert not found.is_success
    assert "not HTTP: hello" in found.message


async def test_to_connect_is_enough(sim: Simulation):
    assert (await told(sim, {"tcpSocket": {"port": 8080}})).is_success
    assert not (await told(sim, {"tcpSocket": {"port": 8081}})).is_success


async def test_a_command_needs_a_container_that_runs(sim: Simulation):
    found = await told(sim, {"exec": {"command": ["true"]}})

    assert not found.is_success
    assert "is not running" in found.message


async def test_what_cannot_be_done_fails_and_says_so(sim: Simulation):
    assert not (await told(sim, {})).is_success
    assert "no port 'grpc'" in (await told(sim, {"httpGet": {"port": "grpc"}})).message


def test_a_port_is_found_by_its_name_or_number():
    assert [find_port(port, CONTAINER) for port in (80, "http", "81")] == [80, 8080, 81]
