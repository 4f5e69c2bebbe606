"""Places of a ReplicaSet, and the names of the pods in them."""

from hypothesis import given
from hypothesis import strategies as st

from mainstay.controllers.pods.slots import Vacant, name_in, short_hash, vacant
from tests.controllers.objects import a_pod

OWNER = {"name": "web-5f6d", "uid": "u1"}


def test_the_first_free_slots_are_filled():
    pods = [a_pod("p0", slot=0), a_pod("p2", slot=2)]

    assert vacant(pods, 2) == [Vacant(1), Vacant(3)]


def test_a_pod_that_has_failed_or_leaves_is_replaced_in_its_slot_by_name():
    pods = [a_pod("p0", slot=0, phase="Failed"), a_pod("p1", slot=1, leaving=True), a_pod("p2", slot=2)]

    assert vacant(pods, 2) == [Vacant(0, "p0"), Vacant(1, "p1")]


def test_the_last_of_a_slot_is_the_one_without_a_replacement():
    pods = [
        a_pod("z", slot=0, phase="Failed"),
        a_pod("a", slot=0, replaces="z", phase="Failed"),
        a_pod("m", slot=0, replaces="a", leaving=True),
    ]

    assert vacant(pods, 1) == [Vacant(0, "m")]


def test_an_adopted_pod_takes_no_slot():
    assert vacant([a_pod("stray"), a_pod("odd", slot=None, labels={})], 1) == [Vacant(0)]


def test_a_name_says_whose_it_is_for_which_slot_and_whom_it_replaces():
    names = [
        name_in(OWNER, Vacant(0)),
        name_in(OWNER, Vacant(1)),
        name_in(OWNER, Vacant(0, "p0")),
        name_in({**OWNER, "uid": "u2"}, Vacant(0)),
    ]

    assert names[0] == name_in(dict(OWNER), Vacant(0))
    assert len(set(names)) == len(names)
    assert all(name.startswith("web-5f6d-") for name in names)


def test_a_name_is_short_enough_for_a_host_and_ends_in_letters_and_digits():
    name = name_in({"name": "w" * 54 + "-" + "x" * 100, "uid": "u"}, Vacant(3))

    assert len(name) <= 63
    assert "--" not in name


def test_a_name_that_is_taken_gives_way_to_another():
    first = name_in(OWNER, Vacant(0))

    other = name_in(OWNER, Vacant(0), lambda name: name == first)

    assert other != first
    assert other == name_in(OWNER, Vacant(0), lambda name: name == first)


@given(st.lists(st.text(max_size=3), min_size=1, max_size=4), st.lists(st.text(max_size=3), min_size=1, max_size=4))
def test_different_parts_have_different_hashes(one, other):
    assert (short_hash(*one) == short_hash(*other)) == (one == other)
