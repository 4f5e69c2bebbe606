"""One simulated run: a loop in virtual time, its choices and their tape, its trace, and what each component finds
outside.

    with Simulation(seed=7) as sim:
        sim.run(main())
        print(sim.digest)

`run` may be called several times; time goes on where the last call left it. Everything that happens is a function of
the program, the seed and the tape, in this process or any other: two runs are equal if their digests are. While `run`
is on, foreign code on the same thread is given virtual time and seeded chance (patches.py).

What is not promised: that a run is equal under another Python, or after something in the process has changed that the
program can see (a module's own counter, a cache).
"""

import asyncio
import hashlib
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, TypeVar

from mainstay.env import Chance, Env
from mainstay.sim import patches
from mainstay.sim.choices import Choices, Tape
from mainstay.sim.clock import SimClock
from mainstay.sim.disk import SimDisk
from mainstay.sim.loop import SimLoop
from mainstay.sim.network import Network
from mainstay.sim.surroundings import Surroundings
from mainstay.sim.trace import Trace

T = TypeVar("T")


class Simulation:
    """A world of its own. With a `tape`, its choices are those; what the tape does not say is benign."""

    def __init__(self, seed: int = 0, tape: Tape | None = None, *, keep_trace: bool = False) -> None:
        self.seed = seed
        self.trace = Trace(keep=keep_trace)
        self.choices = Choices(seed, self.trace) if tape is None else Choices.from_tape(tape, self.trace)
        self.loop = SimLoop(self.choices, self.trace)
        self.clock = SimClock(self.loop)
        self._is_replay = tape is not None
        self._surroundings = Surroundings(self.loop, self.clock, seed)
        self._clocks: dict[str, SimClock] = {}
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

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end and return its result.

        Raises what it raises; `Unhandled` if something else failed meanwhile and nobody looked; `Deadlock` or
        `Livelock` if it cannot end. An error carries a note with the seed.
        """
        try:
            with patches.installed(self._surroundings):
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
        clock = self._clocks.setdefault(component, SimClock(self.loop))
        disk = self._disks.get(component)
        if disk is None:
            disk = SimDisk(self.choices, component)
        elif not disk.has_power:
            disk = disk.after_power_cut()
        self._disks[component] = disk
        seed = hashlib.sha256(f"{self.seed}/{component}/{incarnation}".encode()).digest()
        return Env(clock=clock, chance=Chance(seed), disk=disk)

    def close(self) -> None:
        """Cancel what is still running, wait for its end, and close the loop. Raises what fails in doing so."""
        if self.loop.is_closed():
            return
        try:
            with patches.installed(self._surroundings):
                self.loop.run_until_complete(self._end_tasks())
                self.loop.run_until_complete(self.loop.shutdown_asyncgens())
                self.loop.run_until_complete(self.loop.shutdown_default_executor())
                self.loop.report_unseen_failures(also_held=True)
        except BaseException as error:
            error.add_note(self._note())
            raise
        finally:
            self.loop.close()

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
