"""Lines of a story: the same thing is told once, with how often and whether it goes on; each says what led to it."""

from datetime import UTC, datetime, timedelta
from typing import Any

from mainstay.explain.story.lines import Stale, StoryLine, StoryLink, StoryObject, merged, numbered
from mainstay.explain.story.order import in_order
from mainstay.explain.words import LineKind
from mainstay.explain.writers import Who

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SCHEDULER = Who("scheduler-1")


def a_line(
    seconds: float, name: str = "web-1", what: LineKind = LineKind.REFUSED, text: str = "finds no node", **more: Any
) -> StoryLine:
    return StoryLine(
        at=NOON + timedelta(seconds=seconds),
        what=what,
        about=StoryObject("pods", name, "default"),
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
    lines = [a_line(each, what=LineKind.WRITTEN, text="label a → b", revision=7 + each) for each in range(3)]

    assert len(merged(lines)) == 3


def test_a_cause_leads_to_the_line_that_tells_of_it():
    written = a_line(0, what=LineKind.WRITTEN, text="limit of cpu 2 → 4", revision=41)
    decided = a_line(
        2, what=LineKind.DECIDED, text="chooses n1", decision="s-1", causes=(StoryLink("quota@41", revision=41),)
    )
    bound = a_line(
        3,
        what=LineKind.BOUND,
        text="is bound to n1",
        revision=43,
        decision="s-1",
        causes=(StoryLink("s-1", decision="s-1"), StoryLink("pod@12", revision=12)),
    )

    first, second, third = numbered([written, decided, bound])

    assert (first.number, first.offset_ms) == (1, 0)
    assert [link.line for link in second.causes] == [1]
    assert [link.line for link in third.causes] == [2, 0]  # Nothing tells of the last.
    assert third.offset_ms == 3000


# Siblings: one owner, one cause, and nothing before what led to it.


def made(seconds: float, name: str, revision: int, owner: str, read: int) -> StoryLine:
    causes = (StoryLink(f"{owner}@{read}", revision=read),)
    return a_line(seconds, name, LineKind.CREATED, "made (2 missing)", owner=owner, revision=revision, causes=causes)


def test_pods_of_two_replicasets_are_two_lines():
    lines = [made(0, "old-1", 7, "replicaset old", 5), made(0.1, "new-1", 8, "replicaset new", 5)]

    assert [(line.about.name, line.others) for line in merged(lines)] == [("old-1", ()), ("new-1", ())]


def test_pods_that_were_made_for_different_causes_are_two_lines():
    lines = [made(0, "web-1", 7, "replicaset web", 5), made(0.1, "web-2", 9, "replicaset web", 8)]

    assert len(merged(lines)) == 2


def test_a_pod_is_not_gone_in_a_line_before_it_runs():
    gone = [a_line(each, f"web-{each}", LineKind.REMOVED, "is gone", revision=10 + each) for each in (0, 1)]
    runs = a_line(0.5, "web-1", LineKind.STARTED, "runs", revision=10)

    assert [(line.about.name, line.what) for line in merged([gone[0], runs, gone[1]])] == [
        ("web-0", LineKind.REMOVED),
        ("web-1", LineKind.STARTED),
        ("web-1", LineKind.REMOVED),
    ]


def test_what_a_sibling_led_to_leads_to_the_line_that_stands_for_it():
    lines = [made(0, f"web-{each}", 6 + each, "replicaset web", 5) for each in (1, 2)]
    runs = a_line(3, "web-2", LineKind.STARTED, "runs", revision=9, causes=(StoryLink("pod web-2@8", revision=8),))

    first, second = numbered(merged([*lines, runs]))

    assert first.others == ("web-2",)
    assert [link.line for link in second.causes] == [first.number]


def test_writes_are_in_the_order_of_their_revisions_whatever_the_clocks_say():
    lines = [
        a_line(at, what=LineKind.WRITTEN, text="x", revision=revision) for at, revision in ((0, 7), (2, 8), (1, 9))
    ]
    gone = a_line(2, "web-2", LineKind.REMOVED, "is gone", revision=10)
    told = a_line(2, "web-3", LineKind.DELETED, "is marked for deletion", revision=11)

    assert [line.revision for line in in_order([told, gone, *reversed(lines)])] == [7, 8, 9, 10, 11]


def test_a_decision_is_after_what_it_has_read_and_before_what_it_wrote():
    made_ = a_line(5, what=LineKind.CREATED, text="made", revision=7)
    other = a_line(5, "web-2", what=LineKind.CREATED, text="made", revision=8)
    early = a_line(
        4, what=LineKind.DECIDED, text="chooses n1", decision="s-1", causes=(StoryLink("pod web-1@7", revision=7),)
    )
    bound = a_line(5, what=LineKind.BOUND, text="is bound to n1", revision=9, decision="s-1")
    late = a_line(6, "web-2", what=LineKind.DECIDED, text="chooses n2", decision="s-2")
    bound_2 = a_line(5.5, "web-2", what=LineKind.BOUND, text="is bound to n2", revision=10, decision="s-2")

    found = in_order([late, early, bound, bound_2, other, made_])

    assert [line.text for line in found] == [
        "made",
        "chooses n1",
        "made",
        "is bound to n1",
        "chooses n2",
        "is bound to n2",
    ]


# What comes in turns.


def a_turn(number: int) -> list[StoryLine]:
    again = a_line(10 * number, what=LineKind.FAILED, text=f"container main restarted (restart {number})")
    waits = a_line(
        10 * number + 1, what=LineKind.FAILED, text=f"container main is waiting: back-off {number}0s restarting"
    )
    return [again, waits]


def test_a_crash_loop_is_a_line_for_each_thing_that_comes_again_with_its_last_numbers():
    again, waits = merged([line for number in range(1, 6) for line in a_turn(number)])

    assert (again.text, again.count) == ("container main restarted (restart 5)", 5)
    assert (again.at, again.until) == (NOON + timedelta(seconds=10), NOON + timedelta(seconds=50))
    assert (waits.text, waits.count) == ("container main is waiting: back-off 50s restarting", 5)


def test_twice_is_not_yet_again_and_again():
    assert len(merged([*a_turn(1), *a_turn(2)])) == 4


def test_a_failure_after_a_change_is_shown_again():
    before = [line for number in range(1, 4) for line in a_turn(number)]
    changed = a_line(35, what=LineKind.WRITTEN, text="image of main x:1 → x:2", revision=7)
    after = [line for number in range(4, 7) for line in a_turn(number)]

    assert [line.count for line in merged([*before, changed, *after])] == [3, 3, 1, 3, 3]
