"""A part of the server that follows a prefix ends up with what is in the store, however long its reads take."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from mainstay.env import tasks
from mainstay.server.watch.feed import Feed
from mainstay.server.watch.follower import PrefixFollower
from mainstay.store import open_memory
from mainstay.store.interface import DeleteEntry, Entry, KeyChange, Put, RangePage, Store

PREFIX = "core/things/"


async def settle() -> None:
    await tasks.sleep(timedelta(seconds=1))


class LateReads:
    """A store whose answers to reads arrive when a test lets them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.arrives: list[asyncio.Event] = []

    async def range(self, prefix: str, **how: Any) -> RangePage:
        page = await self._store.range(prefix, **how)
        self.arrives.append(asyncio.Event())
        await self.arrives[-1].wait()
        return page


class Followed:
    """What a follower made of it all."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def take(self, change: KeyChange) -> None:
        self.values.pop(change.key, None)
        if change.entry is not None:
            self.values[change.key] = change.entry.value

    def reset(self, entries: Sequence[Entry]) -> None:
        self.values = {entry.key: entry.value for entry in entries}


async def write(store: Store, **values: str | None) -> None:
    writes = [
        DeleteEntry(PREFIX + name) if value is None else Put(PREFIX + name, value.encode())
        for name, value in values.items()
    ]
    await store.commit([], writes)
    await settle()


async def test_a_change_during_the_first_read_is_in_what_is_there(sim):
    store = await open_memory()
    await write(store, old="1", gone="1", same="1")
    late, feed, followed = LateReads(store), await Feed.start(store), Followed()
    follower = PrefixFollower(late, feed, PREFIX, followed.take, followed.reset)  # type: ignore[arg-type]
    starting = tasks.spawn(follower.start(), name="start")
    await settle()

    await write(store, old="2", gone=None, new="1")
    late.arrives[0].set()
    followed.reset(await starting)

    assert followed.values == {PREFIX + "old": b"2", PREFIX + "new": b"1", PREFIX + "same": b"1"}
    await follower.stop()
    await feed.stop()


async def test_a_read_that_is_overtaken_does_not_bring_back_what_was(sim):
    store = await open_memory()
    late, feed, followed = LateReads(store), await Feed.start(store), Followed()
    follower = PrefixFollower(late, feed, PREFIX, followed.take, followed.reset)  # type: ignore[arg-type]
    starting = tasks.spawn(follower.start(), name="start")
    await settle()
    late.arrives[0].set()
    await starting

    follower.lost()
    await settle()
    await write(store, a="1")
    follower.lost()  # Once more, while the answer to the first read is under way.
    await settle()
    late.arrives[1].set()
    await settle()
    assert followed.values == {PREFIX + "a": b"1"}, "not handed over: changes were missed since"

    late.arrives[2].set()
    await settle()
    assert followed.values == {PREFIX + "a": b"1"}
    assert len(late.arrives) == 3, "one read after the other"
    await follower.stop()
    await feed.stop()
