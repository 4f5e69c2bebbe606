"""The test by which a candidate is compared with the baseline: known values, and what counts as a regression."""

from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.api.policy_rollout import GateRules
from mainstay.controllers.policy_rollout.health import (
    SIZE_MAX,
    CohortFigures,
    ShadowFigures,
    compare_cohorts,
    compute_p_value,
    judge_shadow,
    list_signals,
)


def rules(**changed: Any) -> GateRules:
    found = {
        "min_samples": 10,
        "significance_percent": 5,
        "max_increase_percent": 5,
        "bound_within": timedelta(seconds=30),
        "max_shadow_different_percent": 50,
        "max_shadow_unplaced_percent": 5,
    }
    return GateRules(**{**found, **changed})


def pending(count: int, of: int) -> CohortFigures:
    return CohortFigures(pods=of, pending={"Unschedulable": count} if count else {}, late=count)


@pytest.mark.parametrize(
    ("candidate", "baseline", "p_value"),
    [
        ((3, 4), (1, 4), Fraction(17, 70)),  # Fisher's lady, who tastes tea.
        ((4, 4), (0, 4), Fraction(1, 70)),
        ((5, 5), (0, 5), Fraction(1, 252)),
        ((0, 5), (5, 5), Fraction(1)),
        ((0, 7), (0, 9), Fraction(1)),
        ((7, 7), (9, 9), Fraction(1)),
    ],
)
def test_the_exact_test_has_the_known_values(candidate, baseline, p_value):
    assert compute_p_value(candidate, baseline) == p_value


@given(st.integers(0, 30), st.integers(0, 30), st.integers(1, 30), st.integers(1, 30))
def test_more_trouble_under_the_candidate_is_never_less_suspicious(ours, theirs, size, of):
    ours, theirs = min(ours, size), min(theirs, of)

    found = compute_p_value((ours, size), (theirs, of))

    assert 0 < found <= 1
    if ours < size:
        assert compute_p_value((ours + 1, size), (theirs, of)) <= found


def test_large_cohorts_are_scaled_down():
    assert compute_p_value((50_000, 100_000), (40_000, 100_000)) == compute_p_value(
        (SIZE_MAX // 2, SIZE_MAX), (SIZE_MAX * 2 // 5, SIZE_MAX)
    )


@pytest.mark.parametrize(
    ("candidate", "baseline", "is_regression"),
    [
        (pending(0, 20), pending(0, 20), False),
        (pending(20, 20), pending(0, 20), True),
        (pending(10, 20), pending(0, 20), True),
        (pending(3, 20), pending(0, 20), False),  # May well be chance.
        (pending(10, 20), pending(10, 20), False),  # The cluster is full, for both.
        (pending(0, 20), pending(20, 20), False),
        (pending(230, 400), pending(200, 400), False),  # Surely more, and by more than 5 points: not by chance …
        (pending(260, 400), pending(200, 400), True),
    ],
)
def test_a_regression_is_larger_than_tolerated_and_unlikely_to_be_chance(candidate, baseline, is_regression):
    found = compare_cohorts(candidate, baseline, rules())

    assert (bool(found.regressions), found.is_healthy) == (is_regression, not is_regression)


def test_a_difference_within_the_tolerance_is_no_regression_however_sure_it_is():
    found = compare_cohorts(pending(260, 400), pending(200, 400), rules(max_increase_percent=15))

    assert found.is_healthy


@pytest.mark.parametrize(("ours", "theirs"), [(9, 100), (100, 9), (0, 0)])
def test_too_few_samples_are_neither_healthy_nor_a_regression(ours, theirs):
    found = compare_cohorts(pending(ours, ours), pending(0, theirs), rules())

    assert (found.is_healthy, found.regressions, found.tests) == (False, (), ())
    assert found.missing


def test_pods_that_wait_for_another_reason_are_a_regression_although_as_many_wait():
    ours = CohortFigures(pods=20, pending={"ZoneSkew": 12}, late=12)
    theirs = CohortFigures(pods=20, pending={"Unschedulable": 12}, late=12)

    found = compare_cohorts(ours, theirs, rules())

    assert [each.signal for each in found.tests if each.is_regression] == ["pending/ZoneSkew"]


def test_conflicts_are_shares_of_decisions_and_are_left_out_where_nothing_was_decided():
    ours = CohortFigures(pods=20, decided=100, conflicts=40, refused=200)
    theirs = CohortFigures(pods=20, decided=100, conflicts=1)

    assert list_signals(ours, theirs)["refused"] == ((100, 100), (0, 100))
    assert [each.signal for each in compare_cohorts(ours, theirs, rules()).tests if each.is_regression] == [
        "conflicts",
        "refused",
    ]
    assert "conflicts" not in list_signals(ours, CohortFigures(pods=20))


def test_pods_that_no_scheduler_has_decided_about_are_missing_and_no_regression():
    """A baseline of pods that merely wait for a scheduler would excuse every candidate."""
    lagging = CohortFigures(pods=20, undecided=4)

    found = compare_cohorts(CohortFigures(pods=20), lagging, rules())
    assert (found.missing, found.regressions) == ("schedulers have not decided about 4 of the pods yet", ())
    assert compare_cohorts(pending(18, 20), lagging, rules()).regressions


def test_decisions_that_schedulers_should_have_counted_and_have_not_are_missing():
    ours = CohortFigures(pods=20, decided=100, is_counted=True)

    assert compare_cohorts(ours, CohortFigures(pods=20, is_counted=True), rules()).missing
    assert compare_cohorts(ours, CohortFigures(pods=20, is_counted=False), rules()).is_healthy


@pytest.mark.parametrize(
    ("figures", "is_healthy", "regressions"),
    [
        (ShadowFigures(9, 0, 0), False, 0),
        (ShadowFigures(100, 50, 5), True, 0),
        (ShadowFigures(100, 51, 5), False, 1),
        (ShadowFigures(100, 51, 6), False, 2),
    ],
)
def test_in_the_shadow_two_shares_have_a_bound(figures, is_healthy, regressions):
    found = judge_shadow(figures, rules())

    assert (found.is_healthy, len(found.regressions)) == (is_healthy, regressions)
