"""What shims and agents write for each other.

Short lines of text, and small JSON objects. The JSON is written here by hand because shims do without the `json`
module; agents read it with the usual tools.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    Value = str | int

_ESCAPES = {ord('"'): '\\"', ord("\\"): "\\\\", **{number: f"\\u{number:04x}" for number in (*range(32), 127)}}


class Lease:
    """Until when at-most-one containers may run, on the machine's clock that never goes back (CLOCK_BOOTTIME).

    The file needs not survive a power cut: neither do the containers, nor the clock.
    """

    __slots__ = ("boot", "stopping_ns", "until_ns")

    def __init__(self, boot: str, until_ns: int, stopping_ns: int) -> None:
        self.boot = boot
        self.until_ns = until_ns
        self.stopping_ns = stopping_ns

    @property
    def begin_stopping_ns(self) -> int:
        """From here on nothing is begun, and what runs is asked to end."""
        return self.until_ns - self.stopping_ns

    @property
    def kill_ns(self) -> int:
        """When whatever still runs is killed: a little before it must be gone, since that takes a moment too."""
        return self.until_ns - min(self.stopping_ns // 4, 1_000_000_000)


def write_lease(path: str, lease: Lease) -> None:
    replace(path, f"{lease.boot} {lease.until_ns} {lease.stopping_ns}\n".encode(), is_synced=False)


def read_lease(path: str, boot: str) -> Lease:
    """What is held now. If nothing is, or that was before a reboot: a lease that is over."""
    words = _words(path)
    if len(words) != 3 or words[0] != boot:
        return Lease(boot, 0, 0)
    return Lease(boot, int(words[1]), int(words[2]))


def write_holder(descriptor: int, pid: int, started: int, boot: str) -> None:
    """Into a locked file: which process it is that holds it."""
    os.pwrite(descriptor, f"{pid} {started} {boot}\n".encode(), 0)


def read_holder(path: str) -> tuple[int, int, str] | None:
    words = _words(path)
    return (int(words[0]), int(words[1]), words[2]) if len(words) == 3 else None


def _words(path: str) -> list[str]:
    try:
        with open(path, "rb") as file:
            return file.read().decode().split()
    except FileNotFoundError:
        return []


def encode_json(pairs: Iterable[tuple[str, Value]]) -> bytes:
    """A JSON object of texts and numbers."""
    parts = [f'"{name}":{value if isinstance(value, int) else _quoted(value)}' for name, value in pairs]
    return ("{" + ",".join(parts) + "}\n").encode("utf-8", "replace")


def _quoted(text: str) -> str:
    return '"' + text.translate(_ESCAPES) + '"'


def replace(path: str, data: bytes, *, is_synced: bool = True) -> None:
    """Write a file all at once: a reader sees the old one or the new one. Nothing has changed if it raises."""
    draft = f"{path}.new"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        if is_synced:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(draft, path)
    if is_synced:
        sync_directory(os.path.dirname(path))


def sync_directory(path: str) -> None:
    """Make the names in it survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def timestamp(time_ns: int) -> str:
    """RFC 3339 with all nine digits, so that the order of the texts is that of the times."""
    seconds, nanoseconds = divmod(time_ns, 1_000_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{nanoseconds:09d}Z"


def boot_ns() -> int:
    """The clock of `Lease`, and of all deadlines."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def process_stat(pid: int | str) -> tuple[str, int, int, int, int, int, int] | None:
    """State, parent, process group, session, ticks of CPU time (with those of reaped children), when it started, and
    pages in memory. None if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(b")") + 2 :].split()  # The name comes before, and may contain anything.
    used = sum(map(int, fields[11:15]))
    return fields[0].decode(), int(fields[1]), int(fields[2]), int(fields[3]), used, int(fields[19]), int(fields[21])
