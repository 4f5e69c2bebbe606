"""Reading a journal: the state of any kind at any revision, what happened to an object, which decisions were made.

    reader = Reader(disk)                                     a living journal, or a bundle; several directories at once
    reader.state({"pods": 918812, "nodes": 918790})           every pod and node, as the store had them then
    reader.view(decision)                                     what that decision saw
    reader.changes(kind="pods", namespace="a", name="web-1")  what was written to it, when, and by which decision
    reader.decision("…"), reader.decisions(kind=…, name=…)

A state is a snapshot and the changes after it. Every answer says what it should rest on and does not: `gaps` for
revisions, `damages` for files, `lost` for decisions that were not kept. An answer with gaps is still given, as far as
it goes; look at `is_complete` before you take it for the truth.

The calls block: run them on a `tasks.Worker`. They read the directory each time, so a live journal can be queried
again later; what cannot have changed since is kept (scan.py), so a reader that lives is quicker than a new one, and is
for one thread at a time. Values are the bytes that the store had, Secrets without their values (secret_mask.py).
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Final, TypeVar

from mainstay.api import labels
from mainstay.env import Disk
from mainstay.journal.answers import (
    Changes,
    Decisions,
    Extent,
    Objects,
    StateAnswer,
    StoredVersion,
    ViewAnswer,
    WritesAnswer,
)
from mainstay.journal.coverage import Gap, explained, holes
from mainstay.journal.files import BlockIndex, Interval, Series
from mainstay.journal.keys import build_prefix, parse_kind, parse_object_key
from mainstay.journal.record import (
    ChangeRecord,
    DecisionRecord,
    EntryRecord,
    MemoryRecord,
    ViewPart,
    WriteRecord,
    micros,
    name_of_component,
    name_of_decision,
    name_of_kind,
    name_of_memory,
    name_of_object,
    name_of_uid,
)
from mainstay.journal.scan import Damage, Scan, ScanMemory

ATTEMPTS_MAX: Final = 5  # Of reading a journal whose writer closes and forgets files meanwhile.
SNAPSHOTS_TRIED_MAX: Final = 5  # When the best one is damaged.

_SKEW_US: Final = 600_000_000  # By how much the clocks of two servers may differ: ten minutes.

T = TypeVar("T")


class Reader:
    """Reads one journal, in one or more directories: that of the history, and one for each process that decides."""

    def __init__(self, *disks: Disk) -> None:
        self._disks = disks
        self._kept = ScanMemory()

    def reached(self) -> int:
        """The latest revision that was recorded; 0 if there is none."""
        recorded = self.recorded()
        return recorded[-1][1] if recorded else 0

    def recorded(self) -> tuple[Interval, ...]:
        """The revisions whose changes are here, as intervals: after one, up to and including another."""
        return self._steadily(lambda scan: scan.recorded)

    def extent(self) -> Extent:
        """How much there is."""

        def read(scan: Scan) -> Extent:
            first, last = scan.times(Series.HISTORY)
            return Extent((), _history_damages(scan), scan.recorded, first, last)

        return self._steadily(read)

    def damages(self) -> tuple[Damage, ...]:
        """Read everything, and say what cannot be read."""

        def read(scan: Scan) -> tuple[Damage, ...]:
            for series in Series:
                for _ in scan.blocks(series):
                    pass
            return scan.damages

        return self._steadily(read)

    def state(self, vector: Mapping[str, int]) -> StateAnswer:
        """The objects of each kind, as of its revision."""
        return self._steadily(lambda scan: _state(scan, vector))

    def view(self, decision: DecisionRecord) -> ViewAnswer:
        """What a decision saw: the part of its view that each cache held."""
        vectors: list[dict[str, int]] = []
        # Two caches of one kind may have been at different revisions: then the kind is needed twice.
        for seen in decision.view:
            vector = next((each for each in vectors if each.get(seen.kind, seen.revision) == seen.revision), None)
            if vector is None:
                vectors.append(vector := {})
            vector[seen.kind] = seen.revision
        states = [self.state(vector) for vector in vectors]
        parts = {
            seen: _selected(state.kinds[seen.kind], seen)
            for seen in decision.view
            for vector, state in zip(vectors, states, strict=True)
            if vector.get(seen.kind) == seen.revision
        }
        gaps = dict.fromkeys(gap for state in states for gap in state.gaps)
        damages = dict.fromkeys(damage for state in states for damage in state.damages)
        return ViewAnswer(tuple(gaps), tuple(damages), parts)

    def changes(
        self,
        *,
        kind: str = "",
        namespace: str | None = None,
        name: str = "",
        decision: str = "",
        after: int = 0,
        until: int | None = None,
        since: datetime | None = None,
        before: datetime | None = None,
    ) -> Changes:
        """What was written: to a kind, an object, by a decision, after one revision up to another, between two times.

        Without `after` the answer goes back as far as the journal does, which is no gap.
        """
        first, last = _times(since, before)
        prefix = build_prefix(kind) if kind else ""

        def matches(change: ChangeRecord) -> bool:
            if not (after < change.revision and (until is None or change.revision <= until)):
                return False
            if not (first <= change.at < last) or not change.key.startswith(prefix):
                return False
            if decision and change.decision != decision:
                return False
            if namespace is None and not name:
                return True
            where = parse_object_key(change.key)
            return (not name or where.name == name) and (namespace is None or where.namespace == namespace)

        named = name_of_decision(decision) if decision else ""
        if kind and name and namespace is not None:
            named = name_of_object(parse_kind(prefix + name), namespace, name)
        containing = [each.encode() for each in (decision, name, namespace or "", prefix) if each]
        return self._steadily(lambda scan: _changes(scan, matches, (after, until), (first, last), named, containing))

    def decision(self, decision: str) -> DecisionRecord | None:
        """The record of a decision. None: it was not recorded, was lost, is forgotten, or is in another directory."""
        name = name_of_decision(decision)

        def find(scan: Scan) -> DecisionRecord | None:
            for block in scan.blocks(Series.DECISIONS, named=name, containing=[decision.encode()], newest_first=True):
                for record in reversed(block.records):
                    if isinstance(record, DecisionRecord) and record.id == decision:
                        return record
            return None

        return self._steadily(find)

    def decisions(
        self,
        *,
        kind: str = "",
        namespace: str | None = None,
        name: str = "",
        uid: str = "",
        component: str = "",
        since: datetime | None = None,
        before: datetime | None = None,
        limit: int = 1_000,
    ) -> Decisions:
        """Decisions about an object or a kind, of a component, between two times. Of more than `limit`, the latest."""
        first, last = _times(since, before)

        def matches(record: DecisionRecord) -> bool:
            subject = record.subject
            return (
                first <= record.at < last
                and (not kind or subject.kind == kind)
                and (namespace is None or subject.namespace == namespace)
                and (not name or subject.name == name)
                and (not uid or subject.uid == uid)
                and (not component or record.component == component)
            )

        if kind and name and namespace is not None:
            named = name_of_object(kind, namespace, name)
        elif uid:
            named = name_of_uid(uid)
        elif component:
            named = name_of_component(component)
        else:
            named = name_of_kind(kind) if kind else ""
        containing = [each.encode() for each in (name, uid, component, namespace or "", kind) if each]
        return self._steadily(lambda scan: _decisions(scan, matches, (first, last), named, containing, limit))

    def writes(
        self,
        *,
        kind: str = "",
        namespace: str | None = None,
        name: str = "",
        after: int = 0,
        until: int | None = None,
        since: datetime | None = None,
        before: datetime | None = None,
        limit: int = 1_000,
    ) -> WritesAnswer:
        """Who asked for the writes to an object or a kind. Of more than `limit`, the latest."""
        first, last = _times(since, before)

        def matches(record: WriteRecord) -> bool:
            return (
                after < record.revision
                and (until is None or record.revision <= until)
                and first <= record.at < last
                and (not kind or record.kind == kind)
                and (namespace is None or record.namespace == namespace)
                and (not name or record.name == name)
            )

        named = name_of_object(kind, namespace, name) if kind and name and namespace is not None else ""
        containing = [each.encode() for each in (name, namespace or "", kind) if each]

        def read(scan: Scan) -> WritesAnswer:
            # Only times say which blocks to read. Those of a revision and of who asked for it may be two servers'.
            earliest = max(first, scan.find_time(after) - _SKEW_US) if after and not named else first
            return _writes(scan, matches, (earliest, last), named, containing, limit)

        return self._steadily(read)

    def memory(self, decision: DecisionRecord) -> bytes | None:
        """The memory that a decision depended on. None: it was too large for the record, and no checkpoint has it."""
        memory = decision.memory
        if len(memory.inline) == memory.size:
            return memory.inline
        name = name_of_memory(memory.digest)

        def find(scan: Scan) -> bytes | None:
            for block in scan.blocks(Series.DECISIONS, named=name, containing=[memory.digest], newest_first=True):
                for record in block.records:
                    if isinstance(record, MemoryRecord) and record.digest == memory.digest:
                        return record.content
            return None

        return self._steadily(find)

    def _steadily(self, read: Callable[[Scan], T]) -> T:
        """Read, and again if a file was closed or forgotten meanwhile."""
        for _ in range(ATTEMPTS_MAX - 1):
            try:
                return read(Scan(self._disks, self._kept))
            except FileNotFoundError:
                continue
        return read(Scan(self._disks, self._kept))


def _times(since: datetime | None, before: datetime | None) -> tuple[int, int]:
    return micros(since) if since else 0, micros(before) if before else 1 << 62


def _state(scan: Scan, vector: Mapping[str, int]) -> StateAnswer:
    if not vector:
        return StateAnswer((), _history_damages(scan), {}, 0)
    limits = {build_prefix(kind): revision for kind, revision in vector.items()}
    base, held = _snapshot(scan, min(vector.values()), limits)
    latest = max(vector.values())
    covers: list[Interval] = []
    for block in scan.blocks(Series.HISTORY, lambda index: _concerns(index.covers, base, latest)):
        covers += block.index.covers
        for record in block.records:
            if not isinstance(record, ChangeRecord) or record.revision <= base:
                continue
            group, plural, _ = record.key.split("/", 2)
            prefix = f"{group}/{plural}/"
            if record.revision > limits.get(prefix, 0):
                continue
            objects = held[prefix]
            known = objects.get(record.key)
            # What was written twice, after a failed write, is the same both times.
            if known is None or record.revision >= known[0]:
                objects[record.key] = record.revision, record.value
    kinds = {kind: _objects(held[build_prefix(kind)]) for kind in vector}
    return StateAnswer(_gaps(scan, (base, latest), covers), _history_damages(scan), kinds, base)


_Held = dict[str, dict[str, tuple[int, bytes | None]]]
"""By prefix of the kind and by key: the revision, and what it has written."""


def _snapshot(scan: Scan, latest: int, limits: Mapping[str, int]) -> tuple[int, _Held]:
    """The latest snapshot up to a revision that can be read, and what it has of these kinds."""
    candidates = [revision for revision in reversed(scan.snapshots) if revision <= latest]
    prefixes = sorted(limits)

    def wanted(index: BlockIndex) -> bool:
        # An entry's key is within the block if its prefix is not beyond either end.
        return any(index.first_key[: len(prefix)] <= prefix <= index.last_key for prefix in prefixes)

    for revision in candidates[:SNAPSHOTS_TRIED_MAX]:
        held: _Held = {prefix: {} for prefix in limits}
        damaged = len(scan.find_damages(Series.SNAPSHOT))
        for block in scan.blocks(Series.SNAPSHOT, wanted, number=revision):
            for record in block.records:
                if isinstance(record, EntryRecord):
                    group, plural, _ = record.key.split("/", 2)
                    if (prefix := f"{group}/{plural}/") in held:
                        held[prefix][record.key] = record.revision, record.value
        if len(scan.find_damages(Series.SNAPSHOT)) == damaged:
            return revision, held
    return 0, {prefix: {} for prefix in limits}


def _objects(held: Mapping[str, tuple[int, bytes | None]]) -> Objects:
    return {
        parse_object_key(key): StoredVersion(held[key][0], value)
        for key in sorted(held)
        if (value := held[key][1]) is not None
    }


def _concerns(covers: Sequence[Interval], after: int, until: int) -> bool:
    return any(begins < until and ends > after for begins, ends in covers)


def _gaps(scan: Scan, needed: Interval, covers: Sequence[Interval]) -> tuple[Gap, ...]:
    return explained(holes(needed, covers), scan.recorded, scan.missed, _damaged(scan))


def _history_damages(scan: Scan) -> tuple[Damage, ...]:
    return (*scan.find_damages(Series.HISTORY), *scan.find_damages(Series.SNAPSHOT))


def _damaged(scan: Scan) -> list[Interval]:
    """The revisions in what cannot be read. Where those are unknown, it may have been any hole."""
    recorded = scan.recorded
    result: list[Interval] = []
    for damage in scan.find_damages(Series.HISTORY):
        if damage.is_absent:
            continue  # Holes without a reason are of this sort.
        result += damage.lost or holes((recorded[0][0], recorded[-1][1]), (*recorded, *scan.missed)) if recorded else ()
    return result


def _changes(
    scan: Scan,
    matches: Callable[[ChangeRecord], bool],
    revisions: tuple[int, int | None],
    times: Interval,
    named: str,
    containing: Sequence[bytes],
) -> Changes:
    after, until = revisions
    recorded = scan.recorded
    # Without a limit: from where the journal begins to where it ends.
    if not recorded:
        return Changes((), _history_damages(scan), ())
    lower = after or recorded[0][0]
    upper = recorded[-1][1] if until is None else until
    by_time: list[Interval] = []

    def wanted(index: BlockIndex) -> bool:
        if not _concerns(index.covers, lower, upper) or index.last_at < times[0] or index.first_at >= times[1]:
            return False
        by_time.extend(index.covers)
        return True

    found: dict[tuple[int, str], ChangeRecord] = {}
    for block in scan.blocks(Series.HISTORY, wanted, named=named, containing=containing):
        for record in block.records:
            if isinstance(record, ChangeRecord) and matches(record):
                found[record.revision, record.key] = record
    damaged = _damaged(scan)
    if times != _times(None, None) and by_time:
        lower = max(lower, min(begins for begins, _ in by_time))
        upper = min(upper, max(ends for _, ends in by_time))
    missing = holes((lower, upper), recorded)
    missing += [hole for hole in damaged if _concerns([hole], lower, upper)]
    gaps = explained(sorted(dict.fromkeys(missing)), recorded, scan.missed, damaged)
    return Changes(gaps, _history_damages(scan), tuple(found[key] for key in sorted(found)))


def _decisions(
    scan: Scan,
    matches: Callable[[DecisionRecord], bool],
    times: Interval,
    named: str,
    containing: Sequence[bytes],
    limit: int,
) -> Decisions:
    found: dict[str, DecisionRecord] = {}
    oldest = times[0]  # Nothing from before this is wanted any more.
    for block in scan.blocks(
        Series.DECISIONS, partial(_is_within, times), named=named, containing=containing, newest_first=True
    ):
        if block.index.last_at < oldest:
            break
        for record in block.records:
            if isinstance(record, DecisionRecord) and matches(record):
                known = found.get(record.id)
                if known is None or known.at <= record.at:  # A refusal is recorded again, with its count.
                    found[record.id] = record
        if len(found) >= limit > 0:
            oldest = max(oldest, _last(sorted(record.at for record in found.values()), limit)[0])
    records = _last(sorted(found.values(), key=lambda record: (record.at, record.id)), limit)
    lost, left_out = scan.absent(times)
    return Decisions((), scan.find_damages(Series.DECISIONS), tuple(records), lost, left_out)


def _writes(
    scan: Scan,
    matches: Callable[[WriteRecord], bool],
    times: Interval,
    named: str,
    containing: Sequence[bytes],
    limit: int,
) -> WritesAnswer:
    found: dict[tuple[int, str, str, str], WriteRecord] = {}
    for block in scan.blocks(Series.DECISIONS, partial(_is_within, times), named=named, containing=containing):
        for record in block.records:
            if isinstance(record, WriteRecord) and matches(record):
                found[record.revision, record.kind, record.namespace, record.name] = record
    records = _last([found[key] for key in sorted(found)], limit)
    return WritesAnswer((), scan.find_damages(Series.DECISIONS), tuple(records))


def _is_within(times: Interval, index: BlockIndex) -> bool:
    return index.last_at >= times[0] and index.first_at < times[1]


def _last(values: list[T], limit: int) -> list[T]:
    return values[-limit:] if limit > 0 else []


def _selected(objects: Objects, seen: ViewPart) -> Objects:
    if not seen.namespace and not seen.labels:
        return objects
    selector = labels.parse(seen.labels)
    return {
        key: stored
        for key, stored in objects.items()
        if (not seen.namespace or key.namespace == seen.namespace)
        and (not seen.labels or selector.matches(stored.decoded()["metadata"].get("labels") or {}))
    }
