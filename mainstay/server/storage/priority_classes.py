"""Keeps what admission knows of priority classes up to date, from the server's own feed."""

from collections.abc import Sequence
from typing import Final

import msgspec

from mainstay.server.storage.admission import AdmissionContext
from mainstay.server.watch.feed import Feed
from mainstay.server.watch.follower import PrefixFollower
from mainstay.store.interface import Entry, KeyChange, Store

PREFIX: Final = "scheduling.k8s.io/priorityclasses/"


class PriorityClasses:
    def __init__(self, store: Store, feed: Feed) -> None:
        self.known = AdmissionContext()
        self._follower = PrefixFollower(store, feed, PREFIX, self._take, self._reset)

    async def start(self) -> None:
        self._reset(await self._follower.start())

    async def stop(self) -> None:
        await self._follower.stop()

    def _reset(self, entries: Sequence[Entry]) -> None:
        self.known.priorities.clear()
        self.known.default_priority = ""
        for entry in entries:
            self._learn(entry)

    def _take(self, change: KeyChange) -> None:
        if change.entry is not None:
            self._learn(change.entry)
        else:
            name = change.key.removeprefix(PREFIX)
            self.known.priorities.pop(name, None)
            if self.known.default_priority == name:
                self.known.default_priority = ""

    def _learn(self, entry: Entry) -> None:
        name, found = entry.key.removeprefix(PREFIX), msgspec.json.decode(entry.value)
        policy = found.get("preemptionPolicy") or "PreemptLowerPriority"
        self.known.priorities[name] = (found.get("value", 0), policy)
        if found.get("globalDefault"):
            self.known.default_priority = name
        elif self.known.default_priority == name:
            self.known.default_priority = ""
