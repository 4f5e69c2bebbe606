"""All that can still be read of a log in SQLite, damaged or not: for `verify` and `salvage`.

Opening a store (sqlite_log.py) stops at the first fault. This reads on: rows that a damaged page hides are looked for
in smaller and smaller ranges of revisions, so that one bad page costs the rows on it and no others. Nothing is changed:
the write-ahead file, which SQLite drops when it closes the database, is put back. The calls block.
"""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from mainstay.env.disk import SystemDisk
from mainstay.store.errors import Corrupt
from mainstay.store.high_water import HighWaterFile
from mainstay.store.log import LogRow, checksum, decode_row
from mainstay.store.log_chain import HighWater, LogAnchor, LogChain
from mainstay.store.sealer import AS_STORED
from mainstay.store.sqlite_log import DATABASE, FORMAT, MARK, WAL, connect, keep_wal, read_anchor, read_format
from mainstay.store.sqlite_wal import find_wal_damage

REVISION_MAX: Final = (1 << 63) - 1
QUERIES_MAX: Final = 100_000  # For rows behind damaged pages: a bound for a file that is nothing but damage.
FAULTS_OF_SQLITE_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class LogFault:
    """What is wrong with a file of a store, and where."""

    file: str
    what: str

    def __str__(self) -> str:
        return f"{self.file}: {self.what}"


@dataclass(slots=True)
class LogImage:
    format: int = 0
    """0: it is not known."""
    anchor: LogAnchor | None = None
    acknowledged: HighWater | None = None
    rows: dict[int, LogRow] = field(default_factory=dict)
    """Those that are whole, in the order of revisions. Values are as they are stored."""
    checksums: dict[int, int] = field(default_factory=dict)
    faults: list[LogFault] = field(default_factory=list)

    @property
    def chain(self) -> LogChain:
        return LogChain(self.anchor or LogAnchor(_last_gap(self.checksums)), self.checksums)

    @property
    def highest(self) -> int:
        """The highest revision that is known to have been given."""
        acknowledged = 0 if self.acknowledged is None else self.acknowledged.revision
        return max((*self.rows, self.chain.head.revision, acknowledged))


def _last_gap(checksums: dict[int, int]) -> int:
    """The revision before the last rows that follow each other."""
    revision = max(checksums, default=0)
    while revision in checksums:
        revision -= 1
    return revision


def read_image(disk: SystemDisk, on_row: Callable[[int], None]) -> LogImage:
    """Read the log in a directory, whose lock the caller has. `on_row` is called with how many rows were read so far.
    Raises `OSError`, `sqlite3.Error` if it cannot be read now."""
    image = LogImage()
    try:
        image.acknowledged = HighWaterFile(disk, MARK).read()
    except Corrupt as error:
        image.faults.append(LogFault(MARK, str(error)))
    if DATABASE not in disk.names():
        image.faults.append(LogFault(DATABASE, "the file is missing"))
        return image
    wal_damage = find_wal_damage(disk.read(WAL)) if WAL in disk.names() else None
    with keep_wal(disk, always=True):
        connection = None
        with _noting(image):
            connection = connect(disk)
            image.format = read_format(connection)
            with _noting(image):
                _check_pages(connection, image)
            _read_rows(connection, image, on_row)
            image.anchor = read_anchor(connection, image.format, image.checksums)
        if connection is not None:
            connection.close()
    _compare(image, wal_damage)
    return image


@contextlib.contextmanager
def _noting(image: LogImage) -> Iterator[None]:
    """What cannot be read is a fault."""
    try:
        yield
    except (sqlite3.DatabaseError, Corrupt) as error:
        image.faults.append(LogFault(DATABASE, str(error)))


def _check_pages(connection: sqlite3.Connection, image: LogImage) -> None:
    for (problem,) in connection.execute(f"PRAGMA quick_check({FAULTS_OF_SQLITE_MAX})").fetchall():
        if problem != "ok":
            image.faults.append(LogFault(DATABASE, " ".join(problem.split())))


def _read_rows(connection: sqlite3.Connection, image: LogImage, on_row: Callable[[int], None]) -> None:
    for revision, expected, writes in _rows(connection, image.faults):
        on_row(len(image.rows))
        if type(revision) is not int or type(writes) is not bytes or expected != checksum(revision, writes):
            image.faults.append(LogFault(DATABASE, f"the row of revision {revision} does not match its checksum"))
            continue
        try:
            image.rows[revision] = decode_row(revision, writes, AS_STORED)
        except Corrupt as error:
            image.faults.append(LogFault(DATABASE, str(error)))
            continue
        image.checksums[revision] = expected


def _rows(connection: sqlite3.Connection, faults: list[LogFault]) -> Iterator[tuple[int, int, bytes]]:
    pending = [(0, REVISION_MAX)]
    queries = 0
    while pending and queries < QUERIES_MAX:
        low, high = pending.pop()
        queries += 1
        reached = low
        try:
            for row in connection.execute(_ROWS_BETWEEN, (low, high)):
                yield row
                reached = row[0] + 1
        except sqlite3.DatabaseError as error:
            # What comes next cannot be read from here. It may be reachable from elsewhere: pages are a tree.
            if reached >= high:
                faults.append(LogFault(DATABASE, f"the row of revision {high} cannot be read: {error}"))
            else:
                middle = (reached + high) // 2
                pending += [(middle + 1, high), (reached, middle)]


_ROWS_BETWEEN: Final = "SELECT revision, checksum, writes FROM rows WHERE revision BETWEEN ? AND ? ORDER BY revision"


def _compare(image: LogImage, wal_damage: int | None) -> None:
    """What does not fit together. Where the log ends too early, the place of the damage is known at times."""
    if image.format == FORMAT and image.acknowledged is None and not any(each.file == MARK for each in image.faults):
        image.faults.append(LogFault(MARK, "the file is missing"))
    if image.anchor is None:
        return
    found = image.chain.find_faults(image.acknowledged, is_chained=image.format == FORMAT)
    image.faults += [LogFault(DATABASE, fault) for fault in found]
    if found and wal_damage is not None:
        image.faults.append(LogFault(WAL, f"damaged at byte {wal_damage}: what follows cannot be read"))
