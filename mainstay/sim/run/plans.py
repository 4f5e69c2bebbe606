"""What goes wrong in a run, place by place: exactly the planned faults.

A *place* is where a fault can happen: a write of a program, or the delivery of a change to it. It is told in words that
two runs share: not by its number among all that happens, which one fault before it would move, but as the n-th write of
a program to an object, and as what a program is told of the n-th change to an object.

A plan is played as a strategy: its faults are for sure where they are aimed at and never happen elsewhere. They are
choices of the run all the same, so that the tape of a planned run makes it again, without the plan.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from mainstay.sim.cluster.history import Event, FaultsHealed, RequestReceived, WatchDelivered
from mainstay.sim.cluster.requests import describe_request, is_heartbeat
from mainstay.sim.cluster.server_proxy import WatchProxy
from mainstay.sim.cluster.watch_lines import decode_line
from mainstay.sim.faults import DURATIONS
from mainstay.sim.faults.odds import Odds
from mainstay.sim.faults.old_state import BACK, OldState

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

_LONG: Final = max(each for each in DURATIONS if each.total_seconds() <= 5)
_SHORT: Final = max(each for each in DURATIONS if each.total_seconds() <= 1)
# How long what was planned lasts: the watch is late until much else has happened, and who crashes is back soon.
_LASTING: Final = {"watch-delay": _LONG, "crash-before": _SHORT, "crash-after": _SHORT, "pause-at-delivery": _LONG}


class InjectionPoint(msgspec.Struct, frozen=True, order=True):
    """Where something can go wrong."""

    who: str
    """The program that writes, or that is told."""
    is_write: bool
    what: str
    """Of a write: method and path. Of a delivery: the key, and which of its changes."""
    nth: int
    """How often this was written, or told, by then; from 1."""

    def __str__(self) -> str:
        if self.is_write:
            return f"write {self.nth} of {self.who} ({self.what})"
        return f"delivery {self.nth} to {self.who} ({self.what})"


class Aim(msgspec.Struct, frozen=True, order=True):
    """A fault at a place."""

    place: InjectionPoint
    fault: str
    back: int = 0
    """Of `old-state`: how many changes are unseen, as a place in the list of what there is."""

    def __str__(self) -> str:
        how = f" ({BACK[self.back]} changes back)" if self.fault == OldState.name else ""
        return f"{self.fault}{how} at {self.place}"


class WriteSeen(msgspec.Struct, frozen=True):
    """A write that a program has sent."""

    request: int
    place: InjectionPoint
    is_heartbeat: bool
    number: int
    """In the order of all writes and tellings."""
    is_late: bool = False
    """All was healed by then: nothing could have gone wrong with it."""


class DeliverySeen(msgspec.Struct, frozen=True):
    """A change that a program was told of."""

    who: str
    key: str
    revision: int
    place: InjectionPoint
    number: int
    is_late: bool = False


def find_points(deeds: Sequence[WriteSeen], tellings: Sequence[DeliverySeen]) -> list[InjectionPoint]:
    """Where a fault can happen: each place once."""
    early = [deed.place for deed in deeds if not deed.is_late]
    return list(dict.fromkeys([*early, *(telling.place for telling in tellings if not telling.is_late)]))


class PlannedFaults(Odds):
    """A strategy that lets these happen, and notes all places where something could have. For one run."""

    name = "planned"
    about = "exactly the planned faults"

    def __init__(self, aims: Sequence[Aim] = ()) -> None:
        self.aims = tuple(aims)
        self.deeds: list[WriteSeen] = []
        self.tellings: list[DeliverySeen] = []
        self.hit: list[Aim] = []
        """Those that have happened."""
        self._faults = {aim.fault for aim in aims}
        self._wanted = {(aim.place, aim.fault): aim for aim in aims}
        self._counts: dict[tuple[str, str], int] = {}
        self._numbers: dict[tuple[str, str], dict[int, int]] = {}
        """By program and key: which of its changes a revision is."""
        self._told: dict[tuple[str, str, int], int] = {}
        self._now: list[InjectionPoint] = []
        """Where the run is: at a write."""
        self._coming: tuple[WatchProxy, bytes] | None = None
        self._there: list[InjectionPoint] = []
        """Where the run is: at a delivery."""
        self._is_over = False
        self._world: World | None = None

    def disturb(self, world: "World", allowed: tuple[str, ...]) -> None:
        self._world = world
        for aim in self.aims:
            if aim.fault in _LASTING:
                label = f"fault/{aim.fault}/duration"
                world.sim.choices.wish(label, len(DURATIONS), DURATIONS.index(_LASTING[aim.fault]))
            if aim.fault == OldState.name:
                world.sim.choices.wish(f"fault/{aim.fault}/back", len(BACK), aim.back)
        world.history.subscribe(self._saw)
        world.faults.start(allowed, odds=self)

    # As odds.

    def in_run(self, fault: str) -> float | None:
        return 1 if fault in self._faults else 0

    def at_beat(self, fault: str) -> float:
        return 0

    def at_write(self, fault: str, asked: RequestReceived) -> float:
        return self._is_aimed_at(self._now, fault)

    def at_event(self, fault: str, tap: WatchProxy) -> float:
        if self._coming is None or self._coming[0] is not tap or self._coming[1] is not tap.coming:
            self._coming = tap, tap.coming
            self._there = self._coming_places(tap)
        return self._is_aimed_at(self._there, fault)

    def _is_aimed_at(self, places: Sequence[InjectionPoint], fault: str) -> float:
        for place in places:
            if (aim := self._wanted.pop((place, fault), None)) is not None:
                self.hit.append(aim)
                return 1
        return 0

    # What happens.

    def _saw(self, event: Event) -> None:
        if isinstance(event, FaultsHealed):
            self._is_over = True
        elif isinstance(event, RequestReceived):
            if event.is_write and self._is_hit_by_faults(event.who):
                self._wrote(event)
        elif isinstance(event, WatchDelivered) and event.key and self._is_hit_by_faults(event.who):
            self._was_told(event.who, event.key, event.revision)

    def _wrote(self, asked: RequestReceived) -> None:
        what = describe_request(asked)
        place = InjectionPoint(asked.who, True, what, self._count(asked.who, what))
        self.deeds.append(WriteSeen(asked.request, place, is_heartbeat(asked), self._next_number(), self._is_over))
        self._now = [place]

    def _coming_places(self, tap: WatchProxy) -> list[InjectionPoint]:
        """Where a delivery is that is about to be made. Afterwards it, or a repetition of it, is told of as made."""
        places: list[InjectionPoint] = []
        for line in tap.coming.splitlines():
            event = decode_line(line)
            if event.type in ("BOOKMARK", "ERROR"):
                continue
            metadata = event.object.metadata
            key, revision = metadata.key_under(tap.prefix), int(metadata.resource_version)
            again = self._told.get((tap.who, key, revision), 0) + 1
            places.append(InjectionPoint(tap.who, False, self._change(tap.who, key, revision), again))
            self._told[(tap.who, key, revision)] = again
        return places

    def _was_told(self, who: str, key: str, revision: int) -> None:
        again = self._told.setdefault((who, key, revision), 1)
        place = InjectionPoint(who, False, self._change(who, key, revision), again)
        self.tellings.append(DeliverySeen(who, key, revision, place, self._next_number(), self._is_over))

    def _change(self, who: str, key: str, revision: int) -> str:
        numbers = self._numbers.setdefault((who, key), {})
        return f"{key}, change {numbers.setdefault(revision, len(numbers) + 1)}"

    def _next_number(self) -> int:
        return len(self.deeds) + len(self.tellings) + 1

    def _count(self, who: str, what: str) -> int:
        count = self._counts[(who, what)] = self._counts.get((who, what), 0) + 1
        return count

    def _is_hit_by_faults(self, who: str) -> bool:
        assert self._world is not None
        return who in self._world.programs and who not in self._world.spared
