"""Whether several writers set the same field of an object to different values, in turn."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from mainstay.explain.fields import path_text, shown
from mainstay.explain.writers import Version

FLIPS_MIN: Final = 3
WITHIN: Final = timedelta(minutes=10)
"""Between two flips that belong together, and since the last one."""


@dataclass(frozen=True, slots=True)
class Fight:
    field: str
    writers: tuple[str, ...]
    values: tuple[str, ...]
    flips: int
    last: Version


def fight_over(versions: Sequence[Version], now: datetime) -> Fight | None:
    """The field of a spec that is set back and forth by at least two writers, if it still goes on."""
    turns: dict[str, list[tuple[str, str, Version]]] = {}
    for version in versions:
        if version.before is None or version.after is None:
            continue
        for change in version.changes:
            if change.path[:1] == ("spec",):
                who = version.who.user or version.who.name
                turns.setdefault(path_text(change.path), []).append((who, shown(change.after), version))
    best: Fight | None = None
    for field, found in turns.items():
        streak = _streak(found)
        if len(streak) < FLIPS_MIN or now - streak[-1][2].at > WITHIN:
            continue
        writers = tuple(dict.fromkeys(who for who, _, _ in streak))
        values = tuple(dict.fromkeys(value for _, value, _ in streak))
        if len(writers) > 1 and len(values) < len(streak) and (best is None or len(streak) > best.flips):
            best = Fight(field, writers, values, len(streak), streak[-1][2])
    return best


def _streak(found: Sequence[tuple[str, str, Version]]) -> list[tuple[str, str, Version]]:
    """The last changes of a field in which each was made by another writer than the one before, soon after it."""
    streak: list[tuple[str, str, Version]] = []
    for each in reversed(found):
        if streak and (each[0] == streak[-1][0] or streak[-1][2].at - each[2].at > WITHIN):
            break
        streak.append(each)
    return streak[::-1]
