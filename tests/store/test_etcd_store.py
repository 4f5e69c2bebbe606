"""The store over etcd when things go wrong: what the suite that all stores share cannot show.

Each check here has its twins: the same scenario with a bug planted in the adapter, which the same check must find.
"""

import asyncio
from datetime import timedelta

import pytest

from mainstay.env import Chance, tasks
from mainstay.sim.simulation import Simulation
from mainstay.store.errors import (
    Compacted,
    Corrupt,
    InvalidStoreRequest,
    OutcomeUnknown,
    StorageFull,
    StoreClosed,
    StoreError,
    StoreUnavailable,
    TransactionTooLarge,
)
from mainstay.store.etcd import EtcdStore, open_etcd
from mainstay.store.etcd.kv import PutKey, RequestTooLarge
from mainstay.store.etcd.reads import refusal
from mainstay.store.interface import (
    ABSENT,
    Check,
    Committed,
    DeleteEntry,
    Entry,
    KeyChange,
    Put,
    TransactionRefused,
    Write,
)
from tests.requirements import needs
from tests.store.etcd_calls import CLUSTERS, Worst, a_store, put, two_stores
from tests.store.etcd_history import Notes, Violation, follow, settle, write
from tests.store.etcd_process import EtcdProcess, shared_etcd, unique_prefix
from tests.store.fake_etcd import FakeEtcd

pytestmark = pytest.mark.slow


# Several processes on one etcd.


@pytest.mark.parametrize("cluster", CLUSTERS)
async def test_two_stores_on_one_etcd_see_one_order(cluster: str) -> None:
    async with two_stores(cluster) as (one, other):
        start = await one.revision()
        notes = (Notes(), Notes())
        watching = [
            tasks.spawn(follow(each.watch("", after=start), seen), name="watch")
            for each, seen in zip((one, other), notes, strict=True)
        ]
        writers = [("a", one), ("b", other), ("c", one), ("d", other)]
        await asyncio.gather(*(write(each, notes[0], name, ["x", "y"], 25) for name, each in writers))

        await settle(one, *zip(watching, notes, strict=True))

        orders = [[change for batch in seen.batches for change in batch.changes] for seen in notes]
        assert orders[0] == orders[1]
        assert await one.revision() == await other.revision()


@pytest.mark.parametrize("cluster", CLUSTERS)
async def test_a_check_is_against_what_any_process_has_written(cluster: str) -> None:
    async with two_stores(cluster) as (one, other):
        first = await put(one, "a")
        second = await put(other, "a", b"new")

        answer = await one.commit([Check("a", first), Check("b", ABSENT)], [DeleteEntry("a")])

        assert answer == TransactionRefused({"a": Entry("a", b"new", first, second, 2)})


@pytest.mark.parametrize("cluster", CLUSTERS)
async def test_what_another_process_has_compacted_is_gone_and_said_to_be_gone_up_to_there(cluster: str) -> None:
    async with two_stores(cluster) as (one, other):
        first = await put(one, "a")
        second = await put(one, "a")
        assert await other.compact(second) == second

        for read in (one.get("a", at=first), one.range("", at=first), anext(one.watch("", after=first))):
            with pytest.raises(Compacted) as caught:
                await read
            assert caught.value.compacted == second
        assert await one.compact(first) == second


@pytest.mark.parametrize("cluster", CLUSTERS)
async def test_stores_under_different_prefixes_do_not_see_each_other(cluster: str) -> None:
    if cluster == "fake":
        fake = FakeEtcd()
        stores = [EtcdStore(fake.client(), prefix, chance=Chance(b"")) for prefix in ("/a/", "/b/")]
    else:
        stores = [await open_etcd([shared_etcd().endpoint], unique_prefix(), chance=Chance(b"")) for _ in "ab"]
    one, other = stores
    start = await one.revision()
    await put(one, "x")
    await put(other, "y")

    assert [entry.key for entry in (await one.range("")).entries] == ["x"]
    assert (await anext(other.watch("", after=start))).changes[0].key == "y"
    for each in stores:
        await each.close()


@pytest.mark.parametrize("prefix", ["", "mainstay/", "/mainstay", "/" + 64 * "x" + "/"])
def test_a_prefix_that_could_overlap_with_another_is_refused(prefix: str) -> None:
    with pytest.raises(InvalidStoreRequest):
        EtcdStore(FakeEtcd().client(), prefix, chance=Chance(b""))


def test_what_etcd_itself_finds_too_large_is_too_large() -> None:
    """It may be set to take less than we allow."""
    assert isinstance(refusal(RequestTooLarge("etcdserver: request is too large")), TransactionTooLarge)


async def test_a_key_that_is_no_text_is_not_ours() -> None:
    etcd = FakeEtcd()
    await etcd.client().txn([], [PutKey(b"/mainstay/\xff", b"")], [])
    with pytest.raises(Corrupt):
        await a_store(etcd).range("")


# Commits whose answer does not come.


async def test_a_commit_whose_answer_is_lost_has_an_unknown_outcome_and_has_happened() -> None:
    etcd = FakeEtcd()
    store = a_store(etcd)
    etcd.faults.lose_response = 1.0

    with pytest.raises(OutcomeUnknown):
        await store.commit([Check("a", ABSENT)], [Put("a", b"value")])

    etcd.faults.lose_response = 0.0
    assert await store.get("a") == Entry("a", b"value", 2, 2, 1)


async def test_a_commit_that_is_lost_itself_has_an_unknown_outcome_and_has_not_happened() -> None:
    etcd = FakeEtcd()
    store = a_store(etcd)
    etcd.faults.lose_request = 1.0

    with pytest.raises(OutcomeUnknown):
        await store.commit([Check("a", ABSENT)], [Put("a", b"value")])

    etcd.faults.lose_request = 0.0
    assert await store.get("a") is None


async def test_a_commit_may_land_after_its_caller_has_given_up(sim: Simulation) -> None:
    etcd = FakeEtcd(Worst())
    store = a_store(etcd)
    etcd.faults.delay_request = 1.0

    with pytest.raises(OutcomeUnknown):
        await store.commit([Check("a", ABSENT)], [Put("a", b"late")])

    etcd.faults.delay_request = 0.0
    assert await store.get("a") is None
    batch = await anext(store.watch("", after=1))
    assert batch.changes == [KeyChange(2, "a", Entry("a", b"late", 2, 2, 1), None)]
    assert sim.loop.time() > 15


async def test_a_cancelled_commit_may_land_as_well() -> None:
    etcd = FakeEtcd()
    store = a_store(etcd)

    commit = tasks.spawn(store.commit([], [Put("a", b"value")]), name="commit")
    await tasks.sleep(timedelta(0))
    await tasks.stop(commit)

    assert (await anext(store.watch("", after=1))).revision == 2


async def test_a_commit_without_a_connection_is_not_sent_and_has_not_happened() -> None:
    etcd = FakeEtcd()
    store = a_store(etcd)
    etcd.kill()

    with pytest.raises(StoreUnavailable):
        await store.commit([], [Put("a", b"value")])

    etcd.start()
    assert await store.get("a") is None


async def test_a_commit_on_its_way_when_etcd_dies_has_an_unknown_outcome() -> None:
    etcd = FakeEtcd()
    store = a_store(etcd)

    commit = tasks.spawn(_outcome(store, [], [Put("a", b"value")]), name="commit")
    await tasks.sleep(timedelta(microseconds=100))
    etcd.kill()

    assert isinstance(await commit, OutcomeUnknown)


async def _outcome(
    store: EtcdStore, checks: list[Check], writes: list[Write]
) -> Committed | TransactionRefused | StoreError:
    try:
        return await store.commit(checks, writes)
    except StoreError as error:
        return error


# A full etcd.


async def test_a_full_etcd_takes_no_puts_and_says_so_when_that_is_certain() -> None:
    etcd = FakeEtcd()
    store = a_store(etcd)
    revision = await put(store, "there")
    etcd.is_full = True

    for checks, key in (
        ([Check("new", ABSENT)], "new"),  # Still absent, as it was checked to be.
        ([Check("there", revision)], "there"),
        ([], "there"),  # Not written since we last heard.
        ([], "new"),  # Nothing at all was written since.
    ):
        with pytest.raises(StorageFull):
            await store.commit(checks, [Put(key, b"")])


async def test_a_commit_that_filled_etcd_up_may_have_happened() -> None:
    for checks in ([Check("a", ABSENT)], []):
        etcd = FakeEtcd()
        store = a_store(etcd)
        await store.revision()
        etcd.fills_up_at_next_put = True

        with pytest.raises(OutcomeUnknown):
            await store.commit(checks, [Put("a", b"value")])
        assert await store.get("a") == Entry("a", b"value", 2, 2, 1)


async def fill_up(store: EtcdStore) -> None:
    """Write until there is no more room, sixteen at a time, and check what was said of each commit."""
    notes = Notes()
    watching = tasks.spawn(follow(store.watch("", after=await store.revision()), notes), name="watch")
    for number in range(50):
        await asyncio.gather(*(_put_large(store, notes, f"{number}/{writer}") for writer in range(16)))
        if notes.ruled_out:
            break
    assert notes.ruled_out
    final = (await store.range("")).entries
    latest = max((entry.revision for entry in final), default=0)
    while latest and (not notes.batches or notes.batches[-1].revision < latest):
        await tasks.sleep(timedelta(milliseconds=20))
    await tasks.stop(watching)
    notes.check(final)


async def _put_large(store: EtcdStore, notes: Notes, key: str) -> None:
    value = key.encode() + bytes(30_000)
    match await _outcome(store, [Check(key, ABSENT)], [Put(key, value)]):
        case Committed(revision=revision):
            notes.acknowledged[revision, key] = value
        case StorageFull():
            notes.ruled_out[value] = None
        case OutcomeUnknown():
            notes.unknown[value] = None
        case other:
            raise AssertionError(other)


@needs("etcd")
@pytest.mark.real_loop
async def test_while_a_real_etcd_fills_up_no_commit_that_happened_is_said_not_to_have() -> None:
    with EtcdProcess("--quota-backend-bytes=2000000") as etcd:
        store = await open_etcd([etcd.endpoint], chance=Chance(b"test"))
        await fill_up(store)
        await store.close()


async def test_twin_believing_etcd_when_it_says_that_it_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    async def believe(*_: object) -> StoreError:
        return StorageFull("planted")

    etcd = FakeEtcd()
    etcd.fills_up_at_next_put = True
    await fill_up(a_store(etcd))

    monkeypatch.setattr(EtcdStore, "_without_space", believe)
    etcd = FakeEtcd()
    etcd.fills_up_at_next_put = True
    with pytest.raises(Violation, match="said not to have happened"):
        await fill_up(a_store(etcd))


# Reads while etcd is away.


async def test_a_read_waits_for_etcd_to_come_back(sim: Simulation) -> None:
    etcd = FakeEtcd()
    store = a_store(etcd)
    await put(store, "a")
    etcd.kill()
    sim.loop.call_later(10, etcd.start)

    assert await store.get("a") == Entry("a", b"value", 2, 2, 1)
    assert 10 < sim.loop.time() < 12


async def test_a_read_does_not_wait_for_ever(sim: Simulation) -> None:
    etcd = FakeEtcd()
    store = a_store(etcd)
    etcd.kill()

    with pytest.raises(StoreUnavailable):
        await store.range("")
    assert 14 < sim.loop.time() < 21


async def test_a_read_that_waits_ends_when_the_store_is_closed() -> None:
    etcd = FakeEtcd()
    store = a_store(etcd)
    etcd.kill()
    reading = asyncio.gather(store.get("a"), return_exceptions=True)
    await tasks.sleep(timedelta(seconds=3))
    await store.close()

    assert [type(answer) for answer in await reading] == [StoreClosed]


@pytest.mark.parametrize("cluster", CLUSTERS)
async def test_closing_waits_for_a_commit_on_its_way(cluster: str) -> None:
    async with two_stores(cluster) as (store, other):
        latest = await store.revision()
        commit = tasks.spawn(store.commit([], [Put("a", b"value")]), name="commit")
        await tasks.sleep(timedelta(0))

        await store.close()

        assert await commit == Committed(latest + 1)
        assert await other.get("a") == Entry("a", b"value", latest + 1, latest + 1, 1)


# Ranges.


async def test_a_long_range_is_one_snapshot_although_it_is_read_in_parts() -> None:
    etcd = FakeEtcd()
    reader, writer = a_store(etcd), a_store(etcd)
    for first in range(0, 3000, 100):
        await writer.commit([], [Put(f"{number:04}", b"old") for number in range(first, first + 100)])
    ranging = tasks.spawn(reader.range(""), name="range")
    while not ranging.done():
        await put(writer, "0000", b"new")
        await writer.commit([], [DeleteEntry("2999")])
        await put(writer, "2998", b"new")
    page = await ranging

    truth = etcd.range(b"/mainstay/", b"/mainstay0", page.revision, limit=0, count_only=False)
    assert [(entry.key, entry.revision) for entry in page.entries] == [
        (kv.key.decode().removeprefix("/mainstay/"), kv.mod_revision) for kv in truth.kvs
    ]
    assert page.revision < etcd.revision
    assert page.remaining == 0


async def test_a_range_that_is_overtaken_by_compaction_begins_again(sim: Simulation) -> None:
    etcd = FakeEtcd()
    store = a_store(etcd)
    for first in range(0, 1000, 100):
        await store.commit([], [Put(f"{number:04}", b"old") for number in range(first, first + 100)])

    def compact() -> None:
        etcd.txn([], [PutKey(b"/mainstay/0000", b"new")], [])
        etcd.compact(etcd.revision)

    sim.loop.call_later(0.0012, compact)  # The first part has been read, the second one has been asked for.
    page = await store.range("")

    assert page.revision == etcd.revision
    assert page.entries[0].value == b"new"


async def test_a_range_of_large_values_is_read_in_small_parts() -> None:
    etcd = FakeEtcd()
    store = a_store(etcd)
    for number in range(60):
        await put(store, f"{number:02}", bytes(1_000_000))

    page = await store.range("", limit=55)

    assert (len(page.entries), page.remaining) == (55, 5)


# Compaction.


async def test_a_compaction_whose_answer_is_lost_is_repeated() -> None:
    etcd = FakeEtcd()
    store = a_store(etcd)

    for target in range(2, 22):
        etcd.faults.lose_response = 0.0
        assert await put(store, "a") == target
        etcd.faults.lose_response = 0.3
        assert await store.compact(target) == target


async def test_no_hold_can_be_taken_on_what_is_being_compacted() -> None:
    etcd = FakeEtcd()
    store = a_store(etcd)
    await put(store, "a")
    latest = await put(store, "a")
    compacting = tasks.spawn(store.compact(latest), name="compact")
    await tasks.sleep(timedelta(milliseconds=1.5))  # The latest revision is known; the compaction is on its way.

    with pytest.raises(Compacted):
        store.hold(latest - 1)
    assert await compacting == latest


# Opening.


@pytest.mark.real_loop
async def test_opening_names_the_address_that_does_not_answer() -> None:
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1"):
        await open_etcd(["127.0.0.1:1"], chance=Chance(b"test"))
