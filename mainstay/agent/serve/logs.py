"""Serving the log of a container: `kubectl logs`.

    follow, previous, tailLines, sinceSeconds, sinceTime, timestamps, limitBytes, stream

are as in Kubernetes, and were checked by the API server.

Lines are taken from the runner only as fast as the reader takes them: between the two there is one small buffer, in
which many short lines become one piece. Who does not read makes the runner wait, and nothing grows.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from mainstay.agent.runner import Exited, LogLine, LogQuery, NoSuchContainer
from mainstay.agent.serve.pod_request import PodRequest
from mainstay.api import times
from mainstay.api.errors import StatusError, bad_request
from mainstay.env import tasks
from mainstay.http.messages import Answer, StreamResponse
from mainstay.http.streams import BodyStream, while_open

SINCE_S_MAX: Final = 100 * 365 * 24 * 3600
GATHERED_BYTES_MAX: Final = 64 * 1024
FIRST_WITHIN: Final = timedelta(milliseconds=100)
"""How long the answer waits for a first line, or for the news that there is no such log. Then it begins without."""


@dataclass(frozen=True, slots=True)
class LogLineOptions:
    """How the lines are to be written."""

    has_timestamps: bool = False
    bytes_max: int | None = None
    stream: str = ""
    """`stdout` or `stderr`; empty: both."""


async def answer(asked: PodRequest) -> Answer:
    query = _parse_query(asked)
    wanted = LogLineOptions(asked.flag("timestamps"), asked.number("limitBytes"), asked.text("stream"))
    lines = asked.runner.log(asked.uid, asked.container, query)
    reading = tasks.spawn(_next(lines), name="first line of a log")
    try:
        await asyncio.wait([reading], timeout=FIRST_WITHIN.total_seconds())
    except asyncio.CancelledError:
        await tasks.stop(reading)
        await close_log(lines)
        raise
    if reading.done() and isinstance(reading.result(), NoSuchContainer):
        raise _no_log(asked, query)

    async def run(stream: BodyStream) -> None:
        stream.be_patient()
        try:
            await while_open(stream, _write(stream, reading, lines, wanted))
        finally:
            await tasks.stop(reading)
            await close_log(lines)

    return StreamResponse(200, run, "text/plain")


def _parse_query(asked: PodRequest) -> LogQuery:
    """What to ask the runner for. Raises `StatusError` (400) if there is nothing to be had, as Kubernetes does."""
    attempts = asked.attempts()
    if not attempts:
        if asked.flag("previous"):
            raise _no_previous(asked)
        text = f'container "{asked.container}" in pod "{asked.name}" is waiting to start: {asked.waits_for()}'
        raise bad_request(text)
    is_previous = asked.flag("previous")
    if is_previous:
        is_waiting = "waiting" in (asked.status().get("state") or {})
        if is_waiting and isinstance(attempts[max(attempts)], Exited):
            is_previous = False  # It waits to be started again: what ended last is the previous one.
        elif len(attempts) < 2:
            raise _no_previous(asked)
    return LogQuery(
        is_previous=is_previous,
        follow=asked.flag("follow"),
        tail_lines=asked.number("tailLines"),
        since=_since(asked),
    )


def _since(asked: PodRequest) -> datetime | None:
    seconds, moment = asked.number("sinceSeconds"), asked.text("sinceTime")
    if seconds is not None:
        # By the clock of the machine: the times in the log are by the same.
        return asked.clock.wall() - timedelta(seconds=min(seconds, SINCE_S_MAX))
    return times.parse_time(moment) if moment else None


def _no_log(asked: PodRequest, query: LogQuery) -> StatusError:
    if query.is_previous:
        return _no_previous(asked)
    return bad_request(f'container "{asked.container}" in pod "{asked.name}" is not available')


def _no_previous(asked: PodRequest) -> StatusError:
    return bad_request(f'previous terminated container "{asked.container}" in pod "{asked.name}" not found')


async def _next(lines: AsyncIterator[LogLine]) -> LogLine | NoSuchContainer | None:
    try:
        return await anext(lines, None)
    except NoSuchContainer as error:
        return error


async def close_log(lines: AsyncIterator[LogLine]) -> None:
    """Read no more of it."""
    if (close := getattr(lines, "aclose", None)) is not None:
        await close()


async def _write(
    stream: BodyStream,
    reading: "asyncio.Task[LogLine | NoSuchContainer | None]",
    lines: AsyncIterator[LogLine],
    wanted: LogLineOptions,
) -> None:
    first = await reading
    if not isinstance(first, LogLine):
        return
    gathered = _Gathered()
    await tasks.together((_gather(first, lines, wanted, gathered), _pass_on(gathered, stream)), name="log")


async def _gather(first: LogLine, lines: AsyncIterator[LogLine], wanted: LogLineOptions, gathered: "_Gathered") -> None:
    left = wanted.bytes_max
    begins_line = True
    line: LogLine | None = first
    while line is not None and left != 0:
        if wanted.stream in ("", line.stream):
            text = f"{line.time} ".encode() + line.text if wanted.has_timestamps and begins_line else line.text
            begins_line = line.text.endswith(b"\n")
            if left is not None:
                text = text[:left]
                left -= len(text)
            await gathered.put(text)
        if left != 0:
            line = await anext(lines, None)
    gathered.end()


async def _pass_on(gathered: "_Gathered", stream: BodyStream) -> None:
    while piece := await gathered.take():
        if not stream.write(piece):
            return
        await stream.drain()


class _Gathered:
    """What was read and not yet written, as one piece."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._is_ended = False
        self._has_some = asyncio.Event()
        self._has_room = asyncio.Event()

    async def put(self, data: bytes) -> None:
        while len(self._data) >= GATHERED_BYTES_MAX:
            self._has_room.clear()
            await self._has_room.wait()
        self._data += data
        self._has_some.set()

    def end(self) -> None:
        self._is_ended = True
        self._has_some.set()

    async def take(self) -> bytes:
        """Empty at the end."""
        while not self._data and not self._is_ended:
            self._has_some.clear()
            await self._has_some.wait()
        data = bytes(self._data)
        self._data.clear()
        self._has_room.set()
        return data
