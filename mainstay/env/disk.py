"""Files in one directory: append, sync, read, rename, lock.

The calls block; run them on a `tasks.Worker`. They are few on purpose: what a crash may do to each of them can be said
in one line, and the simulated disk (sim/disk.py) does exactly that.

    append    may be lost, or cut short anywhere, until the file is synced
    sync      when it returns, what was appended before is there after a power cut
    rename    atomic; durable when it returns, and replaces what had that name
    truncate  like append: counts only once synced
    overwrite like append: until the file is synced, any part of it may be there, before or instead of the rest
"""

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol


class DiskFull(Exception):
    """There is no room left. Nothing that was synced is affected; free some space and try again."""


class Locked(Exception):
    """Another process holds this lock. `holder` is what it wrote into it."""

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder


class Disk(Protocol):
    """A directory. Names are plain file names without a path."""

    def names(self) -> list[str]:
        """The files that are there, sorted."""

    def read(self, name: str) -> bytes:
        """All of a file. Raises `FileNotFoundError`."""

    def append(self, name: str, data: bytes) -> None:
        """Write at the end of a file, made if it is not there. Raises `DiskFull`, then part of it may be there."""

    def truncate(self, name: str, size: int) -> None:
        """Cut a file down to its first `size` bytes."""

    def overwrite(self, name: str, offset: int, data: bytes) -> None:
        """Write over bytes that a file has. It takes no more room. Raises `FileNotFoundError`."""

    def sync(self, name: str) -> None:
        """Make what a file holds, and its name, survive a power cut."""

    def rename(self, old: str, new: str) -> None:
        """Give a synced file another name, durably."""

    def remove(self, name: str) -> None:
        """Remove a file. Raises `FileNotFoundError`."""

    def release(self, name: str) -> None:
        """Close a file that is not appended to any more. One that others have removed takes its space until then."""

    def is_in_place(self, name: str) -> bool:
        """Whether a file is there; and if it is being appended to, whether it is still the same one. Any thread may
        ask."""

    def lock(self, name: str, holder: str) -> None:
        """Take a lock until `close` or the end of the process. Raises `Locked`."""

    def close(self) -> None:
        """Let go of all files and locks."""


def read_text(path: Path) -> str:
    """A file that the user named, such as one given on the command line. Raises `OSError`, `UnicodeDecodeError`."""
    return path.read_text(encoding="utf-8")


def read_bytes(path: Path) -> bytes:
    """The same for a file that is no text. Raises `OSError`."""
    return path.read_bytes()


def read_pieces(path: Path, piece_bytes: int) -> Iterator[bytes]:
    """The same for one that is too large to be held in memory. Raises `OSError`. Blocks."""
    with path.open("rb") as file:
        while piece := file.read(piece_bytes):
            yield piece


def make_directory(path: Path) -> None:
    """Also those above it; nothing happens if it is there."""
    path.mkdir(parents=True, exist_ok=True)


def replace_bytes(path: Path, data: bytes) -> None:
    """Let a file have this content: the old one stays until all of the new one is there."""
    beside = path.with_name(f".{path.name}.new")
    beside.write_bytes(data)
    beside.replace(path)


class PendingFile:
    """A file that the user named, while it is written: it gets its name when all of it is there and synced. Only its
    owner can read it. Raises `DiskFull`, `OSError`. Blocks."""

    def __init__(self, path: Path) -> None:
        self._disk = SystemDisk(path.parent)
        self._name = path.name
        self._pending = f".{path.name}.{os.getpid()}.partial"
        self._disk.append(self._pending, b"")

    def write(self, data: bytes) -> None:
        self._disk.append(self._pending, data)

    def commit(self) -> None:
        """Make it durable, in the place of what had its name."""
        self._disk.sync(self._pending)
        self._disk.rename(self._pending, self._name)

    def discard(self) -> None:
        """Remove it, unless it was committed."""
        with contextlib.suppress(FileNotFoundError):
            self._disk.remove(self._pending)
        self._disk.close()


def exists(path: Path) -> bool:
    """Whether there is anything by that name. Blocks."""
    return path.exists()


def files_below(path: Path, *, deep: bool) -> list[Path] | None:
    """The files in a directory that the user named, sorted; `deep`: and in those below it. None: it is no directory."""
    if not path.is_dir():
        return None
    return sorted(each for each in (path.rglob("*") if deep else path.iterdir()) if each.is_file())


def is_directory(path: Path) -> bool:
    """Whether it is there, and one. For files that others make. Blocks."""
    return path.is_dir()


def directories_in(path: Path) -> list[str]:
    """The names of the directories in a directory, sorted. None if that is not there. Blocks."""
    try:
        return sorted(entry.name for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []


class SystemDisk:
    """A directory of the real file system, made if it is not there."""

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.root = root
        self._files: dict[str, int] = {}
        self._in_place: dict[str, int] = {}
        """Files that are overwritten: what is written through the other descriptors goes to the end."""
        self._named: set[str] = set()
        """Files whose name is durable."""
        self._locks: list[int] = []

    def names(self) -> list[str]:
        return sorted(entry.name for entry in os.scandir(self.root) if entry.is_file())

    def read(self, name: str) -> bytes:
        return (self.root / name).read_bytes()

    def append(self, name: str, data: bytes) -> None:
        view = memoryview(data)
        with self._telling_when_full():
            file = self._file(name)
            while view:
                view = view[os.write(file, view) :]

    def truncate(self, name: str, size: int) -> None:
        os.ftruncate(self._file(name), size)

    def overwrite(self, name: str, offset: int, data: bytes) -> None:
        if name not in self._in_place:
            self._in_place[name] = os.open(self.root / name, os.O_RDWR | os.O_CLOEXEC)
        with self._telling_when_full():
            os.pwrite(self._in_place[name], data, offset)

    def sync(self, name: str) -> None:
        self._sync_data(self._in_place[name] if name in self._in_place else self._file(name))
        if name not in self._named:
            self.sync_names()
            self._named.add(name)

    def rename(self, old: str, new: str) -> None:
        # Descriptors follow the file, not the name: drop both so that the next use opens by name.
        for name in (old, new):
            self.release(name)
        os.replace(self.root / old, self.root / new)
        self.sync_names()

    def remove(self, name: str) -> None:
        self.release(name)
        os.unlink(self.root / name)
        self.sync_names()

    def release(self, name: str) -> None:
        self._named.discard(name)
        for files in (self._files, self._in_place):
            if (file := files.pop(name, None)) is not None:
                os.close(file)

    def link(self, name: str, other: str) -> bool:
        """Give a file a second name, under which it stays when the first one is removed. False: that cannot be here."""
        try:
            os.link(self.root / name, self.root / other)
        except OSError:
            return False
        return True

    def is_in_place(self, name: str) -> bool:
        file = self._files.get(name)
        try:
            found = os.stat(self.root / name)
            return file is None or os.path.samestat(found, os.fstat(file))
        except OSError:
            return False  # Removed, or closed by another thread in this moment.

    def lock(self, name: str, holder: str) -> None:
        with self._telling_when_full():
            file = os.open(self.root / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            written = os.pread(file, 1000, 0).decode(errors="replace").strip()
            os.close(file)
            raise Locked(written or "an unknown process") from None
        self._locks.append(file)
        # The text is only there for people. On a full disk it is missing, and the lock is taken all the same: a process
        # that wants to free some room has to start first.
        with contextlib.suppress(DiskFull), self._telling_when_full():
            os.ftruncate(file, 0)
            os.pwrite(file, holder.encode(), 0)

    def close(self) -> None:
        for file in (*self._files.values(), *self._in_place.values(), *self._locks):
            os.close(file)
        self._files.clear()
        self._in_place.clear()
        self._named.clear()
        self._locks.clear()

    def _file(self, name: str) -> int:
        if name not in self._files:
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._files[name] = os.open(self.root / name, flags, 0o600)
        return self._files[name]

    @staticmethod
    def _sync_data(file: int) -> None:
        # Also of a file that has grown: what is needed to read it again is synced too, only its times are not.
        if hasattr(os, "fdatasync"):
            os.fdatasync(file)
        else:
            os.fsync(file)

    @contextlib.contextmanager
    def _telling_when_full(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DiskFull(f"no room left in {self.root}") from error
            raise

    def sync_names(self) -> None:
        directory = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
