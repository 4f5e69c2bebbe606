"""A story as text: times from 00:00, who, what, and what led to it.

    00:00  admin        deployment risk-api: desired replicas 6 → 8                                   [1] @412
    00:04  scheduler-1  pod risk-api-…: finds no node, with nodes at 398, zonequotas at 377           [4] ← 2
                          PodTopologySpread rejects zone-a and zone-b …

The number in brackets is a line's own; after an arrow, those of the lines that led to it.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from mainstay.explain.story.lines import Story, StoryLine, StoryLink
from mainstay.explain.words import LineKind

NAMES_MAX: Final = 3
_STALE: Final = "!"


def story_text(story: Story, *, is_wide: bool = False) -> list[str]:
    """Lines of text. With `is_wide`: all that happened, with revisions, decisions and views."""
    told = [line for line in story.lines if is_wide or not line.is_detail]
    title = f"{story.about.words}" + (f" in namespace {story.about.namespace}" if story.about.namespace else "")
    if story.generation:
        title += f", generation {story.generation}"
    if story.begins is not None:
        title += f", from {_time(story.begins)}"
    lines = [title]
    if not told:
        lines.append("no records" + (" (-o wide shows all)" if story.lines else ""))
    width = max((len(line.who.name) for line in told), default=0)
    first = told[0].at if told else None
    shown = {line.number for line in told}
    for line in told:
        assert first is not None
        lines += _lines(line, first, width, shown, is_wide=is_wide)
    left_out = len(story.lines) - len(told)
    if left_out:
        lines.append(f"({left_out} more {'line' if left_out == 1 else 'lines'} with -o wide)")
    lines += [f"missing: {gap}" for gap in story.gaps]
    lines += [f"note: {note}" for note in story.notes]
    return lines


def _lines(line: StoryLine, first: datetime, width: int, shown: set[int], *, is_wide: bool) -> Iterator[str]:
    when = offset(line.at, first)
    text = f"{when}  {line.who.name:<{width}}  {_whom(line)}: {line.text}"
    if line.what in (LineKind.REFUSED, LineKind.DECIDED, LineKind.BOUND) and line.view:
        text += f", {_view(line, is_wide=is_wide)}"
    if line.who.reason and line.what in (LineKind.WRITTEN, LineKind.CREATED, LineKind.DELETED, LineKind.REMOVED):
        text += f" ({line.who.reason})"
    if line.count > 1:
        text += f" ×{line.count} until {offset(line.until or line.at, first)}"
    if line.is_going_on:
        text += ", still retrying" if line.what is LineKind.REFUSED or line.count > 1 else ", not resolved yet"
    yield text + _marks(line, shown, is_wide=is_wide)
    indent = " " * (len(when) + width + 6)
    for detail in line.details:
        yield f"{indent}{detail}"
    for stale in line.stale:
        decisive = ", and would have decided differently" if stale.is_decisive else ""
        names = ", ".join(stale.objects[:NAMES_MAX])
        yield (
            f"{indent}{_STALE} saw {_short(stale.kind)} at {stale.seen}, {stale.behind_ms / 1000:.1f} s behind "
            f"{stale.latest} ({names}){decisive}"
        )
    if is_wide and (line.queue_wait_ms or line.attempts > 1):
        yield f"{indent}attempt {line.attempts}, waited {line.queue_wait_ms} ms in the queue"


def _whom(line: StoryLine) -> str:
    if not line.others:
        return line.about.words
    names = [line.about.name, *line.others]
    kind = line.about.words.partition(" ")[0]
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return f"{len(names)} {kind}s {', '.join(names[:NAMES_MAX])}{more}, each"


def _view(line: StoryLine, *, is_wide: bool) -> str:
    at: dict[int, list[str]] = {}
    for kind in sorted(line.view):
        at.setdefault(line.view[kind], []).append(kind if is_wide else _short(kind))
    if len(at) == 1:
        return f"having seen all up to {next(iter(at))}"
    return "having seen " + ", ".join(f"{' and '.join(kinds)} up to {revision}" for revision, kinds in at.items())


def _marks(line: StoryLine, shown: set[int], *, is_wide: bool) -> str:
    marks = f"  [{line.number}]"
    if line.revision:
        marks += f" @{line.revision}"
    causes = _causes(line.causes, shown, is_wide=is_wide)
    if causes:
        marks += f" ← {causes}"
    if is_wide and line.decision:
        marks += f" {line.decision}"
    return marks


def _causes(links: Sequence[StoryLink], shown: set[int], *, is_wide: bool) -> str:
    found: dict[str, None] = {}
    for link in links:
        if link.line and link.line in shown:
            found[f"{link.line}{' (verified)' if link.is_verified else ''}"] = None
        elif link.revision and (is_wide or link.is_verified):
            found[f"{link.text}{' (verified)' if link.is_verified else ''}"] = None
    return ", ".join(found)


def offset(at: datetime, first: datetime) -> str:
    """Minutes and seconds since the first line; hours if there are any."""
    seconds = max(int((at - first).total_seconds()), 0)
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours}:{minutes:02}:{seconds % 60:02}" if hours else f"{minutes:02}:{seconds % 60:02}"


def _short(kind: str) -> str:
    return kind.partition(".")[0]


def _time(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03}Z"
