"""Many runs of one scenario, each in a fork of a process that has booted it once.

To boot a cluster costs more than many a run, and a process in which something has run before is not a fresh one. So a
first fork boots the scenario, and each run is a fork of that: it begins with everything in place, changes nothing that
another one sees, and is thrown away. What a run finds comes back over a pipe.

A run that does not end, because it computes for ever, is killed after a time on the real clock: the only verdict that
depends on the machine.
"""

import gc
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final

import msgspec

from mainstay.env.processes import TOO_LONG, Child, ChildEnded, Children, Message, Send
from mainstay.sim.loop.trace import Trace
from mainstay.sim.run.run import Booted, Patch, RunResult, RunVerdict
from mainstay.sim.run.scenario import Scenario
from mainstay.sim.strategies import Strategy
from mainstay.sim.strategies.table import RANDOM

WALL_MAX: Final = timedelta(minutes=2)  # Of a run. They take some tenths of a second.
AHEAD_MAX: Final = 100  # How many results, for each job, may wait for a slow run before them.

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(RunResult).decode


@dataclass(frozen=True, slots=True)
class LostFork:
    """A fork that has not sent what it should have, and why."""

    how: str


def run_many(
    scenario: Scenario,
    seeds: Sequence[int],
    *,
    jobs: int = 1,
    patch: Patch | None = None,
    strategy: Strategy = RANDOM,
) -> Iterator[RunResult]:
    """Run a scenario with each of these seeds, `jobs` at once. Results come in the order of the seeds.

    If the scenario does not even boot, that is the only result.
    """
    for sent in from_booted(scenario, lambda booted, send: _run_all(booted, seeds, jobs, strategy, send), patch):
        yield report_lost_fork(scenario, seeds[0], sent) if isinstance(sent, LostFork) else decode(sent)


def from_booted(
    scenario: Scenario,
    work: Callable[[Booted, Send], None],
    patch: Patch | None = None,
    *,
    journal: bool = False,
    trace: Callable[[], Trace] | None = None,
) -> Iterator[bytes | LostFork]:
    """Boot a scenario in a fork, let it go on with `work` there, and give what is sent."""

    def boot(send: Send) -> None:
        _be_silent()
        if patch is not None:
            patch()
        work(Booted(scenario, journal=journal, trace=None if trace is None else trace()), send)

    with Children() as children:
        children.start(boot)
        while (heard := children.next()) is not None:
            if isinstance(heard, Message):
                yield heard.body
            elif heard.how:
                yield LostFork(heard.how)


def _be_silent() -> None:
    """What simulated programs log goes nowhere, unless a handler is installed: all runs at once would be talking."""
    if not logging.getLogger().handlers:
        logging.disable(logging.CRITICAL)
        warnings.simplefilter("ignore")


def run_in_forks(works: Sequence[Callable[[], bytes]], jobs: int) -> Iterator[bytes | LostFork]:
    """Do each in a fork of this process, `jobs` at once. What they return comes in the order of `works`."""
    if jobs < 1:
        raise ValueError("jobs must be at least 1")
    results: dict[int, bytes | LostFork] = {}  # By place in `works`: those that came before their turn.
    places: dict[Child, int] = {}
    begun = given = 0
    with Children() as children:
        while given < len(works):
            while begun < len(works) and len(children) < jobs and begun - given < AHEAD_MAX * jobs:
                places[children.start(partial(_send_result, works[begun]), at_most=WALL_MAX)] = begun
                begun += 1
            heard = children.next()
            if isinstance(heard, Message):
                results[places[heard.child]] = heard.body
            elif isinstance(heard, ChildEnded):
                place = places.pop(heard.child)
                if heard.how:
                    results[place] = LostFork(heard.how)
            while given in results:
                yield results.pop(given)
                given += 1


def report_lost_fork(scenario: Scenario, seed: int, why: LostFork) -> RunResult:
    """The result of a run that is not known."""
    verdict = RunVerdict.STUCK if why.how == TOO_LONG else RunVerdict.FAILED
    problem = f"the process of the run died: {why.how}"
    return RunResult(scenario.name, seed, verdict, problem, trace="", virtual_s=0.0, choices=0)


def _run_all(booted: Booted, seeds: Sequence[int], jobs: int, strategy: Strategy, send: Send) -> None:
    if booted.has_failed:
        seeds = seeds[:1]
    works = [partial(_run_one, booted, seed, strategy) for seed in seeds]
    for seed, sent in zip(seeds, run_in_forks(works, jobs), strict=True):
        send(encode(report_lost_fork(booted.scenario, seed, sent)) if isinstance(sent, LostFork) else sent)


def _run_one(booted: Booted, seed: int, strategy: Strategy) -> bytes:
    return encode(booted.go(seed, strategy=strategy))


def _send_result(work: Callable[[], bytes], send: Send) -> None:
    gc.disable()  # All that this copy leaves behind goes with it: to look for what could go sooner only takes time.
    send(work())
