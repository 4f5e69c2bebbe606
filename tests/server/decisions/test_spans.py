"""Traces are made of records: what belongs together has one trace, and links lead across controllers."""

from mainstay.journal.record import DecisionRecord, Ending, Outcome, Subject, ViewPart, WriteRecord
from mainstay.journal.trace_id import derive_span_id, derive_trace_id
from mainstay.server.decisions import spans
from mainstay.server.decisions.spans import SpanReference, Spans

AUDIT = "0b8f7d2c-1f6e-4c57-9a1e-0d6b5b1e2f3a"


def a_write(revision: int, *, decision: str = "", audit: str = AUDIT) -> WriteRecord:
    return WriteRecord(
        revision, "pods", "shop", "web-1", 5_000_000, "patch", "alice", "kubectl/1", audit=audit, decision=decision
    )


def a_decision(name: str, *, woken_by: tuple[int, ...] = (), ending: Ending = Ending.DONE) -> DecisionRecord:
    return DecisionRecord(
        id=name,
        at=7_000_000,
        component="scheduler",
        build="",
        subject=Subject("pods", "shop", "web-1", uid="u-1", generation=3),
        outcome=Outcome(ending, "Unschedulable" if ending is Ending.RETRY else "", "no room"),
        view=(ViewPart("pods", 41), ViewPart("nodes", 40)),
        now=6_000_000,
        woken_by=woken_by,
    )


def test_a_decision_is_a_span_that_says_what_it_saw_and_what_came_of_it():
    span = Spans().of_decision(a_decision("d-1", ending=Ending.RETRY))

    assert span.place == SpanReference(derive_trace_id("d-1"), derive_span_id("d-1"))
    assert (span.start_us, span.end_us, span.failure) == (6_000_000, 7_000_000, "no room")
    assert span.attributes == {
        "mainstay.object.kind": "pods",
        "k8s.namespace.name": "shop",
        "mainstay.object.name": "web-1",
        "mainstay.object.uid": "u-1",
        "mainstay.object.generation": 3,
        "mainstay.decision.id": "d-1",
        "mainstay.component": "scheduler",
        "mainstay.snapshot.rv": "pods=41,nodes=40",
        "mainstay.outcome": "Retry",
        "mainstay.reason": "Unschedulable",
    }


def test_what_a_decision_writes_is_a_child_in_its_trace():
    span = Spans().of_write(a_write(50, decision="d-1"))

    assert span.place.trace == derive_trace_id("d-1")
    assert span.parent == SpanReference(derive_trace_id("d-1"), derive_span_id("d-1"))


def test_a_users_write_has_the_trace_of_its_request():
    span = Spans().of_write(a_write(50))

    assert span.place.trace == AUDIT.replace("-", "")
    assert span.parent is None
    assert span.attributes["user.name"] == "alice"


def test_a_decision_is_linked_to_what_woke_it_by_any_writer():
    made = Spans()
    user = made.of_write(a_write(50))
    other = made.of_write(a_write(51, decision="replicaset-1", audit="9c1e" + AUDIT[4:]))

    span = made.of_decision(a_decision("d-1", woken_by=(50, 51, 52)))

    assert span.links == ((user.place, 50), (other.place, 51))
    assert span.parent is None


def test_who_wrote_what_is_not_remembered_for_ever(monkeypatch):
    monkeypatch.setattr(spans, "REMEMBERED_MAX", 2)
    made = Spans()
    for revision in (1, 2, 3):
        made.of_write(a_write(revision))

    span = made.of_decision(a_decision("d-1", woken_by=(1, 2, 3)))

    assert [revision for _, revision in span.links] == [2, 3]
