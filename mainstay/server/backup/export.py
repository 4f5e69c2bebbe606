"""Read a store into a backup, at one revision, while others go on writing.

A store that is in memory is read in one step: entries never change, so a list of them is a snapshot, and takes no copy
of the values. One that is elsewhere (etcd) is read page by page at one revision, which is held meanwhile; other servers
may compact it all the same, and then the backup fails with `Compacted`. Encoding and compression run on a worker, one
chunk of about a megabyte at a time, and only when the reader of the backup has taken the last one.

What a backup has: every object, with its uid, resourceVersion and creation; and what the server keeps beside objects
(ledgers of nodes, quotas, terms of leaders, addresses). What it does not have: the journal, the files of pods, and the
keys and certificates in the data directory, unless they are given as `files`.

Values that the store seals on its disk are sealed in the backup too, with the same key (store/sealer.py): a backup is
as safe as the store, and a server that starts on it needs that key.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from mainstay.api.times import format_time
from mainstay.env import Clock, tasks
from mainstay.env.build import build
from mainstay.server.storage.keyspace import namespace_key
from mainstay.store.backup_format import BackupFile, BackupHead, BackupWriter, chunks
from mainstay.store.etcd.store import EtcdStore
from mainstay.store.interface import Entry, Store
from mainstay.store.local import LocalStore
from mainstay.store.sealer import PLAIN, PLAIN_ID, KeyRing, Sealer

PAGE_ENTRIES: Final = 2000
_SYSTEM_NAMESPACE: Final = "kube-system"


async def export_backup(
    store: Store, clock: Clock, worker: tasks.Worker, files: Sequence[BackupFile] = ()
) -> AsyncGenerator[bytes, None]:
    """The bytes of a backup, piece by piece. Raises `StoreError`; then what came is not a backup."""
    revision = await store.revision()
    hold = store.hold(revision)
    try:
        if store.memory is not None:
            page = await store.range("")
            revision, pages = page.revision, _one_page(page.entries)
        else:
            pages = _pages(store, revision)
        sealer = find_sealer(store).aside()
        head = BackupHead(
            revision=revision,
            made_at=format_time(clock.wall()),
            build=build(),
            cluster=await _find_cluster(store, revision),
            store="etcd" if store.local is None else "local",
            keys=_find_keys(sealer),
        )
        writer = BackupWriter()
        yield writer.begin(head)
        for file in files:
            yield writer.add_file(file)
        async for entries in pages:
            for chunk in chunks(entries):
                yield await worker.run(_encode, writer, chunk, sealer)
        yield writer.finish()
    finally:
        hold.release()


def find_sealer(store: Store) -> Sealer:
    """What seals the values of a store where it keeps them."""
    return store.sealer if isinstance(store, LocalStore | EtcdStore) else PLAIN


def _find_keys(sealer: Sealer) -> tuple[str, ...]:
    return (sealer.key_id,) if isinstance(sealer, KeyRing) and sealer.key_id != PLAIN_ID else ()


def _encode(writer: BackupWriter, entries: Sequence[Entry], sealer: Sealer) -> bytes:
    if not isinstance(sealer, KeyRing):
        return writer.add_entries(entries)
    return writer.add_entries([replace(entry, value=sealer.seal(entry.key, entry.value)) for entry in entries])


async def _one_page(entries: Sequence[Entry]) -> AsyncIterator[Sequence[Entry]]:
    yield entries


async def _pages(store: Store, revision: int) -> AsyncIterator[Sequence[Entry]]:
    after: str | None = None
    while True:
        page = await store.range("", at=revision, limit=PAGE_ENTRIES, after=after)
        yield page.entries
        if not page.remaining:
            return
        after = page.entries[-1].key


async def _find_cluster(store: Store, revision: int) -> str:
    """The uid by which clusters are told apart, or nothing in a store that no server has used."""
    found = await store.get(namespace_key(_SYSTEM_NAMESPACE), at=revision)
    return "" if found is None else str(msgspec.json.decode(found.value)["metadata"]["uid"])
