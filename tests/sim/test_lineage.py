"""Faults from lineage: what an outcome rests on is exact, and little has to be tried."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from mainstay.sim.finding import planted
from mainstay.sim.lineage.hitting import hitting_sets
from mainstay.sim.lineage.injecting import AT_DELIVERY, AT_WRITE, Claim, Search, Step, inject
from mainstay.sim.lineage.tracing import Lineage, Outcome
from mainstay.sim.plans import Aim, Place, Planned
from mainstay.sim.run import Booted, Verdict
from tests.sim.orders import CLERK, ORDERS


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


def a_write(nth: int = 1) -> Place:
    return Place("clerk", True, "POST /things", nth)


def test_what_has_held_in_spite_of_a_fault_is_tried_with_another_one():
    search = Search()
    places = [a_write(), Place("clerk", False, "things/a, change 1", 1)]
    outcome = Outcome("things/a", places)
    search.learn((), [outcome], places)
    lost = Aim(a_write(), "answer-lost")

    assert len(search.next(1, 100)) == len(AT_WRITE) + len(AT_DELIVERY)

    for aims in search.next(1, 100):
        search.learn(aims, [outcome], places)  # None of them has kept it from happening, nor changed its way.

    assert search.next(1, 100) == []
    pairs = search.next(2, 100)
    assert len(pairs) == 6 * 5 // 2
    assert any(lost in aims for aims in pairs)


def test_a_way_around_a_place_makes_faults_there_not_worth_trying():
    search = Search()
    search.learn((), [Outcome("things/a", [a_write(1)])], [a_write(1)])
    crash = Aim(a_write(1), "crash-before")
    search.learn((crash,), [Outcome("things/a", [a_write(2)])], [a_write(2)])

    assert search.next(1, 100) == []
    assert all({aim.place for aim in aims} == {a_write(1), a_write(2)} for aims in search.next(2, 100))


def test_an_outcome_rests_on_the_write_its_decision_and_what_that_looked_at():
    planned = Planned()
    with Booted(ORDERS, journal=True) as booted:
        before = len(booted.world.history.events)
        assert booted.go(1, strategy=planned).verdict is Verdict.PASSED
        assert booted.world.journal is not None
        lineage = Lineage(booted.world.history.events[before:], booted.world.journal.records(), planned)
    supports = {outcome.name: outcome.support for outcome in lineage.outcomes()}

    assert supports["core/configmaps/default/order-1"] == [
        Place(CLERK, True, "PATCH /api/v1/namespaces/default/configmaps/order-1", 1),
        Place(CLERK, False, "core/configmaps/default/order-1, change 1", 1),
    ]
    shipment = supports["core/configmaps/default/shipment-of-order-5"]
    assert Place(CLERK, True, "POST /api/v1/namespaces/default/configmaps/shipment-of-order-5", 1) in shipment
    assert Place(CLERK, False, "core/configmaps/default/order-5, change 1", 1) in shipment
    reads = lineage.reads_of(CLERK)
    assert reads is not None
    assert {key for key, _ in reads} >= {f"core/configmaps/default/order-{number}" for number in range(1, 10)}


# The search


def last(steps: list[Step]) -> Step:
    return steps[-1]


def test_a_bug_that_chance_needs_many_runs_for_is_found_with_few():
    steps = list(inject(ORDERS, patch=planted("tests.sim.orders:marks_it_done_before_it_ships")))

    assert steps[0].aims == []
    assert last(steps).result.verdict is Verdict.VIOLATED
    assert last(steps).number <= 8  # With chance it is some 26.
    assert [aim.fault for aim in last(steps).aims] == ["crash-before"]
    assert last(steps).result.tape  # To make it again.


def test_what_is_claimed_is_counted():
    steps = list(inject(ORDERS, lasts=timedelta(seconds=1), depth=2, runs=8))

    assert all(step.result.is_passed for step in steps)
    first, second = last(steps).claims
    tried = {aim for step in steps if len(step.aims) == 1 for aim in step.aims}
    assert first.faults == 1
    assert first.left == 0
    assert first.runs == 1 + len(tried)
    assert len(tried) <= first.points
    assert str(first) == (
        f"no violation with any one fault among these {first.points} points: exhausted after {first.runs} runs"
    )
    assert second.faults == 2
    assert second.runs == len(steps) - 1  # The last step only says what is claimed.
    assert second.left > 0
    assert "any two faults" in str(second)
    assert "stopped" in str(second)


def test_a_scenario_that_fails_without_any_fault_is_not_searched():
    found = list(inject(replace(ORDERS, calm=timedelta(0)), lasts=timedelta(seconds=1)))

    assert len(found) == 1
    assert not found[0].result.is_passed
    assert found[0].claims == []


def test_a_claim_says_how_many():
    assert (
        str(Claim(2, 214, 37, 0)) == "no violation with any two faults among these 214 points: exhausted after 37 runs"
    )
