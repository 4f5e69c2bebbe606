"""The order of a story's lines: that of revisions, and what has none where it belongs in time and by its causes.

The store's revisions are the order in which things were written, whatever the clocks said. A decision writes nothing of
its own: it stands at its time, after what it had read, and before what came of it. Between components whose clocks
differ nothing else is promised.
"""

from bisect import bisect_right
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from mainstay.explain.story.lines import StoryLine
from mainstay.explain.words import LineKind

_ORDER: Final = (
    *(
        LineKind.DELETED,
        LineKind.WRITTEN,
        LineKind.CREATED,
        LineKind.SEEN,
        LineKind.QUEUED,
        LineKind.REFUSED,
        LineKind.DECIDED,
        LineKind.BOUND,
    ),
    *(LineKind.STARTED, LineKind.READY, LineKind.CONDITION, LineKind.FAILED, LineKind.EVENT, LineKind.REMOVED),
)
"""Of what one write says, or of what has no other order."""
_BEFORE_WRITES: Final = (LineKind.QUEUED, LineKind.REFUSED, LineKind.DECIDED)
"""What a decision says of itself before it acts. That it has failed is known after."""
_Place = tuple[datetime, int, int]
"""A time, a revision, and whether it is before (-1), at (0) or after it (1)."""


def in_order(lines: Iterable[StoryLine]) -> list[StoryLine]:
    """What led to something comes before it, also if clocks differ a little."""
    found = list(lines)
    at_of = _times(found)
    revisions, times = list(at_of), list(at_of.values())
    first_of: dict[str, int] = {}
    """By decision: the first of its writes."""
    for line in found:
        if line.revision and line.decision:
            first_of[line.decision] = min(line.revision, first_of.get(line.decision, line.revision))
    placed: list[tuple[_Place, StoryLine]] = []
    for line in found:
        if line.revision:
            placed.append(((at_of[line.revision], line.revision, 0), line))
            continue
        read = max((link.revision for link in line.causes if link.revision in at_of), default=0)
        at = max(line.at, at_of[read]) if read else line.at
        before = bisect_right(times, at)
        revision = revisions[before - 1] if before else 0
        if read and at_of[read] == at:
            revision = read
        place = (at, revision, 1)
        first = first_of.get(line.decision, 0) if line.what in _BEFORE_WRITES else 0
        if first > read and place > (at_of[first], first, -1):
            place = (at_of[first], first, -1)
        placed.append((place, replace(line, at=place[0])))
    return [line for _, line in sorted(placed, key=_key)]


def _key(placed: tuple[_Place, StoryLine]) -> tuple[object, ...]:
    place, line = placed
    return (*place, _ORDER.index(line.what), line.about.kind, line.about.name, line.text)


def _times(lines: Iterable[StoryLine]) -> dict[int, datetime]:
    """When each revision was written, as far as the order of revisions allows: never before the one before."""
    found: dict[int, datetime] = {}
    last: datetime | None = None
    for revision, at in sorted((line.revision, line.at) for line in lines if line.revision):
        last = at if last is None else max(last, at)
        found[revision] = max(last, found.get(revision, last))
    return found
