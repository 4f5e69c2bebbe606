"""What mattered to a scheduler's decisions about a pod: what they had not seen, and what turned a no into a yes.

Other objects are written all the time: quotas, nodes, reservations, policies. Of these writes a story tells those that
made a difference, which is tried: the decision is replayed with one of them (refusals.py). Where that cannot be done,
those are told that woke the pod, without a claim that they were the cause.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from mainstay.api.kind_names import NODES, PLACEMENT_POLICIES, PODS, RESERVATIONS, RESOURCE_QUOTAS, ZONE_QUOTAS
from mainstay.explain.placements import recorded_words
from mainstay.explain.story.lines import Stale, StoryLink, StoryObject
from mainstay.explain.story.render import OBSERVED_LATE
from mainstay.explain.writers import JournalLookup, Version
from mainstay.journal.keys import parse_kind, parse_object_key
from mainstay.journal.record import ChangeRecord, DecisionRecord
from mainstay.scheduler.reasons import RefusalReason
from mainstay.scheduler.why.refusals import Placing, placing, refusal_words, turned_by, would_place

AGAIN_MAX: Final = 40
"""Decisions that are replayed for one story."""
LOOKED_AT_MAX: Final = 400
"""Writes to other objects that are looked at for one story."""
CANDIDATES_MAX: Final = 40
"""Of them, for one decision: the latest."""
READ_BY_SCHEDULERS: Final = (ZONE_QUOTAS.text, NODES.text, RESERVATIONS.text, PLACEMENT_POLICIES.text)
"""Besides pods, of which there are too many changes to look at each."""
MATTERS: Final = (*READ_BY_SCHEDULERS, RESOURCE_QUOTAS.text)

_LATE_US: Final = OBSERVED_LATE // timedelta(microseconds=1)


class Relevance:
    """For one story. `records` are all its placements."""

    def __init__(self, known: JournalLookup, records: Iterable[DecisionRecord]) -> None:
        self._known = known
        self._after = min((each.revision for record in records for each in record.view), default=0)
        self.related: dict[int, Version] = {}
        """The writes that are worth telling, by revision."""
        self._changes: dict[str, Sequence[ChangeRecord]] = {}
        self._looked_at: dict[int, Version | None] = {}
        self._made: dict[str, Placing | None] = {}
        self._words: dict[tuple[str, tuple[str, ...], str], tuple[str, ...]] = {}

    async def policies(self, begins: int, records: Iterable[DecisionRecord]) -> None:
        """The policies that were changed meanwhile, in the versions that decisions went by."""
        seen = dict.fromkeys((each.kind, each.name, each.revision) for record in records for each in record.policies)
        for kind, name, revision in seen:
            if revision > begins and (version := await self._known.version(kind, "", name, revision)):
                self.related[revision] = version

    async def refusals(self, record: DecisionRecord) -> tuple[str, ...]:
        """Why a pod got no node: filter by filter, by deciding again; else in the record's own words."""
        # Equal messages name the same nodes and numbers, so of many pods that wait for the same, one is enough.
        # They do not name the labels that a pod asks for.
        asks_for_labels = any(each.partition(" ")[0] == RefusalReason.NODE_AFFINITY for each in record.reasons)
        of = record.subject.name if asks_for_labels else ""
        alike = (record.outcome.message, record.reasons, of)
        if alike not in self._words:
            made = await self._made_again(record)
            if made is None or not made.is_same:
                return recorded_words(record)
            self._words[alike] = refusal_words(made.refusals, made.nodes, made.scheduling.pod)
        return self._words[alike]

    async def _made_again(self, record: DecisionRecord) -> Placing | None:
        """A replayed decision; None if it is not replayable, or too many were."""
        if record.id not in self._made:
            if len(self._made) >= AGAIN_MAX:
                text = f"only {AGAIN_MAX} decisions were replayed; others are shown as recorded"
                self._known.notes[text] = None
                return None
            self._made[record.id] = await placing(self._known.journal, record, self._known.past)
        return self._made[record.id]

    async def stale(self, record: DecisionRecord, *, is_refusal: bool) -> tuple[Stale, ...]:
        """What had changed before a decision that it had not seen: if it was late, or would have turned it."""
        found: list[Stale] = []
        now = record.now or record.at
        for seen in record.view:
            if seen.kind not in READ_BY_SCHEDULERS:
                continue
            missed = [each for each in await self._since(seen.kind, seen.revision) if each.at <= now]
            is_late = bool(missed) and now - missed[0].at >= _LATE_US
            if not missed or not (is_refusal or is_late):
                continue
            versions = [each for change in missed[-CANDIDATES_MAX:] if (each := await self._relevant(change))]
            made = await self._made_again(record) if versions and is_refusal else None
            is_decisive = made is not None and made.is_same and bool(would_place(made, versions))
            if not versions or not (is_late or is_decisive):
                continue
            self.related |= {each.revision: each for each in versions}
            behind_ms = (now - missed[0].at) // 1000
            names = tuple(dict.fromkeys(StoryObject(each.kind, each.key.name).words for each in versions))
            stale = Stale(seen.kind, seen.revision, missed[-1].revision, behind_ms, names)
            found.append(replace(stale, is_decisive=is_decisive))
        return tuple(found)

    async def turned(self, refused: DecisionRecord, record: DecisionRecord) -> list[StoryLink]:
        """What turned a refusal into a placement: writes that the second has seen and the first had not."""
        had, has = _view(refused), _view(record)
        versions: dict[int, Version] = {}
        for kind in READ_BY_SCHEDULERS:
            if kind in has:
                later = await self._since(kind, had.get(kind, 0))
                for change in [each for each in later if each.revision <= has[kind]][-CANDIDATES_MAX:]:
                    if version := await self._relevant(change):
                        versions[version.revision] = version
        for revision in record.woken_by:
            if revision not in versions and (woke := await self._woke(revision)):
                versions[revision] = woke
        made = await self._made_again(refused) if versions else None
        turned = turned_by(made, list(versions.values())) if made is not None else []
        told = turned or [each for each in versions.values() if each.revision in record.woken_by]
        self.related |= {each.revision: each for each in told}
        return [
            StoryLink(
                f"{StoryObject(each.kind, each.key.name).words}@{each.revision}",
                revision=each.revision,
                is_verified=bool(turned),
            )
            for each in told
        ]

    async def _since(self, kind: str, revision: int) -> Sequence[ChangeRecord]:
        """The changes of a kind after a revision."""
        if kind not in self._changes:
            answer = await self._known.journal.changes(kind=kind, after=self._after, until=self._known.until)
            self._known.gaps |= dict.fromkeys(answer.gaps)
            self._changes[kind] = answer.records
        changes = self._changes[kind]
        return changes[bisect_right(changes, revision, key=lambda each: each.revision) :]

    async def _relevant(self, change: ChangeRecord) -> Version | None:
        """A write to another object that may have mattered; None: it only reports, or too many were looked at."""
        revision = change.revision
        if revision not in self._looked_at:
            if len(self._looked_at) >= LOOKED_AT_MAX:
                self._known.notes[f"only {LOOKED_AT_MAX} writes to other objects were examined"] = None
                return None
            where = parse_object_key(change.key)
            version = await self._known.version(parse_kind(change.key), where.namespace, where.name, revision)
            self._looked_at[revision] = version if version is not None and matters(version) else None
        return self._looked_at[revision]

    async def _woke(self, revision: int) -> Version | None:
        if revision not in self._looked_at:
            self._looked_at[revision] = None
            answer = await self._known.journal.changes(after=revision - 1, until=revision)
            for change in answer.records:
                kind, where = parse_kind(change.key), parse_object_key(change.key)
                if kind == PODS.text or kind in MATTERS:
                    self._looked_at[revision] = await self._known.version(kind, where.namespace, where.name, revision)
        return self._looked_at[revision]


def find_relevance(known: JournalLookup, records: Sequence[DecisionRecord]) -> Relevance:
    """For the placements of one story."""
    return Relevance(known, records)


def matters(version: Version) -> bool:
    """Whether a write changes what is decided from, rather than only reports."""
    if version.kind not in MATTERS:
        return False
    if version.before is None or version.after is None:
        return True
    return any(_is_input(version.kind, change.path) for change in version.changes)


def _is_input(kind: str, path: tuple[str, ...]) -> bool:
    match path:
        case ("spec", *_) | ("metadata", "labels", *_):
            return True
        case ("status", "allocatable", *_):
            return kind == NODES.text
        case ("status", "phase" | "state", *_):
            return kind in (RESERVATIONS.text, PLACEMENT_POLICIES.text)
    return False


def _view(record: DecisionRecord) -> dict[str, int]:
    return {seen.kind: seen.revision for seen in record.view}
