"""The log in SQLite: the embedded default, with nothing to install.

SQLite is used as a log only: rows are added at the end, read once when the store is opened, and removed by
compaction. Everything else is answered from memory. Write-ahead mode with `synchronous=FULL`: when a commit returns,
it has been synced. A group of transactions is a single INSERT statement, which is a transaction of its own: one sync,
and nothing to roll back.

Found on opening: a file that is not SQLite, or not ours, or of a newer format; a row whose bytes do not match their
checksum; a missing revision. Not found: damage to a write-ahead file that was not yet moved into the database, which
SQLite takes for the end of the log.
"""

import logging
import os
import sqlite3
from collections.abc import Sequence
from typing import Final

from mainstay.env.disk import Locked, SystemDisk
from mainstay.env.tasks import Worker
from mainstay.store.errors import Corrupt, OutcomeUnknown, StorageFull, StoreError, StoreInUse, StoreUnavailable
from mainstay.store.log import LogPosition, LogRow, Recovered, checksum, decode_row, encode_row, require_complete
from mainstay.store.sealer import PLAIN, Sealer

DATABASE: Final = "store.db"
LOCK: Final = "store.lock"
NOTE: Final = "store.note"
APPLICATION_ID: Final = 0x4D_53_54_59  # "MSTY": how we know the file for ours.
FORMAT: Final = 1
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
        self._sealer = sealer
        self._path = disk.root / DATABASE
        self._size_bytes_max = size_bytes_max
        self._worker = Worker("sqlite log")
        self._connection: sqlite3.Connection | None = None
        self._position = LogPosition()

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
            return self._read()
        except sqlite3.Error as error:
            self._close()
            raise self._cannot_open(error) from error
        except Corrupt as error:
            self._close()
            raise self._damaged(str(error)) from error
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
        return self._damaged(str(error))

    def _damaged(self, problem: str) -> Corrupt:
        cure = f"Restore {self._disk.root} from a backup, or move it away to start empty"
        return Corrupt(f"{self._path}: {problem}. {cure}")

    def _read(self) -> Recovered:
        # One thread uses it at a time, but a worker does not promise that it is always the same one.
        self._connection = connection = sqlite3.connect(
            self._path, isolation_level=None, check_same_thread=False, cached_statements=512
        )
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        if _is_empty(connection):
            self._create(connection)
        _require_ours(connection)
        if NOTE not in self._disk.names():
            self._write_note()
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        connection.execute(f"PRAGMA max_page_count = {self._size_bytes_max // page_bytes}")

        compacted = _read_mark(connection)
        rows = []
        for revision, found, writes in connection.execute(
            "SELECT revision, checksum, writes FROM rows ORDER BY revision"
        ):
            # In a damaged file, what is read may not even be bytes.
            if type(writes) is not bytes or found != checksum(revision, writes):
                raise Corrupt(f"the row of revision {revision} does not match its checksum")
            rows.append(decode_row(revision, writes, self._sealer))
        require_complete(compacted, [row.revision for row in rows])
        return Recovered(compacted, rows)

    def _create(self, connection: sqlite3.Connection) -> None:
        # The note is written last and never changes: an empty database beside it has lost what was in it.
        if NOTE in self._disk.names():
            raise Corrupt("the database is empty, though a store was made here")
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # Or the file would never shrink.
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(_SCHEMA)
        self._write_note()

    def _write_note(self) -> None:
        self._disk.append(NOTE, f"A Mainstay store, format {FORMAT}. Copy or move the directory as a whole.\n".encode())
        self._disk.sync(NOTE)

    def _append(self, rows: Sequence[LogRow]) -> None:
        parameters: list[int | bytes] = []
        for row in rows:
            writes = encode_row(row, self._sealer)
            parameters += (row.revision, checksum(row.revision, writes), writes)
        self._execute("INSERT INTO rows VALUES " + ",".join(["(?,?,?)"] * len(rows)), parameters)

    def _compact(self, compacted: int, rows: Sequence[LogRow]) -> None:
        self._execute("BEGIN")
        try:
            self._execute("UPDATE mark SET compacted = ?, checksum = ?", (compacted, checksum(compacted, _MARK)))
            for row in rows:
                if row.writes:
                    writes = encode_row(row, self._sealer)
                    values = (checksum(row.revision, writes), writes, row.revision)
                    self._execute("UPDATE rows SET checksum = ?, writes = ? WHERE revision = ?", values)
                else:
                    self._execute("DELETE FROM rows WHERE revision = ?", (row.revision,))
            self._execute("COMMIT")
        except StorageFull:
            # SQLite may or may not have rolled back by itself.
            if self._connection is not None and self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        self._shrink()

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
            self._connection.close()
            self._connection = None
            raise OutcomeUnknown(f"{self._path}: {error}") from error

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._disk.close()


_SCHEMA = f"""
BEGIN;
CREATE TABLE rows (revision INTEGER PRIMARY KEY, checksum INTEGER NOT NULL, writes BLOB NOT NULL);
CREATE TABLE mark (compacted INTEGER NOT NULL, checksum INTEGER NOT NULL);
INSERT INTO mark VALUES (0, {checksum(0, b"compacted")});
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT};
COMMIT;
"""


_MARK: Final = b"compacted"  # In the checksum of the mark, so that it cannot be taken for that of a row.
_PASSING: Final = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM,
                   sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_AUTH)  # fmt: skip


def _read_mark(connection: sqlite3.Connection) -> int:
    marks = connection.execute("SELECT compacted, checksum FROM mark").fetchall()
    if len(marks) == 1:
        compacted, found = marks[0]
        if type(compacted) is int and compacted >= 0 and found == checksum(compacted, _MARK):
            return compacted
    raise Corrupt("the mark of how far it was compacted does not match its checksum")


def _is_empty(connection: sqlite3.Connection) -> bool:
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    return bool(tables == 0 and application_id == 0)


def _require_ours(connection: sqlite3.Connection) -> None:
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    if application_id != APPLICATION_ID:
        raise Corrupt("this is a SQLite database, but not a Mainstay store")
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    if found > FORMAT:
        raise Corrupt(f"written by a newer Mainstay (format {found}): this one reads up to format {FORMAT}")
