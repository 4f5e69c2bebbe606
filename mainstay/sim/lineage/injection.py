"""Look for faults that keep an outcome from happening, with as few runs as the lineage allows.

    for step in inject(scenario, depth=2): ...      each run as it is made; the last one has what may be claimed

The first run is without a fault. What its outcomes rest on are the first *supports*. Then, again and again, a smallest
set of faults that hits all supports known of some outcome is injected. If a promise is broken, that is it. If not, the
outcome has come about in another way, or in spite of the fault, and what it rests on now is one more support to hit. An
outcome that no set of so many faults can keep from happening any more needs no run: that is where runs are saved.

If the stage is an `ComparedStage` (final_state.py), each run must also end with the same state as that without a fault.

A way around a write tells nothing about what is lost after its commit: such a fault keeps nothing from happening that
the write was for, but it may have it done again. So faults after the commit are tried at each write of the way without
a fault, and saved are only those before it, and at deliveries.

What may be claimed is bounded: it is about one workload, about faults at the places that outcomes rest on, and it takes
for granted that a way around a fault that was taken in one run is there in others too. So it says how many of them were
injected, and how many were left out for that reason.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from hashlib import blake2b
from math import comb
from typing import Final

import msgspec

from mainstay.env.processes import Send
from mainstay.sim.cluster.expected_state import ExpectedState
from mainstay.sim.cluster.final_state import ComparedStage, read_end
from mainstay.sim.lineage.hitting_sets import hitting_sets
from mainstay.sim.lineage.provenance import Lineage, LineageOutcome
from mainstay.sim.run.forks import LostFork, encode, from_booted, report_lost_fork, run_in_forks
from mainstay.sim.run.plans import Aim, InjectionPoint, PlannedFaults, find_points
from mainstay.sim.run.run import Booted, Patch, RunResult
from mainstay.sim.run.scenario import Scenario

AT_WRITE: Final = ("crash-after", "crash-before", "request-lost", "answer-lost")
AFTER_COMMIT: Final = ("crash-after", "answer-lost")
AT_DELIVERY: Final = ("watch-delay", "watch-disconnect")
RUNS_MAX: Final = 2_000
AT_ONCE: Final = 4  # So many are chosen before more is learnt, on any machine: what is injected must not depend on it.

Aims = tuple[Aim, ...]


class Claim(msgspec.Struct, frozen=True):
    """What is known about sets of so many faults."""

    faults: int
    points: int
    """How many single faults there are at places that outcomes rest on, in runs with fewer faults than that."""
    injected: int
    """How many sets of so many faults were tried."""
    left: int
    """How many sets were still to be tried when it was stopped; 0: all that matter were."""

    @property
    def others(self) -> int:
        """How many sets were not tried: by their lineage they cannot prevent any outcome. Some may not even be
        possible, such as two faults at one write."""
        return comb(self.points, self.faults) - self.injected

    def __str__(self) -> str:
        how_many = {1: "single fault", 2: "two faults"}.get(self.faults, f"{self.faults} faults")
        sets = {1: "", 2: " pairs"}.get(self.faults, " sets")
        among = f"at {self.points} injection points"
        if self.left:
            return (
                f"no violation with {self.injected}{sets} injected, of any {how_many} {among};"
                f" stopped, with {self.left} or more left to try"
            )
        others = f", and by lineage the other {self.others} cannot prevent any outcome" if self.others else ""
        return f"no violation with any {how_many} {among}: {self.injected}{sets} injected{others}"


class InjectionStep(msgspec.Struct, frozen=True):
    """One run."""

    number: int
    aims: list[Aim]
    """None for the first."""
    result: RunResult
    outcomes: int
    """How many there are so far."""
    claims: list[Claim] = []
    """Of the last step of all: what may be claimed, for one fault, for two, and so on. Empty if something was found."""

    def __str__(self) -> str:
        what = " and ".join(map(str, self.aims)) or "without faults"
        return f"run {self.number}, {what}: {self.result.verdict}"


class _Seen(msgspec.Struct, frozen=True):
    """What a run sends."""

    result: RunResult
    outcomes: list[LineageOutcome]
    early: list[InjectionPoint]
    """Where something could have gone wrong: before all was healed."""
    expected: ExpectedState | None = None
    """Of the run without a fault: what was there in the end, if the others have to end with that, too."""


_decode_seen = msgspec.msgpack.Decoder(_Seen).decode
_decode_step = msgspec.msgpack.Decoder(InjectionStep).decode


def inject(
    scenario: Scenario,
    *,
    depth: int = 1,
    seed: int = 1,
    lasts: timedelta | None = None,
    jobs: int = 1,
    programs: Sequence[str] = (),
    runs: int = RUNS_MAX,
    patch: Patch | None = None,
) -> Iterator[InjectionStep]:
    """Up to the first run that does not pass, or until nothing is left to try with at most `depth` faults, or so many
    `runs` are made. With `programs`, only faults of these."""
    if lasts is not None:
        scenario = replace(scenario, lasts=lasts)
    work = partial(_inject, seed, depth, jobs, tuple(programs), runs)
    for sent in from_booted(scenario, work, patch, journal=True):
        if isinstance(sent, LostFork):
            yield InjectionStep(0, [], report_lost_fork(scenario, seed, sent), 0)
        else:
            yield _decode_step(sent)


@dataclass
class _Support:
    places: dict[InjectionPoint, None]
    first: dict[InjectionPoint, None]
    """Those of the first way that was known: without a fault, if there was one."""
    aims: Aims
    """Of the run in which it was found: it has held in spite of them."""

    def is_hit_by(self, aim: Aim) -> bool:
        if aim in self.aims:
            return False
        return aim.place in self.places or (aim.fault in AFTER_COMMIT and aim.place in self.first)


@dataclass
class Search:
    """What is known so far. Decides what to try next; makes no run itself."""

    programs: Sequence[str] = ()
    supports: dict[str, list[_Support]] = field(default_factory=dict)
    """By outcome."""
    tried: dict[frozenset[Aim], None] = field(default_factory=dict)
    points: dict[Aim, None] = field(default_factory=dict)
    """All single faults at places that outcomes rest on."""
    early: dict[InjectionPoint, None] = field(default_factory=dict)
    """Where something can go wrong at all."""

    def learn(self, aims: Aims, outcomes: Sequence[LineageOutcome], early: Sequence[InjectionPoint]) -> None:
        """A run with these faults was good."""
        self.tried[frozenset(aims)] = None
        self.early.update(dict.fromkeys(early))
        for outcome in outcomes:
            places = dict.fromkeys(outcome.support)
            known = self.supports.setdefault(outcome.name, [])
            known.append(_Support(places, known[0].places if known else places, aims))
            for place in places:
                self.points.update(dict.fromkeys(self._aims_at(place)))

    def next(self, size: int, most: int, among: Mapping[Aim, None]) -> list[Aims]:
        """Sets of so many of these faults that could keep an outcome from happening, and were not tried: at most so
        many."""
        found: dict[frozenset[Aim], Aims] = {}
        for aims in self._each(size):
            at = frozenset(aims)
            if at not in self.tried and at not in found and all(aim in among for aim in aims):
                found[at] = aims
        chosen = sorted(found.values(), key=self._build_order())
        return chosen[:most]

    def _each(self, size: int) -> Iterator[Aims]:
        for supports in self.supports.values():
            options = [
                [aim for place in each.places | each.first for aim in self._aims_at(place) if each.is_hit_by(aim)]
                for each in supports
            ]
            if all(options):
                yield from hitting_sets([each.is_hit_by for each in supports], options, size)

    def _aims_at(self, place: InjectionPoint) -> list[Aim]:
        if place not in self.early or (self.programs and place.who not in self.programs):
            return []
        return [Aim(place, fault) for fault in (AT_WRITE if place.is_write else AT_DELIVERY)]

    def _build_order(self) -> "Callable[[Aims], tuple[object, ...]]":
        """Something of everything first: one fault of each kind at each sort of place, before a second one; and what
        there is little of before what there is much of. Which one of a sort is first is as good as drawn."""
        sorts: dict[tuple[str, str, str], list[Aim]] = {}
        for aim in self.points:
            sorts.setdefault((aim.place.who, aim.place.what.rpartition("/")[0], aim.fault), []).append(aim)
        turns: dict[Aim, tuple[int, int]] = {}
        for aims in sorts.values():
            for turn, aim in enumerate(sorted(aims, key=_mixed)):
                turns[aim] = turn, len(aims)
        nowhere = len(self.points), 0
        return lambda aims: (
            *(sum(each) for each in zip(*(turns.get(aim, nowhere) for aim in aims), strict=True)),
            aims,
        )


def _mixed(aim: Aim) -> bytes:
    return blake2b(str(aim).encode(), digest_size=8).digest()


def _inject(seed: int, depth: int, jobs: int, programs: Sequence[str], runs: int, booted: Booted, send: Send) -> None:
    search = Search(programs)
    claims: list[Claim] = []
    number = 0

    def made(aims: Aims, sent: bytes | LostFork) -> bool:
        """Say what came of a run. True: go on."""
        nonlocal number
        number += 1
        seen = (
            _Seen(report_lost_fork(booted.scenario, seed, sent), [], [])
            if isinstance(sent, LostFork)
            else _decode_seen(sent)
        )
        if seen.result.is_passed:
            search.learn(aims, seen.outcomes, seen.early)
        send(encode(InjectionStep(number, list(aims), seen.result, len(search.supports))))
        return seen.result.is_passed

    (first,) = run_in_forks([partial(_run, booted, seed, (), None)], 1)
    if not made((), first):
        return
    begun = _decode_seen(first if isinstance(first, bytes) else b"")
    for size in range(1, depth + 1):
        left = 0
        points = dict(search.points)  # What comes with these runs can only be hit by one fault more.
        while todo := search.next(size, AT_ONCE, points):
            todo = todo[: runs - number]
            if not todo:
                left = len(search.next(size, RUNS_MAX, points))
                break
            works = [partial(_run, booted, seed, aims, begun.expected) for aims in todo]
            if not all(made(aims, sent) for aims, sent in zip(todo, run_in_forks(works, jobs), strict=True)):
                return
        injected = sum(len(aims) == size for aims in search.tried)
        claims.append(Claim(size, len(points), injected, left))
        if left:
            break
    send(encode(InjectionStep(number, [], begun.result, len(search.supports), claims)))


def _run(booted: Booted, seed: int, aims: Aims, expected: ExpectedState | None) -> bytes:
    planned = PlannedFaults(aims)
    if expected is not None:
        booted.expected = expected
    world = booted.world
    before = len(world.history.events)
    result = booted.go(seed, strategy=planned)
    if not result.is_passed:
        return encode(_Seen(result, [], []))
    assert world.journal is not None, "without a journal there is no lineage"
    lineage = Lineage(world.history.events[before:], world.journal.records(), planned)
    early = find_points(planned.deeds, planned.tellings)
    ended = (
        ExpectedState(booted.sim.run(read_end(world))) if not aims and isinstance(booted.stage, ComparedStage) else None
    )
    return encode(_Seen(result, lineage.outcomes(), early, ended))
