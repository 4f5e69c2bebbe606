"""Make a failing run small: take away choices for as long as it still fails in the same way.

A run fails in the same way if it has the same verdict by the same checker; of what raised an error, at the same place.
Everything that was not benign is tried without, the most at once first:

    all of it, all faults, all work     then all of one fault, or one sort of work
    halves, quarters, …, single ones    the latest first: what comes before stays as it was
    how                                 a fault in its mildest form, then each of its choices; smaller numbers
    little work                         all faults, and the beginning of the work, its end, or every n-th part of it
    when                                the same fault a little earlier or later, if less is needed then

Of a run that has ended otherwise than it should, only faults are taken away: with other work it would end otherwise
without any.

What still fails is the new beginning: what that run itself has chosen, so what was not asked for any more is gone at
once. Each try is a fork of one booted process, several at a time; which one is taken does not depend on how many. The
only thing that depends on the machine is how far it gets within its time.
"""

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final

import msgspec

from mainstay.env.processes import Send
from mainstay.sim.cluster.final_state import FINAL_STATE
from mainstay.sim.errors import SimulationError
from mainstay.sim.failure.choice_units import Unit, make_tape, weigh
from mainstay.sim.failure.trial_runs import OutOfTime, TrialRun, TrialRuns
from mainstay.sim.run.bundle import RunBundle
from mainstay.sim.run.choices import Choice
from mainstay.sim.run.forks import LostFork, encode, from_booted
from mainstay.sim.run.run import Booted, RunResult, RunVerdict

WITHIN: Final = timedelta(seconds=60)
MANY: Final = 40
"""Of more than this, it is worth a try whether one sort of fault alone is enough."""
FEW: Final = 5
NEAR: Final = (-1, 1, -2, 2, -3, 3)
STRIKES_MOVED_MAX: Final = 3
MOVES: Final = tuple(by for size in range(1, 9) for by in (-size, size))
LATER_NS: Final = 30_000_000_000
"""A run that is past the moment at which the last one failed by this much, in virtual time, is given up."""


class DoesNotFail(SimulationError):
    """The run of the bundle has passed, or is not here what it was: nothing can be shrunk. Says what it came to."""


class ShrinkStep(msgspec.Struct, frozen=True):
    """How far it has come."""

    runs: int
    """So many runs were made."""
    choices: int
    """So many choices are left."""
    faults: int
    """So many faults are left."""


@dataclass(frozen=True, slots=True)
class Shrunk:
    bundle: RunBundle
    """Of the small run."""
    units: tuple[Unit, ...]
    """What is left, in order."""
    before: int
    """How many choices there were."""
    runs: int
    is_done: bool
    """False: there was no more time. It could perhaps be smaller."""

    @property
    def after(self) -> int:
        """How many choices are left."""
        return weigh(self.units)


class _Done(msgspec.Struct, frozen=True, tag=True):
    result: RunResult
    tape: list[Choice]
    units: list[Unit]
    before: int
    runs: int
    is_done: bool


class _Step(msgspec.Struct, frozen=True, tag=True):
    step: ShrinkStep


class _Refused(msgspec.Struct, frozen=True, tag=True):
    result: RunResult


_decode_sent = msgspec.msgpack.Decoder(_Done | _Step | _Refused).decode


def find_symptom(result: RunResult) -> tuple[RunVerdict, str]:
    """By what a failure is known again when the run is another: the checker, or where an error was raised."""
    first, *more = result.problem.splitlines() or [""]
    if result.verdict is RunVerdict.FAILED and more:
        return result.verdict, re.sub(r":\d+ ", " ", more[-1].strip())
    return result.verdict, re.sub(r"\d+", "", first.partition(":")[0])


def shrink(
    bundle: RunBundle, *, jobs: int = 1, within: timedelta = WITHIN, say: Callable[[ShrinkStep], None] = lambda _: None
) -> Shrunk:
    """Make a run small. Raises `DoesNotFail`, and what finding its scenario raises (finding.py)."""
    if bundle.result.is_passed:
        raise DoesNotFail("nothing to shrink: the run of this bundle passed")
    scenario, patch = bundle.the_scenario(), bundle.patch()
    work = partial(_shrink, bundle, jobs, within)
    for sent in from_booted(scenario, work, patch, journal=bundle.has_journal):
        if isinstance(sent, LostFork):
            raise SimulationError(f"the shrinking process died: {sent.how}")
        match _decode_sent(sent):
            case _Step(step):
                say(step)
            case _Refused(result):
                said = f"{result.verdict}: {result.problem}" if result.problem else result.verdict
                raise DoesNotFail(f"the run does not repeat here: {said}")
            case _Done() as done:
                here = RunBundle.of(done.result, scenario=bundle.scenario)
                small = msgspec.structs.replace(
                    bundle, result=done.result, tape=done.tape, build=here.build, python=here.python
                )
                return Shrunk(small, tuple(done.units), done.before, done.runs, done.is_done)
    raise SimulationError("the shrinking process ended without a result")


def _shrink(bundle: RunBundle, jobs: int, within: timedelta, booted: Booted, send: Send) -> None:
    symptom = find_symptom(bundle.result)
    tries = TrialRuns(booted, bundle.seed, lambda result: find_symptom(result) == symptom, jobs=jobs, within=within)
    first = tries.run(bundle.the_tape())
    if first is None or find_symptom(first.result) != symptom:
        send(encode(_Refused(bundle.result if first is None else first.result)))
        return
    keeps_work = symptom == (RunVerdict.VIOLATED, FINAL_STATE)
    small = _Shrinking(tries, first, lambda step: send(encode(_Step(step))), keeps_work=keeps_work)
    with contextlib.suppress(OutOfTime):
        small.all_ways()
    tape = make_tape(small.units)
    last = tries.run(tape)
    assert last is not None
    assert find_symptom(last.result) == symptom  # The same tape is the same run.
    send(encode(_Done(last.result, tape.choices, last.units, weigh(first.units), tries.runs, tries.has_time)))


class _Shrinking:
    """What is left so far, and the ways to make it less."""

    def __init__(
        self, tries: TrialRuns, first: TrialRun, say: Callable[[ShrinkStep], None], *, keeps_work: bool
    ) -> None:
        self._tries = tries
        self._say = say
        self._keeps_work = keeps_work
        self._go_on_with(first)

    def all_ways(self) -> None:
        self._whole()
        self._groups()
        # Faults first, and when something is done last: whatever else goes, the others still meet each other.
        self._chunks(lambda unit: unit.is_strike)
        if len(self.units) > MANY:
            self._little_work()
            self._moved()
        self._plainly()
        self._chunks(lambda unit: not unit.is_about_time)
        self._moved()
        self._chunks(lambda unit: unit.is_about_time)
        while True:
            before = self._size()
            self._plainly()
            self._smaller()
            self._chunks(lambda _: True)
            self._one_less_and_another_moved()
            if self._size() == before:
                return

    # The ways.

    def _whole(self) -> None:
        strikes = [unit for unit in self.units if unit.is_strike]
        others = [unit for unit in self.units if not unit.is_strike]
        if self._take([[], [unit.plainly() for unit in strikes], strikes, others]) is None and len(self.units) > MANY:
            groups = dict.fromkeys(unit.group for unit in strikes)
            self._take([[unit for unit in strikes if unit.group == group] for group in groups])

    def _groups(self) -> None:
        groups: dict[str, int] = {}
        for unit in self.units:
            groups[unit.group] = groups.get(unit.group, 0) + 1
        left = sorted(groups, key=lambda group: (-groups[group], group))
        while left:
            taken = self._take([[unit for unit in self.units if unit.group != group] for group in left])
            if taken is None:
                return
            left = left[taken + 1 :]

    def _chunks(self, is_meant: Callable[[Unit], bool]) -> None:
        """Halves of those that are meant, then quarters, and so on; the latest first."""
        size = max(1, sum(map(is_meant, self.units)) // 2)
        while True:
            has_changed = False
            end = sum(map(is_meant, self.units))
            while end > 0:
                ends = range(end, 0, -size)
                taken = self._take([self._without(is_meant, max(0, each - size), each) for each in ends])
                if taken is None:
                    break
                has_changed = True
                end = min(max(0, ends[taken] - size), sum(map(is_meant, self.units)))
            if size > 1:
                size //= 2
            elif not has_changed:
                return

    def _without(self, is_meant: Callable[[Unit], bool], begin: int, end: int) -> list[Unit]:
        """What is left without these of those that are meant."""
        places = [place for place, unit in enumerate(self.units) if is_meant(unit)][begin:end]
        return [unit for place, unit in enumerate(self.units) if place not in places]

    def _little_work(self) -> None:
        """All faults, and of the work only the beginning, or the end, or every n-th choice."""
        work = [place for place, unit in enumerate(self.units) if not unit.is_strike]
        sizes = [size for size in (1, 2, 4, 8, 16, 32) if size < len(work)]
        some = [kept for size in sizes for kept in (work[:size], work[-size:])]
        some += [work[begin::step] for step in (16, 8, 4) for begin in range(4) if step < len(work)]
        self._take([self._with_faults(kept) for kept in sorted(some, key=len)])

    def _with_faults(self, work: Sequence[int]) -> list[Unit]:
        return [unit for place, unit in enumerate(self.units) if unit.is_strike or place in work]

    def _moved(self) -> None:
        """Less work, and the same faults earlier or later: with less work, what they must meet is elsewhere."""
        strikes = [unit for unit in self.units if unit.is_strike]
        if not strikes or len(strikes) == len(self.units) or len(strikes) > STRIKES_MOVED_MAX:
            return
        work = [unit for unit in self.units if not unit.is_strike]
        timeless = [unit for unit in work if not unit.is_about_time]
        for rest in (timeless if len(timeless) <= MANY else [], timeless[:4], timeless[:1], []):
            if len(rest) < len(work):
                self._take([[*rest, *(unit.moved(by) for unit in strikes)] for by in MOVES])

    def _one_less_and_another_moved(self) -> None:
        """A fault may be left only because without it what another one must meet comes a little earlier or later."""
        while 1 < len(self.units) <= FEW:
            places = range(len(self.units))
            taken = self._take(
                [
                    [
                        unit.moved(by) if place == moving else unit
                        for place, unit in enumerate(self.units)
                        if place != gone
                    ]
                    for by in NEAR
                    for gone in reversed(places)
                    for moving in places
                    if moving != gone and self.units[moving].is_strike
                ]
            )
            if taken is None:
                return

    def _plainly(self) -> None:
        """Faults in their mildest form: all of them, then each."""
        self._take([[unit.plainly() for unit in self.units]])
        self._each(lambda unit: [unit.plainly()])

    def _smaller(self) -> None:
        """Each single choice: none of it, or less of it."""
        self._each(lambda unit: list(_smaller_ones(unit)))

    def _each(self, find_others: Callable[[Unit], list[Unit]]) -> None:
        done = 0
        while True:
            candidates, places = [], []
            for place in range(done, len(self.units)):
                for other in find_others(self.units[place]):
                    candidates.append([*self.units[:place], other, *self.units[place + 1 :]])
                    places.append(place)
            taken = self._take(candidates)
            if taken is None:
                return
            done = places[taken]

    # What they use.

    def _take(self, candidates: list[list[Unit]]) -> int | None:
        """Go on with the first of these that still fails. Says which it was."""
        places = [place for place, units in enumerate(candidates) if not self._keeps_work or self._has_all_work(units)]
        found = self._tries.first([candidates[place] for place in places])
        if found is None:
            return None
        number, still = found
        self._go_on_with(still)
        faults = sum(1 for unit in self.units if unit.is_strike)
        self._say(ShrinkStep(self._tries.runs, weigh(self.units), faults))
        return places[number]

    def _has_all_work(self, units: Sequence[Unit]) -> bool:
        return _select_work(units) == _select_work(self.units)

    def _go_on_with(self, tried: TrialRun) -> None:
        self.units = tried.units
        self._tries.until_ns = int(tried.result.virtual_s * 1e9) + LATER_NS

    def _size(self) -> tuple[int, int]:
        return weigh(self.units), sum(choice.chosen for unit in self.units for choice in unit.choices)


def _select_work(units: Sequence[Unit]) -> list[Unit]:
    return [unit for unit in units if not unit.is_strike]


def _smaller_ones(unit: Unit) -> Iterator[Unit]:
    for place, choice in enumerate(unit.choices):
        least = 0 if place else 1  # Without its first choice it would not be there at all.
        for chosen in dict.fromkeys((least, choice.chosen // 2, choice.chosen - 1)):
            if least <= chosen < choice.chosen:
                yield unit.with_chosen(place, chosen)
