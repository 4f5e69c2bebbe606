"""Servers over one store have the same keys, or do not start."""

import pytest

from mainstay.server.auth.shared_keys import OtherKeys, require_shared_keys
from mainstay.store import open_memory
from tests.store.etcd_calls import a_store
from tests.store.fake_etcd import FakeEtcd

FIRST = (b"authority 1", "key-1")


async def test_a_second_server_with_the_same_keys_starts():
    store = a_store(FakeEtcd())
    await require_shared_keys(store, *FIRST, replaces=False)
    before = await store.revision()
    await require_shared_keys(store, *FIRST, replaces=False)
    assert await store.revision() == before


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ((b"authority 2", "key-1"), "another ca.crt and ca.key than"),
        ((b"authority 1", "key-2"), "another service-account.key than"),
        ((b"authority 2", "key-2"), "another ca.crt and ca.key and service-account.key than"),
    ],
)
async def test_one_with_others_is_refused_and_told_what_to_copy(other: tuple[bytes, str], named: str):
    store = a_store(FakeEtcd())
    await require_shared_keys(store, *FIRST, replaces=False)
    with pytest.raises(OtherKeys, match=named):
        await require_shared_keys(store, *other, replaces=False)
    with pytest.raises(OtherKeys):  # And nothing has changed by that.
        await require_shared_keys(store, *other, replaces=False)
    await require_shared_keys(store, *other, replaces=True)
    with pytest.raises(OtherKeys):
        await require_shared_keys(store, *FIRST, replaces=False)


async def test_the_only_server_of_a_store_may_have_new_keys():
    store = await open_memory()
    await require_shared_keys(store, *FIRST, replaces=False)
    await require_shared_keys(store, b"authority 2", "key-2", replaces=False)
    await store.close()
