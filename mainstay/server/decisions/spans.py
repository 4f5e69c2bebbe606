"""Traces as a projection of the journal: each decision is a span, and so is each write; links lead to what caused them.

A decision's trace follows from its id (journal/trace_id.py), and its writes are children in it. What woke the decision
are *links*, not parents: a parent would claim that its caller waited for it, and a controller may act hours later. A
write that belongs to no decision has a trace of its own, by its audit id. Nothing is measured for this on the way of a
request: records have all of it.

Which span wrote a revision is remembered for the last `REMEMBERED_MAX` of them, across all controllers, because all
writes come by here. What was longer ago has no link.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mainstay.journal.record import DecisionRecord, Ending, WriteRecord
from mainstay.journal.trace_id import derive_span_id, derive_trace_id

REMEMBERED_MAX: Final = 100_000

Value = str | int
_FAILED: Final = (Ending.RETRY, Ending.GIVE_UP, Ending.REFUSED)


@dataclass(frozen=True, slots=True)
class SpanReference:
    """A span, as others refer to it."""

    trace: str
    span: str


@dataclass(frozen=True, slots=True)
class Span:
    name: str
    place: SpanReference
    start_us: int
    end_us: int
    attributes: Mapping[str, Value]
    parent: SpanReference | None = None
    links: tuple[tuple[SpanReference, int], ...] = ()
    """With the revision that leads there."""
    failure: str = ""
    """What went wrong; empty: nothing did."""


@dataclass(slots=True)
class Spans:
    """Makes spans of records, in the order in which they come."""

    _wrote: OrderedDict[int, SpanReference] = field(default_factory=OrderedDict)

    def of_write(self, record: WriteRecord) -> Span:
        """The request that made a revision."""
        own = record.audit or str(record.revision)
        # Not the client's trace: any client could otherwise write into the trace of another.
        place = SpanReference(record.audit.replace("-", "") or derive_trace_id(own), _hash(own))
        parent = None
        if record.decision:
            parent = SpanReference(derive_trace_id(record.decision), derive_span_id(record.decision))
            place = SpanReference(parent.trace, place.span)
        self._remember(record.revision, place)
        target = f"{record.kind}/{record.subresource}" if record.subresource else record.kind
        attributes = _object(record.kind, record.namespace, record.name) | {
            "mainstay.revision": record.revision,
            "mainstay.audit.id": record.audit,
            "mainstay.decision.id": record.decision,
            "mainstay.client.trace": record.trace,
            "user.name": record.user,
            "user_agent.original": record.agent,
        }
        return Span(f"{record.verb} {target}", place, record.at, record.at, _given(attributes), parent)

    def of_decision(self, record: DecisionRecord) -> Span:
        subject, outcome = record.subject, record.outcome
        attributes = _object(subject.kind, subject.namespace, subject.name) | {
            "mainstay.object.uid": subject.uid,
            "mainstay.object.generation": subject.generation,
            "mainstay.decision.id": record.id,
            "mainstay.component": record.component,
            "mainstay.component.epoch": record.term,
            "mainstay.queue.wait_us": record.queue_wait_us,
            "mainstay.attempt": record.attempts,
            "mainstay.snapshot.rv": ",".join(f"{seen.kind}={seen.revision}" for seen in record.view),
            "mainstay.outcome": str(outcome.ending),
            "mainstay.reason": outcome.reason,
            "mainstay.audit.id": ",".join(record.audits),
        }
        links = [(self._wrote[revision], revision) for revision in record.woken_by if revision in self._wrote]
        failure = (outcome.message or outcome.reason or str(outcome.ending)) if outcome.ending in _FAILED else ""
        return Span(
            f"{record.component} decides",
            SpanReference(derive_trace_id(record.id), derive_span_id(record.id)),
            min(record.now or record.at, record.at),
            record.at,
            _given(attributes),
            links=tuple(links),
            failure=failure,
        )

    def _remember(self, revision: int, place: SpanReference) -> None:
        self._wrote[revision] = place
        if len(self._wrote) > REMEMBERED_MAX:
            self._wrote.popitem(last=False)


def _object(kind: str, namespace: str, name: str) -> dict[str, Value]:
    return {"mainstay.object.kind": kind, "k8s.namespace.name": namespace, "mainstay.object.name": name}


def _given(attributes: dict[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in attributes.items() if value not in ("", 0)}


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
