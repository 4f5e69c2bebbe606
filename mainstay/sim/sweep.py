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
from mainstay.sim.forks import Lost, decode, each_in_a_fork, encode, from_booted, lost
from mainstay.sim.history import Asked
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
    """Who, and what, in order."""


_decode_tried = msgspec.msgpack.Decoder(_Tried).decode
_decode_counted = msgspec.msgpack.Decoder(_Counted).decode


def sweep(
    scenario: Scenario,
    *,
    seed: int = 1,
    lasts: timedelta | None = None,
    jobs: int = 1,
    faults: Sequence[str] = FAULTS,
    patch: Patch | None = None,
) -> Sweep:
    """Try each single fault. With `lasts`, the scenario's work ends earlier: there are as many points as writes."""
    if lasts is not None:
        scenario = replace(scenario, lasts=lasts)
    bad: list[tuple[Point | None, RunResult]] = []
    points = 0
    for sent in from_booted(scenario, partial(_sweep, seed, jobs, tuple(faults)), patch):
        if isinstance(sent, Lost):
            bad.append((None, lost(scenario, seed, sent)))
            continue
        tried = _decode_tried(sent)
        points += tried.point is not None
        if not tried.result.is_passed:
            bad.append((tried.point, tried.result))
    return Sweep(scenario.name, points, tuple(bad))


def _sweep(seed: int, jobs: int, faults: Sequence[str], booted: Booted, send: Send) -> None:
    (first,) = each_in_a_fork([partial(_count, booted, seed)], 1)
    if isinstance(first, Lost):
        send(encode(_Tried(None, lost(booted.scenario, seed, first))))
        return
    counted = _decode_counted(first)
    send(encode(_Tried(None, counted.result)))
    if not counted.result.is_passed:
        return
    points = _points(counted.writes, faults)
    works = [partial(_try, booted, seed, point) for point in points]
    for point, sent in zip(points, each_in_a_fork(works, jobs), strict=True):
        result = lost(booted.scenario, seed, sent) if isinstance(sent, Lost) else decode(sent)
        send(encode(_Tried(point, result)))


def _points(writes: Sequence[tuple[str, str]], faults: Sequence[str]) -> list[Point]:
    counts: dict[str, int] = {}
    points = []
    for who, what in writes:
        counts[who] = counts.get(who, 0) + 1
        points += [Point(who, counts[who], what, fault) for fault in faults]
    return points


def _count(booted: Booted, seed: int) -> bytes:
    before = len(booted.world.history.events)
    result = booted.go(seed, disturb=_not_at_all)
    programs = booted.world.programs
    asked = [event for event in booted.world.history.events[before:] if isinstance(event, Asked)]
    writes = [
        (event.who, f"{event.method} {event.path}") for event in asked if event.is_write and event.who in programs
    ]
    return encode(_Counted(result, writes))


def _try(booted: Booted, seed: int, point: Point) -> bytes:
    def disturb(world: World) -> None:
        world.faults.at_write(point.who, world.faults.writes_of(point.who) + point.nth, point.fault)

    return encode(booted.go(seed, disturb=disturb))


def _not_at_all(world: World) -> None:
    """No fault at all."""
