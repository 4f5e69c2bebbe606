"""A client whose store was put back is told so, also when the store has come further since. Others are left alone."""

from collections.abc import Sequence

from mainstay.api.annotations import STORE_EPOCH
from mainstay.api.causes import STORE_RESTORED
from mainstay.server.storage.epochs import KEPT, StoreEpochs
from mainstay.sim.cluster.store_lifecycle import KeptLog
from mainstay.sim.simulation import Simulation
from mainstay.store import open_memory
from mainstay.store.errors import StorageFull
from mainstay.store.interface import Put, Store
from mainstay.store.local import LocalStore
from mainstay.store.log import LogRow, MemoryLog
from tests.server.world import CONFIGMAPS, a_configmap, a_server


class LogWithoutRoom(MemoryLog):
    """A disk that is full, once a test says so."""

    is_full = False

    async def append(self, rows: Sequence[LogRow]) -> None:
        if self.is_full:
            raise StorageFull("there is no room left")


async def begun(sim: Simulation, store: Store, server: str) -> StoreEpochs:
    """As a server of this name begins."""
    return await StoreEpochs.begin(store, sim.env(server))


async def write(store: Store, count: int) -> int:
    """Write something else so many times. Returns the revision it came to."""
    for number in range(count):
        await store.commit([], [Put("core/other", str(number).encode())])
    return await store.revision()


async def test_what_was_told_before_and_after_a_restart_is_part_of_one_past(sim):
    store = await open_memory()
    first = await begun(sim, store, "a")
    reached = await write(store, 5)
    second = await begun(sim, store, "b")

    assert first.newest != second.newest
    assert await second.covers(first.newest, reached)
    assert await second.covers(second.newest, await write(store, 5))


async def test_what_was_written_after_the_backup_is_no_part_of_the_past(sim):
    log = KeptLog()
    store = await LocalStore.open(log)
    lost = await begun(sim, store, "a")
    saved, backup = await write(store, 5), log.copy()
    held = await write(store, 5)
    restored = await LocalStore.open(backup)
    epochs = await begun(sim, restored, "b")
    # It comes further than what the client holds: the revisions alone tell nothing.
    assert await write(restored, 20) > held

    assert await epochs.covers(lost.newest, saved)
    assert not await epochs.covers(lost.newest, saved + 1)
    assert not await epochs.covers(lost.newest, held)


async def test_an_opening_that_the_backup_does_not_have_is_no_part_of_the_past(sim):
    backup = KeptLog()
    lost = await begun(sim, await LocalStore.open(backup.copy()), "a")
    epochs = await begun(sim, await LocalStore.open(backup), "b")

    assert not await epochs.covers(lost.newest, 1)


async def test_a_server_looks_for_what_it_has_not_heard_of(sim):
    store = await open_memory()
    first, second = await begun(sim, store, "a"), await begun(sim, store, "b")

    assert first.newest != second.newest
    assert await first.covers(second.newest, await store.revision())
    assert first.newest == second.newest


async def test_the_last_openings_are_kept(sim):
    store = await open_memory()
    names = [(await begun(sim, store, f"server-{number}")).newest for number in range(KEPT + 3)]
    last = await begun(sim, store, "last")

    kept = [name for name in names if await last.covers(name, 1)]

    assert kept == names[-KEPT + 1 :]


async def test_a_full_store_is_served_and_all_clients_list_again(sim):
    log = LogWithoutRoom()
    store = await LocalStore.open(log)
    async with a_server(sim, "first", store) as client:
        await client.create(CONFIGMAPS, a_configmap("there"))
    before = await begun(sim, store, "second")
    log.is_full = True

    epochs = await begun(sim, store, "third")

    assert epochs.newest == ""
    assert not await epochs.covers(before.newest, await store.revision())
    async with a_server(sim, "fourth", store) as client:
        assert [each["metadata"]["name"] for each in (await client.get(CONFIGMAPS))["items"]] == ["there"]


async def test_bookmarks_say_of_which_store_they_are_and_a_watch_that_says_it_goes_on(sim):
    async with a_server(sim) as client:
        asked = f"{CONFIGMAPS}?watch=1&allowWatchBookmarks=true"
        async with client.watch(f"{asked}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan") as events:
            metadata = (await events.next())["object"]["metadata"]
        epoch, version = metadata["annotations"][STORE_EPOCH], metadata["resourceVersion"]
        await client.create(CONFIGMAPS, a_configmap("new"))

        async with client.watch(f"{asked}&resourceVersion={version}", **{"Mainstay-Opening": epoch}) as events:
            added, bookmark = await events.take(2)
            await client.create(CONFIGMAPS, a_configmap("newer"))
            _, later = await events.take(2)

    assert added["object"]["metadata"]["name"] == "new"
    assert bookmark["object"]["metadata"]["annotations"] == {STORE_EPOCH: epoch}
    assert "annotations" not in later["object"]["metadata"]  # It is said once.


async def test_a_watch_goes_on_where_it_was_after_a_restart_of_its_server(sim):
    store = await open_memory()
    asked = f"{CONFIGMAPS}?watch=1&allowWatchBookmarks=true"
    async with (
        a_server(sim, "first", store) as client,
        client.watch(f"{asked}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan") as events,
    ):
        metadata = (await events.next())["object"]["metadata"]
    epoch, version = metadata["annotations"][STORE_EPOCH], metadata["resourceVersion"]

    async with (
        a_server(sim, "second", store) as client,
        client.watch(f"{asked}&resourceVersion={version}", **{"Mainstay-Opening": epoch}) as events,
    ):
        await client.create(CONFIGMAPS, a_configmap("new"))
        told = await events.next()

    assert (told["type"], told["object"]["metadata"]["name"]) == ("ADDED", "new")


async def test_a_watch_of_another_past_is_refused_and_one_that_says_nothing_goes_on(sim):
    async with a_server(sim) as client:
        await client.create(CONFIGMAPS, a_configmap("other"))
        asked = f"{CONFIGMAPS}?watch=1&resourceVersion=2"
        async with client.watch(asked, **{"Mainstay-Opening": "of-another"}) as events:
            refused, end = await events.take(2)
        async with client.watch(asked) as events:
            told = await events.next()

    assert (refused["type"], refused["object"]["code"], refused["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert [each["reason"] for each in refused["object"]["details"]["causes"]] == [STORE_RESTORED]
    assert end is None
    assert told["type"] == "ADDED"


async def test_a_watch_is_told_when_another_server_has_begun(sim):
    store = await open_memory()
    async with a_server(sim, "first", store) as client:
        asked = f"{CONFIGMAPS}?watch=1&allowWatchBookmarks=true"
        async with client.watch(f"{asked}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan") as events:
            before = (await events.next())["object"]["metadata"]["annotations"][STORE_EPOCH]
            async with a_server(sim, "second", store) as other:
                await other.create(CONFIGMAPS, a_configmap("new"))
                _, bookmark = await events.take(2)

    metadata = bookmark["object"]["metadata"]
    newest = metadata["annotations"][STORE_EPOCH]
    epochs = await begun(sim, store, "third")
    assert newest != before
    assert await epochs.covers(newest, int(metadata["resourceVersion"]))
    assert not await epochs.covers(before, int(metadata["resourceVersion"]))
