"""Back up the data directory of a server that does not run: its store, and if asked for, its keys."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final

from mainstay.env import Clock, SystemDisk, tasks
from mainstay.env.disk import is_directory
from mainstay.server.auth.tokens import KEY_FILE
from mainstay.server.backup.errors import BackupRefused
from mainstay.server.backup.export import export_backup
from mainstay.store import open_sqlite
from mainstay.store.backup_format import BackupFile
from mainstay.store.errors import StoreError, StoreInUse
from mainstay.store.sealer import AS_STORED

STORE: Final = "store"
JOURNAL: Final = "journal"
KEY_FILES: Final = ("ca.crt", "ca.key", KEY_FILE)
"""What makes a server the same for its clients: the authority, and the key of service account tokens. All else in a
data directory is made from these."""


async def export_data_dir(data_dir: Path, clock: Clock, *, with_keys: bool) -> AsyncGenerator[bytes, None]:
    """The bytes of a backup. Raises `BackupRefused`."""
    if not is_directory(data_dir / STORE):
        raise BackupRefused(
            f"no store in {data_dir}: give the data directory of a server with --store sqlite, or leave out --data-dir"
            " to back up a running server"
        )
    files = _read_keys(data_dir) if with_keys else []
    try:
        store = await open_sqlite(data_dir / STORE, AS_STORED)  # What is sealed stays so, and no key is needed.
    except StoreInUse as error:
        raise BackupRefused(f"{error}; to back up a running server, leave out --data-dir") from None
    except StoreError as error:
        raise BackupRefused(str(error)) from error
    worker = tasks.Worker("backup")
    try:
        async for piece in export_backup(store, clock, worker, files):
            yield piece
    finally:
        worker.close()
        await store.close()


def _read_keys(data_dir: Path) -> list[BackupFile]:
    disk = SystemDisk(data_dir)
    missing = [name for name in KEY_FILES if name not in disk.names()]
    if missing:
        raise BackupRefused(f"{data_dir} has no {missing[0]}: leave out --with-keys, or back up keys by other means")
    return [BackupFile(name, disk.read(name)) for name in KEY_FILES]
