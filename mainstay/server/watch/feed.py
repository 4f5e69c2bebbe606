"""The server's own watch on the store, and what each kind's watchers are told from it.

One watch over everything keeps all kinds at one revision: when it has reached a revision, no watcher of any kind can
still be owed something older. For each kind a window of its latest changes is kept, so that a watcher may begin a
little in the past. A watcher that asks for more than the window has is told to list again (410), as is one whose
connection takes its data too slowly: the feed waits for no client.

Watchers that want the same thing (same namespace, selectors and form) form a group: what is sent to them is made once
and shared. Groups that want one value of a field, as agents want the pods of their node, are found by that value, so
that a change costs the same with one agent and with a thousand.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol

from mainstay.api.kind import Kind
from mainstay.env import tasks, vital
from mainstay.env.failed_objects import FailedObjects
from mainstay.env.invariants import BrokenInvariant, Sample, broken
from mainstay.server.storage.keyspace import INTERNAL_PREFIX
from mainstay.server.watch.heartbeats import is_heartbeat
from mainstay.store.errors import Compacted, StoreUnavailable
from mainstay.store.interface import Entry, KeyChange, Store

_logger = logging.getLogger(__name__)

RETRY_AFTER: Final = timedelta(seconds=1)
WINDOW_CHANGES_MAX: Final = 20_000  # Of each kind.
WINDOWS_BYTES_MAX: Final = 64 * 1024 * 1024  # Of all kinds together: the largest windows give way first.
FRESH_FOR: Final = timedelta(seconds=75)  # As upstream. Older changes go from windows that hold more than this:
OLD_BYTES_MAX: Final = 1024 * 1024
_CHANGE_BYTES: Final = 200  # What a change takes besides the objects.
_CHECKED_ONE_IN: Final = 1000  # Additions to a window; and at most once while ten times as many come as it holds.
_GROWS: Final = "the revisions of a feed strictly grow"


class Listener(Protocol):
    """One connection that is being told of changes."""

    def tell(self, data: bytes) -> None: ...

    def end(self, reason: bytes) -> None:
        """No more: this is the last thing to say."""

    def fail(self, change: KeyChange) -> None:
        """No more: this change cannot be told."""

    def lost(self) -> None:
        """Changes may have been missed. What is there now must be read again."""


Renderer = Callable[[KeyChange], bytes]
"""What a group is told of a change; nothing, if it does not concern them."""


@dataclass(frozen=True, slots=True)
class Only:
    """What a group wants is never anything else than what has this value in this field."""

    field: str
    """With the version of the kind in which it is read."""
    value: str
    read_value: Callable[[Entry], str]
    """The same for all with the same field."""


class EventTally:
    """How many events went out to the watchers of a kind, in one of its versions."""

    __slots__ = ("events",)

    def __init__(self) -> None:
        self.events = 0


class ListenerGroup:
    """Listeners that want the same."""

    def __init__(self, render: Renderer, tally: EventTally, only: Only | None = None) -> None:
        self.render = render
        self.tally = tally
        self.only = only
        self.listeners: dict[Listener, None] = {}
        self._told = 0

    def tell(self, changes: Sequence[KeyChange]) -> None:
        if changes[0].revision <= self._told:
            story = {"told": self._told, "change": changes[0].revision}
            raise broken("a watch is told of each revision once, in order", f"key {changes[0].key}", **story)
        self._told = changes[-1].revision
        events: list[bytes] = []
        try:
            for change in changes:
                events.append(self.render(change))
        except BrokenInvariant:
            raise
        except Exception as error:  # noqa: BLE001 - logged; one object must not end the feed
            self.fail(changes[len(events)], error)
            return
        data = b"".join(events)
        if data:
            self.tally.events += (len(events) - events.count(b"")) * len(self.listeners)
            for listener in list(self.listeners):
                listener.tell(data)

    def fail(self, change: KeyChange, error: Exception) -> None:
        """End the watches of this group: they cannot be told of a change."""
        _logger.error(
            "cannot show %s at revision %d to a watch; ending %d watches: %r",
            change.key,
            change.revision,
            len(self.listeners),
            error,
            exc_info=error,
        )
        for listener in list(self.listeners):
            listener.fail(change)


class _ByValue:
    """Groups that want one value of one field each."""

    def __init__(self, read_value: Callable[[Entry], str]) -> None:
        self._read_value = read_value
        self._groups: dict[str, dict[ListenerGroup, None]] = {}

    def add(self, value: str, group: ListenerGroup) -> None:
        self._groups.setdefault(value, {})[group] = None

    def remove(self, value: str, group: ListenerGroup) -> None:
        groups = self._groups[value]
        del groups[group]
        if not groups:
            del self._groups[value]

    def tell(self, changes: Sequence[KeyChange]) -> None:
        told: dict[ListenerGroup, list[KeyChange]] = {}
        for change in changes:
            # Where it was before it hears as well: there it is gone.
            try:
                values = dict.fromkeys(
                    self._read_value(each) for each in (change.previous, change.entry) if each is not None
                )
            except BrokenInvariant:
                raise
            except Exception as error:  # noqa: BLE001 - logged; whom it concerns cannot be known
                for group in [group for groups in self._groups.values() for group in groups]:
                    told.pop(group, None)
                    group.fail(change, error)
                continue
            for value in values:
                for group in self._groups.get(value, ()):
                    told.setdefault(group, []).append(change)
        for group, theirs in told.items():
            group.tell(theirs)


class Window:
    """The latest changes of one kind, and who is told of new ones."""

    def __init__(self, complete_after: int) -> None:
        self.complete_after = complete_after
        """The window has every change after this revision."""
        self.changes: deque[KeyChange] = deque()
        self.groups: dict[object, ListenerGroup] = {}
        self._told_all: dict[ListenerGroup, None] = {}
        self._by_value: dict[str, _ByValue] = {}
        self._samples = Sample(_CHECKED_ONE_IN)
        self.bytes = 0
        """Of all changes in it, with the objects before and after."""

    def add(self, changes: Sequence[KeyChange]) -> None:
        newest = self.changes[-1].revision if self.changes else self.complete_after
        if changes[0].revision <= newest:
            raise broken(_GROWS, f"key {changes[0].key}", window=newest, change=changes[0].revision)
        self.changes.extend(changes)
        self.bytes += sum(map(_count_bytes, changes))
        while len(self.changes) > WINDOW_CHANGES_MAX:
            self.drop_oldest()
        if self._samples.take():
            self._check_gaps()
            self._samples = Sample(max(_CHECKED_ONE_IN, 10 * len(self.changes)))
        self.tell(changes)

    def drop_oldest(self) -> None:
        """Forget a change. A watcher that has not got it yet is told to list again."""
        oldest = self.changes.popleft()
        self.complete_after = oldest.revision
        self.bytes -= _count_bytes(oldest)

    def _check_gaps(self) -> None:
        """What a change has replaced is what the window says was there; or it is from before the window."""
        known: dict[str, Entry | None] = {}
        for change in self.changes:
            previous = change.previous
            if change.key in known:
                found = known[change.key]
            else:
                found = None if previous is None or previous.revision > self.complete_after else previous
            if _revision(found) != _revision(previous):
                story = {"window": _revision(found), "previous": _revision(previous), "change": change.revision}
                raise broken("a window has no gap", f"key {change.key}", complete_after=self.complete_after, **story)
            known[change.key] = change.entry

    def tell(self, changes: Sequence[KeyChange]) -> None:
        for group in list(self._told_all):
            group.tell(changes)
        for groups in list(self._by_value.values()):
            groups.tell(changes)

    def lose(self, revision: int) -> None:
        """Forget everything up to a revision, and tell all listeners so."""
        self.changes.clear()
        self.bytes = 0
        self.complete_after = revision
        for group in list(self.groups.values()):
            for listener in list(group.listeners):
                listener.lost()

    def since(self, revision: int) -> list[KeyChange] | None:
        """Every change after a revision, or None if some are no longer there."""
        if self.changes and self.changes[0].revision < self.complete_after:
            story = {"complete_after": self.complete_after, "oldest": self.changes[0].revision}
            raise broken("a window begins where it says", f"key {self.changes[0].key}", **story)
        if revision < self.complete_after:
            return None
        return [change for change in self.changes if change.revision > revision]

    def join(
        self,
        key: object,
        render: Renderer,
        listener: Listener,
        tally: EventTally | None = None,
        only: Only | None = None,
    ) -> None:
        """Tell a listener of everything from now on, together with those who want the same, and count that."""
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = ListenerGroup(render, tally or EventTally(), only)
            if only is None:
                self._told_all[group] = None
            else:
                self._by_value.setdefault(only.field, _ByValue(only.read_value)).add(only.value, group)
        group.listeners[listener] = None

    def leave(self, key: object, listener: Listener) -> None:
        group = self.groups.get(key)
        if group is not None:
            group.listeners.pop(listener, None)
            if not group.listeners:
                del self.groups[key]
                if group.only is None:
                    del self._told_all[group]
                else:
                    self._by_value[group.only.field].remove(group.only.value, group)


class Follower(Protocol):
    """Keeps something made from all objects under a prefix."""

    prefix: str

    @property
    def reached(self) -> int:
        """The revision up to which it has taken in every change."""

    def __hash__(self) -> int: ...


class Feed:
    """Follows the store. Make one with `await Feed.start(store)`."""

    def __init__(self, store: Store, revision: int) -> None:
        self._store = store
        self.revision = revision
        """Everything up to this revision has been passed on."""
        self.news = revision
        """The last revision that all who watch should soon hear of: what came after it are mere heartbeats."""
        self._began = revision
        self.tallies: dict[tuple[str, str, str], EventTally] = {}
        """What was sent, by group, version and plural name of the kind."""
        self.followers: dict[Follower, None] = {}
        """The parts of the server that keep something made from all objects of a kind (follower.py)."""
        self._windows: dict[str, Window] = {}
        self._internal_listeners: list[Callable[[KeyChange], None]] = []
        self._failed = FailedObjects("feed")
        self._bytes = 0
        """Of all windows."""
        self._reached: deque[tuple[int, int]] = deque()
        """Which revision was reached when, for a while."""
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._following: asyncio.Task[None] | None = None
        self._bug: Exception | None = None
        """Why nothing is passed on any more."""

    @classmethod
    async def start(cls, store: Store) -> "Feed":
        feed = cls(store, await store.revision())
        feed._following = vital.spawn(feed._follow(), name="feed")
        return feed

    def window(self, prefix: str) -> Window:
        """The window of the kind whose keys begin like this: `group/plural/`."""
        window = self._windows.get(prefix)
        if window is None:
            window = self._windows[prefix] = Window(self._began)
        return window

    def tally(self, kind: Kind) -> EventTally:
        """Where to count what is sent to watchers of a kind."""
        return self.tallies.setdefault((kind.group, kind.version, kind.plural), EventTally())

    def on_internal_change(self, hear: Callable[[KeyChange], None]) -> None:
        """Call this with every change of a key that is no object."""
        self._internal_listeners.append(hear)

    async def reach(self, revision: int) -> None:
        """Wait until everything up to a revision has been passed on. Raises what ended the feed, if it has."""
        if self._bug is not None:
            raise self._bug
        if self.revision < revision:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((revision, waiter))
            await waiter

    def mentioned(self, revision: int) -> None:
        """A client has seen this revision, and may wait until what it watches has come as far."""
        self.news = max(self.news, revision)

    async def stop(self) -> None:
        if self._following is not None:
            await tasks.stop(self._following)

    async def _follow(self) -> None:
        """Follow the store for as long as there is one, whatever happens to the way there."""
        while True:
            try:
                await self._follow_once()
            except Compacted as error:
                # Only when we could not reach the store for longer than it keeps its history.
                _logger.warning("missed changes; resetting all watches: %s", error)
                await self._reset()
            except StoreUnavailable as error:
                _logger.warning("cannot watch the store; retrying: %s", error)
                await tasks.sleep(RETRY_AFTER)
            except Exception as error:
                self._end(error)
                raise

    def _end(self, bug: Exception) -> None:
        """Let all watches go: here they would wait for ever, and hear that nothing happens."""
        self._bug = bug
        for window in self._windows.values():
            window.lose(self.revision)
        for _, waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(bug)
        self._waiting = []

    async def _reset(self) -> None:
        try:
            revision = await self._store.revision()
        except StoreUnavailable:
            return  # The next attempt to watch will find the same, and lead here again.
        self._began = self.revision = self.news = revision
        for window in self._windows.values():
            window.lose(revision)
        self._bytes = 0
        self._wake()

    async def _follow_once(self) -> None:
        with self._store.watch("", after=self.revision) as watch:
            async for batch in watch:
                if batch.revision <= self.revision:
                    raise broken(_GROWS, "the store's watch", feed=self.revision, batch=batch.revision)
                by_kind: dict[str, list[KeyChange]] = {}
                for change in batch.changes:
                    if change.key.startswith(INTERNAL_PREFIX):
                        for number, hear in enumerate(self._internal_listeners):
                            with self._failed.guard(f"{change.key} (listener {number})"):
                                hear(change)
                        continue
                    group, _, rest = change.key.partition("/")
                    plural, has_name, _ = rest.partition("/")
                    if not has_name:
                        _logger.warning("ignoring key %r of the store, which is no object", change.key)
                        continue
                    by_kind.setdefault(f"{group}/{plural}/", []).append(change)
                    if not is_heartbeat(change):
                        self.mentioned(change.revision)
                for prefix, changes in by_kind.items():
                    window = self.window(prefix)
                    self._bytes -= window.bytes
                    window.add(changes)
                    self._bytes += window.bytes
                if self._bytes > WINDOWS_BYTES_MAX:
                    self._drop_largest()
                self.revision = batch.revision
                self._wake()

    def _drop_largest(self) -> None:
        """Keep all windows together within their limit. What one kind does not use, others may."""
        windows = list(self._windows.values())
        while (total := sum(window.bytes for window in windows)) > WINDOWS_BYTES_MAX:
            largest = max(windows, key=lambda window: window.bytes)
            if not largest.changes:
                break
            share = max(largest.bytes - (total - WINDOWS_BYTES_MAX), 0)
            while largest.changes and largest.bytes > share:
                largest.drop_oldest()
        self._bytes = sum(window.bytes for window in windows)

    def forget_old(self, now_ns: int) -> None:
        """Let large windows go that no watcher is likely to ask for. Call it now and then."""
        self._reached.append((now_ns, self.revision))
        old = 0
        while self._reached[0][0] <= now_ns - FRESH_FOR // timedelta(microseconds=1) * 1000:
            old = self._reached.popleft()[1]
        for window in self._windows.values():
            while window.bytes > OLD_BYTES_MAX and window.changes[0].revision <= old:
                window.drop_oldest()
        self._bytes = sum(window.bytes for window in self._windows.values())

    def _wake(self) -> None:
        if not self._waiting:
            return
        still = []
        for revision, waiter in self._waiting:
            if revision > self.revision:
                still.append((revision, waiter))
            elif not waiter.done():
                waiter.set_result(None)
        self._waiting = still


def _count_bytes(change: KeyChange) -> int:
    previous, entry = change.previous, change.entry
    before = 0 if previous is None else len(previous.value)
    return _CHANGE_BYTES + before + (0 if entry is None else len(entry.value))


def _revision(entry: Entry | None) -> int | None:
    return None if entry is None else entry.revision
