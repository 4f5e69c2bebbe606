"""What every store promises of watches and compaction, proved on all of them. See test_conformance.py."""

import asyncio

import pytest

from mainstay.store.errors import Compacted
from mainstay.store.interface import (
    Entry,
    KeyChange,
    Put,
    StoreWatch,
    WatchBatch,
)
from tests.store.conformance import delete, keys, put, read

# Watches


async def test_a_watch_delivers_what_happens_after_its_revision(backend):
    async with backend.open() as store:
        await put(store, "pods/a", b"before")
        start = await store.revision()
        with store.watch("pods/", after=start) as watch:
            made = await put(store, "pods/b", b"1")
            await put(store, "nodes/x")
            changed = await put(store, "pods/b", b"2")
            gone = await delete(store, "pods/a")

            changes = await read(watch, 3)

        b1, b2 = Entry("pods/b", b"1", made, made, 1), Entry("pods/b", b"2", made, changed, 2)
        assert changes == [
            KeyChange(made, "pods/b", b1, None),
            KeyChange(changed, "pods/b", b2, b1),
            KeyChange(gone, "pods/a", None, Entry("pods/a", b"before", start, start, 1)),
        ]


async def test_a_watch_from_an_old_revision_delivers_the_history_since(backend):
    async with backend.open() as store:
        start = await store.revision()
        revisions = [await put(store, f"pods/{number % 3}") for number in range(10)]
        with store.watch("pods/", after=start) as watch:
            assert [change.revision for change in await read(watch, 10)] == revisions
        with store.watch("pods/", after=revisions[6]) as watch:
            assert [change.revision for change in await read(watch, 3)] == revisions[7:]


async def test_a_waiting_watch_is_woken_by_the_next_change(backend):
    async with backend.open() as store:
        start = await store.revision()
        with store.watch("pods/", after=start) as watch:
            waiting = asyncio.ensure_future(anext(watch))
            await put(store, "nodes/x")
            revision = await put(store, "pods/a")

            batch = await waiting

        assert [change.revision for change in batch.changes] == [revision]


async def test_a_transaction_is_never_split_over_two_batches(backend):
    async with backend.open() as store:
        start = await store.revision()
        for number in range(30):
            await store.commit([], [Put(f"pods/{each}", str(number).encode()) for each in range(20)])
        with store.watch("pods/", after=start) as watch:
            seen: dict[int, int] = {}
            while len(seen) < 30:
                batch = await anext(watch)
                for revision in {change.revision for change in batch.changes}:
                    assert revision not in seen
                    seen[revision] = sum(change.revision == revision for change in batch.changes)
        assert set(seen.values()) == {20}


async def test_watchers_see_every_revision_of_racing_writers_once_and_in_order(backend):
    async with backend.open() as store:
        start = await store.revision()

        async def write(who: int) -> None:
            for number in range(20):
                await store.commit([], [Put(f"{who % 2}/{who}", str(number).encode())])

        with store.watch("", after=start) as all_of_it, store.watch("1/", after=start) as half_of_it:
            writers = asyncio.gather(*(write(who) for who in range(8)))
            everything, half = await asyncio.gather(read(all_of_it, 160), read(half_of_it, 80))
            await writers

        assert [change.revision for change in everything] == list(range(start + 1, start + 161))
        assert half == [change for change in everything if change.key.startswith("1/")]
        for change in everything:
            assert (change.previous is None) == (change.entry is not None and change.entry.version == 1)


@pytest.mark.slow
async def test_a_watch_that_was_left_alone_for_long_has_missed_nothing(backend):
    async with backend.open() as store:
        start = await store.revision()
        with store.watch("pods/", after=start) as watch:
            await put(store, "pods/a")
            await read(watch, 1)
            for number in range(2000):
                await put(store, f"pods/{number % 50}", b"x")

            changes = await read(watch, 2000)

        assert [change.revision for change in changes] == list(range(start + 2, start + 2002))


async def test_a_range_and_a_watch_after_it_miss_nothing(backend):
    async with backend.open() as store:
        writing = True

        async def write() -> None:
            number = 0
            while writing:
                await put(store, f"pods/{number % 7}", str(number).encode())
                number += 1

        writer = asyncio.ensure_future(write())
        for _ in range(5):
            await put(store, "other")
            page = await store.range("pods/")
            state = {entry.key: entry for entry in page.entries}
            with store.watch("pods/", after=page.revision) as watch:
                for change in await read_at_least(watch, 10):
                    assert change.previous == state.get(change.key)
                    assert change.entry is not None
                    state[change.key] = change.entry
        writing = False
        await writer


async def read_at_least(watch: StoreWatch, count: int) -> list[KeyChange]:
    changes: list[KeyChange] = []
    while len(changes) < count:
        changes += (await anext(watch)).changes
    return changes


async def test_closing_a_watch_ends_it_for_a_reader_that_waits(backend):
    async with backend.open() as store:
        watch = store.watch("", after=await store.revision())
        delivered = asyncio.Event()

        async def collect() -> list[WatchBatch]:
            batches = []
            async for batch in watch:
                batches.append(batch)
                delivered.set()
            return batches

        collecting = asyncio.ensure_future(collect())
        await put(store, "a")
        await delivered.wait()
        watch.close()

        assert len(await collecting) == 1
        with pytest.raises(StopAsyncIteration):
            await anext(watch)


async def test_a_watch_that_was_given_up_can_be_taken_up_again(backend):
    """A reader that is cancelled while it waits loses nothing: the next one reads on."""
    async with backend.open() as store:
        start = await store.revision()
        with store.watch("", after=start) as watch:
            waiting = asyncio.ensure_future(anext(watch))
            await store.revision()
            waiting.cancel()
            await asyncio.wait([waiting])
            revision = await put(store, "a")

            assert [change.revision for change in await read(watch, 1)] == [revision]


# Compaction


async def test_compaction_forgets_history_but_not_what_is_there(backend):
    async with backend.open() as store:
        first = await put(store, "a", b"1")
        await put(store, "b", b"1")
        await delete(store, "b")
        middle = await put(store, "a", b"2")
        last = await put(store, "a", b"3")

        assert await store.compact(middle) == middle

        with pytest.raises(Compacted) as caught:
            await store.range("", at=first)
        assert caught.value.compacted == middle
        with pytest.raises(Compacted):
            await store.get("a", at=middle - 1)
        assert [entry.value for entry in (await store.range("", at=middle)).entries] == [b"2"]
        assert await store.get("a") == Entry("a", b"3", first, last, 3)
        assert await keys(store, "") == ["a"]


async def test_a_watch_into_compacted_history_is_told_so(backend):
    async with backend.open() as store:
        start = await put(store, "a")
        await put(store, "a")
        gone = await delete(store, "a")
        again = await put(store, "a")
        await store.compact(gone)

        for after in (start, gone - 1):
            with store.watch("", after=after) as watch, pytest.raises(Compacted):
                await anext(watch)
        with store.watch("", after=gone) as watch:
            assert [change.revision for change in await read(watch, 1)] == [again]


async def test_compacting_to_the_latest_revision_keeps_the_store_usable(backend):
    async with backend.open() as store:
        await put(store, "a")
        last = await delete(store, "a")

        assert await store.compact(last) == last

        assert await keys(store, "") == []
        assert await put(store, "a") == last + 1
        assert await store.get("a") == Entry("a", b"value", last + 1, last + 1, 1)


async def test_compacting_again_to_an_earlier_revision_changes_nothing(backend):
    async with backend.open() as store:
        first = await put(store, "a")
        second = await put(store, "a")
        await store.compact(second)

        assert await store.compact(first) == second


async def test_compaction_never_passes_a_hold(backend):
    async with backend.open() as store:
        first = await put(store, "a")
        hold = store.hold(first)
        second = await put(store, "a")
        third = await put(store, "a")

        assert await store.compact(third) == first
        with store.watch("", after=first) as watch:
            assert [change.revision for change in await read(watch, 2)] == [second, third]
        hold.advance(second)
        assert await store.compact(third) == second
        hold.release()
        hold.release()
        assert await store.compact(third) == third


async def test_the_earliest_of_several_holds_counts(backend):
    async with backend.open() as store:
        first = await put(store, "a")
        second = await put(store, "a")
        late, early = store.hold(second), store.hold(first)

        assert await store.compact(second) == first
        early.release()
        assert await store.compact(second) == second
        late.release()


async def test_writers_go_on_while_the_store_is_compacted(backend):
    async with backend.open() as store:
        for number in range(300):
            await put(store, f"pods/{number % 10}", str(number).encode())
        target = await store.revision()

        compacted, *revisions = await asyncio.gather(
            store.compact(target), *(put(store, f"pods/{number}", b"during") for number in range(20))
        )

        assert compacted == target
        assert sorted(revisions) == list(range(target + 1, target + 21))
        assert len(await keys(store, "pods/")) == 20
