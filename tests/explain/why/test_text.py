"""An answer fits on a screen: the cause first, then the way to it; in full it names every node."""

from datetime import UTC, datetime

import msgspec
import pytest

from mainstay.explain.why.answer import (
    Also,
    AnswerObject,
    AnswerSource,
    ChainLink,
    CureFound,
    Involved,
    LinkState,
    NodeVerdict,
    Staleness,
    Verdict,
    Verdicts,
    WhyAnswer,
)
from mainstay.explain.why.causes import Cause
from mainstay.explain.why.text import LINES_MAX, render_answer

AT = datetime(2026, 11, 16, 6, 0, 0, tzinfo=UTC)
DECISION = "scheduler-1-ada5f1f4-2454-4f0e-9c1d-aaaaaaaaaaaa.12"


def a_link(step: str, state: LinkState = LinkState.DONE, text: str = "something happened") -> ChainLink:
    return ChainLink(step=step, state=state, text=text, evidence=(AnswerSource(decision=DECISION, at=AT, revision=7),))


def an_answer(links: int = 4, **more) -> WhyAnswer:
    chain = (
        *(a_link(f"step-{number}") for number in range(links - 1)),
        a_link("filters", LinkState.BROKEN, "0/2 nodes"),
    )
    given = {
        "subject": AnswerObject(kind="Pod", name="web", namespace="default", type="pods"),
        "revision": 42,
        "at": AT,
        "verdict": Verdict.WAITING,
        "cause": Cause.ZONE_QUOTA_EXCEEDED,
        "tier": Cause.ZONE_QUOTA_EXCEEDED.tier,
        "sentence": "Pod default/web has no node: the quota is used up.",
        "chain": chain,
        "advice": "Raise the quota.",
    }
    return WhyAnswer(**{**given, **more})


FULL = {
    "since": datetime(2026, 11, 16, 5, 59, 0, tzinfo=UTC),
    "about": AnswerObject(kind="Pod", name="web", namespace="default"),
    "cures": (CureFound("raise the quota", True, "node-a", "kubectl patch …"), CureFound("add a node", True)),
    "staleness": (Staleness("zonequotas.mainstay.dev", 34, 38, 4800, True),),
    "also": (Also(Cause.CRASH_LOOP, "it crashes", 2), Also(Cause.STARTING, "it starts")),
    "gaps": ("revisions 1 to 3 are missing (Before)", "and more"),
    "involved": (Involved("dana", "set the quota", (AnswerSource(revision=5),)),),
    "nodes": (Verdicts("ZoneQuotaExceeded", "zone quota used up", ("node-a",), 1),),
    "each_node": tuple(NodeVerdict(f"node-{number}", "z", ("full", "tainted")) for number in range(40)),
    "notes": ("a note",),
}


@pytest.mark.parametrize("links", [1, 2, 4, 9, 20])
@pytest.mark.parametrize("more", [{}, FULL])
def test_the_first_screen_has_at_most_twelve_lines_and_begins_with_the_cause(links, more):
    lines = render_answer(an_answer(links, **more)).splitlines()
    assert len(lines) <= LINES_MAX == 12
    assert lines[0] == "Pod default/web has no node: the quota is used up."
    assert lines[1].startswith("ZoneQuotaExceeded (quota), waiting")
    assert any(line.startswith("✗ filters") for line in lines)


def test_in_full_every_node_and_all_evidence_is_named():
    text = render_answer(an_answer(9, **FULL), wide=True)
    assert all(f"node-{number} " in text for number in range(40))
    assert DECISION in text
    for words in (
        "full; tainted",
        "kubectl patch …",
        "add a node",
        "dana: set the quota",
        "decisive",
        "a note",
        "and more",
    ):
        assert words in text
    assert "as of revision 42, 2026-11-16T06:00:00.000Z" in text


def test_the_short_form_says_how_many_links_it_leaves_out():
    lines = render_answer(an_answer(12, **FULL)).splitlines()
    [left_out] = [line for line in lines if "more (-o wide)" in line]
    shown = [line for line in lines if line.startswith(("  step-", "✗ filters"))]
    assert int(left_out.split()[1]) == 12 - len(shown)


def test_as_an_object_it_can_be_read_back():
    answer = an_answer(3, **FULL)
    obj = answer.as_object()
    assert (obj["kind"], obj["apiVersion"]) == ("Why", "mainstay.dev/v1")
    assert obj["cause"] == "ZoneQuotaExceeded"
    assert msgspec.convert(obj, WhyAnswer) == answer


def test_what_is_satisfied_gives_no_advice():
    answer = an_answer(2, verdict=Verdict.SATISFIED, cause=Cause.SATISFIED, tier=Cause.SATISFIED.tier)
    assert "try" not in render_answer(answer)
    assert render_answer(answer).splitlines()[1] == "Satisfied"
