"""Whose code runs: the processes of a simulated run, and how one is stopped without a word.

A process is one start of one program on one host. Like the host (sim/net/hosts.py), it is known by a context variable:
whatever its code starts, sets a timer for or is called back about belongs to it too. Code that was never put into a
process belongs to none, and cannot be halted.

A process is *paused*: what would be its turn is kept instead, in order, and has its turn when it goes on. Its clock
goes on meanwhile, and so does the network; it cannot know. Or it is *killed*: from that moment nothing of it has a turn
ever again. No `finally` runs, no `except`, no callback, so nothing can be written by a process that is dead. Its tasks
stay as they are until the loop is closed, and only then are taken apart, when nothing that they do can reach any
program.

What it costs: nothing until the first process is halted; from then on, a look at each callback before its turn. The
kernel's part of a connection (sim/net/wire.py) is not the process: segments to a dead one must still be answered.
"""

import asyncio
import gc
import logging
import sys
import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, Any, Final

from mainstay.sim.loop.tasks import SimHandle
from mainstay.sim.net.hosts import Host
from mainstay.sim.net.wire import TcpEnd

if TYPE_CHECKING:
    from mainstay.sim.loop.loop import SimLoop

PROCESS: Final[ContextVar["SimProcess"]] = ContextVar("mainstay.sim.process")


def current_process() -> "SimProcess | None":
    """The process that the running code belongs to, if any."""
    return PROCESS.get(None)


class SimProcess:
    """One start of one program. Made by the code that starts it (sim/cluster/program_lifecycle.py)."""

    __slots__ = ("held", "host", "is_dead", "is_paused", "name", "remains")

    def __init__(self, name: str, host: Host) -> None:
        self.name = name
        self.host = host
        self.is_paused = False
        self.is_dead = False
        self.held: list[SimHandle] = []
        """What waits for a paused process to go on, in order."""
        self.remains: list[object] = []
        """What is left of a dead one. Held, so that nothing in it is finalised while the run goes on."""

    def __repr__(self) -> str:
        state = "dead" if self.is_dead else "paused" if self.is_paused else "running"
        return f"<Process {self.name} {state}>"

    def context(self) -> Context:
        """A context for code of this process, on its host."""
        context = self.host.context()
        context.run(PROCESS.set, self)
        return context


class ProcessTable:
    """Halts the processes of one loop."""

    def __init__(self, loop: "SimLoop") -> None:
        self._loop = loop
        self.halted: dict[SimProcess, None] = {}
        """Those that are paused or dead. The loop looks here before each round."""

    def pause(self, process: SimProcess) -> None:
        if process.is_dead or process.is_paused:
            return
        process.is_paused = True
        self._halt(process)

    def resume(self, process: SimProcess) -> None:
        """Let a paused process go on: first with all it has missed."""
        if not process.is_paused or process.is_dead:
            return
        process.is_paused = False
        del self.halted[process]
        self._loop.make_ready(process.held)
        process.held = []

    def resume_all(self) -> None:
        for process in [each for each in self.halted if each.is_paused]:
            self.resume(process)

    def kill(self, process: SimProcess) -> None:
        """From now on nothing of this process runs. If its own code calls this, the step that does is its last."""
        if process.is_dead:
            return
        process.is_dead = True
        process.is_paused = False
        kept, process.held = process.held, []
        self._halt(process)
        process.remains += self._loop.give_up_tasks(process)
        # Its own only: what a paused one waits for is not due because another has died.
        self._loop.give_up_timers(lambda timer: timer._context.get(PROCESS) is process and self._takes(timer))
        self._loop.make_ready([handle for handle in kept if not self._takes(handle)])

    def _halt(self, process: SimProcess) -> None:
        self.halted[process] = None
        self._loop.replace_ready(lambda handle: _NOTHING if self._takes(handle) else handle)

    def sort_out(self, ready: deque[SimHandle]) -> None:
        """Take out what has no turn now."""
        halted = self.halted
        for handle in ready:
            # Nearly always there is nothing to take out, and this is done before each round.
            process = handle._context.get(PROCESS)
            if process is not None and process in halted:
                break
        else:
            return
        kept = [handle for handle in ready if not self._takes(handle)]
        if len(kept) < len(ready):
            ready.clear()
            ready.extend(kept)

    def _takes(self, handle: SimHandle) -> bool:
        """Whether a callback has no turn now. It is then kept for later, or for ever."""
        process = handle._context.get(PROCESS)
        if process is None or handle._callback is None:
            return False
        if process.is_paused:
            process.held.append(handle)
            return True
        if process.is_dead and not isinstance(getattr(handle._callback, "__self__", None), TcpEnd):
            process.remains.append(handle)
            return True
        return False

    def bury(self) -> None:
        """The loop is closed: take apart what is left of the dead. No code is left to handle it."""
        with _unheard():
            for process in self.halted:
                for left in process.remains:
                    if isinstance(left, asyncio.Task):
                        _close(left)
                process.remains.clear()
            if any(process.is_dead for process in self.halted):
                gc.collect()  # What it has left open is no fault of code that runs later in this process.
        self.halted.clear()


def _close(task: "asyncio.Task[Any]") -> None:
    with suppress(BaseException):  # Whatever a dead program does about its end.
        task.get_coro().close()


@contextmanager
def _unheard() -> Iterator[None]:
    """What is written to logs, warned of or raised by finalisers in this block is lost."""
    hook, level = sys.unraisablehook, logging.root.manager.disable
    sys.unraisablehook = _ignore
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
        sys.unraisablehook = hook


def _ignore(report: object) -> None:
    """Ignore it."""


def _nothing() -> SimHandle:
    handle = SimHandle(_ignore, (None,), None, Context())  # type: ignore[arg-type]  # Of no loop: it never runs.
    handle.cancel()
    return handle


_NOTHING: Final = _nothing()  # In the place of a callback that was taken out of a round that is under way.
