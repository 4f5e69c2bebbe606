"""The shape of retries, and the state of one."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.api.retry_shape import RetryShape
from mainstay.loop.retry import REASONS, GivenUp, Reason, RetryState, failed, looked, operation_id

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def a_shape(
    attempts_max: int = 4, jitter: float = 0.0, deadline: timedelta | None = None, factor: float = 2.0
) -> RetryShape:
    return RetryShape(
        attempts_max=attempts_max,
        first_delay=SECOND,
        delay_max=timedelta(seconds=10),
        factor=factor,
        jitter=jitter,
        deadline=deadline,
    )


def fail(
    state: RetryState | None = None,
    reason: Reason = Reason.CONFLICT,
    *,
    shape: RetryShape | None = None,
    operation: str = "bind:1",
    now: datetime = NOON,
    at_least: timedelta = timedelta(),
    error: str = "409",
) -> RetryState | GivenUp:
    return failed(
        shape or a_shape(),
        state,
        operation=operation,
        reason=reason,
        error=error,
        now=now,
        jitter=0.5,
        at_least=at_least,
    )


def still_trying(state: RetryState | GivenUp) -> RetryState:
    assert isinstance(state, RetryState)
    return state


# The shape


def test_delays_grow_up_to_the_longest():
    delays = [a_shape().delay(attempt, 0) // SECOND for attempt in range(1, 8)]

    assert delays == [1, 2, 4, 8, 10, 10, 10]


@given(
    attempt=st.integers(1, 10**9),
    jitter=st.floats(0, 1, exclude_max=True),
    share=st.floats(0, 1),
    factor=st.floats(1, 1000),
    first_ms=st.integers(1, 10**6),
    growth=st.integers(1, 10**6),
)
def test_a_delay_is_never_longer_than_the_longest_nor_shorter_than_chance_may_make_it(
    attempt, jitter, share, factor, first_ms, growth
):
    first = timedelta(milliseconds=first_ms)
    shape = RetryShape(attempts_max=5, first_delay=first, delay_max=first * growth, factor=factor, jitter=share)

    delay = shape.delay(attempt, jitter)

    microsecond = timedelta(microseconds=1)
    assert first * (1 - share) - microsecond <= delay <= shape.delay_max
    assert delay <= shape.delay(attempt, 0) <= shape.delay(attempt + 1, 0)


def test_after_the_last_attempt_there_is_no_delay():
    shape = a_shape(attempts_max=3)

    assert [shape.next_delay(attempt, timedelta(), 0) for attempt in (1, 2, 3)] == [SECOND, 2 * SECOND, None]


def test_nothing_is_tried_after_the_deadline():
    shape = a_shape(attempts_max=100, deadline=timedelta(seconds=20))

    assert shape.next_delay(5, timedelta(seconds=10), 0) == timedelta(seconds=10)
    assert shape.next_delay(5, timedelta(seconds=10.1), 0) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts_max": 0},
        {"first_delay": timedelta()},
        {"first_delay": timedelta(hours=1)},
        {"factor": 0.5},
        {"factor": float("inf")},
        {"jitter": 1.5},
        {"deadline": -SECOND},
    ],
    ids=str,
)
def test_a_shape_that_makes_no_sense_is_refused(wrong):
    fields = {"attempts_max": 3, "first_delay": SECOND, "delay_max": timedelta(seconds=10)}
    with pytest.raises(ValueError, match=r"."):
        RetryShape(**(fields | wrong))


# The state


def test_a_failure_says_what_is_tried_again_when_and_why():
    assert fail() == RetryState(
        operation="bind:1",
        attempt=2,
        failures=1,
        reason=Reason.CONFLICT,
        error="409",
        failed_first_at=NOON,
        next_at=NOON + SECOND,
        may_have_happened=False,
    )
    message = still_trying(fail()).message
    assert message == "waiting: somebody else changed the object first (attempt 2, next at 12:00:01 UTC)"


def test_after_as_many_failures_as_there_are_attempts_it_is_given_up():
    state: RetryState | GivenUp = fail()
    for _ in range(3):
        state = fail(still_trying(state))

    assert isinstance(state, GivenUp)
    assert (state.attempts, state.reason, state.is_past_deadline) == (4, Reason.CONFLICT, False)


def test_an_outage_lengthens_the_delay_but_uses_up_no_attempt():
    state = still_trying(fail(reason=Reason.UNAVAILABLE))
    for _ in range(100):
        state = still_trying(fail(state, Reason.UNAVAILABLE))

    assert (state.attempt, state.next_at - NOON) == (1, timedelta(seconds=10))


def test_the_deadline_ends_even_what_does_not_count():
    shape = a_shape(deadline=timedelta(minutes=1))
    state = still_trying(fail(reason=Reason.UNAVAILABLE, shape=shape))

    over = fail(state, Reason.UNAVAILABLE, shape=shape, now=NOON + timedelta(minutes=1))

    assert isinstance(over, GivenUp)
    assert (over.is_past_deadline, over.may_have_happened) == (True, True)


def test_a_clock_that_jumps_back_does_not_lengthen_the_deadline_by_more_than_it_jumped():
    shape = a_shape(deadline=timedelta(minutes=1))
    state = still_trying(fail(shape=shape))

    again = still_trying(fail(state, shape=shape, now=NOON - timedelta(hours=1)))

    assert again.next_at == NOON - timedelta(hours=1) + 2 * SECOND


def test_another_intent_begins_anew():
    state = still_trying(fail(still_trying(fail())))

    assert still_trying(fail(state, operation="bind:2")).attempt == 2


def test_a_server_that_asks_for_more_patience_gets_it():
    state = fail(reason=Reason.THROTTLED, at_least=timedelta(seconds=30))

    assert still_trying(state).next_at == NOON + timedelta(seconds=30)


def test_what_may_have_happened_is_remembered_until_somebody_has_looked():
    unknown = still_trying(fail(reason=Reason.UNAVAILABLE))
    later = still_trying(fail(unknown, Reason.CONFLICT))

    assert (later.may_have_happened, looked(later).may_have_happened) == (True, False)


def test_a_long_error_is_cut():
    assert len(still_trying(fail(error="x" * 10_000)).error) == 256


def test_every_reason_says_whether_it_counts_and_has_a_text():
    assert list(REASONS) == list(Reason)
    assert all(facts.text for facts in REASONS.values())


# The identity


@given(action=st.sampled_from(["bind", "ensure-pod"]), intent=st.lists(st.text(), max_size=4))
def test_an_operation_id_is_one_that_the_server_takes(action, intent):
    assert re.fullmatch(r"[A-Za-z0-9._:/-]{1,128}", operation_id(action, *intent))


@given(first=st.lists(st.text(max_size=3), max_size=3), second=st.lists(st.text(max_size=3), max_size=3))
def test_two_operations_have_one_id_only_if_they_have_one_intent(first, second):
    assert (operation_id("bind", *first) == operation_id("bind", *second)) is (first == second)


def test_an_operation_id_is_the_same_in_every_process_and_build():
    assert operation_id("bind", "uid-1", "42") == "bind:2b65c4041d51e303b1514c3b659516e2"


def test_an_action_that_is_no_word_is_refused():
    with pytest.raises(ValueError, match="short word"):
        operation_id("bind a pod", "uid-1")
