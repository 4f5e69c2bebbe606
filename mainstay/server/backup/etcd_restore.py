"""Make the store of an etcd cluster from a backup.

etcd gives its own revisions, so resource versions change, and 3.4 cannot be made to jump ahead: after a restore into
another etcd, programs with caches of their own must be restarted (docs/guides/backup.md). Entries are written in the
order of their revisions, and what refers to revisions is left out or reset (contents.py). What is replaced is saved in
a backup first. A key in the store (`RESTORING`) keeps servers from starting until all is done; a restore that was cut
short is run again, from its beginning.
"""

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path
from typing import Final

from mainstay.env import Clock, Env, tasks
from mainstay.server.backup.contents import BackupContents, Restored, select_values
from mainstay.server.backup.errors import BackupRefused
from mainstay.server.backup.export import export_backup
from mainstay.server.backup.unfinished import RESTORING
from mainstay.server.services.api_service import RECONCILE_EVERY, SERVER_LEASES
from mainstay.server.store_choice import EtcdChoice, open_chosen
from mainstay.store.errors import OutcomeUnknown, StoreError, StoreUnavailable
from mainstay.store.interface import (
    TRANSACTION_BYTES_MAX,
    TRANSACTION_OPERATIONS_MAX,
    DeleteEntry,
    Entry,
    Put,
    Store,
    Write,
)
from mainstay.store.sealer import AS_STORED

COMMIT_ATTEMPTS: Final = 5
"""A put is the same the second time, and no server runs meanwhile."""

Say = Callable[[str], None]
Save = Callable[[AsyncIterable[bytes]], Awaitable[Path]]
"""Keeps a backup, and returns where."""


async def restore_etcd(contents: BackupContents, choice: EtcdChoice, env: Env, save: Save | None, say: Say) -> Restored:
    """Restore into the etcd cluster at these addresses. `save` keeps a backup of what is replaced; None: nothing may be
    there. Raises `BackupRefused`."""
    try:
        store = await open_chosen(choice, Path(), env, AS_STORED)
        try:
            return await restore_store(contents, store, env.clock, save, say)
        finally:
            await store.close()
    except StoreError as error:
        raise BackupRefused(f"the restore failed: {error}; run it again") from error


async def restore_store(contents: BackupContents, store: Store, clock: Clock, save: Save | None, say: Say) -> Restored:
    """The same for a store that is open. Raises `BackupRefused`, `StoreError`."""
    moved: list[Path] = []
    if await store.get(RESTORING) is None and (await store.range("", limit=1)).entries:
        if save is None:
            raise BackupRefused(
                "the etcd prefix has objects already: use an empty etcd, or replace them with --replace (it saves a"
                " backup of them first)"
            )
        await _require_no_servers(store, say)
        worker = tasks.Worker("backup")
        try:
            async with aclosing(export_backup(store, clock, worker)) as pieces:
                moved.append(await save(pieces))
        finally:
            worker.close()
    await _commit(store, [Put(RESTORING, b"")])
    present = [entry.key async for entry in _entries(store) if entry.key != RESTORING]
    for deletes in _batches([DeleteEntry(key) for key in present]):
        await _commit(store, deletes)
    for writes in _batches([Put(entry.key, entry.value) for entry in select_values(contents.entries)]):
        await _commit(store, writes)
    # What was there before cannot be read any more, and a client that asks for it lists again.
    await store.compact(await store.revision())
    await _commit(store, [DeleteEntry(RESTORING)])
    return Restored(contents.facts, await store.revision(), tuple(moved))


async def _require_no_servers(store: Store, say: Say) -> None:
    before = (await store.range(SERVER_LEASES)).entries
    if not before:
        return
    say("waiting 12 s to see whether API servers still use this etcd")
    await tasks.sleep(RECONCILE_EVERY + timedelta(seconds=2))
    known = {entry.key: entry.revision for entry in before}
    running = [each.key for each in (await store.range(SERVER_LEASES)).entries if known.get(each.key) != each.revision]
    if running:
        where = running[0].removeprefix(SERVER_LEASES).replace("/", ":")
        raise BackupRefused(f"the API server at {where} uses this etcd: stop all API servers first")


async def _entries(store: Store) -> AsyncIterator[Entry]:
    after: str | None = None
    while True:
        page = await store.range("", limit=2000, after=after)
        for entry in page.entries:
            yield entry
        if not page.remaining:
            return
        after = page.entries[-1].key


async def _commit(store: Store, writes: Sequence[Write]) -> None:
    for attempt in range(1, COMMIT_ATTEMPTS + 1):
        try:
            await store.commit([], writes)
        except (OutcomeUnknown, StoreUnavailable):
            if attempt == COMMIT_ATTEMPTS:
                raise
            await tasks.sleep(timedelta(seconds=attempt))
        else:
            return


def _batches(writes: Sequence[Write]) -> Iterator[Sequence[Write]]:
    """In transactions that a store takes."""
    start = size = 0
    for index, write in enumerate(writes):
        bytes_more = len(write.key.encode()) + (len(write.value) if isinstance(write, Put) else 0)
        if index - start >= TRANSACTION_OPERATIONS_MAX or (index > start and size + bytes_more > TRANSACTION_BYTES_MAX):
            yield writes[start:index]
            start, size = index, 0
        size += bytes_more
    if start < len(writes):
        yield writes[start:]
