"""Keeps what admission knows of priority classes up to date, from the server's own feed."""

import msgspec

from mainstay.server.admission import Known
from mainstay.server.feed import Feed
from mainstay.store.interface import Change, Entry, Store

PREFIX = "scheduling.k8s.io/priorityclasses/"


class Priorities:
    """Implements `Listener` (feed.py), though it is told through what it renders."""

    def __init__(self, known: Known) -> None:
        self._known = known

    async def start(self, store: Store, feed: Feed) -> None:
        page = await store.range(PREFIX)
        for entry in page.entries:
            self._learn(entry)
        feed.window(PREFIX).join(self, self._take, self)

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

    def tell(self, data: bytes) -> None:
        """Nothing is ever rendered for us."""

    def end(self, reason: bytes) -> None:
        """Never asked for."""
