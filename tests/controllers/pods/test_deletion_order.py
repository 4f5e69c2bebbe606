"""Which pods go first. Each row of the table differs in one thing, in the order in which things count."""

import pytest

from mainstay.loop.deletion_order import chosen, last_of_domain
from tests.controllers.objects import a_pod

ZONES = {"a1": "a", "a2": "a", "b1": "b", "c1": "c"}


@pytest.mark.parametrize(
    ("goes", "stays"),
    [
        (a_pod("z", node="", phase="Pending"), a_pod("a", phase="Pending")),
        (a_pod("z", phase="Pending"), a_pod("a", ready=False)),
        (a_pod("z", phase="Unknown"), a_pod("a", phase="Running", ready=False)),
        (a_pod("z", ready=False), a_pod("a")),
        (a_pod("z", cost=-5), a_pod("a")),
        (a_pod("z"), a_pod("a", cost=5)),
        (a_pod("z", ready_at=-10), a_pod("a", ready_at=-60)),
        (a_pod("z", restarts=3), a_pod("a", restarts=1)),
        (a_pod("z", created_at=-5), a_pod("a", created_at=-50)),
        (a_pod("a"), a_pod("z")),
        # What comes first decides, whatever comes after.
        (a_pod("z", node="", phase="Pending", cost=100), a_pod("a", cost=-100, ready=False)),
        (a_pod("z", ready=False, cost=100, created_at=-900), a_pod("a", cost=-100)),
        (a_pod("z", cost=-1, ready_at=-900, created_at=-900), a_pod("a", restarts=9)),
    ],
)
def test_what_costs_least_goes_first(goes, stays):
    # Neither is the last of its zone, or the zone would count.
    others = [a_pod("other")]

    assert chosen([stays, goes], 1, successors=others) == [goes]
    assert chosen([goes, stays], 1, successors=others) == [goes]


def test_where_most_pods_of_the_workload_are_one_goes_first():
    pods = [a_pod("a", node="n1"), a_pod("b", node="n2")]
    related = [a_pod("x", node="n2"), a_pod("y", node="n1", leaving=True), a_pod("z", node="n1", phase="Failed")]

    assert chosen(pods, 1, related=related, successors=[a_pod("s", node="n3")]) == [pods[1]]


def test_the_last_ready_pod_of_a_zone_goes_last_also_when_it_costs_less():
    pods = [a_pod("only", node="b1", cost=-100), a_pod("one", node="a1"), a_pod("two", node="a2", cost=50)]

    assert [pod["metadata"]["name"] for pod in chosen(pods, 3, zones=ZONES)] == ["one", "only", "two"]


def test_a_ready_successor_in_the_zone_makes_it_replaceable():
    pods = [a_pod("only", node="b1", cost=-1), a_pod("one", node="a1"), a_pod("two", node="a2")]
    new = [a_pod("new", node="b1")]

    assert chosen(pods, 1, related=new, successors=new, zones=ZONES) == [pods[0]]
    late = [a_pod("new", node="b1", ready=False)]
    assert chosen(pods, 1, related=late, successors=late, zones=ZONES) == [pods[2]]


def test_of_each_zone_one_ready_pod_is_its_last():
    pods = [
        a_pod("a-old", node="a1", ready_at=-90),
        a_pod("a-new", node="a2", ready_at=-9),
        a_pod("b", node="b1"),
        a_pod("c", node="c1", ready=False),
        a_pod("d", node="d1"),
    ]

    assert last_of_domain(pods, [a_pod("s", node="b1")], ZONES) == {"a-old", "d"}
