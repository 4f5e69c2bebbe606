"""What a store is: one ordered history of small transactions over named bytes.

Every commit that changes something gets the next *revision*, a number that only grows. An empty store is at
revision 1, so that 0 can mean "absent" in a check and "from the beginning" in a watch. From the order follows all that
the rest of Mainstay relies on:

- A `range` is a snapshot at one revision. Further pages, asked for with that revision, stay on it.
- A `watch` after a revision delivers every later change under its prefix, in order, no gap, no duplicate, and never
  half a revision. So a range at revision R and a watch after R together miss nothing.
- A `commit` is all or nothing. It happens only if every check holds at that moment, and when it returns it is durable.
- What was read was durable: no read, watch or refusal shows a write that a crash could still undo.

Keys are text and sort by code point (which is the order of their UTF-8 bytes). A prefix is just that: `pods/a` also
covers `pods/ab`. History is kept until `compact`; a reader that still needs some of it takes a `hold`.
"""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, Protocol, Self

import msgspec

FIRST_REVISION: Final = 1  # Of a store that nothing was ever written to.
ABSENT: Final = 0  # As the revision of a check: the key must not be there.

# Limits, chosen so that any transaction we accept also fits a default etcd (1.5 MiB a request, 128 operations).
KEY_BYTES_MAX: Final = 1024
TRANSACTION_BYTES_MAX: Final = 1_500_000
TRANSACTION_OPERATIONS_MAX: Final = 100  # Checks and writes together.


# gc=False: these hold no containers, so they can never be part of a cycle, and hundreds of thousands of them live in an
# index. The collector would walk them all for nothing.
class Entry(msgspec.Struct, frozen=True, gc=False):
    """A key with its value, as of one revision."""

    key: str
    value: bytes
    created: int
    """The revision that made the key, after its last deletion."""
    revision: int
    """The revision that wrote this value."""
    version: int
    """How many times it was written since it was made: 1 for the first."""


class Check(msgspec.Struct, frozen=True, gc=False):
    """A condition of a commit: the key is at this revision, or `ABSENT`."""

    key: str
    revision: int


class Put(msgspec.Struct, frozen=True, gc=False):
    key: str
    value: bytes


class DeleteEntry(msgspec.Struct, frozen=True, gc=False):
    """Remove a key. If it is not there, this write does nothing."""

    key: str


Write = Put | DeleteEntry


class Committed(msgspec.Struct, frozen=True, gc=False):
    """It happened, durably, at this revision. If nothing had to change, it is the latest one: no new one was made."""

    revision: int


class TransactionRefused(msgspec.Struct, frozen=True):
    """A check did not hold, so nothing happened. Look at what is there now and decide again."""

    found: Mapping[str, Entry | None]
    """Each key whose check failed, with what is there instead."""


class RangePage(msgspec.Struct, frozen=True):
    """Part of a range, in key order."""

    entries: list[Entry]
    revision: int
    """The snapshot this was read from. Ask for the next page, or watch, with this."""
    remaining: int
    """How many more entries the range has after this page."""


class KeyChange(msgspec.Struct, frozen=True, gc=False):
    """What one revision did to one key."""

    revision: int
    key: str
    entry: Entry | None
    """What is there now; None if it was deleted."""
    previous: Entry | None
    """What was there before; None if there was nothing."""


class WatchBatch(msgspec.Struct, frozen=True):
    """The next part of a watch."""

    revision: int
    """Every change under the prefix up to and including this revision has now been delivered. Resume from here."""
    changes: list[KeyChange]


class StoreWatch(Protocol):
    """A running watch: iterate over it for batches. It ends with an exception, or when it is closed.

    `Compacted`: it fell behind what the store still has; take a new range. `StoreUnavailable`: the connection is gone
    for good. A slow reader costs the store nothing but the history it has not read yet.
    """

    def __aiter__(self) -> Self: ...

    async def __anext__(self) -> WatchBatch: ...

    def close(self) -> None:
        """End it. A reader that waits for the next batch sees the end of the iteration."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Hold(Protocol):
    """A promise that history after a revision is kept. Held by this process only, and not after it ended."""

    @property
    def revision(self) -> int: ...

    def advance(self, revision: int) -> None:
        """Keep only what is after this later revision."""

    def release(self) -> None: ...


class MemoryReads(Protocol):
    """What a store can do besides that has all of the latest state in memory."""

    def look(self, key: str) -> Entry | None:
        """As `Store.get` of the latest, at once."""

    def count(self, prefix: str) -> int:
        """How many keys begin with a prefix."""


class LocalReads(MemoryReads, Protocol):
    """What a store can do besides that this process alone writes: it knows what is staged and not yet durable."""

    def newest(self, key: str) -> Entry | None:
        """What is at a key once all that is staged has happened: to decide a commit from, with a check of its revision.

        It may still be taken back, and with it what was decided from it. So no client may be shown it.
        """

    def is_durable(self, key: str) -> bool:
        """Whether `newest` of this key can no longer be taken back."""

    async def settled(self) -> None:
        """Wait until all that is staged now is durable. Raises what the commits that staged it raise."""


class Store(Protocol):
    @property
    def memory(self) -> MemoryReads | None:
        """The same store, if all of its latest state is in memory."""

    @property
    def local(self) -> LocalReads | None:
        """The same store, if this process alone writes it. None for one that several servers share."""

    async def get(self, key: str, *, at: int | None = None) -> Entry | None:
        """What is at a key, now or as of a revision. Raises `Compacted`, `FutureRevision`."""

    async def range(
        self, prefix: str, *, at: int | None = None, limit: int | None = None, after: str | None = None
    ) -> RangePage:
        """The entries under a prefix that come after a key, in order. Raises `Compacted`, `FutureRevision`."""

    def watch(self, prefix: str, *, after: int) -> StoreWatch:
        """All changes under a prefix after a revision. `Compacted` and `FutureRevision` come from the iteration."""

    async def commit(self, checks: Sequence[Check], writes: Sequence[Write]) -> Committed | TransactionRefused:
        """Do all of the writes if all of the checks hold. Raises `OutcomeUnknown`, `StoreUnavailable`, `StorageFull`.

        If the caller is cancelled while it waits, the outcome is unknown in the same sense.
        """

    async def revision(self) -> int:
        """The latest revision that any commit, of any process, has returned."""

    async def compact(self, revision: int) -> int:
        """Forget history before a revision; what was current at it stays. Never goes past a hold.

        Returns the revision the store is now compacted to. Raises `FutureRevision`, and what `commit` raises, for
        forgetting is a write too. Whatever was forgotten stays so; call again to go on.
        """

    def hold(self, revision: int) -> Hold:
        """Keep the history after a revision until released. Raises `Compacted` if some of it is gone already."""

    async def close(self) -> None:
        """Finish what was begun and let go. Later calls raise `StoreClosed`."""
