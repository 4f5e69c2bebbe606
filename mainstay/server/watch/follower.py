"""Follows all objects under one prefix, for a part of the server that keeps something made from them.

It reads what is there, then hears of every change from the server's own feed (feed.py), at the moment in which watches
are told. When changes were missed, or one could not be handled, it reads everything again. A read takes a while, so
what it found may be older than a change that came meanwhile: such changes are put into it before it is handed over.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final

from mainstay.env import tasks, vital
from mainstay.env.failed_objects import FailedObjects
from mainstay.env.invariants import BrokenInvariant
from mainstay.server.watch.feed import Feed
from mainstay.store.errors import Compacted, StoreUnavailable
from mainstay.store.interface import Entry, KeyChange, Store

RETRY_AFTER: Final = timedelta(seconds=1)
FAILED_RETRY_AFTER: Final = timedelta(seconds=10)  # After an object that could not be handled.
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
        self.prefix = prefix
        self._on_change = on_change
        self._on_reset = on_reset
        self._reading: asyncio.Task[None] | None = None
        self._heard: list[KeyChange] | None = None
        """The changes since a read began, while one is under way."""
        self._is_missing_changes = False
        self._reached = 0
        self._failed = FailedObjects(prefix.rstrip("/"))

    async def start(self) -> Sequence[Entry]:
        """Begin to follow. Returns what is there, with every change that was heard of until then."""
        self._feed.window(self.prefix).join(self, self._take, self)
        self._feed.followers[self] = None
        return await self._read()

    async def stop(self) -> None:
        self._feed.window(self.prefix).leave(self, self)
        self._feed.followers.pop(self, None)
        if self._reading is not None:
            await tasks.stop(self._reading)

    @property
    def reached(self) -> int:
        """The revision up to which every change was handed over. It stays while changes are missing."""
        if self._reading is None or self._reading.done():
            self._reached = self._feed.revision
        return self._reached

    async def _read(self) -> Sequence[Entry]:
        """What is there now. Reads once more if changes were missed meanwhile. One at a time."""
        try:
            while True:
                heard: list[KeyChange] = []
                self._heard, self._is_missing_changes = heard, False
                entries, revision = await self._read_all()
                if not self._is_missing_changes:
                    break
        finally:
            self._heard = None
        for change in heard:
            if change.revision <= revision:
                continue
            if change.entry is None:
                entries.pop(change.key, None)
            else:
                entries[change.key] = change.entry
        return list(entries.values())

    async def _read_all(self) -> tuple[dict[str, Entry], int]:
        """Everything at one revision, by key."""
        page = await self._store.range(self.prefix, limit=PAGE_ENTRIES)
        entries = list(page.entries)
        while page.remaining:
            page = await self._store.range(
                self.prefix, at=page.revision, limit=PAGE_ENTRIES, after=page.entries[-1].key
            )
            entries += page.entries
        return {entry.key: entry for entry in entries}, page.revision

    async def _reset(self) -> None:
        while True:
            try:
                entries = await self._read()
                self._failed.clear()
                self._on_reset(entries)
                return
            except (StoreUnavailable, Compacted):
                await tasks.sleep(RETRY_AFTER)
            except BrokenInvariant:
                raise
            except Exception as error:  # noqa: BLE001 - logged, shown by the check, and tried again
                self._failed.note(self.prefix, error)
                await tasks.sleep(FAILED_RETRY_AFTER)

    def _take(self, change: KeyChange) -> bytes:
        if self._heard is not None:
            self._heard.append(change)
        try:
            self._on_change(change)
        except BrokenInvariant:
            raise
        except Exception as error:  # noqa: BLE001 - logged; what was made may be half changed: make it again
            self._failed.note(change.key, error)
            self.lost()
        return b""

    def lost(self) -> None:
        self._is_missing_changes = True
        if self._heard is not None or (self._reading is not None and not self._reading.done()):
            return  # A read is under way, or about to be tried again: it notices.
        self._reading = vital.spawn(self._reset(), name=f"follower/{self.prefix.rstrip('/')}", may_end=True)

    def tell(self, data: bytes) -> None:
        """Nothing is ever rendered for us."""

    def fail(self, change: KeyChange) -> None:
        """Nothing is rendered for us, so nothing can fail."""

    def end(self, reason: bytes) -> None:
        """The feed ends listeners that are too slow. This one only takes notes."""
        raise RuntimeError(f"the feed has dropped the follower of {self.prefix}: {reason.decode(errors='replace')}")
