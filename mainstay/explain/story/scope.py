"""Which objects a story follows: what an object owns, what owns it, and the writes that led to its being there.

Owned objects are found in the state at the beginning and at the end, and among what the decisions about their owner
have written in between: so also those that came and went.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.object_key import ObjectKey
from mainstay.api.workloads import OWNED, find_owner_kind
from mainstay.explain.writers import JournalLookup, Version, parse_cause
from mainstay.journal.record import DecisionRecord

ANCESTORS_MAX: Final = 8
DECISIONS_OF_ONE: Final = 2_000


class FollowedObject(NamedTuple):
    """An object that is followed."""

    kind: str
    namespace: str
    name: str
    uid: str


class Family:
    """Finds owners and what they own, for one question."""

    def __init__(self, known: JournalLookup, begins: int, since: datetime | None) -> None:
        """From a revision on, and from a time on."""
        self._known = known
        self._begins = begins
        self._since = since
        self._records: dict[FollowedObject, Sequence[DecisionRecord]] = {}

    async def decisions(self, who: FollowedObject) -> Sequence[DecisionRecord]:
        """The decisions about an object since the beginning."""
        if who not in self._records:
            answer = await self._known.journal.decisions(
                kind=who.kind, namespace=who.namespace, name=who.name, since=self._since, limit=DECISIONS_OF_ONE
            )
            self._records[who] = answer.records
            for record in answer.records:
                self._known.decisions[record.id] = record
            if lost := sum(each.records for each in answer.lost):
                self._known.notes[f"the journal dropped {lost} decisions of that time: it was overloaded"] = None
            if len(answer.records) >= DECISIONS_OF_ONE:
                text = f"only the last {DECISIONS_OF_ONE} decisions about {who.kind} {who.name} are shown"
                self._known.notes[text] = None
        return self._records[who]

    async def owned(self, owner: FollowedObject) -> list[FollowedObject]:
        """What an object owns or has owned, sorted by name. Recreated objects of one name are each there."""
        kind = OWNED.get(owner.kind)
        if kind is None:
            return []
        found: dict[FollowedObject, None] = {}
        for revision in dict.fromkeys((self._begins, self._known.until)):
            states, gaps = await self._known.past.objects({kind.text: revision})
            self._known.gaps |= dict.fromkeys(gaps)
            mark = owner.uid.encode()
            for key, stored in states[kind.text].items():
                if key.namespace == owner.namespace and mark in stored.value and is_owned(stored.decoded(), owner):
                    found[_followed(kind.text, key, stored.decoded())] = None
        for name in await self._written(owner, kind):
            for version in await self._known.versions(kind.text, owner.namespace, name, after=self._begins):
                if is_owned(version.object, owner):
                    found[_followed(kind.text, version.key, version.object)] = None
        return sorted(found)

    async def _written(self, owner: FollowedObject, kind: KindName) -> list[str]:
        """Names of objects of a kind that decisions about the owner have made or removed."""
        names: dict[str, None] = {}
        for record in await self.decisions(owner):
            for action in record.actions:
                if action.kind == kind.text and action.verb in ("create", "apply", "delete"):
                    names[action.name] = None
        return sorted(names)

    async def owners(self, obj: Object, namespace: str) -> list[FollowedObject]:
        """Who owns an object, and who owns that, the nearest first."""
        found: list[FollowedObject] = []
        while len(found) < ANCESTORS_MAX:
            references = obj["metadata"].get("ownerReferences") or ()
            reference = next((each for each in references if each.get("controller")), None)
            kind = find_owner_kind(reference) if reference is not None else None
            if reference is None or kind is None:
                break
            owner = FollowedObject(kind.text, namespace, reference["name"], reference.get("uid", ""))
            found.append(owner)
            last = await self._last(owner)
            if last is None:
                break
            obj = last
        return found

    async def _last(self, who: FollowedObject) -> Object | None:
        """The object as it was last known; None if it never was."""
        states, _ = await self._known.past.objects({who.kind: self._known.until})
        stored = states[who.kind].get(ObjectKey(who.namespace, who.name))
        if stored is not None and stored.decoded()["metadata"].get("uid") == who.uid:
            return stored.decoded()
        versions = await self._known.versions(who.kind, who.namespace, who.name)
        mine = [each.object for each in versions if each.object["metadata"].get("uid") == who.uid]
        return mine[-1] if mine else None


async def ancestors(known: JournalLookup, version: Version) -> list[Version]:
    """The writes that led to a version, the nearest first: what the decision that wrote it had read, and so on."""
    found: list[Version] = []
    while len(found) < ANCESTORS_MAX:
        cause = parse_cause(version.cause)
        if cause is None:
            break
        before = await known.version(*cause)
        if before is None or before.revision >= version.revision:
            break
        found.append(before)
        version = before
    return found


def is_owned(obj: Object, owner: FollowedObject) -> bool:
    return any(each.get("uid") == owner.uid for each in obj["metadata"].get("ownerReferences") or ())


def _followed(kind: str, key: ObjectKey, obj: Object) -> FollowedObject:
    return FollowedObject(kind, key.namespace, key.name, obj["metadata"].get("uid", ""))
