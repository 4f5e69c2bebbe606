"""What the tests of the store on etcd share."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mainstay.env import Chance
from mainstay.sim.run.choices import Choices
from mainstay.store.etcd import EtcdStore, open_etcd
from mainstay.store.interface import (
    Committed,
    Put,
)
from tests.requirements import needs
from tests.store.etcd_process import shared_etcd, unique_prefix
from tests.store.fake_etcd import FakeEtcd

CLUSTERS = ["fake", pytest.param("etcd", marks=[pytest.mark.real_loop, needs("etcd")])]
SEEDS = range(100)


class Worst(Choices):
    """Where there is a choice, the worst: the longest delay, the silent loss."""

    def choose(self, label: str, options: int) -> int:
        return options - 1


def a_store(etcd: FakeEtcd) -> EtcdStore:
    return EtcdStore(etcd.client(), chance=Chance(b"test"))


@asynccontextmanager
async def two_stores(cluster: str) -> AsyncIterator[tuple[EtcdStore, EtcdStore]]:
    """Two processes' stores on one etcd."""
    if cluster == "fake":
        fake = FakeEtcd()
        stores = (a_store(fake), a_store(fake))
    else:
        prefix, endpoints = unique_prefix(), [shared_etcd().endpoint]
        stores = (
            await open_etcd(endpoints, prefix, chance=Chance(b"1")),
            await open_etcd(endpoints, prefix, chance=Chance(b"2")),
        )
    try:
        yield stores
    finally:
        for each in stores:
            await each.close()


async def put(store: EtcdStore, key: str, value: bytes = b"value") -> int:
    answer = await store.commit([], [Put(key, value)])
    assert isinstance(answer, Committed)
    return answer.revision
