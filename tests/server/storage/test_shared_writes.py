"""Changes of keys that many writes share: none is lost, and no two writers fight over them."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from mainstay.api.errors import StatusError, StatusReason
from mainstay.env import Chance, tasks
from mainstay.server.storage import shared_writes
from mainstay.server.storage.shared_writes import SharedWrite, SharedWrites
from mainstay.store import open_memory
from mainstay.store.errors import OutcomeUnknown
from mainstay.store.etcd import EtcdStore
from mainstay.store.interface import Check, Committed, DeleteEntry, Entry, Put, Store, TransactionRefused, Write
from mainstay.store.local import LocalStore
from tests.store.fake_etcd import FakeEtcd

KEY = "~count"


def one_more(most: int = 10**6, *, key: str = KEY) -> SharedWrite:
    """Count up, as far as it is allowed."""

    def change(entry: Entry | None) -> Sequence[Write]:
        count = number_in(entry) + 1
        if count > most:
            raise StatusError(409, StatusReason.CONFLICT, f"{count} is too much")
        return (Put(key, str(count).encode()),)

    return SharedWrite(key, change)


def number_in(entry: Entry | None) -> int:
    return 0 if entry is None else int(entry.value)


class Counted:
    """A store, and how often it was asked for what."""

    local = None

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.gets = self.commits = 0
        self.loses = False

    async def get(self, key: str) -> Entry | None:
        self.gets += 1
        return await self._inner.get(key)

    async def commit(self, checks: Sequence[Check], writes: Sequence[Write]) -> Committed | TransactionRefused:
        self.commits += 1
        answer = await self._inner.commit(checks, writes)
        if self.loses:
            self.loses = False
            raise OutcomeUnknown("lost")
        return answer


def an_etcd_store(etcd: FakeEtcd) -> EtcdStore:
    return EtcdStore(etcd.client(), "/mainstay/", chance=Chance(b"test"))


async def write(shared: SharedWrites, name: str, *changes: SharedWrite) -> Committed | TransactionRefused:
    return await shared.commit([Check(name, 0)], [Put(name, b"")], changes or (one_more(),))


async def test_many_changes_of_one_key_in_our_own_process_are_one_group_and_no_conflict():
    store = await open_memory()
    shared = SharedWrites(store)

    answers = await asyncio.gather(*(write(shared, f"w{n}") for n in range(40)))

    revisions = [answer.revision for answer in answers if isinstance(answer, Committed)]
    assert revisions == list(range(2, 42))
    assert number_in(await store.get(KEY)) == 40


async def test_servers_on_one_etcd_take_turns_instead_of_fighting():
    etcd = FakeEtcd()
    stores = [Counted(an_etcd_store(etcd)) for _ in range(3)]
    servers: list[Any] = [SharedWrites(store) for store in stores]  # type: ignore[arg-type]

    answers = await asyncio.gather(*(write(servers[n % 3], f"w{n}") for n in range(60)))

    assert all(isinstance(answer, Committed) for answer in answers)
    assert number_in(await an_etcd_store(etcd).get(KEY)) == 60
    assert sum(store.commits for store in stores) <= 4 * 60  # Each in vain means that one of the two others succeeded.
    assert sum(store.gets for store in stores) == 3  # Then each knows from its own commits what is there.


async def test_a_write_that_is_too_late_for_something_else_is_decided_again():
    store = await open_memory()
    shared = SharedWrites(store)
    await store.commit([], [Put("w", b"there already")])

    answer = await write(shared, "w")

    assert isinstance(answer, TransactionRefused)
    assert list(answer.found) == ["w"]
    assert await store.get(KEY) is None


@pytest.mark.parametrize("is_local", [True, False])
async def test_no_write_is_refused_because_of_what_is_remembered(is_local: bool):
    etcd = FakeEtcd()
    store: Store = await open_memory() if is_local else an_etcd_store(etcd)
    shared = SharedWrites(store)
    await write(shared, "a", one_more(1))
    with pytest.raises(StatusError, match="2 is too much"):
        await write(shared, "b", one_more(1))

    await store.commit([], [DeleteEntry(KEY)])  # By another server.

    assert isinstance(await write(shared, "b", one_more(1)), Committed)


async def test_after_a_lost_answer_nothing_is_remembered():
    store = Counted(an_etcd_store(FakeEtcd()))
    shared = SharedWrites(store)  # type: ignore[arg-type]
    await write(shared, "a")
    store.loses = True
    with pytest.raises(OutcomeUnknown):
        await write(shared, "b")
    assert isinstance(await write(shared, "c"), Committed)
    assert number_in(await store.get(KEY)) == 3


async def test_a_refusal_waits_until_what_it_rests_on_is_durable():
    store = await open_memory()
    shared = SharedWrites(store)
    first = tasks.spawn(write(shared, "a", one_more(1)), name="first")
    await asyncio.sleep(0)
    assert (store.newest(KEY), await store.get(KEY)) != (None, None)
    assert not store.is_durable(KEY)

    with pytest.raises(StatusError, match="2 is too much"):
        await write(shared, "b", one_more(1))

    assert store.is_durable(KEY)
    assert first.done()


async def test_two_shared_keys_change_together_and_in_one_order():
    store = an_etcd_store(FakeEtcd())
    shared = SharedWrites(store)
    both = (one_more(key="~x"), one_more(key="~y"))

    await asyncio.gather(*(write(shared, f"w{n}", *(both if n % 2 else both[::-1])) for n in range(10)))

    assert [number_in(await store.get(key)) for key in ("~x", "~y")] == [10, 10]
    assert shared._lanes == {}


async def test_a_lane_takes_so_many_and_no_more(monkeypatch):
    monkeypatch.setattr(shared_writes, "WAITING_MAX", 5)
    shared = SharedWrites(an_etcd_store(FakeEtcd()))

    answers = await asyncio.gather(*(write(shared, f"w{n}") for n in range(8)), return_exceptions=True)

    assert [isinstance(answer, Committed) for answer in answers] == [True] * 5 + [False] * 3
    assert all(isinstance(answer, StatusError) and answer.code == 503 for answer in answers[5:])


async def test_who_gives_up_while_waiting_leaves_the_lane():
    shared = SharedWrites(an_etcd_store(FakeEtcd()))
    waiting = [tasks.spawn(write(shared, f"w{n}"), name=f"w{n}") for n in range(3)]
    await asyncio.sleep(0)
    await tasks.stop(waiting[1])

    assert isinstance(await waiting[2], Committed)
    assert shared._lanes == {}


async def test_what_cannot_be_decided_from_what_is_there_is_given_back_when_that_is_durable():
    store: LocalStore = await open_memory()
    shared = SharedWrites(store)
    first = tasks.spawn(write(shared, "a"), name="first")
    await asyncio.sleep(0)

    answer = await write(shared, "b", SharedWrite(KEY, lambda entry: None))

    assert isinstance(answer, TransactionRefused)
    assert (first.done(), number_in(await store.get(KEY))) == (True, 1)
