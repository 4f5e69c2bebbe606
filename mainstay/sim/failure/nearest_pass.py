"""The passing run that is nearest to one that fails: the same tape without a few choices.

Looked for from the end, because what came last before a failure is most likely to be of interest: without one of the
faults, the latest first; then without one of the other choices; then without the last two, four, and so on of all.
From what was taken away, as much as possible is put back. What remains is something without which all would have been
well: not the only such thing, and perhaps not the least.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final

import msgspec

from mainstay.env.processes import Send
from mainstay.sim.failure.choice_units import Unit, make_tape
from mainstay.sim.failure.rerun import NotRepeatable
from mainstay.sim.failure.trial_runs import OutOfTime, TrialRuns
from mainstay.sim.run.bundle import RunBundle
from mainstay.sim.run.choices import Choice, Tape
from mainstay.sim.run.forks import LostFork, encode, from_booted
from mainstay.sim.run.run import Booted

WITHIN: Final = timedelta(seconds=20)
SINGLE_MAX: Final = 24
"""So many are tried one by one."""


@dataclass(frozen=True, slots=True)
class NearestPass:
    tape: Tape
    """Of the run that passes."""
    taken: tuple[Unit, ...]
    """What it is without, in order."""


class _Sent(msgspec.Struct, frozen=True):
    tape: list[Choice] | None
    taken: list[Unit]


_decode = msgspec.msgpack.Decoder(_Sent).decode


def find_nearest_pass(bundle: RunBundle, *, jobs: int = 1, within: timedelta = WITHIN) -> NearestPass | None:
    """None: nothing that was tried passes. It fails by itself, then, or there was not enough time.

    Raises as `remade` does (rerun.py).
    """
    work = partial(_look_for, bundle, jobs, within)
    for sent in from_booted(bundle.the_scenario(), work, bundle.patch(), journal=bundle.has_journal):
        if isinstance(sent, LostFork):
            raise NotRepeatable(f"the process of the run died: {sent.how}")
        found = _decode(sent)
        return None if found.tape is None else NearestPass(Tape(found.tape), tuple(found.taken))
    raise NotRepeatable("the process of the run ended without a result")


def _look_for(bundle: RunBundle, jobs: int, within: timedelta, booted: Booted, send: Send) -> None:
    tries = TrialRuns(booted, bundle.seed, lambda result: result.is_passed, jobs=jobs, within=within)
    first = tries.run(bundle.the_tape())
    if first is None or not first.units:
        send(encode(_Sent(None, [])))
        return
    units = first.units
    taken: list[int] | None = None
    with contextlib.suppress(OutOfTime):
        candidates = _candidates(units)
        found = tries.first([_without(units, places) for places in candidates])
        if found is not None:
            taken = candidates[found[0]]
            taken = _fewer(tries, units, taken)
    if taken is None:
        send(encode(_Sent(None, [])))
    else:
        send(encode(_Sent(make_tape(_without(units, taken)).choices, [units[place] for place in taken])))


def _candidates(units: Sequence[Unit]) -> list[list[int]]:
    """What to take away: places in `units`."""
    latest = range(len(units) - 1, -1, -1)
    faults = [place for place in latest if units[place].is_strike]
    others = [place for place in latest if not units[place].is_strike]
    single = [[place] for place in [*faults[:SINGLE_MAX], *others[:SINGLE_MAX]]]
    several = [sorted(faults)] if len(faults) > 1 else []
    count = 2
    while count < len(units):
        several.append(list(range(len(units) - count, len(units))))
        count *= 2
    return [*single, *several, list(range(len(units)))]


def _fewer(tries: TrialRuns, units: Sequence[Unit], taken: list[int]) -> list[int]:
    """Put back what need not be taken away."""
    size = len(taken) // 2
    while size:
        parts = [taken[:begin] + taken[begin + size :] for begin in range(0, len(taken), size)]
        try:
            found = tries.first([_without(units, places) for places in parts])
        except OutOfTime:
            return taken
        if found is None:
            size //= 2
        else:
            taken = parts[found[0]]
            size = min(size, len(taken) // 2)
    return taken


def _without(units: Sequence[Unit], places: Sequence[int]) -> list[Unit]:
    gone = frozenset(places)
    return [unit for place, unit in enumerate(units) if place not in gone]
