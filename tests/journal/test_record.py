"""The form of the records: what is kept of a decision, and that old and new versions read each other."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from mainstay.journal import record
from mainstay.journal.record import (
    NO_MEMORY,
    AppliedPolicy,
    ChangeRecord,
    DecisionRecord,
    Ending,
    LookedAt,
    Outcome,
    RecordedAction,
    RecordedCondition,
    RecordedMemory,
    Subject,
    ViewPart,
    WhyNot,
    WriteResult,
    bounded,
    decode,
    encode,
    joined,
    without_detail,
)
from tests.journal.builders import AT, a_decision

FULL = DecisionRecord(
    id="scheduler-7",
    at=AT,
    component="scheduler",
    build="0.1",
    subject=Subject("pods", "default", "web-1", "uid-1", 2),
    outcome=Outcome(Ending.WAKE_AT, "Waiting", "for room", AT + 5),
    term="kube-system/scheduler=77",
    view=(ViewPart("pods", 12), ViewPart("nodes", 10, "", "zone=a", "")),
    now=AT - 1,
    seed="5",
    flags=("gangs",),
    policies=(AppliedPolicy("placementpolicies.mainstay.dev", "default", "uid-p", 9),),
    memory=RecordedMemory(3, b"abc"),
    queue_wait_us=15,
    attempts=2,
    woken_by=(11, 12),
    woken_count=2,
    looked_at=(LookedAt("nodes", "", "n1", 10), LookedAt("pods", index="node", value="n1", count=4, revision=12)),
    looked_at_count=2,
    reasons=("NoRoom",),
    conditions=(RecordedCondition("PodScheduled", "False", "Unschedulable", "no room"),),
    actions=(RecordedAction("bind", "pods", "default", "web-1", "binding", b"1234"),),
    writes=(WriteResult("pods", "default", "web-1", 0, "Conflict"),),
    trace="t",
    audits=("a",),
    why_not=(WhyNot.READ_OUTSIDE,),
)

# What version 1 of the format has written, and every later version must read. Never change these; add others.
DECISION_1 = (
    "dc001ba164ab7363686564756c65722d37cf00060a24181e4000a97363686564756c6572a3302e3195a4706f6473a764656661756c74a577"
    "65622d31a57569642d310294a657616b654174a757616974696e67a8666f7220726f6f6dcf00060a24181e4005b86b7562652d7379737465"
    "6d2f7363686564756c65723d37379295a4706f64730ca0a0a095a56e6f6465730aa0a67a6f6e653d61a0cf00060a24181e3fffa13591a567"
    "616e67739194be706c6163656d656e74706f6c69636965732e6d61696e737461792e646576a764656661756c74a57569642d70099303c403"
    "616263c4000f02920b0c029297a56e6f646573a0a26e310aa0a00097a4706f6473a0a00ca46e6f6465a26e31040291a64e6f526f6f6d9194"
    "ac506f645363686564756c6564a546616c7365ad556e7363686564756c61626c65a76e6f20726f6f6d9196a462696e64a4706f6473a76465"
    "6661756c74a57765622d31a762696e64696e67c404313233349196a4706f6473a764656661756c74a57765622d3100a8436f6e666c696374"
    "c2a17491a16191ab526561644f757473696465"
)
CHANGE_1 = "97a16302ab636f72652f6e6f6465732fc4027b7dcf00060a24181e4000a26437a135"


def test_a_record_is_read_as_it_was_written():
    assert decode(joined([encode(FULL)])) == ([FULL], 0)


def test_records_of_the_first_version_are_still_read():
    change = ChangeRecord(2, "core/nodes/", b"{}", AT, "d7", "5")

    assert decode(joined([bytes.fromhex(CHANGE_1), bytes.fromhex(DECISION_1)])).records == [change, FULL]


def test_a_reader_takes_a_record_that_a_newer_version_has_added_a_field_to():
    class Newer(msgspec.Struct, array_like=True, tag="c"):
        revision: int
        key: str
        value: bytes | None
        at: int
        decision: str = ""
        cause: str = ""
        added: str = ""

    assert decode(joined([encode(Newer(2, "core/nodes/n", None, AT, added="later"))])).records == [
        ChangeRecord(2, "core/nodes/n", None, AT)
    ]


def test_a_reader_takes_a_record_from_before_a_field_was_added():
    assert decode(joined([encode(["c", 2, "core/nodes/n", None, AT])])).records == [
        ChangeRecord(2, "core/nodes/n", None, AT)
    ]


def test_a_record_that_a_reader_does_not_know_is_passed_over_and_counted():
    change = ChangeRecord(2, "core/nodes/n", None, AT)

    assert decode(joined([encode(["zz", 1]), encode(change), encode(["zz", 2])])) == ([change], 2)


def test_a_record_is_bounded_whatever_it_is_given():
    many = a_decision(
        woken_by=tuple(range(100)),
        looked_at=tuple(LookedAt("pods", "a", f"p{number}", number) for number in range(1000)),
        reasons=("x" * 10_000,) * 1000,
        conditions=(RecordedCondition("Ready", "False", "No", "x" * 10_000),) * 1000,
        actions=(RecordedAction("create", "pods", "a", "b"),) * 1000,
        writes=(WriteResult("pods", "a", "b", 1),) * 1000,
        outcome=Outcome(Ending.RETRY, "No", "x" * 10_000),
    )

    kept = bounded(many)

    assert (kept.woken_by, kept.woken_count) == (tuple(range(92, 100)), 100)
    assert (len(kept.looked_at), kept.looked_at_count) == (record.LOOKED_AT_MAX, 1000)
    assert len(encode(kept)) < 100_000
    assert bounded(kept) == kept
    assert bounded(FULL) is FULL


def test_a_decision_without_detail_says_that_it_cannot_be_made_again():
    kept = without_detail(FULL)

    assert (kept.id, kept.subject, kept.outcome, kept.view, kept.writes) == (
        FULL.id,
        FULL.subject,
        FULL.outcome,
        FULL.view,
        FULL.writes,
    )
    assert (kept.memory, kept.looked_at, kept.looked_at_count) == (RecordedMemory(3), (), 2)
    assert kept.why_not == (WhyNot.READ_OUTSIDE, WhyNot.DETAIL_DROPPED)
    assert not a_decision().why_not
    assert without_detail(a_decision()).why_not


def test_an_action_on_a_secret_has_no_digest_of_its_content():
    assert record.action("create", "pods", "a", "b", body=b"body").digest == record.compute_digest(b"body")
    assert record.action("create", "secrets", "a", "b", body=b"body").digest == b""


@given(st.binary())
def test_garbage_is_not_taken_for_a_record(data: bytes):
    try:
        decoded = decode(data)
    except msgspec.MsgspecError:
        return
    assert decoded.unknown >= 0
    assert a_decision().memory == NO_MEMORY
