"""One watch of one client: what is there, then what happens, as lines of JSON.

The stream begins with the state as of a revision, if that was asked for, and goes on with every later change from the
feed's window. From the moment that both are at the same revision the client is one listener among others (feed.py),
and nothing is computed for it alone.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime, timedelta
from random import Random
from typing import Final, Protocol

import msgspec

from mainstay.api.annotations import INITIAL_EVENTS_END, STORE_EPOCH
from mainstay.api.errors import StatusError, StatusReason
from mainstay.api.kind import Kind
from mainstay.env import Clock, tasks, vital
from mainstay.env.invariants import BrokenInvariant, broken
from mainstay.server.request import representation
from mainstay.server.request.representation import ObjectShape, ResponseForm
from mainstay.server.request.target import Options
from mainstay.server.storage.epochs import StoreEpochs, restored_error
from mainstay.server.storage.keyspace import build_prefix
from mainstay.server.storage.reads import require_list_options
from mainstay.server.storage.selection import Selection
from mainstay.server.storage.stored import PIECE_BYTES
from mainstay.server.watch.feed import EventTally, Window
from mainstay.server.watch.heartbeats import LEASES
from mainstay.store.errors import StoreError
from mainstay.store.interface import Entry, KeyChange, RangePage

BOOKMARK_EVERY: Final = timedelta(seconds=1)
HEARTBEAT_TICKS: Final = 10  # Without a bookmark. Then one is sent even if it says nothing new: we are still here.
AT_ONCE_CHANGES: Final = 200  # What a watch has missed is sent without waiting if it is no more than this.
EVENT_BYTES: Final = 1024  # What it costs to look at an object, in bytes that are only copied.
TIMEOUT_MIN_S: Final = 1800

_encode = msgspec.json.Encoder().encode
_logger = logging.getLogger(__name__)


class Outgoing(Protocol):
    """Where the lines of a watch go: an HTTP stream, or a WebSocket."""

    def write(self, data: bytes) -> bool:
        """Send some whole lines; never waits. False: the client is gone, or too slow."""

    async def turn(self) -> None:
        """Let others have their turn before more is made."""

    async def drain(self) -> None:
        """Wait until the client takes more, or is gone."""

    def end_soon(self) -> None: ...

    async def wait_closed(self) -> None: ...


class StoredRange(Protocol):
    """What there is to begin with: the store, or what stands in for it."""

    async def range(self, prefix: str) -> RangePage: ...

    async def revision(self) -> int: ...


class ChangeFeed(Protocol):
    """What is told of afterwards: the feed, or what stands in for it (server/decisions/feed.py)."""

    revision: int

    @property
    def news(self) -> int: ...

    def window(self, prefix: str) -> Window: ...

    def tally(self, kind: Kind) -> EventTally: ...

    async def reach(self, revision: int) -> None: ...

    def forget_old(self, now_ns: int) -> None: ...


class Watching:
    """Serves watches. One for the whole server; it tells those who want to know how far the feed has got."""

    def __init__(
        self, store: StoredRange, feed: ChangeFeed, clock: Clock, jitter: Random, epochs: StoreEpochs | None = None
    ) -> None:
        self._store = store
        self._feed = feed
        self._clock = clock
        self._jitter = jitter
        self._epochs = epochs
        self._bookmarked: dict[_Session, None] = {}
        self._ticking = vital.spawn(self._send_bookmarks(), name="bookmarks")

    def open(
        self, selection: Selection, form: ResponseForm, options: Options, epoch: str = ""
    ) -> Callable[[Outgoing], Awaitable[None]]:
        """Look at what is asked for, and return what runs the stream. Raises `StatusError` for what makes no sense.

        `epoch` is what the client was told of the store when it was told the version (server/storage/epochs.py), if
        it says it.
        """
        require_list_options(options, is_watch=True)
        version = options.get("resourceVersion")
        if version and (not version.isascii() or not version.isdigit() or len(version) > 18):
            text = (
                f'resourceVersion: Invalid value: "{version}": strconv.ParseUint: parsing "{version}": invalid syntax'
            )
            raise StatusError(500, "", text)
        start = int(version or "0")
        wants_state = start == 0 or options.flag("sendInitialEvents")
        limit = timedelta(seconds=options.number("timeoutSeconds") or TIMEOUT_MIN_S * (1 + self._jitter.random()))
        session = _Session(self._store, self._feed, self._clock, selection, form, options, self._epochs)

        async def run(stream: Outgoing) -> None:
            if options.flag("allowWatchBookmarks"):
                self._bookmarked[session] = None
            try:
                await session.run(stream, start, wants_state, limit, epoch)
            finally:
                self._bookmarked.pop(session, None)

        return run

    def end_all(self, kind: Kind) -> None:
        """End the watches of a kind that is no longer served."""
        for group in list(self._feed.window(build_prefix(kind)).groups.values()):
            for listener in list(group.listeners):
                listener.end(b"")

    async def _send_bookmarks(self) -> None:
        while True:
            await tasks.sleep(BOOKMARK_EVERY)
            self._feed.forget_old(self._clock.monotonic_ns())
            for session in list(self._bookmarked):
                session.bookmark()

    async def stop(self) -> None:
        await tasks.stop(self._ticking)


class _Session:
    """One watch. Implements `Listener` (feed.py)."""

    def __init__(
        self,
        store: StoredRange,
        feed: ChangeFeed,
        clock: Clock,
        selection: Selection,
        form: ResponseForm,
        options: Options,
        epochs: StoreEpochs | None,
    ) -> None:
        self._store = store
        self._feed = feed
        self._clock = clock
        self._selection = selection
        self._form = form
        self._epochs = epochs
        self._include = options.get("includeObject", "Metadata")
        self._wants_end_of_state = options.flag("sendInitialEvents") and options.flag("allowWatchBookmarks")
        self._tally = feed.tally(selection.kind)
        self._stream: Outgoing | None = None
        self._columns_sent = False
        self._told: int | None = None
        """The revision of the last bookmark; None while the state is still being sent."""
        self._told_epoch = ""
        self._silent_ticks = 0
        self._bookmark_begins = _bookmark(selection.kind, 0).removesuffix(b'0"}}}\n')
        # Those who watch leases listen for heartbeats: to them, that none is missing is news.
        self._hears_heartbeats = build_prefix(selection.kind) == LEASES

    async def run(self, stream: Outgoing, start: int, wants_state: bool, limit: timedelta, epoch: str) -> None:
        self._stream = stream
        try:
            async with tasks.timeout(limit):
                if wants_state:
                    start = await self._send_state(stream)
                elif epoch and self._epochs is not None and not await self._epochs.covers(epoch, start):
                    self.end(_error(restored_error(start)))
                    return
                await self._follow(stream, start)
        except TimeoutError:
            pass  # Its time is over: a clean end.
        except (BrokenInvariant, StoreError, StatusError):
            raise
        except Exception as error:  # An object that cannot be shown.
            _logger.error("cannot show %s to a watch: %r", self._selection.prefix, error, exc_info=error)
            self.end(_failure(f"cannot show {self._selection.kind.plural} to this watch"))

    async def _follow(self, stream: Outgoing, start: int) -> None:
        window = self._feed.window(build_prefix(self._selection.kind))
        await self._feed.reach(self._feed.revision)  # Where it is already; but it may have ended.
        if await self._is_future_revision(start):
            # To wait until the store gets there would be to say nothing for hours, and then to leave out what has
            # happened until then.
            self.end(_too_large(start))
            return
        # A client that is far behind is told at the pace at which it reads. It ends: either it catches up, or what it
        # have not heard leaves the window.
        while start <= self._feed.revision and (missed := window.since(start)) and len(missed) > AT_ONCE_CHANGES:
            await self._send(stream, (self._render(change) for change in missed))
            start = missed[-1].revision
        # No waiting from here to `join`: what the window has, and what comes after, must leave no gap.
        rest = window.since(start) if start <= self._feed.revision else []
        if rest is None:
            self.end(_expired(start, window.complete_after))
            return
        if rest and rest[-1].revision > self._feed.revision:
            story = {"feed": self._feed.revision, "window": rest[-1].revision}
            raise broken("a window is not ahead of its feed", f"key {rest[-1].key}", **story)
        shares = (
            self._form.shape is not ObjectShape.TABLE
        )  # A table's first row also has the columns: each client its own.
        key = (self._selection.key, self._form, self._include) if shares else self
        render: Callable[[KeyChange], bytes] = self._render
        if start > self._feed.revision:
            render = _later_than(start, self._render)
            key = self
        for change in rest:
            self._tell_alone(self._render(change))
        window.join(key, render, self, self._tally, self._selection.only)
        # Not where the feed is. A client that is ahead of it must not be told to go back; and one that was behind, and
        # has missed nothing of this kind, waits to hear how far it may go.
        self._told = start
        try:
            await stream.wait_closed()
        finally:
            window.leave(key, self)

    async def _is_future_revision(self, revision: int) -> bool:
        """Whether this store has never reached this revision: then it was restored from a backup."""
        return revision > self._feed.revision and revision > await self._store.revision()

    async def _send_state(self, stream: Outgoing) -> int:
        page = await self._store.range(self._selection.prefix)
        # The feed must have passed this revision on, or the changes up to it would be sent a second time.
        await self._feed.reach(page.revision)
        covers = self._selection.covers
        await self._send(
            stream,
            (self._event("ADDED", entry, entry.revision) if covers(entry) else b"" for entry in page.entries),
        )
        if self._wants_end_of_state:
            self._tell_alone(_bookmark(self._selection.kind, page.revision, self._epoch(), is_end_of_state=True))
        return page.revision

    async def _send(self, stream: Outgoing, events: Iterable[bytes]) -> None:
        """Send many events, as fast as the client takes them. What the selection leaves out is empty."""
        piece: list[bytes] = []
        size = 0
        for event in events:
            if event:
                piece.append(event)
            size += len(event) + EVENT_BYTES
            if size >= PIECE_BYTES:
                self._tell_alone(b"".join(piece), events=len(piece))
                piece, size = [], 0
                await stream.turn()
                await stream.drain()
        self._tell_alone(b"".join(piece), events=len(piece))

    def bookmark(self) -> None:
        """Say that everything up to here has been sent, if that is news, or if nothing was said for long."""
        if self._told is None:
            return
        self._silent_ticks += 1
        news = self._feed.revision if self._hears_heartbeats else min(self._feed.news, self._feed.revision)
        if news > self._told or self._silent_ticks >= HEARTBEAT_TICKS:
            self._told = max(self._told, self._feed.revision)
            self._silent_ticks = 0
            if self._epochs is not None and self._epochs.newest != self._told_epoch:
                self._tell_alone(_bookmark(self._selection.kind, self._told, self._epoch()))
            else:
                self._tell_alone(self._bookmark_begins + b'%d"}}}\n' % self._told)

    def _epoch(self) -> str:
        """The newest epoch. It is sent once."""
        if self._epochs is not None:
            self._told_epoch = self._epochs.newest
        return self._told_epoch

    def _tell_alone(self, data: bytes, *, events: int = 1) -> None:
        """Send what goes to this client alone. What goes to a group, the group has counted."""
        if data:
            self._tally.events += events
            self.tell(data)

    def tell(self, data: bytes) -> None:
        if data and self._stream is not None and not self._stream.write(data):
            # Too slow, or gone. It is cut off, and finds out what it has missed when it comes back.
            self._stream.end_soon()

    def fail(self, change: KeyChange) -> None:
        name = change.key.removeprefix(build_prefix(self._selection.kind))
        text = f"cannot show {self._selection.kind.plural} {name} at revision {change.revision} to this watch"
        self.end(_failure(text))

    def lost(self) -> None:
        self.end(_expired(self._told or 0, self._feed.revision))

    def end(self, reason: bytes) -> None:
        self._tell_alone(reason)
        if self._stream is not None:
            self._stream.end_soon()
            self._stream = None  # Until it is over there may still be a change.
        self._told = None  # And no bookmark: it would be past changes that are not told any more.

    def _render(self, change: KeyChange) -> bytes:
        """What is sent for a change: an object that begins or ceases to be selected is added or deleted."""
        was, is_now = self._selection.covers(change.previous), self._selection.covers(change.entry)
        if is_now and change.entry is not None:
            return self._event("MODIFIED" if was else "ADDED", change.entry, change.revision)
        if was and change.previous is not None:
            return self._event("DELETED", change.previous, change.revision)
        return b""

    def _event(self, kind: str, entry: Entry, revision: int) -> bytes:
        if self._selection.shown is not None:
            shown = self._selection.shown(entry)
            if shown is None:
                return b""
            entry = shown
        return b'{"type":"%b","object":%b}\n' % (kind.encode(), self._object(entry, revision))

    def _object(self, entry: Entry, revision: int) -> bytes:
        kind = self._selection.kind
        if self._form.shape is not ObjectShape.TABLE:
            return representation.one(self._form, kind, entry.value, revision, _NEVER)
        first, self._columns_sent = not self._columns_sent, True
        shown = Entry(entry.key, entry.value, entry.created, revision, entry.version)
        metadata = {"resourceVersion": str(revision)}
        rows = representation.table(kind, [shown], metadata, self._clock.wall(), self._include, with_columns=first)
        return b"".join(rows)


_NEVER: Final = datetime.min  # Only tables tell the age of things.


def _later_than(revision: int, render: Callable[[KeyChange], bytes]) -> Callable[[KeyChange], bytes]:
    """For a watch from a revision that has not come here yet: silent until it has."""
    return lambda change: render(change) if change.revision > revision else b""


def _bookmark(kind: Kind, revision: int, epoch: str = "", *, is_end_of_state: bool = False) -> bytes:
    metadata: dict[str, object] = {"resourceVersion": str(revision)}
    annotations = {INITIAL_EVENTS_END: "true"} if is_end_of_state else {}
    if epoch:
        annotations[STORE_EPOCH] = epoch
    if annotations:
        metadata["annotations"] = annotations
    shown = {"kind": kind.kind, "apiVersion": kind.group_version, "metadata": metadata}
    return _encode({"type": "BOOKMARK", "object": shown}) + b"\n"


def _too_large(asked: int) -> bytes:
    return _error(StatusError(410, StatusReason.EXPIRED, f"too large resource version: {asked}"))


def _expired(asked: int, oldest: int) -> bytes:
    return _error(StatusError(410, StatusReason.EXPIRED, f"too old resource version: {asked} ({oldest})"))


def _failure(text: str) -> bytes:
    return _error(StatusError(500, StatusReason.INTERNAL_ERROR, f"Internal error occurred: {text}"))


def _error(error: StatusError) -> bytes:
    return _encode({"type": "ERROR", "object": error.status()}) + b"\n"
