"""What a store checks of itself while it works. Each check is broken here once."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from mainstay.env import Chance, SystemDisk, tasks
from mainstay.env.invariants import BrokenInvariant, find_broken
from mainstay.store import open_memory
from mainstay.store.disk_log import DiskLog
from mainstay.store.errors import OutcomeUnknown, StoreUnavailable
from mainstay.store.etcd import EtcdStore
from mainstay.store.index import StoreIndex, Transaction
from mainstay.store.interface import Committed, DeleteEntry, Entry, KeyChange, Put, TransactionRefused
from mainstay.store.local import LocalStore, _Staged
from mainstay.store.log import DeletedVersion, Log, LogRow, MemoryLog
from mainstay.store.sqlite_log import SqliteLog
from tests.store.fake_etcd import FakeEtcd

# The index.


def a_put(key: str, revision: int, previous: Entry | None = None) -> Transaction:
    entry = Entry(key, b"secret", revision, revision, 1)
    return Transaction(revision, (KeyChange(revision, key, entry, previous),))


def an_index(monkeypatch: pytest.MonkeyPatch) -> StoreIndex:
    """Of three keys: one was overwritten, and one is gone. Every transaction is checked."""
    monkeypatch.setattr("mainstay.store.index._CHECKED_ONE_IN", 1)
    index = StoreIndex()
    index.apply(a_put("a", 2))
    index.apply(a_put("a", 3, index.live["a"]))
    index.apply(a_put("b", 4))
    index.apply(a_put("c", 5))
    index.apply(Transaction(6, (KeyChange(6, "c", None, index.live["c"]),)))
    return index


@pytest.mark.parametrize("revision", [5, 6])
def test_a_revision_that_does_not_grow_is_noticed(monkeypatch: pytest.MonkeyPatch, revision: int):
    index = an_index(monkeypatch)

    with pytest.raises(BrokenInvariant, match="the revisions of a store strictly grow"):
        index.apply(a_put("d", revision))


def test_a_change_that_replaces_something_else_is_noticed_and_tells_no_values(monkeypatch: pytest.MonkeyPatch):
    index = an_index(monkeypatch)

    with pytest.raises(
        BrokenInvariant, match="a change replaces what is there: key b: found=4, previous=None"
    ) as raised:
        index.apply(a_put("b", 7))
    assert "secret" not in str(raised.value)


def forget_a_live_key(index: StoreIndex) -> None:
    index._live_keys.remove("a")


def list_a_live_key_as_dead(index: StoreIndex) -> None:
    index._dead_keys.add("a")


def list_another_key(index: StoreIndex) -> None:
    index._live_keys.add("x")


def mix_up_the_versions(index: StoreIndex) -> None:
    index._past["a"].append(DeletedVersion("a", 9))


@pytest.mark.parametrize("damage", [forget_a_live_key, list_a_live_key_as_dead, list_another_key, mix_up_the_versions])
def test_an_index_that_does_not_match_its_entries_is_noticed(
    monkeypatch: pytest.MonkeyPatch, damage: Callable[[StoreIndex], None]
):
    index = an_index(monkeypatch)
    damage(index)

    with pytest.raises(BrokenInvariant, match=r"matches its entries|the versions of a key are in order"):
        index.apply(a_put("a", 7, index.live["a"]))


@pytest.mark.parametrize("revision", [3, 7])
def test_a_compaction_that_goes_back_or_too_far_is_noticed(monkeypatch: pytest.MonkeyPatch, revision: int):
    index = an_index(monkeypatch)
    index.begin_compaction(4)

    with pytest.raises(BrokenInvariant, match="compaction goes forward"):
        index.begin_compaction(revision)


# Holds.


async def test_a_local_store_that_compacts_what_is_held_notices():
    store = await open_memory()
    for number in range(5):
        await store.commit([], [Put("a", b"%d" % number)])
    await store.compact(4)
    store._holds.take(2)  # `hold` would have refused it.

    with pytest.raises(BrokenInvariant, match="history that is held is not compacted: revision 2: compacted=4"):
        await store.compact(5)


async def test_a_store_over_etcd_that_compacts_what_is_held_notices():
    store = EtcdStore(FakeEtcd().client(), chance=Chance(b"test"))
    for number in range(5):
        await store.commit([], [Put("a", b"%d" % number)])
    store._given_up = await store.compact(3)
    hold = store._holds.take(4)
    store._given_up = 5

    with pytest.raises(BrokenInvariant, match="history that is held is not compacted: revision 4: compacted=5"):
        await store.compact(5)
    hold.release()
    await store.close()


# Logs.


def a_log(kind: str, directory: Path) -> Log:
    disk = SystemDisk(directory)
    return SqliteLog(disk) if kind == "sqlite" else DiskLog(disk)


def rows(*revisions: int) -> list[LogRow]:
    return [LogRow(revision, (Entry("a", b"", 2, revision, 1),)) for revision in revisions]


@pytest.mark.parametrize("kind", ["sqlite", "disk"])
async def test_a_row_in_the_wrong_place_is_not_appended(tmp_path: Path, kind: str):
    log = a_log(kind, tmp_path)
    await log.open()
    await log.append(rows(2, 3))
    for wrong in (rows(3), rows(5), rows(4, 6)):
        with pytest.raises(BrokenInvariant, match="the revisions of a log follow each other"):
            await log.append(wrong)
    await log.close()

    log = a_log(kind, tmp_path)
    assert [row.revision for row in (await log.open()).rows] == [2, 3]
    with pytest.raises(BrokenInvariant, match="expected=4, newest=3"):
        await log.append(rows(2))
    await log.close()


@pytest.mark.parametrize("kind", ["sqlite", "disk"])
async def test_a_log_is_not_compacted_backward_nor_past_its_end(tmp_path: Path, kind: str):
    log = a_log(kind, tmp_path)
    await log.open()
    await log.append(rows(2, 3, 4, 5))
    await log.compact(3, rows(2))
    for compacted, replaced in ((2, []), (6, []), (4, rows(5))):
        with pytest.raises(BrokenInvariant, match="a log is compacted forward"):
            await log.compact(compacted, replaced)
    await log.close()


# The commit pipeline.


class SlowLog(MemoryLog):
    """One that is not done with an append until it is let go."""

    def __init__(self) -> None:
        self.goes_on = asyncio.Event()

    async def append(self, rows: Sequence[LogRow]) -> None:
        await self.goes_on.wait()


async def a_commit_under_way() -> tuple[LocalStore, SlowLog, asyncio.Task[Committed | TransactionRefused]]:
    log = SlowLog()
    store = await LocalStore.open(log)
    committing = tasks.begin(store.commit([], [Put("a", b"")]), name="commit")
    await tasks.turns(10)
    return store, log, committing


def lose_a_staged_key(store: LocalStore) -> None:
    store._staged_entries.clear()


def give_a_staged_key_to_an_earlier_one(store: LocalStore) -> None:
    store._staged_entries["a"] = DeletedVersion("a", 1)


def stage_what_no_transaction_writes(store: LocalStore) -> None:
    store._staged_entries["b"] = DeletedVersion("b", 3)


def skip_a_revision(store: LocalStore) -> None:
    store._index.revision += 5


@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        (lose_a_staged_key, "a staged key belongs to the last one that writes it: key a: staged=0, published=2"),
        (give_a_staged_key_to_an_earlier_one, "a staged key belongs to the last one that writes it"),
        (stage_what_no_transaction_writes, "a staged key has a transaction that writes it"),
        (skip_a_revision, "what is durable is published in order: revision 2: published=6"),
    ],
)
async def test_a_store_that_has_lost_track_takes_no_more_writes(damage: Callable[[LocalStore], None], rule: str):
    store, log, committing = await a_commit_under_way()
    flushing = store._flushing
    assert flushing is not None
    damage(store)
    log.goes_on.set()

    with pytest.raises(OutcomeUnknown, match="broken invariant"):
        await committing
    with pytest.raises(BrokenInvariant, match=rule):
        await flushing
    with pytest.raises(StoreUnavailable, match="takes no more writes"):
        await store.commit([], [Put("c", b"")])
    assert "broken invariant" in await store.broken()
    assert find_broken() is not None


async def test_what_is_not_durable_is_not_published():
    store, _, committing = await a_commit_under_way()
    [transaction] = [a_put("a", 2)]
    waiter: asyncio.Future[object] = asyncio.get_running_loop().create_future()

    with pytest.raises(
        BrokenInvariant, match="what is durable is published in order: revision 2: published=1, durable=1"
    ):
        store._publish([_Staged(transaction, Committed(2), waiter)])  # type: ignore[arg-type]
    committing.cancel()


async def test_a_commit_is_not_answered_twice():
    store = await open_memory()
    waiter: asyncio.Future[Committed | TransactionRefused] = asyncio.get_running_loop().create_future()
    waiter.set_result(Committed(1))

    with pytest.raises(BrokenInvariant, match="a commit is answered once"):
        store._publish([_Staged(None, Committed(1), waiter)])


# Watches.


async def test_a_watch_that_would_go_back_ends():
    store = await open_memory()
    with store.watch("", after=1) as watch:
        reading = tasks.begin(anext(watch), name="read")
        await tasks.turns(1)
        watch.reached = 2

        with pytest.raises(BrokenInvariant, match="a watch that waits has missed nothing: watch of ''"):
            store._watches.publish([a_put("a", 2)])
        watch.reached = 1
        store._watches.publish([a_put("a", 2)])
        watch.reached = 2
        with pytest.raises(BrokenInvariant, match="a watch goes forward: watch of '': reached=2, batch=2"):
            await reading


async def test_the_deletion_of_many_keys_and_their_return_pass_every_check(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("mainstay.store.index._CHECKED_ONE_IN", 1)
    store = await open_memory()
    keys = [f"k{number}" for number in range(40)]
    for _ in range(3):
        await store.commit([], [Put(key, b"") for key in keys])
        await store.commit([], [DeleteEntry(key) for key in keys])
        await store.compact(await store.revision() - 1)

    assert (await store.range("")).entries == []
