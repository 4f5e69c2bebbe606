"""A restore that was cut short: what it leaves behind, and that no server starts on that."""

from typing import Final

from mainstay.env import Disk
from mainstay.server.storage.keyspace import INTERNAL_PREFIX
from mainstay.store.errors import StoreError
from mainstay.store.interface import Store

MARKER: Final = "restore.unfinished"
"""A file in a data directory."""
RESTORING: Final = f"{INTERNAL_PREFIX}restoring"
"""A key in etcd."""


class RestoreUnfinished(StoreError):
    """The store is half restored. Run the restore again."""


def require_finished_directory(disk: Disk) -> None:
    """Raise `RestoreUnfinished` if a restore of this data directory was cut short."""
    if MARKER in disk.names():
        raise RestoreUnfinished(f"the restore of this data directory was interrupted: {_AGAIN} --data-dir DIR`")


async def require_finished_store(store: Store) -> None:
    """Raise `RestoreUnfinished` if a restore of this store is running, or was cut short. Raises `StoreError`."""
    if await store.get(RESTORING) is not None:
        raise RestoreUnfinished(f"a restore of this store is running, or was interrupted: {_AGAIN} --etcd URL`")


_AGAIN: Final = "run it again to finish it, `mainstay restore FILE"
