"""Writes again what is not sealed as it should be: after encryption was turned on or off, or a key was added in front.

Each stale value (store/sealer.py) is written with the value that it has, on condition that it has not changed. So it
gets a new revision, as in Kubernetes, and a writer that is faster has sealed it already. Any number of servers may do
so at the same time.

The store's history still holds the old values until it is compacted, which is a few minutes later, and a local store
the space that they were in: that is rewritten (`LocalStore.scrub`). Then a record in the store says that nothing needs
the other keys any more. With etcd, the files of its members are the operator's to clean (`etcdctl defrag`).
"""

import logging
from datetime import timedelta
from typing import Final

import msgspec

from mainstay.env import tasks
from mainstay.server.storage.keyspace import CORE, INTERNAL_PREFIX
from mainstay.server.storage.operations import OPERATIONS
from mainstay.store.errors import StoreError
from mainstay.store.interface import ABSENT, Check, Committed, DeleteEntry, Entry, Put, Store
from mainstay.store.local import LocalStore
from mainstay.store.sealer import KeyRing

SEALED_PREFIXES: Final = (f"{CORE}/secrets/", OPERATIONS)
"""Where values of Secrets are in the store: in themselves, and in the outcomes of operations on them."""
RECORD: Final = f"{INTERNAL_PREFIX}encryption"
PAGE_ENTRIES: Final = 500
PAUSE: Final = timedelta(milliseconds=10)  # Between two writes: at most 100 a second.
LOOK_EVERY: Final = timedelta(seconds=15)

_log = logging.getLogger(__name__)


class RotationRecord(msgspec.Struct, frozen=True):
    """Everything is sealed with this key, as of this revision, and nothing else is left of before."""

    key: str
    revision: int


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(RotationRecord).decode


async def find_finished_key(store: Store) -> str:
    """The id of the key with which everything is sealed, so that no record needs another. Empty: none is known to be.
    Raises `StoreError`."""
    found = await store.get(RECORD)
    return "" if found is None else _decode(found.value).key


class KeyRotation:
    """Run it for as long as the server runs."""

    def __init__(self, store: Store, ring: KeyRing) -> None:
        self._store = store
        self._ring = ring
        self._has_read_all = False
        self._written_at: int | None = None
        """Everything was as it should be at this revision; what was before is still in the history."""
        self.is_finished = False
        self.rewritten = 0

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self.step()
            except StoreError as error:
                _log.warning("cannot rotate encryption keys; retrying in %s: %s", LOOK_EVERY, error)
            await tasks.sleep(LOOK_EVERY)

    async def step(self) -> None:
        """Do what can be done now. Raises `StoreError`."""
        if not self._has_read_all:
            await read_sealed(self._store)
            self._has_read_all = True
        found = await self._store.get(RECORD)
        if self._ring.stale:
            self.is_finished = False
            self._written_at = None
            if found is not None:  # What it says is not so any more, whichever key it names.
                await self._store.commit([Check(RECORD, found.revision)], [DeleteEntry(RECORD)])
            await self._write_stale()
            return
        if self.is_finished:
            return
        if found is not None and _decode(found.value).key == self._ring.key_id:
            self.is_finished = True
            return
        if self._written_at is None:
            self._written_at = await self._store.revision()
        if await self._store.compact(1) >= self._written_at:
            await self._finish(found, self._written_at)

    async def _write_stale(self) -> None:
        stale = sorted(self._ring.stale)
        _log.info("sealing %d values with the encryption key %r", len(stale), self._ring.key_id)
        for key in stale:
            entry = await self._store.get(key)
            if entry is None:
                self._ring.stale.pop(key, None)
            elif key in self._ring.stale:  # A writer may have been faster.
                if isinstance(await self._store.commit([Check(key, entry.revision)], [_same(entry)]), Committed):
                    self.rewritten += 1
                await tasks.sleep(PAUSE)

    async def _finish(self, found: Entry | None, revision: int) -> None:
        if isinstance(self._store, LocalStore):
            await self._store.scrub()
        record = Put(RECORD, _encode(RotationRecord(self._ring.key_id, revision)))
        expected = Check(RECORD, ABSENT if found is None else found.revision)
        if isinstance(await self._store.commit([expected], [record]), Committed):
            _log.info("everything is sealed with the encryption key %r; no other is needed", self._ring.key_id)


async def read_sealed(store: Store) -> None:
    """Read all that may be sealed, so that its ring has seen it. Raises `UnknownEncryptionKey`, naming the first that
    cannot be read."""
    for prefix in SEALED_PREFIXES:
        after: str | None = None
        while True:
            page = await store.range(prefix, limit=PAGE_ENTRIES, after=after)
            if not page.remaining:
                break
            after = page.entries[-1].key


def _same(entry: Entry) -> Put:
    return Put(entry.key, entry.value)
