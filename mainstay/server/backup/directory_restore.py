"""Make the store of a data directory from a backup.

    store.restoring/     the new store is built here, opened once, and compared with the backup
    restore.unfinished   from here on a server refuses to start
    store/, journal/     moved aside (`--replace`), never deleted; store.restoring/ becomes store/
    restore.unfinished   removed

Wherever that is cut short, the directory is as before, or a server refuses it; to run the restore again finishes it.

The new store has the entries as they were, with their revisions, and goes on far ahead of them and of the store that it
replaces (store/epoch_jump.py). That is not before the present time in milliseconds: so also the second restore of one
backup, elsewhere, gives no revision again that the first one gave, unless clocks went back or the store took more than
a thousand writes a second all the time.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mainstay.env import Clock, SystemDisk
from mainstay.env.disk import DiskFull, Locked, exists, is_directory
from mainstay.server.backup.contents import BackupContents, Restored, select_entries
from mainstay.server.backup.data_dir import JOURNAL, KEY_FILES, STORE
from mainstay.server.backup.errors import BackupRefused
from mainstay.server.backup.unfinished import MARKER
from mainstay.store import open_sqlite
from mainstay.store.backup_format import BackupFile
from mainstay.store.epoch_jump import JUMP, build_rows, jump_after
from mainstay.store.errors import Corrupt, StoreError
from mainstay.store.high_water import HighWaterFile
from mainstay.store.interface import Entry
from mainstay.store.sealer import AS_STORED
from mainstay.store.sqlite_log import MARK, SqliteLog

SERVER_LOCK: Final = "server.lock"
BUILDING: Final = "store.restoring"


async def restore_directory(contents: BackupContents, data_dir: Path, clock: Clock, *, replaces: bool) -> Restored:
    """Make the store of a data directory. Raises `BackupRefused`."""
    try:
        disk = SystemDisk(data_dir)
        try:
            disk.lock(SERVER_LOCK, "mainstay restore")
            return await _restore_directory(contents, disk, clock, replaces=replaces)
        finally:
            disk.close()
    except Locked as error:
        raise BackupRefused(f"the data directory {data_dir} is in use by {error.holder}: stop that first") from None
    except DiskFull as error:
        raise BackupRefused(f"{error}: free some space and run the restore again") from error
    except OSError as error:
        raise BackupRefused(f"cannot use {error.filename or data_dir}: {error.strerror or error}") from error
    except StoreError as error:
        raise BackupRefused(f"cannot build the store in {data_dir}: {error}") from error


async def _restore_directory(contents: BackupContents, disk: SystemDisk, clock: Clock, *, replaces: bool) -> Restored:
    # One that was cut short was allowed to replace what is there, or there was nothing.
    may_replace = replaces or MARKER in disk.names()
    present = [name for name in (STORE, JOURNAL) if is_directory(disk.root / name)]
    if present and not may_replace:
        raise BackupRefused(
            f"{disk.root} has a {present[0]} already: restore into an empty directory, or move it aside with --replace"
        )
    highest = max(contents.facts.head.revision, _read_high_water(disk.root / STORE))
    revision = find_next_revision(highest, clock)
    await _build_store(select_entries(contents.entries), disk.root / BUILDING, revision)
    if MARKER not in disk.names():
        disk.append(MARKER, b"A restore of this directory is not finished. Run it again.\n")
        disk.sync(MARKER)
    moved = [_move_aside(disk, name) for name in present]
    disk.rename(BUILDING, STORE)
    keys, moved_keys = _restore_keys(contents.files, disk, may_replace=may_replace)
    disk.remove(MARKER)
    return Restored(contents.facts, revision, (*moved, *moved_keys), keys)


def _read_high_water(store: Path) -> int:
    """The newest revision that the store acknowledged which is replaced, if that can still be told."""
    if not is_directory(store):
        return 0
    disk = SystemDisk(store)
    try:
        mark = HighWaterFile(disk, MARK).read()
    except Corrupt:
        return 0
    finally:
        disk.close()
    return 0 if mark is None else mark.revision


def find_next_revision(highest: int, clock: Clock) -> int:
    """A second restore of the same backup must not give the revisions again that the first one has given."""
    now_ms = int(clock.wall().timestamp() * 1000)
    return jump_after(max(highest, now_ms - JUMP))


async def _build_store(entries: Sequence[Entry], directory: Path, revision: int) -> None:
    left_over = SystemDisk(directory)
    for name in left_over.names():
        left_over.remove(name)
    log = SqliteLog(left_over, sealer=AS_STORED)
    try:
        await log.open()
        await log.fill(revision, build_rows(entries))
    finally:
        await log.close()
    store = await open_sqlite(directory, AS_STORED)
    try:
        page = await store.range("")
    finally:
        await store.close()
    if page.revision != revision or page.entries != list(entries):
        raise BackupRefused(f"{directory} does not have what the backup has: check the disk and run the restore again")


def _move_aside(disk: SystemDisk, name: str) -> Path:
    number = 1
    while exists(disk.root / (aside := f"{name}.replaced-{number}")):
        number += 1
    disk.rename(name, aside)
    return disk.root / aside


def _restore_keys(files: Sequence[BackupFile], disk: SystemDisk, *, may_replace: bool) -> tuple[str, list[Path]]:
    """All of them or none: keys of two clusters do not fit together."""
    wanted = {file.name: file.content for file in files if file.name in KEY_FILES}
    names = disk.names()
    if not wanted or all(name in names and disk.read(name) == content for name, content in wanted.items()):
        return ("unchanged" if wanted else ""), []
    present = [name for name in KEY_FILES if name in names]
    if present and not may_replace:
        return "kept", []
    moved = [_move_aside(disk, name) for name in present]
    for name, content in wanted.items():
        disk.append(name, content)
        disk.sync(name)
    return "restored", moved
