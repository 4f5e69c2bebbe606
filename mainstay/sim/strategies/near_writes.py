"""A few faults, each at or right after a write that is no heartbeat: where a program is halfway through something.

At such a write it may be that the writer crashes, that the request or its answer is lost, that the watch by which the
writer or another program would get it is late or ends, or that one of the timed faults strikes: the writer, where it
has a choice. Nothing else goes wrong in the run, so that what it shows is easily told.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from mainstay.sim.cluster.history import Event, RequestReceived
from mainstay.sim.cluster.requests import find_prefix, is_heartbeat
from mainstay.sim.cluster.server_proxy import WatchProxy
from mainstay.sim.faults.odds import Odds
from mainstay.sim.faults.schedule import AT_EVENT, AT_WRITE, TIMED

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

BUDGETS: Final = (1, 2, 3, 4)
RATES: Final = (0.02, 0.05, 0.15, 0.4)
"""How likely a write is to be hit: work has some ten of them, or some hundreds."""
SOON: Final = tuple(timedelta(milliseconds=ms) for ms in (0, 2, 20, 200))
WHOSE: Final = ("the writer's", "another's", "any")
SPARED: Final = 0.25  # Less likely: what a user writes only others can be late to hear of.
AT_PLACES: Final = 0.8
"""How likely it is that a fault that can be aimed exactly may happen in a run."""
_LABEL: Final = "strategy/near-writes"


class NearWrites:
    name = "near-writes"
    about = "one to four faults, each at a write or right after it"

    def disturb(self, world: "World", allowed: tuple[str, ...]) -> None:
        choices = world.sim.choices
        choices.occurs(_LABEL, 1)  # So that a tape says whose it is.
        budget = BUDGETS[choices.choose(f"{_LABEL}/budget", len(BUDGETS))]
        rate = RATES[choices.choose(f"{_LABEL}/rate", len(RATES))]
        odds = _Aiming(world, budget, rate)
        world.faults.start(allowed, odds=odds)
        odds.ways = _ways(world.faults.on)
        world.history.subscribe(odds.saw)


class _Aiming(Odds):
    def __init__(self, world: "World", budget: int, rate: float) -> None:
        self.ways: Sequence[Sequence[str]] = ()
        """What may happen, by when it is decided upon."""
        self._world = world
        self._left = budget
        self._rate = rate
        self._write: tuple[int, str] | None = None
        """The request that something happens to now, and what."""
        self._event: tuple[str, str, str, str] | None = None
        """What happens to the next watch that would tell of a kind: the fault, the kind's keys, and to whom."""

    def saw(self, event: Event) -> None:
        """Called with all that happens: here it is decided what is aimed at."""
        if not isinstance(event, RequestReceived) or not event.is_write or not self._left or not self._world.faults.on:
            return
        if event.who not in self._world.programs or is_heartbeat(event):
            return
        is_spared = event.who in self._world.spared
        ways = [way for way in self.ways if not is_spared or way[0] not in AT_WRITE]
        choices = self._world.sim.choices
        if not ways or not choices.occurs(f"{_LABEL}/{event.who}", self._rate * (SPARED if is_spared else 1)):
            return
        self._left -= 1
        sort = ways[choices.choose(f"{_LABEL}/sort", len(ways))]
        fault = sort[choices.choose(f"{_LABEL}/how", len(sort))]
        if fault in AT_WRITE:
            self._write = event.request, fault
        elif fault in AT_EVENT:
            whose = WHOSE[choices.choose(f"{_LABEL}/whose", len(WHOSE))]
            self._event = fault, find_prefix(event.path), event.who, whose
        elif fault in TIMED:
            soon = SOON[choices.choose(f"{_LABEL}/soon", len(SOON))]
            self._world.after(soon, lambda: self._strike(fault, event.who))

    def in_run(self, fault: str) -> float | None:
        return None if fault in TIMED else AT_PLACES

    def at_beat(self, fault: str) -> float:
        return 0

    def at_write(self, fault: str, asked: RequestReceived) -> float:
        return 1 if self._write == (asked.request, fault) else 0

    def at_event(self, fault: str, tap: WatchProxy) -> float:
        if self._event is None or self._event[0] != fault or self._event[1] != tap.prefix:
            return 0
        _, _, writer, whose = self._event
        if whose != WHOSE[2] and (tap.who == writer) != (whose == WHOSE[0]):
            return 0
        self._event = None
        return 1

    def _strike(self, fault: str, who: str) -> None:
        if fault not in self._world.faults.on:
            return  # All is healed by now.
        self._world.faults.strike(fault, who)


def _ways(on: Sequence[str]) -> list[list[str]]:
    """By sort, and what happens to the write itself twice: it is most of what there is to be found."""
    sorts = [[each for each in on if each in there] for there in (AT_WRITE, AT_WRITE, AT_EVENT, TIMED)]
    return [sort for sort in sorts if sort]
