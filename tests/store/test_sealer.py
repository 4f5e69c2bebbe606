"""Encryption at rest: nothing readable is written down, the right key reads it, everything else is a clear refusal."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mainstay.env import Chance, SystemDisk
from mainstay.sim.disk import SimDisk
from mainstay.sim.run.choices import Choices
from mainstay.store import open_memory
from mainstay.store.disk_log import DiskLog
from mainstay.store.errors import Corrupt, InvalidStoreRequest, UnknownEncryptionKey
from mainstay.store.etcd.store import EtcdStore
from mainstay.store.interface import Put
from mainstay.store.local import LocalStore
from mainstay.store.log import Log
from mainstay.store.sealer import MAGIC, PLAIN, PLAIN_ID, EncryptionKey, KeyRing, Sealer, read_key_id
from mainstay.store.sqlite_log import SqliteLog
from tests.store.backends import a_key, a_key_ring
from tests.store.fake_etcd import FakeEtcd

SECRET = b"the launch code is 0000"


def test_a_sealed_value_shows_the_key_id_and_nothing_of_the_value() -> None:
    ring = a_key_ring("2026-11")
    sealed = ring.seal("core/secrets/default/a", SECRET)

    assert SECRET not in sealed
    assert read_key_id(sealed) == "2026-11"
    assert ring.unseal("core/secrets/default/a", sealed) == SECRET


def test_the_same_value_is_sealed_differently_each_time() -> None:
    ring = a_key_ring()
    assert ring.seal("a", SECRET) != ring.seal("a", SECRET)


def test_only_keys_with_one_of_the_prefixes_are_sealed() -> None:
    ring = a_key_ring(prefixes=("core/secrets/", "~operations/"))

    assert ring.seal("core/configmaps/a", b"plain") == b"plain"
    assert read_key_id(ring.seal("~operations/a", b"x")) == "first"


def test_a_sealed_value_that_was_moved_to_another_key_is_damage() -> None:
    ring = a_key_ring()
    with pytest.raises(Corrupt, match="core/secrets/b"):
        ring.unseal("core/secrets/b", ring.seal("core/secrets/a", SECRET))


@pytest.mark.parametrize("at", range(0, 50, 7))
def test_a_changed_byte_of_a_sealed_value_is_never_read_as_another_value(at: int) -> None:
    ring = a_key_ring()
    sealed = bytearray(ring.seal("a", SECRET))
    sealed[at] ^= 0x40
    if at < len(MAGIC):
        assert ring.unseal("a", bytes(sealed)) == bytes(sealed)  # It is no longer sealed at all: the checksum finds it.
        return
    with pytest.raises((Corrupt, UnknownEncryptionKey)):
        ring.unseal("a", bytes(sealed))


@pytest.mark.parametrize("length", range(len(MAGIC), 40))
def test_a_sealed_value_that_was_cut_short_is_damage(length: int) -> None:
    ring = a_key_ring()
    with pytest.raises((Corrupt, UnknownEncryptionKey)):
        ring.unseal("a", ring.seal("a", SECRET)[:length])


@pytest.mark.parametrize("sealer", [PLAIN, a_key_ring("other")])
def test_a_value_of_an_unknown_key_is_refused_with_the_id_of_the_key(sealer: Sealer) -> None:
    with pytest.raises(UnknownEncryptionKey, match=r"core/secrets/a .* 'first'") as refused:
        sealer.unseal("core/secrets/a", a_key_ring("first").seal("core/secrets/a", SECRET))
    assert refused.value.key_id == "first"


def test_another_key_with_the_same_id_is_named_as_a_possible_cause() -> None:
    other = KeyRing([EncryptionKey("first", bytes(32))], [""])
    with pytest.raises(Corrupt, match="another key has this id"):
        other.unseal("a", a_key_ring("first").seal("a", SECRET))


async def test_a_plain_value_that_begins_like_a_sealed_one_cannot_be_stored() -> None:
    store = await open_memory()
    with pytest.raises(InvalidStoreRequest, match="begins like a sealed one"):
        await store.commit([], [Put("a", MAGIC + b"x")])
    await store.close()


def test_the_first_key_seals_and_all_keys_unseal() -> None:
    old, new = a_key_ring("old"), a_key_ring("new", "old")

    assert new.unseal("a", old.seal("a", SECRET)) == SECRET
    assert read_key_id(new.seal("a", SECRET)) == "new"


def test_a_ring_knows_what_is_stale_until_it_is_sealed_again() -> None:
    ring = a_key_ring("new", "old")
    ring.unseal("a", a_key_ring("old").seal("a", SECRET))
    ring.unseal("b", b"plain")
    ring.unseal("c", ring.seal("c", SECRET))
    assert ring.count_stale() == {"old": 1, PLAIN_ID: 1}

    ring.seal("a", SECRET)
    assert ring.stale == {"b": PLAIN_ID}


def test_a_plain_first_key_turns_encryption_off_and_reads_what_was_sealed() -> None:
    ring = KeyRing([EncryptionKey(PLAIN_ID, b""), a_key("old")], [""])
    assert ring.unseal("a", a_key_ring("old").seal("a", SECRET)) == SECRET
    assert ring.stale == {"a": "old"}
    assert ring.seal("a", SECRET) == SECRET


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ([], "there is no encryption key"),
        ([EncryptionKey("a", b"short")], "'a' has 5 bytes: 32 are needed"),
        ([a_key("a"), a_key("a")], "two encryption keys have the id 'a'"),
        ([a_key("a"), EncryptionKey(PLAIN_ID, b"")], "may only be the first"),
        ([EncryptionKey(PLAIN_ID, b"")], "needs another key after it"),
        ([a_key("x" * 41)], "1 to 40 ASCII characters"),
        ([a_key("ä")], "1 to 40 ASCII characters"),
    ],
)
def test_keys_that_make_no_ring_are_refused(keys: list[EncryptionKey], problem: str) -> None:
    with pytest.raises(InvalidStoreRequest, match=problem):
        KeyRing(keys, [""])


def test_a_key_does_not_show_its_secret() -> None:
    assert "secret" not in repr(a_key("a"))
    assert repr(a_key("a").secret) not in repr(a_key("a"))


# In the stores.


@pytest.fixture(params=["sqlite", "disk-log"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Sealer], Log]:
    disk = SimDisk(Choices(), "disk")
    if request.param == "sqlite":
        return lambda sealer: SqliteLog(SystemDisk(tmp_path), sealer=sealer)
    return lambda sealer: DiskLog(disk, sealer)


async def test_a_log_cannot_be_opened_without_the_key_and_says_which(log: Callable[[Sealer], Log]) -> None:
    store = await LocalStore.open(log(a_key_ring("first")))
    await store.commit([], [Put("a", SECRET)])
    await store.close()

    for sealer in (PLAIN, a_key_ring("second")):
        with pytest.raises(UnknownEncryptionKey, match="'first'"):
            await LocalStore.open(log(sealer))
    store = await LocalStore.open(log(a_key_ring("second", "first")))
    entry = await store.get("a")
    assert entry is not None
    assert entry.value == SECRET
    await store.close()


async def test_etcd_holds_sealed_values_and_a_store_without_the_key_refuses_to_read_them() -> None:
    etcd = FakeEtcd()
    store = EtcdStore(etcd.client(), chance=Chance(b"1"), sealer=a_key_ring())
    await store.commit([], [Put("a", SECRET)])
    raw = await etcd.client().range(b"/mainstay/a")
    assert SECRET not in raw.kvs[0].value

    blind = EtcdStore(etcd.client(), chance=Chance(b"2"))
    with pytest.raises(UnknownEncryptionKey, match="'first'"):
        await blind.get("a")
    with pytest.raises(UnknownEncryptionKey, match="'first'"):
        await blind.range("")
    await store.close()
    await blind.close()
