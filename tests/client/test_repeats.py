"""What is sent a second time, and when: the plain function."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.api.retry_shape import RetryShape
from mainstay.client.call import Repeat, WriteOptions
from mainstay.client.retry_policy import RequestAttempt, RequestFailure, wait_before_repeat

SHAPE = RetryShape(attempts_max=4, first_delay=timedelta(milliseconds=100), delay_max=timedelta(seconds=1), jitter=0.5)
A_SECOND = timedelta(seconds=1)


def an_attempt(
    failure: RequestFailure,
    *,
    number: int = 1,
    retry_after: timedelta | None = None,
    is_safe: bool = False,
    servers: int = 1,
    left: timedelta = timedelta(minutes=1),
    jitter: float = 0.0,
) -> RequestAttempt:
    return RequestAttempt(number, failure, retry_after, is_safe, servers, left, jitter)


def wait(failure: RequestFailure, **more) -> timedelta | None:
    return wait_before_repeat(an_attempt(failure, **more), SHAPE)


@pytest.mark.parametrize("failure", [RequestFailure.NO_ANSWER, RequestFailure.UNABLE])
def test_what_may_have_been_done_is_repeated_only_if_that_is_safe(failure):
    assert wait(failure, is_safe=False) is None
    assert wait(failure, is_safe=True) == timedelta(milliseconds=100)


def test_what_was_not_sent_can_be_sent():
    assert wait(RequestFailure.NOT_SENT) == timedelta(milliseconds=100)


def test_another_server_is_asked_at_once_and_then_not_all_again_and_again():
    waits = [wait(RequestFailure.NOT_SENT, number=number, servers=2) for number in (1, 2, 3)]

    assert waits == [timedelta(0), timedelta(milliseconds=200), timedelta(milliseconds=400)]


def test_a_refusal_is_repeated_when_the_server_says_so_and_never_sooner():
    assert wait(RequestFailure.REFUSED, retry_after=A_SECOND) == timedelta(seconds=1.1)
    latest = wait(RequestFailure.REFUSED, retry_after=A_SECOND, jitter=0.999)
    assert latest is not None
    assert latest > A_SECOND
    assert wait(RequestFailure.REFUSED) is None


def test_a_final_answer_is_final():
    assert wait(RequestFailure.FINAL, is_safe=True, retry_after=A_SECOND) is None


def test_a_wait_that_is_longer_than_the_time_that_is_left_is_not_begun():
    assert wait(RequestFailure.REFUSED, retry_after=A_SECOND, left=A_SECOND) is None
    assert wait(RequestFailure.NOT_SENT, servers=2, left=timedelta(0)) is None


attempts = st.builds(
    RequestAttempt,
    st.integers(1, 100),
    st.sampled_from(RequestFailure),
    st.none() | st.timedeltas(timedelta(0), timedelta(days=1)),
    st.booleans(),
    st.integers(1, 5),
    st.timedeltas(timedelta(seconds=-5), timedelta(minutes=2)),
    st.floats(0, 1, exclude_max=True),
)


@given(attempts)
def test_repeats_are_bounded_in_number_and_in_time_and_never_unsafe(attempt):
    wanted = wait_before_repeat(attempt, SHAPE)

    if wanted is not None:
        assert attempt.number < SHAPE.attempts_max
        assert timedelta(0) <= wanted < attempt.left
        assert attempt.is_safe or attempt.failure in (RequestFailure.NOT_SENT, RequestFailure.REFUSED)
        assert (
            attempt.retry_after is None or attempt.failure is RequestFailure.NOT_SENT or wanted >= attempt.retry_after
        )


def test_which_writes_may_be_repeated():
    plain, named, dry = WriteOptions(), WriteOptions(operation="op-1"), WriteOptions(dry_run=True)

    assert plain.repeat(is_conditional=False) is Repeat.UNSAFE
    assert plain.repeat(is_conditional=True) is Repeat.SAFE
    assert named.repeat(is_conditional=False) is Repeat.BY_OPERATION
    assert dry.repeat(is_conditional=False) is Repeat.SAFE


@pytest.mark.parametrize("value", ["a\r\nX: y", "a\nb", "ä", "a\0"])
def test_what_could_become_another_header_is_not_sent(value):
    for options in (WriteOptions(operation=value), WriteOptions(cause=value), WriteOptions(term=value)):
        with pytest.raises(ValueError, match="printable"):
            options.headers()


def test_what_a_write_says_besides():
    write = WriteOptions(operation="o", decision="d", cause="c", term="ns/lease=5")

    assert write.headers() == (
        b"Mainstay-Operation: o\r\nMainstay-Decision: d\r\nMainstay-Cause: c\r\nMainstay-Term: ns/lease=5\r\n"
        b"traceparent: 00-18ac3e7343f016890c510e93f9352611-69d9e3f565436429-01\r\n"  # It follows from the decision.
    )
    assert WriteOptions().headers() == b""
