"""Asking a journal for all that a bundle has to have (bundle.py).

The state at the beginning has to be old enough for every decision in the bundle: a cache may have been minutes behind
when it was decided on. So the beginning is the oldest revision in any of their views, if that is older than the time
that was asked for. Decisions may rest on earlier ones of the same component, as the scheduler's do: those of a while
before the beginning are there as well, and what the caller says that they rest on, however old.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from mainstay.api.kinds import BUILTIN
from mainstay.journal.answers import StateAnswer
from mainstay.journal.bundle import SECRETS_MASKED, Contents, Head
from mainstay.journal.interface import Journal
from mainstay.journal.keys import build_key, build_prefix, parse_kind, parse_object_key
from mainstay.journal.record import (
    ChangeRecord,
    DecisionRecord,
    EntryRecord,
    LostRecord,
    MemoryRecord,
    Record,
    SampledRecord,
    micros,
    moment,
)

LEAD: Final = timedelta(minutes=1)
"""How long before the beginning decisions are there as well."""
_NO_LIMIT: Final = 1 << 40
_NAMED_FOR: Final = "core/namespaces/kube-system"
_DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"


@dataclass(frozen=True, slots=True)
class BundleObject:
    """An object that a bundle is made for."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


RestsOn = Callable[[Sequence[DecisionRecord]], Iterable[str]]
"""Says on which earlier decisions, by their ids, some decisions rest."""


def _nothing(decisions: Sequence[DecisionRecord]) -> Iterable[str]:
    return ()


async def gathered(
    journal: Journal,
    *,
    since: datetime,
    until: datetime | None = None,
    build: str,
    made_at: datetime,
    about: Sequence[BundleObject] = (),
    rests_on: RestsOn = _nothing,
) -> Contents:
    """Ask a journal for all that happened between two times, or since one. Raises `JournalUnreachable`.

    With `about`, of the decisions only those about these objects, about what they own and are owned by, and those that
    wrote to any of them. The state and its changes are whole all the same, because a decision may have looked at all.
    """
    ended = micros(until or made_at)
    decided = await journal.decisions(since=since, before=until, limit=_NO_LIMIT)
    happened = await journal.changes(since=since, before=until)
    extent = await journal.extent()
    begins = _beginning(extent.recorded, happened.records, decided.records)
    changes = await journal.changes(after=begins, before=until) if begins else await journal.changes(before=until)
    # The views of its decisions may be older than what it was asked for, and what came before them matters as well.
    first_at = min([micros(since), *(change.at for change in changes.records[:1])])
    early = await journal.decisions(since=moment(first_at) - LEAD, before=since, limit=_NO_LIMIT)
    decisions = [*early.records, *decided.records]
    known = {each.id for each in decisions}
    for name in rests_on(decided.records):
        if name not in known and (older := await journal.decision(name)) is not None:
            decisions.append(older)
    writes = await journal.writes(after=begins, since=moment(first_at) - LEAD, before=until, limit=_NO_LIMIT)
    state = await _state(journal, begins, changes.records)
    entries = [
        EntryRecord(build_key(kind, *key), stored.revision, stored.value)
        for kind, objects in state.kinds.items()
        for key, stored in objects.items()
    ]
    entries = list({entry.key: entry for entry in entries}.values())
    notes: list[LostRecord | SampledRecord] = [*decided.lost, *decided.left_out]
    if about:
        rested_on = set(rests_on(decided.records))
        decisions, left_out = _only(decisions, entries, changes.records, about, rested_on)
        if left_out:
            named = ", ".join(map(str, about))
            notes.append(SampledRecord(micros(since), ended, f"bundle only about {named}", "", left_out))
    head = Head(
        format=1,
        build=build,
        cluster=_cluster(entries, changes.records),
        begins=begins,
        ends=max([begins, *(change.revision for change in changes.records)]),
        since=micros(since),
        until=ended,
        made_at=micros(made_at),
        about=tuple(map(str, about)),
        redactions=(SECRETS_MASKED,),
        gaps=tuple(dict.fromkeys((gap.after, gap.until, str(gap.reason)) for gap in (*state.gaps, *changes.gaps))),
    )
    memories = [memory async for memory in _memories(journal, decisions)]
    records: list[Record] = [*entries, *changes.records, *writes.records, *memories, *decisions, *notes]
    return Contents(head, records)


def _beginning(
    recorded: Sequence[tuple[int, int]], changes: Sequence[ChangeRecord], decisions: Sequence[DecisionRecord]
) -> int:
    """The revision whose state everything is built on: before the first change, and no later than any view."""
    if not recorded:
        return 0
    oldest, latest = recorded[0][0], recorded[-1][1]
    views = [seen.revision for decision in decisions for seen in decision.view if seen.revision]
    first = min([latest, *(change.revision - 1 for change in changes), *views])
    return max(first, oldest)


async def _state(journal: Journal, revision: int, changes: Sequence[ChangeRecord]) -> StateAnswer:
    kinds = {kind.reference.text: revision for kind in BUILTIN}
    if revision:
        defined = await journal.state({_DEFINITIONS: revision})
        for key in defined.kinds[_DEFINITIONS]:
            kinds[key.name] = revision  # The name of a definition is the text of its kind.
    for change in changes:
        kinds.setdefault(parse_kind(change.key), revision)
    by_prefix = {build_prefix(kind): kind for kind in kinds}  # Two kinds may have one place: Events.
    return await journal.state(dict.fromkeys(by_prefix.values(), revision))


def _cluster(entries: Iterable[EntryRecord], changes: Iterable[ChangeRecord]) -> str:
    for key, value in (*((each.key, each.value) for each in entries), *((each.key, each.value) for each in changes)):
        if key == _NAMED_FOR:
            uid = _metadata(value).get("uid")
            if isinstance(uid, str):
                return uid
    return ""


async def _memories(journal: Journal, decisions: Sequence[DecisionRecord]) -> AsyncIterator[MemoryRecord]:
    asked: set[bytes] = set()
    for decision in decisions:
        memory = decision.memory
        if len(memory.inline) == memory.size or memory.digest in asked:
            continue
        asked.add(memory.digest)
        content = await journal.memory(decision)
        if content is not None:
            yield MemoryRecord(decision.component, memory.digest, decision.at, content)


# What a bundle about some objects has.

_Names = set[tuple[str, str, str]]
"""Kind, namespace and name of objects."""


def _only(
    decisions: Sequence[DecisionRecord],
    entries: Iterable[EntryRecord],
    changes: Sequence[ChangeRecord],
    about: Sequence[BundleObject],
    rested_on: set[str],
) -> tuple[list[DecisionRecord], int]:
    """The decisions about these objects and their relatives, or that wrote to one of them, and how many others."""
    related = _relatives({(each.kind, each.namespace, each.name) for each in about}, entries, changes)
    wrote = {change.decision for change in changes if change.decision and _place(change.key) in related}
    kept = [
        each
        for each in decisions
        if each.id in wrote
        or (each.subject.kind, each.subject.namespace, each.subject.name) in related
        or any((write.kind, write.namespace, write.name) in related for write in each.writes)
        or each.id in rested_on
    ]
    return kept, len(decisions) - len(kept)


def _relatives(about: _Names, entries: Iterable[EntryRecord], changes: Iterable[ChangeRecord]) -> _Names:
    """These objects, all that they own, and their owners, but not what else those own."""
    uids: dict[str, tuple[str, str, str]] = {}
    owners: dict[tuple[str, str, str], set[str]] = {}
    for key, value in (*((each.key, each.value) for each in entries), *((each.key, each.value) for each in changes)):
        metadata = _metadata(value)
        place = _place(key)
        if isinstance(uid := metadata.get("uid"), str):
            uids[uid] = place
        for owner in metadata.get("ownerReferences") or ():
            owners.setdefault(place, set()).add(owner.get("uid", ""))
    owned: dict[tuple[str, str, str], list[tuple[str, str, str]]] = {}
    for place, of in owners.items():
        for uid in of:
            if uid in uids:
                owned.setdefault(uids[uid], []).append(place)
    up, down = list(about), list(about)
    found = set(about)
    while up:
        for uid in owners.get(up.pop(), ()):
            if uid in uids and uids[uid] not in found:
                found.add(uids[uid])
                up.append(uids[uid])
    while down:
        for place in owned.get(down.pop(), ()):
            if place not in found:
                found.add(place)
                down.append(place)
    return found


class _OnlyMetadata(msgspec.Struct):
    metadata: dict[str, Any] = {}


_decode_metadata = msgspec.json.Decoder(_OnlyMetadata).decode


def _metadata(value: bytes | None) -> Mapping[str, Any]:
    if value is None:
        return {}
    try:
        return _decode_metadata(value).metadata
    except msgspec.MsgspecError:
        return {}


def _place(key: str) -> tuple[str, str, str]:
    return parse_kind(key), *parse_object_key(key)
