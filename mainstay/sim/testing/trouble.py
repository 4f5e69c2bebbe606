"""What a test can do to a simulated cluster, by name: crash, cut, pause and mislead its programs, and heal everything.

    world.crash_after_write("websites", 2)      once, at its second write from now
    world.cut("websites", timedelta(minutes=1))
    world.disturb(only("crash", "cut"))         again and again for a minute, by chance
    await world.quiet()                         all that goes wrong has, all is healed, and nothing is written any more

Names are those of programs, servers included. What was to happen at a write and never did is an error: such a test
would pass for nothing.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from mainstay.env import tasks
from mainstay.sim.active_faults import release_all
from mainstay.sim.cluster.history import FaultInjected, RequestReceived
from mainstay.sim.cluster.program_lifecycle import Program, ProgramStep
from mainstay.sim.cluster.server_proxy import WatchProxy
from mainstay.sim.cluster.world import CALM, World
from mainstay.sim.errors import SimulationError
from mainstay.sim.faults import lacks
from mainstay.sim.faults.odds import Odds
from mainstay.sim.faults.table import ALL, AT_WRITE, NAMES

BRIEFLY: Final = timedelta(seconds=5)
A_MINUTE: Final = timedelta(minutes=1)
QUIET_WITHIN: Final = timedelta(minutes=5)
_HOUSEKEEPING: Final = ("/leases", "/componentstates", "/events")
_TICK: Final = timedelta(seconds=1)


class NoSuchProgram(SimulationError):
    """No program has that name. Says which ones there are."""


class NoSuchFault(SimulationError):
    """No fault is called that. Says which there are."""


class CannotHappen(SimulationError):
    """A fault that was named cannot happen in this cluster: the test would test nothing. Says what it lacks."""


class NeverHappened(SimulationError):
    """A fault was to happen at a write that was never made: the test tests nothing. Says how far it came."""


class AnyFitting(tuple[str, ...]):
    """Faults that were not named one by one: those that cannot happen in a cluster do not."""

    __slots__ = ()


def every() -> AnyFitting:
    """All faults that a cluster should survive."""
    return AnyFitting(NAMES)


def only(*names: str) -> tuple[str, ...]:
    """These faults. Raises `NoSuchFault`."""
    if unknown := [name for name in names if name not in ALL]:
        raise NoSuchFault(f"unknown fault {', '.join(unknown)}; known faults: {', '.join(ALL)}")
    return names


def all_but(*names: str) -> AnyFitting:
    """All others. Raises `NoSuchFault`."""
    left_out = only(*names)
    return AnyFitting(name for name in every() if name not in left_out)


@dataclass(slots=True)
class _AtWrite:
    """A fault that waits for a write."""

    who: str
    nth: int
    about: str
    fault: str
    seen: int = 0

    def is_it(self, asked: RequestReceived) -> bool:
        """Asked for each write. Counts."""
        if asked.who != self.who or self.about not in asked.path:
            return False
        if not self.about and any(part in asked.path for part in _HOUSEKEEPING):
            return False
        self.seen += 1
        return self.seen == self.nth

    def __str__(self) -> str:
        about = f" to {self.about!r}" if self.about else ""
        return f"{self.fault} at write {self.nth} of {self.who}{about}: it made {self.seen}"


class _Often(Odds):
    """So many times as often as usual."""

    def __init__(self, times: float) -> None:
        self._times = times

    def at_beat(self, fault: str) -> float:
        return min(1.0, self._times * super().at_beat(fault))

    def at_write(self, fault: str, asked: RequestReceived) -> float:
        return min(1.0, self._times * super().at_write(fault, asked))

    def at_event(self, fault: str, tap: WatchProxy) -> float:
        return min(1.0, self._times * super().at_event(fault, tap))


class FaultControl:
    """For one world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.own: list[str] = []
        """The programs that were brought along."""
        self._at_write: list[_AtWrite] = []
        self._left_alone: list[str] = []
        """Programs that are spared only because `disturb` is to hit others."""
        self._quiet_since_ns = -1
        self._disturbed_until_ns = 0
        self._calming: asyncio.TimerHandle | None = None

    @property
    def is_quiet(self) -> bool:
        """Whether nothing was written since `quiet` has said so."""
        return 0 <= self.world.last_write_ns <= self._quiet_since_ns

    def program(self, name: str) -> Program:
        """Raises `NoSuchProgram`."""
        found = self.world.programs.get(name) or self.world.servers.get(name)
        if found is None:
            names = ", ".join((*self.world.servers, *self.world.programs))
            raise NoSuchProgram(f"unknown program {name!r}; this cluster has {names}")
        return found

    # Now.

    def crash(self, name: str, lasting: timedelta = BRIEFLY, *, silently: bool = False) -> None:
        """Kill it in the middle of anything, and start it again later. Silently: its peers see no reset, as at a power
        cut."""
        program = self.program(name)
        self._note(f"{name} crashes for {lasting}")
        self.world.faults.crash(program, lasting, silently=silently)

    def pause(self, name: str, lasting: timedelta = BRIEFLY) -> None:
        """Let nothing of it run for a while. It cannot tell: to itself, no time has passed."""
        program = self.program(name)
        self._note(f"{name} is paused for {lasting}")
        program.pause(lasting)

    def cut(self, name: str, lasting: timedelta = BRIEFLY) -> None:
        """Let nothing get through between it and the servers for a while (of a server: and everybody)."""
        self.program(name)
        others = list(self.world.programs) if name in self.world.servers else list(self.world.servers)
        heal = release_all([self.world.sim.network.cut(name, other) for other in others])
        self._note(f"{name} is partitioned for {lasting}")
        self.world.faults.undo_after(lasting, f"cut of {name}", heal)

    def stale(self, name: str, lasting: timedelta = BRIEFLY) -> None:
        """Let all it watches fall silent for a while, so that it acts on what was. Then it hears of all at once.

        Its own reads and writes are as ever. Of a server: all watches there.
        """
        self.program(name)
        taps = [
            tap for gate in self.world.gates.values() for tap in gate.taps.values() if name in (tap.who, tap.server)
        ]
        for tap in taps:
            tap.hold()
        self._note(f"{name} sees no changes for {lasting}")

        def undo() -> None:
            for tap in taps:
                tap.release()

        self.world.faults.undo_after(lasting, f"{name} is stale", undo)

    # At a write. `nth` counts from now; leases, component states and Events do not count. With `about`, a part of
    # a path such as "deployments/", only writes there do.

    def crash_before_write(self, name: str, nth: int = 1, about: str = "") -> None:
        """Kill it just before that write gets to a server."""
        self.at_write("crash-before", name, nth, about)

    def crash_after_write(self, name: str, nth: int = 1, about: str = "") -> None:
        """Kill it when that write is done, before it hears of it."""
        self.at_write("crash-after", name, nth, about)

    def lose_request_of(self, name: str, nth: int = 1, about: str = "") -> None:
        """That write never gets to a server."""
        self.at_write("request-lost", name, nth, about)

    def lose_answer_of(self, name: str, nth: int = 1, about: str = "") -> None:
        """That write is done, and its answer never comes."""
        self.at_write("answer-lost", name, nth, about)

    def at_write(self, fault: str, name: str, nth: int = 1, about: str = "") -> None:
        """Let a fault happen at the n-th write from now."""
        self.program(name)
        if fault not in AT_WRITE:
            raise NoSuchFault(f"unknown write fault {fault!r}; known: {', '.join(AT_WRITE)}")
        planned = _AtWrite(name, nth, about, fault)
        self._at_write.append(planned)
        self.world.faults.when(planned.is_it, fault)

    # By chance.

    def disturb(
        self,
        faults: Iterable[str],
        lasting: timedelta = A_MINUTE,
        *,
        often: float = 1.0,
        hitting: Iterable[str] | None = None,
    ) -> None:
        """Let these faults happen now and then, for so long or until all is healed. When they do comes from the seed.

        Of programs they hit those of one's own, if any are run, or those that are named. By themselves timed faults
        happen about once a minute, and those at writes to three of a hundred: with `often`, so many times as often.
        What has begun when the time is over takes its course. To call this again ends what was asked for before.

        Raises `CannotHappen` if one is named that cannot happen in this cluster. Of `every`, and of `all_but` some,
        those happen that can.
        """
        named = only(*faults)
        hit = [self.program(name).name for name in (self.own or self.world.programs if hitting is None else hitting)]
        self._leave_alone([name for name in self.world.programs if name not in hit])
        if not isinstance(faults, AnyFitting):
            self._refuse_idle(named)
        self.world.faults.start(named, each_by_chance=False, odds=_Often(often))
        self._disturbed_until_ns = self.world.sim.loop.time_ns() + lasting // timedelta(microseconds=1) * 1000
        self._forget_timer()
        self._calming = self.world.after(lasting, self.world.faults.cease)

    def _refuse_idle(self, named: Iterable[str]) -> None:
        idle = {name: lacks(ALL[name], self.world) for name in named}
        if told := [f"{name} cannot happen in this cluster: {lacking}" for name, lacking in idle.items() if lacking]:
            raise CannotHappen("\n".join(told))

    def _leave_alone(self, names: Iterable[str]) -> None:
        """These, and none that was left alone before. Who is part of the test stays spared whatever happens."""
        for name in self._left_alone:
            self.world.spared.pop(name, None)
        self._left_alone = [name for name in names if name not in self.world.spared]
        self.world.spared |= dict.fromkeys(self._left_alone)

    def _forget_timer(self) -> None:
        if self._calming is not None:
            self._calming.cancel()
            self._calming = None

    # The end of it.

    async def heal(self) -> None:
        """Undo all faults, let there be no more, and start what has crashed."""
        self._disturbed_until_ns = 0
        self._forget_timer()
        self._leave_alone(())
        await self.world.heal()

    async def quiet(self, within: timedelta = QUIET_WITHIN, calm: timedelta = CALM) -> None:
        """Wait until all that was to go wrong has, heal everything, and wait until nothing is written any more.

        Raises `NeverHappened` if a fault still waits for its write, and `NotQuiet` if there is no rest.
        """
        if (left_ns := self._disturbed_until_ns - self.world.sim.loop.time_ns()) > 0:
            await tasks.sleep(timedelta(microseconds=left_ns // 1000))
        else:
            await self._writes_end(within, calm)
        waiting = [each for each in self._at_write if each.seen < each.nth]
        self._at_write.clear()
        await self.heal()
        await self.world.quiet(within, calm)
        self._quiet_since_ns = self.world.sim.loop.time_ns()
        if waiting:
            raise NeverHappened("\n".join(["these faults never happened:", *map(str, waiting)]))

    def faults_seen(self) -> list[FaultInjected]:
        """What has gone wrong so far, in order."""
        return [event for event in self.world.history.events if isinstance(event, FaultInjected)]

    async def _writes_end(self, within: timedelta, calm: timedelta) -> None:
        """As long as something goes on, faults that wait for a write may still find it."""
        loop = self.world.sim.loop
        began_ns = loop.time_ns()
        while (loop.time_ns() - began_ns) / 1e9 < within.total_seconds():
            since_ns = loop.time_ns() - max(self.world.last_write_ns, began_ns)
            is_waiting = any(program.ended is ProgramStep.CRASHED for program in self.world.programs.values())
            if since_ns / 1e9 >= calm.total_seconds() and not is_waiting:
                return
            await tasks.sleep(_TICK)

    def _note(self, what: str) -> None:
        self.world.faults.note(what)
