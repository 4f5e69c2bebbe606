"""When a container that has ended is started again."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.agent.pod.attempts import Container, ContainerAttempt, Role
from mainstay.agent.pod.facts import FailedProbe, ProbeVerdicts
from mainstay.agent.pod.restarts import KEEP, Backoff, backoff, in_words, restarts
from mainstay.agent.runner import Exited, State
from tests.agent.pods_and_facts import NOON, after, an_id, ended, running, seconds


def a_container(*states: State, first: int = 0, policy: str = "Always") -> Container:
    attempts = tuple(ContainerAttempt(an_id("app", first + number), state) for number, state in enumerate(states))
    return Container({"name": "app"}, Role.MAIN, policy, attempts, {})


@pytest.mark.parametrize(
    ("policy", "code", "verdicts", "is_restarted"),
    [
        ("Always", 0, None, True),
        ("OnFailure", 0, None, False),
        ("OnFailure", 3, None, True),
        ("OnFailure", 0, ProbeVerdicts(failed=FailedProbe.LIVENESS), True),
        ("Never", 3, None, False),
        ("Never", 3, ProbeVerdicts(failed=FailedProbe.STARTUP), False),
    ],
)
def test_the_policy_decides(policy: str, code: int, verdicts: ProbeVerdicts | None, is_restarted: bool):
    assert restarts(a_container(ended(code), policy=policy), verdicts) is is_restarted


def test_what_runs_is_not_started_again():
    assert not restarts(a_container(ended(1), running()))
    assert not restarts(a_container())


def crash_loop(times: int, runs: timedelta, keep: int = KEEP) -> list[timedelta]:
    """How long a container has to wait each time, if it always runs for so long and is started the moment it may."""
    now, states, waits = NOON, list[State](), list[timedelta]()
    for number in range(times):
        states.append(Exited(code=1, started_at=now, finished_at=now + runs))
        known = states[-keep:]
        found = backoff(a_container(*known, first=number + 1 - len(known)))
        wait = found.delay if found is not None else timedelta(0)
        waits.append(wait)
        now += runs + wait
    return waits


def test_it_waits_longer_each_time_up_to_five_minutes():
    expected = [0, 10, 20, 40, 80, 160, 300, 300, 300]

    assert crash_loop(9, seconds(1)) == [seconds(each) for each in expected]
    assert crash_loop(9, seconds(599)) == [seconds(each) for each in expected]


def test_it_is_started_at_once_after_it_has_run_for_ten_minutes_and_the_count_starts_over():
    assert crash_loop(5, timedelta(minutes=10, seconds=1)) == [seconds(0)] * 5
    long_run = ended(1, since=300, at=1000)
    crashed = a_container(long_run, ended(1, since=1000, at=1001), first=7)
    assert backoff(crashed) == Backoff(seconds(10), after(1001))


def test_a_long_pause_early_on_is_not_taken_for_a_long_crash_loop():
    # The agent was away for an hour. It was the first restart all the same.
    assert backoff(a_container(ended(1, at=1), ended(1, since=3600, at=3601))) == Backoff(seconds(10), after(3601))


def test_an_attempt_of_which_the_one_before_is_not_known_waits_as_long_as_it_may_have_to():
    assert backoff(a_container(ended(1), first=3)) == Backoff(seconds(40), after(1))


@given(st.integers(1, 12), st.integers(0, 700).map(seconds), st.integers(2, 5))
def test_how_many_attempts_are_kept_does_not_matter(times: int, runs: timedelta, keep: int):
    assert crash_loop(times, runs, keep) == crash_loop(times, runs, 100)


@pytest.mark.parametrize(("delay", "words"), [(10, "10s"), (80, "1m20s"), (160, "2m40s"), (300, "5m0s")])
def test_a_delay_is_written_as_kubectl_users_know_it(delay: int, words: Any):
    assert in_words(seconds(delay)) == words


@pytest.mark.parametrize(("now", "is_over"), [(1, False), (10.9, False), (11, True), (0.9, True), (-3600, True)])
def test_it_does_not_wait_for_a_clock_that_was_set_back(now: float, is_over: bool):
    waits = backoff(a_container(ended(1, at=0), ended(1, since=0, at=1)))

    assert waits == Backoff(seconds(10), after(1))
    assert waits is not None
    assert waits.is_over(after(now)) is is_over
