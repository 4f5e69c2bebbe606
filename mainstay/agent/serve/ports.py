"""Ports of a pod, over WebSocket: what the clients of Python and of kr8s do for port forwarding.

    GET /portforward/NAMESPACE/POD?ports=80&ports=443

The n-th port has two channels: 2n for its bytes, 2n + 1 for what went wrong with it. The first message on each is the
port's number, two bytes, the lower one first. One WebSocket is one connection to each port.

Bytes are taken from either side only as fast as the other one takes them. The ports share the way in: one that takes
nothing keeps the others waiting.
"""

from datetime import timedelta
from typing import Final

from mainstay.agent.serve.pod_request import PodRequest
from mainstay.agent.serve.sessions import ping_regularly
from mainstay.api.errors import bad_request
from mainstay.env import tasks
from mainstay.http.messages import Answer, UpgradeResponse
from mainstay.http.outgoing import RawConnection, connect
from mainstay.http.websocket import WebSocket

PROTOCOLS: Final = ("v4.channel.k8s.io",)
PORTS_MAX: Final = 64
CONNECTED_WITHIN: Final = timedelta(seconds=5)

_INSTEAD: Final = (
    ": kubectl port-forward cannot be used. On the machine of the pod, connect to it at {}; or use the Python client or"
    " kr8s"
)


def answer(asked: PodRequest) -> Answer:
    address: str = (asked.pod.get("status") or {}).get("podIP") or ""
    if not address:
        raise bad_request(f'pod "{asked.name}" has no address yet')
    # kr8s offers no protocol at all; kubectl only one that is SPDY inside, and then SPDY itself.
    protocol = asked.chosen_protocol(PROTOCOLS, is_needed=False, instead=_INSTEAD.format(address))
    ports = _ports_in(asked)

    async def run(websocket: WebSocket) -> None:
        websocket.be_patient()
        connections: dict[int, RawConnection] = {}
        try:
            for number, port in enumerate(ports):
                for channel in (2 * number, 2 * number + 1):
                    await websocket.send_bytes(bytes([channel]) + port.to_bytes(2, "little"))
                try:
                    connections[2 * number] = await connect(RawConnection, address, port, CONNECTED_WITHIN)
                except OSError as error:
                    text = f"cannot connect to port {port} of pod {asked.name}: {error.strerror or 'timed out'}"
                    await websocket.send_bytes(bytes([2 * number + 1]) + text.encode())
            if connections:
                works = (_bring(websocket, connections), _fetch_all(websocket, connections), ping_regularly(websocket))
                await tasks.until_one_ends(works, name="port forwarding")
        finally:
            for connection in connections.values():
                connection.close()

    return UpgradeResponse(run, protocol)


def _ports_in(asked: PodRequest) -> list[int]:
    texts = [text for value in asked.query.get("ports", []) for text in value.split(",")]
    if not texts:
        raise bad_request('query parameter "ports" is required')
    if len(texts) > PORTS_MAX:
        raise bad_request(f"at most {PORTS_MAX} ports at once")
    for text in texts:
        if not text.isascii() or not text.isdigit() or not 0 < int(text[:6]) < 2**16:
            raise bad_request(f'invalid port "{text}"')
    return [int(text) for text in texts]


async def _bring(websocket: WebSocket, connections: dict[int, RawConnection]) -> None:
    """From the client to the ports, until the client is gone."""
    while (message := await websocket.receive()) is not None:
        data = message.encode() if isinstance(message, str) else message
        connection = connections.get(data[0]) if data else None
        if connection is not None:
            await connection.write(data[1:])


async def _fetch_all(websocket: WebSocket, connections: dict[int, RawConnection]) -> None:
    """From the ports to the client, until none of them has any more."""
    await tasks.together(
        [_fetch(websocket, channel, connection) for channel, connection in connections.items()], name="from a port"
    )


async def _fetch(websocket: WebSocket, channel: int, connection: RawConnection) -> None:
    while data := await connection.read():
        if not await websocket.send_bytes(bytes([channel]) + data):
            return
