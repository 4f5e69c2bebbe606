"""Where two runs of one scenario part, and what came of it.

Up to the first choice that differs two runs are equal, event by event; from there on nearly everything differs a
little, if only in time. So of what follows only the first commit that one of them has and the other has not is told,
then how much of everything there was, and which objects are other objects, field by field, at the moment at which the
shorter run ended: of one that failed that is the moment of the failure.

What depends on the way is no difference: uids, revisions, times.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from mainstay.api.kind import Object
from mainstay.journal.keys import is_object
from mainstay.sim.cluster.differences import find_differences
from mainstay.sim.cluster.final_state import LEFT_OUT, final_objects
from mainstay.sim.cluster.history import (
    Event,
    FaultInjected,
    RequestReceived,
    ResponseSent,
    RevisionCommitted,
    WatchDelivered,
)
from mainstay.sim.failure.rerun import repeat_run
from mainstay.sim.run.bundle import RunBundle
from mainstay.sim.run.choices import Tape
from mainstay.sim.run.run import Booted, RunResult
from mainstay.store.interface import Entry

FIELDS_MAX: Final = 40
_TIME: Final = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")
_UID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_OF_THE_WAY: Final = frozenset(
    {"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "observedGeneration"}
)
_decode_object = msgspec.json.Decoder(Object).decode


class EventLine(msgspec.Struct, frozen=True, array_like=True):
    """An event in words."""

    at_ns: int
    what: str
    """The kind of event."""
    words: str

    def __str__(self) -> str:
        return f"{self.at_ns / 1e9:.6f} {self.words}"


class CommitSeen(msgspec.Struct, frozen=True, array_like=True):
    """A commit: what became of a key, and when."""

    at_ns: int
    key: str
    value: bytes | None


class ComparedRun(msgspec.Struct, frozen=True):
    """What is compared of a run."""

    result: RunResult
    began_ns: int
    ended_ns: int
    lines: list[EventLine]
    commits: list[CommitSeen]

    def state(self, at_ns: int) -> dict[str, list[Object]]:
        """What there was at a moment, without what depends on the way."""
        values: dict[str, bytes | None] = {}
        for commit in self.commits:
            if commit.at_ns <= at_ns:
                values[commit.key] = commit.value
        entries = [Entry(key, value, 0, 0, 0) for key, value in sorted(values.items()) if value is not None]
        return final_objects(entries)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ComparedRun).decode


def compare_runs(bundle: RunBundle, tapes: Sequence[Tape] = (), *, jobs: int = 1) -> list[ComparedRun]:
    """Make runs to be compared: as `repeat_run` (rerun.py), which says what is raised."""
    return [_decode(sent) for sent in repeat_run(bundle, look, tapes=tapes, jobs=jobs)]


def look(booted: Booted, result: RunResult) -> bytes:
    events = booted.world.history.events
    lines = [EventLine(event.at_ns, type(event).__name__, _words(event)) for event in events]
    commits = [
        CommitSeen(event.at_ns, event.key, event.value)
        for event in events
        if isinstance(event, RevisionCommitted) and is_object(event.key) and not event.key.startswith(LEFT_OUT)
    ]
    return _encode(ComparedRun(result, booted.began_ns, booted.sim.loop.time_ns(), lines, commits))


def difference(left: ComparedRun, right: ComparedRun, names: tuple[str, str]) -> list[str]:
    """What differs, in lines. Empty: nothing does."""
    place = _first(left.lines, right.lines)
    if place is None:
        return []
    width = max(map(len, names))
    return [
        f"first divergence, after {place} identical events:",
        *_pair(left.lines, right.lines, place, names, width),
        *_first_commit(left, right, names, width),
        "counts:",
        *_counts(left, right, names),
        *_objects(left, right, names),
    ]


def _words(event: Event) -> str:
    return str(event).strip().partition(" ")[2].strip()


def _first(left: Sequence[object], right: Sequence[object]) -> int | None:
    shared = min(len(left), len(right))
    for place in range(shared):
        if left[place] != right[place]:
            return place
    return None if len(left) == len(right) else shared


def _pair(
    left: Sequence[EventLine], right: Sequence[EventLine], place: int, names: tuple[str, str], width: int
) -> Iterator[str]:
    for name, lines in zip(names, (left, right), strict=True):
        yield f"  {name.ljust(width)}  {lines[place] if place < len(lines) else '(ended)'}"


def _first_commit(left: ComparedRun, right: ComparedRun, names: tuple[str, str], width: int) -> Iterator[str]:
    """The first commit in the order of each run that the other has not in its place, whenever it was."""
    one, other = _committed(left), _committed(right)
    place = _first([key for _, key in one], [key for _, key in other])
    if place is None:
        return
    yield f"first differing commit, after {place} identical ones:"
    yield from _pair([line for line, _ in one], [line for line, _ in other], place, names, width)


def _committed(run: ComparedRun) -> list[tuple[EventLine, tuple[str, Object | None]]]:
    found = []
    for commit in run.commits:
        value = None if commit.value is None else _plain(_decode_object(commit.value))
        did = "deletes" if value is None else "writes"
        found.append((EventLine(commit.at_ns, "Committed", f"{did} {commit.key}"), (commit.key, value)))
    return found


def _counts(left: ComparedRun, right: ComparedRun, names: tuple[str, str]) -> Iterator[str]:
    kinds = (
        (RequestReceived, "requests"),
        (ResponseSent, "answers"),
        (RevisionCommitted, "commits"),
        (WatchDelivered, "watch events"),
    )
    rows: list[tuple[str, ...]] = [("", *names)]
    for kind, words in (*kinds, (FaultInjected, "faults")):
        rows.append(
            (words, *(str(sum(1 for line in run.lines if line.what == kind.__name__)) for run in (left, right)))
        )
    rows.append(("virtual seconds", *(f"{(run.ended_ns - run.began_ns) / 1e9:.1f}" for run in (left, right))))
    rows.append(("verdict", *(str(run.result.verdict) for run in (left, right))))
    widths = [max(len(row[place]) for row in rows) for place in range(3)]
    for row in rows:
        yield f"  {row[0].ljust(widths[0])}  {row[1].rjust(widths[1])}  {row[2].rjust(widths[2])}".rstrip()


def _objects(left: ComparedRun, right: ComparedRun, names: tuple[str, str]) -> list[str]:
    at_ns = min(left.ended_ns, right.ended_ns)
    found = find_differences(left.state(at_ns), right.state(at_ns))
    if not found:
        return [f"at {at_ns / 1e9:.1f} s the objects are identical"]
    lines = [f"objects at {at_ns / 1e9:.1f} s ({names[0]} | {names[1]}):"]
    for each in found[:FIELDS_MAX]:
        lines.append(f"  {each.name}: {each.path + ' ' if each.path else ''}{each.wanted} | {each.found}")
    return [*lines, f"  … and {len(found) - FIELDS_MAX} more"] if len(found) > FIELDS_MAX else lines


def _plain(value: Any) -> Any:
    """Without what depends on the way that a run took."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items() if name not in _OF_THE_WAY}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, str):
        return "TIME" if _TIME.match(value) else _UID.sub("UID", value)
    return value
