"""As much of an API server as `mainstay logs` asks: pods, and what their containers wrote and go on to write."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from mainstay.api.errors import bad_request, not_found
from mainstay.http.messages import Answer, Request, Response, StreamResponse
from mainstay.http.server import HttpServer
from mainstay.http.streams import BodyStream
from mainstay.sim.simulation import Simulation
from tests.server.world import PORT

PODS = "/api/v1/namespaces/default/pods"


class LogApi:
    def __init__(self) -> None:
        self._pods: dict[str, dict[str, Any]] = {}
        self._logs: dict[tuple[str, str], list[bytes]] = {}
        self._more = asyncio.Event()
        self.asked: list[Mapping[str, str]] = []
        """The query of each request for a log."""
        self.breaks_off = False
        """Logs end as if a server had died."""

    def add(
        self,
        name: str,
        *containers: str,
        init: Sequence[str] = (),
        labels: dict[str, str] | None = None,
        **metadata: Any,
    ) -> None:
        spec = {"containers": [{"name": each} for each in containers]}
        spec["initContainers"] = [{"name": each} for each in init]
        self._pods[name] = {"metadata": {"name": name, "labels": labels or {}, **metadata}, "spec": spec}

    def write(self, pod: str, container: str, *pieces: bytes) -> None:
        self._logs.setdefault((pod, container), []).extend(pieces)
        self._more.set()
        self._more = asyncio.Event()

    async def answer(self, request: Request) -> Answer:
        query = dict(parse_qsl(request.query))
        if request.path == PODS:
            wanted = query["labelSelector"]
            pods = [each for each in self._pods.values() if wanted in _labels(each)]
            return Response(200, msgspec.json.encode({"metadata": {"resourceVersion": "1"}, "items": pods}))
        name, _, part = request.path.removeprefix(f"{PODS}/").partition("/")
        if name not in self._pods:
            raise not_found("pods", "", name)
        if not part:
            return Response(200, msgspec.json.encode(self._pods[name]))
        self.asked.append(query)
        where = (name, query["container"])
        if where not in self._logs:
            raise bad_request(f'container "{where[1]}" in pod "{name}" is waiting to start: ContainerCreating')
        return StreamResponse(200, lambda stream: self._stream(stream, where, query), "text/plain")

    async def _stream(self, stream: BodyStream, where: tuple[str, str], query: Mapping[str, str]) -> None:
        sent = 0
        while True:
            for piece in self._logs[where][sent:]:
                stream.write(piece)
                sent += 1
            if self.breaks_off:
                stream.break_off()
                return
            if "follow" not in query:
                return
            await self._more.wait()


def _labels(pod: dict[str, Any]) -> list[str]:
    return [f"{key}={value}" for key, value in pod["metadata"]["labels"].items()]


@asynccontextmanager
async def a_log_api(sim: Simulation) -> AsyncIterator[LogApi]:
    """On the host `server`. The code of the test is on `client`."""
    api = LogApi()
    with sim.network.host("server").active():
        http = await HttpServer.start(api.answer, "0.0.0.0", PORT, on_head=True)
    with sim.network.host("client").active():
        try:
            yield api
        finally:
            await http.drain(timedelta(0))
