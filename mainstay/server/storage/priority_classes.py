"""Keeps what admission knows of priority classes up to date, from the server's own feed."""

import asyncio
from datetime import timedelta
from typing import Final

import msgspec

from mainstay.env import tasks
from mainstay.server.storage.admission import Known
from mainstay.server.watch.feed import Feed
from mainstay.store.errors import Unavailable
from mainstay.store.interface import Change, Entry, Store

PREFIX: Final = "scheduling.k8s.io/priorityclasses/"
RETRY_AFTER: Final = timedelta(seconds=1)


class Priorities:
    """Implements `Listener` (server/watch/feed.py). It learns from each change while that is rendered: nothing is left
    to tell.
    """

    def __init__(self, store: Store, feed: Feed, known: Known) -> None:
        self._store = store
        self._feed = feed
        self._known = known
        self._reading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._feed.window(PREFIX).join(self, self._take, self)
        await self._read()

    async def stop(self) -> None:
        self._feed.window(PREFIX).leave(self, self)
        if self._reading is not None:
            await tasks.stop(self._reading)

    async def _read(self) -> None:
        page = await self._store.range(PREFIX)
        self._known.priorities.clear()
        self._known.default_priority = ""
        for entry in page.entries:
            self._learn(entry)

    def _take(self, change: Change) -> bytes:
        if change.entry is not None:
            self._learn(change.entry)
        else:
            name = change.key.removeprefix(PREFIX)
            self._known.priorities.pop(name, None)
            if self._known.default_priority == name:
                self._known.default_priority = ""
        return b""

    def _learn(self, entry: Entry) -> None:
        name, found = entry.key.removeprefix(PREFIX), msgspec.json.decode(entry.value)
        policy = found.get("preemptionPolicy") or "PreemptLowerPriority"
        self._known.priorities[name] = (found.get("value", 0), policy)
        if found.get("globalDefault"):
            self._known.default_priority = name
        elif self._known.default_priority == name:
            self._known.default_priority = ""

    def lost(self) -> None:
        self._reading = tasks.spawn(self._read_again(), name="priorities anew")

    async def _read_again(self) -> None:
        while True:
            try:
                await self._read()
            except Unavailable:
                await tasks.sleep(RETRY_AFTER)
            else:
                return

    def tell(self, data: bytes) -> None:
        """Nothing is ever rendered for us."""

    def end(self, reason: bytes) -> None:
        """Never asked for: priority classes are always served."""
