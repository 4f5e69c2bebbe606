"""Follows all objects under one prefix, for a part of the server that keeps something made from them.

It reads what is there, then hears of every change from the server's own feed (feed.py), at the moment in which watches
are told. When changes were missed it reads everything again.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final

from mainstay.env import tasks
from mainstay.server.watch.feed import Feed
from mainstay.store.errors import Compacted, StoreUnavailable
from mainstay.store.interface import Entry, KeyChange, Store

RETRY_AFTER: Final = timedelta(seconds=1)
PAGE_ENTRIES: Final = 500


class PrefixFollower:
    """Implements `Listener` (feed.py). It acts on each change while that is rendered: nothing is left to tell."""

    def __init__(
        self,
        store: Store,
        feed: Feed,
        prefix: str,
        on_change: Callable[[KeyChange], None],
        on_reset: Callable[[Sequence[Entry]], None],
    ) -> None:
        """`on_reset` is given all that is there, after changes were missed."""
        self._store = store
        self._feed = feed
        self._prefix = prefix
        self._on_change = on_change
        self._on_reset = on_reset
        self._reading: asyncio.Task[None] | None = None

    async def start(self) -> Sequence[Entry]:
        """Begin to follow. Returns what is there; a change may be heard of before that, and is in it then."""
        self._feed.window(self._prefix).join(self, self._take, self)
        return await self._read()

    async def stop(self) -> None:
        self._feed.window(self._prefix).leave(self, self)
        if self._reading is not None:
            await tasks.stop(self._reading)

    async def _read(self) -> Sequence[Entry]:
        entries: list[Entry] = []
        page = await self._store.range(self._prefix, limit=PAGE_ENTRIES)
        while True:
            entries += page.entries
            if not page.remaining:
                return entries
            page = await self._store.range(
                self._prefix, at=page.revision, limit=PAGE_ENTRIES, after=page.entries[-1].key
            )

    async def _reset(self) -> None:
        while True:
            try:
                entries = await self._read()
            except (StoreUnavailable, Compacted):
                await tasks.sleep(RETRY_AFTER)
            else:
                self._on_reset(entries)
                return

    def _take(self, change: KeyChange) -> bytes:
        self._on_change(change)
        return b""

    def lost(self) -> None:
        self._reading = tasks.spawn(self._reset(), name=f"read {self._prefix} again")

    def tell(self, data: bytes) -> None:
        """Nothing is ever rendered for us."""

    def end(self, reason: bytes) -> None:
        """The feed ends listeners that are too slow. This one only takes notes."""
        raise RuntimeError(f"the feed has dropped the follower of {self._prefix}: {reason.decode(errors='replace')}")
