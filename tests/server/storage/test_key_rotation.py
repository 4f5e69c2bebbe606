"""Keys are added, taken away and turned off, on a store that is in use: nothing plain is left, and nothing is lost."""

from base64 import b64encode
from pathlib import Path

import pytest

from mainstay.env import Chance, SystemDisk, tasks
from mainstay.server.storage import key_rotation
from mainstay.server.storage.key_rotation import RECORD, SEALED_PREFIXES, KeyRotation, read_sealed
from mainstay.store.errors import UnknownEncryptionKey
from mainstay.store.etcd.store import EtcdStore
from mainstay.store.interface import Committed, DeleteEntry, Put, Store
from mainstay.store.local import LocalStore
from mainstay.store.sealer import PLAIN, PLAIN_ID, EncryptionKey, KeyRing, Sealer
from mainstay.store.sqlite_log import SqliteLog
from tests.store.backends import a_key, a_key_ring
from tests.store.fake_etcd import FakeEtcd

SECRETS = 40
WORDS = [f"the password of number {number} is very long".encode() for number in range(SECRETS)]


def a_ring(*ids: str) -> KeyRing:
    return a_key_ring(*ids, prefixes=SEALED_PREFIXES)


def value_with(word: bytes) -> bytes:
    return b'{"metadata":{"name":"a"},"data":{"plain":"' + word + b'","encoded":"' + b64encode(word) + b'"}}'


def key_of(number: int) -> str:
    return f"core/secrets/default/s{number}"


async def fill(store: Store) -> None:
    for number, word in enumerate(WORDS):
        await store.commit([], [Put(key_of(number), b"{}" * 500), Put(f"core/configmaps/default/c{number}", b"{}")])
        await store.commit([], [Put(key_of(number), value_with(word)), Put(f"~operations/x/{number}", word)])
    for number in range(0, SECRETS, 4):  # What is deleted must not be readable either.
        await store.commit([], [DeleteEntry(key_of(number))])


async def open_sqlite(directory: Path, sealer: Sealer) -> LocalStore:
    return await LocalStore.open(SqliteLog(SystemDisk(directory), sealer=sealer))


def readable_in(directory: Path) -> list[tuple[str, bytes]]:
    found = []
    for path in directory.iterdir():
        data = path.read_bytes()
        found += [(path.name, word) for word in WORDS if word in data or b64encode(word) in data]
    return found


async def rotate(store: Store, ring: KeyRing) -> KeyRotation:
    rotation = KeyRotation(store, ring)
    for _ in range(10):
        await rotation.step()
        if rotation.is_finished:
            return rotation
        await store.compact(await store.revision())
    raise AssertionError(f"the rotation does not end: {ring.stale}")


async def expect_all(store: Store) -> None:
    for number, word in enumerate(WORDS):
        entry = await store.get(key_of(number))
        assert (entry and entry.value) == (None if number % 4 == 0 else value_with(word))


async def test_turning_encryption_on_leaves_nothing_readable_in_any_file(tmp_path: Path) -> None:
    store = await open_sqlite(tmp_path, PLAIN)
    await fill(store)
    await store.close()
    assert readable_in(tmp_path)

    ring = a_ring("first")
    store = await open_sqlite(tmp_path, ring)
    assert len(ring.stale) == SECRETS * 2
    rotation = await rotate(store, ring)
    assert readable_in(tmp_path) == []  # While it runs, the write-ahead file included.
    await store.close()
    assert readable_in(tmp_path) == []
    assert rotation.rewritten == SECRETS * 2 - SECRETS // 4

    store = await open_sqlite(tmp_path, a_ring("first"))
    await expect_all(store)
    await store.close()


async def test_a_key_can_be_removed_when_the_rotation_is_finished_and_not_before(tmp_path: Path) -> None:
    store = await open_sqlite(tmp_path, a_ring("old"))
    await fill(store)
    await store.close()

    store = await open_sqlite(tmp_path, ring := a_ring("new", "old"))
    rotation = KeyRotation(store, ring)
    await rotation.step()  # All of it is written again; the history has the old values still.
    await rotation.step()
    assert not rotation.is_finished
    await store.close()
    with pytest.raises(UnknownEncryptionKey, match="'old'"):
        await open_sqlite(tmp_path, a_ring("new"))

    store = await open_sqlite(tmp_path, ring := a_ring("new", "old"))
    await rotate(store, ring)
    await store.close()
    store = await open_sqlite(tmp_path, a_ring("new"))
    await expect_all(store)
    await store.close()


async def test_encryption_can_be_turned_off_again(tmp_path: Path) -> None:
    store = await open_sqlite(tmp_path, a_ring("old"))
    await fill(store)
    await store.close()
    off = KeyRing([EncryptionKey(PLAIN_ID, b""), a_key("old")], SEALED_PREFIXES)
    store = await open_sqlite(tmp_path, off)
    await rotate(store, off)
    await store.close()

    store = await open_sqlite(tmp_path, PLAIN)
    await expect_all(store)
    await store.close()


async def test_a_write_that_comes_between_is_not_overwritten() -> None:
    etcd = FakeEtcd()
    before = EtcdStore(etcd.client(), chance=Chance(b"1"), sealer=a_ring("old"))
    await fill(before)
    ring = a_ring("new", "old")
    store = EtcdStore(etcd.client(), chance=Chance(b"2"), sealer=ring)
    user = EtcdStore(etcd.client(), chance=Chance(b"3"), sealer=a_ring("new", "old"))
    rotation = KeyRotation(store, ring)

    async def write_all() -> None:
        for number in range(SECRETS):
            await user.commit([], [Put(key_of(number), b"newer")])
            await tasks.sleep(key_rotation.PAUSE / 2)

    writing = tasks.spawn(write_all(), name="user")
    await rotation.step()
    await writing
    await rotate(store, ring)

    for number in range(SECRETS):
        entry = await store.get(key_of(number))
        assert entry is not None
        assert entry.value == b"newer"
    for each in (before, store, user):
        await each.close()


async def test_two_servers_rotate_at_the_same_time_and_both_finish() -> None:
    etcd = FakeEtcd()
    before = EtcdStore(etcd.client(), chance=Chance(b"1"), sealer=a_ring("old"))
    await fill(before)
    rings = [a_ring("new", "old"), a_ring("new", "old")]
    stores = [EtcdStore(etcd.client(), chance=Chance(bytes([n])), sealer=ring) for n, ring in enumerate(rings)]
    rotations = [KeyRotation(store, ring) for store, ring in zip(stores, rings, strict=True)]
    for _ in range(4):
        for step in [tasks.spawn(each.step(), name="step") for each in rotations]:
            await step
        await stores[0].compact(await stores[0].revision())

    assert [each.is_finished for each in rotations] == [True, True]
    only_new = EtcdStore(etcd.client(), chance=Chance(b"9"), sealer=a_ring("new"))
    await expect_all(only_new)
    for each in (before, *stores, only_new):
        await each.close()


async def test_a_record_that_names_a_key_is_withdrawn_when_something_is_stale_again() -> None:
    etcd = FakeEtcd()
    ring = a_ring("new", "old")
    store = EtcdStore(etcd.client(), chance=Chance(b"1"), sealer=ring)
    await fill(store)
    await rotate(store, ring)
    assert await store.get(RECORD) is not None

    behind = EtcdStore(etcd.client(), chance=Chance(b"2"), sealer=a_ring("old", "new"))  # A server that was forgotten.
    assert isinstance(await behind.commit([], [Put(key_of(1), b"by the old key")]), Committed)
    rotation = KeyRotation(store, ring)
    await rotation.step()
    assert await store.get(RECORD) is None
    await rotate(store, ring)
    assert ring.stale == {}
    for each in (store, behind):
        await each.close()


async def test_a_server_without_the_key_is_told_so_for_lists_and_its_watch_waits_for_it() -> None:
    etcd = FakeEtcd()
    store = EtcdStore(etcd.client(), chance=Chance(b"1"), sealer=a_ring("new", "old"))
    blind = EtcdStore(etcd.client(), chance=Chance(b"2"), sealer=a_ring("old"))
    with blind.watch("", after=1) as watch:
        await store.commit([], [Put("core/pods/a", b"{}")])
        assert [change.key for change in (await anext(watch)).changes] == ["core/pods/a"]
        await store.commit([], [Put(key_of(1), b"{}")])
        with pytest.raises(UnknownEncryptionKey, match="'new'"):
            await read_sealed(blind)
        with pytest.raises(TimeoutError):
            async with tasks.timeout(key_rotation.LOOK_EVERY):
                await anext(watch)
    for each in (store, blind):
        await each.close()
