"""The choices of a run, put together to what a person would take away or leave: a fault that strikes, or a turn of the
work.

A fault is several choices: that it happens (`fault/crash`, `fault/answer-lost/PROGRAM`), and how, each under a label of
its own (`fault/crash/who`, `fault/crash/duration`). The latter are numbered by strike. So to take away the second of
three crashes is to take away all its choices and to count the third as the second; otherwise the third would hit whom
the second has hit. That is what a `Unit` is for: take some away, and `make_tape` the rest is the tape.

That a fault is on at all needs no choice on a tape that has others of it (faults/schedule.py).
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec

from mainstay.sim.run.choices import Choice, Tape

FAULT: Final = "fault"
STRATEGY: Final = "strategy"
IS_ON: Final = "/is-on"
PAUSE: Final = "work/pause"


class Unit(msgspec.Struct, frozen=True):
    choices: tuple[Choice, ...]
    """That it happens, and how. Benign ones are there as well, if they say how."""
    is_strike: bool = False
    """It is a fault that happens."""

    @property
    def first(self) -> Choice:
        return self.choices[0]

    @property
    def group(self) -> str:
        """What it is one of many of: a fault by its name, anything else by its label."""
        return "/".join(self.first.label.split("/", 2)[:2])

    @property
    def is_about_time(self) -> bool:
        """It says how long a user waits before the next turn."""
        return self.first.label.startswith(PAUSE)

    @property
    def weight(self) -> int:
        """How many choices of it are not benign."""
        return sum(1 for choice in self.choices if choice.chosen)

    def with_chosen(self, place: int, chosen: int) -> "Unit":
        """The same, with another choice at one place."""
        old = self.choices[place]
        changed = Choice(old.label, old.ordinal, old.options, chosen)
        return Unit((*self.choices[:place], changed, *self.choices[place + 1 :]), self.is_strike)

    def moved(self, by: int) -> "Unit":
        """The same at another of its opportunities: so many earlier or later."""
        old = self.first
        moved = Choice(old.label, max(0, old.ordinal + by), old.options, old.chosen)
        return Unit((moved, *self.choices[1:]), self.is_strike)

    def plainly(self) -> "Unit":
        """The same fault in its mildest form."""
        mild = (Choice(each.label, each.ordinal, each.options, 0) for each in self.choices[1:])
        return Unit((self.first, *mild), self.is_strike)


def group_choices(tape: Iterable[Choice], programs: Collection[str]) -> list[Unit]:
    """All that was not benign in a run, in order. `tape` has all its choices, `programs` are those of its world."""
    found: list[tuple[list[Choice], bool]] = []
    latest: dict[str, list[Choice]] = {}
    for choice in tape:
        kind, name, more = (*choice.label.split("/", 2), "", "")[:3]
        if kind == FAULT and choice.label.endswith(IS_ON):
            continue
        if kind not in (FAULT, STRATEGY):
            if choice.chosen:
                found.append(([choice], False))
            continue
        of = f"{kind}/{name}"
        if not more or more in programs:
            if choice.chosen:
                latest[of] = [choice]
                found.append((latest[of], kind == FAULT))
        elif of in latest:
            latest[of].append(choice)
        elif choice.chosen:
            found.append(([choice], kind == FAULT))
    return [Unit(tuple(choices), is_strike) for choices, is_strike in found]


def make_tape(units: Sequence[Unit]) -> Tape:
    """A tape that says this and nothing else."""
    counts: dict[str, int] = {}
    choices = []
    for unit in units:
        choices.append(unit.first)
        for choice in unit.choices[1:]:
            number = counts.get(choice.label, 0)
            counts[choice.label] = number + 1
            choices.append(Choice(choice.label, number, choice.options, choice.chosen))
    return Tape(choice for choice in choices if choice.chosen)


def weigh(units: Iterable[Unit]) -> int:
    """How many choices are not benign."""
    return sum(unit.weight for unit in units)
