"""Stores to back up, and backups of them."""

from pathlib import Path

from mainstay.env import SystemClock, tasks
from mainstay.server.backup.contents import BackupContents, read_contents
from mainstay.server.backup.export import export_backup
from mainstay.store.backup_format import BackupFile
from mainstay.store.interface import DeleteEntry, Entry, Put, Store

KEYS = [BackupFile(name, f"the {name}".encode()) for name in ("ca.crt", "ca.key", "service-account.key")]


def an_object(name: str, value: str = "") -> bytes:
    return b'{"metadata":{"name":"%s"},"data":{"value":"%s"}}' % (name.encode(), value.encode())


async def write_objects(store: Store, count: int = 30) -> None:
    """Some objects, some of them in one transaction, some changed or deleted since; and what is kept beside them."""
    for n in range(0, count, 3):
        names = [f"m{each:03}" for each in range(n, min(n + 3, count))]
        await store.commit([], [Put(f"core/configmaps/default/{name}", an_object(name)) for name in names])
    await store.commit([], [Put("core/configmaps/default/m001", an_object("m001", "changed"))])
    await store.commit([], [DeleteEntry("core/configmaps/default/m002")])
    await store.commit([], [Put("~terms/kube-system/scheduler", b"a"), Put("~openings/first", b"")])


async def a_backup(store: Store, path: Path, files: list[BackupFile] | None = None) -> BackupContents:
    """Of this store, in a file, read back."""
    worker = tasks.Worker("backup")
    pieces = [piece async for piece in export_backup(store, SystemClock(), worker, files or [])]
    worker.close()
    path.write_bytes(b"".join(pieces))  # noqa: ASYNC240 - a test
    return read_contents(path)


async def all_entries(store: Store) -> list[Entry]:
    return (await store.range("")).entries


def without_epochs(entries: list[Entry]) -> list[Entry]:
    return [entry for entry in entries if not entry.key.startswith("~openings/")]
