"""Commands in containers, over WebSocket: `kubectl exec`, `kubectl cp`; and `kubectl attach`, to look at what one says.

The first byte of each message is its channel: 0 standard input, 1 standard output, 2 standard error, 3 how it ended, as
a Status, 4 the size of the terminal. In the fifth version of the protocol the client may also say that there is no more
input (255, and the channel); before, it could not.

    client ──0,4──► _take_input ──► Session ──► _give_output ──1,2──► client
                                       └── exit code ──────────3──► client, then the end

Output is read only as fast as the client takes it, input is taken only as fast as the command reads it. When the client
goes away, the command is killed. A connection that is not read does not tell that it has ended, and it is not read
while the command takes no input: so the client is pinged now and then.

To attach is to follow the log from now on: a running container takes no input.
"""

import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Final

from mainstay.agent.runner import CannotRun, ContainerId, Exited, LogQuery, NoSuchContainer, Session
from mainstay.agent.serve.logs import close_log
from mainstay.agent.serve.pod_request import PodRequest
from mainstay.api.errors import bad_request
from mainstay.env import tasks
from mainstay.http.messages import Answer, UpgradeResponse
from mainstay.http.websocket import WebSocket

PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
STDIN: Final = 0
STDOUT: Final = 1
STDERR: Final = 2
ENDED: Final = 3
RESIZE: Final = 4
CLOSE: Final = 255

PINGED_EVERY: Final = timedelta(seconds=5)
_STREAMS: Final = {"stdout": STDOUT, "stderr": STDERR}


def answer_exec(asked: PodRequest) -> Answer:
    command = asked.query.get("command", [])
    if not command or not command[0]:
        raise bad_request("you must specify at least 1 command for the container")
    container = asked.running()
    heard = _heard(asked)
    terminal, stdin = asked.flag("tty"), asked.flag("stdin")
    if not heard and not stdin:
        raise bad_request("you must specify at least 1 of stdin, stdout, stderr")
    protocol = asked.chosen_protocol(PROTOCOLS)

    async def run(websocket: WebSocket) -> None:
        await _greet(websocket, heard)
        try:
            session = await asked.runner.execute(container, command, stdin=stdin, terminal=terminal)
        except (CannotRun, NoSuchContainer) as error:
            await _tell_end(websocket, _failed(f"error executing command in container: {error}"))
            return
        try:
            await tasks.until_one_ends(
                (
                    _give_output(websocket, session, heard),
                    _until_gone(websocket, lambda message: _take_input(session, message)),
                    ping_regularly(websocket),
                ),
                name="exec",
            )
        finally:
            # This may be cancelled again, and the command has to be gone all the same.
            await tasks.shielded(session.kill(), name="kill a session")

    return UpgradeResponse(run, protocol)


def answer_attach(asked: PodRequest) -> Answer:
    if asked.flag("stdin"):
        raise bad_request(
            f'container "{asked.container}" in pod "{asked.name}" takes no input once it runs: attach without it'
            " (`kubectl attach` without -i), or run a command in it (`kubectl exec`)"
        )
    container = asked.running()
    heard = _heard(asked)
    protocol = asked.chosen_protocol(PROTOCOLS)

    async def run(websocket: WebSocket) -> None:
        await _greet(websocket, heard)
        await tasks.until_one_ends(
            (
                _give_log(websocket, asked, container, heard),
                _until_gone(websocket, _ignore),
                ping_regularly(websocket),
            ),
            name="attach",
        )

    return UpgradeResponse(run, protocol)


def _heard(asked: PodRequest) -> tuple[int, ...]:
    """The channels that the client wants to hear. A terminal has only one."""
    wants_error = asked.flag("stderr") and not asked.flag("tty")
    return (*((STDOUT,) if asked.flag("stdout") else ()), *((STDERR,) if wants_error else ()))


async def _greet(websocket: WebSocket, heard: tuple[int, ...]) -> None:
    websocket.be_patient()
    # As Kubernetes does: some clients wait for anything at all before they go on.
    await websocket.send_bytes(bytes([heard[0] if heard else ENDED]))


async def _give_output(websocket: WebSocket, session: Session, heard: tuple[int, ...]) -> None:
    while (piece := await session.read()) is not None:
        channel, data = piece
        if data and channel in heard and not await websocket.send_bytes(bytes([channel]) + data):
            return
    await _tell_end(websocket, _ended(await session.wait()))


async def _give_log(websocket: WebSocket, asked: PodRequest, container: ContainerId, heard: tuple[int, ...]) -> None:
    lines = asked.runner.log(asked.uid, asked.container, LogQuery(follow=True, tail_lines=0))
    try:
        async for line in lines:
            channel = _STREAMS[line.stream]
            if channel in heard and not await websocket.send_bytes(bytes([channel]) + line.text):
                return
    except NoSuchContainer as error:
        await _tell_end(websocket, _failed(f"error attaching to container: {error}"))
        return
    finally:
        await close_log(lines)
    state = asked.runner.instances(asked.uid).get(container)
    await _tell_end(websocket, _ended(state.code if isinstance(state, Exited) else 0))


async def _until_gone(websocket: WebSocket, take: Callable[[bytes], Awaitable[None]]) -> None:
    while (message := await websocket.receive()) is not None:
        data = message.encode() if isinstance(message, str) else message
        if data:
            await take(data)


async def _ignore(message: bytes) -> None:
    """An attached client sends nothing but the size of a terminal that is not there."""


async def _take_input(session: Session, message: bytes) -> None:
    channel, data = message[0], message[1:]
    if channel == STDIN and data:
        await session.write(data)
    elif channel == RESIZE and (size := _size_in(data)) is not None:
        session.resize(*size)
    elif channel == CLOSE and data == bytes([STDIN]):
        await session.close_input()


def _size_in(data: bytes) -> tuple[int, int] | None:
    try:
        size = json.loads(data)
        columns, rows = int(size["Width"]), int(size["Height"])
    except (ValueError, TypeError, KeyError):
        return None
    return (columns, rows) if 0 < columns < 2**16 and 0 < rows < 2**16 else None


async def ping_regularly(websocket: WebSocket) -> None:
    """Find out if the client is gone, also while nothing is taken from it."""
    while True:
        await tasks.sleep(PINGED_EVERY)
        websocket.ping()


# How it ended.


async def _tell_end(websocket: WebSocket, status: dict[str, Any]) -> None:
    await websocket.send_bytes(bytes([ENDED]) + json.dumps(status).encode())


def _ended(code: int) -> dict[str, Any]:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def _failed(why: str) -> dict[str, Any]:
    message = f"Internal error occurred: {why}"
    return {"metadata": {}, "status": "Failure", "message": message, "reason": "InternalError", "code": 500}
