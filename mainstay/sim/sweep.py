"""One fault at every place where it can hurt: each API write of a scenario, with each way to lose it.

First the scenario runs once without faults, to count the writes of each program. Then, for each write and each fault,
it runs again with that one fault at that one write, and must still keep all promises and come to rest. Up to its fault
such a run is equal to the first one, so the writes are the same. The claim is bounded, and exact: *no violation with
any one fault among these points*.

The workload is drawn from the seed as ever; only faults are not.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Final

import msgspec

from mainstay.env.processes import Send
from mainstay.sim.faults.schedule import AT_WRITE
from mainstay.sim.final_state import Ending
from mainstay.sim.forks import Lost, decode, each_in_a_fork, encode, from_booted, lost
from mainstay.sim.history import Asked, Healed
from mainstay.sim.run import Booted, Patch, RunResult
from mainstay.sim.scenario import Scenario
from mainstay.sim.world import World

FAULTS: Final = tuple(AT_WRITE)
"""All that can happen to a write: it is lost, before or after it is done; whoever writes crashes, before or after."""


class Point(msgspec.Struct, frozen=True):
    """A write of a program, counted from 1 as the work begins, and what goes wrong there."""

    who: str
    nth: int
    what: str
    """The write: method and path."""
    fault: str

    def __str__(self) -> str:
        return f"{self.fault} at write {self.nth} of {self.who} ({self.what})"


@dataclass(frozen=True, slots=True)
class Sweep:
    """What came out."""

    scenario: str
    points: int
    """How many were tried."""
    bad: tuple[tuple[Point | None, RunResult], ...]
    """Those at which something went wrong. None: the run without any fault."""

    def __str__(self) -> str:
        if not self.bad:
            return f"{self.scenario}: no violation with any one fault among these {self.points} points"
        lines = [f"  {point or 'without any fault'}: {result.verdict}: {result.problem}" for point, result in self.bad]
        return "\n".join([f"{self.scenario}: {len(self.bad)} of {self.points} points are bad:", *lines])


class _Tried(msgspec.Struct, frozen=True):
    """What the process with the booted world sends: a point, or the run without any, and its result."""

    point: Point | None
    result: RunResult


class _Counted(msgspec.Struct, frozen=True):
    result: RunResult
    writes: list[tuple[str, str]]
    """Who, and what, in order, up to when all was healed."""
    final: list[str] | None
    """What was there in the end, if the stage says so."""


_decode_tried = msgspec.msgpack.Decoder(_Tried).decode
_decode_counted = msgspec.msgpack.Decoder(_Counted).decode


def sweep(
    scenario: Scenario,
    *,
    seed: int = 1,
    lasts: timedelta | None = None,
    jobs: int = 1,
    faults: Sequence[str] = FAULTS,
    programs: Sequence[str] = (),
    without: Sequence[str] = (),
    one_in: int = 1,
    patch: Patch | None = None,
) -> Sweep:
    """Try each single fault. With `lasts`, the scenario's work ends earlier: there are as many points as writes.

    With `programs`, only at the writes of these; `without`, not at those whose paths have one of these texts in them;
    `one_in`, only at each so manieth point. If the stage is an `Ending` (final_state.py), each run must also end with
    the same state as that without a fault.
    """
    if lasts is not None:
        scenario = replace(scenario, lasts=lasts)
    bad: list[tuple[Point | None, RunResult]] = []
    points = 0
    chosen = _Chosen(tuple(faults), tuple(programs), tuple(without), one_in)
    for sent in from_booted(scenario, partial(_sweep, seed, jobs, chosen), patch):
        if isinstance(sent, Lost):
            bad.append((None, lost(scenario, seed, sent)))
            continue
        tried = _decode_tried(sent)
        points += tried.point is not None
        if not tried.result.is_passed:
            bad.append((tried.point, tried.result))
    return Sweep(scenario.name, points, tuple(bad))


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Which points are tried."""

    faults: Sequence[str]
    programs: Sequence[str]
    without: Sequence[str]
    one_in: int

    def among(self, writes: Sequence[tuple[str, str]]) -> list[Point]:
        counts: dict[str, int] = {}
        points = []
        for who, what in writes:
            counts[who] = counts.get(who, 0) + 1
            if (not self.programs or who in self.programs) and not any(part in what for part in self.without):
                points += [Point(who, counts[who], what, fault) for fault in self.faults]
        return points[:: self.one_in]


def _sweep(seed: int, jobs: int, chosen: _Chosen, booted: Booted, send: Send) -> None:
    (first,) = each_in_a_fork([partial(_count, booted, seed)], 1)
    if isinstance(first, Lost):
        send(encode(_Tried(None, lost(booted.scenario, seed, first))))
        return
    counted = _decode_counted(first)
    send(encode(_Tried(None, counted.result)))
    if not counted.result.is_passed:
        return
    points = chosen.among(counted.writes)
    works = [partial(_try, booted, seed, point, counted.final) for point in points]
    for point, sent in zip(points, each_in_a_fork(works, jobs), strict=True):
        result = lost(booted.scenario, seed, sent) if isinstance(sent, Lost) else decode(sent)
        send(encode(_Tried(point, result)))


def _count(booted: Booted, seed: int) -> bytes:
    before = len(booted.world.history.events)
    result = booted.go(seed, disturb=_not_at_all)
    programs = booted.world.programs
    events = booted.world.history.events[before:]
    # Past that nothing goes wrong any more.
    healed = next((place for place, event in enumerate(events) if isinstance(event, Healed)), len(events))
    asked = [event for event in events[:healed] if isinstance(event, Asked)]
    writes = [
        (event.who, f"{event.method} {event.path}") for event in asked if event.is_write and event.who in programs
    ]
    final = booted.stage.final if isinstance(booted.stage, Ending) else None
    return encode(_Counted(result, writes, final))


def _try(booted: Booted, seed: int, point: Point, final: list[str] | None) -> bytes:
    if isinstance(booted.stage, Ending):
        booted.stage.expected = final

    def disturb(world: World) -> None:
        world.faults.at_write(point.who, world.faults.writes_of(point.who) + point.nth, point.fault)

    return encode(booted.go(seed, disturb=disturb))


def _not_at_all(world: World) -> None:
    """No fault at all."""
