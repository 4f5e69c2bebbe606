"""Some programs come first and others are kept waiting, and now and then the first becomes the last.

After *probabilistic concurrency testing*: a bug that needs few things to happen in a certain order is found with a
chance that one can state, if each run orders all of them at random and changes its mind a few times only. Here the
order is one of programs: all that is to or from a program of a low rank is under way for longer. At a few writes,
drawn from the seed, the program that is just writing is held up from then on: its network, its watches, or itself.

About half of these runs have the usual faults besides.
"""

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from mainstay.sim.active_faults import Release
from mainstay.sim.cluster.history import Event, RequestReceived
from mainstay.sim.cluster.requests import is_heartbeat
from mainstay.sim.cluster.server_proxy import WatchProxy
from mainstay.sim.faults.odds import USUAL, Odds

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

STEPS: Final = tuple(timedelta(milliseconds=ms) for ms in (5, 40, 300, 1500))
"""By rank, from the second on."""
HELD: Final = timedelta(seconds=4)
"""Longer than a short lease can bear."""
CHANGES_MAX: Final = 4
WRITES: Final = 96  # Among which the changes are.
_LABEL: Final = "strategy/priorities"


class PriorityStrategy:
    name = "priorities"
    about = "programs by rank, lower ranks delayed; now and then the first becomes the last"

    def disturb(self, world: "World", allowed: tuple[str, ...]) -> None:
        choices = world.sim.choices
        choices.occurs(_LABEL, 1)  # So that a tape says whose it is.
        ranks = {each.name: choices.choose(f"{_LABEL}/rank/{each.name}", 1 + len(STEPS)) for each in world.targets()}
        count = choices.choose(f"{_LABEL}/changes", CHANGES_MAX)
        changes = [choices.choose(f"{_LABEL}/change", WRITES) for _ in range(count)]
        has_more = choices.choose(f"{_LABEL}/faults", 2) == 1
        ranking = _Ranking(world, allowed, ranks, sorted(changes), has_more)
        world.faults.start(allowed, odds=ranking)
        ranking.begin()
        world.history.subscribe(ranking.saw)


class _Ranking(Odds):
    def __init__(
        self, world: "World", allowed: tuple[str, ...], ranks: dict[str, int], changes: list[int], has_more: bool
    ) -> None:
        self._world = world
        self._ways = [each for each in ("latency", "watch-delay", "pause") if each in allowed]
        self._ranks = ranks
        self._changes = changes
        self._has_more = has_more
        self._writes = 0
        self._slowed: list[Release] = []

    def begin(self) -> None:
        for who, rank in self._ranks.items():
            if rank:
                self._slow(who, STEPS[rank - 1])
        self._world.faults.undo_in_the_end(self._end)

    def _end(self) -> None:
        for let_go in self._slowed:
            let_go()

    def saw(self, event: Event) -> None:
        if (
            not isinstance(event, RequestReceived)
            or not event.is_write
            or is_heartbeat(event)
            or event.who not in self._ranks
        ):
            return
        while self._changes and self._changes[0] == self._writes:
            del self._changes[0]
            self._demote(event.who)
        self._writes += 1

    def in_run(self, fault: str) -> float | None:
        return None if self._has_more else 1 if fault in self._ways else 0

    def at_beat(self, fault: str) -> float:
        return USUAL.at_beat(fault) if self._has_more else 0

    def at_write(self, fault: str, asked: RequestReceived) -> float:
        return USUAL.at_write(fault, asked) if self._has_more else 0

    def at_event(self, fault: str, tap: WatchProxy) -> float:
        if fault == "watch-delay" and self._ranks.get(tap.who, 0) == len(STEPS):
            return 0.2
        return USUAL.at_event(fault, tap) if self._has_more else 0

    def _demote(self, who: str) -> None:
        """The program that wrote first is last from now on."""
        if not self._ways or not self._world.faults.on:
            return
        self._ranks[who] = len(STEPS)
        way = self._ways[self._world.sim.choices.choose(f"{_LABEL}/how", len(self._ways))]
        self._world.faults.note(f"{who} was first, and becomes the last ({way})")
        if way == "latency":
            self._slow(who, HELD / 2)
        elif way == "pause":
            self._world.programs[who].pause(HELD * 2)

    def _slow(self, who: str, latency: timedelta) -> None:
        if "latency" not in self._ways:
            return
        for server in self._world.servers:
            self._slowed.append(self._world.sim.network.slow_down(who, server, latency))
