"""Backups of stores that seal the values of Secrets: nothing readable in the file, and no key needed to restore it."""

import base64
from pathlib import Path

import pytest

from mainstay.cli.store_verify import render_report
from mainstay.env import Chance, SystemClock, SystemDisk, tasks
from mainstay.server.backup.contents import BackupContents, read_contents
from mainstay.server.backup.data_dir import export_data_dir
from mainstay.server.backup.directory_restore import restore_directory
from mainstay.server.backup.etcd_restore import restore_store
from mainstay.server.backup.verification import StoreReport, verify_store
from mainstay.server.storage.key_rotation import RECORD
from mainstay.store import open_sqlite
from mainstay.store.errors import UnknownEncryptionKey
from mainstay.store.etcd.store import EtcdStore
from mainstay.store.interface import Put, Store
from mainstay.store.local import LocalStore
from mainstay.store.sealer import AS_STORED, EncryptionKey, KeyRing, Sealer
from mainstay.store.sqlite_log import SqliteLog
from tests.server.backup.stores import a_backup, write_objects
from tests.store.fake_etcd import FakeEtcd

PASSWORD = base64.b64encode(b"hunter2-hunter2")
SECRET = "core/secrets/default/s"
VALUE = b'{"metadata":{"name":"s"},"data":{"password":"%s"}}' % PASSWORD
PREFIXES = ("core/secrets/", "~operations/")


def a_ring(*ids: str) -> KeyRing:
    return KeyRing([EncryptionKey(each, each.encode().ljust(32, b"x")) for each in ids], PREFIXES)


async def sealed_store(path: Path, sealer: Sealer) -> LocalStore:
    store = await LocalStore.open(SqliteLog(SystemDisk(path / "store"), sealer=sealer))
    await write_objects(store)
    await store.commit([], [Put(SECRET, VALUE)])
    return store


async def a_sealed_backup(path: Path, key: str = "k1") -> BackupContents:
    store = await sealed_store(path / "source", a_ring(key))
    contents = await a_backup(store, path / "cluster.backup")
    await store.close()
    return contents


async def read_secret(store: Store) -> bytes | None:
    entry = await store.get(SECRET)
    await store.close()
    return None if entry is None else entry.value


async def test_a_backup_of_a_sealed_store_has_nothing_readable_and_names_its_key(tmp_path: Path):
    contents = await a_sealed_backup(tmp_path)

    assert (contents.facts.head.keys, contents.facts.encryption_keys) == (("k1",), ("k1",))
    assert not any(PASSWORD in entry.value for entry in contents.entries)


async def test_the_backup_of_a_stopped_server_needs_no_key_and_stays_sealed(tmp_path: Path):
    await (await sealed_store(tmp_path, a_ring("k1"))).close()
    pieces = [piece async for piece in export_data_dir(tmp_path, SystemClock(), with_keys=False)]
    file = tmp_path / "cluster.backup"
    file.write_bytes(b"".join(pieces))

    contents = read_contents(file)

    assert contents.facts.encryption_keys == ("k1",)
    assert not any(PASSWORD in entry.value for entry in contents.entries)


async def test_a_restored_directory_opens_with_the_key_and_with_no_other(tmp_path: Path):
    await restore_directory(await a_sealed_backup(tmp_path), tmp_path / "data", SystemClock(), replaces=False)

    with pytest.raises(UnknownEncryptionKey, match="'k1'"):
        await open_sqlite(tmp_path / "data" / "store", a_ring("k2"))
    assert await read_secret(await open_sqlite(tmp_path / "data" / "store", a_ring("k2", "k1"))) == VALUE


async def test_a_sealed_backup_is_restored_into_etcd_without_a_key(tmp_path: Path):
    fake, contents = FakeEtcd(), await a_sealed_backup(tmp_path)
    target = EtcdStore(fake.client(), "/mainstay/", chance=Chance(b"test"), sealer=AS_STORED)

    await restore_store(contents, target, SystemClock(), None, lambda text: None)

    await target.close()
    assert await read_secret(EtcdStore(fake.client(), "/mainstay/", chance=Chance(b"t"), sealer=a_ring("k1"))) == VALUE


async def test_a_backup_does_not_change_what_the_store_knows_of_stale_values(tmp_path: Path):
    await (await sealed_store(tmp_path, a_ring("old"))).close()
    ring = a_ring("new", "old")
    store = await open_sqlite(tmp_path / "store", ring)
    assert dict(ring.count_stale()) == {"old": 1}

    contents = await a_backup(store, tmp_path / "cluster.backup")

    assert contents.facts.encryption_keys == ("new",)
    assert dict(ring.count_stale()) == {"old": 1}
    await store.close()


async def test_verify_names_the_key_in_use_and_what_is_not_sealed_with_it(tmp_path: Path):
    await (await sealed_store(tmp_path, a_ring("old"))).close()
    ring = a_ring("new", "old")
    store = await open_sqlite(tmp_path / "store", ring)
    worker = tasks.Worker("verify")

    async def verify() -> StoreReport:
        return [report async for report in verify_store(store, worker)][-1]

    assert "encryption: key 'new'; not sealed with it yet: 1 with 'old'" in render_report(await verify())
    await store.commit([], [Put(SECRET, VALUE)])
    rotated = render_report(await verify())[-1]
    assert rotated.startswith("encryption: key 'new'; all values are sealed with it, but the history needs older keys")
    await store.commit([], [Put(RECORD, b'{"key":"new","revision":9}')])
    assert render_report(await verify())[-1] == "encryption: key 'new'; no record needs another"
    worker.close()
    await store.close()
