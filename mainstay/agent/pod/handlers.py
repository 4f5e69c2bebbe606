"""Asking a container something: by a command in it, an HTTP request, or by connecting. Probes and hooks do so.

As the kubelet does it: a command has succeeded if it ends with 0, a request if the status is from 200 to 399 (redirects
are not followed: that it answers is enough), a connection if there is one. What is not promised: that a command which
takes too long leaves nothing behind. It is ended with all its children, if the runner can.
"""

import asyncio
import ssl
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from urllib.parse import quote

from mainstay.agent.runner import CannotRun, ContainerId, NoSuchContainer, Runner
from mainstay.api.kind import Object
from mainstay.env import network, tasks

OUTPUT_BYTES_MAX: Final = 10 * 1024
_HEAD_BYTES_MAX: Final = 64 * 1024
_SHOWN_MAX: Final = 1024
_IN_PATHS: Final = "/?&=%:;,+@!$'()*~#[]"
_PRINTABLE: Final = 0x20  # What is before it would end a line of the request, and begin another.
_USER_AGENT: Final = "kube-probe/1.36"  # Servers that leave probes out of their logs know it by this.


@dataclass(frozen=True, slots=True)
class HandlerResult:
    """How it went."""

    is_success: bool
    message: str = ""


@dataclass(frozen=True, slots=True)
class HandlerTarget:
    """Whom to ask."""

    id: ContainerId
    container: Object
    address: str
    """Of the pod."""


async def ask(handler: Object, whom: HandlerTarget, runner: Runner, limit: timedelta | None) -> HandlerResult:
    """Do what a probe or a hook says, within a time. Never raises but when cancelled."""
    try:
        async with tasks.timeout(limit):
            if command := handler.get("exec"):
                return await _execute(command.get("command") or [], whom.id, runner)
            if request := handler.get("httpGet"):
                return await _fetch(request, whom)
            if connection := handler.get("tcpSocket"):
                return await _connect(connection, whom)
            if sleep := handler.get("sleep"):
                await tasks.sleep(timedelta(seconds=sleep.get("seconds") or 0))
                return HandlerResult(True)
    except TimeoutError:
        return HandlerResult(
            False, "it took longer than " + ("it may" if limit is None else f"{limit.total_seconds():g}s")
        )
    except (OSError, ValueError) as error:
        return HandlerResult(False, str(error) or type(error).__name__)
    return HandlerResult(False, "no supported handler is specified")


async def _execute(command: list[str], container: ContainerId, runner: Runner) -> HandlerResult:
    try:
        session = await runner.execute(container, command)
    except (NoSuchContainer, CannotRun) as error:
        return HandlerResult(False, str(error))
    output = bytearray()
    try:
        while (piece := await session.read()) is not None:
            output += piece[1][: OUTPUT_BYTES_MAX - len(output)]
        code = await session.wait()
    except asyncio.CancelledError:
        await session.kill()
        raise
    text = output.decode(errors="replace")
    return HandlerResult(code == 0, text if text or not code else f"command exited with {code}")


async def _connect(said: Object, whom: HandlerTarget) -> HandlerResult:
    host, port = said.get("host") or whom.address, find_port(said.get("port"), whom.container)
    transport, _ = await network.connect(asyncio.Protocol, host, port)
    transport.close()
    return HandlerResult(True)


async def _fetch(said: Object, whom: HandlerTarget) -> HandlerResult:
    port = find_port(said.get("port"), whom.container)
    host = said.get("host") or whom.address
    tls = _any_certificate() if (said.get("scheme") or "HTTP").upper() == "HTTPS" else None
    path = said.get("path") or "/"
    if not path.startswith("/"):
        path = f"/{path}"
    headers = {"host": f"{host}:{port}", "user-agent": _USER_AGENT, "accept": "*/*", "connection": "close"}
    headers.update({each["name"].lower(): each.get("value") or "" for each in said.get("httpHeaders") or ()})
    if any(ord(letter) < _PRINTABLE for text in (path, host, *headers, *headers.values()) for letter in text):
        raise ValueError("the path, host or headers of the request have control characters")
    lines = [
        f"GET {quote(path, safe=_IN_PATHS)} HTTP/1.1",
        *(f"{name}: {value}" for name, value in headers.items()),
        "",
        "",
    ]
    transport, answer = await network.connect(_StatusLine, host, port, tls=tls)
    try:
        transport.write("\r\n".join(lines).encode())
        status = await answer.status
    finally:
        transport.abort()
    return HandlerResult(200 <= status < 400, f"HTTP probe failed with statuscode: {status}")


class _StatusLine(asyncio.Protocol):
    """Waits for the first line of an answer; the rest is not needed."""

    def __init__(self) -> None:
        self.status: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._read = b""

    def data_received(self, data: bytes) -> None:
        if self.status.done():
            return
        self._read += data
        line, end, _ = self._read.partition(b"\r\n")
        if end or len(self._read) > _HEAD_BYTES_MAX:
            words = line.split()
            if len(words) >= 2 and words[0].startswith(b"HTTP/") and words[1].isdigit():
                self.status.set_result(int(words[1]))
            else:
                shown = line[:_SHOWN_MAX].decode(errors="replace")
                self.status.set_exception(OSError(f"the response is not HTTP: {shown}"))

    def connection_lost(self, error: Exception | None) -> None:
        if not self.status.done():
            self.status.set_exception(OSError("the connection was closed before an answer came"))
            self.status.exception()  # There may be no waiter any more.


def find_port(port: object, container: Object) -> int:
    """A port by number, or by its name among those of the container. Raises `ValueError`."""
    if isinstance(port, int):
        return port
    for each in container.get("ports") or ():
        if each.get("name") == port:
            return int(each["containerPort"])
    if isinstance(port, str) and port.isdigit():
        return int(port)
    raise ValueError(f"the container has no port {port!r}")


def _any_certificate() -> ssl.SSLContext:
    """As the kubelet's: a probe asks whether something is there, not who."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
