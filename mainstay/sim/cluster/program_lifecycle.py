"""One program of a simulated cluster: started, crashed, paused, stopped and started again, on a host of its own name.

    program = Program(sim, "controller", main)      main(env) is the coroutine that a real process would run
    program.start()
    program.crash()                                 at once, in the middle of anything
    program.start()                                 the next incarnation: other chance, same clock, what the disk kept

A crash is not a cancellation. The ports and connections of the program are gone first, and then nothing of it runs any
more (sim/process_table.py). The peers see their connections reset, as when a process is killed; or nothing at all, as
when the machine loses its power. A pause lets nothing run for a while, and the program cannot tell.

When `main` returns, the process is over, with whatever else it had started. When it fails, so does the run: programs
handle what can go wrong outside, and the rest are bugs.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final

from mainstay.env import Env
from mainstay.sim.errors import MachineDead
from mainstay.sim.process_table import SimProcess, current_process
from mainstay.sim.simulation import Simulation

STOP_WITHIN: Final = timedelta(minutes=1)

Main = Callable[[Env], Coroutine[Any, Any, object]]


class ProgramStep(StrEnum):
    """What can happen to a program."""

    STARTED = "started"
    CRASHED = "crashed"
    PAUSED = "paused"
    RESUMED = "resumed"
    RETURNED = "returned"
    """By itself."""
    STOPPED = "stopped"
    FAILED = "failed"


ENDS: Final = (ProgramStep.CRASHED, ProgramStep.RETURNED, ProgramStep.STOPPED, ProgramStep.FAILED)


class Program:
    """One program. `tell` is called with each step that it takes."""

    def __init__(
        self,
        sim: Simulation,
        name: str,
        main: Main,
        tell: Callable[["Program", ProgramStep], None] | None = None,
        *,
        versions: Mapping[str, Main] | None = None,
    ) -> None:
        self.name = name
        self.versions: dict[str, Main] = dict(versions or {})
        """What else it could run as: an older build, other settings."""
        self.version = ""
        """As which of them it runs from its next start on. Empty: as usual."""
        self.incarnation = -1
        """How often it was started before the last time."""
        self.ended: ProgramStep | None = None
        """How the last incarnation ended; None before and while one runs."""
        self._sim = sim
        self._main = main
        self._tell = tell
        self._host = sim.network.host(name)
        self._process: SimProcess | None = None
        self._task: asyncio.Task[object] | None = None
        self._is_stopping = False
        self._resuming: asyncio.TimerHandle | None = None
        self._waiting: list[asyncio.Future[ProgramStep]] = []

    def __repr__(self) -> str:
        return f"<Program {self.name} {self.ended or (self._process if self._process else 'not started')}>"

    @property
    def is_running(self) -> bool:
        """Also while it is paused."""
        return self._process is not None

    @property
    def is_paused(self) -> bool:
        return self._process is not None and self._process.is_paused

    def start(self) -> None:
        """Begin the next incarnation. Must not be running."""
        if self._process is not None:
            raise RuntimeError(f"{self.name} is already running")
        if not self._host.is_up:
            self._sim.network.come_back(self._host)
        self.incarnation += 1
        self.ended = None
        self._is_stopping = False
        env = self._sim.env(self.name, self.incarnation)
        process = self._process = SimProcess(f"{self.name}/{self.incarnation}", self._host)
        context = process.context()
        main = self.versions[self.version] if self.version else self._main
        work = context.run(main, env)
        task = self._task = self._sim.loop.create_task(work, name=process.name, context=context)
        # In no process: if this one does not live to see its end, another must.
        task.add_done_callback(self._main_ended, context=Context())
        self._say(ProgramStep.STARTED)

    def crash(self, *, silently: bool = False) -> None:
        """End it at once, without its knowing. Silently: its peers are not told either, until it is started again.

        Does nothing if it does not run. The code of the program itself may call this; then the step that does is the
        last one.
        """
        process = self._process
        if process is None:
            return
        if process is current_process():
            self._sim.loop.call_soon(lambda: self._crash(process, silently), context=Context())
        else:
            self._crash(process, silently)

    def _crash(self, process: SimProcess, silently: bool) -> None:
        if process is not self._process:
            return  # Something else was quicker.
        if silently:
            self._sim.network.vanish(self._host)
        else:
            self._sim.network.end_process(self._host)
        self._sim.get_disk(self.name).cut_power()
        self._over(ProgramStep.CRASHED)

    def pause(self, duration: timedelta | None = None) -> None:
        """Let nothing of it run for so long, or until `resume`. Of two pauses the one that ends later counts."""
        process = self._process
        if process is None:
            return
        loop = self._sim.loop
        if not process.is_paused:
            loop.processes.pause(process)
            self._say(ProgramStep.PAUSED)
        elif self._resuming is None:
            return
        until_ns = loop.time_ns() + (duration or timedelta()) // timedelta(microseconds=1) * 1000
        if self._resuming is not None:
            if duration is not None and self._resuming.when() * 1e9 >= until_ns:
                return
            self._resuming.cancel()
            self._resuming = None
        if duration is not None:
            self._resuming = loop.call_at_ns(until_ns, self.resume, context=Context())

    def resume(self) -> None:
        """Let it go on, if it is paused."""
        self._forget_pause()
        process = self._process
        if process is not None and process.is_paused:
            self._sim.loop.processes.resume(process)
            self._say(ProgramStep.RESUMED)

    async def stop(self, within: timedelta = STOP_WITHIN) -> None:
        """Cancel it, and wait until it has ended by itself. If that takes too long, it crashes."""
        self.resume()
        if self._task is None:
            return
        self._is_stopping = True
        self._task.cancel()
        try:
            async with asyncio.timeout(within.total_seconds()):
                await self.wait()
        except TimeoutError:
            self.crash()

    async def wait(self) -> ProgramStep:
        """Wait until it does not run, and say how it ended."""
        if self._process is None and self.ended is not None:
            return self.ended
        waiter: asyncio.Future[ProgramStep] = self._sim.loop.create_future()
        self._waiting.append(waiter)
        return await waiter

    def _main_ended(self, task: "asyncio.Task[object]") -> None:
        if task is not self._task:
            return  # An incarnation that has crashed in the same round.
        if self._sim.loop.failures.is_ending:
            self._process = self._task = None
            return  # The simulation is being closed: everything is cancelled, and waited for.
        error = None if task.cancelled() else task.exception()
        self._sim.network.end_process(self._host)
        if isinstance(error, MachineDead):
            self._sim.get_disk(self.name).cut_power()
            self._over(ProgramStep.CRASHED)
            return
        self._sim.get_disk(self.name).close()  # A process that ends lets go of its locks.
        is_stopped = self._is_stopping or task.cancelled()
        self._over(
            ProgramStep.FAILED if error is not None else ProgramStep.STOPPED if is_stopped else ProgramStep.RETURNED
        )
        if error is not None:
            message = f"program {self.name} failed"
            self._sim.loop.call_exception_handler({"message": message, "exception": error, "task": task})

    def _over(self, how: ProgramStep) -> None:
        process, self._process, self._task = self._process, None, None
        self._forget_pause()
        if process is not None:
            self._sim.loop.processes.kill(process)
        self.ended = how
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(how)
        self._say(how)

    def _forget_pause(self) -> None:
        if self._resuming is not None:
            self._resuming.cancel()
            self._resuming = None

    def _say(self, step: ProgramStep) -> None:
        self._sim.trace.note("program", self.name, step, self.incarnation)
        if self._tell is not None:
            self._tell(self, step)
