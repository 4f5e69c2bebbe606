"""One question, and what was read of the journal for it: each thing once, and nothing from after the moment.

Everything that is missing is noted in `gaps`, in words.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import EVENTS
from mainstay.api.kinds import BUILTIN
from mainstay.api.owners import find_controller
from mainstay.explain.holds import HoldFound, holds_on
from mainstay.explain.moment import Moment
from mainstay.explain.rebuild import RebuiltObjects
from mainstay.explain.why.found import NOTHING
from mainstay.explain.writers import JournalLookup, Version, find_reason
from mainstay.journal.record import ChangeRecord, DecisionRecord

RECORDS_MAX: Final = 300  # Of decisions about one object. What was decided before has led to what is there now.
_A_MOMENT: Final = timedelta(microseconds=1)

if TYPE_CHECKING:
    from mainstay.explain.registry import Rooms
    from mainstay.explain.why.found import Finding
    from mainstay.explain.why.trouble import Trouble

OWNER_KINDS: Final = {(kind.reference.group, kind.reference.kind): kind.reference for kind in BUILTIN}
"""By group and kind, as a reference to an owner names them."""


class _Quick(JournalLookup):
    """Reads no more than has to be read for one object. Why each version was written is looked up when it is told."""

    async def learn(self, decisions: Iterable[str]) -> None:
        """Whose decision it was is in its name."""


class Case:
    """Make one with `Case.at`. `rooms` has those who know about other kinds."""

    def __init__(self, at: Moment, rooms: "Rooms", is_latest: bool) -> None:
        self.moment = at
        self.rooms = rooms
        self.journal = at.journal
        self.is_latest = is_latest
        self.known = _Quick(at.journal, at.revision)
        self.gaps: dict[str, None] = {}
        self.notes: dict[str, None] = {}
        self._records: dict[tuple[str, str, str], list[DecisionRecord]] = {}
        self._versions: dict[tuple[str, str, str], list[Version]] = {}
        self._owned: dict[KindName, dict[str, list[Object]]] = {}
        self._since: dict[tuple[str, int], tuple[ChangeRecord, ...]] = {}
        self.past = RebuiltObjects(at.journal)
        """What was rebuilt of views so far: those of several pods are nearly the same."""
        self.memo: dict[str, Any] = {}
        """For others who answer the same question several times."""

    @classmethod
    async def at(cls, at: Moment, rooms: "Rooms") -> "Case":
        extent = await at.journal.extent()
        return cls(at, rooms, at.revision >= extent.reached)

    @property
    def now(self) -> datetime:
        return self.moment.at

    @property
    def before(self) -> datetime | None:
        """No decision from then on counts. Of the present all do: clocks of components and servers differ a little."""
        return None if self.is_latest else self.moment.at + _A_MOMENT

    async def records(self, kind: str, namespace: str, name: str, uid: str = "") -> list[DecisionRecord]:
        """The decisions about an object, in the order of their times. With `uid`, only about that very object."""
        key = (kind, namespace, name)
        if key not in self._records:
            found = await self.journal.decisions(
                kind=kind, namespace=namespace, name=name, before=self.before, limit=RECORDS_MAX
            )
            self._records[key] = list(found.records)
            lost = sum(each.records for each in found.lost)
            if lost:
                self.gaps[f"the journal dropped {lost} decisions of that time: it was overloaded"] = None
            for damage in found.damages:
                self.gaps[str(damage)] = None
        return [each for each in self._records[key] if not uid or each.subject.uid in ("", uid)]

    async def versions(self, kind: str, namespace: str, name: str) -> list[Version]:
        """What was written to an object, the oldest first."""
        key = (kind, namespace, name)
        if key not in self._versions:
            self._versions[key] = await self.known.versions(kind, namespace, name)
        return self._versions[key]

    async def reasoned(self, version: Version) -> Version:
        """The same, with why its writer wrote it, if that was recorded."""
        decision = version.who.decision
        if not decision or version.who.reason:
            return version
        record = await self.journal.decision(decision)
        if record is None:
            return version
        who = replace(version.who, component=record.component, name=record.component, reason=find_reason(record))
        return replace(version, who=who)

    async def changed_since(self, kind: str, revision: int) -> tuple[ChangeRecord, ...]:
        """What was written to a kind after a revision, up to the moment."""
        key = (kind, revision)
        if key not in self._since:
            found = await self.journal.changes(kind=kind, after=revision, until=self.moment.revision)
            self._since[key] = found.records
        return self._since[key]

    async def holds(self, kind: KindName, name: str, namespace: str = "") -> tuple[HoldFound, ...]:
        return await holds_on(self.moment, self.rooms, kind, name, namespace)

    async def hold_up(self, kind: KindName, obj: Object, words: str, old: str = "") -> "Finding | None":
        """Why an object has not all its pods ready, in the words of its owner. None: it has, or no room knows."""
        known = self.rooms.hold_up(kind)
        return None if known is None else await known(self, obj, words, old)

    async def find_trouble(self, node: str) -> "Trouble | None":
        """What is wrong with a node. None: nothing, as far as is known."""
        return await self.rooms.nodes().find_trouble(self, node)

    async def in_trouble(self, nodes: Iterable[str]) -> frozenset[str]:
        """Those nodes that something may be wrong with."""
        return await self.rooms.nodes().in_trouble(self, nodes)

    async def get(self, kind: KindName, name: str, namespace: str = "") -> Object | None:
        return await self.moment.get(kind, name, namespace)

    async def all(self, kind: KindName) -> list[Object]:
        return await self.moment.all(kind)

    async def owned(self, kind: KindName, uid: str) -> list[Object]:
        """The objects of a kind that are controlled by this one."""
        if kind not in self._owned:
            by_owner: dict[str, list[Object]] = {}
            for each in await self.all(kind):
                reference = find_controller(each)
                if reference is not None:
                    by_owner.setdefault(reference.get("uid", ""), []).append(each)
            self._owned[kind] = by_owner
        return self._owned[kind].get(uid, [])

    async def find_owner(self, obj: Object) -> tuple[KindName, Object | None, str] | None:
        """Who controls an object: the kind, the owner if it is there, and its name. None: none that is known."""
        reference = find_controller(obj)
        if reference is None:
            return None
        group = str(reference.get("apiVersion") or "").rpartition("/")[0]
        kind = OWNER_KINDS.get((group, str(reference.get("kind"))))
        if kind is None:
            return None
        owner = await self.get(kind, reference["name"], obj["metadata"].get("namespace") or "")
        if owner is not None and owner["metadata"].get("uid") != reference.get("uid"):
            owner = None
        return kind, owner, str(reference["name"])

    async def events(self, obj: Object, reasons: Iterable[str] = ()) -> list[Object]:
        """Events about an object, the latest last; only those with these reasons."""
        uid, wanted = (obj.get("metadata") or NOTHING).get("uid"), frozenset(reasons)
        found = [
            each
            for each in await self.all(EVENTS)
            if (each.get("involvedObject") or NOTHING).get("uid") == uid
            and (not wanted or each.get("reason") in wanted)
        ]
        return sorted(found, key=lambda each: (_last_time(each), each["metadata"].get("name", "")))

    def miss(self) -> tuple[str, ...]:
        """All that is known to be missing."""
        gaps = dict.fromkeys(str(each) for each in (*self.moment.gaps, *self.known.gaps))
        return tuple({**gaps, **self.gaps})


def _last_time(event: Object) -> str:
    series = event.get("series") or NOTHING
    return str(
        series.get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp")
        or ""
    )
