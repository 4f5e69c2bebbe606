"""Floods an API server over many connections, each asking again as soon as it is answered.

    python -m bench._flood_load KUBECONFIG CONNECTIONS

Says "ready". Then, for each line with a flood, `{"flood": "lists", "token": "…", "seconds": 40}`, it does that, and
says what came of it: `{"200": 12, "429": 3, …}`, with the bytes that it has read. It is greedy and not polite: it does
not wait when it is told to come back later, and connects again at once when it is cut off.
"""

import asyncio
import base64
import json
import ssl
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import yaml

from mainstay.env import tasks

NAMESPACE: Final = "flood"
LISTED: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
CREATED: Final = f"/api/v1/namespaces/{NAMESPACE}-made/configmaps"
REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
YAML_BODY: Final = b"data: [" + b"[]," * 340_000 + b"[]]\n"
"""A megabyte, as large as is read of YAML, that is slow to parse."""
REVIEW: Final = b"data: [" + b"[]," * 5_000 + b"[]]\n"
KILOBYTE: Final = "x" * 1000
AGAIN_AFTER_S: Final = 0.02
WATCHED_BYTES: Final = 5_000_000
"""Of a watch that begins with the state, before the next one."""


class Flood:
    def __init__(self, kubeconfig: Path, connections: int) -> None:
        cluster = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
        url = urlsplit(cluster["server"])
        self._host, self._port = url.hostname or "", url.port or 443
        self._tls = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        self._connections = connections
        self._until = 0.0
        self._made = 0
        self.answers: Counter[str] = Counter()

    async def run(self, flood: str, token: str, seconds: float) -> dict[str, int]:
        self.answers.clear()
        self._until = time.monotonic() + seconds
        work = self._hold_open if flood == "bare TCP" else self._ask
        async with asyncio.TaskGroup() as group:
            for _ in range(self._connections):
                group.create_task(work(flood, token))
        return dict(self.answers)

    def _request(self, flood: str, token: str) -> bytes:
        if flood == "lists":
            return self._head("GET", LISTED, token, 0, "application/json")
        if flood == "watches":
            return self._head("GET", f"{LISTED}?watch=1", token, 0, "application/json")
        if flood == "creates":
            self._made += 1
            body = json.dumps({"metadata": {"generateName": f"made-{self._made}-"}, "data": {"a": KILOBYTE}}).encode()
            return self._head("POST", CREATED, token, len(body), "application/json") + body
        if flood == "YAML":
            return self._head("POST", CREATED, token, len(YAML_BODY), "application/yaml") + YAML_BODY
        return self._head("POST", REVIEWS, token, len(REVIEW), "application/yaml") + REVIEW

    def _head(self, method: str, path: str, token: str, length: int, content: str) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._host}", f"Content-Type: {content}"]
        lines += [f"Authorization: Bearer {token}"] if token else []
        lines += [f"Content-Length: {length}"] if length else []
        return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n"

    async def _ask(self, flood: str, token: str) -> None:
        while (left_s := self._until - time.monotonic()) > 0:
            try:
                async with asyncio.timeout(left_s):
                    reader, writer = await asyncio.open_connection(self._host, self._port, ssl=self._tls)
                    try:
                        while True:
                            await self._exchange(reader, writer, self._request(flood, token))
                    finally:
                        writer.close()
            except TimeoutError:
                return
            except (OSError, asyncio.IncompleteReadError, ValueError):
                self.answers["cut off"] += 1
                await asyncio.sleep(AGAIN_AFTER_S)

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> None:
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        self.answers[head.split(b" ", 2)[1].decode()] += 1
        if b"transfer-encoding: chunked" in head:
            read_bytes = 0
            while size := int(await reader.readuntil(b"\r\n"), 16):
                await self._drop(reader, size + 2)
                read_bytes += size
                if b"watch" in request[:200] and read_bytes > WATCHED_BYTES:
                    raise ValueError("that was enough of this watch")
            await self._drop(reader, 2)
        else:
            at = head.index(b"content-length: ") + 16
            await self._drop(reader, int(head[at : head.index(b"\r", at)]))
        if b"connection: close" in head:
            raise ValueError("the server closes")

    async def _drop(self, reader: asyncio.StreamReader, count: int) -> None:
        while count:
            data = await reader.read(min(count, 1 << 16))
            if not data:
                raise asyncio.IncompleteReadError(b"", count)
            count -= len(data)
            self.answers["bytes"] += len(data)

    async def _hold_open(self, flood: str, token: str) -> None:
        """Connect and say nothing, until the server closes."""
        while (left_s := self._until - time.monotonic()) > 0:
            try:
                async with asyncio.timeout(left_s):
                    reader, writer = await asyncio.open_connection(self._host, self._port)
                    self.answers["connected"] += 1
                    try:
                        await reader.read(1)
                    finally:
                        writer.close()
            except TimeoutError:
                return
            except OSError:
                self.answers["cut off"] += 1
            await asyncio.sleep(AGAIN_AFTER_S)


async def main() -> None:
    flood = Flood(Path(sys.argv[1]), int(sys.argv[2]))
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps(await flood.run(**json.loads(line))), flush=True)


if __name__ == "__main__":
    tasks.run(main())
