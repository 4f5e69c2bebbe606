"""Which store a server uses, and opening it."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mainstay.env import Env
from mainstay.env.disk_checks import add_disk_checks
from mainstay.env.health import Health
from mainstay.server.backup.unfinished import require_finished_directory, require_finished_store
from mainstay.server.health_checks import add_store_check
from mainstay.server.store_damage import STORE, render_refusal, require_salvaged
from mainstay.store import open_memory, open_sqlite
from mainstay.store.errors import Corrupt, NewerFormat
from mainstay.store.etcd.access import NO_ACCESS_CONTROL, EtcdAccess, EtcdLogin, EtcdTlsFiles, require_usable
from mainstay.store.etcd.store import open_etcd
from mainstay.store.interface import Store
from mainstay.store.local import LocalStore

__all__ = [
    "SQLITE",
    "EtcdAccess",
    "EtcdChoice",
    "EtcdLogin",
    "EtcdTlsFiles",
    "MemoryChoice",
    "SqliteChoice",
    "StoreChoice",
    "open_store",
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


async def open_store(choice: StoreChoice, data_dir: Path, env: Env, health: Health) -> Store:
    """Open it, and let health cover it and the disk. Raises `StoreError`."""
    require_finished_directory(env.disk)
    store = await open_chosen(choice, data_dir, env)
    try:
        await require_finished_store(store)
    except BaseException:
        await store.close()
        raise
    add_store_check(health, store)
    add_disk_checks(health, data_dir)
    return store


async def open_chosen(choice: StoreChoice, data_dir: Path, env: Env) -> Store:
    """Open it, and nothing else. Raises `StoreError`."""
    match choice:
        case SqliteChoice():
            return await _open_sqlite(data_dir)
        case MemoryChoice():
            return await open_memory()
        case EtcdChoice(endpoints, access):
            require_usable(access, env.clock.wall())
            return await open_etcd(endpoints, chance=env.chance.child("store"), access=access)


async def _open_sqlite(data_dir: Path) -> Store:
    try:
        require_salvaged(data_dir)
        return await open_sqlite(data_dir / STORE)
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
