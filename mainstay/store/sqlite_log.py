"""The log in SQLite: the embedded default, with nothing to install.

SQLite is used as a log only: rows are added at the end, read once when the store is opened, and removed by
compaction. Everything else is answered from memory. Write-ahead mode with `synchronous=FULL`: when a commit returns,
it has been synced. A group of transactions is a single INSERT statement, which is a transaction of its own: one sync,
and nothing to roll back. Then the high-water mark is synced (high_water.py), and only then the group is acknowledged.

Found on opening, whatever part of the database, its write-ahead file or the mark is damaged, old or gone: a log that is
not all that was acknowledged (log_chain.py). It is refused, and left as it was found: SQLite would drop a damaged
write-ahead file when it is closed, so that one is kept under a second name meanwhile.

Formats: 1 had no anchor and no mark; it is upgraded on opening. An older Mainstay refuses format 2.
"""

import contextlib
import logging
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from mainstay.env.disk import DiskFull, Locked, SystemDisk
from mainstay.env.tasks import Worker
from mainstay.store.errors import (
    Corrupt,
    NewerFormat,
    OutcomeUnknown,
    StorageFull,
    StoreError,
    StoreInUse,
    StoreUnavailable,
)
from mainstay.store.high_water import HighWaterFile
from mainstay.store.log import AuditedRows, LogPosition, LogRow, Recovered, checksum, decode_row, encode_row
from mainstay.store.log_audit import audit_rows
from mainstay.store.log_chain import HighWater, LogAnchor, LogChain, ReplacedRow, anchor_of_filled
from mainstay.store.sealer import PLAIN, Sealer

DATABASE: Final = "store.db"
WAL: Final = "store.db-wal"
KEPT_WAL: Final = "store.db-wal.kept"
MARK: Final = "store.mark"
LOCK: Final = "store.lock"
NOTE: Final = "store.note"
APPLICATION_ID: Final = 0x4D_53_54_59  # "MSTY": how we know the file for ours.
FORMAT: Final = 2
FREE_PAGES_KEPT: Final = 256  # What is written next finds room there.
SHRINK_PAGES: Final = 2048  # At a time, after each step of a compaction.
PAGE_BYTES: Final = (
    8192  # Two or three objects of the usual size to a page; SQLite's 4096 would hold one and waste the rest.
)
SIZE_BYTES_MAX: Final = 8 * 1024**3  # Everything is also held in memory: a larger one would not be usable.


_log = logging.getLogger(__name__)


class SqliteLog:
    """Implements `Log` (log.py) in a directory of its own. `size_bytes_max` is where it says `StorageFull`."""

    def __init__(self, disk: SystemDisk, *, size_bytes_max: int = SIZE_BYTES_MAX, sealer: Sealer = PLAIN) -> None:
        self._disk = disk
        self.sealer = sealer
        self._path = disk.root / DATABASE
        self._size_bytes_max = size_bytes_max
        self._worker = Worker("sqlite log")
        self._connection: sqlite3.Connection | None = None
        self._position = LogPosition()
        self._mark = HighWaterFile(disk, MARK)
        self._chain = LogChain()

    async def open(self) -> Recovered:
        recovered = await self._worker.run(self._open)
        self._position.opened(recovered)
        return recovered

    async def append(self, rows: Sequence[LogRow]) -> None:
        self._position.check_append(rows)
        await self._worker.run(self._append, rows)
        self._position.newest = rows[-1].revision

    async def compact(self, compacted: int, rows: Sequence[LogRow]) -> None:
        self._position.check_compaction(compacted, rows)
        await self._worker.run(self._compact, compacted, rows)
        self._position.compacted = compacted

    async def fill(self, compacted: int, rows: Sequence[LogRow]) -> None:
        self._position.check_fill(compacted, rows)
        await self._worker.run(self._fill, compacted, rows)

    async def scrub(self) -> None:
        await self._worker.run(self._scrub)

    async def revisions(self) -> list[int]:
        return await self._worker.run(lambda: self._chain.revisions)

    async def audit(self, revisions: Sequence[int]) -> AuditedRows:
        return await self._worker.run(self._audit, revisions)

    async def close(self) -> None:
        await self._worker.run(self._close)
        self._worker.close()

    def _open(self) -> Recovered:
        try:
            self._disk.lock(LOCK, f"process {os.getpid()}")
        except Locked as error:
            raise StoreInUse(
                f"the store in {self._disk.root} is in use by {error.holder}: stop that one, or use another directory"
            ) from None
        try:
            with keep_wal(self._disk):
                try:
                    return self._read()
                except BaseException:
                    self._close_connection()
                    raise
        except sqlite3.Error as error:
            self._close()
            raise self._cannot_open(error) from error
        except Corrupt as error:
            self._close()
            raise type(error)(f"{self._path}: {error}") from error
        except DiskFull as error:
            self._close()
            raise StorageFull(str(error)) from error
        except BaseException:
            self._close()
            raise

    def _cannot_open(self, error: sqlite3.Error) -> StoreError:
        """What an error of SQLite on opening means. Only damage calls for a backup."""
        code = getattr(error, "sqlite_errorcode", None)
        primary = None if code is None else code & 0xFF
        if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return StoreInUse(f"{self._path} is being used by a program other than Mainstay: {error}. End that one")
        if primary in _PASSING:
            return StoreUnavailable(f"{self._path} cannot be opened now: {error}")
        return Corrupt(f"{self._path}: {error}")

    def _read(self) -> Recovered:
        self._connection = connection = connect(self._disk)
        if _is_empty(connection):
            self._create(connection)
        found = read_format(connection)
        acknowledged = self._mark.read()
        if acknowledged is None and found == FORMAT:
            raise Corrupt(f"{MARK} is missing: without it, whether all that was acknowledged is here cannot be told")
        if NOTE not in self._disk.names():
            self._write_note()
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        connection.execute(f"PRAGMA max_page_count = {self._size_bytes_max // page_bytes}")

        rows, checksums = [], {}
        for revision, expected, writes in connection.execute(_ALL_ROWS):
            # In a damaged file, what is read may not even be bytes.
            if type(writes) is not bytes or expected != checksum(revision, writes):
                raise Corrupt(f"the row of revision {revision} does not match its checksum")
            rows.append(decode_row(revision, writes, self.sealer))
            checksums[revision] = expected
        anchor = read_anchor(connection, found, checksums)
        chain = LogChain(anchor, checksums)
        for fault in chain.find_faults(acknowledged, is_chained=found == FORMAT):
            raise Corrupt(fault)
        if found < FORMAT:
            self._upgrade(connection, chain)
        else:
            self._mark.settle(acknowledged, chain.head)  # The last group may be durable without being acknowledged.
        self._chain = chain
        return Recovered(anchor.compacted, rows)

    def _create(self, connection: sqlite3.Connection) -> None:
        # The note is written last and never changes: an empty database beside it has lost what was in it.
        if NOTE in self._disk.names():
            raise Corrupt("the database is empty, though a store was made here")
        self._mark.create(LogChain().head)
        create_tables(connection)
        self._write_note()

    def _upgrade(self, connection: sqlite3.Connection, chain: LogChain) -> None:
        """From format 1. If it is cut short anywhere, it is begun again: until the end it is a log of format 1, whose
        mark is not ahead of it."""
        self._mark.create(chain.head)
        connection.executescript(_upgrade_script(chain.anchor))
        _move_into_database(connection)
        _log.info("%s: upgraded to format %d", self._path, FORMAT)

    def _write_note(self) -> None:
        self._disk.append(NOTE, b"A Mainstay store. Copy or move the directory as a whole.\n")
        self._disk.sync(NOTE)

    def _append(self, rows: Sequence[LogRow]) -> None:
        parameters: list[int | bytes] = []
        checksums = []
        for row in rows:
            writes = encode_row(row, self.sealer)
            checksums.append(found := checksum(row.revision, writes))
            parameters += (row.revision, found, writes)
        self._execute("INSERT INTO rows VALUES " + ",".join(["(?,?,?)"] * len(rows)), parameters)
        self._acknowledge(self._chain.head_after(checksums))
        self._chain.append(checksums)

    def _acknowledge(self, head: HighWater) -> None:
        """Let the mark say that all up to here will be acknowledged."""
        try:
            self._mark.write(head)
        except (OSError, DiskFull) as error:
            # The rows are there, and nothing may come after them that is acknowledged.
            self._give_up()
            raise OutcomeUnknown(f"{self._disk.root / MARK}: {error}") from error

    def _compact(self, compacted: int, rows: Sequence[LogRow]) -> None:
        written = [(row.revision, encode_row(row, self.sealer) if row.writes else None) for row in rows]
        replaced = [
            ReplacedRow(revision, None if writes is None else checksum(revision, writes))
            for revision, writes in written
        ]
        anchor = self._chain.anchor_after(compacted, replaced)
        self._execute("BEGIN")
        try:
            self._execute(_SET_ANCHOR, _anchor_values(anchor))
            for (revision, writes), row in zip(written, replaced, strict=True):
                if writes is None or row.checksum is None:
                    self._execute("DELETE FROM rows WHERE revision = ?", (revision,))
                else:
                    values = (row.checksum, writes, revision)
                    self._execute("UPDATE rows SET checksum = ?, writes = ? WHERE revision = ?", values)
            self._execute("COMMIT")
        except StorageFull:
            # SQLite may or may not have rolled back by itself.
            if self._connection is not None and self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        self._chain.compact(anchor, replaced)
        self._shrink()

    def _fill(self, compacted: int, rows: Sequence[LogRow]) -> None:
        checksums = []
        self._execute("BEGIN")
        for row in rows:
            writes = encode_row(row, self.sealer)
            checksums.append(found := checksum(row.revision, writes))
            self._execute("INSERT INTO rows VALUES (?,?,?)", (row.revision, found, writes))
        anchor = anchor_of_filled(compacted, checksums)
        self._execute(_SET_ANCHOR, _anchor_values(anchor))
        self._execute("COMMIT")
        self._acknowledge(HighWater(compacted, anchor.chain))

    def _scrub(self) -> None:
        # Also what is free inside pages: only a database that is rewritten has nothing there. The old pages are gone
        # when the write-ahead file has been moved into it.
        self._execute("VACUUM")
        self._execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _audit(self, revisions: Sequence[int]) -> AuditedRows:
        if self._connection is None:
            raise OutcomeUnknown(f"{self._path} is not read any more, since a write failed")
        try:
            found = dict(self._connection.execute(_SOME_ROWS, (revisions[0], revisions[-1])))
        except sqlite3.Error as error:
            span = f"the rows of revisions {revisions[0]} to {revisions[-1]}"
            return AuditedRows([], [f"{self._path}: cannot read {span}: {error}"])
        return audit_rows(revisions, self._chain.look_up(revisions), found, self.sealer.aside())

    def _shrink(self) -> None:
        """Give back to the disk some of what compaction has freed. The file of an older Mainstay does not shrink."""
        if self._connection is None:
            return
        try:
            (free,) = self._connection.execute("PRAGMA freelist_count").fetchone()
            if free > FREE_PAGES_KEPT:
                pages = min(free - FREE_PAGES_KEPT, SHRINK_PAGES)
                self._connection.execute(f"PRAGMA incremental_vacuum({pages})").fetchall()
        except sqlite3.Error as error:
            _log.warning("cannot shrink %s: %s", self._path, error)

    def _execute(self, statement: str, parameters: Sequence[int | bytes] = ()) -> None:
        if self._connection is None:
            raise OutcomeUnknown(f"{self._path} is not written any more, since an earlier write failed")
        try:
            self._connection.execute(statement, parameters)
        except sqlite3.Error as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_FULL:
                raise StorageFull(f"{self._path}: {error}; compact, or free some space") from error
            # Nothing may come after it: a write that waits for its turn must not end up in what this one left open.
            self._give_up()
            raise OutcomeUnknown(f"{self._path}: {error}") from error

    def _give_up(self) -> None:
        if self._connection is not None:
            # What SQLite would do on closing may fail as well, and tells nothing new.
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _close_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _close(self) -> None:
        self._close_connection()
        self._disk.close()


def connect(disk: SystemDisk) -> sqlite3.Connection:
    """A connection to the database in a directory, made if it is not there. It lets no other one in."""
    # One thread uses it at a time, but a worker does not promise that it is always the same one.
    connection = sqlite3.connect(
        disk.root / DATABASE, isolation_level=None, check_same_thread=False, cached_statements=512
    )
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    return connection


def create_tables(connection: sqlite3.Connection, anchor: LogAnchor = LogAnchor()) -> None:  # noqa: B008 - frozen
    """Make an empty database a log. Durable when it returns."""
    connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # Or the file would never shrink.
    connection.execute("PRAGMA journal_mode = WAL")
    connection.executescript(f"BEGIN; {_ROWS_TABLE} {_anchor_script(anchor)} PRAGMA application_id = {APPLICATION_ID};"
                             f" PRAGMA user_version = {FORMAT}; COMMIT;")  # fmt: skip
    _move_into_database(connection)


def _move_into_database(connection: sqlite3.Connection) -> None:
    """Whatever becomes of the write-ahead file from now on, the form of the log does not depend on it."""
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


@contextlib.contextmanager
def keep_wal(disk: SystemDisk, *, always: bool = False) -> Iterator[None]:
    """If what is done here fails, or `always`, leave the write-ahead file as it was: it may have more than SQLite can
    read, and goes with the last connection. That must be closed here."""
    names = disk.names()
    if KEPT_WAL in names:  # This was cut short before.
        disk.remove(KEPT_WAL) if WAL in names else disk.rename(KEPT_WAL, WAL)
    is_kept = WAL in disk.names() and disk.link(WAL, KEPT_WAL)
    is_over = False
    try:
        yield
        is_over = not always
    finally:
        if is_kept and is_over:
            disk.remove(KEPT_WAL)
        elif is_kept:
            disk.rename(KEPT_WAL, WAL)


_ALL_ROWS: Final = "SELECT revision, checksum, writes FROM rows ORDER BY revision"
_SOME_ROWS: Final = "SELECT revision, writes FROM rows WHERE revision BETWEEN ? AND ?"
_ROWS_TABLE: Final = (
    "CREATE TABLE rows (revision INTEGER PRIMARY KEY, checksum INTEGER NOT NULL, writes BLOB NOT NULL);"
)
_SET_ANCHOR: Final = "UPDATE anchor SET compacted = ?, chain = ?, count = ?, total = ?, checksum = ?"
_PASSING: Final = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM,
                   sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_AUTH)  # fmt: skip


def _anchor_script(anchor: LogAnchor) -> str:
    columns = ", ".join(f"{name} INTEGER NOT NULL" for name in ("compacted", "chain", "count", "total", "checksum"))
    return f"CREATE TABLE anchor ({columns}); INSERT INTO anchor VALUES {_anchor_values(anchor)};"


def _upgrade_script(anchor: LogAnchor) -> str:
    return f"BEGIN; {_anchor_script(anchor)} DROP TABLE mark; PRAGMA user_version = {FORMAT}; COMMIT;"


def _anchor_values(anchor: LogAnchor) -> tuple[int, ...]:
    values = anchor.compacted, anchor.chain, anchor.count, anchor.total
    return *values, checksum(0, repr(values).encode())


def read_anchor(connection: sqlite3.Connection, found: int, checksums: Mapping[int, int]) -> LogAnchor:
    """The anchor of a log of this format, with these rows. Raises `Corrupt`."""
    if found < FORMAT:
        return _read_first_anchor(connection, checksums)
    anchors = connection.execute("SELECT * FROM anchor").fetchall()
    if len(anchors) == 1 and all(type(value) is int and value >= 0 for value in anchors[0]):
        anchor = LogAnchor(*anchors[0][:4])
        if _anchor_values(anchor) == anchors[0]:
            return anchor
    raise Corrupt("the mark of how far it was compacted does not match its checksum")


def _read_first_anchor(connection: sqlite3.Connection, checksums: Mapping[int, int]) -> LogAnchor:
    """The anchor of a log of format 1, which says only how far it was compacted: the rest is as it is found."""
    marks = connection.execute("SELECT compacted, checksum FROM mark").fetchall()
    if len(marks) == 1:
        compacted, found = marks[0]
        if type(compacted) is int and compacted >= 0 and found == checksum(compacted, b"compacted"):
            before = [each for revision, each in checksums.items() if revision <= compacted]
            return LogAnchor(compacted, 0, len(before), sum(before))
    raise Corrupt("the mark of how far it was compacted does not match its checksum")


def _is_empty(connection: sqlite3.Connection) -> bool:
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    return bool(tables == 0 and application_id == 0)


def read_format(connection: sqlite3.Connection) -> int:
    """The format of the log. Raises `Corrupt` if it is none that can be read."""
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    if application_id != APPLICATION_ID:
        raise Corrupt("this is a SQLite database, but not a Mainstay store")
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    if found > FORMAT:
        raise NewerFormat(f"written by a newer Mainstay (format {found}): this one reads up to format {FORMAT}")
    if found < 1:
        raise Corrupt(f"there is no format {found}")
    return int(found)
