"""Faults from lineage: what an outcome rests on is exact, and little has to be tried."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from mainstay.sim.lineage.hitting_sets import hitting_sets
from mainstay.sim.lineage.injection import AT_DELIVERY, AT_WRITE, Claim, InjectionStep, Search, inject
from mainstay.sim.lineage.provenance import Lineage, LineageOutcome
from mainstay.sim.run.lookup import find_patch
from mainstay.sim.run.plans import Aim, InjectionPoint, PlannedFaults
from mainstay.sim.run.run import Booted, RunVerdict
from tests.sim.orders import CLERK, ORDERS

pytestmark = pytest.mark.slow


def sets(ways: list[set[str]], size: int) -> list[set[str]]:
    def hits(way: set[str]) -> Callable[[str], bool]:
        return lambda element: element in way

    return [set(each) for each in hitting_sets([hits(way) for way in ways], [sorted(way) for way in ways], size)]


def test_what_is_in_all_ways_hits_them_alone():
    assert sets([{"a", "b"}, {"b", "c"}], 1) == [{"b"}]


def test_two_are_tried_where_one_is_not_enough():
    found = sets([{"a", "b"}, {"b", "c"}, {"d"}], 2)

    assert found == [{"b", "d"}]


def test_a_set_of_which_a_part_is_enough_is_not_given():
    assert sets([{"a", "b"}], 2) == []


def test_ways_that_have_nothing_cannot_be_hit():
    assert sets([{"a"}, set()], 2) == []


# What an outcome rests on


def a_write(nth: int = 1) -> InjectionPoint:
    return InjectionPoint("clerk", True, "POST /things", nth)


def test_what_has_held_in_spite_of_a_fault_is_tried_with_another_one():
    search = Search()
    places = [a_write(), InjectionPoint("clerk", False, "things/a, change 1", 1)]
    outcome = LineageOutcome("things/a", places)
    search.learn((), [outcome], places)
    lost = Aim(a_write(), "answer-lost")

    assert len(search.next(1, 100, search.points)) == len(AT_WRITE) + len(AT_DELIVERY)

    for aims in search.next(1, 100, search.points):
        search.learn(aims, [outcome], places)  # None of them has kept it from happening, nor changed its way.

    assert search.next(1, 100, search.points) == []
    pairs = search.next(2, 100, search.points)
    assert len(pairs) == 6 * 5 // 2
    assert any(lost in aims for aims in pairs)


def test_a_way_around_a_write_makes_faults_before_its_commit_not_worth_trying():
    search = Search()
    search.learn((), [LineageOutcome("things/a", [a_write(1)])], [a_write(1)])
    crash = Aim(a_write(1), "crash-before")
    search.learn((crash,), [LineageOutcome("things/a", [a_write(2)])], [a_write(2)])

    assert Aim(a_write(1), "request-lost") in search.points
    assert search.next(1, 100, search.points) == [(Aim(a_write(1), fault),) for fault in ("answer-lost", "crash-after")]


def test_a_way_without_a_write_says_nothing_about_an_answer_to_it_that_is_lost():
    late = InjectionPoint("clerk", False, "things/a, change 1", 1)
    search = Search()
    search.learn((), [LineageOutcome("things/a", [a_write(), late])], [a_write(), late])
    search.learn((Aim(late, "watch-delay"),), [LineageOutcome("things/a", [])], [])

    assert search.next(1, 100, search.points) == [(Aim(a_write(), fault),) for fault in ("answer-lost", "crash-after")]
    for aims in search.next(1, 100, search.points):
        search.learn(aims, [LineageOutcome("things/a", [a_write(), late])], [a_write(), late])
    assert search.next(1, 100, search.points) == []


def test_what_goes_around_one_fault_is_tried_with_another_on_its_way():
    search = Search()
    search.learn((), [LineageOutcome("things/a", [a_write(1)])], [a_write(1)])
    for fault in AT_WRITE:
        search.learn((Aim(a_write(1), fault),), [LineageOutcome("things/a", [a_write(2)])], [a_write(2)])

    assert search.next(1, 100, search.points) == []
    assert {frozenset(aim.place for aim in aims) for aims in search.next(2, 100, search.points)} >= {
        frozenset([a_write(1), a_write(2)])
    }


def test_what_is_only_there_after_a_fault_is_not_tried_alone():
    search = Search()
    search.learn((), [LineageOutcome("things/a", [a_write(1)])], [a_write(1)])
    points = dict(search.points)
    search.learn((Aim(a_write(1), "crash-before"),), [LineageOutcome("things/b", [a_write(2)])], [a_write(2)])

    assert {aim.place for aims in search.next(1, 100, points) for aim in aims} == {a_write(1)}


def test_an_outcome_rests_on_the_write_its_decision_and_what_that_looked_at():
    planned = PlannedFaults()
    with Booted(ORDERS, journal=True) as booted:
        before = len(booted.world.history.events)
        assert booted.go(1, strategy=planned).verdict is RunVerdict.PASSED
        assert booted.world.journal is not None
        lineage = Lineage(booted.world.history.events[before:], booted.world.journal.records(), planned)
    supports = {outcome.name: outcome.support for outcome in lineage.outcomes()}

    assert supports["core/configmaps/default/order-1"] == [
        InjectionPoint(CLERK, True, "PATCH /api/v1/namespaces/default/configmaps/order-1", 1),
        InjectionPoint(CLERK, False, "core/configmaps/default/order-1, change 1", 1),
    ]
    shipment = supports["core/configmaps/default/shipment-of-order-5"]
    assert InjectionPoint(CLERK, True, "POST /api/v1/namespaces/default/configmaps/shipment-of-order-5", 1) in shipment
    assert InjectionPoint(CLERK, False, "core/configmaps/default/order-5, change 1", 1) in shipment
    reads = lineage.find_reads(CLERK)
    assert reads is not None
    assert {key for key, _ in reads} >= {f"core/configmaps/default/order-{number}" for number in range(1, 10)}


# The search


def last(steps: list[InjectionStep]) -> InjectionStep:
    return steps[-1]


def test_a_bug_that_chance_needs_many_runs_for_is_found_with_few():
    steps = list(inject(ORDERS, patch=find_patch("tests.sim.orders:marks_it_done_before_it_ships")))

    assert steps[0].aims == []
    assert last(steps).result.verdict is RunVerdict.VIOLATED
    assert last(steps).number <= 8  # With chance it is some 26.
    assert [aim.fault for aim in last(steps).aims] == ["crash-before"]
    assert last(steps).result.tape  # To make it again.


def test_what_is_claimed_is_counted():
    steps = list(inject(ORDERS, lasts=timedelta(seconds=1), depth=2, runs=10))

    assert all(step.result.is_passed for step in steps)
    first, second = last(steps).claims
    tried = {aim for step in steps if len(step.aims) == 1 for aim in step.aims}
    assert first.faults == 1
    assert first.left == 0
    assert first.injected == len(tried)
    assert first.others == first.points - len(tried)
    assert second.faults == 2
    assert second.injected == len(steps) - 2 - len(tried)  # One is without a fault, and one only says what is claimed.
    assert second.left > 0


def test_faults_after_the_commit_are_injected_at_each_write_that_an_outcome_rests_on():
    steps = list(inject(ORDERS, lasts=timedelta(seconds=3), jobs=2))

    tried = {aim: None for step in steps for aim in step.aims}
    writes = {aim.place: None for aim in tried if aim.place.is_write and aim.place.nth == 1}
    assert len(writes) >= 3
    for place in writes:
        assert Aim(place, "crash-after") in tried
        assert Aim(place, "answer-lost") in tried
    (claim,) = last(steps).claims
    assert claim.injected == len(tried) < claim.points


def test_how_many_runs_are_made_at_once_makes_no_difference():
    few, many = (list(inject(ORDERS, lasts=timedelta(seconds=1), jobs=jobs)) for jobs in (1, 16))

    assert few == many


def test_a_scenario_that_fails_without_any_fault_is_not_searched():
    found = list(inject(replace(ORDERS, calm=timedelta(0)), lasts=timedelta(seconds=1)))

    assert len(found) == 1
    assert not found[0].result.is_passed
    assert found[0].claims == []


def test_a_claim_says_how_many_were_injected_and_how_many_were_not():
    assert str(Claim(1, points=48, injected=31, left=0)) == (
        "no violation with any single fault at 48 injection points: 31 injected,"
        " and by lineage the other 17 cannot prevent any outcome"
    )
    assert str(Claim(1, points=6, injected=6, left=0)) == (
        "no violation with any single fault at 6 injection points: 6 injected"
    )
    assert str(Claim(2, points=48, injected=120, left=0)) == (
        "no violation with any two faults at 48 injection points: 120 pairs injected,"
        " and by lineage the other 1008 cannot prevent any outcome"
    )
    assert str(Claim(2, points=48, injected=120, left=30)) == (
        "no violation with 120 pairs injected, of any two faults at 48 injection points;"
        " stopped, with 30 or more left to try"
    )
