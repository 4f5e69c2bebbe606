"""Revisions over bytes. Knows nothing of pods.

One interface (interface.py), and what a caller may rely on is written there. Behind it:

    memory   `open_memory()`         forgets everything when the process ends
    sqlite   `open_sqlite(path)`     the embedded default: one process, one directory, nothing to install
    etcd     `etcd.open_etcd(…)`     any number of processes on one etcd cluster

All of them pass one conformance suite.
"""

from pathlib import Path

from mainstay.env import SystemDisk
from mainstay.store.local import LocalStore
from mainstay.store.log import MemoryLog
from mainstay.store.sealer import PLAIN, Sealer
from mainstay.store.sqlite_log import SqliteLog

__all__ = ["open_memory", "open_sqlite"]


async def open_memory() -> LocalStore:
    """A new, empty store in memory."""
    return await LocalStore.open(MemoryLog())


async def open_sqlite(directory: Path, sealer: Sealer = PLAIN) -> LocalStore:
    """The store in a directory, made if it is not there. Raises `StoreInUse`, `Corrupt`, `UnknownEncryptionKey`."""
    return await LocalStore.open(SqliteLog(SystemDisk(directory), sealer=sealer))
