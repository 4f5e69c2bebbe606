"""One fault at every place where it can hurt: each API write of a scenario, and each change that a program is told of.

First the scenario runs once without faults, to see where something could go wrong (plans.py). Then, for each place and
each fault that there can happen, it runs again with that one fault, and must still keep all promises and come to rest.
Up to its fault such a run is equal to the first one, so the places are the same. The claim is bounded, and exact: *no
violation with any one fault among these points*. It is about one workload, that of the seed.

A run that does not pass has a tape, as any: `mainstay sim replay` makes it again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec

from mainstay.env.processes import Send
from mainstay.sim.cluster.expected_state import ExpectedState
from mainstay.sim.cluster.final_state import ComparedStage, read_end
from mainstay.sim.faults.schedule import AT_EVENT, AT_WRITE
from mainstay.sim.run.forks import LostFork, decode, encode, from_booted, report_lost_fork, run_in_forks
from mainstay.sim.run.plans import Aim, DeliverySeen, PlannedFaults, WriteSeen, find_points
from mainstay.sim.run.run import Booted, Patch, RunResult
from mainstay.sim.run.scenario import Scenario

FAULTS: Final = tuple(AT_WRITE)
"""All that can happen to a write: it is lost, before or after it is done; or the writer crashes, before or after."""
AT_DELIVERY: Final = ("watch-delay", "watch-disconnect", "crash-at-delivery", "pause-at-delivery")
"""What is tried at a delivery. `unseen` and `old-state` are for Sieve's patterns; `watch-repeat` is left to chance."""
EVERYWHERE: Final = (*FAULTS, *AT_DELIVERY)

Point = Aim


@dataclass(frozen=True, slots=True)
class SweepRun:
    """One run of a sweep."""

    point: Point | None
    """None: the run without faults, which comes first."""
    result: RunResult
    of: int
    """How many points there are."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """What came out."""

    scenario: str
    points: int
    """How many were tried."""
    bad: tuple[tuple[Point | None, RunResult], ...]
    """Those at which something went wrong. None: the run without faults."""
    of: int = 0
    """How many there are, if not all were tried."""

    def __str__(self) -> str:
        if not self.bad:
            part = f" (of {self.of})" if self.of > self.points else ""
            return f"{self.scenario}: no violation with any single fault at {self.points} injection points{part}"
        lines = [f"  {point or 'without faults'}: {result.verdict}: {result.problem}" for point, result in self.bad]
        where = f"at {len(self.bad)} of {self.points} injection points" if self.points else "even without faults"
        return "\n".join([f"{self.scenario}: fails {where}:", *lines])


class _Sent(msgspec.Struct, frozen=True):
    """What the process with the booted world sends: a point, or the run without any, and its result."""

    point: Point | None
    result: RunResult
    of: int


class _Counted(msgspec.Struct, frozen=True):
    result: RunResult
    deeds: list[WriteSeen]
    tellings: list[DeliverySeen]
    expected: ExpectedState | None
    """What was there in the end, if the others have to end with that, too."""


_decode_sent = msgspec.msgpack.Decoder(_Sent).decode
_decode_counted = msgspec.msgpack.Decoder(_Counted).decode


def sweep(
    scenario: Scenario,
    *,
    seed: int = 1,
    jobs: int = 1,
    faults: Sequence[str] = FAULTS,
    programs: Sequence[str] = (),
    without: Sequence[str] = (),
    one_in: int = 1,
    patch: Patch | None = None,
) -> Sweep:
    """Try each single fault, as `sweep_runs` does, and say what came out."""
    bad: list[tuple[Point | None, RunResult]] = []
    points = 0
    tried = None
    for tried in sweep_runs(
        scenario,
        seed=seed,
        jobs=jobs,
        faults=faults,
        programs=programs,
        without=without,
        one_in=one_in,
        patch=patch,
    ):
        points += tried.point is not None
        if not tried.result.is_passed:
            bad.append((tried.point, tried.result))
    return Sweep(scenario.name, points, tuple(bad), 0 if tried is None else tried.of)


def sweep_runs(
    scenario: Scenario,
    *,
    seed: int = 1,
    jobs: int = 1,
    faults: Sequence[str] = FAULTS,
    programs: Sequence[str] = (),
    without: Sequence[str] = (),
    one_in: int = 1,
    patch: Patch | None = None,
) -> Iterator[SweepRun]:
    """Try each single fault. There are as many points as writes: a scenario whose work ends earlier has fewer.

    With `programs`, only at the writes of these, and at what they are told; `without`, not at those whose paths or keys
    have one of these texts in them; `one_in`, only at every n-th point. If the stage is an `ComparedStage`
    (sim/cluster/final_state.py), each run must also end with the same state as that without a fault. If the run without
    a fault does not pass, it is the only one.
    """
    chosen = _Chosen(tuple(faults), tuple(programs), tuple(without), one_in)
    for sent in from_booted(scenario, partial(_sweep, seed, jobs, chosen), patch):
        if isinstance(sent, LostFork):
            yield SweepRun(None, report_lost_fork(scenario, seed, sent), 0)
        else:
            each = _decode_sent(sent)
            yield SweepRun(each.point, each.result, each.of)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Which points are tried."""

    faults: Sequence[str]
    programs: Sequence[str]
    without: Sequence[str]
    one_in: int

    def among(self, deeds: Sequence[WriteSeen], tellings: Sequence[DeliverySeen]) -> tuple[list[Point], int]:
        """Those to be tried, and how many there are."""
        points = [
            Aim(place, fault)
            for place in find_points(deeds, tellings)
            if (not self.programs or place.who in self.programs)
            and not any(part in place.what for part in self.without)
            for fault in self.faults
            if fault in (AT_WRITE if place.is_write else AT_EVENT)
        ]
        return points[:: self.one_in], len(points)


def _sweep(seed: int, jobs: int, chosen: _Chosen, booted: Booted, send: Send) -> None:
    (first,) = run_in_forks([partial(_count, booted, seed)], 1)
    if isinstance(first, LostFork):
        send(encode(_Sent(None, report_lost_fork(booted.scenario, seed, first), 0)))
        return
    counted = _decode_counted(first)
    points, of = chosen.among(counted.deeds, counted.tellings)
    send(encode(_Sent(None, counted.result, of)))
    if not counted.result.is_passed:
        return
    works = [partial(_try, booted, seed, point, counted.expected) for point in points]
    for point, sent in zip(points, run_in_forks(works, jobs), strict=True):
        result = report_lost_fork(booted.scenario, seed, sent) if isinstance(sent, LostFork) else decode(sent)
        send(encode(_Sent(point, result, of)))


def _count(booted: Booted, seed: int) -> bytes:
    watching = PlannedFaults()
    result = booted.go(seed, strategy=watching)
    is_to_be_same = result.is_passed and isinstance(booted.stage, ComparedStage)
    expected = ExpectedState(booted.sim.run(read_end(booted.world))) if is_to_be_same else None
    return encode(_Counted(result, watching.deeds, watching.tellings, expected))


def _try(booted: Booted, seed: int, point: Point, expected: ExpectedState | None) -> bytes:
    if expected is not None:
        booted.expected = expected
    return encode(booted.go(seed, strategy=PlannedFaults([point])))
