"""One fault at each write of a scenario: none breaks a promise, and one that does is named."""

from dataclasses import replace
from datetime import timedelta

import pytest

from mainstay.scenarios import SCENARIOS
from mainstay.sim.run.sweep import AT_DELIVERY, EVERYWHERE, FAULTS, Point, sweep
from tests.sim.orders import ORDERS
from tests.twins import sim as twins

pytestmark = pytest.mark.slow

LASTS = timedelta(seconds=4)


def test_no_single_fault_breaks_a_promise():
    found = sweep(replace(SCENARIOS["cache-follows"], lasts=LASTS), jobs=2)

    assert found.bad == ()
    assert found.points >= 5 * len(FAULTS)
    assert str(found) == f"cache-follows: no violation with any single fault at {found.points} injection points"


def test_a_bug_that_one_lost_answer_shows_is_named_with_its_write():
    found = sweep(
        replace(SCENARIOS["cache-follows"], lasts=LASTS),
        jobs=2,
        faults=["answer-lost"],
        patch=lambda: twins.does_an_operation_each_time_it_is_asked(pytest.MonkeyPatch()),
    )

    points = [point for point, _ in found.bad]
    assert points
    assert all(isinstance(point, Point) and point.fault == "answer-lost" for point in points)
    assert "answer-lost at write " in str(found)
    assert "was committed twice" in str(found)


def test_a_scenario_that_fails_without_any_fault_is_not_swept():
    found = sweep(
        replace(SCENARIOS["cache-follows"], lasts=LASTS), patch=lambda: twins.never_stops_writing(pytest.MonkeyPatch())
    )

    assert found.points == 0
    ((point, _),) = found.bad
    assert point is None
    assert "without faults: violated: quiescence" in str(found)


def test_what_a_program_is_told_is_swept_as_well():
    found = sweep(replace(ORDERS, lasts=timedelta(seconds=1)), jobs=2, faults=EVERYWHERE)

    # One order: a write, and two changes that the clerk is told of.
    assert found.points == len(FAULTS) + 2 * len(AT_DELIVERY)
    assert found.bad == ()


def test_only_a_part_of_the_points_is_tried_if_asked_for():
    found = sweep(replace(ORDERS, lasts=timedelta(seconds=1)), faults=EVERYWHERE, one_in=5)

    assert (found.points, found.of) == (3, 12)
    assert str(found) == "orders: no violation with any single fault at 3 injection points (of 12)"
