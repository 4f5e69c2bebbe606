"""Which faults are on in a run, when they strike, and how they end.

Allowed by a scenario, a fault is on in about half of the runs: a few faults that meet each other find more than all of
them at once. From then on the timed ones may strike at each beat, the others at each write or delivery. Whether one
does is a choice of its own (`fault/NAME` or `fault/NAME/PROGRAM`), so a tape can name the one write at which something
happens; `at_write` does the same without a tape.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from contextvars import Context
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from mainstay.api.errors import StatusError
from mainstay.sim.cluster.history import FaultInjected, RequestReceived
from mainstay.sim.cluster.program_lifecycle import Program, ProgramStep
from mainstay.sim.cluster.server_proxy import Fate, WatchProxy
from mainstay.sim.faults import AtEvent, AtWrite, Timed, fits
from mainstay.sim.faults.odds import USUAL, Odds
from mainstay.sim.faults.table import ALL, AT_EVENT, AT_WRITE, NAMES, TIMED
from mainstay.store.errors import OutcomeUnknown, StorageFull, StoreClosed, StoreUnavailable
from mainstay.store.interface import ABSENT, Check, Put, Write

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

BEAT: Final = timedelta(seconds=2)

__all__ = ["ALL", "AT_EVENT", "AT_WRITE", "NAMES", "TIMED", "Faults"]

Refuse = Callable[[RequestReceived], StatusError | None]
Meddle = Callable[[list[str]], Awaitable[None]]
Change = Callable[[WatchProxy], None]


class Faults:
    """What goes wrong in one world. Implements `FaultInjector` (server_proxy.py)."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._timed: list[Timed] = []
        self._at_write: list[AtWrite] = []
        self._at_event: list[AtEvent] = []
        self._odds = USUAL
        self._planned: dict[tuple[str, int], AtWrite] = {}
        self._awaited: list[tuple[Callable[[RequestReceived], bool], AtWrite]] = []
        self._writes: dict[str, int] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._beating: asyncio.Task[None] | None = None
        self._undoing: dict[int, tuple[asyncio.TimerHandle | None, Callable[[], None]]] = {}
        self._numbers = 0
        self._changing: list[Change] = []
        self._told: dict[tuple[str, str], int] = {}
        """By program and kind: the incarnation that was last told a whole state."""
        self.aimed_at = ""
        """Whom the fault that is just striking is to hit, if it is aimed."""
        self.refusing: list[Refuse] = []
        """What turns requests away at the gates."""
        self.meddling: dict[str, list[Meddle]] = {}
        """By program: what is done just before something of it is committed, told the keys that it is to replace."""

    # Which, and when.

    def start(self, names: Iterable[str] = NAMES, *, each_by_chance: bool = True, odds: Odds = USUAL) -> None:
        """Let these happen from now on, and no others, until `stop`. By chance: each is on in this run, or not."""
        self.cease()
        self._odds = odds
        allowed = tuple(names)
        if unknown := [name for name in allowed if name not in ALL]:
            raise ValueError(f"unknown faults: {', '.join(unknown)}")
        possible = [name for name in allowed if fits(ALL[name], self._world)]
        chosen = [name for name in possible if not each_by_chance or self._is_on(name)]
        chosen += [name for name in ALL if name not in allowed and self._is_asked_for(name)]
        self._timed = [TIMED[name] for name in chosen if name in TIMED]
        self._at_write = [AT_WRITE[name] for name in chosen if name in AT_WRITE]
        self._at_event = [AT_EVENT[name] for name in chosen if name in AT_EVENT]
        if self._timed:
            self._beating = self._world.sim.loop.create_task(self._beat(), name="faults", context=Context())

    def at_write(self, who: str, nth: int, fault: str) -> None:
        """Let a fault happen to the n-th write of a program since the world was made, counting from 1."""
        self._planned[(who, nth)] = AT_WRITE[fault]

    def when(self, is_it: Callable[[RequestReceived], bool], fault: str) -> None:
        """Let a fault happen, once, to the first write of which this is true. Asked for each write until then."""
        self._awaited.append((is_it, AT_WRITE[fault]))

    def count_writes(self, who: str) -> int:
        """How many writes a program has sent so far."""
        return self._writes.get(who, 0)

    @property
    def on(self) -> tuple[str, ...]:
        """The names of those that may happen now."""
        faults: tuple[Timed | AtWrite | AtEvent, ...] = (*self._timed, *self._at_write, *self._at_event)
        return tuple(fault.name for fault in faults)

    def strike(self, fault: str, who: str) -> None:
        """Let a timed fault happen now, to this one if it can hit it."""
        self.aimed_at = who
        try:
            TIMED[fault].strike(self._world)
        finally:
            self.aimed_at = ""

    def cease(self) -> None:
        """No more of those that happen by chance. What has begun takes its course."""
        self._timed, self._at_write, self._at_event = [], [], []
        if self._beating is not None:
            self._beating.cancel()
            self._beating = None

    async def stop(self) -> None:
        """No more of them; and undo those that last."""
        self.cease()
        self._planned.clear()
        self._awaited.clear()
        while self._tasks or self._undoing:
            if self._tasks:
                await asyncio.wait(list(self._tasks))  # Each is short: what was begun is finished, a restart maybe.
            for number in list(self._undoing):
                self._undo(number)

    def _is_on(self, name: str) -> bool:
        choices, label, odds = self._world.sim.choices, f"fault/{name}/is-on", self._odds.in_run(name)
        is_on = choices.choose(label, 2) == 1 if odds is None else choices.occurs(label, odds)
        return is_on or choices.says(f"fault/{name}")

    def _is_asked_for(self, name: str) -> bool:
        """Whether a plan, or a tape, has this one, allowed or not."""
        return self._world.sim.choices.says(f"fault/{name}") or self._odds.in_run(name) == 1

    async def _beat(self) -> None:
        choices = self._world.sim.choices
        while True:
            await asyncio.sleep(BEAT.total_seconds())
            for fault in self._timed:
                if choices.occurs(f"fault/{fault.name}", self._odds.at_beat(fault.name)):
                    fault.strike(self._world)

    # What gates and ports ask.

    def choose_refusal(self, asked: RequestReceived) -> StatusError | None:
        for refuse in self.refusing:
            if (error := refuse(asked)) is not None:
                return error
        return None

    def committing(self, who: str, checks: Sequence[Check], writes: Sequence[Write]) -> Awaitable[None] | None:
        if not self.meddling.get(who):
            return None
        checked = {check.key for check in checks if check.revision != ABSENT}
        return self._meddle(who, [write.key for write in writes if isinstance(write, Put) and write.key in checked])

    async def _meddle(self, who: str, keys: list[str]) -> None:
        for meddle in list(self.meddling[who]):
            await meddle(keys)

    def opened(self, tap: WatchProxy) -> None:
        for change in self._changing:
            change(tap)

    def told(self, tap: WatchProxy) -> None:
        if (program := self._world.programs.get(tap.who)) is not None:
            self._told[(tap.who, tap.prefix)] = program.incarnation

    def has_been_told(self, tap: WatchProxy) -> bool:
        program = self._world.programs.get(tap.who)
        return program is not None and self._told.get((tap.who, tap.prefix)) == program.incarnation

    def choose_fate(self, asked: RequestReceived) -> Fate | None:
        who = asked.who
        nth = self._writes[who] = self._writes.get(who, 0) + 1
        chosen = self._planned.pop((who, nth), None)
        if self._awaited and (due := [awaited for awaited in self._awaited if awaited[0](asked)]):
            self._awaited = [awaited for awaited in self._awaited if awaited not in due]
            chosen = chosen or due[0][1]
        if self._at_write and self._may_hit(who):
            occurs = self._world.sim.choices.occurs
            for fault in self._at_write:
                if occurs(f"fault/{fault.name}/{who}", self._odds.at_write(fault.name, asked)) and chosen is None:
                    chosen = fault
        return None if chosen is None else chosen.fate(self._world, asked)

    def delivering(self, tap: WatchProxy) -> None:
        if self._at_event and self._may_hit(tap.who):
            occurs = self._world.sim.choices.occurs
            for fault in self._at_event:
                if occurs(f"fault/{fault.name}/{tap.who}", self._odds.at_event(fault.name, tap)):
                    fault.touch(self._world, tap)

    def _may_hit(self, who: str) -> bool:
        return who in self._world.programs and who not in self._world.spared

    # What faults use.

    def note(self, what: str) -> None:
        self._world.history.add(FaultInjected(self._world.sim.loop.time_ns(), what))

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Do something that takes time, outside of all programs. It is waited for when faults are stopped."""
        task = self._world.sim.loop.create_task(_unless_away(work), name=name, context=Context())
        self._tasks[task] = None
        task.add_done_callback(self._done, context=Context())

    def undo_after(self, duration: timedelta, what: str, undo: Callable[[], None]) -> None:
        """Undo something later, or when all faults are stopped."""
        self._numbers += 1
        number = self._numbers

        def over() -> None:
            self.note(f"over: {what}")
            self._undo(number)

        self._undoing[number] = self._world.after(duration, over), undo

    def undo_in_the_end(self, undo: Callable[[], None]) -> None:
        """Undo something when all faults are stopped, and not before."""
        self._numbers += 1
        self._undoing[self._numbers] = None, undo

    def later(self, duration: timedelta, call: Callable[[], None]) -> None:
        """Call something later, unless all faults are stopped before."""
        self._numbers += 1
        number = self._numbers

        def now() -> None:
            del self._undoing[number]
            call()

        self._undoing[number] = self._world.after(duration, now), _nothing

    def change_taps(self, change: Change) -> None:
        """Do this to all watches that are open, and to each that is opened, until `stop_changing`."""
        self._changing.append(change)
        for gate in self._world.gates.values():
            for tap in list(gate.taps.values()):
                change(tap)

    def stop_changing(self, change: Change) -> None:
        self._changing.remove(change)

    def crash(self, program: Program, duration: timedelta, *, silently: bool = False) -> None:
        """Crash a program, and start it again later."""
        program.crash(silently=silently)
        self._world.after(duration, lambda: self._start_again(program))

    def _start_again(self, program: Program) -> None:
        if program.ended is ProgramStep.CRASHED and program.name not in self._world.lost:
            program.start()

    def _undo(self, number: int) -> None:
        timer, undo = self._undoing.pop(number)
        if timer is not None:
            timer.cancel()
        undo()

    def _done(self, task: "asyncio.Task[None]") -> None:
        del self._tasks[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._world.sim.loop.call_exception_handler({"message": "a fault failed", "exception": error, "task": task})


async def _unless_away(work: Coroutine[Any, Any, None]) -> None:
    """If the store is away, what was to be done with it is not done."""
    with suppress(StoreUnavailable, OutcomeUnknown, StorageFull, StoreClosed):
        await work


def _nothing() -> None:
    """There is nothing to undo."""
