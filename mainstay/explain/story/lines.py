"""A story: what happened to an object and to those it depends on, line by line, as values.

Lines are in the order of revisions and of time (`order.py`). `causes` say which earlier lines led to one: by the
revision that a decision had read, or by the decision that wrote. `merged` tells the same thing about several objects,
or repeatedly about one, only once: with a count, until when, and whether it still goes on. Several objects share a
line only if they have one owner and one cause, and if nothing is told before what led to it. What is not known is in
`gaps` and `notes`.
"""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from mainstay.explain.answer_part import AnswerPart
from mainstay.explain.why.answer import API_VERSION
from mainstay.explain.words import LineKind
from mainstay.explain.writers import Who

TOGETHER: Final = timedelta(seconds=1)
"""The same about several objects within this is one thing."""

TURNS_MIN: Final = 3
"""Twice is not yet a pattern."""
_IN_TURNS: Final = (LineKind.STARTED, LineKind.READY, LineKind.FAILED, LineKind.CONDITION, LineKind.EVENT)
_CHANGES: Final = (LineKind.CREATED, LineKind.WRITTEN, LineKind.DELETED, LineKind.BOUND, LineKind.REMOVED)
_COUNTED: Final = re.compile(r"(restart |back-off )[0-9hms]+")
"""What is another number each time, and means the same."""


class StoryObject(AnswerPart, frozen=True):
    """The object that a line is about. `kind` is its text, as in `deployments.apps`."""

    kind: str
    name: str
    namespace: str = ""

    @property
    def words(self) -> str:
        kind = self.kind.partition(".")[0]
        return f"{_singular(kind)} {self.name}"


class Stale(AnswerPart, frozen=True):
    """A kind that a decision did not see as it was."""

    kind: str
    seen: int
    """The revision that its cache had completely applied."""
    latest: int
    """The last change of that kind at the time."""
    behind_ms: int
    """For how long the oldest change that it had not seen had been there."""
    objects: tuple[str, ...] = ()
    """What had changed unseen."""
    is_decisive: bool = False
    """With them, the decision would have been another one."""


class StoryLink(AnswerPart, frozen=True):
    """What led to a line."""

    text: str
    """Its name: `zonequota zone-c@918946`, or a decision's id."""
    line: int = 0
    """The number of the line that tells of it; 0: none does."""
    revision: int = 0
    decision: str = ""
    is_verified: bool = False
    """Without it the outcome would have been another: that was tried."""


class StoryLine(AnswerPart, frozen=True, kw_only=True):
    at: datetime
    what: LineKind
    about: StoryObject
    text: str
    who: Who
    revision: int = 0
    decision: str = ""
    others: tuple[str, ...] = ()
    """Further objects of the same kind, and of the same owner, of which the same holds."""
    owner: str = ""
    """Who controls the object, as in `replicaset web-7d4f`; empty: none, or it is not known."""
    revisions: tuple[int, ...] = ()
    """Those of `others` and of what came again, besides its own."""
    decisions: tuple[str, ...] = ()
    """Likewise."""
    details: tuple[str, ...] = ()
    view: dict[str, int] = msgspec.field(default_factory=dict)
    """What a decision had seen: for each kind, the revision."""
    stale: tuple[Stale, ...] = ()
    queue_wait_ms: int = 0
    attempts: int = 0
    causes: tuple[StoryLink, ...] = ()
    count: int = 1
    """How often it came, the same each time."""
    until: datetime | None = None
    """When it came last."""
    is_going_on: bool = False
    """It still comes again: nothing has cured it yet."""
    is_detail: bool = False
    is_verdict: bool = False
    """It tells what to make of the progress of a workload."""
    number: int = 0
    offset_ms: int = 0
    """Since the first line."""


class Story(AnswerPart, frozen=True, kw_only=True):
    about: StoryObject
    generation: int = 0
    """Which one was asked for; 0: all."""
    begins: datetime | None = None
    ends: datetime | None = None
    revision: int = 0
    """Up to which it goes."""
    lines: tuple[StoryLine, ...] = ()
    is_complete: bool = True
    gaps: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def as_object(self) -> dict[str, Any]:
        """As JSON and YAML have it."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return {"apiVersion": API_VERSION, "kind": "Timeline", **found}


def merged(lines: Sequence[StoryLine]) -> list[StoryLine]:
    """The same, with what is the same told once. Lines are in the order of time."""
    return _siblings(_repeats(_cycles(lines)))


def _cycles(lines: Sequence[StoryLine]) -> list[StoryLine]:
    """What comes in turns, as in a crash loop: started again, ended, waiting, started again. Each is told once.

    Only from the third time on, and only as long as nothing else was written to the object and it has not moved: what
    comes after that is news. Told are the words of the last time, with its numbers.
    """
    epochs: dict[StoryObject, int] = {}
    turns: dict[tuple[Any, ...], list[int]] = {}
    for place, line in enumerate(lines):
        if line.what in _CHANGES and not line.is_detail:
            epochs[line.about] = epochs.get(line.about, 0) + 1
        elif line.what in _IN_TURNS:
            shape = _COUNTED.sub(r"\1#", line.text)
            key = (line.about, epochs.get(line.about, 0), line.what, shape, line.details, line.who.name, line.is_detail)
            turns.setdefault(key, []).append(place)
    found: list[StoryLine | None] = list(lines)
    for places in turns.values():
        if len(places) >= TURNS_MIN:
            first, last = lines[places[0]], lines[places[-1]]
            for place in places[1:]:
                first = _with(first, lines[place])
                found[place] = None
            count = sum(lines[place].count for place in places)
            until, is_going_on = last.until or last.at, last.is_going_on
            found[places[0]] = replace(first, text=last.text, count=count, until=until, is_going_on=is_going_on)
    return [line for line in found if line is not None]


def _repeats(lines: Sequence[StoryLine]) -> list[StoryLine]:
    """One object, the same words again, and nothing else of that sort in between."""
    found: list[StoryLine] = []
    last: dict[tuple[StoryObject, LineKind], int] = {}
    for line in lines:
        key = (line.about, line.what)
        place = last.get(key)
        before = found[place] if place is not None else None
        if before is not None and place is not None and _is_same(before, line):
            found[place] = replace(
                _with(before, line),
                count=before.count + line.count,
                until=line.until or line.at,
                is_going_on=line.is_going_on,
                stale=before.stale if _is_stale_as(before, line) else line.stale,
                attempts=max(before.attempts, line.attempts),
            )
        else:
            last[key] = len(found)
            found.append(line)
    return found


def _is_same(one: StoryLine, other: StoryLine) -> bool:
    return (
        (one.text, one.details, one.who.name) == (other.text, other.details, other.who.name)
        and one.what in (LineKind.DECIDED, LineKind.REFUSED, LineKind.EVENT, LineKind.FAILED, LineKind.CONDITION)
        and _is_stale_as(one, other)
    )


def _is_stale_as(one: StoryLine, other: StoryLine) -> bool:
    """A decision on an old picture is another one than the same on the present picture."""
    return [each.kind for each in one.stale] == [each.kind for each in other.stale]


def _with(first: StoryLine, line: StoryLine) -> StoryLine:
    """The first line, which stands for the other one, too: what that led to leads here."""
    revisions = dict.fromkeys((*first.revisions, line.revision, *line.revisions))
    decisions = dict.fromkeys((*first.decisions, line.decision, *line.decisions))
    return replace(
        first,
        revisions=tuple(each for each in revisions if each and each != first.revision),
        decisions=tuple(each for each in decisions if each and each != first.decision),
    )


def _siblings(lines: Sequence[StoryLine]) -> list[StoryLine]:
    """Several objects of one owner, the same words at the same time, for the same cause.

    A line moves up to the first of its kind. So nothing that led to it, and nothing else about its object, may have
    been told in between: else a pod would be gone before it runs.
    """
    found: list[StoryLine] = []
    told = _Told()
    last: dict[StoryObject, int] = {}
    open_: dict[tuple[Any, ...], int] = {}
    for line in lines:
        words = (line.what, line.about.kind, line.about.namespace, line.text, line.details, line.who.name, line.count)
        causes = told.causes(line)
        key = (*words, line.owner, causes, line.is_going_on, line.is_detail)
        place = open_.get(key)
        is_sibling = (
            place is not None
            and abs(line.at - found[place].at) <= TOGETHER
            and last.get(line.about, -1) < place
            and all(isinstance(cause, str) or cause < place for cause in causes)
        )
        if place is not None and is_sibling:
            first = _with(found[place], line)
            found[place] = replace(
                first,
                others=(*first.others, line.about.name),
                causes=tuple(dict.fromkeys((*first.causes, *line.causes))),
                queue_wait_ms=max(first.queue_wait_ms, line.queue_wait_ms),
            )
        else:
            place = open_[key] = len(found)
            found.append(line)
        last[line.about] = place
        told.add(line, place)
    return found


class _Told:
    """Which line tells of a revision or of a decision."""

    def __init__(self) -> None:
        self._by_revision: dict[int, int] = {}
        self._by_decision: dict[str, int] = {}
        self._details: dict[int, None] = {}

    def add(self, line: StoryLine, place: int) -> None:
        if line.is_detail:
            self._details[place] = None
        for revision in (line.revision, *line.revisions):
            # Of several lines about one revision, one that is always shown: others are to find it.
            if revision and self._by_revision.setdefault(revision, place) in self._details and not line.is_detail:
                self._by_revision[revision] = place
        if line.what in (LineKind.DECIDED, LineKind.REFUSED):
            for decision in (line.decision, *line.decisions):
                if decision:
                    self._by_decision.setdefault(decision, place)

    def place(self, link: StoryLink) -> int | None:
        return self._by_revision.get(link.revision) if link.revision else self._by_decision.get(link.decision)

    def causes(self, line: StoryLine) -> frozenset[int | str]:
        """What led to a line: the places of what is told; of the rest, the versions of other objects."""
        found: set[int | str] = set()
        for link in line.causes:
            place = self.place(link)
            if place is not None:
                found.add(place)
            elif link.revision and not link.text.startswith(f"{line.about.words}@"):
                found.add(link.text)
        return frozenset(found)


def numbered(lines: Sequence[StoryLine]) -> tuple[StoryLine, ...]:
    """With numbers, times since the first line, and causes that lead to lines by number."""
    if not lines:
        return ()
    first = lines[0].at
    told = _Told()
    for number, line in enumerate(lines, 1):
        told.add(line, number)
    made = []
    for number, line in enumerate(lines, 1):
        causes: dict[object, StoryLink] = {}
        for link in line.causes:
            to = told.place(link)
            if to is not None and to < number:
                causes.setdefault((to, link.is_verified), replace(link, line=to))
            elif to != number:
                causes[link] = link
        offset = (line.at - first) // timedelta(milliseconds=1)
        made.append(replace(line, number=number, offset_ms=max(offset, 0), causes=tuple(causes.values())))
    return tuple(made)


def _singular(plural: str) -> str:
    if plural.endswith("ies"):
        return f"{plural[:-3]}y"
    if plural.endswith("sses"):
        return plural[:-2]
    return plural[:-1] if plural.endswith("s") and not plural.endswith("ss") else plural
