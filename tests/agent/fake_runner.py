"""A runner that behaves, for the tests of what an agent serves: containers, their logs and commands in memory.

`FakeRunner` runs in virtual time; the commands it knows are small coroutines. `ProcessSessions` runs real commands, for
tests with real clients.
"""

import asyncio
import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from mainstay.agent.runner import (
    CannotRun,
    ContainerId,
    ContainerSpec,
    ContainerUsage,
    Exited,
    LogLine,
    LogQuery,
    NoSuchContainer,
    PodPlace,
    Running,
    Session,
    State,
    Usage,
    VolumePlan,
)

PIPE_BYTES_MIN = 4096
MORNING = datetime(2026, 11, 16, 8, 0, 0, tzinfo=UTC)


@dataclass
class Log:
    lines: list[LogLine] = field(default_factory=list)
    more: asyncio.Event = field(default_factory=asyncio.Event)


class FakeRunner:
    def __init__(self) -> None:
        self.states: dict[ContainerId, State] = {}
        self.logs: dict[ContainerId, Log] = {}
        self.lines_read = 0
        """How far readers have come: what they do not take must not be read."""
        self.readers = 0
        self.sessions: list[Any] = []
        self.window = timedelta(seconds=10)
        self.node_usage = ContainerUsage(250_000_000, 512 * 1024 * 1024)

    # What tests do to it.

    def begin(self, uid: str, name: str = "c", attempt: int = 0) -> ContainerId:
        container = ContainerId(uid, name, attempt)
        self.states[container] = Running(MORNING, 1000)
        self.logs[container] = Log()
        return container

    def finish(self, container: ContainerId, code: int = 0) -> None:
        self.states[container] = Exited(code=code, reason="Completed", started_at=MORNING, finished_at=MORNING)
        self.logs[container].more.set()

    def say(self, container: ContainerId, text: str, stream: str = "stdout", at: datetime | None = None) -> None:
        log = self.logs[container]
        moment = (at or MORNING + timedelta(seconds=len(log.lines))).astimezone(UTC).replace(tzinfo=None)
        log.lines.append(LogLine(f"{moment.isoformat(timespec='microseconds')}000Z", stream, text.encode()))
        log.more.set()

    # The protocol.

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def subscribe(self, changed: Callable[[str], None]) -> None: ...

    def pods(self) -> Sequence[str]:
        return sorted({each.pod_uid for each in self.states})

    def instances(self, pod_uid: str) -> Mapping[ContainerId, State]:
        return {each: self.states[each] for each in sorted(self.states) if each.pod_uid == pod_uid}

    def recover(self, pod: dict[str, Any]) -> None: ...

    async def place(self, pod_uid: str, namespace: str, name: str, volumes: Sequence[VolumePlan]) -> PodPlace:
        return PodPlace(directory="/")

    def pull(self, image: str, policy: str) -> None: ...

    async def run(self, spec: ContainerSpec) -> None: ...

    async def end(self, container: ContainerId, grace: timedelta, *, with_signal: str = "SIGTERM") -> None: ...

    async def forget(self, pod_uid: str) -> None: ...

    async def prune(self, pod_uid: str, name: str, keep: int) -> None: ...

    async def hold_until(self, monotonic_ns: int, stopping: timedelta) -> None: ...

    async def log(self, pod_uid: str, name: str, query: LogQuery) -> AsyncIterator[LogLine]:
        attempts = [each for each in sorted(self.logs) if (each.pod_uid, each.name) == (pod_uid, name)]
        if len(attempts) <= query.is_previous:
            raise NoSuchContainer("there is no such log")
        container = attempts[-1 - query.is_previous]
        log = self.logs[container]
        since = "" if query.since is None else query.since.replace(tzinfo=None).isoformat(timespec="microseconds")
        at = 0 if query.tail_lines is None else max(0, len(log.lines) - query.tail_lines)
        self.readers += 1
        try:
            while True:
                for line in log.lines[at:]:
                    at += 1
                    self.lines_read += 1
                    if line.time >= since:
                        yield line
                if not query.follow or isinstance(self.states[container], Exited):
                    return
                log.more.clear()
                await log.more.wait()
        finally:
            self.readers -= 1

    async def execute(
        self, container: ContainerId, command: Sequence[str], *, stdin: bool = False, terminal: bool = False
    ) -> Session:
        if command[0] not in COMMANDS:
            raise CannotRun("StartError", f"{command[0]}: no such command")
        session = FakeSession(COMMANDS[command[0]], list(command[1:]))
        self.sessions.append(session)
        return session

    async def usage(self) -> Usage:
        used = {
            container: ContainerUsage(5_000_000, 64 * 1024 * 1024)
            for container, state in self.states.items()
            if isinstance(state, Running)
        }
        return Usage(MORNING, self.window, self.node_usage, used)


class FakeSession:
    """A command in memory. Its pipes hold a few messages, as real ones hold a few kilobytes."""

    def __init__(self, program: "Program", words: list[str]) -> None:
        self.words = words
        self.input: asyncio.Queue[bytes] = asyncio.Queue(4)
        self.output: asyncio.Queue[tuple[int, bytes] | None] = asyncio.Queue(4)
        self.size = (0, 0)
        self.written = 0
        self.is_killed = False
        self._code: int | None = None
        self._task = asyncio.get_running_loop().create_task(self._run(program))

    async def _run(self, program: "Program") -> None:
        self._code = await program(self)
        await self.output.put(None)

    async def say(self, text: bytes, stream: int = 1) -> None:
        await self.output.put((stream, text))
        self.written += len(text)

    async def read(self) -> tuple[int, bytes] | None:
        return await self.output.get()

    async def write(self, data: bytes) -> None:
        await self.input.put(data)

    async def close_input(self) -> None:
        await self.input.put(b"")

    def resize(self, columns: int, rows: int) -> None:
        self.size = (columns, rows)

    async def wait(self) -> int:
        await self._task
        return self._code or 0

    async def kill(self) -> None:
        self.is_killed = self._code is None
        self._task.cancel()
        await asyncio.wait([self._task])


Program = Callable[[FakeSession], Awaitable[int]]


async def _echo(session: FakeSession) -> int:
    await session.say(" ".join(session.words).encode() + b"\n")
    return 0


async def _cat(session: FakeSession) -> int:
    while data := await session.input.get():
        await session.say(data)
    return 0


async def _fail(session: FakeSession) -> int:
    await session.say(b"it is no use\n", 2)
    return int(session.words[0])


async def _yes(session: FakeSession) -> int:
    while True:
        await session.say(b"y" * 10_000)


async def _sleep(session: FakeSession) -> int:
    await asyncio.sleep(float(session.words[0]))
    return 0


async def _size(session: FakeSession) -> int:
    while session.size == (0, 0):
        await asyncio.sleep(0.01)
    await session.say("{} {}\n".format(*session.size).encode())
    return 0


COMMANDS: dict[str, Program] = {
    "echo": _echo, "cat": _cat, "fail": _fail, "yes": _yes, "sleep": _sleep, "size": _size,
}  # fmt: skip


class ProcessSessions(FakeRunner):
    """The same with real commands, run where `directory` is."""

    def __init__(self, directory: str) -> None:
        super().__init__()
        self.directory = directory

    async def execute(
        self, container: ContainerId, command: Sequence[str], *, stdin: bool = False, terminal: bool = False
    ) -> Session:
        try:
            session = ProcessSession(command, self.directory, stdin=stdin, terminal=terminal)
        except OSError as error:
            raise CannotRun("StartError", f"{command[0]}: {os.strerror(error.errno or 0)}") from None
        self.sessions.append(session)
        return session


class ProcessSession:
    """A real command. Blocking calls go to threads: it is for a handful of them."""

    def __init__(self, command: Sequence[str], directory: str, *, stdin: bool, terminal: bool) -> None:
        self.is_killed = False
        self.taken = 0
        """Bytes of its input that the command, or the pipe before it, has taken."""
        self._queue: asyncio.Queue[tuple[int, bytes] | None] = asyncio.Queue(4)
        self._pty = -1
        given: Any = subprocess.PIPE if stdin else subprocess.DEVNULL
        taken: Any = (subprocess.PIPE, subprocess.PIPE)
        inner = -1
        if terminal:
            self._pty, inner = pty.openpty()
            given, taken = inner, (inner, inner)
        self._process = subprocess.Popen(
            list(command), stdin=given, stdout=taken[0], stderr=taken[1], cwd=directory, start_new_session=True
        )
        if terminal:
            os.close(inner)
        self._reading = asyncio.get_running_loop().create_task(self._read_all())

    async def _read_all(self) -> None:
        if self._pty >= 0:
            await self._read_from(1, self._pty)
        else:
            assert self._process.stdout is not None
            assert self._process.stderr is not None
            await asyncio.gather(
                self._read_from(1, self._process.stdout.fileno()), self._read_from(2, self._process.stderr.fileno())
            )
        await self._queue.put(None)

    async def _read_from(self, stream: int, number: int) -> None:
        while True:
            try:
                data = await asyncio.to_thread(os.read, number, 32 * 1024)
            except OSError:  # The other end of a terminal is closed.
                return
            if not data:
                return
            await self._queue.put((stream, data))

    @property
    def is_waiting(self) -> bool:
        """It has written output that has no reader."""
        return self._queue.full()

    async def read(self) -> tuple[int, bytes] | None:
        return await self._queue.get()

    async def write(self, data: bytes) -> None:
        view = memoryview(data)
        number = self._pty if self._pty >= 0 else self._process.stdin.fileno() if self._process.stdin else -1
        while view and number >= 0:
            try:
                count = await asyncio.to_thread(os.write, number, view[:PIPE_BYTES_MIN])
                self.taken += count
                view = view[count:]
            except (BrokenPipeError, OSError):
                return

    async def close_input(self) -> None:
        if self._pty >= 0:
            await self.write(b"\x04")
        elif self._process.stdin is not None:
            self._process.stdin.close()
            self._process.stdin = None

    def resize(self, columns: int, rows: int) -> None:
        if self._pty >= 0:
            fcntl.ioctl(self._pty, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def wait(self) -> int:
        code = await asyncio.to_thread(self._process.wait)
        return code if code >= 0 else 128 - code

    async def kill(self) -> None:
        if self._process.poll() is None:
            self.is_killed = True
            os.killpg(self._process.pid, signal.SIGKILL)
        await asyncio.to_thread(self._process.wait)
        self._reading.cancel()
        await asyncio.wait([self._reading])
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        if self._pty >= 0:
            os.close(self._pty)
            self._pty = -1
