"""Matchers that most narrations need: of commits, decisions, answers that are lost, and programs that crash.

Each takes a function that says in words what is to be seen, from the objects or the record, or None.
"""

from collections.abc import Callable

from mainstay.api.kind import Object
from mainstay.journal.record import DecisionRecord
from mainstay.sim.cluster.history import (
    FaultInjected,
    ProgramCrashed,
    ProgramStarted,
    ResponseSent,
    RevisionCommitted,
    WatchDelivered,
)
from mainstay.sim.narration.facts import RunFact
from mainstay.sim.narration.steps import Found, Match

CommitWords = Callable[[Object | None, Object | None, Found], str | None]
"""Of the object before and after, and of what was found before."""
RecordWords = Callable[[DecisionRecord, Found], str | None]


def match_commit(prefix: str, words: CommitWords) -> Match:
    """Something is written under a prefix of the store."""

    def match(fact: RunFact, found: Found) -> str | None:
        if not isinstance(fact.event, RevisionCommitted) or not fact.event.key.startswith(prefix):
            return None
        return words(fact.before, fact.after, found)

    return match


def match_decision(component: str, words: RecordWords) -> Match:
    """A component has decided."""

    def match(fact: RunFact, found: Found) -> str | None:
        return None if fact.record is None or fact.record.component != component else words(fact.record, found)

    return match


def match_lost_answer(who: str, path_end: str) -> Match:
    """A server has done a write, and its answer does not reach the program that asked."""

    def match(fact: RunFact, found: Found) -> str | None:
        event, asked = fact.event, fact.asked
        if not isinstance(event, ResponseSent) or event.is_delivered or asked is None or event.who != who:
            return None
        path = asked.path.partition("?")[0]
        is_meant = asked.is_write and path.endswith(path_end)
        return f"{asked.method} {path}: {event.status}, and the answer is lost" if is_meant else None

    return match


def match_delivery(who: str, prefix: str) -> Match:
    """A watch tells a program of a change."""

    def match(fact: RunFact, found: Found) -> str | None:
        event = fact.event
        if not isinstance(event, WatchDelivered) or event.who != who or not event.key.startswith(prefix):
            return None
        return f"its watch delivers {event.type}"

    return match


def match_program(event_type: type[ProgramCrashed] | type[ProgramStarted], programs: tuple[str, ...]) -> Match:
    """One of these programs crashes, or starts."""

    def match(fact: RunFact, found: Found) -> str | None:
        if not isinstance(fact.event, event_type) or fact.event.program not in programs:
            return None
        return "crashes" if event_type is ProgramCrashed else "starts"

    return match


def match_fault(text: str) -> Match:
    """A fault is noted with these words in it."""

    def match(fact: RunFact, found: Found) -> str | None:
        return fact.event.what if isinstance(fact.event, FaultInjected) and text in fact.event.what else None

    return match
