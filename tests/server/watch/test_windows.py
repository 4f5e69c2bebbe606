"""Windows are bounded by bytes, and by age; slow watchers all together too (H10, M6)."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from mainstay.env import tasks
from mainstay.http.streams import BodyStream, Outlet, StreamMemory
from mainstay.http.websocket import WebSocket
from mainstay.server.watch import feed as feeding
from mainstay.server.watch.feed import FRESH_FOR, Feed, Window
from mainstay.server.watch.session import Outgoing
from mainstay.server.watch.websocket import over_websocket
from mainstay.sim.simulation import Simulation
from mainstay.store import open_memory
from mainstay.store.interface import Entry, KeyChange, Put, Store
from tests.server.world import CONFIGMAPS, a_configmap, a_server

MEBIBYTE = 1024 * 1024


async def write(store: Store, kind: str, count: int, size: int) -> None:
    for number in range(count):
        await store.commit([], [Put(f"core/{kind}/default/one", b"%07d" % number + b"x" * size)])


async def test_many_patches_of_a_large_object_do_not_fill_the_memory(sim: Simulation):
    store = await open_memory()
    feed = await Feed.start(store)
    await write(store, "configmaps", 200, MEBIBYTE)
    await feed.reach(await store.revision())

    window = feed.window("core/configmaps/")
    held = sum(len(change.entry.value) for change in window.changes if change.entry is not None)
    assert 0 < held <= feeding.WINDOWS_BYTES_MAX
    assert window.bytes <= feeding.WINDOWS_BYTES_MAX
    assert window.since(window.complete_after - 1) is None
    assert window.since(await store.revision()) == []
    await feed.stop()


async def test_a_busy_kind_gives_way_before_a_quiet_one(sim: Simulation, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(feeding, "WINDOWS_BYTES_MAX", 4 * MEBIBYTE)
    store = await open_memory()
    feed = await Feed.start(store)
    await write(store, "secrets", 50, 1000)
    await write(store, "configmaps", 100, MEBIBYTE // 4)
    await feed.reach(await store.revision())
    windows = [feed.window(f"core/{kind}/") for kind in ("secrets", "configmaps")]
    assert len(windows[0].changes) == 50
    assert 0 < len(windows[1].changes) < 20
    assert feed._bytes == sum(window.bytes for window in windows) <= 4 * MEBIBYTE
    await feed.stop()


async def test_old_changes_of_large_windows_are_forgotten_and_small_windows_are_kept(sim: Simulation):
    store = await open_memory()
    feed = await Feed.start(store)
    clock = sim.get_clock("server")
    await write(store, "secrets", 50, 1000)
    await write(store, "configmaps", 20, MEBIBYTE // 4)
    await feed.reach(await store.revision())
    feed.forget_old(clock.monotonic_ns())
    large = feed.window("core/configmaps/")
    assert large.bytes > 4 * MEBIBYTE
    await tasks.sleep(FRESH_FOR + timedelta(seconds=1))
    feed.forget_old(clock.monotonic_ns())
    assert large.bytes <= feeding.OLD_BYTES_MAX
    assert len(feed.window("core/secrets/").changes) == 50
    await feed.stop()


async def test_a_watch_from_before_what_was_forgotten_lists_again(sim: Simulation, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(feeding, "WINDOWS_BYTES_MAX", MEBIBYTE)
    async with a_server(sim) as client:
        made = await client.create(CONFIGMAPS, a_configmap("one", a="x" * 100_000))
        path = f"{CONFIGMAPS}?watch=1&resourceVersion={made['metadata']['resourceVersion']}"
        async with client.watch(path) as listening:
            for number in range(20):
                await client.patch(f"{CONFIGMAPS}/one", {"data": {"n": str(number)}})
                assert (await listening.next())["object"]["data"]["n"] == str(number)
        async with client.watch(path) as events:
            error = await events.next()
            assert (error["type"], error["object"]["code"]) == ("ERROR", 410)


def test_a_window_covers_what_comes_after_the_change_it_forgot_last(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(feeding, "WINDOW_CHANGES_MAX", 2)
    window = Window(10)
    window.add([KeyChange(revision, "k", Entry("k", b"", 11, revision, 1), None) for revision in (12, 15, 19, 23)])

    # 12 and 15 are forgotten. Who has not seen 15 has to list; who has, has missed nothing.
    answers = {revision: window.since(revision) for revision in (11, 14, 15, 18, 19)}
    found = {at: None if since is None else [each.revision for each in since] for at, since in answers.items()}
    assert found == {11: None, 14: None, 15: [19, 23], 18: [19, 23], 19: [23]}


@pytest.mark.parametrize("lacks", [1, 0])
async def test_a_watch_from_right_before_the_last_change_that_was_forgotten_lists_again(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch, lacks: int
):
    monkeypatch.setattr(feeding, "WINDOW_CHANGES_MAX", 3)
    async with a_server(sim) as client:
        await client.create(CONFIGMAPS, a_configmap("one"))
        revisions = []
        for number in range(6):
            patched = await client.patch(f"{CONFIGMAPS}/one", {"data": {"n": str(number)}})
            revisions.append(int(patched["metadata"]["resourceVersion"]))
        forgotten = revisions[2]

        async with client.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={forgotten - lacks}") as events:
            first = await events.next()

        if lacks:
            assert (first["type"], first["object"]["code"]) == ("ERROR", 410)
        else:
            assert first["object"]["data"]["n"] == "3"


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.waiting = 0

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def write(self, data: Any) -> None:
        self.waiting += len(data)


async def test_slow_watchers_are_bounded_all_together_and_the_slowest_go_first():
    memory = StreamMemory(1000)
    transports = [Transport() for _ in range(20)]
    streams = [BodyStream(Outlet(each), bytes_max=400, is_chunked=False, memory=memory) for each in transports]
    for _ in range(20):
        for stream in streams[:10]:
            stream.write(b"x" * 30)
    assert any(stream.is_too_slow for stream in streams[:10])
    assert sum(each.waiting for each in transports) <= 1000 + 30 * 10
    # One that keeps up is not affected, and when the slow ones are gone there is room again.
    assert streams[10].write(b"x" * 30)
    for transport, stream in zip(transports, streams, strict=True):
        transport.waiting = 0
        memory.forget(stream)
    assert memory.total == 0
    assert streams[11].write(b"x" * 300)
    assert streams[11].write(b"x" * 30)


async def test_slow_watchers_on_websockets_count_among_the_others(sim: Simulation):
    memory, cut_off = StreamMemory(1000), []

    def open_socket(transport: Transport) -> WebSocket:
        outlet = Outlet(transport)
        outlet.pause()  # The client takes nothing.
        return WebSocket(outlet, message_bytes_max=1000, memory=memory)

    async def watch(outgoing: Outgoing) -> None:
        while outgoing.write(b"x" * 29 + b"\n"):
            await tasks.turns(1)
        cut_off.append(memory.total)

    transports = [Transport() for _ in range(10)]
    await asyncio.gather(*(over_websocket(watch)(open_socket(each)) for each in transports))
    assert len(cut_off) == 10
    assert 500 < max(cut_off) <= 1000 + 30 * 10
    assert memory.total == 0


async def test_a_watch_of_the_store_that_is_far_behind_reads_on_in_pieces(sim: Simulation):
    store = await open_memory()
    await write(store, "configmaps", 20, MEBIBYTE)
    sizes = []
    with store.watch("", after=1) as watch:
        async for batch in watch:
            sizes.append(len(batch.changes))
            if batch.revision == await store.revision():
                break
    assert sum(sizes) == 20
    assert max(sizes) <= 3
