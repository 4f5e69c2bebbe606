"""The steps of a text's timeline, and how they are found in what a run has recorded.

A step has a matcher: a plain function of one fact and of the facts that were found for earlier steps. It returns in a
few words what happened, taken from the fact, or None. Steps are looked for in order, each after the one that was found
last, so a step that happened at another time than the text says is not found. A *forbidden* step is one that a sound
design never takes: it is kept if nothing matches from there to the end of the run.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from mainstay.sim.narration.facts import RunFact

Found = Mapping[str, RunFact]
"""The facts of earlier steps, by the names of these."""
Match = Callable[[RunFact, Found], str | None]


class BugPatcher(Protocol):
    """What plants a bug by replacing attributes: pytest's MonkeyPatch, or `AttributePatcher` (run/patcher.py)."""

    def setattr(self, target: str, name: object, /) -> None:
        """Replace what is at a dotted path."""


@dataclass(frozen=True, slots=True)
class NarratedStep:
    at: str
    """When the text says that it happens (`00:04`), or the number of the step; may be empty."""
    text: str
    """What is expected, in one line."""
    match: Match | None = None
    name: str = ""
    """By which later steps ask for what was found."""
    build_match: Callable[[], Match] | None = None
    """Instead of `match`: makes one for each run that remembers what it has seen."""
    is_forbidden: bool = False
    is_anytime: bool = False
    """It may also have happened before the step that was found last."""


@dataclass(frozen=True, slots=True)
class Narration:
    """A worked example: the steps that its text names, and the design that it warns of."""

    title: str
    requirement: str
    """Of the specification: `F7`."""
    steps: tuple[NarratedStep, ...]
    weak_design: Callable[[BugPatcher], None]
    """Plants the design that the text warns of."""
    weakness: str
    """And what that does, in one line."""
    seed: int | None = None
    """Of the run that is printed unless the user asks for another. None: the text itself, without any other fault."""


class NarratedFact(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What happened, for people and as JSON."""

    at_s: float
    """Virtual time since the run began."""
    who: str
    what: str
    object: str = ""
    generation: int = 0
    revision: int = 0
    """That was written, or delivered."""
    view: dict[str, int] = {}
    """Of a decision: up to which revision it knew each kind."""
    policies: list[str] = []


class StepOutcome(msgspec.Struct, frozen=True, rename="camel"):
    at: str
    expected: str
    is_forbidden: bool
    is_kept: bool
    """It has happened, or if it is forbidden, it has not."""
    happened: NarratedFact | None = None


class NarratedRun(msgspec.Struct, frozen=True, rename="camel"):
    """A run beside its text."""

    scenario: str
    title: str
    requirement: str
    seed: int | None
    """None: the text itself, without any other fault."""
    weak_design: str
    """What was planted, in words; empty if nothing was."""
    verdict: str
    problem: str
    steps: list[StepOutcome]

    def as_object(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


def follow_steps(steps: Sequence[NarratedStep], facts: Sequence[RunFact], began_ns: int) -> list[StepOutcome]:
    """Find each step in what a run has recorded."""
    found: dict[str, RunFact] = {}
    outcomes: list[StepOutcome] = []
    last = 0
    for step in steps:
        first = 0 if step.is_anytime else last
        place, what = _find(step, facts, first, found)
        if place is not None and not step.is_forbidden:
            last = max(last, place + 1)
            found[step.name] = facts[place]
        happened = None if place is None else _describe(facts[place], what, began_ns)
        is_kept = (place is None) == step.is_forbidden
        outcomes.append(StepOutcome(step.at, step.text, step.is_forbidden, is_kept, happened))
    return outcomes


def _find(step: NarratedStep, facts: Sequence[RunFact], first: int, found: Found) -> tuple[int | None, str]:
    match = step.match if step.build_match is None else step.build_match()
    assert match is not None, f"step {step.text!r} has no matcher"
    for place in range(first, len(facts)):
        what = match(facts[place], found)
        if what is not None:
            return place, what
    return None, ""


def _describe(fact: RunFact, what: str, began_ns: int) -> NarratedFact:
    return NarratedFact(
        at_s=round((fact.at_ns - began_ns) / 1e9, 3),
        who=fact.who,
        what=what,
        object=fact.subject,
        generation=fact.generation,
        revision=fact.revision,
        view=fact.view,
        policies=fact.policies,
    )
