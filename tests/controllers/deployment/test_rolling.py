"""The arithmetic of a rollout. The tables are what kube-controller-manager does, worked out again from its rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.controllers.deployment.rolling import Bounds, SetSize, bounds, grown, rescaled, scaled, shrunk
from tests.twins import found as twins

HALF_SCALED = [
    *[SetSize(name, 4, 4, most_before=10) for name in ("a", "b")],
    *[SetSize(name, 1, 1, most_before=5) for name in ("c", "d")],
]
"""Scaled from 8 to 3, with a crash halfway. When 7 are wanted then, the small ones should grow by their own notes."""


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "expected"),
    [
        (10, "25%", "25%", (3, 2)),  # Up, and down.
        (4, "25%", "25%", (1, 1)),
        (3, "25%", "25%", (1, 0)),
        (1, "25%", "25%", (1, 0)),
        (1, "0%", "25%", (0, 1)),  # Nothing would move: so one.
        (1, 0, 0, (0, 1)),
        (10, 0, "5%", (0, 1)),
        (10, "0%", "100%", (0, 10)),
        (3, 2, 5, (2, 3)),  # No more can be missing than there are.
        (0, "25%", "25%", (0, 0)),
        (0, 1, 1, (1, 0)),
        (10, "150%", 0, (15, 0)),
        (7, 3, 2, (3, 2)),
    ],
)
def test_the_surge_is_rounded_up_and_the_unavailable_down(replicas, surge, unavailable, expected):
    found = bounds(replicas, surge, unavailable)

    assert (found.surge, found.unavailable) == expected


def test_what_is_no_percentage_is_none():
    assert scaled("many", 10, rounds_up=True) == 0
    assert scaled("%", 10, rounds_up=True) == 0


@pytest.mark.parametrize(
    ("replicas", "surge", "new", "old", "expected"),
    [
        (10, 2, 0, 10, 2),  # As many as the surge has room for.
        (10, 2, 2, 10, 2),  # There is no room.
        (10, 2, 2, 8, 4),
        (10, 5, 0, 5, 10),  # Never more than wanted.
        (10, 0, 0, 10, 0),
        (10, 0, 0, 7, 3),
        (10, 0, 12, 0, 10),  # Too many of its own: at once.
        (0, 0, 4, 0, 0),
    ],
)
def test_the_new_set_grows_into_the_room_that_the_surge_leaves(replicas, surge, new, old, expected):
    bounds = Bounds(replicas, surge, 0)

    assert grown(bounds, SetSize("new", new, new), [SetSize("old", old, old)]) == expected


@pytest.mark.parametrize(
    ("unavailable", "new", "old", "expected"),
    [
        # 10 replicas. (wanted, available) of the new set and of an old one; how many the old one keeps.
        (0, (0, 0), (10, 10), 10),
        (2, (0, 0), (10, 10), 8),
        (2, (0, 0), (10, 8), 8),  # Those that are not available first.
        (2, (0, 0), (10, 0), 8),  # But not all: it counts what could come back.
        (2, (0, 0), (8, 8), 8),
        (2, (4, 4), (8, 8), 4),
        (2, (4, 0), (8, 8), 8),  # The new ones are not there yet.
        (2, (4, 2), (8, 8), 6),
        (2, (10, 10), (2, 2), 0),
        (2, (10, 7), (3, 3), 1),
        (10, (0, 0), (10, 10), 0),
    ],
)
def test_an_old_set_shrinks_by_what_is_available_above_the_least(unavailable, new, old, expected):
    found = shrunk(Bounds(10, 0, unavailable), SetSize("new", *new), [SetSize("old", *old)])

    assert found.get("old", old[0]) == expected


def test_of_several_old_sets_the_sick_pods_go_first_and_then_the_oldest_set():
    old = [SetSize("first", 4, 4), SetSize("second", 4, 1)]

    assert shrunk(Bounds(10, 3, 2), SetSize("new", 5, 5), old) == {"second": 1, "first": 2}


@pytest.mark.parametrize(
    ("replicas", "surge", "before", "sizes", "expected"),
    [
        # Sizes are newest first. What they were sized for, and what they become.
        (10, 0, 5, {"new": 5}, {"new": 10}),
        (20, 0, 10, {"new": 5, "old": 5}, {"new": 10, "old": 10}),
        (5, 0, 10, {"new": 5, "old": 5}, {"new": 3, "old": 2}),
        (15, 0, 10, {"new": 8, "old": 2}, {"new": 12, "old": 3}),
        (13, 0, 10, {"new": 5, "old": 5}, {"new": 7, "old": 6}),  # What is left over goes to the first.
        (8, 0, 10, {"new": 5, "old": 5}, {"new": 4, "old": 4}),
        (0, 0, 10, {"new": 5, "old": 5}, {"new": 0, "old": 0}),
        (10, 3, 8, {"new": 3, "old": 5}, {"new": 5, "old": 8}),
        (5, 0, 20, {"b": 10, "a": 7, "c": 3}, {"b": 2, "a": 2, "c": 1}),
    ],
)
def test_another_number_of_replicas_is_shared_in_proportion(replicas, surge, before, sizes, expected):
    sets = [SetSize(name, size, size, most_before=before) for name, size in sizes.items()]

    assert rescaled(Bounds(replicas, surge, 0), sets, sum(sizes.values())) == expected


def test_without_a_note_of_what_it_was_sized_for_the_present_number_counts():
    sets = [SetSize("new", 5, 5), SetSize("old", 5, 5)]

    assert rescaled(Bounds(20, 0, 0), sets, 10) == {"new": 10, "old": 10}


@given(
    replicas=st.integers(0, 40),
    surge=st.integers(0, 20),
    sizes=st.lists(st.integers(1, 30), min_size=2, max_size=5),
    before=st.integers(0, 60),
)
def test_however_it_is_shared_it_adds_up(replicas, surge, sizes, before):
    limits = Bounds(replicas, surge, 0)
    sets = [SetSize(str(number), size, size, most_before=before) for number, size in enumerate(sizes)]

    found = rescaled(limits, sets, sum(sizes))

    assert all(size >= 0 for size in found.values())
    assert sum(found.values()) == (limits.most if replicas else 0)


def test_sets_that_were_sized_for_different_numbers_go_the_same_way():
    assert rescaled(Bounds(7, 2, 0), HALF_SCALED, 10) == {"a": 4, "b": 3, "c": 1, "d": 1}


def test_sets_that_each_go_by_their_own_note_go_in_opposite_directions(monkeypatch: pytest.MonkeyPatch):
    twins.sizes_each_set_by_its_own_note(monkeypatch)

    assert rescaled(Bounds(7, 2, 0), HALF_SCALED, 10) == {"a": 4, "b": 1, "c": 2, "d": 2}


def test_what_is_available_stays_where_fewer_are_wanted():
    sets = [
        SetSize("new", 1, 0, most_before=4),
        SetSize("bad", 1, 0, most_before=4),
        SetSize("old", 2, 2, most_before=4),
    ]

    assert rescaled(Bounds(1, 1, 0), sets, 4) == {"new": 1, "bad": 0, "old": 1}
    assert rescaled(Bounds(1, 1, 1), sets, 4) == {"new": 1, "bad": 1, "old": 0}  # It may be missing.


@given(
    replicas=st.integers(0, 20),
    surge=st.integers(0, 10),
    unavailable=st.integers(0, 10),
    sets=st.lists(st.tuples(st.integers(1, 12), st.integers(0, 12), st.integers(0, 30)), min_size=2, max_size=5),
)
def test_whatever_is_shared_goes_one_way_and_leaves_what_is_needed(replicas, surge, unavailable, sets):
    limits = Bounds(replicas, surge, min(unavailable, replicas))
    sizes = [
        SetSize(str(number), wanted, min(available, wanted), most_before=before)
        for number, (wanted, available, before) in enumerate(sets)
    ]
    in_all = sum(each.wanted for each in sizes)

    found = rescaled(limits, sizes, in_all)

    allowed = limits.most if replicas else 0
    assert sum(found.values()) == allowed
    assert all((found[each.name] - each.wanted) * (allowed - in_all) >= 0 for each in sizes)
    left = sum(min(each.available, found[each.name]) for each in sizes)
    assert left >= min(limits.least, sum(each.available for each in sizes))


# The last ready pod of a failure domain.


def test_the_last_of_a_failure_domain_stays_while_new_pods_are_on_their_way():
    new, old = SetSize("new", 2, 1), [SetSize("old", 3, 3, spare=0)]

    assert shrunk(Bounds(4, 1, 1), new, old) == {}
    assert shrunk(Bounds(4, 1, 1), new, [SetSize("old", 3, 3, spare=1)]) == {"old": 2}


def test_the_last_of_a_failure_domain_goes_when_nothing_else_can_move():
    assert shrunk(Bounds(3, 0, 1), SetSize("new", 0, 0), [SetSize("old", 3, 3, spare=0)]) == {"old": 2}


def test_the_last_of_a_failure_domain_goes_when_the_new_pods_are_all_there():
    assert shrunk(Bounds(3, 1, 0), SetSize("new", 3, 3), [SetSize("old", 1, 1, spare=0)]) == {"old": 0}


@st.composite
def rollouts(draw):
    replicas = draw(st.integers(0, 12))
    limits = bounds(replicas, draw(st.integers(0, 5)), draw(st.integers(0, 5)))
    old = []
    for number in range(draw(st.integers(0, 3))):
        wanted = draw(st.integers(0, 8))
        available = draw(st.integers(0, wanted))
        old.append(SetSize(f"old-{number}", wanted, available, draw(st.none() | st.integers(0, available))))
    wanted = draw(st.integers(0, 12))
    return limits, SetSize("new", wanted, draw(st.integers(0, wanted))), old


@given(rollouts())
def test_no_step_asks_for_more_than_the_surge_or_leaves_less_than_the_least(rollout):
    limits, new, old = rollout
    in_all, available = new.wanted + sum(each.wanted for each in old), new.available + sum(e.available for e in old)

    size = grown(limits, new, old)
    assert size <= max(limits.replicas, 0)
    if size > new.wanted:
        assert in_all - new.wanted + size <= limits.most
    smaller = shrunk(limits, new, old)
    # Pods that are not available go first, so a set keeps as many available pods as fit.
    left = new.available + sum(min(smaller.get(each.name, each.wanted), each.available) for each in old)
    assert left >= min(available, limits.least)


@given(rollouts(), st.randoms(use_true_random=False))
def test_from_any_beginning_it_ends_with_the_new_pods_alone_whatever_domains_they_are_in(rollout, chance):
    """New pods become available now and then; sick old ones never do."""
    limits, new, old = rollout
    for _ in range(500):
        if (size := grown(limits, new, old)) != new.wanted:
            new = SetSize("new", size, min(new.available, size))
        elif smaller := shrunk(limits, new, old):
            old = [
                SetSize(
                    each.name,
                    smaller.get(each.name, each.wanted),
                    min(each.available, smaller.get(each.name, each.wanted)),
                    None if each.spare is None else min(each.spare, smaller.get(each.name, each.wanted)),
                )
                for each in old
            ]
        elif new.available < new.wanted:
            new = SetSize("new", new.wanted, min(new.wanted, new.available + chance.randint(1, 3)))
        else:
            break
    assert (new.wanted, new.available) == (limits.replicas, limits.replicas)
    assert [each.wanted for each in old] == [0] * len(old)
