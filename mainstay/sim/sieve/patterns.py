"""The plans of each pattern for one program, from what it wrote and was told in a run without faults.

A plan cannot matter if it hides something from the program that no decision of it has ever looked at. The journal knows
that of programs which record their decisions; of others every plan is tried.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from mainstay.sim.faults.old_state import BACK
from mainstay.sim.run.plans import Aim, DeliverySeen, WriteSeen

LATER: Final = 3  # Changes that it was told of since it has acted.


class SievePattern(StrEnum):
    """Shown to users: only add."""

    INTERMEDIATE = "intermediate"
    """It crashes after one of its writes, and is started again."""
    UNOBSERVED = "unobserved"
    """It is not told of a state until there is another."""
    STALE = "stale"
    """It is started again on a state of the past, and catches up later."""


class ReferenceRun(msgspec.Struct, frozen=True):
    """What a program did and saw in the run without faults."""

    deeds: list[WriteSeen]
    tellings: list[DeliverySeen]
    """What it was told before all was healed."""
    last: dict[str, int]
    """By key: the last revision in the run, before all was healed."""
    reads: list[tuple[str, int]] | None
    """What its decisions have looked at; None: unknown."""


class FaultPlan(msgspec.Struct, frozen=True):
    pattern: SievePattern
    aim: Aim

    def __str__(self) -> str:
        return f"{self.pattern}: {self.aim}"


def make_plans(pattern: SievePattern, reference: ReferenceRun, program: str) -> tuple[list[FaultPlan], int]:
    """The plans, and how many others cannot matter."""
    deeds = [
        deed for deed in reference.deeds if deed.place.who == program and not deed.is_late and not deed.is_heartbeat
    ]
    match pattern:
        case SievePattern.INTERMEDIATE:
            return [FaultPlan(pattern, Aim(deed.place, "crash-after")) for deed in deeds], 0
        case SievePattern.UNOBSERVED:
            return _unobserved(reference, _tellings(reference, program))
        case SievePattern.STALE:
            return _stale(reference, _tellings(reference, program), deeds)


def _tellings(reference: ReferenceRun, program: str) -> list[DeliverySeen]:
    """Each change once, in the order in which it was told."""
    found: dict[tuple[str, int], DeliverySeen] = {}
    for telling in reference.tellings:
        if telling.who == program and not telling.is_late:
            found.setdefault((telling.key, telling.revision), telling)
    return list(found.values())


def _unobserved(reference: ReferenceRun, tellings: Sequence[DeliverySeen]) -> tuple[list[FaultPlan], int]:
    between = [each for each in tellings if reference.last.get(each.key, 0) > each.revision]
    read = _read(reference)
    chosen = [each for each in between if read is None or (each.key, each.revision) in read]
    return [FaultPlan(SievePattern.UNOBSERVED, Aim(each.place, "unseen")) for each in chosen], len(between) - len(
        chosen
    )


def _stale(
    reference: ReferenceRun, tellings: Sequence[DeliverySeen], deeds: Sequence[WriteSeen]
) -> tuple[list[FaultPlan], int]:
    """It is started again on a state before something that it has acted on: right after it has, or a little later."""
    read = _read(reference)
    numbers = [telling.number for telling in tellings]
    found: dict[FaultPlan, bool] = {}
    for deed in deeds:
        first = bisect_left(numbers, deed.number)  # What it is told next.
        for place in (first, first + LATER):
            if not 0 < first <= place < len(tellings):
                continue
            number = bisect_left(BACK, place - first + 1)
            if number == len(BACK):
                continue
            hidden = tellings[max(place - BACK[number], 0) : place]
            is_read = read is None or any((each.key, each.revision) in read for each in hidden)
            found.setdefault(FaultPlan(SievePattern.STALE, Aim(tellings[place].place, "old-state", number)), is_read)
    plans = [plan for plan, is_read in found.items() if is_read]
    return plans, len(found) - len(plans)


def _read(reference: ReferenceRun) -> Mapping[tuple[str, int], None] | None:
    return None if reference.reads is None else dict.fromkeys(reference.reads)
