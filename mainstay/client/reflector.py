"""How a copy of the cluster's objects is kept true: when to list, when to watch, what to believe.

A state machine without a clock, a network or chance. It is told what came in and says what to do next; pump.py does it.

Its phases and the steps between them are a table (`STEPS`), from which the diagram in docs/state-machines.md is drawn.

*Gathering* is reading everything there is: as the beginning of a watch that sends it (`sendInitialEvents`), or page by
page from a list where a server does not know that. Nothing of it counts before it is complete, and then it replaces
what was held in one step. Watching goes on from there, and after a break from the last revision that was reached.

What is promised: the revision that is held never goes back, and everything up to it has been applied; with one
exception. A server that has less than what is held is behind (another member of a cluster), or lies, or has been put
back to a backup. Reading everything again tells: as long as that is older than what is held it is refused and asked for
again, and when it has been refused `REWIND_AFTER` times, the store really has gone back, and it is believed
(`is_rewind`). If it has caught up before that, nothing that is held counts as known (`is_doubtful`).

It may also have come further than what is held before it is asked again. Then nothing in the revisions tells. Our
servers name each opening of their store, and one that is told a name which is not part of its past says so
(`ReflectorFault.PUT_BACK`; server/storage/epochs.py): what is read next replaces what is held, of which nothing counts
as known.

In a watch, what is not newer than what is held has been seen before, and is dropped. Unless that cannot be: a change at
or before the revision held that is *not* known here means that something was missed on the way, and everything is read
again.

What is not promised: that an idle store which was put back is noticed before the next thing happens in it; and, with
servers that name no openings, that one is noticed at all which has come further than what is held here.
"""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, StrEnum, auto
from typing import Final

import msgspec

from mainstay.api.object_key import ObjectKey
from mainstay.api.retry_shape import RetryShape
from mainstay.client.entry import CachedObject, ChangeType
from mainstay.env.invariants import broken
from mainstay.env.state_table import StateTable

PAGE_LIMIT: Final = 500  # Objects in a page of a list.
REWIND_AFTER: Final = 5  # Lists in a row that are older than what is held. With the backoff, half a minute.
LASTING: Final = timedelta(seconds=30)  # A watch that was open for so long has worked, though nothing came.
IN_VAIN_MAX: Final = 5  # Watches in a row that were opened and broke before they brought anything.
BEHIND_MAX: Final = 3  # Times in a row that a server is behind, before everything is read again.

# A reflector never gives up: there is nothing else that a cache could do. Reading everything again is expensive for
# a server, going on with a watch is not.
LIST_AGAIN: Final = RetryShape(
    attempts_max=sys.maxsize, first_delay=timedelta(seconds=1), delay_max=timedelta(seconds=30)
)
RESUME: Final = RetryShape(
    attempts_max=sys.maxsize, first_delay=timedelta(milliseconds=200), delay_max=timedelta(seconds=30)
)


class ReflectorFault(Enum):
    """Why a list or a watch failed, as far as that changes what to do."""

    UNAVAILABLE = auto()
    """No answer, a broken connection, no rights: go on where we were, later."""
    EXPIRED = auto()
    """410: what was asked for is gone."""
    PUT_BACK = auto()
    """410: what was asked for is of a past that the store does not have."""
    BEHIND = auto()
    """The server has not reached what is asked for."""
    UNSUPPORTED = auto()
    """The server does not understand what was asked for."""
    SILENT = auto()
    """Nothing came for longer than a server is silent. One that never says where the state ends does not know how to
    stream it."""


# What to do. Those that ask the outside end a stream that is open.


class List(msgspec.Struct, frozen=True):
    """Ask for a page. Then call `page` or `failed`."""

    continue_: str
    limit: int | None


class OpenWatch(msgspec.Struct, frozen=True):
    """Open a stream after a revision; None: one that begins with everything there is. Then call `event` and `bookmark`
    for what it brings, and `ended` or `failed` when it is over."""

    revision: int | None
    opening: str = ""
    """What the server has called the store of which this revision is."""


class WaitFor(msgspec.Struct, frozen=True):
    """Do nothing for a while. Then call `waited`."""

    shape: RetryShape
    failures: int
    """How many there were in a row."""
    least: timedelta = timedelta(0)

    def delay(self, jitter: float) -> timedelta:
        """How long, given a random number from 0 to 1."""
        return max(self.least, self.shape.delay(self.failures, jitter))


class ReplaceAll(msgspec.Struct, frozen=True):
    """This is all there is, as of a revision."""

    entries: tuple[CachedObject, ...]
    revision: int
    is_rewind: bool = False
    is_doubtful: bool = False
    """The store has gone back, or may have: a server says so, or what was read before this was older than what is held.
    It may have come as far again in another way, so the same revision need not be the same object."""


class ApplyChange(msgspec.Struct, frozen=True, gc=False):
    """One change; what is held is then complete up to its revision."""

    entry: CachedObject
    is_deleted: bool


class Reached(msgspec.Struct, frozen=True):
    """Nothing more happened up to this revision."""

    revision: int


Outside = List | OpenWatch | WaitFor
Instruction = Outside | ReplaceAll | ApplyChange | Reached
Instructions = tuple[Instruction, ...]
"""In order; at most the last one asks the outside. None of that kind: read on."""

NOTHING: Final[Instructions] = ()


class ReflectorPhase(StrEnum):
    WAITING_TO_LIST = "waiting to list"
    LISTING = "listing"
    STREAMING_STATE = "streaming state"
    WATCHING = "watching"
    WAITING_TO_RESUME = "waiting to resume"


STEPS: Final = StateTable[ReflectorPhase](
    (
        (ReflectorPhase.WAITING_TO_LIST, "started or waited", ReflectorPhase.STREAMING_STATE),
        (
            ReflectorPhase.WAITING_TO_LIST,
            "started or waited, and the server does not stream state",
            ReflectorPhase.LISTING,
        ),
        (ReflectorPhase.STREAMING_STATE, "complete", ReflectorPhase.WATCHING),
        (ReflectorPhase.STREAMING_STATE, "the server does not stream state", ReflectorPhase.LISTING),
        (ReflectorPhase.STREAMING_STATE, "failed, ended, or older than what is held", ReflectorPhase.WAITING_TO_LIST),
        (ReflectorPhase.LISTING, "complete", ReflectorPhase.WATCHING),
        (
            ReflectorPhase.LISTING,
            "failed, of several states, or older than what is held",
            ReflectorPhase.WAITING_TO_LIST,
        ),
        (ReflectorPhase.WATCHING, "ended after news", ReflectorPhase.WATCHING),
        (ReflectorPhase.WATCHING, "ended or failed", ReflectorPhase.WAITING_TO_RESUME),
        (ReflectorPhase.WATCHING, "expired, impossible, or failed too often", ReflectorPhase.WAITING_TO_LIST),
        (ReflectorPhase.WAITING_TO_RESUME, "waited", ReflectorPhase.WATCHING),
    )
)
"""It begins as if it had waited to list."""


@dataclass(slots=True)
class ReflectorCounters:
    """What has happened so far. Only ever grow, except where said."""

    lists: int = 0
    """Times that everything was asked for, the first included."""
    relists: int = 0
    """Of these, with something held already."""
    expired: int = 0
    """Times that a watch could not go on, because its history was gone."""
    disconnects: int = 0
    """Watches that failed rather than ended."""
    reconnects: int = 0
    """Watches that went on where another had stopped."""
    events: int = 0
    """Changes taken over from watches."""
    bookmarks: int = 0
    dropped: int = 0
    """Events that were not news."""
    refused: int = 0
    """Answers that cannot be true, or are older than what is held."""
    behind: int = 0
    """Times that a server had not reached what is held."""
    rewinds: int = 0
    """Times that the store was found to have gone back."""


class Reflector:
    """Keeps track of one collection.

    `known_at` tells the last revision at which something is known to have happened to a key; 0 if nothing is known.
    """

    def __init__(
        self, known_at: Callable[[ObjectKey], int], *, streams_state: bool = True, page_limit: int | None = PAGE_LIMIT
    ) -> None:
        self.revision = 0
        """Everything up to here has been handed out."""
        self.phase = ReflectorPhase.WAITING_TO_LIST
        self.counters = ReflectorCounters()
        self._known_at = known_at
        self._streams_state = streams_state
        self._page_limit = page_limit
        self._gathered: dict[ObjectKey, CachedObject] = {}
        self._gathered_at: int | None = None
        self._opening = ""
        """Of which opening of the store the revision held is, if a server has said so."""
        self._is_put_back = False
        """What is held is of a past that the store does not have."""
        self._opened_at = 0
        """The revision held when the watch was opened."""
        self._failures = 0
        """In a row: since a watch last brought something new."""
        self._lists_refused = 0
        self._times_behind = 0
        self._is_silent = False
        """The watch was opened, and has said nothing yet."""
        self._times_in_vain = 0

    def start(self) -> Instructions:
        """The first thing to do."""
        self._require(ReflectorPhase.WAITING_TO_LIST)
        return self._gather()

    def waited(self) -> Instructions:
        self._require(ReflectorPhase.WAITING_TO_LIST, ReflectorPhase.WAITING_TO_RESUME)
        return self._gather() if self.phase is ReflectorPhase.WAITING_TO_LIST else self._resume()

    def opened(self) -> None:
        """The server has accepted to be watched."""
        self._require(ReflectorPhase.STREAMING_STATE, ReflectorPhase.WATCHING)
        self._is_silent = True

    def page(self, entries: Iterable[CachedObject], revision: int, continue_: str) -> Instructions:
        """A part of a list, and how to ask for the next one; empty if there is none."""
        self._require(ReflectorPhase.LISTING)
        if self._gathered_at not in (None, revision):
            # Pages of two different states. Together they show something that never was.
            self.counters.refused += 1
            return self._list_later()
        self._gathered_at = revision
        self._gathered.update((entry.key, entry) for entry in entries)
        if continue_:
            return (List(continue_, self._page_limit),)
        replacing = self._replace(revision)
        return (*replacing, OpenWatch(revision)) if self.phase is ReflectorPhase.WATCHING else replacing

    def event(self, change: ChangeType, entry: CachedObject) -> Instructions:
        """Something that a watch says has happened."""
        self._is_silent = False
        if self.phase is ReflectorPhase.WATCHING:
            if entry.revision > self.revision:
                self.revision = entry.revision
                self.counters.events += 1
                return (ApplyChange(entry, change is ChangeType.DELETED),)
            return self._old_event(change, entry)
        self._require(ReflectorPhase.STREAMING_STATE)
        if change is ChangeType.DELETED:
            self._gathered.pop(entry.key, None)
        else:
            self._gathered[entry.key] = entry
        return NOTHING

    def bookmark(self, revision: int, *, ends_state: bool = False, opening: str = "") -> Instructions:
        """A watch says how far it is, and perhaps that all there is has been sent, or what the store is called."""
        self.counters.bookmarks += 1
        self._is_silent = False
        if self.phase is ReflectorPhase.STREAMING_STATE:
            return self._replace(revision, opening) if ends_state else NOTHING
        self._require(ReflectorPhase.WATCHING)
        if revision < self.revision:
            self.counters.refused += 1
            return self._server_is_behind()
        self._opening = opening or self._opening
        if revision == self.revision:
            return NOTHING
        self.revision = revision
        return (Reached(revision),)

    def ended(self, lasted: timedelta) -> Instructions:
        """The stream has come to its end, as they do after some time: that was how long it was open."""
        self._require(ReflectorPhase.STREAMING_STATE, ReflectorPhase.WATCHING)
        self._note_lasting(lasted)
        if self.phase is ReflectorPhase.STREAMING_STATE:
            return self._list_later()
        return self._resume() if self.revision > self._opened_at else self._resume_later()

    def malformed(self) -> Instructions:
        """What came cannot be understood: nothing that this connection, or this list, says can be relied on."""
        self.counters.refused += 1
        return self.failed(ReflectorFault.UNAVAILABLE)

    def failed(
        self, fault: ReflectorFault, *, least: timedelta = timedelta(0), lasted: timedelta = timedelta(0)
    ) -> Instructions:
        """A list or a watch failed.

        `least` is how long the server wants to be left alone; `lasted`, how long the stream had been open.
        """
        self._require(ReflectorPhase.LISTING, ReflectorPhase.STREAMING_STATE, ReflectorPhase.WATCHING)
        self._note_lasting(lasted)
        if self.phase is ReflectorPhase.WATCHING:
            return self._watch_failed(fault, least)
        if (
            fault in (ReflectorFault.UNSUPPORTED, ReflectorFault.SILENT)
            and self.phase is ReflectorPhase.STREAMING_STATE
        ):
            self._streams_state = False  # Once and for all: this cannot be repeated for ever.
            return self._gather()
        if fault is ReflectorFault.EXPIRED and self._gathered_at is not None:
            # The pages took longer than the server keeps its history. All at once cannot expire halfway.
            self._page_limit = None
        return self._list_later(least)

    def _watch_failed(self, fault: ReflectorFault, least: timedelta) -> Instructions:
        match fault:
            case ReflectorFault.EXPIRED | ReflectorFault.PUT_BACK:
                self.counters.expired += 1
                if fault is ReflectorFault.PUT_BACK:
                    self._is_put_back = True
                    self._failures = 0  # The server is well, and there is much to find out.
                return self._list_later(least)
            case ReflectorFault.BEHIND:
                return self._server_is_behind(least)
            case _:
                self.counters.disconnects += 1
                return self._connection_failed(fault, least)

    def _connection_failed(self, fault: ReflectorFault, least: timedelta) -> Instructions:
        # A server may be unable to tell what was missed, because it is more than it holds for one client. Then it cuts
        # us off each time, and only a list gets past that. An idle server that is silent is another thing.
        in_vain = self._is_silent and fault is not ReflectorFault.SILENT
        self._times_in_vain = self._times_in_vain + 1 if in_vain else 0
        return self._list_later(least) if self._times_in_vain >= IN_VAIN_MAX else self._resume_later(least)

    def _old_event(self, change: ChangeType, entry: CachedObject) -> Instructions:
        known_at = self._known_at(entry.key)
        is_gone = change is ChangeType.DELETED and known_at == 0
        if known_at >= entry.revision or is_gone:
            self.counters.dropped += 1
            return NOTHING
        self.counters.refused += 1
        return self._list_later()

    def _server_is_behind(self, least: timedelta = timedelta(0)) -> Instructions:
        self._note_news()
        self.counters.behind += 1
        self._times_behind += 1
        return self._list_later(least) if self._times_behind >= BEHIND_MAX else self._resume_later(least)

    def _gather(self) -> Instructions:
        self.counters.lists += 1
        if self.revision:
            self.counters.relists += 1
        self._gathered = {}
        self._gathered_at = None
        self._is_silent = False
        if self._streams_state:
            self._enter(ReflectorPhase.STREAMING_STATE)
            return (OpenWatch(None),)
        self._enter(ReflectorPhase.LISTING)
        return (List("", self._page_limit),)

    def _replace(self, revision: int, opening: str = "") -> Instructions:
        is_older = revision < self.revision
        if is_older and self._lists_refused < REWIND_AFTER:
            self._lists_refused += 1
            self.counters.refused += 1
            return self._list_later()
        is_doubtful = self._lists_refused > 0 or self._is_put_back
        self._lists_refused = self._times_behind = self._times_in_vain = 0
        self._opening, self._is_put_back = opening, False
        self.counters.rewinds += is_older
        entries, self._gathered = tuple(self._gathered.values()), {}
        self.revision = self._opened_at = revision
        self._enter(ReflectorPhase.WATCHING)
        return (ReplaceAll(entries, revision, is_older, is_doubtful and not is_older),)

    def _resume(self) -> Instructions:
        self._note_news()
        self.counters.reconnects += 1
        self._enter(ReflectorPhase.WATCHING)
        self._opened_at = self.revision
        self._is_silent = False
        return (OpenWatch(self.revision, self._opening),)

    def _resume_later(self, least: timedelta = timedelta(0)) -> Instructions:
        self._enter(ReflectorPhase.WAITING_TO_RESUME)
        return self._wait(RESUME, least)

    def _list_later(self, least: timedelta = timedelta(0)) -> Instructions:
        self._enter(ReflectorPhase.WAITING_TO_LIST)
        self._gathered = {}
        return self._wait(LIST_AGAIN, least)

    def _wait(self, shape: RetryShape, least: timedelta) -> Instructions:
        self._note_news()
        self._failures += 1
        return (WaitFor(shape, self._failures, least),)

    def _note_news(self) -> None:
        """If the watch brought something new, what failed before it no longer counts. A list alone does not: a server
        whose watches all fail at once could otherwise be listed in a circle."""
        if self.revision > self._opened_at:
            self._failures = self._times_behind = 0
            self._opened_at = self.revision

    def _note_lasting(self, lasted: timedelta) -> None:
        """In an idle cluster nothing is new for hours. That must not make us slow to come back."""
        if lasted >= LASTING:
            self._failures = 0
            self._is_silent = False

    def _enter(self, phase: ReflectorPhase) -> None:
        if phase not in STEPS.after[self.phase]:
            raise broken("a reflector takes the steps of its table", f"{self.phase} to {phase}", revision=self.revision)
        self.phase = phase

    def _require(self, *phases: ReflectorPhase) -> None:
        if self.phase not in phases:
            raise RuntimeError(f"this cannot happen while {self.phase.name}, only while {[p.name for p in phases]}")
