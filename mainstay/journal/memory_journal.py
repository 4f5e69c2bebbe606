"""A journal that is all in memory: of a simulated run, of an opened bundle, or put together in a test.

It begins with a state, and has every change after it. `change`, `decided` and `wrote` add to it, in the order of
revisions; nothing is ever forgotten.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from mainstay.journal.answers import Changes, Decisions, Extent, Objects, StateAnswer, StoredVersion, WritesAnswer
from mainstay.journal.coverage import Gap, explained, holes
from mainstay.journal.keys import build_key, build_prefix, parse_kind, parse_object_key
from mainstay.journal.record import (
    ChangeRecord,
    DecisionRecord,
    EntryRecord,
    LostRecord,
    MemoryRecord,
    SampledRecord,
    WriteRecord,
    micros,
)

_FOREVER = 1 << 62


class MemoryJournal:
    """Implements `Journal` (interface.py)."""

    def __init__(self, begins: int = 0, entries: Iterable[EntryRecord] = (), missing: Sequence[Gap] = ()) -> None:
        """Begin after a revision, at which there was this. `missing` is what is not there of what comes after it."""
        self.begins = begins
        self.lost: list[LostRecord] = []
        self.left_out: list[SampledRecord] = []
        self._missing = tuple(missing)
        self._reached = begins
        self._entries = {entry.key: entry for entry in entries}
        self._changes: list[ChangeRecord] = []
        self._by_key: dict[str, list[ChangeRecord]] = {}
        self._by_prefix: dict[str, dict[str, None]] = {}
        self._decisions: dict[str, DecisionRecord] = {}
        self._about: dict[tuple[str, str, str], list[DecisionRecord]] = {}
        self._writes: list[WriteRecord] = []
        self._memories: dict[bytes, bytes] = {}
        for key in self._entries:
            self._by_prefix.setdefault(_prefix(key), {})[key] = None

    # Adding.

    def change(self, record: ChangeRecord) -> None:
        self._changes.append(record)
        self._by_key.setdefault(record.key, []).append(record)
        self._by_prefix.setdefault(_prefix(record.key), {})[record.key] = None
        self._reached = max(self._reached, record.revision)

    def reached(self, revision: int) -> None:
        """All changes up to a revision have been added."""
        self._reached = max(self._reached, revision)

    def decided(self, record: DecisionRecord) -> None:
        if record.id not in self._decisions:
            subject = record.subject
            self._about.setdefault((subject.kind, subject.namespace, subject.name), []).append(record)
        self._decisions[record.id] = record

    def wrote(self, record: WriteRecord) -> None:
        self._writes.append(record)

    def remember(self, record: MemoryRecord) -> None:
        self._memories[record.digest] = record.content

    # Asking.

    async def extent(self) -> Extent:
        first, last = (self._changes[0].at, self._changes[-1].at) if self._changes else (0, 0)
        return Extent((), (), ((self.begins, self._reached),), first, last)

    async def state(self, vector: Mapping[str, int]) -> StateAnswer:
        return StateAnswer(
            self._gaps(vector.values()), (), {kind: self._objects(kind, vector[kind]) for kind in vector}, 0
        )

    async def changes(
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
        first, last = _times(since, before)
        candidates = self._changes
        if kind and name and namespace is not None:
            candidates = self._by_key.get(build_key(kind, namespace, name), [])
        prefix = build_prefix(kind) if kind else ""
        found = [
            each
            for each in candidates
            if after < each.revision
            and (until is None or each.revision <= until)
            and first <= each.at < last
            and each.key.startswith(prefix)
            and (not decision or each.decision == decision)
            and _is_at(each.key, namespace, name)
        ]
        gaps = self._gaps([each for each in (after, until) if each])
        return Changes(gaps, (), tuple(found))

    async def decision(self, decision: str) -> DecisionRecord | None:
        return self._decisions.get(decision)

    async def decisions(
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
        first, last = _times(since, before)
        candidates: Iterable[DecisionRecord] = self._decisions.values()
        if kind and name and namespace is not None:
            candidates = [self._decisions[each.id] for each in self._about.get((kind, namespace, name), ())]
        found = [
            each
            for each in candidates
            if first <= each.at < last
            and (not kind or each.subject.kind == kind)
            and (namespace is None or each.subject.namespace == namespace)
            and (not name or each.subject.name == name)
            and (not uid or each.subject.uid == uid)
            and (not component or each.component == component)
        ]
        lost = tuple(each for each in self.lost if each.until >= first and each.since < last)
        left_out = tuple(each for each in self.left_out if each.until >= first and each.since < last)
        return Decisions((), (), tuple(sorted(found, key=lambda each: (each.at, each.id))[-limit:]), lost, left_out)

    async def writes(
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
        first, last = _times(since, before)
        found = [
            each
            for each in self._writes
            if after < each.revision
            and (until is None or each.revision <= until)
            and first <= each.at < last
            and (not kind or each.kind == kind)
            and (namespace is None or each.namespace == namespace)
            and (not name or each.name == name)
        ]
        return WritesAnswer((), (), tuple(sorted(found, key=lambda each: each.revision)[-limit:]))

    async def memory(self, record: DecisionRecord) -> bytes | None:
        memory = record.memory
        return memory.inline if len(memory.inline) == memory.size else self._memories.get(memory.digest)

    # All of it, to keep or copy it.

    def records(self, wanted: Callable[[DecisionRecord], bool] = lambda _: True) -> list[DecisionRecord]:
        """All decisions, in the order in which they were added."""
        return [each for each in self._decisions.values() if wanted(each)]

    def last_state(self) -> list[EntryRecord]:
        """All that there is at its end, in the order of keys."""
        found = dict(self._entries)
        for change in self._changes:
            if change.value is None:
                found.pop(change.key, None)
            else:
                found[change.key] = EntryRecord(change.key, change.revision, change.value)
        return [found[key] for key in sorted(found)]

    # Inside.

    def _objects(self, kind: str, revision: int) -> Objects:
        found: Objects = {}
        for key in sorted(self._by_prefix.get(build_prefix(kind), ())):
            changes = self._by_key.get(key, [])
            number = bisect_right(changes, revision, key=lambda each: each.revision)
            if number:
                last = changes[number - 1]
                if last.value is not None:
                    found[parse_object_key(key)] = StoredVersion(last.revision, last.value)
            elif key in self._entries:
                entry = self._entries[key]
                found[parse_object_key(key)] = StoredVersion(entry.revision, entry.value)
        return found

    def _gaps(self, revisions: Iterable[int]) -> tuple[Gap, ...]:
        asked = list(revisions)
        if not asked:
            return ()
        recorded = [(self.begins, self._reached)]
        needed = (min(min(asked), self.begins), max(max(asked), self.begins))
        known = tuple(gap for gap in self._missing if gap.after < needed[1] and gap.until > needed[0])
        return (*explained(holes(needed, recorded), recorded, (), ()), *known)


def _prefix(key: str) -> str:
    return build_prefix(parse_kind(key))


def _times(since: datetime | None, before: datetime | None) -> tuple[int, int]:
    return micros(since) if since else 0, micros(before) if before else _FOREVER


def _is_at(key: str, namespace: str | None, name: str) -> bool:
    if namespace is None and not name:
        return True
    where = parse_object_key(key)
    return (not name or where.name == name) and (namespace is None or where.namespace == namespace)
