"""Snapshots: all objects as of one revision, in a file of its own, so that rebuilding a view has somewhere to begin.

A snapshot is written page by page, in the order of keys, under a name that means nothing, and gets its own name once
all of it is durable. The calls block; run them on a `tasks.Worker`.
"""

import contextlib
from collections.abc import Sequence

from mainstay.env.disk import Disk, DiskFull
from mainstay.journal.files import (
    Builder,
    Content,
    FileIndex,
    FileName,
    Series,
    Suffix,
    index_file,
    names_file,
    parsed_name,
)
from mainstay.journal.record import EntryRecord, encode, joined
from mainstay.journal.record_header import EntryGlance
from mainstay.journal.segments import read_file_index, remove_all, replace_file


class Snapshots:
    """Those of one journal, for the one process that writes it."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._builder: Builder | None = None
        self._new = ""
        self.files: dict[int, FileIndex] = {}
        """By revision."""

    @property
    def latest(self) -> int:
        """The revision of the latest one; 0 if there is none."""
        return max(self.files, default=0)

    def open(self) -> None:
        for name in map(parsed_name, self._disk.names()):
            if name is None or name.series != Series.SNAPSHOT:
                continue
            if name.suffix == Suffix.NEW:
                self._disk.remove(str(name))
            elif name.suffix == Suffix.CLOSED:
                self.files[name.number], _ = read_file_index(self._disk, name)

    def begin(self, revision: int) -> None:
        """Begin one; an unfinished one before it is given up."""
        self.give_up()
        self._builder = Builder(Series.SNAPSHOT, revision)
        self._new = str(FileName(Series.SNAPSHOT, revision, Suffix.NEW))
        if self._new in self._disk.names():
            self._disk.remove(self._new)

    def add(self, entries: Sequence[EntryRecord]) -> None:
        """The next entries, in the order of their keys. Raises `DiskFull`, `OSError`."""
        if self._builder is None:
            raise ValueError("no snapshot was begun")
        glances = [EntryGlance(entry.key) for entry in entries]
        data = self._builder.add(Content(joined([encode(entry) for entry in entries]), glances))
        if data:
            self._disk.append(self._new, data)

    def finish(self, revision: int) -> None:
        """From now on it is there. Raises `DiskFull`, `OSError`."""
        if self._builder is None:
            raise ValueError("no snapshot was begun")
        rest, index, names = self._builder.finish()
        self._disk.append(self._new, rest)
        self._disk.sync(self._new)
        name = FileName(Series.SNAPSHOT, revision, Suffix.CLOSED)
        self._disk.rename(self._new, str(name))
        self._builder = None
        self.files[revision] = index
        with contextlib.suppress(DiskFull, OSError):
            replace_file(self._disk, str(name._replace(suffix=Suffix.NAMES)), names_file(names))
            replace_file(self._disk, str(name._replace(suffix=Suffix.INDEX)), index_file(index))

    def give_up(self) -> None:
        """Leave nothing behind of one that was not finished."""
        if self._builder is not None:
            self._builder = None
            with contextlib.suppress(OSError):
                self._disk.remove(self._new)

    def forget(self, revisions: Sequence[int]) -> None:
        for revision in revisions:
            del self.files[revision]
            remove_all(self._disk, Series.SNAPSHOT, revision)
