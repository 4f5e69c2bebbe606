"""The stores that the shared suites run on, each opened in the same way."""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from mainstay.env import Chance, SystemDisk
from mainstay.sim.disk import SimDisk
from mainstay.sim.run.choices import Choices
from mainstay.store import open_memory
from mainstay.store.disk_log import DiskLog
from mainstay.store.etcd import EtcdStore, open_etcd
from mainstay.store.interface import Store
from mainstay.store.local import LocalStore
from mainstay.store.sealer import PLAIN, EncryptionKey, KeyRing, Sealer
from mainstay.store.sqlite_log import SqliteLog
from tests.requirements import needs
from tests.store.etcd_process import shared_etcd, unique_prefix
from tests.store.fake_etcd import FakeEtcd
from tests.store.secure_etcd import shared_secure_etcd

BACKENDS = [
    "memory",
    "sqlite",
    "disk-log",
    "fake-etcd",
    "sqlite-sealed",
    "disk-log-sealed",
    "fake-etcd-sealed",
    pytest.param("sqlite-threads", marks=pytest.mark.real_loop),
    pytest.param("etcd", marks=[pytest.mark.real_loop, needs("etcd")]),
    pytest.param("etcd-secure", marks=[pytest.mark.real_loop, needs("etcd")]),
]


@dataclass(frozen=True)
class Backend:
    """Opens one kind of store. Opening again gives the same data, where the store keeps any."""

    name: str
    reopen: Callable[[], Awaitable[Store]]

    @classmethod
    def make(cls, name: str, directory: Path) -> "Backend":
        return cls(name, _opener(name, directory))

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Store]:
        store = await self.reopen()
        try:
            yield store
        finally:
            await store.close()


def _opener(name: str, directory: Path) -> Callable[[], Awaitable[Store]]:
    match name:
        case "memory":
            return open_memory
        case "sqlite" | "sqlite-threads":
            return lambda: LocalStore.open(SqliteLog(SystemDisk(directory)))
        case "sqlite-sealed":
            return lambda: LocalStore.open(SqliteLog(SystemDisk(directory), sealer=a_key_ring()))
        case "disk-log" | "disk-log-sealed":
            disk = SimDisk(Choices(), "disk")
            return lambda: LocalStore.open(DiskLog(disk, a_key_ring() if name == "disk-log-sealed" else PLAIN))
        case "fake-etcd" | "fake-etcd-sealed":
            fake = FakeEtcd()
            return lambda: _open_fake(fake, a_key_ring() if name == "fake-etcd-sealed" else PLAIN)
        case "etcd":
            prefix = unique_prefix()
            return lambda: open_etcd([shared_etcd().endpoint], prefix, chance=Chance(b"test"))
        case "etcd-secure":
            etcd, prefix, ring = shared_secure_etcd(), unique_prefix(), a_key_ring()
            return lambda: open_etcd([etcd.endpoint], prefix, chance=Chance(b"test"), access=etcd.access(), sealer=ring)
        case _:
            raise ValueError(f"no store is called {name!r}")


async def _open_fake(fake: FakeEtcd, sealer: Sealer) -> Store:
    return EtcdStore(fake.client(), "/mainstay/", chance=Chance(b"test"), sealer=sealer)


def a_key(key_id: str) -> EncryptionKey:
    """The same one for the same id."""
    return EncryptionKey(key_id, hashlib.sha256(key_id.encode()).digest())


def a_key_ring(*key_ids: str, prefixes: tuple[str, ...] = ("",)) -> KeyRing:
    return KeyRing([a_key(each) for each in key_ids or ("first",)], prefixes)
