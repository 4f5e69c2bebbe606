"""One simulated run: a loop in virtual time, its choices and their tape, its trace, and what each component finds
outside.

    with Simulation(seed=7) as sim:
        sim.run(main())
        print(sim.digest)

`run` may be called several times; time goes on where the last call left it. Everything that happens is a function of
the program, the seed and the tape, in this process or any other: two runs are equal if their digests are. While `run`
is on, foreign code on the same thread is given virtual time and seeded chance (sim/foreign/patches.py).

What is not promised: that a run is equal under another Python, or after something in the process has changed that the
program can see (a module's own counter, a cache).
"""

import asyncio
import gc
import hashlib
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Final, TypeVar

from mainstay.env import Chance, Env
from mainstay.sim.disk import SimDisk
from mainstay.sim.foreign import patches
from mainstay.sim.foreign.context import RunContext
from mainstay.sim.loop.clock import SimClock
from mainstay.sim.loop.loop import FOREVER_NS, SimLoop
from mainstay.sim.loop.trace import Trace
from mainstay.sim.net.network import Network
from mainstay.sim.run.choices import Choices, Tape

T = TypeVar("T")

# How long tasks may take to end when they are cancelled. Without a limit, one that goes on beating would never let go.
CLOSING_MAX: Final = timedelta(days=1)


class Simulation:
    """A world of its own. With a `tape`, its choices are those; what the tape does not say is benign."""

    def __init__(
        self, seed: int = 0, tape: Tape | None = None, *, keep_trace: bool = False, trace: Trace | None = None
    ) -> None:
        self.seed = seed
        self.trace = Trace(keep=keep_trace) if trace is None else trace
        self.choices = Choices(seed, self.trace) if tape is None else Choices.from_tape(tape, self.trace)
        self.loop = SimLoop(self.choices, self.trace)
        self.clock = SimClock(self.loop)
        self.tellers: list[Callable[[], list[str]]] = []
        """They say what has gone wrong in this run so far, for the report of a failure."""
        self._is_replay = tape is not None
        self._surroundings = RunContext(self.loop, self.clock, seed)
        self._clocks: dict[str, SimClock] = {}
        self._ahead = timedelta()
        self._disks: dict[str, SimDisk] = {}

    @property
    def network(self) -> Network:
        return self.loop.network

    @property
    def tape(self) -> Tape:
        """The choices made so far."""
        return self.choices.tape

    @property
    def digest(self) -> str:
        """The hash of all that has happened so far."""
        return self.trace.digest

    def run(self, main: Coroutine[Any, Any, T], limit: timedelta | None = None) -> T:
        """Run a coroutine to its end and return its result.

        Raises what it raises; `Unhandled` if something else failed meanwhile without being handled; `Deadlock` or
        `Livelock` if it cannot end. An error carries a note with the seed.

        With a `limit`, `TooLong` if it has not ended after that much virtual time. As long as any task sets timers, a
        heartbeat for instance, nothing else tells that the coroutine waits for ever.
        """
        try:
            with patches.installed(self._surroundings), self._limited(limit):
                task = self.loop.create_task(main, name="main")
                result: T = self.loop.run_until_complete(task)
                del task
                self.loop.report_unseen_failures()
                return result
        except BaseException as error:
            error.add_note(self._note())
            raise

    def env(self, component: str, incarnation: int = 0) -> Env:
        """The outside of one component. Its clock and disk stay the same over incarnations, its chance does not.

        If the disk has lost power since, the next incarnation finds what survived.
        """
        if (disk := self._disks.get(component)) is not None and not disk.has_power:
            self._disks[component] = disk.after_power_cut()
        seed = hashlib.sha256(f"{self.seed}/{component}/{incarnation}".encode()).digest()
        return Env(clock=self.get_clock(component), chance=Chance(seed), disk=self.get_disk(component))

    def get_clock(self, component: str) -> SimClock:
        """The clock that a component is given, to make it go wrong."""
        clock = self._clocks.get(component)
        if clock is None:
            clock = self._clocks[component] = SimClock(self.loop, self._ahead)
        return clock

    def set_time(self, now: datetime) -> None:
        """Let all clocks show this now, and go on from it."""
        ahead = now - self.clock.wall()
        self._ahead += ahead
        for clock in (self.clock, *self._clocks.values()):
            clock.jump(ahead)

    def get_disk(self, component: str) -> SimDisk:
        """The disk that a component was given last, to make it fail."""
        disk = self._disks.get(component)
        if disk is None:
            disk = self._disks[component] = SimDisk(self.choices, component)
        return disk

    def begin_again(self, seed: int, tape: Tape | None = None) -> None:
        """Go on from here as the run of another seed, or of a tape, which begins here. Call it between two `run`s.

        For many runs that share their beginning (sim/run/forks.py): what was built up stays, and so do the random
        streams that components hold; all choices from here on, and the chance of each incarnation to come, are the new
        seed's.
        """
        self.seed = seed
        self._is_replay = tape is not None
        self.choices.begin_again(seed, tape)
        self._surroundings.begin_again(seed)
        self.trace.note("seed", seed)

    def close(self) -> None:
        """Cancel what is still running, wait for its end, and close the loop. Raises what fails in doing so."""
        if self.loop.is_closed():
            return
        self.loop.stops_at_failure = False  # What fails now is raised when everything else has ended.
        self.loop.failures.is_ending = True
        try:
            with patches.installed(self._surroundings), self._limited(CLOSING_MAX):
                try:
                    self.loop.processes.resume_all()
                    self.loop.run_until_complete(self._end_tasks())
                    self.loop.run_until_complete(self.loop.shutdown_asyncgens())
                finally:
                    self._switch_off()
                self.loop.report_unseen_failures(also_held=True)
        except BaseException as error:
            error.add_note(self._note())
            raise
        finally:
            self.loop.close()

    @contextmanager
    def _limited(self, limit: timedelta | None) -> Iterator[None]:
        before_ns = self.loop.limit_ns
        if limit is not None:
            self.loop.limit_ns = min(self.loop.time_ns() + limit // timedelta(microseconds=1) * 1000, FOREVER_NS)
        try:
            yield
        finally:
            self.loop.limit_ns = before_ns

    async def _end_tasks(self) -> None:
        left = [task for task in self.loop.tasks() if task is not asyncio.current_task()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        for task in left:
            if not task.cancelled() and (error := task.exception()) is not None:
                self.loop.call_exception_handler(
                    {"message": f"task {task.get_name()!r} failed when cancelled", "exception": error, "task": task}
                )

    def _switch_off(self) -> None:
        # Connections that are still open end without a word: their programs are over.
        for host in self.network.names.all():
            self.network.vanish(host)
        # What is left in reference cycles goes now, while its finalisers still belong to this run. The collector was
        # off, so all of it is young.
        gc.collect(1)

    def __enter__(self) -> "Simulation":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        try:
            self.close()
        except Exception as second:  # noqa: BLE001 - the first error is the one to look at
            error.add_note(f"closing the simulation failed as well: {second!r}")

    def _note(self) -> str:
        return (
            f"simulated with seed {self.seed}{' and a tape' if self._is_replay else ''}, at {self.loop.time()} s;"
            f" {len(self.tape)} choices made, digest {self.digest}"
        )
