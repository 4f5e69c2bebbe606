"""Who wrote a version of an object, and the versions that an object has had.

Three things say who: the change itself names the decision that it came from; the server's record of the request names
the user, the program and the manager of fields; and the object's own `managedFields` name the manager, also of writes
that are older than the journal. What is missing of them is left empty, never guessed.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from mainstay.api import times
from mainstay.api.kind import Object
from mainstay.api.object_key import ObjectKey
from mainstay.api.system_users import find_node
from mainstay.explain.fields import FieldChange, differences
from mainstay.explain.rebuild import RebuiltObjects
from mainstay.journal.coverage import Gap
from mainstay.journal.interface import Journal
from mainstay.journal.keys import parse_kind, parse_object_key
from mainstay.journal.record import ChangeRecord, DecisionRecord, WriteRecord, moment

DECISIONS_MAX: Final = 500  # Looked up one by one, for one question.
JUST_NOW: Final = timedelta(seconds=2)

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Who(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Who asked for a write, as far as it is known."""

    name: str
    """The one word for it: the component that decided, else the user, else the manager of the fields."""
    component: str = ""
    decision: str = ""
    reason: str = ""
    """Why, in the words of the decision."""
    user: str = ""
    manager: str = ""
    agent: str = ""
    verb: str = ""
    subresource: str = ""
    audit: str = ""
    trace: str = ""
    mutations: tuple[str, ...] = ()
    """The admission policies that have changed what was sent, as `name@revision`."""


UNKNOWN_WHO: Final = Who("unknown")
SERVER: Final = "server"
"""Who writes without being asked: what is used of quotas, for instance."""


class Version(msgspec.Struct, frozen=True):
    """One version of an object, and the one before it. None: it was not there, or is not there any more."""

    kind: str
    key: ObjectKey
    revision: int
    at: datetime
    before: Object | None
    after: Object | None
    who: Who
    cause: str
    """What the decision had read, as `kind/namespace/name@revision`."""
    is_first_known: bool = False
    """The journal does not go back to the version before, so what this one has changed is not known."""
    mutated: tuple[bytes, ...] = ()
    """For each of `who.mutations`, the fields that it has changed (journal/record.py)."""

    @property
    def changes(self) -> list[FieldChange]:
        return [] if self.is_first_known else differences(self.before, self.after)

    @property
    def object(self) -> Object:
        found = self.after if self.after is not None else self.before
        return found or {"metadata": {"name": self.key.name, "namespace": self.key.namespace}}


class JournalLookup:
    """What has been read of a journal for one question: decisions and requests, each only once."""

    def __init__(self, journal: Journal, until: int) -> None:
        """`until`: nothing after this revision counts."""
        self.journal = journal
        self.until = until
        self.gaps: dict[Gap, None] = {}
        self.notes: dict[str, None] = {}
        """What is not known, in words."""
        self.decisions: dict[str, DecisionRecord | None] = {}
        self.past = RebuiltObjects(journal)
        self._versions: dict[tuple[object, ...], list[Version]] = {}
        self._begins: int | None = None
        self._asked = 0

    async def versions(
        self,
        kind: str,
        namespace: str,
        name: str,
        *,
        since: datetime | None = None,
        after: int = 0,
        until: int | None = None,
    ) -> list[Version]:
        """The versions of an object, the oldest first; those after a time or a revision, up to another."""
        until = self.until if until is None else min(until, self.until)
        asked = (kind, namespace, name, since, after, until)
        if asked not in self._versions:
            self._versions[asked] = await self._read(kind, namespace, name, since, after, until)
        return self._versions[asked]

    async def _read(
        self, kind: str, namespace: str, name: str, since: datetime | None, after: int, until: int
    ) -> list[Version]:
        found = await self.journal.changes(
            kind=kind, namespace=namespace, name=name, after=after, until=until, since=since
        )
        self.gaps |= dict.fromkeys(found.gaps)
        if not found.records:
            return []
        requests = await self.journal.writes(
            kind=kind, namespace=namespace, name=name, after=after, until=until, since=since
        )
        by_revision = {each.revision: each for each in requests.records}
        await self.learn(each.decision for each in found.records)
        before, is_known = await self._before(kind, namespace, name, found.records[0])
        return self._joined(found.records, before, is_known, by_revision)

    async def version(self, kind: str, namespace: str, name: str, revision: int) -> Version | None:
        """What one revision did to an object; None if the journal does not have it."""
        found = await self.versions(kind, namespace, name, after=revision - 1, until=revision)
        return found[-1] if found else None

    async def learn(self, decisions: Iterable[str]) -> None:
        """Look up decisions by their ids, as far as that is not too many."""
        for decision in decisions:
            if decision and decision not in self.decisions:
                if self._asked >= DECISIONS_MAX:
                    self.notes[f"only {DECISIONS_MAX} decisions were looked up; others are shown by name only"] = None
                    return
                self._asked += 1
                self.decisions[decision] = await self.journal.decision(decision)

    async def _before(self, kind: str, namespace: str, name: str, first: ChangeRecord) -> tuple[Object | None, bool]:
        """What there was before a change; and whether that is known at all."""
        earlier = await self.journal.changes(kind=kind, namespace=namespace, name=name, until=first.revision - 1)
        if earlier.records:
            last = earlier.records[-1]
            return None if last.value is None else with_revision(_decode(last.value), last.revision), True
        if _is_new(first):
            return None, True
        # It was there before the journal began. The state of then is read once for all objects of a kind.
        if self._begins is None:
            extent = await self.journal.extent()
            self._begins = extent.recorded[0][0] if extent.recorded else 0
        states, gaps = await self.past.objects({kind: self._begins})
        stored = states[kind].get(ObjectKey(namespace, name))
        return (None, not gaps) if stored is None else (stored.decoded(), True)

    def _joined(
        self,
        records: Sequence[ChangeRecord],
        before: Object | None,
        is_known: bool,
        requests: Mapping[int, WriteRecord],
    ) -> list[Version]:
        made = []
        for record in records:
            after = None if record.value is None else with_revision(_decode(record.value), record.revision)
            request = requests.get(record.revision)
            who = who_wrote(record, before, after, request, self.decisions.get(record.decision))
            if who.name == UNKNOWN_WHO.name and requests:
                who = Who(SERVER)  # Others asked, and it was none of them.
            made.append(
                Version(
                    parse_kind(record.key),
                    parse_object_key(record.key),
                    record.revision,
                    moment(record.at),
                    before,
                    after,
                    who,
                    record.cause,
                    is_first_known=not is_known,
                    mutated=() if request is None else request.mutated,
                )
            )
            before, is_known = after, True
        return made


def _is_new(change: ChangeRecord) -> bool:
    """Whether a change has just made its object, by the time that the object says itself."""
    if change.value is None:
        return False
    metadata = _decode(change.value).get("metadata") or {}
    try:
        made = times.parse_time(metadata.get("creationTimestamp") or "")
    except ValueError:
        return False
    # The object's time is in whole seconds. One that was written later can only be older than it looks.
    return abs(moment(change.at) - made) <= JUST_NOW and metadata.get("generation", 1) == 1


def with_revision(obj: Object, revision: int) -> Object:
    obj.setdefault("metadata", {})["resourceVersion"] = str(revision)
    return obj


def who_wrote(
    change: ChangeRecord,
    before: Object | None,
    after: Object | None,
    request: WriteRecord | None,
    decision: DecisionRecord | None,
) -> Who:
    """All that is known of who wrote a version."""
    component = decision.component if decision is not None else component_in(change.decision)
    manager = (request.manager if request is not None else "") or find_manager(before, after)
    user = request.user if request is not None else ""
    return Who(
        name=(named(user, "") if find_node(user) else component) or named(user, manager) or UNKNOWN_WHO.name,
        component=component,
        decision=change.decision,
        reason=find_reason(decision),
        user=user,
        manager=manager,
        agent=request.agent if request is not None else "",
        verb=request.verb if request is not None else "",
        subresource=request.subresource if request is not None else "",
        audit=request.audit if request is not None else "",
        trace=request.trace if request is not None else "",
        mutations=tuple(f"{each.name}@{each.revision}" for each in request.mutations) if request is not None else (),
    )


def named(user: str, manager: str) -> str:
    """One word for who asks. A node's agent is named by its node."""
    node = find_node(user)
    return f"agent of {node}" if node else user or manager


def component_in(decision: str) -> str:
    """Whose decision it is, from its name alone: a component, a dash, and an id."""
    if not decision:
        return ""
    # Ids are uids, of five parts between dashes; the scheduler adds a number after a dot.
    parts = decision.split("-")
    return "-".join(parts[:-5]) if len(parts) > 5 else decision.rpartition("-")[0]


def find_reason(decision: DecisionRecord | None) -> str:
    if decision is None:
        return ""
    return decision.reasons[0] if decision.reasons else decision.outcome.reason


def find_manager(before: Object | None, after: Object | None) -> str:
    """Who set fields last, by what the object says of its managers; empty if it does not tell."""
    old, new = _entries(before), _entries(after)
    changed = [each for each in new if each not in old]
    if not changed:
        return ""
    last = max(changed, key=lambda each: (each.get("time", ""), each.get("manager", "")))
    return str(last.get("manager", ""))


def _entries(obj: Object | None) -> list[Any]:
    return list((obj or {}).get("metadata", {}).get("managedFields") or ())


def parse_cause(cause: str) -> tuple[str, str, str, int] | None:
    """Kind, namespace, name and revision of what a decision had read. None if there is none, or it is none of ours."""
    place, at_sign, revision = cause.rpartition("@")
    parts = place.split("/")
    if not at_sign or not revision.isdigit() or len(parts) not in (2, 3):
        return None
    if len(parts) == 2:
        return parts[0], "", parts[1], int(revision)
    return parts[0], parts[1], parts[2], int(revision)
