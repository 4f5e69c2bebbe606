"""What a supervisor does next, as a plain function of what is wanted, what runs, and what it remembers.

The supervisor calls `decide` whenever something has happened: a process has ended, a timer has fired, the user stops
the cluster. It compares the running processes with the wanted ones: a process that runs as wanted stays, whichever
supervisor started it. That is all of adoption. A process with another command line is stopped and then started as
wanted.

A component that ends is restarted after a backoff that doubles each time, from `PAUSE_MIN` to `PAUSE_MAX`. After
`STEADY_AFTER` of running, the backoff starts again at its minimum. Restarts never stop; a caller that wants to abort a
first start learns of each failure.

Stopping goes by turns: a process of a later turn runs until all of the earlier turns have ended. A process gets
SIGTERM, and SIGKILL after its grace period, or at once if the user is in a hurry.
"""

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import Final

from mainstay.env.commands import Identity

PAUSE_MIN: Final = timedelta(milliseconds=200)
PAUSE_MAX: Final = timedelta(seconds=30)
STEADY_AFTER: Final = timedelta(minutes=1)
GRACE: Final = timedelta(seconds=15)
KILL_AGAIN_EVERY: Final = timedelta(seconds=1)
"""A killed process ends very soon, unless the kernel is busy for it. Repeating the signal is all that can be done."""


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """One process that should run."""

    name: str
    argv: tuple[str, ...]
    turn: int = 0
    """When stopping: lower ones first."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process that runs."""

    identity: Identity
    argv: tuple[str, ...]
    turn: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    """Goal: everything runs."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Goal: nothing of this turn or an earlier one runs. Later turns are left alone."""

    through: int
    is_hurried: bool = False


Wish = Run | Stop


@dataclass(frozen=True, slots=True)
class ComponentHistory:
    """What is remembered of one component."""

    process: Identity | None = None
    """The process at the last look."""
    since_ns: int = 0
    """When the supervisor first saw it."""
    failures: int = 0
    """How often in a row it ended too soon."""
    restarts: int = 0
    """How often it ended by itself in all."""
    start_at_ns: int = 0
    """The earliest time of the next start."""
    asked_at_ns: int | None = None
    """When it got SIGTERM."""
    killed_at_ns: int | None = None


Memory = Mapping[str, ComponentHistory]


@dataclass(frozen=True, slots=True)
class StartProcess:
    component: ProcessSpec


@dataclass(frozen=True, slots=True)
class SendSignal:
    name: str
    identity: Identity
    number: signal.Signals


Action = StartProcess | SendSignal


class ExitReason(StrEnum):
    """Why a process has ended."""

    ASKED = "asked"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ProcessEnded:
    """A process that ran at the last look has ended."""

    name: str
    identity: Identity
    ending: ExitReason
    failures: int
    start_at_ns: int


@dataclass(frozen=True, slots=True)
class SupervisorPlan:
    actions: tuple[Action, ...]
    memory: Memory
    ended: tuple[ProcessEnded, ...] = ()
    wake_ns: int | None = None
    is_done: bool = False
    """The goal is reached and nothing is left to wait for: only ever true for a `Stop`."""


def pause(failures: int) -> timedelta:
    """The backoff before the next start, after this many failures in a row."""
    # The exponent is bounded, because numbers are not: a component may fail for years.
    doubled: int = 1 << min(max(failures - 1, 0), 30)
    return min(PAUSE_MIN * doubled, PAUSE_MAX)


def decide(
    wanted: Sequence[ProcessSpec], running: Mapping[str, Process], memory: Memory, now_ns: int, wish: Wish
) -> SupervisorPlan:
    """Decide what to do now. `running` has all living processes by component name, also unwanted ones."""
    by_name = {component.name: component for component in wanted}
    names = [*by_name, *(name for name in sorted(running) if name not in by_name)]
    actions: list[Action] = []
    ended: list[ProcessEnded] = []
    wakes: list[int] = []
    remembered: dict[str, ComponentHistory] = {}
    turn = _turn_now(running, wish)
    for name in names:
        process, component = running.get(name), by_name.get(name)
        past, news = _look(name, process, memory.get(name, ComponentHistory()), now_ns)
        ended += news
        if process is None:
            if isinstance(wish, Run) and component is not None:
                if past.start_at_ns <= now_ns:
                    actions.append(StartProcess(component))
                else:
                    wakes.append(past.start_at_ns)
        elif _must_end(process, component, wish, turn):
            is_hurried = isinstance(wish, Stop) and wish.is_hurried
            past, number = _ending(past, now_ns, is_hurried)
            if number is not None:
                actions.append(SendSignal(name, process.identity, number))
            wakes.append(_next_step_ns(past))
        remembered[name] = past
    return SupervisorPlan(
        actions=tuple(actions),
        memory=remembered,
        ended=tuple(ended),
        wake_ns=min(wakes, default=None),
        is_done=isinstance(wish, Stop) and turn is None,
    )


def not_started(past: ComponentHistory, now_ns: int) -> ComponentHistory:
    """Remember a start that failed: the same as a process that ended at once."""
    failures = past.failures + 1
    return replace(past, failures=failures, start_at_ns=now_ns + _ns(pause(failures)))


def _look(
    name: str, process: Process | None, past: ComponentHistory, now_ns: int
) -> tuple[ComponentHistory, list[ProcessEnded]]:
    """Find what has ended and what is new since the last look."""
    found, ended = None if process is None else process.identity, past.process
    if found == ended:
        return past, []
    news: list[ProcessEnded] = []
    if ended is not None:
        ending = ExitReason.FAILED if past.asked_at_ns is None else ExitReason.ASKED
        past = _after_end(past, now_ns)
        news = [ProcessEnded(name, ended, ending, past.failures, past.start_at_ns)]
    return replace(past, process=found, since_ns=now_ns, asked_at_ns=None, killed_at_ns=None), news


def _after_end(past: ComponentHistory, now_ns: int) -> ComponentHistory:
    if past.asked_at_ns is not None:
        return replace(past, failures=0, start_at_ns=now_ns)
    was_steady = now_ns - past.since_ns >= _ns(STEADY_AFTER)
    failures = 1 if was_steady else past.failures + 1
    return replace(past, failures=failures, restarts=past.restarts + 1, start_at_ns=now_ns + _ns(pause(failures)))


def _turn_now(running: Mapping[str, Process], wish: Wish) -> int | None:
    """The turn that stops now. None if there is none."""
    if isinstance(wish, Run):
        return None
    return min((process.turn for process in running.values() if process.turn <= wish.through), default=None)


def _must_end(process: Process, component: ProcessSpec | None, wish: Wish, turn: int | None) -> bool:
    if isinstance(wish, Run):
        return component is None or process.argv != component.argv
    return process.turn <= wish.through if wish.is_hurried else process.turn == turn


def _ending(past: ComponentHistory, now_ns: int, is_hurried: bool) -> tuple[ComponentHistory, signal.Signals | None]:
    """The next step of stopping a process, if it is due."""
    if past.asked_at_ns is None and not is_hurried:
        return replace(past, asked_at_ns=now_ns), signal.SIGTERM
    asked_at_ns = now_ns if past.asked_at_ns is None else past.asked_at_ns
    past = replace(past, asked_at_ns=asked_at_ns)
    is_due = is_hurried and past.killed_at_ns is None
    if is_due or _next_step_ns(past) <= now_ns:
        return replace(past, killed_at_ns=now_ns), signal.SIGKILL
    return past, None


def _next_step_ns(past: ComponentHistory) -> int:
    if past.killed_at_ns is not None:
        return past.killed_at_ns + _ns(KILL_AGAIN_EVERY)
    assert past.asked_at_ns is not None
    return past.asked_at_ns + _ns(GRACE)


def _ns(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1) * 1000
