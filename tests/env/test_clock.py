"""The machine's clocks, as the rest of Mainstay sees them."""

from datetime import UTC, timedelta

from mainstay.env import SystemClock


def test_wall_time_is_in_utc():
    assert SystemClock().wall().tzinfo is UTC


def test_monotonic_time_never_goes_back():
    clock = SystemClock()
    readings = [clock.monotonic_ns() for _ in range(1000)]

    assert readings == sorted(readings)


def test_both_clocks_go_at_the_same_pace():
    clock = SystemClock()
    wall, monotonic = clock.wall(), clock.monotonic_ns()
    while clock.monotonic_ns() < monotonic + 2_000_000:
        pass

    # Only that they measure the same thing in their own units: how far they may drift is the machine's affair.
    assert clock.wall() - wall > timedelta(milliseconds=1)
