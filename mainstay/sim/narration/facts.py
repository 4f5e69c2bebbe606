"""What a run has recorded, as one list in the order of time: the history of its cluster, and its decisions.

A decision stands at the time of its view, so it comes before the writes that it led to. (A component whose clock a
fault has set wrong dates its decisions by that clock.) Each fact has what a reader wants to know of it in the same
words: who, which object, of which generation, at which revision, and which versions were seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mainstay.api.kind import Object
from mainstay.api.kinds import BUILTIN
from mainstay.journal.keys import is_object, parse_kind, parse_object_key
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.journal.record import DecisionRecord, micros
from mainstay.sim.checkers.decoded import decode_current
from mainstay.sim.cluster.history import (
    ContainerEnded,
    ContainerStarted,
    Event,
    FaultInjected,
    ProgramChanged,
    ProgramCrashed,
    ProgramStarted,
    RequestReceived,
    ResponseSent,
    RevisionCommitted,
    WatchDelivered,
    WatchEnded,
    WatchOpened,
)
from mainstay.sim.failure.subjects import find_key
from mainstay.sim.loop.clock import EPOCH

_KINDS = {f"{each.plural}.{each.group}".rstrip("."): each.kind for each in BUILTIN}


@dataclass(frozen=True, slots=True)
class RunFact:
    """One thing that happened: an event of the history, or a decision."""

    at_ns: int
    """By the clock of the run."""
    event: Event | None = None
    record: DecisionRecord | None = None
    asked: RequestReceived | None = None
    """Of a commit and of an answer: the request that it belongs to, if one does."""

    @property
    def key(self) -> str:
        """Of the object in the store; empty if it is about none."""
        match self.event:
            case RevisionCommitted() | WatchDelivered():
                return self.event.key
            case RequestReceived():
                return find_key(self.event)
            case ResponseSent() if self.asked is not None:
                return find_key(self.asked)
            case _:
                return ""

    @property
    def before(self) -> Object | None:
        """Of a commit: the object as it was."""
        return decode_current(self.event.previous) if isinstance(self.event, RevisionCommitted) else None

    @property
    def after(self) -> Object | None:
        """Of a commit: the object as it is now."""
        return decode_current(self.event.value) if isinstance(self.event, RevisionCommitted) else None

    @property
    def decision(self) -> str:
        """The decision that this is, or that it was done for."""
        if self.record is not None:
            return self.record.id
        asked = self.event if isinstance(self.event, RequestReceived) else self.asked
        return "" if asked is None else asked.decision

    @property
    def who(self) -> str:
        """The program, or of a decision the component; a server for what it does without a request."""
        match self.event:
            case RequestReceived() | ResponseSent() | WatchDelivered() | WatchOpened() | WatchEnded():
                return self.event.who
            case RevisionCommitted():
                return "server" if self.asked is None else self.asked.who
            case ProgramStarted() | ProgramCrashed() | ProgramChanged():
                return self.event.program
            case ContainerStarted() | ContainerEnded():
                return self.event.machine
            case FaultInjected():
                return "fault"
            case _:
                return "" if self.record is None else self.record.component

    @property
    def subject(self) -> str:
        """The object, as people name it: `Pod risk/risk-api-1`. Empty if it is about none."""
        if self.record is not None:
            about = self.record.subject
            return _name(about.kind, about.namespace, about.name)
        if isinstance(self.event, ContainerStarted | ContainerEnded):
            return f"Pod {self.event.pod}"
        if not is_object(self.key):
            return ""
        named = parse_object_key(self.key)
        return _name(parse_kind(self.key), named.namespace, named.name)

    @property
    def generation(self) -> int:
        """Of the object. 0 if it has none, or if it is not known."""
        if self.record is not None:
            return self.record.subject.generation
        found = self.after or self.before or {}
        return int((found.get("metadata") or {}).get("generation") or 0)

    @property
    def revision(self) -> int:
        """That was committed, or delivered."""
        match self.event:
            case RevisionCommitted() | WatchDelivered() | ResponseSent():
                return self.event.revision
            case _:
                return 0

    @property
    def view(self) -> dict[str, int]:
        """Of a decision: up to which revision it knew each kind."""
        return {} if self.record is None else {each.kind: each.revision for each in self.record.view}

    @property
    def policies(self) -> list[str]:
        """Of a decision: the policies that applied, with their revisions."""
        return [] if self.record is None else [f"{each.name}@{each.revision}" for each in self.record.policies]


def _name(kind: str, namespace: str, name: str) -> str:
    return f"{_KINDS.get(kind, kind)} {namespace}/{name}" if namespace else f"{_KINDS.get(kind, kind)} {name}"


def collect_facts(events: Sequence[Event], journal: MemoryJournal | None, since_ns: int = 0) -> list[RunFact]:
    """All that is recorded of a run since a time."""
    asked = {event.request: event for event in events if isinstance(event, RequestReceived)}
    found = [_build_fact(event, asked) for event in events if event.at_ns >= since_ns]
    if journal is not None:
        decided = [RunFact(_find_time(record), record=record) for record in journal.records()]
        found += [fact for fact in decided if fact.at_ns >= since_ns]
    # What was decided at a time was decided before what happened then. Otherwise the order is that of the history.
    return sorted(found, key=lambda fact: (fact.at_ns, fact.record is None))


def _build_fact(event: Event, asked: dict[int, RequestReceived]) -> RunFact:
    request = event.request if isinstance(event, RevisionCommitted | ResponseSent) else None
    return RunFact(event.at_ns, event, asked=None if request is None else asked.get(request))


def _find_time(record: DecisionRecord) -> int:
    return ((record.now or record.at) - micros(EPOCH)) * 1000
