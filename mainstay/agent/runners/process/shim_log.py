"""Takes down what a container writes, in the form of the CRI, in files of limited size.

    2026-11-16T02:40:00.123456789Z stdout F a line
    2026-11-16T02:40:00.123456789Z stderr P part of a line that goes on below, or that was the last and had no end

The newest part is `PATH`. When it is full it becomes `PATH.1`, the next one `PATH.2`, and so on; only the last few are
kept. As no number is used twice, a reader always knows what comes next (logs.py).

When there is no room on the disk, what is written meanwhile is lost, and a line says how much. A container is never
made to wait for its log.
"""

import os
import time

from mainstay.agent.runners.process.beneath import open_regular
from mainstay.agent.runners.process.records import timestamp

FILE_BYTES_MAX = 10 * 1024 * 1024
FILES_MAX = 5
LINE_BYTES_MAX = 16 * 1024  # As containerd has it. Longer ones are written in parts.
_SECOND_NS = 1_000_000_000


class LogWriter:
    """The log of one attempt."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._rotated = 0
        self._lost_bytes = 0
        self._second = (-1, b"")
        self._file = -1
        self._size = 0
        self._open()

    def write(self, lines: bytes) -> None:
        """Append whole lines of the log."""
        if self._lost_bytes and not self._append(self._confession()):
            self._lost_bytes += len(lines)
            return
        self._lost_bytes = 0
        if not self._append(lines):
            self._lost_bytes = len(lines)

    def stamp(self) -> bytes:
        """The time, as lines begin with it."""
        second, nanoseconds = divmod(time.time_ns(), _SECOND_NS)
        if self._second[0] != second:
            self._second = second, timestamp(second * _SECOND_NS)[:-10].encode()
        return b"%s%09dZ" % (self._second[1], nanoseconds)

    def _append(self, lines: bytes) -> bool:
        if self._size and self._size + len(lines) > FILE_BYTES_MAX:
            self._rotate()
        if self._file < 0:
            return False
        try:
            view = memoryview(lines)
            while view:
                view = view[os.write(self._file, view) :]
        except OSError:
            os.ftruncate(self._file, self._size)  # No half lines.
            return False
        self._size += len(lines)
        return True

    def _confession(self) -> bytes:
        text = b"%s stderr F mainstay: disk full: about %d bytes of output lost\n"
        return text % (self.stamp(), self._lost_bytes)

    def _rotate(self) -> None:
        if self._file >= 0:
            try:
                os.rename(self.path, f"{self.path}.{self._rotated + 1}")
            except OSError:
                return  # It was removed from outside. We go on with what we have.
            os.close(self._file)
            self._file = -1
            self._rotated += 1
        oldest = f"{self.path}.{self._rotated - FILES_MAX + 1}"
        if os.path.exists(oldest):
            os.unlink(oldest)
        try:
            self._open()
        except OSError:
            self._file = -1  # No room for another file: next time.

    def _open(self) -> None:
        self._file = open_regular(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._size = os.fstat(self._file).st_size


class LogStream:
    """One of a container's two streams."""

    def __init__(self, log: LogWriter, name: bytes) -> None:
        self._log = log
        self._name = name
        self._rest = b""  # The beginning of a line that has not ended yet.

    def take(self, data: bytes) -> None:
        """Write down what came: complete lines now, the rest when its end has come."""
        stamp = self._log.stamp()
        full, part = b"%s %s F " % (stamp, self._name), b"%s %s P " % (stamp, self._name)
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        written: list[bytes] = []
        for line in lines:
            while len(line) > LINE_BYTES_MAX:
                written += (part, line[:LINE_BYTES_MAX], b"\n")
                line = line[LINE_BYTES_MAX:]
            written += (full, line, b"\n")
        while len(self._rest) > LINE_BYTES_MAX:
            written += (part, self._rest[:LINE_BYTES_MAX], b"\n")
            self._rest = self._rest[LINE_BYTES_MAX:]
        if written:
            self._log.write(b"".join(written))

    def finish(self) -> None:
        """There is no more to come."""
        if self._rest:
            self._log.write(b"%s %s P %s\n" % (self._log.stamp(), self._name, self._rest))
            self._rest = b""


def last_lines(path: str, lines_max: int, bytes_max: int) -> str:
    """The text at the end of a log."""
    try:
        with open(open_regular(path), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - bytes_max - lines_max * 64))
            lines = file.read().split(b"\n")[:-1]
    except OSError:
        return ""
    text = b""
    for line in lines[-lines_max:]:
        parts = line.split(b" ", 3)
        if len(parts) == 4:
            text += parts[3] + (b"\n" if parts[2] == b"F" else b"")
    return text[-bytes_max:].decode("utf-8", "replace")
