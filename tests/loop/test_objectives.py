"""How fast the budget of an objective burns."""

from datetime import timedelta

from mainstay.loop.objectives import Burn, Objective

SECOND_NS = 1_000_000_000
MINUTES = timedelta(minutes=5)
HOUR = timedelta(hours=1)


def a_burn() -> Burn:
    return Burn(Objective("bound", timedelta(seconds=5), 99))


def test_nothing_burns_while_nothing_is_done():
    assert a_burn().rate(HOUR, 7 * SECOND_NS) == 0


def test_one_late_of_a_hundred_is_exactly_the_budget():
    burn = a_burn()
    for number in range(100):
        burn.add((6 if number == 50 else 5) * SECOND_NS, now_ns=number * SECOND_NS)

    assert round(burn.rate(MINUTES, 100 * SECOND_NS), 6) == 1


def test_all_late_burns_a_hundred_budgets():
    burn = a_burn()
    burn.add(60 * SECOND_NS, now_ns=0)

    assert round(burn.rate(MINUTES, SECOND_NS), 6) == 100


def test_what_was_late_before_the_short_window_is_only_in_the_long_one():
    burn = a_burn()
    burn.add(60 * SECOND_NS, now_ns=0)
    burn.add(SECOND_NS, now_ns=600 * SECOND_NS)

    assert burn.rate(MINUTES, 600 * SECOND_NS) == 0
    assert round(burn.rate(HOUR, 600 * SECOND_NS), 6) == 50


def test_more_than_an_hour_is_not_kept():
    burn = a_burn()
    for number in range(1_000):
        burn.add(SECOND_NS, now_ns=number * 10 * SECOND_NS)

    assert len(burn._steps) <= 361
