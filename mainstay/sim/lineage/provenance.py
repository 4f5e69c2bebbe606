"""What the good outcomes of a run rest on: followed from the last state of each object back to what users wrote.

An *outcome* is what is there in the end, or is gone: the objects of a kind that have the same owner in the end, or an
object without one. Its *support* are the places (plans.py) on the way there. From a revision it goes

- to the write that made it, and what the object was before;
- to the decision of that write, by the id that the write carries; its record says which objects, at which revisions,
  were looked at, which lists, and what woke it;
- to the deliveries by which the program knew of those revisions, and to these revisions themselves.

The way ends at what was there when the work began, and at writes of users, whom no fault hits. If a program records no
decisions, all that it had been told by then counts as looked at: the support is then larger than need be, never
smaller. Lists are taken as a whole, but for what an index leaves of them.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from mainstay.journal.keys import build_key, build_prefix, is_object
from mainstay.journal.record import DecisionRecord, LookedAt
from mainstay.sim.cluster.history import Event, RequestReceived, RevisionCommitted, WatchDelivered
from mainstay.sim.cluster.world import HEARTBEATS
from mainstay.sim.run.plans import InjectionPoint, PlannedFaults

_LEFT_OUT: Final = (*HEARTBEATS, "core/events/", "events.k8s.io/")
_decode = msgspec.json.Decoder().decode

Read = tuple[str, int]
"""A key, and the revision at which it was seen."""


class LineageOutcome(msgspec.Struct, frozen=True):
    name: str
    support: list[InjectionPoint]
    """In order, without repetition."""


class Lineage:
    """The lineage of one run, from its history since the work began, and the records of its decisions."""

    def __init__(self, events: Sequence[Event], decisions: Iterable[DecisionRecord], planned: PlannedFaults) -> None:
        self._decisions = {record.id: record for record in decisions}
        self._asked: dict[int, RequestReceived] = {}
        self._commits: dict[int, list[RevisionCommitted]] = {}
        self._revisions: dict[str, list[int]] = {}
        """By key, those of this run."""
        self._by_prefix: dict[str, list[str]] = {}
        self._values: dict[Read, bytes] = {}
        self._told: dict[str, list[tuple[int, str, int]]] = {}
        """By program: when, which key and which revision."""
        for event in events:
            self._note(event)
        self._deeds = {deed.request: deed.place for deed in planned.deeds}
        self._tellings = {(each.who, each.key, each.revision): each.place for each in planned.tellings}
        self._known_steps: dict[int, list[tuple[InjectionPoint | None, int]]] = {}

    def outcomes(self) -> list[LineageOutcome]:
        """All that is there or gone because of this run, by name."""
        found: dict[str, list[int]] = {}
        owners = self._owners()
        for key in sorted(self._revisions):
            if key.startswith(_LEFT_OUT):
                continue
            found.setdefault(_name(key, self._last_value(key), owners), []).append(self._revisions[key][-1])
        outcomes = [LineageOutcome(name, list(self.find_support(found[name]))) for name in sorted(found)]
        return [outcome for outcome in outcomes if outcome.support]

    def find_support(self, revisions: Sequence[int]) -> dict[InjectionPoint, None]:
        """All places on the way to some revisions."""
        support: dict[InjectionPoint, None] = {}
        ways, seen = list(revisions), dict.fromkeys(revisions)
        while ways:
            at = ways.pop()
            if at not in self._known_steps:
                self._known_steps[at] = list(dict.fromkeys(self._steps(at)))
            for place, source in self._known_steps[at]:
                if place is not None:
                    support[place] = None
                if source and source not in seen:
                    seen[source] = None
                    ways.append(source)
        return support

    def find_reads(self, who: str) -> dict[Read, None] | None:
        """All that the decisions of a program have looked at. None: it has not recorded all of those that it has acted
        on."""
        reads: dict[Read, None] = {}
        for asked in self._asked.values():
            if asked.who == who and asked.is_write:
                if asked.decision and asked.decision not in self._decisions:
                    return None
                if not asked.decision and asked.request in self._requests():
                    return None
        for asked in self._asked.values():
            if asked.who == who and asked.decision:
                reads.update(dict.fromkeys(self._reads(self._decisions[asked.decision])))
        return reads

    def _requests(self) -> dict[int, None]:
        """Those that have changed more than heartbeats."""
        return {
            commit.request: None
            for commits in self._commits.values()
            for commit in commits
            if commit.request is not None and not commit.key.startswith(_LEFT_OUT)
        }

    def _steps(self, revision: int) -> Iterable[tuple[InjectionPoint | None, int]]:
        """From a revision to what it rests on at once: places, and other revisions of this run, or 0."""
        for commit in self._commits.get(revision, ()):
            revisions = self._revisions[commit.key]
            earlier = bisect_right(revisions, revision - 1)
            yield None, revisions[earlier - 1] if earlier else 0
            asked = None if commit.request is None else self._asked.get(commit.request)
            if asked is None:
                continue
            yield self._deeds.get(asked.request), 0
            for key, seen in self._reads_for(asked):
                if seen in self._commits:
                    yield self._tellings.get((asked.who, key, seen)), seen

    def _reads_for(self, asked: RequestReceived) -> Iterable[Read]:
        record = self._decisions.get(asked.decision) if asked.decision else None
        if record is not None:
            return self._reads(record)
        if asked.request not in self._deeds:
            return ()  # A user's.
        known: dict[str, int] = {}
        for at_ns, key, revision in self._told.get(asked.who, ()):
            if at_ns <= asked.at_ns:
                known[key] = revision
        return known.items()

    def _reads(self, record: DecisionRecord) -> Iterable[Read]:
        upto = {seen.kind: seen.revision for seen in record.view}
        for look in record.looked_at:
            yield from self._looked(look, upto.get(look.kind, look.revision))
        for revision in record.woken_by:
            for commit in self._commits.get(revision, ()):
                yield commit.key, revision

    def _looked(self, look: LookedAt, upto: int) -> Iterable[Read]:
        if look.name:
            if look.revision:
                yield build_key(look.kind, look.namespace, look.name), look.revision
            return
        value = look.value.encode()
        prefix = build_prefix(look.kind)
        within = f"{prefix}{look.namespace}/" if look.namespace else prefix
        for key in self._by_prefix.get(prefix, ()):
            revisions = self._revisions[key]
            number = bisect_right(revisions, upto)
            if not number or not key.startswith(within):
                continue
            seen = self._values.get((key, revisions[number - 1]), b"")
            if not look.index or value in seen:
                yield key, revisions[number - 1]

    def _note(self, event: Event) -> None:
        if isinstance(event, RequestReceived):
            self._asked[event.request] = event
        elif isinstance(event, WatchDelivered) and event.key:
            self._told.setdefault(event.who, []).append((event.at_ns, event.key, event.revision))
        elif isinstance(event, RevisionCommitted) and is_object(event.key):
            self._commits.setdefault(event.revision, []).append(event)
            if event.key not in self._revisions:
                group, plural, _ = event.key.split("/", 2)
                self._by_prefix.setdefault(f"{group}/{plural}/", []).append(event.key)
            self._revisions.setdefault(event.key, []).append(event.revision)
            value = event.value if event.value is not None else event.previous
            if value is not None:
                self._values[(event.key, event.revision)] = value

    def _last_value(self, key: str) -> Mapping[str, Any]:
        value = self._values.get((key, self._revisions[key][-1]))
        return {} if value is None else dict(_decode(value))

    def _owners(self) -> dict[str, Mapping[str, Any]]:
        """The metadata of all that was ever there in this run, by uid."""
        found = {}
        for value in self._values.values():
            metadata = _decode(value).get("metadata") or {}
            if "uid" in metadata:
                found[str(metadata["uid"])] = metadata
        return found


def _name(key: str, obj: Mapping[str, Any], owners: Mapping[str, Mapping[str, Any]]) -> str:
    """What an outcome is called in each run: objects that are made for an owner may have other names."""
    metadata = obj.get("metadata") or {}
    root = ""
    for _ in range(len(owners) + 1):
        uid = next((str(each["uid"]) for each in metadata.get("ownerReferences") or () if each.get("controller")), "")
        if uid not in owners:
            break
        metadata = owners[uid]
        root = str(metadata.get("name", ""))
    if not root:
        return key
    return f"{key.rpartition('/')[0]} of {root}"
