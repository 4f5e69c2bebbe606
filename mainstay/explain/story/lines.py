"""A story: what happened to an object and to those it depends on, line by line, as values.

Lines are in the order of time. `causes` say which earlier lines led to one: by the revision that a decision had read,
or by the decision that wrote. `merged` tells the same thing about several objects, or again and again about one, only
once: with a count, until when, and whether it still goes on. What is not known is in `gaps` and `notes`.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from mainstay.explain.why.answer import API_VERSION
from mainstay.explain.words import What
from mainstay.explain.writers import Who

TOGETHER: Final = timedelta(seconds=1)
"""The same about several objects within this is one thing."""


class _Part(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    pass


class About(_Part, frozen=True):
    """The object that a line is about. `kind` is its text, as in `deployments.apps`."""

    kind: str
    name: str
    namespace: str = ""

    @property
    def words(self) -> str:
        kind = self.kind.partition(".")[0]
        return f"{_singular(kind)} {self.name}"


class Stale(_Part, frozen=True):
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


class Link(_Part, frozen=True):
    """What led to a line."""

    text: str
    """Its name: `zonequota zone-c@918946`, or a decision's id."""
    line: int = 0
    """The number of the line that tells of it; 0: none does."""
    revision: int = 0
    decision: str = ""
    is_verified: bool = False
    """Without it the outcome would have been another: that was tried."""


class Line(_Part, frozen=True, kw_only=True):
    at: datetime
    what: What
    about: About
    text: str
    who: Who
    revision: int = 0
    decision: str = ""
    others: tuple[str, ...] = ()
    """Further objects of the same kind of which the same holds."""
    details: tuple[str, ...] = ()
    view: dict[str, int] = {}
    """What a decision had seen: for each kind, the revision."""
    stale: tuple[Stale, ...] = ()
    queue_wait_ms: int = 0
    attempts: int = 0
    causes: tuple[Link, ...] = ()
    count: int = 1
    """How often it came, the same each time."""
    until: datetime | None = None
    """When it came last."""
    is_going_on: bool = False
    """It still comes again: nothing has cured it yet."""
    is_detail: bool = False
    number: int = 0
    offset_ms: int = 0
    """Since the first line."""


class Story(_Part, frozen=True, kw_only=True):
    about: About
    generation: int = 0
    """Which one was asked for; 0: all."""
    begins: datetime | None = None
    ends: datetime | None = None
    revision: int = 0
    """Up to which it goes."""
    lines: tuple[Line, ...] = ()
    is_complete: bool = True
    gaps: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def as_object(self) -> dict[str, Any]:
        """As JSON and YAML have it."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return {"apiVersion": API_VERSION, "kind": "Timeline", **found}


def merged(lines: Sequence[Line]) -> list[Line]:
    """The same, with what is the same told once. Lines are in the order of time."""
    return _siblings(_repeats(lines))


def _repeats(lines: Sequence[Line]) -> list[Line]:
    """One object, the same words again, and nothing else of that sort in between."""
    found: list[Line] = []
    last: dict[tuple[About, What], int] = {}
    for line in lines:
        key = (line.about, line.what)
        place = last.get(key)
        before = found[place] if place is not None else None
        if before is not None and place is not None and _is_same(before, line):
            found[place] = replace(
                before,
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


def _is_same(one: Line, other: Line) -> bool:
    return (
        (one.text, one.details, one.who.name) == (other.text, other.details, other.who.name)
        and one.what in (What.DECIDED, What.REFUSED, What.EVENT, What.FAILED, What.CONDITION)
        and _is_stale_as(one, other)
    )


def _is_stale_as(one: Line, other: Line) -> bool:
    """A decision on an old picture is another one than the same on the present picture."""
    return [each.kind for each in one.stale] == [each.kind for each in other.stale]


def _siblings(lines: Sequence[Line]) -> list[Line]:
    """Several objects, the same words at the same time."""
    found: list[Line] = []
    open_: dict[tuple[Any, ...], int] = {}
    for line in lines:
        key = (line.what, line.about.kind, line.about.namespace, line.text, line.details, line.who.name, line.count)
        place = open_.get(key)
        first = found[place] if place is not None else None
        if (
            first is not None
            and place is not None
            and line.about.name != first.about.name
            and line.about.name not in first.others
            and line.at - first.at <= TOGETHER
            and first.is_going_on == line.is_going_on
        ):
            found[place] = replace(
                first,
                others=(*first.others, line.about.name),
                causes=tuple(dict.fromkeys((*first.causes, *line.causes))),
                queue_wait_ms=max(first.queue_wait_ms, line.queue_wait_ms),
            )
        else:
            open_[key] = len(found)
            found.append(line)
    return found


def numbered(lines: Sequence[Line]) -> tuple[Line, ...]:
    """With numbers, times since the first line, and causes that lead to lines by number."""
    if not lines:
        return ()
    first = lines[0].at
    by_revision: dict[int, int] = {}
    by_decision: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if line.revision:
            by_revision.setdefault(line.revision, number)
        if line.what in (What.DECIDED, What.REFUSED) and line.decision:
            by_decision.setdefault(line.decision, number)
    made = []
    for number, line in enumerate(lines, 1):
        causes = []
        for link in line.causes:
            to = by_revision.get(link.revision) if link.revision else by_decision.get(link.decision)
            if to is not None and to != number and lines[to - 1].at <= line.at:
                causes.append(replace(link, line=to))
            elif to != number:
                causes.append(link)
        offset = (line.at - first) // timedelta(milliseconds=1)
        made.append(replace(line, number=number, offset_ms=max(offset, 0), causes=tuple(causes)))
    return tuple(made)


def _singular(plural: str) -> str:
    if plural.endswith("ies"):
        return f"{plural[:-3]}y"
    if plural.endswith("sses"):
        return plural[:-2]
    return plural[:-1] if plural.endswith("s") and not plural.endswith("ss") else plural
