"""A narrated run as text, in two columns: what the text tells, and what happened.

✓  00:02 the answer is lost            +00:07.000 scheduler
                                       POST /api/v1/bindings: 200, and the answer is lost
"""

import textwrap
from collections.abc import Iterator
from typing import Final

from mainstay.sim.narration.problem import format_time
from mainstay.sim.narration.steps import NarratedRun, StepOutcome

WIDTH: Final = 100
_LEFT: Final = 41
"""Of the mark, the time and what is expected."""
_GAP: Final = "  "
_RIGHT: Final = WIDTH - _LEFT - len(_GAP)
_INDENT: Final = " " * 9
KEPT, BROKEN = "✓", "✗"
_VIEW_KINDS_MAX: Final = 5
_WORDS_MAX: Final = 220
"""Characters of what happened. JSON has all of it."""


def render_narration(run: NarratedRun) -> str:
    """All of it, at most `WIDTH` columns wide."""
    return "\n".join(_lines(run))


def _lines(run: NarratedRun) -> Iterator[str]:
    how = "as in the text" if run.seed is None else f"seed {run.seed}"
    yield from _wrap(f"{run.scenario}: {run.title} ({run.requirement}), {how}")
    if run.weak_design:
        yield from _wrap(f"planted weak design: {run.weak_design}")
    yield ""
    yield _join(f"   {'expected':<{_LEFT - 3}}", "what happened (virtual time, who, object, versions)")
    for step in run.steps:
        yield from _columns(step)
    yield ""
    yield from _wrap(_describe_verdict(run))


def _columns(step: StepOutcome) -> Iterator[str]:
    words = f"never: {step.expected}" if step.is_forbidden else step.expected
    left = textwrap.wrap(words, _LEFT - len(_INDENT)) or [""]
    first = f"{KEPT if step.is_kept else BROKEN}  {step.at:<6}{left[0]}"
    lefts = [first, *(f"{_INDENT}{line}" for line in left[1:])]
    rights = _describe_happened(step)
    for number in range(max(len(lefts), len(rights))):
        yield _join(*(each[number] if number < len(each) else "" for each in (lefts, rights)))


def _describe_happened(step: StepOutcome) -> list[str]:
    if step.happened is None:
        return ["did not happen"]
    fact = step.happened
    head = f"{format_time(fact.at_s)} {', '.join(part for part in (fact.who, fact.object) if part)}"
    lines = [*_fill(head), *_fill(textwrap.shorten(fact.what, _WORDS_MAX, placeholder=" …"))]
    versions = [f"generation {fact.generation}"] if fact.generation else []
    versions += [f"revision {fact.revision}"] if fact.revision else []
    versions += [f"policy {each}" for each in fact.policies]
    if fact.view:
        versions.append(f"saw {', '.join(f'{kind}@{seen}' for kind, seen in _shorten(fact.view).items())}")
    return [*lines, *_fill("; ".join(versions))]


def _fill(text: str) -> list[str]:
    return textwrap.wrap(text, _RIGHT, break_on_hyphens=False)


def _shorten(view: dict[str, int]) -> dict[str, int]:
    """The kinds without their groups. Of a view of many kinds, the first few."""
    return {kind.partition(".")[0]: seen for kind, seen in list(view.items())[:_VIEW_KINDS_MAX]}


def _describe_verdict(run: NarratedRun) -> str:
    missing = sum(not step.is_kept for step in run.steps)
    steps = f"{len(run.steps) - missing} of {len(run.steps)} steps as in the text"
    if run.problem:
        return f"verdict: {run.verdict}, {steps}: {run.problem}"
    return f"verdict: {run.verdict}, {steps}; every promise held"


def _join(left: str, right: str) -> str:
    return f"{left:<{_LEFT}}{_GAP}{right}".rstrip()


def _wrap(text: str) -> list[str]:
    return [wrapped for line in text.splitlines() for wrapped in textwrap.wrap(line, WIDTH) or [""]]
