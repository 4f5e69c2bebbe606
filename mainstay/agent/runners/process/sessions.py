"""Commands that run beside a container: `kubectl exec`, probes and hooks.

Each has a helper process (session_helper.py) that is its parent, and takes it to where the container is. The helper
ends, with all that the command has started, when the command does, and when the agent closes `control` or dies. In
Kubernetes what a command leaves in the background lives on until the container ends. Here it does not: nothing would
look after it.

Nothing is read from a command before a reader asks for it, so one that writes much waits for its reader.
"""

import asyncio
import contextlib
import errno
import fcntl
import os
import struct
import subprocess
import termios
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from mainstay.agent.runner import CannotRun
from mainstay.agent.runners.process.orders import Orders, send
from mainstay.env import commands, tasks

_READ_BYTES: Final = 32 * 1024
_END_OF_INPUT: Final = b"\x04"  # What a terminal takes for it.
_STDOUT, _STDERR = 1, 2
_HELPER_IS_LATE: Final = timedelta(seconds=5)


class ProcessSession:
    """A `Session` with a real process."""

    def __init__(self, process: "subprocess.Popen[bytes]", streams: dict[int, int], stdin: int, control: int) -> None:
        self._process = process
        self._streams = streams  # Ours to read: by descriptor, 1 or 2.
        self._stdin = stdin  # -1: there is none.
        self._control = control
        self._is_terminal = stdin in streams
        self._over = tasks.spawn(self._wait(), name=f"session {process.pid}")

    def when_over(self, call: Callable[[], object]) -> None:
        self._over.add_done_callback(lambda _: call())

    async def read(self) -> tuple[int, bytes] | None:
        while self._streams:
            for descriptor, number in list(self._streams.items()):
                try:
                    data = os.read(descriptor, _READ_BYTES)
                except BlockingIOError:
                    continue
                except OSError as error:
                    if error.errno != errno.EIO:  # How a terminal says that it is over.
                        raise
                    data = b""
                if data:
                    # The other one comes first next time.
                    self._streams[descriptor] = self._streams.pop(descriptor)
                    return number, data
                self._close_stream(descriptor)
            if self._streams:
                await _any_readable(list(self._streams))
        return None

    def _close_stream(self, descriptor: int) -> None:
        del self._streams[descriptor]
        if descriptor == self._stdin:
            self._stdin = -1
        os.close(descriptor)

    async def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view and self._stdin >= 0:
            try:
                view = view[os.write(self._stdin, view) :]
            except BlockingIOError:
                await _writable(self._stdin)
            except OSError:  # It has no reader any more.
                return

    async def close_input(self) -> None:
        if self._is_terminal:
            await self.write(_END_OF_INPUT)
        elif self._stdin >= 0:
            os.close(self._stdin)
            self._stdin = -1

    def resize(self, columns: int, rows: int) -> None:
        if self._is_terminal and self._stdin >= 0:
            size = struct.pack("HHHH", max(1, rows) & 0xFFFF, max(1, columns) & 0xFFFF, 0, 0)
            with contextlib.suppress(OSError):
                fcntl.ioctl(self._stdin, termios.TIOCSWINSZ, size)

    async def wait(self) -> int:
        return await asyncio.shield(self._over)

    async def end(self) -> None:
        """End the command, with all its children. What it wrote can still be read."""
        self._let_go()
        try:
            async with tasks.timeout(_HELPER_IS_LATE):
                await asyncio.shield(self._over)
        except TimeoutError:  # The helper was stopped from outside. The command dies with it.
            self._process.kill()
            await asyncio.shield(self._over)

    async def kill(self) -> None:
        await self.end()
        for descriptor in list(self._streams):
            self._close_stream(descriptor)
        if self._stdin >= 0:
            os.close(self._stdin)
            self._stdin = -1

    def _let_go(self) -> None:
        """The helper sees the end of this pipe, and kills the command."""
        if self._control >= 0:
            os.close(self._control)
            self._control = -1

    async def _wait(self) -> int:
        descriptor = os.pidfd_open(self._process.pid)
        try:
            await commands.readable(descriptor)
        finally:
            os.close(descriptor)
        code = self._process.wait()
        self._let_go()
        return code if code >= 0 else 128 - code


def start(orders: Orders, argv: list[str], *, has_stdin: bool, has_terminal: bool) -> ProcessSession:
    """Start a command beside the container that the orders are for. `argv` is that of the helper, with its orders still
    missing. Raises `CannotRun`."""
    ours: list[int] = []
    theirs: list[int] = []
    try:
        control_read, control = _pipe(theirs, ours)
        if has_terminal:
            master, slave = os.openpty()
            ours.append(master)
            theirs.append(slave)
            streams, stdin, stdio = {master: _STDOUT}, master, (slave, slave, slave)
        else:
            out, out_write = _pipe(ours, theirs)
            err, err_write = _pipe(ours, theirs)
            if has_stdin:
                stdin_read, stdin = _pipe(theirs, ours)
            else:
                stdin_read, stdin = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC), -1
                theirs.append(stdin_read)
            streams, stdio = {out: _STDOUT, err: _STDERR}, (stdin_read, out_write, err_write)
        for descriptor in ours:
            os.set_blocking(descriptor, False)
        orders = {**orders, "control": control_read, "has_terminal": has_terminal}
        memory = send(orders)
        theirs.append(memory)
        process = subprocess.Popen(
            [word if word != "ORDERS" else str(memory) for word in argv],
            env={},
            cwd="/",
            stdin=stdio[0],
            stdout=stdio[1],
            stderr=stdio[2],
            pass_fds=(memory, control_read),
            start_new_session=True,
        )
    except OSError as error:
        for descriptor in ours:
            os.close(descriptor)
        raise CannotRun("ExecFailed", f"cannot run a command beside the container: {error}") from error
    finally:
        for descriptor in theirs:
            os.close(descriptor)
    return ProcessSession(process, streams, stdin, control)


def _pipe(readers: list[int], writers: list[int]) -> tuple[int, int]:
    reading, writing = os.pipe()
    readers.append(reading)
    writers.append(writing)
    return reading, writing


async def _any_readable(descriptors: list[int]) -> None:
    loop = asyncio.get_running_loop()
    some: asyncio.Future[None] = loop.create_future()

    def is_readable() -> None:
        if not some.done():
            some.set_result(None)

    for descriptor in descriptors:
        loop.add_reader(descriptor, is_readable)
    try:
        await some
    finally:
        for descriptor in descriptors:
            loop.remove_reader(descriptor)


async def _writable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    some: asyncio.Future[None] = loop.create_future()

    def is_writable() -> None:
        if not some.done():
            some.set_result(None)

    loop.add_writer(descriptor, is_writable)
    try:
        await some
    finally:
        loop.remove_writer(descriptor)
