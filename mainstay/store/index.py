"""The history of a store, in memory: what is there now, what was there before, and what each revision changed.

Plain data and plain functions: nothing here waits or touches a disk. The local store (local.py) applies transactions
once they are durable; reads and watches are answered from here.

How it is kept. `live` has the current entry of each key. A key that was ever overwritten or deleted since the last
compaction also has a list of its past versions, oldest first; a deletion is a version too. `history` has the
transactions themselves, for watches.

Compacting to revision C drops each version that a transaction up to C replaced, and each deletion up to C. Every
transaction in the history knows which version it replaced, so this walks the history from its old end and never
searches. It goes in steps, so that a long history does not hold up the loop.
"""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import islice, pairwise
from operator import attrgetter
from typing import Final

import msgspec

from mainstay.env.invariants import Sample, broken
from mainstay.store.errors import Compacted, Corrupt, FutureRevision
from mainstay.store.interface import FIRST_REVISION, Entry, KeyChange, RangePage
from mainstay.store.keys import SortedKeys
from mainstay.store.log import DeletedVersion, LogRow

LATER_MAX: Final = 10_000
"""Of an older state, pages are made from the present one as long as not more than this has happened since."""

_CHECKED_ONE_IN: Final = 1000  # Transactions. What the index knows of their keys is compared,
_CHECKED_VERSIONS: Final = 10  # and so many of their latest versions.
_MATCHES: Final = "the index of a store matches its entries"

_by_revision = attrgetter("revision")


class Transaction(msgspec.Struct, frozen=True):
    """What one revision did: at least one change, at most one per key."""

    revision: int
    changes: tuple[KeyChange, ...]


class StoreIndex:
    def __init__(self) -> None:
        self.revision = FIRST_REVISION
        self.compacted = 0
        self.live: dict[str, Entry] = {}
        self._history: list[Transaction] = []
        self._history_start = 0
        """Where the history begins in that list: its old end is cut off only now and then, for that moves the rest."""
        self._past: dict[str, list[Entry | DeletedVersion]] = {}
        self._live_keys = SortedKeys()
        self._dead_keys = SortedKeys()
        """Keys that are deleted now but still have a past."""
        self._shared_rows: dict[int, list[str]] = {}
        """For a log row of several writes: the keys whose version of that revision is still kept."""
        self._samples = Sample(_CHECKED_ONE_IN)
        self.history_bytes = 0
        """Of values that are kept only because of the history: those that were replaced or deleted since compaction."""

    def apply(self, transaction: Transaction) -> None:
        """Make a transaction part of the history. It must be later than all others."""
        if transaction.revision <= self.revision:
            raise broken(
                "the revisions of a store strictly grow", f"revision {transaction.revision}", after=self.revision
            )
        for change in transaction.changes:
            self._apply(change)
        if len(transaction.changes) > 1:
            self._shared_rows[transaction.revision] = [change.key for change in transaction.changes]
        self._history.append(transaction)
        self.history_bytes += _count_replaced(transaction)
        self.revision = transaction.revision
        if self._samples.take():
            self._check_keys(transaction)

    def _apply(self, change: KeyChange) -> None:
        key = change.key
        found = self.live.get(key)
        if found is not change.previous and found != change.previous:
            story = {"found": _revision(found), "previous": _revision(change.previous), "revision": change.revision}
            raise broken("a change replaces what is there", f"key {key}", **story)
        if change.previous is not None:
            self._past.setdefault(key, []).append(change.previous)
        elif change.entry is not None:
            if key in self._past:
                self._dead_keys.remove(key)
            self._live_keys.add(key)
        if change.entry is not None:
            self.live[key] = change.entry
        else:
            del self.live[key]
            self._past.setdefault(key, []).append(DeletedVersion(key, change.revision))
            self._live_keys.remove(key)
            self._dead_keys.add(key)

    def _check_keys(self, transaction: Transaction) -> None:
        """Each key of a transaction is found where it belongs, and its versions are in order."""
        for change in transaction.changes:
            key = change.key
            live, versions = self.live.get(key), self._past.get(key, [])[-_CHECKED_VERSIONS:]
            is_listed = (key in self._live_keys, key in self._dead_keys)
            if is_listed != (live is not None, live is None and bool(versions)):
                raise broken(_MATCHES, f"key {key}", live=_revision(live), past=len(versions), is_listed=is_listed)
            revisions = [version.revision for version in (*versions, *(() if live is None else (live,)))]
            if any(later <= earlier for earlier, later in pairwise(revisions)):
                raise broken("the versions of a key are in order", f"key {key}", revisions=revisions)
        if len(self._live_keys) != len(self.live):
            raise broken(_MATCHES, "all keys", live=len(self.live), listed=len(self._live_keys))

    def get(self, key: str, at: int | None) -> Entry | None:
        if at is None:
            return self.live.get(key)
        self.require_readable(at)
        return self._version(key, at)

    def count(self, prefix: str) -> int:
        return self._live_keys.under(prefix, limit=0)[1]

    def range(self, prefix: str, at: int | None, limit: int | None, after: str | None) -> RangePage:
        if at is None or at == self.revision:
            keys, remaining = self._live_keys.under(prefix, after=after, limit=limit)
            live = self.live
            return RangePage([live[key] for key in keys], self.revision, remaining)
        self.require_readable(at)
        if limit is not None:
            later = self.transactions_after(at, LATER_MAX)
            if len(later) < LATER_MAX:
                return self._page(prefix, at, limit, after, later)
        living, _ = self._live_keys.under(prefix, after=after)
        dead, _ = self._dead_keys.under(prefix, after=after)
        versions = (self._version(key, at) for key in (sorted(living + dead) if dead else living))
        entries = [entry for entry in versions if entry is not None]
        return RangePage(entries[:limit], at, max(len(entries) - limit, 0) if limit is not None else 0)

    def _page(self, prefix: str, at: int, limit: int, after: str | None, later: list[Transaction]) -> RangePage:
        """What has not been written since is as it is now: only what has been is looked for in the past. So a page of
        many costs as much as it holds, and not as much as there is."""
        written = {change.key: None for transaction in later for change in transaction.changes}
        unborn = sum(
            1
            for key in written
            if key in self.live
            and key.startswith(prefix)
            and (after is None or key > after)
            and self._version(key, at) is None
        )
        dead = [key for key in self._dead_keys.under(prefix, after=after)[0] if self._version(key, at) is not None]
        # However many of these were not there then, they are enough for a page.
        living, more = self._live_keys.under(prefix, after=after, limit=limit + unborn)
        versions = (self._version(key, at) for key in (sorted(living + dead) if dead else living))
        entries = list(islice((entry for entry in versions if entry is not None), limit))
        return RangePage(entries, at, len(living) + more - unborn + len(dead) - len(entries))

    def has(self, version: Entry | DeletedVersion) -> bool:
        """Whether this version of a key is known, or was until compaction dropped it."""
        live = self.live.get(version.key)
        if live is not None and live.revision == version.revision:
            return live == version
        past = self._past.get(version.key, ())
        found = next((each for each in past if each.revision == version.revision), None)
        return found == version or (found is None and version.revision <= self.compacted)

    def require_readable(self, revision: int) -> None:
        """Raise unless the state as of this revision can be told."""
        if revision < self.compacted:
            raise Compacted(self.compacted)
        if revision > self.revision:
            raise FutureRevision(revision, self.revision)

    def transactions_after(self, revision: int, count_max: int) -> list[Transaction]:
        """The next transactions after a revision, the oldest first."""
        start = bisect_right(self._history, revision, lo=self._history_start, key=_by_revision)
        return self._history[start : start + count_max]

    def find_recent(self, bytes_max: int) -> int:
        """The revision after which the history has no more than so many bytes."""
        size = 0
        for transaction in islice(reversed(self._history), len(self._history) - self._history_start):
            size += _count_replaced(transaction)
            if size > bytes_max:
                return transaction.revision
        return self.compacted

    def begin_compaction(self, revision: int) -> None:
        """From now on, nothing before this revision can be read. Call `compact_step` until it returns None."""
        if not self.compacted <= revision <= self.revision:
            story = {"compacted": self.compacted, "newest": self.revision}
            raise broken("compaction goes forward, and not past the newest revision", f"revision {revision}", **story)
        self.compacted = revision

    def compact_step(self, changes_max: int) -> list[LogRow] | None:
        """Forget some of what is no longer readable. Returns what the log must now hold for the rows concerned.

        The rows are in ascending order, and the log must replace them in that order: a deletion must never be dropped
        before the version it deleted, or a crash in between would bring that one back. A row without writes is gone.
        None means that nothing is left to do.
        """
        outdated = self._take_outdated(changes_max)
        if not outdated:
            return None
        dropped: dict[str, int] = {}
        for transaction in outdated:
            for change in transaction.changes:
                versions = (change.previous is not None) + (change.entry is None)
                if versions:
                    dropped[change.key] = dropped.get(change.key, 0) + versions
        revisions = sorted(
            {version.revision for key, count in dropped.items() for version in self._drop_oldest(key, count)}
        )
        return [self._row(revision) for revision in revisions]

    def _take_outdated(self, changes_max: int) -> list[Transaction]:
        """Cut the oldest transactions off the history, as far as they are compacted and have so many changes."""
        start = stop = self._history_start
        end = bisect_right(self._history, self.compacted, lo=start, key=_by_revision)
        changes = 0
        while stop < end and changes < changes_max:
            changes += len(self._history[stop].changes)
            stop += 1
        outdated = self._history[start:stop]
        self.history_bytes -= sum(map(_count_replaced, outdated))
        self._history_start = stop
        if self._history_start > len(self._history) // 2:
            del self._history[: self._history_start]
            self._history_start = 0
        return outdated

    def _drop_oldest(self, key: str, count: int) -> list[Entry | DeletedVersion]:
        past = self._past[key]
        versions = past[:count]
        del past[:count]
        if not past:
            del self._past[key]
            if key not in self.live:
                self._dead_keys.remove(key)
        for version in versions:
            if version.revision in self._shared_rows:
                self._shared_rows[version.revision].remove(key)
        return versions

    def _row(self, revision: int) -> LogRow:
        keys = self._shared_rows.get(revision, ())
        if not keys:
            self._shared_rows.pop(revision, None)
        return LogRow(revision, tuple(self._find_version(key, revision) for key in keys))

    def _find_version(self, key: str, revision: int) -> Entry | DeletedVersion:
        entry = self.live.get(key)
        if entry is not None and entry.revision == revision:
            return entry
        past = self._past[key]
        return past[bisect_right(past, revision, key=_by_revision) - 1]

    def _version(self, key: str, at: int) -> Entry | None:
        entry = self.live.get(key)
        if entry is not None and entry.revision <= at:
            return entry
        past = self._past.get(key)
        if past is None:
            return None
        position = bisect_right(past, at, key=_by_revision)
        version = past[position - 1] if position else None
        return version if isinstance(version, Entry) else None


def _count_replaced(transaction: Transaction) -> int:
    return sum([len(change.previous.value) for change in transaction.changes if change.previous is not None])


def _revision(entry: Entry | None) -> int | None:
    """What a story may say of an entry: its value may be a secret."""
    return None if entry is None else entry.revision


def replay(compacted: int, rows: Iterable[LogRow]) -> tuple[StoreIndex, list[LogRow]]:
    """An index as the rows of a log tell it, and what the log should hold instead of some of them.

    The rows are ascending; those after `compacted` are complete. A compaction that was cut short may have removed
    what a deletion deleted, but not yet the deletion: that is left over. Raises `Corrupt` where that cannot be.
    """
    index = StoreIndex()
    left_over = []
    for row in rows:
        kept = tuple(write for write in row.writes if isinstance(write, Entry) or write.key in index.live)
        if len(kept) < len(row.writes):
            if row.revision > compacted:
                raise Corrupt(f"revision {row.revision} deletes what was not there")
            left_over.append(LogRow(row.revision, kept))
        changes = tuple(
            KeyChange(row.revision, write.key, write if isinstance(write, Entry) else None, index.live.get(write.key))
            for write in kept
        )
        if changes:
            index.apply(Transaction(row.revision, changes))
    index.revision = max(index.revision, compacted)
    index.begin_compaction(compacted)
    return index, left_over
