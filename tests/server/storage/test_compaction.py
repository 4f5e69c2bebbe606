"""What a server lets its store forget, and what its journal keeps."""

from collections import deque
from datetime import timedelta

import pytest

from mainstay.api.object_key import ObjectKey
from mainstay.env import tasks
from mainstay.journal.history import HistoryRecorder
from mainstay.journal.reader import Reader
from mainstay.server.decisions.history_source import StoreHistory
from mainstay.server.storage import compaction
from mainstay.server.storage.compaction import compact_regularly, take_expired
from mainstay.store import open_memory
from mainstay.store.errors import Compacted
from mainstay.store.interface import Put
from tests.server.world import CONFIGMAPS, a_configmap, a_server


async def test_history_is_kept_for_a_while_and_then_forgotten(sim):
    store = await open_memory()
    compacting = tasks.spawn(compact_regularly(store, sim.get_clock("server")), name="compact")
    await store.commit([], [Put("a", b"1")])
    await tasks.sleep(timedelta(minutes=4))
    await store.commit([], [Put("a", b"2")])
    assert (await store.range("", at=2)).entries[0].value == b"1"
    await tasks.sleep(timedelta(minutes=10))
    with pytest.raises(Compacted):
        await store.range("", at=2)
    assert (await store.range("")).entries[0].value == b"2"
    await tasks.stop(compacting)


def test_history_younger_than_five_minutes_is_not_among_what_is_forgotten():
    minute_ns = 60 * 10**9
    seen = deque((minute * minute_ns, 100 + minute) for minute in range(8))

    assert take_expired(seen, 7 * minute_ns) == 102
    assert [revision for _, revision in seen] == [103, 104, 105, 106, 107]
    assert take_expired(seen, 7 * minute_ns) == 0


async def test_history_younger_than_five_minutes_is_kept_while_older_history_is_forgotten(sim):
    store = await open_memory()
    compacting = tasks.spawn(compact_regularly(store, sim.get_clock("server")), name="compact")
    written_at = {}
    for minute in range(12):
        await store.commit([], [Put("a", b"%d" % minute)])
        written_at[minute] = await store.revision()
        await tasks.sleep(timedelta(minutes=1))

    # It is minute 12. What was current five minutes ago, and all that came since, can be read.
    for minute in range(7, 12):
        assert (await store.range("", at=written_at[minute])).entries[0].value == b"%d" % minute
    with pytest.raises(Compacted):
        await store.range("", at=written_at[4])
    await tasks.stop(compacting)


async def test_the_journal_has_what_the_store_has_forgotten_with_the_decision_it_came_from(sim):
    store = await open_memory()
    disk = sim.get_disk("journal")
    source = StoreHistory(store)
    recorder = HistoryRecorder(disk, source, sim.get_clock("server"))
    await recorder.start()
    async with a_server(sim, store=store) as client:
        headers = {"Mainstay_Decision": "d-17", "Mainstay_Cause": "w-3", "Mainstay_Operation": "op-1"}
        first = await client.ask("POST", CONFIGMAPS, a_configmap("one", a="1"), **headers)
        await client.ask("PUT", f"{CONFIGMAPS}/one", a_configmap("one", a="2"))
        revision = int(first.body["metadata"]["resourceVersion"])
        await recorder.reach(await store.revision())
        await store.compact(await store.revision())

        reader = Reader(disk)
        (found,) = [each for each in reader.changes().records if each.decision]
        assert (found.revision, found.key, found.cause) == (revision, "core/configmaps/default/one", "w-3")
        state = reader.state({"configmaps": revision})
        assert b'"a":"1"' in state.kinds["configmaps"][ObjectKey("default", "one")].value
    await recorder.close()


async def test_a_history_that_takes_much_memory_is_forgotten_early(sim, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compaction, "HISTORY_BYTES_MAX", 1_000_000)
    store = await open_memory()
    released: list[int] = []

    async def release() -> None:
        released.append(store.history_bytes)

    compacting = tasks.spawn(compact_regularly(store, sim.get_clock("server"), release), name="compact")
    await tasks.sleep(timedelta(seconds=2))
    revisions = []
    for number in range(60):
        await store.commit([], [Put("a", b"%05d" % number * 20_000)])
        revisions.append(await store.revision())
        await tasks.sleep(timedelta(milliseconds=100))
    assert store.history_bytes <= 2_000_000
    assert released
    assert store.history_bytes == sum(
        len(change.previous.value)
        for transaction in store._index.transactions_after(store._index.compacted, 1000)
        for change in transaction.changes
        if change.previous is not None
    )
    with pytest.raises(Compacted):
        await store.range("", at=revisions[0])
    assert (await store.range("", at=revisions[-2])).entries[0].value == b"00058" * 20_000
    await tasks.stop(compacting)


async def a_recorder(sim, store) -> HistoryRecorder:
    recorder = HistoryRecorder(sim.get_disk("journal"), StoreHistory(store), sim.get_clock("server"))
    await recorder.start()
    return recorder


async def test_a_journal_that_keeps_up_does_not_keep_a_large_history_in_memory(sim):
    store = await open_memory()
    recorder = await a_recorder(sim, store)
    compacting = tasks.spawn(compact_regularly(store, sim.get_clock("server")), name="compact")
    largest = 0
    for number in range(200):
        await store.commit([], [Put("core/configmaps/default/a", b'{"a":"%05d%s"}' % (number, b"x" * 1_000_000))])
        await tasks.sleep(timedelta(milliseconds=20))
        largest = max(largest, store.history_bytes)

    # A second of writes more than is looked for.
    assert largest <= compaction.HISTORY_BYTES_MAX + 60_000_000
    await recorder.reach(await store.revision())
    assert recorder.gaps == 0
    await tasks.stop(compacting)
    await recorder.close()


async def test_a_journal_whose_disk_is_full_holds_a_bounded_history_and_then_notes_a_gap(sim, monkeypatch):
    monkeypatch.setattr(compaction, "HISTORY_BYTES_MAX", 1_000_000)
    monkeypatch.setattr(compaction, "HELD_BYTES_MAX", 4_000_000)
    store = await open_memory()
    recorder = await a_recorder(sim, store)
    await recorder.reach(1)
    sim.get_disk("journal").capacity_bytes = 0
    compacting = tasks.spawn(compact_regularly(store, sim.get_clock("server")), name="compact")
    largest = 0
    for number in range(400):
        await store.commit([], [Put("core/configmaps/default/a", b"%05d" % number * 20_000)])
        await tasks.sleep(timedelta(milliseconds=100))
        largest = max(largest, store.history_bytes)

    assert 4_000_000 < largest <= 5_500_000  # What is not recorded is kept for as long as there is room for it.
    sim.get_disk("journal").capacity_bytes = None
    await recorder.reach(await store.revision())
    reader = Reader(sim.get_disk("journal"))
    assert recorder.gaps == 1
    assert len(reader.changes().gaps) == 1
    await tasks.stop(compacting)
    await recorder.close()
