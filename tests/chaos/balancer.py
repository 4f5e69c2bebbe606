"""A load balancer in front of several API servers, as plain as it can be: it passes on bytes, TLS and all.

    python -m tests.chaos.balancer 10.213.8.1:6443 10.213.8.5:6443 10.213.8.6:6443

Connections go to the servers in turn; to the next one if a server does not accept.
"""

import asyncio
import contextlib
import itertools
import sys
from collections.abc import Sequence

CONNECT_WITHIN_S = 0.5
_CHUNK = 1 << 16


async def serve(listen: str, backends: Sequence[str]) -> None:
    """Until cancelled."""
    turns = itertools.count()

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = next(turns)
        for number in range(len(backends)):
            with contextlib.suppress(OSError, TimeoutError):
                host, _, port = backends[(first + number) % len(backends)].rpartition(":")
                async with asyncio.timeout(CONNECT_WITHIN_S):
                    there, back = await asyncio.open_connection(host, int(port))
                await asyncio.gather(_pass_on(reader, back), _pass_on(there, writer))
                return
        writer.close()

    host, _, port = listen.rpartition(":")
    server = await asyncio.start_server(accepted, host, int(port))
    async with server:
        await server.serve_forever()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
    writer.close()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2:]))
