"""What is said about a run that has not passed: in short when many runs are made, at length when one is repeated.

report_short      the problem, what was drawn, what the scenario says, how to run it again, where its bundle is
report_long       that, the story of the objects concerned, where it parts from the nearest passing run, and what
                  all tasks were waiting for
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

import msgspec

from mainstay.api.kinds import BUILTIN
from mainstay.env import tasks
from mainstay.explain.moment import Moment, NoSuchMoment
from mainstay.explain.why.answer import Verdict
from mainstay.explain.why.dispatch import why
from mainstay.explain.why.text import render_answer
from mainstay.journal.keys import parse_kind, parse_object_key
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.registry import REGISTRY
from mainstay.sim.cluster.history import FaultInjected
from mainstay.sim.failure.choice_units import FAULT, Unit
from mainstay.sim.failure.divergence import compare_runs, difference
from mainstay.sim.failure.nearest_pass import NearestPass, find_nearest_pass
from mainstay.sim.failure.rerun import repeat_run
from mainstay.sim.failure.story import tell_story
from mainstay.sim.failure.subjects import find_subjects
from mainstay.sim.faults import DURATIONS
from mainstay.sim.faults.schedule import ALL
from mainstay.sim.loop.trace import Choice
from mainstay.sim.run.bundle import RunBundle
from mainstay.sim.run.run import Booted, RunResult

NAMES: Final = ("this run", "passing run")
FAULTS_MAX: Final = 40
EXPLAINED_MAX: Final = 2
"""Of so many objects the journal is asked why they are as they are."""


def report_short(result: RunResult, again: str, bundle: str = "") -> list[str]:
    """What one wants to know at once of a run that has not passed."""
    lines = [
        f"{result.scenario} seed {result.seed}: {result.verdict}",
        f"  {result.problem}".replace("\n", "\n  "),
    ]
    lines += [f"  setup: {result.drawn}"] if result.drawn else []
    lines += [f"  notes: {result.told}"] if result.told else []
    lines.append(f"  repeat with: {again}")
    if bundle:
        lines.append(f"  bundle: {bundle}")
        lines.append(f"  story and waiting tasks: mainstay sim replay {bundle} --story")
        lines.append(f"  more: mainstay sim shrink | diff | serve {bundle}")
    elif not result.trace:
        lines.append("  no bundle: the process of the run died, and its choices with it")
    return lines


class RunReport(msgspec.Struct, frozen=True):
    """What a run tells of itself, from inside."""

    result: RunResult
    objects: list[str]
    """The keys of those that the failure is about."""
    story: list[str]
    faults: list[str]
    """What went wrong, in order."""
    why: list[str]
    """What the journal says of the objects, if there is one."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(RunReport).decode


def make_report(bundle: RunBundle, *, journal: bool | None = None) -> RunReport:
    """Make the run again and let it tell. Raises as `repeat_run` does."""
    (sent,) = repeat_run(bundle, _look, journal=journal)
    return _decode(sent)


def _look(booted: Booted, result: RunResult) -> bytes:
    events = booted.world.history.events
    keys = find_subjects(events, booted.error, result.problem)
    faults = [
        f"{event.at_ns / 1e9:11.6f}  {event.what}"
        for event in events
        if isinstance(event, FaultInjected) and not event.what.startswith("over: ")
    ]
    journal = booted.world.journal
    explained = [] if journal is None else tasks.run(_why(journal, keys))
    return _encode(RunReport(result, keys, tell_story(events, keys), faults, explained))


async def _why(journal: MemoryJournal, keys: Sequence[str]) -> list[str]:
    lines: list[str] = []
    for key in keys[:EXPLAINED_MAX]:
        plural, _, group = parse_kind(key).partition(".")
        kind = next((each for each in BUILTIN if (each.group, each.plural) == (group, plural)), None)
        if kind is None:
            continue
        named = parse_object_key(key)
        try:
            answer = await why(await Moment.now(journal), REGISTRY, kind.reference, named.name, named.namespace)
        except NoSuchMoment:
            continue
        if answer.verdict is Verdict.SATISFIED:
            continue  # As far as the journal knows, nothing is wrong with it.
        lines += [f"why {parse_kind(key)}/{named.name}?", *(f"  {line}" for line in render_answer(answer).splitlines())]
    return lines


def report_long(
    bundle: RunBundle, again: str, *, jobs: int = 1, within: timedelta = timedelta(seconds=20)
) -> list[str]:
    """All that there is to say. Raises as `repeat_run` does."""
    plain = make_report(bundle)
    result = plain.result
    with_journal = plain if bundle.has_journal else make_report(bundle, journal=True)
    lines = report_short(result, again)
    if result.is_passed:
        return lines
    lines += ["", *_titled("injected faults", _bounded(plain.faults)), ""]
    title = f"story of {', '.join(plain.objects)}" if plain.objects else "the problem names no object"
    lines += [*_titled(title, plain.story), ""]
    if with_journal.result.problem == result.problem:
        lines += [*_titled("explanation from the journal", with_journal.why), ""] if with_journal.why else []
    else:
        lines += ["recording a journal changes this run, so there is no explanation from it", ""]
    lines += [*divergence(bundle, find_nearest_pass(bundle, jobs=jobs, within=within), jobs=jobs), ""]
    return [*lines, *_titled("waiting tasks", _merged(result.waiting.splitlines()))]


def divergence(bundle: RunBundle, passing: NearestPass | None, *, jobs: int = 1) -> list[str]:
    """Where a run parts from the nearest one that passes."""
    if passing is None:
        return ["no similar run passes: this one may fail regardless of its choices"]
    taken = [f"  {line}" for unit in passing.taken for line in describe_unit(unit)]
    this, other = compare_runs(bundle, [bundle.the_tape(), passing.tape], jobs=jobs)
    return [
        f"the nearest passing run is the same one without {'this' if len(passing.taken) == 1 else 'these'}:",
        *taken,
        *difference(this, other, NAMES),
    ]


def describe_unit(unit: Unit) -> Iterator[str]:
    """What was chosen, in words: one line, and one for each choice that says how."""
    first = unit.first
    kind, _, rest = first.label.partition("/")
    name, _, whose = rest.partition("/")
    nth = f"{first.label}, {_nth(first.ordinal + 1)} time"
    if kind == FAULT and name in ALL and unit.is_strike:
        to = f" ({whose})" if whose else ""
        yield f"{ALL[name].about}{to}: {nth}"
    else:
        yield f"{nth}: {_chosen(first)}"
    for choice in unit.choices[1:]:
        if choice.chosen:
            yield f"  {choice.label.rpartition('/')[2]}: {_chosen(choice)}"


def _chosen(choice: Choice) -> str:
    if choice.label.startswith(f"{FAULT}/") and choice.label.endswith("/duration") and choice.options == len(DURATIONS):
        return f"{DURATIONS[choice.chosen].total_seconds():g} s"
    return f"option {choice.chosen} of 0 to {choice.options - 1}"


def _nth(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"the {number}{ending}"


def _titled(title: str, lines: Sequence[str]) -> list[str]:
    return [f"{title}:", *(f"  {line}" for line in lines)]


def _merged(lines: Sequence[str]) -> list[str]:
    """Each once, with how many there are."""
    counts: dict[str, int] = {}
    for line in lines:
        counts[line] = counts.get(line, 0) + 1
    return [line if count == 1 else f"{line} ({count} times)" for line, count in counts.items()]


def _bounded(lines: Sequence[str]) -> list[str]:
    if len(lines) <= FAULTS_MAX:
        return list(lines) or ["nothing"]
    return [f"… {len(lines) - FAULTS_MAX} more before …", *lines[-FAULTS_MAX:]]
