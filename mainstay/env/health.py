"""The health of this process: named checks that others ask for, and the vital tasks behind some of them.

A check is a function that returns why something is unhealthy, or nothing. What it says is what it found out when it was
asked, or a moment before: a check that has to ask elsewhere (`add_remote`, remote_check.py) gets a short time for it,
and one that got no answer says so. Nothing is called healthy that was not checked.

    health = Health(clock)
    health.add("disk-space", find_disk_problem)
    health.add_remote("etcd", ask_the_store)
    with health.active():                          # what is spawned here, and by that, belongs to this process
        vital.spawn(follow(), name="feed")         # vital.py; adds the check task/feed
    …
    await health.failed()                          # a vital task has ended: say so, and exit

Two questions are told apart. *Live*: would a restart help? Only then a supervisor may kill the process. *Ready*: should
clients ask this process? Everything that is checked counts for that. How the answers look is in http/health_pages.py.

A *warning* (`add_warning`) counts for neither: the process serves as it should, and an operator should know something
all the same, such as that a part of the journal is damaged.

A context variable says which process the running code belongs to, because all processes of a simulation share one
real one.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from mainstay.env import health_socket
from mainstay.env.check_result import CheckResult
from mainstay.env.clock import Clock
from mainstay.env.clock_check import ClockCheck
from mainstay.env.invariants import find_broken
from mainstay.env.loop_watch import LoopWatch
from mainstay.env.remote_check import AskElsewhere, RemoteCheck

TASK_PREFIX: Final = "task/"
WARNING_PREFIX: Final = "warning/"

_logger = logging.getLogger(__name__)

Check = Callable[[], str]
"""Says why it is unhealthy. Empty: it is healthy."""


@dataclass(frozen=True, slots=True)
class _NamedCheck:
    ask: Check | RemoteCheck
    is_live: bool


class Health:
    """What is checked of one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._checks: dict[str, _NamedCheck] = {}
        self._warnings: dict[str, Check] = {}
        self._running: dict[str, int] = {}
        self._ended: dict[str, str] = {}
        """Why each vital task has ended that should not have."""
        self._has_failed = asyncio.Event()
        self._is_stopping = False
        self.loop_watch: LoopWatch | None = None
        self._listening: asyncio.AbstractServer | None = None
        self.add("ping", lambda: "", is_live=True)
        self.add("invariants", _find_broken_rule)
        self.add("clock", ClockCheck(clock).find_problem)
        self.add("shutdown", lambda: "the process is shutting down" if self._is_stopping else "")

    def add(self, name: str, check: Check, *, is_live: bool = False) -> None:
        """Ask this whenever health is asked for. `is_live`: what it finds is cured by a restart."""
        self._checks[name] = _NamedCheck(check, is_live)

    def add_remote(self, name: str, check: AskElsewhere) -> None:
        """The same for a check that waits for others. It never keeps those who ask longer than `ANSWER_WITHIN`."""
        self._checks[name] = _NamedCheck(RemoteCheck(check, self._clock), False)

    def add_warning(self, name: str, check: Check) -> None:
        """Tell those who look what this says, without taking the process for unhealthy."""
        self._warnings[name] = check

    def find_warnings(self) -> list[CheckResult]:
        """What operators should know."""
        return [CheckResult(name, text) for name, check in self._warnings.items() if (text := check())]

    def names(self, *, live_only: bool = False) -> list[str]:
        named = [name for name, check in self._checks.items() if check.is_live or not live_only]
        return [*named, *(TASK_PREFIX + name for name in dict.fromkeys((*self._running, *self._ended)))]

    async def check(self, name: str) -> CheckResult:
        """Raises `KeyError` if there is no such check."""
        if name.startswith(TASK_PREFIX):
            task = name.removeprefix(TASK_PREFIX)
            if task not in self._running and task not in self._ended:
                raise KeyError(name)
            return CheckResult(name, self._ended.get(task, ""))
        ask = self._checks[name].ask
        if isinstance(ask, RemoteCheck):
            return CheckResult(name, await ask.find_problem())
        try:
            return CheckResult(name, ask())
        except Exception as error:  # noqa: BLE001 - a check that fails has checked nothing
            return CheckResult(name, f"the check failed: {error!r}")

    async def listen(self) -> None:
        """Tell the supervisor that has started this process, if there is one, and `mainstay status` which checks fail,
        until `stopping`."""
        path = os.environ.get(health_socket.VARIABLE, "")
        if path:
            self._listening = await health_socket.listen(path, self._tell)

    async def find_failing(self, *, live_only: bool) -> list[CheckResult]:
        """The checks that fail. `live_only`: those that a restart would cure."""
        results = [await self.check(name) for name in self.names(live_only=live_only)]
        return [result for result in results if result.problem]

    async def _tell(self, *, live_only: bool) -> list[CheckResult]:
        """What fails, and for `mainstay status` also the warnings, whose names say that they are."""
        failing = await self.find_failing(live_only=live_only)
        if not live_only:
            failing += [CheckResult(WARNING_PREFIX + each.name, each.problem) for each in self.find_warnings()]
        return failing

    def watch_loop(self) -> LoopWatch:
        """What logs callbacks that keep this process's loop busy for long, from its `start` until `stopping`."""
        self.loop_watch = LoopWatch()
        return self.loop_watch

    def stopping(self) -> None:
        """From now on the process is not ready."""
        self._is_stopping = True
        if self.loop_watch is not None:
            self.loop_watch.stop()
        if self._listening is not None:
            self._listening.close()

    @contextlib.contextmanager
    def active(self) -> Iterator["Health"]:
        """Within this block, and in what it starts, this is the health of the process."""
        token = _current.set(self)
        try:
            yield self
        finally:
            _current.reset(token)

    async def failed(self) -> str:
        """Wait until a vital task has ended. Returns which and why, for the last words of the process."""
        await self._has_failed.wait()
        name, why = next(iter(self._ended.items()))
        return f"vital task {name!r} ended: {why}; stopping, to be restarted"

    # For vital.py.

    def note_start(self, name: str) -> None:
        self._running[name] = self._running.get(name, 0) + 1

    def note_stop(self, name: str) -> None:
        """It was cancelled, or has done what there was to do."""
        self._running[name] -= 1
        if not self._running[name]:
            del self._running[name]

    def note_failure(self, name: str, why: str) -> None:
        self.note_stop(name)
        _logger.critical("vital task %s ended: %s", name, why)
        self._ended.setdefault(name, why)
        self._has_failed.set()


_current: ContextVar[Health] = ContextVar("mainstay.health")


def find_current() -> Health | None:
    """The health of the process that the running code belongs to. None: nothing was said about that."""
    return _current.get(None)


def _find_broken_rule() -> str:
    bug = find_broken()
    return "" if bug is None else bug.rule
