"""A replacement never starts before the holder has stopped, whatever clocks and messages do within the assumptions."""

from datetime import timedelta
from fractions import Fraction

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mainstay.loop import fencing
from mainstay.loop.fencing import HolderTimes, LeaseTimes, MayStart, NotBefore, ObservedLease, observed
from tests.loop.lease_cases import Case, S, cases, stopped_and_started, times
from tests.twins import fencing as twins

pytestmark = pytest.mark.slow


def test_a_replacement_waits_for_the_duration_and_the_difference_of_rates():
    seen = ObservedLease(revision=7, seen_ns=100 * S)

    until_ns = 115 * S + 15 * S // 1000
    assert fencing.may_start(seen, until_ns - 1, times()) == NotBefore(until_ns)
    assert fencing.may_start(seen, until_ns, times()) == MayStart(7)


def test_a_holder_knows_when_to_renew_when_to_begin_stopping_and_when_to_have_stopped():
    lease = times(ppm=250_000, stopping=timedelta(seconds=2))

    assert fencing.holder_times(100 * S, lease) == HolderTimes(103 * S, 110 * S, 112 * S)


def test_seeing_a_lease_again_does_not_restart_the_count():
    first = observed(None, 7, 100)

    assert observed(first, 7, 200) is first
    assert observed(first, 6, 200) is first
    assert observed(first, 8, 200) == ObservedLease(8, 200)


@given(ppm=st.integers(0, 2_000_000), duration_us=st.integers(10, 10**12))
def test_the_replacement_rounds_up_and_the_holder_down(ppm, duration_us):
    lease = LeaseTimes(
        duration=timedelta(microseconds=duration_us),
        renew_every=timedelta(microseconds=1),
        rate_difference_ppm=ppm,
    )
    duration_ns, faster = 1000 * duration_us, 1 + Fraction(ppm, 1_000_000)

    assert duration_ns * faster <= lease.wait_ns < duration_ns * faster + 1000
    assert duration_ns / faster - 1000 < lease.hold_ns <= duration_ns / faster


@pytest.mark.parametrize(
    "wrong",
    [
        {"rate_difference_ppm": -1},
        {"rate_difference_ppm": 1_000_000},
        {"renew_every": timedelta()},
        {"renew_every": timedelta(seconds=7.5)},
        {"stopping": timedelta(seconds=-1)},
        {"stopping": timedelta(seconds=7)},
    ],
    ids=str,
)
def test_times_that_cannot_work_are_refused(wrong):
    fields = {"duration": timedelta(seconds=15), "renew_every": timedelta(seconds=4)}
    with pytest.raises(ValueError, match=r"."):
        LeaseTimes(**(fields | wrong))


# All clocks, all delays


@settings(max_examples=400)
@given(case=cases())
def test_the_holder_has_stopped_before_its_replacement_starts(case):
    stopped, started = stopped_and_started(case)

    assert started is None or stopped <= started


@pytest.mark.parametrize("twin", twins.TWINS, ids=lambda twin: twin.__name__)
def test_a_twin_lets_two_hold_at_once(twin: twins.Twin, monkeypatch):
    twin(monkeypatch)

    @settings(max_examples=2000, database=None, phases=[Phase.generate])
    @given(case=cases())
    def two_never_hold_at_once(case: Case) -> None:
        stopped, started = stopped_and_started(case)
        assert started is None or stopped <= started

    with pytest.raises(AssertionError):
        two_never_hold_at_once()
