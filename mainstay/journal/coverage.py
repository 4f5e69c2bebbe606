"""Which revisions an answer rests on, and which are missing: plain functions over intervals, and the words for gaps.

An interval `(after, until)` is every revision after the first, up to and including the second.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mainstay.journal.files import Interval, merged


class GapReason(StrEnum):
    """Why revisions are not there. Shown to users: only add."""

    NOT_YET = "NotYet"
    """They have not been recorded, or have not happened. Ask again later."""
    BEFORE = "Before"
    """They are older than the retention, or than the journal."""
    MISSED = "Missed"
    """They were not recorded before the store compacted them, and are lost."""
    DAMAGED = "Damaged"
    """They were recorded, but the file is no longer readable. Restore a copy of it."""
    ABSENT = "Absent"
    """The file with them is missing. If it was moved away, put it back."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Revisions that an answer should rest on and does not: after one, up to and including another."""

    after: int
    until: int
    reason: GapReason

    def __str__(self) -> str:
        return f"revisions {self.after + 1} to {self.until} are missing ({self.reason})"


def holes(needed: Interval, covers: Iterable[Interval]) -> list[Interval]:
    """What is needed and not covered, in order."""
    after, until = needed
    result: list[Interval] = []
    for begins, ends in merged(covers):
        if ends <= after or begins >= until:
            continue
        if begins > after:
            result.append((after, begins))
        after = max(after, ends)
    if after < until:
        result.append((after, until))
    return result


def explained(
    holes: Sequence[Interval],
    recorded: Sequence[Interval],
    missed: Sequence[Interval],
    damaged: Sequence[Interval],
) -> tuple[Gap, ...]:
    """The holes as gaps with their reasons. `recorded` is all that the journal says it has."""
    return tuple(Gap(*hole, _reason(hole, recorded, missed, damaged)) for hole in holes)


def _reason(
    hole: Interval, recorded: Sequence[Interval], missed: Sequence[Interval], damaged: Sequence[Interval]
) -> GapReason:
    if _overlaps(hole, damaged):
        return GapReason.DAMAGED
    if _overlaps(hole, missed):
        return GapReason.MISSED
    if not recorded or hole[1] <= recorded[0][0]:
        return GapReason.BEFORE
    if hole[0] >= recorded[-1][1]:
        return GapReason.NOT_YET
    return GapReason.ABSENT


def _overlaps(hole: Interval, others: Sequence[Interval]) -> bool:
    return any(after < hole[1] and until > hole[0] for after, until in others)
