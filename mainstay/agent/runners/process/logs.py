"""Reading what containers wrote, also while they write and their files are rotated. See shim_log.py for the form.

Files are read in pieces, and other tasks go on in between. To find the last lines, only the ends of files are read. A
reader keeps its file open, so it reads to the end of what is meanwhile called otherwise, and then goes on with what
came after it. Only a reader that is slower than several whole files misses something.

Who does not follow gets what was there when they asked. Otherwise a container that writes fast would never let them go.
"""

import os
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Final

from mainstay.agent.runner import LogLine, LogQuery
from mainstay.agent.runners.process.beneath import open_regular
from mainstay.env import tasks

_READ_BYTES: Final = 64 * 1024
_LOOK_AGAIN: Final = timedelta(milliseconds=100)


async def read(find: Callable[[], tuple[Path, Callable[[], bool]]], query: LogQuery) -> AsyncIterator[LogLine]:
    """Lines of a log. `find` says where it is, and how to ask whether nothing more will be written."""
    path, is_over = find()
    since = "" if query.since is None else _render_time(query.since)
    file = _Follower(path)
    try:
        file.open(query.tail_lines, since, is_endless=query.follow)
        while True:
            was_over = is_over()  # Before reading: what was written until then is read below.
            while (piece := file.piece()) is not None:
                for line in piece:
                    if line.time >= since:
                        yield line
                await tasks.sleep(timedelta())
            if not query.follow or was_over:
                return
            await tasks.sleep(_LOOK_AGAIN)
    finally:
        file.close()


class _Follower:
    """The place that a reader has reached."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._rest = b""
        self._left: int | None = None  # So many bytes are still to be read. None: all that come.

    def open(self, tail_lines: int | None, since: str, *, is_endless: bool) -> None:
        """Go to where reading begins; and find where it ends, unless it is endless."""
        files = _Parts(self._path)
        try:
            if tail_lines is not None:
                self._file = files.at_tail(tail_lines)
            else:
                self._file = files.at_time(since)
            if not is_endless:
                self._left = 0 if self._file is None else files.bytes_from(self._file)
        finally:
            files.close(self._file)

    def piece(self) -> list[LogLine] | None:
        """The next lines, perhaps none as yet of many bytes. None if all that is there was read."""
        if self._left == 0:
            return None
        if self._file is None:
            self._file = _open(self._path)
            if self._file is None:
                return None
        data = self._read(self._file)
        if not data:
            following = self._next()
            if following is None:
                return None
            # It was renamed after we have found its end: more may have come in between.
            data = self._read(self._file)
            if not data:
                self._file.close()
                self._file, self._rest = following, b""
                return []
            following.close()
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [parsed for line in lines if (parsed := _parse(line)) is not None]

    def _read(self, file: BinaryIO) -> bytes:
        data = file.read(_READ_BYTES if self._left is None else min(_READ_BYTES, self._left))
        if self._left is not None:
            self._left -= len(data)
        return data

    def _next(self) -> BinaryIO | None:
        """The file that comes after the one we have, if there is one."""
        assert self._file is not None
        own = os.fstat(self._file.fileno())
        if _is_at(self._path, own):
            return None
        files = _Parts(self._path)
        try:
            place = next((n for n, file in enumerate(files.open) if os.path.samestat(os.fstat(file.fileno()), own)), -1)
            # Not among them: it was removed, and we go on with the oldest that is left.
            chosen = files.open[place + 1] if place + 1 < len(files.open) else None
        except BaseException:
            files.close(None)
            raise
        files.close(chosen)
        return chosen

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class _Parts:
    """All files of one log, open, the oldest first: as of one moment, although they are renamed meanwhile."""

    def __init__(self, path: Path) -> None:
        self.open: list[BinaryIO] = []
        while True:
            numbers = _numbers(path)
            files = [_open(path.with_name(f"{path.name}.{number}")) for number in numbers] + [_open(path)]
            self.open = [file for file in files if file is not None]
            if _numbers(path) == numbers:
                self._ends = [os.fstat(file.fileno()).st_size for file in self.open]
                return
            self.close(None)

    def close(self, chosen: BinaryIO | None) -> None:
        """Close all but one."""
        for file in self.open:
            if file is not chosen:
                file.close()

    def bytes_from(self, first: BinaryIO) -> int:
        """How many there are from the place in this file on."""
        return sum(self._ends[self.open.index(first) :]) - first.tell()

    def at_tail(self, lines: int) -> BinaryIO | None:
        """The file, at the place, from which on there are that many lines, or all."""
        if not self.open:
            return None
        wanted = lines
        for file, end in zip(reversed(self.open), reversed(self._ends), strict=True):
            start, found = _tail(file, wanted, end)
            if found >= wanted or file is self.open[0]:
                file.seek(start)
                return file
            wanted -= found
        raise AssertionError("there is a first one")

    def at_time(self, since: str) -> BinaryIO | None:
        """The first file that may have lines from then on. Clocks jump, so inside a file nothing is skipped."""
        for file, following in zip(self.open, self.open[1:], strict=False):
            first = _parse(following.readline())
            following.seek(0)
            if first is None or first.time >= since:
                return file
        return self.open[-1] if self.open else None


def _is_at(path: Path, own: os.stat_result) -> bool:
    try:
        return os.path.samestat(path.lstat(), own)
    except FileNotFoundError:  # Between two: what was written is all there.
        return False


def _open(path: Path) -> BinaryIO | None:
    try:
        return open(open_regular(str(path)), "rb", buffering=0)
    except FileNotFoundError:
        return None


def _numbers(path: Path) -> list[int]:
    found = [other.name.removeprefix(f"{path.name}.") for other in path.parent.glob(f"{path.name}.*")]
    return sorted(int(number) for number in found if number.isdigit())


def _tail(file: BinaryIO, lines: int, end: int) -> tuple[int, int]:
    """Where the last lines before the end begin, and how many there are if it has fewer. Reads backwards, in pieces."""
    # What follows the last newline is no line yet.
    position, newlines = end, 0
    while position > 0:
        size = min(_READ_BYTES, position)
        position -= size
        file.seek(position)
        data = _read_all(file, size)
        at = len(data)
        while (at := data.rfind(b"\n", 0, at)) >= 0:
            newlines += 1
            if newlines > lines:
                return position + at + 1, lines
    return 0, newlines


def _read_all(file: BinaryIO, size: int) -> bytes:
    data = b""
    while len(data) < size and (part := file.read(size - len(data))):
        data += part
    return data


def _parse(line: bytes) -> LogLine | None:
    """None for what is no line of a log: a shim was killed while it wrote it."""
    parts = line.rstrip(b"\n").split(b" ", 3)
    if len(parts) != 4 or parts[2] not in (b"F", b"P") or parts[1] not in (b"stdout", b"stderr"):
        return None
    text = parts[3] + b"\n" if parts[2] == b"F" else parts[3]
    return LogLine(parts[0].decode("ascii", "replace"), parts[1].decode(), text)


def _render_time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
