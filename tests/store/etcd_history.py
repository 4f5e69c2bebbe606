"""What writers were told and what watches delivered, and whether the two can both be true.

Writers and watchers note everything in a `Notes`; `Notes.check` then compares it with what is there in the end. It
knows nothing of etcd, nor of what went wrong on the way: a planted bug must fail it just as a real one would.
"""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta

from mainstay.env import tasks
from mainstay.store.errors import OutcomeUnknown, StorageFull, StoreUnavailable
from mainstay.store.interface import (
    ABSENT,
    Check,
    Committed,
    DeleteEntry,
    Entry,
    Put,
    Store,
    StoreWatch,
    TransactionRefused,
    WatchBatch,
)

LAST_KEY = "last"  # Written when everything else is done, so that watchers know when to stop.
PAUSE = timedelta(milliseconds=20)


class Violation(AssertionError):
    """The store broke a promise."""


@dataclass
class Notes:
    acknowledged: dict[tuple[int, str], bytes | None] = field(default_factory=dict)
    """The value that a commit was said to have written, at this revision; None is a deletion."""
    ruled_out: dict[bytes, None] = field(default_factory=dict)
    """Values whose commit was said not to have happened. Each value is tried once."""
    unknown: dict[bytes, None] = field(default_factory=dict)
    batches: list[WatchBatch] = field(default_factory=list)

    def check(self, final: list[Entry]) -> None:
        """Raise `Violation` unless all of this fits together. The watch must have begun on an empty store."""
        entries = self._fold()
        there = {entry.key: entry for entry in final}
        if wrong := [key for key in entries | there if entries.get(key) != there.get(key)]:
            raise Violation(f"the watch led to something else than there is, at {wrong[:10]}")
        changes = [change for batch in self.batches for change in batch.changes]
        delivered = {(each.revision, each.key): each.entry and each.entry.value for each in changes}
        for (revision, key), value in self.acknowledged.items():
            if delivered.get((revision, key), b"nothing") != value:
                raise Violation(f"{key} = {_shown(value)} was acknowledged at {revision}, and was not there")
        for change in changes:
            if change.entry is not None and change.entry.value in self.ruled_out:
                raise Violation(f"{_shown(change.entry.value)} was said not to have happened")

    def _fold(self) -> dict[str, Entry]:
        entries: dict[str, Entry] = {}
        reached = 0
        for batch in self.batches:
            for change in batch.changes:
                if change.revision <= reached:
                    raise Violation(f"{change.key} at {change.revision} was delivered again after {reached}")
                if change.previous != entries.pop(change.key, None):
                    raise Violation(f"something is missing before {change.key} at {change.revision}")
                if change.entry is not None:
                    entries[change.key] = change.entry
            if batch.revision != batch.changes[-1].revision:
                raise Violation(
                    f"a batch that ends at {batch.changes[-1].revision} says that it is at {batch.revision}"
                )
            reached = batch.revision
        return entries


def _shown(value: bytes | None) -> str:
    return repr(value[:20] if value is not None else None)


async def write(
    store: Store, notes: Notes, writer: str, keys: list[str], count: int, *, pause: timedelta = PAUSE
) -> None:
    """Change keys one after the other, each time as it was last read, and note what came of it."""
    for number in range(count):
        key = keys[number % len(keys)]
        try:
            entry = await store.get(key)
        except StoreUnavailable:
            continue
        value = f"{writer}/{number}".encode()
        checks = [Check(key, ABSENT if entry is None else entry.revision)]
        is_delete = entry is not None and number % 4 == 3
        try:
            answer = await store.commit(checks, [DeleteEntry(key) if is_delete else Put(key, value)])
        except OutcomeUnknown:
            notes.unknown[value] = None
        except (StoreUnavailable, StorageFull):
            notes.ruled_out[value] = None
        else:
            match answer:
                case Committed(revision=revision):
                    notes.acknowledged[revision, key] = None if is_delete else value
                case TransactionRefused():
                    notes.ruled_out[value] = None
        await tasks.sleep(pause)


async def write_last(store: Store) -> None:
    """Write the key that ends the watches, whatever it takes."""
    while True:
        try:
            await store.commit([], [Put(LAST_KEY, b"")])
            return
        except (OutcomeUnknown, StoreUnavailable):
            await tasks.sleep(PAUSE)


async def follow(watch: StoreWatch, notes: Notes) -> None:
    """Note what a watch delivers, until the last key comes."""
    async for batch in watch:
        notes.batches.append(batch)
        if any(change.key == LAST_KEY for change in batch.changes):
            watch.close()


async def settle(store: Store, *watching: tuple[asyncio.Task[None], Notes]) -> None:
    """End the watches, and check each one's notes against what is there."""
    await write_last(store)
    for task, notes in watching:
        await task
        notes.check((await store.range("")).entries)
