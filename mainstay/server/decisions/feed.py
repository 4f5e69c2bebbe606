"""The latest decisions, as the changes that a watch is told of.

A decision has no revision: the store does not hold it. It gets a number when it arrives here, the time in microseconds,
and never the same twice; so numbers grow over a restart too. To those who watch, that is its resource version.

Most decisions are not watched. They are held as the bytes of their records, and become objects for a watch.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from mainstay.api.kind import Kind
from mainstay.env import Clock
from mainstay.env.invariants import broken
from mainstay.journal.record import DecisionRecord, micros
from mainstay.server.watch.feed import EventTally, Window
from mainstay.store.interface import Entry, KeyChange

HELD_MAX: Final = 10_000  # A watch that begins before these is told to list again.

Rendered = Callable[[DecisionRecord, int], Entry]
"""The object that a decision is shown as, in the form in which the store would have it, at a revision."""

_decode = msgspec.msgpack.Decoder(DecisionRecord).decode


class DecisionFeed:
    """What a watch takes for the feed of the store (server/watch/session.py)."""

    def __init__(self, clock: Clock, rendered: Rendered) -> None:
        self._clock = clock
        self.revision = micros(clock.wall())
        """Of the latest decision."""
        self._window = _Window(self.revision, rendered)
        self._tallies: dict[str, EventTally] = {}

    def add(self, decisions: Sequence[bytes]) -> None:
        """Tell of decisions: the records, encoded."""
        first = max(self.revision + 1, micros(self._clock.wall()))
        self._window.take(first, decisions)
        self.revision = first + len(decisions) - 1

    @property
    def news(self) -> int:
        return self.revision

    def window(self, prefix: str) -> Window:
        return self._window

    def tally(self, kind: Kind) -> EventTally:
        return self._tallies.setdefault(kind.plural, EventTally())

    async def reach(self, revision: int) -> None:
        """Whatever has a number was told of in the same moment."""

    def forget_old(self, now_ns: int) -> None:
        """There are few, and they are small."""


class _Window(Window):
    def __init__(self, complete_after: int, rendered: Rendered) -> None:
        super().__init__(complete_after)
        self._rendered = rendered
        self._held: deque[tuple[int, bytes]] = deque()

    def take(self, first: int, decisions: Sequence[bytes]) -> None:
        newest = self._held[-1][0] if self._held else self.complete_after
        if first <= newest:
            raise broken("the numbers of decisions strictly grow", f"decision {first}", newest=newest)
        numbered = list(enumerate(decisions, first))
        self._held += numbered
        while len(self._held) > HELD_MAX:
            self.complete_after = self._held.popleft()[0]
        if self.groups:
            changes = [self._change(number, _decode(data)) for number, data in numbered]
            self.tell(changes)

    def since(self, revision: int) -> list[KeyChange] | None:
        if revision < self.complete_after:
            return None
        return [self._change(number, _decode(data)) for number, data in self._held if number > revision]

    def _change(self, revision: int, record: DecisionRecord) -> KeyChange:
        entry = self._rendered(record, revision)
        return KeyChange(revision, entry.key, entry, None)
