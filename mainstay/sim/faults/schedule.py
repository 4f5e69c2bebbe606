"""Which faults are on in a run, when they strike, and how they end.

Allowed by a scenario, a fault is on in about half of the runs: a few faults that meet each other find more than all of
them at once. From then on the timed ones may strike at each beat, the others at each write or delivery. Whether one
does is a choice of its own (`fault/NAME` or `fault/NAME/PROGRAM`), so a tape can name the one write at which something
happens; `at_write` does the same without a tape.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextvars import Context
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from mainstay.sim.faults import AtEvent, AtWrite, Timed
from mainstay.sim.faults.answer_lost import AnswerLost
from mainstay.sim.faults.compaction import Compaction, CompactionMissed
from mainstay.sim.faults.crash import Crash, ServerCrash
from mainstay.sim.faults.crash_at_write import CrashAfter, CrashBefore
from mainstay.sim.faults.cut import Cut, OneWayCut
from mainstay.sim.faults.history_lost import HistoryLost
from mainstay.sim.faults.latency import Latency
from mainstay.sim.faults.leader_loss import LeaderLoss
from mainstay.sim.faults.pause import Pause, ServerPause
from mainstay.sim.faults.request_lost import RequestLost
from mainstay.sim.faults.restart import Restart
from mainstay.sim.faults.server_behind import ServerBehind
from mainstay.sim.faults.watch_delay import WatchDelay
from mainstay.sim.faults.watch_disconnect import WatchDisconnect
from mainstay.sim.faults.watch_repeat import WatchRepeat
from mainstay.sim.gate import Fate, Tap
from mainstay.sim.history import Asked, Fault
from mainstay.sim.program import Program, Step

if TYPE_CHECKING:
    from mainstay.sim.world import World

BEAT: Final = timedelta(seconds=2)
PER_BEAT: Final = 0.04  # Of each timed fault: once or so in a minute.
PER_WRITE: Final = 0.03
PER_EVENT: Final = 0.02

TIMED: Final[dict[str, Timed]] = {
    fault.name: fault
    for fault in (
        Latency(),
        Cut(),
        OneWayCut(),
        Crash(),
        ServerCrash(),
        Restart(),
        Pause(),
        ServerPause(),
        LeaderLoss(),
        Compaction(),
        CompactionMissed(),
        HistoryLost(),
        ServerBehind(),
    )
}
AT_WRITE: Final[dict[str, AtWrite]] = {
    fault.name: fault for fault in (RequestLost(), AnswerLost(), CrashBefore(), CrashAfter())
}
AT_EVENT: Final[dict[str, AtEvent]] = {fault.name: fault for fault in (WatchDelay(), WatchDisconnect(), WatchRepeat())}

NAMES: Final = (*TIMED, *AT_WRITE, *AT_EVENT)
"""All faults there are."""


class Faults:
    """What goes wrong in one world. Implements `Interference` (gate.py)."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._timed: list[Timed] = []
        self._at_write: list[AtWrite] = []
        self._at_event: list[AtEvent] = []
        self._planned: dict[tuple[str, int], AtWrite] = {}
        self._writes: dict[str, int] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._beating: asyncio.Task[None] | None = None
        self._undoing: dict[int, tuple[asyncio.TimerHandle, Callable[[], None]]] = {}
        self._numbers = 0

    # Which, and when.

    def start(self, names: Iterable[str] = NAMES, *, each_by_chance: bool = True) -> None:
        """Let these happen from now on, until `stop`. By chance: each is on in this run, or not."""
        chosen = [name for name in names if not each_by_chance or self._is_on(name)]
        if unknown := [name for name in chosen if name not in NAMES]:
            raise ValueError(f"there are no such faults: {', '.join(unknown)}")
        self._timed = [TIMED[name] for name in chosen if name in TIMED]
        self._at_write = [AT_WRITE[name] for name in chosen if name in AT_WRITE]
        self._at_event = [AT_EVENT[name] for name in chosen if name in AT_EVENT]
        if self._timed:
            self._beating = self._world.sim.loop.create_task(self._beat(), name="faults", context=Context())

    def at_write(self, who: str, nth: int, fault: str) -> None:
        """Let a fault happen to the n-th write of a program since the world was made, counting from 1."""
        self._planned[(who, nth)] = AT_WRITE[fault]

    def writes_of(self, who: str) -> int:
        """How many writes a program has sent so far."""
        return self._writes.get(who, 0)

    async def stop(self) -> None:
        """No more of them; and undo those that last."""
        self._timed, self._at_write, self._at_event = [], [], []
        self._planned.clear()
        if self._beating is not None:
            self._beating.cancel()
            self._beating = None
        if self._tasks:
            await asyncio.wait(list(self._tasks))  # Each is short: what was begun is finished, a restart for instance.
        for number in list(self._undoing):
            self._undo(number)

    def _is_on(self, name: str) -> bool:
        return self._world.sim.choices.choose(f"fault/{name}/is-on", 2) == 1

    async def _beat(self) -> None:
        choices = self._world.sim.choices
        while True:
            await asyncio.sleep(BEAT.total_seconds())
            for fault in self._timed:
                if choices.occurs(f"fault/{fault.name}", PER_BEAT):
                    fault.strike(self._world)

    # What gates ask.

    def fate_of(self, asked: Asked) -> Fate | None:
        who = asked.who
        nth = self._writes[who] = self._writes.get(who, 0) + 1
        chosen = self._planned.pop((who, nth), None)
        if self._at_write and self._may_hit(who):
            occurs = self._world.sim.choices.occurs
            for fault in self._at_write:
                if occurs(f"fault/{fault.name}/{who}", PER_WRITE) and chosen is None:
                    chosen = fault
        return None if chosen is None else chosen.fate(self._world, asked)

    def delivering(self, tap: Tap) -> None:
        if self._at_event and self._may_hit(tap.who):
            occurs = self._world.sim.choices.occurs
            for fault in self._at_event:
                if occurs(f"fault/{fault.name}/{tap.who}", PER_EVENT):
                    fault.touch(self._world, tap)

    def _may_hit(self, who: str) -> bool:
        return who in self._world.programs and who not in self._world.spared

    # What faults use.

    def note(self, what: str) -> None:
        self._world.history.add(Fault(self._world.sim.loop.time_ns(), what))

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Do something that takes time, on behalf of nobody. It is waited for when faults are stopped."""
        task = self._world.sim.loop.create_task(work, name=name, context=Context())
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

    def crash(self, program: Program, duration: timedelta, *, silently: bool = False) -> None:
        """Crash a program, and start it again later."""
        program.crash(silently=silently)
        self._world.after(duration, lambda: _start_again(program))

    def _undo(self, number: int) -> None:
        timer, undo = self._undoing.pop(number)
        timer.cancel()
        undo()

    def _done(self, task: "asyncio.Task[None]") -> None:
        del self._tasks[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._world.sim.loop.call_exception_handler({"message": "a fault failed", "exception": error, "task": task})


def _start_again(program: Program) -> None:
    if program.ended is Step.CRASHED:
        program.start()
