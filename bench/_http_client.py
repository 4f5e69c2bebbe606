"""Asks an HTTP server the same thing again and again over a few connections, and counts the answers.

    python -m bench._http_client PORT REQUEST_IN_HEX ANSWER_BYTES CONNECTIONS REQUESTS_EACH

Says "ready" when it is connected, begins when it is told to by a line, and says "done" when all is answered. Does no
more than it must, so that the server is what is measured. Fails if an answer has another length.
"""

import asyncio
import sys
from typing import cast

from mainstay.env import network, tasks


class Asker(asyncio.Protocol):
    def __init__(self, request: bytes, answer_bytes: int, count: int) -> None:
        self.request, self.answer_bytes, self.left = request, answer_bytes, count
        self.waiting_for = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def ask(self) -> None:
        self.waiting_for = self.answer_bytes
        self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self.waiting_for -= len(data)
        if self.waiting_for < 0 or not (self.waiting_for or data.endswith(b"}")):
            raise AssertionError(f"not the answer that was expected: {data!r}")
        if self.waiting_for == 0:
            self.left -= 1
            if self.left:
                self.ask()
            elif not self.done.done():
                self.done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the server has closed"))


async def main() -> None:
    port, in_hex, answer_bytes, connections, requests_each = sys.argv[1:]
    request = bytes.fromhex(in_hex)
    pairs = [
        await network.connect(lambda: Asker(request, int(answer_bytes), int(requests_each)), "127.0.0.1", int(port))
        for _ in range(int(connections))
    ]
    print("ready", flush=True)
    sys.stdin.readline()
    for _, asker in pairs:
        asker.ask()
    await asyncio.gather(*(asker.done for _, asker in pairs))
    print("done", flush=True)
    for transport, _ in pairs:
        transport.close()


if __name__ == "__main__":
    tasks.run(main())
