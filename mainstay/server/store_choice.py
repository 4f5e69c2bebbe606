"""Which store a server uses, and opening it."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mainstay.env import Env, tasks, vital
from mainstay.env.disk_checks import add_disk_checks
from mainstay.env.health import Health
from mainstay.server.backup.unfinished import require_finished_directory, require_finished_store
from mainstay.server.encryption_keys import KeyCommand, KeyFiles, KeySource, open_key_ring
from mainstay.server.health_checks import add_store_check
from mainstay.server.request.metrics import Metrics
from mainstay.server.storage.key_rotation import KeyRotation, read_sealed
from mainstay.server.store_damage import STORE, render_refusal, require_salvaged
from mainstay.store import open_memory, open_sqlite
from mainstay.store.errors import Corrupt, NewerFormat
from mainstay.store.etcd.access import NO_ACCESS_CONTROL, EtcdAccess, EtcdLogin, EtcdTlsFiles, require_usable
from mainstay.store.etcd.store import open_etcd
from mainstay.store.interface import Store
from mainstay.store.local import LocalStore
from mainstay.store.sealer import PLAIN, KeyRing, Sealer

__all__ = [
    "SQLITE",
    "EtcdAccess",
    "EtcdChoice",
    "EtcdLogin",
    "EtcdTlsFiles",
    "KeyCommand",
    "KeyFiles",
    "KeySource",
    "MemoryChoice",
    "SqliteChoice",
    "StoreChoice",
    "StoreOpening",
    "wait_until_broken",
]


@dataclass(frozen=True, slots=True)
class SqliteChoice:
    """The store is in the data directory."""


@dataclass(frozen=True, slots=True)
class MemoryChoice:
    """The store is forgotten with the process."""


@dataclass(frozen=True, slots=True)
class EtcdChoice:
    """The store is an etcd cluster, whose members' client addresses are these, each `host:port`."""

    endpoints: tuple[str, ...]
    access: EtcdAccess = NO_ACCESS_CONTROL


StoreChoice = SqliteChoice | MemoryChoice | EtcdChoice
SQLITE: Final = SqliteChoice()


@dataclass(frozen=True, slots=True)
class StoreOpening:
    """What a store needs around it: where it is, who looks after it, what is closed with it."""

    data_dir: Path
    env: Env
    health: Health
    metrics: Metrics
    closing: AsyncExitStack

    async def open(self, choice: StoreChoice, encryption: KeySource | None) -> Store:
        """Open it, let health cover it and the disk, and rotate keys. Raises `StoreError`."""
        require_finished_directory(self.env.disk)
        ring = None if encryption is None else await open_key_ring(encryption)
        store = await open_chosen(choice, self.data_dir, self.env, ring or PLAIN)
        self.closing.push_async_callback(store.close)
        await require_finished_store(store)
        add_store_check(self.health, store)
        add_disk_checks(self.health, self.data_dir)
        if store.local is None:  # A local one has read all there is. Here a key that is missing would show up later.
            await read_sealed(store)
        if ring is not None:
            self._rotate_keys(store, ring)
        return store

    def _rotate_keys(self, store: Store, ring: KeyRing) -> None:
        rotation = KeyRotation(store, ring)
        help_text = "Values of Secrets that are not sealed yet with the first encryption key."
        self.metrics.gauge("mainstay_encryption_stale_values", help_text, lambda: len(ring.stale))
        help_text = "1 if everything is sealed with the first encryption key, and nothing needs another."
        self.metrics.gauge("mainstay_encryption_rotation_finished", help_text, lambda: int(rotation.is_finished))
        rotating = vital.spawn(rotation.run(), name="encryption-keys")
        self.closing.push_async_callback(tasks.stop, rotating)


async def open_chosen(choice: StoreChoice, data_dir: Path, env: Env, sealer: Sealer = PLAIN) -> Store:
    """Open it, and nothing else. Raises `StoreError`."""
    match choice:
        case SqliteChoice():
            return await _open_sqlite(data_dir, sealer)
        case MemoryChoice():
            return await open_memory()
        case EtcdChoice(endpoints, access):
            require_usable(access, env.clock.wall())
            return await open_etcd(endpoints, chance=env.chance.child("store"), access=access, sealer=sealer)


async def _open_sqlite(data_dir: Path, sealer: Sealer) -> Store:
    try:
        require_salvaged(data_dir)
        return await open_sqlite(data_dir / STORE, sealer)
    except NewerFormat:
        raise
    except Corrupt as error:
        raise Corrupt(render_refusal(data_dir, str(error))) from error


async def wait_until_broken(store: Store) -> str:
    """Wait until the store takes no more writes: its disk has failed. A store elsewhere has its own. Returns why."""
    if isinstance(store, LocalStore):
        return await store.broken()
    await asyncio.Event().wait()
    raise AssertionError("unreachable")
