"""A watch delivers every change, once, in order; and a bookmark is true.

What a watch delivered is compared with what the store has committed. After the revision it began at, each event must be
the next commit under its prefix: then nothing was left out (deletes included), nothing came twice, nothing came late,
and revisions never went back. A bookmark says that everything up to a revision has been told; so there must be nothing
committed up to there that was not. State that is sent first must be the state of the revision that ends it. In the end
a watch that is still open must have been told everything.

This is the server's side: what it has sent on one stream. What a program makes of that, over all its streams, is seen
by what its cache holds in the end.

When the store is put back to a backup, all watches have ended, and what was committed after it never was.

For a watch with selectors only the order is checked: what it should see depends on values before and after.
"""

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from mainstay.sim.checkers import Violated
from mainstay.sim.cluster.history import (
    Event,
    ProgramCrashed,
    RevisionCommitted,
    StoreRestored,
    WatchDelivered,
    WatchEnded,
    WatchOpened,
)

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

BOOKMARK: Final = "BOOKMARK"
ERROR: Final = "ERROR"


@dataclass(slots=True)
class _Watch:
    opened: WatchOpened
    position: int
    """Everything up to this revision has been told."""
    next: int = 0
    """Where in the commits of the kind the next one to be told is looked for."""
    state: dict[str, WatchDelivered] | None = None
    """What was sent as state so far; None when that is over."""
    early: deque[WatchDelivered] = field(default_factory=deque)
    """What was delivered, and no commit has been seen of yet."""
    last: WatchDelivered | None = None
    error: WatchDelivered | None = None
    """By which the server has ended it: it cannot go on, and owes nothing more."""


class WatchContract:
    name = "watch contract"
    hears_deliveries = True
    hears_restores = True

    def __init__(self) -> None:
        self._commits: dict[str, list[RevisionCommitted]] = {}  # By kind: the first two parts of a key.
        self._latest = 0
        """All commits up to here are known."""
        self._coming = 0
        """Of this revision some are: one transaction may change several keys, and they are told one after the other."""
        self._watches: dict[int, _Watch] = {}
        self._waiting: dict[int, _Watch] = {}  # Those with something in `early`.

    def saw(self, event: Event) -> None:
        if self._coming and not (isinstance(event, RevisionCommitted) and event.revision == self._coming):
            self._come()
        match event:
            case WatchDelivered():
                watch = self._watches.get(event.watch)
                if watch is not None and watch.error is not None:
                    self._fail(watch, "a watch continued after the error that ends it", watch.error, event)
                elif watch is not None and event.type == ERROR:
                    watch.error = event
                elif watch is not None:  # What comes for a watch that has ended is not received.
                    watch.early.append(event)
                    self._check(watch)
            case RevisionCommitted():
                self._coming = event.revision
                self._commits.setdefault(_parse_kind(event.key), []).append(event)
            case WatchOpened() if event.wants_state and not event.has_end_of_state:
                pass  # It is unknown what of it was there before and what is new.
            case WatchOpened():
                watch = _Watch(event, event.after, state={} if event.wants_state else None)
                watch.next = self._index_after(_parse_kind(event.prefix), event.after)
                self._watches[event.watch] = watch
            case WatchEnded():
                self._forget(event.watch)
            case ProgramCrashed():
                for number, watch in list(self._watches.items()):
                    if watch.opened.server == event.program:
                        self._forget(number)
            case StoreRestored():
                self._go_back(event.revision)
            case _:
                pass

    def _go_back(self, revision: int) -> None:
        self._watches.clear()
        self._waiting.clear()
        self._latest, self._coming = revision, 0
        for kind, commits in self._commits.items():
            self._commits[kind] = commits[: self._index_after(kind, revision)]

    async def at_end(self, world: "World") -> None:
        self._come()
        for watch in self._watches.values():
            if watch.early:
                raise Violated(
                    self.name, "a watch delivered a change that was never committed", [watch.opened, watch.early[0]]
                )
            missed = self._next_commit(watch)
            is_owed = watch.state is None and watch.error is None and not watch.opened.is_selecting
            if missed is not None and is_owed:
                events: list[Event] = [watch.opened, *([watch.last] if watch.last else []), missed]
                raise Violated(self.name, f"an open watch of {watch.opened.who} missed a commit", events)

    def _come(self) -> None:
        self._latest, self._coming = max(self._latest, self._coming), 0
        for watch in list(self._waiting.values()):
            self._check(watch)

    def _forget(self, number: int) -> None:
        # What it had told too early stays: it must still turn out to be true.
        watch = self._watches.get(number)
        if watch is not None and not watch.early:
            del self._watches[number]

    def _index_after(self, kind: str, revision: int) -> int:
        return bisect_right(self._commits.get(kind, []), revision, key=lambda commit: commit.revision)

    def _next_commit(self, watch: _Watch) -> RevisionCommitted | None:
        commits = self._commits.get(_parse_kind(watch.opened.prefix), [])
        while watch.next < len(commits):
            commit = commits[watch.next]
            if commit.revision > watch.position and commit.key.startswith(watch.opened.prefix):
                return commit
            watch.next += 1
        return None

    def _check(self, watch: _Watch) -> None:
        """Compare with the commits what can be by now."""
        while watch.early and watch.early[0].revision <= self._latest:
            event = watch.early.popleft()
            if watch.state is not None:
                self._check_state(watch, watch.state, event)
            elif event.type == BOOKMARK:
                self._check_bookmark(watch, event)
            elif watch.opened.is_selecting:
                self._check_order(watch, event)
            else:
                self._check_change(watch, event)
            watch.last = event
        if watch.early:
            self._waiting[watch.opened.watch] = watch
        else:
            self._waiting.pop(watch.opened.watch, None)

    def _check_order(self, watch: _Watch, event: WatchDelivered) -> None:
        if event.revision <= watch.position:
            self._fail(watch, "a watch went back in time, or delivered a change twice", event)
        watch.position = event.revision

    def _check_change(self, watch: _Watch, event: WatchDelivered) -> None:
        expected = self._next_commit(watch)
        if event.revision <= watch.position:
            is_start = watch.last is None
            text = (
                "delivered a change from before its start"
                if is_start
                else "went back in time, or delivered a change twice"
            )
            self._fail(watch, f"a watch {text}", event)
        if expected is None:
            self._fail(watch, "a watch delivered a change that was never committed", event)
        elif (expected.revision, expected.key) != (event.revision, event.key):
            if expected.revision > event.revision:
                self._fail(watch, "a watch delivered a change that was never committed", event)
            self._fail(watch, "a watch skipped a commit", expected, event)
        elif event.type != _find_type(expected):
            self._fail(watch, f"a watch delivered {event.type} for what was {_find_type(expected)}", expected, event)
        watch.position = event.revision
        watch.next += 1

    def _check_bookmark(self, watch: _Watch, event: WatchDelivered) -> None:
        if event.revision < watch.position:
            self._fail(watch, "a bookmark went back in time", event)
        expected = self._next_commit(watch)
        if expected is not None and expected.revision <= event.revision and not watch.opened.is_selecting:
            self._fail(watch, "a bookmark is past a commit that was not delivered", expected, event)
        watch.position = event.revision

    def _check_state(self, watch: _Watch, state: dict[str, WatchDelivered], event: WatchDelivered) -> None:
        if not event.is_end_of_state:
            if event.key in state:
                self._fail(watch, "a watch delivered an object twice in its initial state", state[event.key], event)
            state[event.key] = event
            return
        watch.state = None
        watch.position = event.revision
        kind = _parse_kind(watch.opened.prefix)
        watch.next = self._index_after(kind, event.revision)
        if watch.opened.is_selecting:
            return
        current: dict[str, RevisionCommitted] = {}
        for commit in self._commits.get(kind, [])[: watch.next]:
            if commit.key.startswith(watch.opened.prefix):
                current[commit.key] = commit
        for key, commit in current.items():
            told = state.pop(key, None)
            if commit.value is not None and (told is None or told.revision != commit.revision):
                others = [] if told is None else [told]
                self._fail(watch, "the initial state of a watch lacks an object", commit, *others, event)
            if commit.value is None and told is not None:
                self._fail(watch, "the initial state of a watch has a deleted object", commit, told, event)
        for told in state.values():
            self._fail(watch, "the initial state of a watch has an object that never existed", told, event)

    def _fail(self, watch: _Watch, message: str, *events: Event) -> None:
        before = [watch.last] if watch.last is not None and watch.last not in events else []
        raise Violated(self.name, f"{message} ({watch.opened.who})", [watch.opened, *before, *events])


def _parse_kind(key: str) -> str:
    group, _, rest = key.partition("/")
    return f"{group}/{rest.partition('/')[0]}/"


def _find_type(commit: RevisionCommitted) -> str:
    if commit.value is None:
        return "DELETED"
    return "ADDED" if commit.previous is None else "MODIFIED"
