"""Lines of a story: the same thing is told once, with how often and whether it goes on; each says what led to it."""

from datetime import UTC, datetime, timedelta
from typing import Any

from mainstay.explain.story.lines import About, Line, Link, Stale, merged, numbered
from mainstay.explain.words import What
from mainstay.explain.writers import Who

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SCHEDULER = Who("scheduler-1")


def a_line(seconds: float, name: str = "web-1", what: What = What.REFUSED, text: str = "finds no node", **more: Any):
    return Line(
        at=NOON + timedelta(seconds=seconds),
        what=what,
        about=About("pods", name, "default"),
        text=text,
        who=more.pop("who", SCHEDULER),
        **more,
    )


def test_the_same_failure_again_and_again_is_one_line_with_a_count():
    lines = [a_line(0), a_line(3), a_line(9, is_going_on=True)]

    [line] = merged(lines)

    assert (line.count, line.at, line.until, line.is_going_on) == (3, lines[0].at, lines[2].at, True)


def test_another_reason_in_between_makes_three_lines():
    lines = [a_line(0, details=("no cpu",)), a_line(3, details=("tainted",)), a_line(9, details=("no cpu",))]

    assert [line.count for line in merged(lines)] == [1, 1, 1]


def test_the_same_decision_on_an_old_picture_is_another_one():
    stale = (Stale("zonequotas.mainstay.dev", 3, 7, 2000),)

    assert [line.count for line in merged([a_line(0), a_line(3, stale=stale)])] == [1, 1]


def test_the_same_about_several_pods_at_once_is_one_line_with_their_names():
    lines = [a_line(0, "web-1"), a_line(0.1, "web-2"), a_line(0.2, "web-3"), a_line(5, "web-4")]

    first, last = merged(lines)

    assert (first.about.name, first.others) == ("web-1", ("web-2", "web-3"))
    assert (last.about.name, last.others) == ("web-4", ())


def test_writes_are_never_counted_together():
    lines = [a_line(each, what=What.WRITTEN, text="label a → b", revision=7 + each) for each in range(3)]

    assert len(merged(lines)) == 3


def test_a_cause_leads_to_the_line_that_tells_of_it():
    written = a_line(0, what=What.WRITTEN, text="limit of cpu 2 → 4", revision=41)
    decided = a_line(2, what=What.DECIDED, text="chooses n1", decision="s-1", causes=(Link("quota@41", revision=41),))
    bound = a_line(
        3,
        what=What.BOUND,
        text="binds to n1",
        revision=43,
        decision="s-1",
        causes=(Link("s-1", decision="s-1"), Link("pod@12", revision=12)),
    )

    first, second, third = numbered([written, decided, bound])

    assert (first.number, first.offset_ms) == (1, 0)
    assert [link.line for link in second.causes] == [1]
    assert [link.line for link in third.causes] == [2, 0]  # Nothing tells of the last.
    assert third.offset_ms == 3000
