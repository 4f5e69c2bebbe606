"""Watches over etcd: lagging members, and everything that compaction can do to a reader.

Each check has its twin: the same scenario with a bug planted in the adapter, which the same check must find.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

import mainstay.store.etcd.watch as watch_module
from mainstay.env import Chance, tasks
from mainstay.sim.run.choices import Choices
from mainstay.sim.simulation import Simulation
from mainstay.store.errors import Compacted, FutureRevision, StoreUnavailable
from mainstay.store.etcd import EtcdStore, open_etcd
from mainstay.store.etcd.kv import EtcdEvent
from mainstay.store.etcd.watch import EtcdWatch
from mainstay.store.interface import Committed, DeleteEntry, Entry, KeyChange, Put, WatchBatch
from tests.requirements import needs
from tests.store.etcd_history import LAST_KEY, Notes, Violation, follow
from tests.store.etcd_process import shared_etcd, unique_prefix
from tests.store.fake_etcd import FakeEtcd, FakeEtcdKv, FakeWatchStream

CLUSTERS = ["fake", pytest.param("etcd", marks=[pytest.mark.real_loop, needs("etcd")])]


class Worst(Choices):
    """Where there is a choice, the worst: the longest delay, the silent loss."""

    def choose(self, label: str, options: int) -> int:
        return options - 1


def on_fake(etcd: FakeEtcd) -> EtcdStore:
    return EtcdStore(etcd.client(), chance=Chance(b"test"))


@asynccontextmanager
async def a_store(cluster: str) -> AsyncIterator[EtcdStore]:
    if cluster == "fake":
        store = on_fake(FakeEtcd())
    else:
        store = await open_etcd([shared_etcd().endpoint], unique_prefix(), chance=Chance(b"test"))
    try:
        yield store
    finally:
        await store.close()


async def put(store: EtcdStore, key: str, value: bytes = b"value") -> int:
    answer = await store.commit([], [Put(key, value)])
    assert isinstance(answer, Committed)
    return answer.revision


async def delete(store: EtcdStore, key: str) -> int:
    answer = await store.commit([], [DeleteEntry(key)])
    assert isinstance(answer, Committed)
    return answer.revision


# Broken streams and lagging members.


@pytest.mark.parametrize("cluster", CLUSTERS)
async def test_an_iteration_that_was_cancelled_goes_on_where_it_was(cluster: str) -> None:
    async with a_store(cluster) as store:
        start = await store.revision()
        with store.watch("", after=start) as watch:
            for number in range(20):
                with pytest.raises(TimeoutError):
                    async with tasks.timeout(timedelta(milliseconds=1)):
                        await anext(watch)
                revision = await put(store, "a")
                batch = await anext(watch)
                assert [change.revision for change in batch.changes] == [revision] == [start + 1 + number]


async def test_a_watch_survives_that_etcd_is_away(sim: Simulation) -> None:
    etcd = FakeEtcd()
    store = on_fake(etcd)
    watch = store.watch("", after=1)
    await put(store, "a")
    assert (await anext(watch)).revision == 2
    etcd.kill()
    sim.loop.call_later(10, etcd.start)
    sim.loop.call_later(11, lambda: tasks.spawn(put(store, "a"), name="put"))

    assert (await anext(watch)).revision == 3


async def test_a_watch_gives_up_on_an_etcd_that_stays_away(sim: Simulation) -> None:
    etcd = FakeEtcd()
    store = on_fake(etcd)
    etcd.kill()
    watch = store.watch("", after=1)

    with pytest.raises(StoreUnavailable):
        await anext(watch)
    assert 15 < sim.loop.time() < 60
    with pytest.raises(StoreUnavailable):
        await anext(watch)


async def test_a_stream_that_is_never_confirmed_is_given_up(sim: Simulation) -> None:
    etcd = FakeEtcd(Worst())
    store = on_fake(etcd)
    await put(store, "a")
    etcd.faults.delay_watch = 1.0
    sim.loop.call_later(12, setattr, etcd.faults, "delay_watch", 0.0)

    assert (await anext(store.watch("", after=1))).revision == 2
    assert 12 < sim.loop.time() < 20


async def test_a_watch_through_a_member_that_is_behind_waits_for_it() -> None:
    etcd = FakeEtcd()
    store = on_fake(etcd)
    await put(store, "a")
    etcd.fall_behind()
    latest = await put(store, "a")
    watch = store.watch("", after=latest)
    waiting = asyncio.gather(anext(watch))
    await tasks.sleep(timedelta(seconds=10))
    later = await put(store, "b")
    etcd.catch_up()

    [batch] = await waiting
    assert batch == WatchBatch(later, [KeyChange(later, "b", Entry("b", b"value", later, later, 1), None)])


async def test_twin_believing_a_member_that_is_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    async def believe(self: EtcdWatch) -> None:
        raise FutureRevision(self._received, 0)

    monkeypatch.setattr(EtcdWatch, "_require_happened", believe)
    with pytest.raises(FutureRevision):
        await test_a_watch_through_a_member_that_is_behind_waits_for_it()


@pytest.mark.parametrize("cluster", CLUSTERS)
async def test_a_watch_after_what_has_not_happened_says_so(cluster: str) -> None:
    async with a_store(cluster) as store:
        latest = await put(store, "a")
        with pytest.raises(FutureRevision) as caught:
            await anext(store.watch("", after=latest + 5))
        assert (caught.value.asked, caught.value.latest) == (latest + 5, latest)


# Compaction.


@pytest.mark.parametrize("cluster", CLUSTERS)
async def test_a_watch_after_the_compacted_revision_misses_nothing_and_one_before_it_is_told(cluster: str) -> None:
    async with a_store(cluster) as store:
        await watch_around_a_compacted_deletion(store)


async def watch_around_a_compacted_deletion(store: EtcdStore) -> None:
    made = await put(store, "a")
    deleted = await delete(store, "a")
    later = await put(store, "b")
    await store.compact(deleted)

    assert (await anext(store.watch("", after=deleted))).revision == later
    with pytest.raises(Compacted) as caught:
        await anext(store.watch("", after=made))
    assert caught.value.compacted == deleted


async def test_twin_a_watch_begins_no_earlier_than_it_must(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then etcd accepts the compacted revision, and keeps quiet about its deletion."""
    begin = FakeEtcdKv.watch

    def later(self: FakeEtcdKv, key: bytes, end: bytes, *, start_revision: int) -> FakeWatchStream:
        return begin(self, key, end, start_revision=start_revision + 1)

    monkeypatch.setattr(FakeEtcdKv, "watch", later)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        await watch_around_a_compacted_deletion(on_fake(FakeEtcd()))


class Truth:
    """Writes, and knows what a watch from the beginning must deliver."""

    def __init__(self, store: EtcdStore) -> None:
        self._store = store
        self._entries: dict[str, Entry] = {}
        self.changes: list[KeyChange] = []

    async def put(self, key: str, value: bytes = b"value") -> int:
        revision = await put(self._store, key, value)
        old = self._entries.get(key)
        created, version = (revision, 1) if old is None else (old.created, old.version + 1)
        self._entries[key] = Entry(key, value, created, revision, version)
        self.changes.append(KeyChange(revision, key, self._entries[key], old))
        return revision

    async def delete(self, key: str) -> int:
        revision = await delete(self._store, key)
        self.changes.append(KeyChange(revision, key, None, self._entries.pop(key)))
        return revision

    async def check(self, reader: "Reader") -> None:
        """Raise `Violation` unless the reader got everything, or everything up to a point and then `Compacted`."""
        await reader.has_ended()
        delivered = [change for batch in reader.notes.batches for change in batch.changes]
        if delivered != self.changes[: len(delivered)]:
            raise Violation(f"the watch delivered {delivered[-3:]}")
        if len(delivered) < len(self.changes) and not isinstance(reader.error, Compacted):
            raise Violation("the watch ended too early")


class Reader:
    """Reads a watch from the beginning to the last key, from the moment it is told to."""

    def __init__(self, store: EtcdStore) -> None:
        self._watch = store.watch("", after=1)
        self.notes = Notes()
        self.error: Compacted | None = None
        self._reading: asyncio.Task[None] | None = None

    async def read_one(self) -> None:
        self.notes.batches.append(await anext(self._watch))

    def read_on(self) -> None:
        self._reading = tasks.spawn(self._read(), name="read")

    async def _read(self) -> None:
        try:
            await follow(self._watch, self.notes)
        except Compacted as error:
            self.error = error

    async def has_ended(self) -> None:
        assert self._reading is not None
        await self._reading


async def write_and_compact_while_a_response_is_on_its_way(etcd: FakeEtcd) -> Compacted | None:
    store = on_fake(etcd)
    truth, reader = Truth(store), Reader(store)
    await truth.put("a", b"1")
    await reader.read_one()
    etcd.faults.delay_watch = 1.0
    reader.read_on()
    await store.compact(await truth.put("a", b"2"))
    etcd.faults.delay_watch = 0.0
    await truth.put(LAST_KEY)
    await truth.check(reader)
    return reader.error


async def test_a_change_whose_previous_entry_was_compacted_ends_the_watch() -> None:
    error = await write_and_compact_while_a_response_is_on_its_way(FakeEtcd(Worst()))
    assert error is not None
    assert error.compacted == 3


async def test_twin_a_missing_previous_entry_is_passed_on_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    async def trusting(self: EtcdWatch, event: EtcdEvent) -> KeyChange:
        entry = self._keyspace.entry(event.kv)
        return KeyChange(entry.revision, entry.key, None if event.is_delete else entry, None)

    monkeypatch.setattr(EtcdWatch, "_change", trusting)
    with pytest.raises(Violation):
        await write_and_compact_while_a_response_is_on_its_way(FakeEtcd(Worst()))


async def write_and_compact_without_a_reader(etcd: FakeEtcd) -> Compacted | None:
    """etcd's queue for the reader is full when it has to be told of the compaction, and so it never is."""
    store = on_fake(etcd)
    truth, reader = Truth(store), Reader(store)
    await truth.put("first")
    await reader.read_one()
    for number in range(400):
        await truth.put(f"{number}")
    await store.compact(await store.revision())
    await tasks.sleep(timedelta(seconds=1))
    reader.read_on()
    await tasks.sleep(timedelta(seconds=1))
    await truth.put(LAST_KEY)
    await truth.check(reader)
    return reader.error


async def test_a_reader_that_was_too_slow_is_told_before_it_misses_anything() -> None:
    assert await write_and_compact_without_a_reader(FakeEtcd()) is not None


async def test_twin_a_slow_reader_relies_on_etcd_to_tell_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_module, "CONFIRM_EVERY", 1_000_000)
    with pytest.raises(Violation):
        await write_and_compact_without_a_reader(FakeEtcd())


async def write_and_compact_while_a_reader_catches_up(etcd: FakeEtcd, *, written_later: int) -> Compacted | None:
    """The first 1000 revisions have been read, and what comes next is a deletion at the compacted revision."""
    store = on_fake(etcd)
    truth, reader = Truth(store), Reader(store)
    for number in range(1000):
        await truth.put(f"{number}")
    deleted = await truth.delete("0")
    for number in range(written_later):
        await truth.put(f"later-{number}")
    await reader.read_one()
    await store.compact(deleted)
    reader.read_on()
    await tasks.sleep(timedelta(seconds=1))
    await truth.put(LAST_KEY)
    await truth.check(reader)
    return reader.error


@pytest.mark.parametrize("written_later", [0, 1, 2])
async def test_a_reader_that_is_catching_up_is_told_before_it_misses_a_deletion(written_later: int) -> None:
    assert await write_and_compact_while_a_reader_catches_up(FakeEtcd(), written_later=written_later) is not None


async def test_twin_catching_up_relies_on_etcd_to_tell_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_module, "_is_catching_up", lambda response: False)
    with pytest.raises(Violation):
        await write_and_compact_while_a_reader_catches_up(FakeEtcd(), written_later=2)


# All of it at random.


def run_cache(seed: int) -> int:
    """A cache lists and watches while others write and compact. Returns how often it had to list again."""
    with Simulation(seed) as simulation:
        return simulation.run(_write_compact_and_cache(simulation.choices))


async def _write_compact_and_cache(choices: Choices) -> int:
    etcd = FakeEtcd(choices)
    etcd.faults.cut_watch = 0.005
    etcd.faults.delay_watch = 0.005
    store = on_fake(etcd)
    caching = asyncio.gather(_cache(store, choices))
    compacting = tasks.spawn(_compact_now_and_then(on_fake(etcd), choices), name="compact")
    kinds = 1 + choices.choose("kinds of writes", 3)
    writing = (_write_here_and_there(on_fake(etcd), choices, f"writer-{number}", kinds) for number in range(2))
    await asyncio.gather(*writing)
    await tasks.stop(compacting)
    await tasks.sleep(timedelta(minutes=1))
    await put(store, LAST_KEY)
    [(entries, lists)] = await caching
    if entries != {entry.key: entry for entry in (await store.range("")).entries}:
        raise Violation("the cache holds something else than the store")
    return lists - 1


async def _cache(store: EtcdStore, choices: Choices) -> tuple[dict[str, Entry], int]:
    lists = 0
    while True:
        lists += 1
        page = await store.range("")
        entries = {entry.key: entry for entry in page.entries}
        try:
            with store.watch("", after=page.revision) as watch:
                async for batch in watch:
                    _apply(batch, entries)
                    if LAST_KEY in entries:
                        return entries, lists
                    if choices.occurs("the reader is slow", 0.02):
                        await tasks.sleep(timedelta(milliseconds=choices.choose("how slow", 1500)))
        except Compacted:
            pass


def _apply(batch: WatchBatch, entries: dict[str, Entry]) -> None:
    for change in batch.changes:
        if change.previous != entries.pop(change.key, None):
            raise Violation(f"something is missing before {change}")
        if change.entry is not None:
            entries[change.key] = change.entry


async def _write_here_and_there(store: EtcdStore, choices: Choices, writer: str, kinds: int) -> None:
    for number in range(400):
        new, old = f"{writer}/{number}", f"{writer}/{number - 1 - choices.choose('age of a key', 5)}"
        await store.commit(
            [], [(Put(new, b"new"), DeleteEntry(old), Put(old, b"changed"))[choices.choose("write", kinds)]]
        )
        await tasks.sleep(timedelta(milliseconds=choices.choose("pause between writes", 8)))


async def _compact_now_and_then(store: EtcdStore, choices: Choices) -> None:
    while True:
        await tasks.sleep(timedelta(milliseconds=choices.choose("pause between compactions", 1000)))
        await store.compact(max(1, await store.revision() - choices.choose("what compaction leaves", 20)))


CACHE_SEEDS = range(25)


@pytest.mark.slow
def test_a_cache_that_lists_and_watches_is_never_wrong_whatever_is_compacted() -> None:
    assert sum(run_cache(seed) for seed in CACHE_SEEDS) > 0


def test_twin_a_cache_relies_on_etcd_to_be_told_of_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_module, "CONFIRM_EVERY", 1_000_000)
    monkeypatch.setattr(watch_module, "_is_catching_up", lambda response: False)
    with pytest.raises(Violation):
        _ = [run_cache(seed) for seed in CACHE_SEEDS]
