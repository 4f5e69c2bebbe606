"""Counting what a probe finds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.agent.pod.facts import FailedProbe, ProbeVerdicts
from mainstay.agent.pod.probe_results import ProbeCount, ProbeKind, at_first, build_verdicts, counted, read_times
from tests.agent.pods_and_facts import NOON, after, seconds

TIMES = read_times({"failureThreshold": 3, "successThreshold": 2})


def after_results(kind: ProbeKind, results: str, successes_needed: int = 2) -> ProbeCount:
    """`+` for each success, `-` for each failure."""
    times = read_times({"failureThreshold": 3, "successThreshold": successes_needed})
    count = at_first(kind)
    for result in results:
        count = counted(count, kind, times, success=result == "+")
    return count


@pytest.mark.parametrize(
    ("results", "is_ready"),
    [
        ("", False),
        ("+", False),
        ("++", True),
        ("+-+", False),
        ("++-", True),
        ("++--+", True),
        ("++--+--", True),
        ("++---", False),
        ("++---+", False),
        ("++---++", True),
    ],
)
def test_a_container_is_ready_by_the_last_results_that_came_often_enough_in_a_row(results: str, is_ready: bool):
    assert after_results(ProbeKind.READINESS, results).verdict is is_ready


@pytest.mark.parametrize(
    ("results", "is_alive"), [("", True), ("--", True), ("--+--", True), ("---", False), ("---+++", False)]
)
def test_a_container_is_alive_until_it_has_failed_often_enough_and_then_never_again(results: str, is_alive: bool):
    assert after_results(ProbeKind.LIVENESS, results, 1).verdict is is_alive


@pytest.mark.parametrize(
    ("results", "has_started"), [("", None), ("--", None), ("--+", True), ("--+---", True), ("---", False)]
)
def test_a_container_has_started_once_and_for_all(results: str, has_started: bool | None):
    assert after_results(ProbeKind.STARTUP, results, 1).verdict is has_started


def test_what_the_probes_say_together():
    startup = after_results(ProbeKind.STARTUP, "+", 1)
    ready = after_results(ProbeKind.READINESS, "+", 1)
    alive, dead = after_results(ProbeKind.LIVENESS, "", 1), after_results(ProbeKind.LIVENESS, "---", 1)

    assert build_verdicts(startup, ready, alive) == ProbeVerdicts(is_started=True, is_ready=True)
    assert build_verdicts(None, None, dead) == ProbeVerdicts(failed=FailedProbe.LIVENESS)
    failed = after_results(ProbeKind.STARTUP, "---", 1)
    assert build_verdicts(failed, None, alive) == ProbeVerdicts(is_started=False, failed=FailedProbe.STARTUP)


def test_before_its_first_result_a_probe_says_nothing():
    fresh = build_verdicts(at_first(ProbeKind.STARTUP), at_first(ProbeKind.READINESS), at_first(ProbeKind.LIVENESS))

    assert fresh == ProbeVerdicts()


def test_the_first_probe_comes_after_the_initial_delay():
    times = read_times({"initialDelaySeconds": 7, "timeoutSeconds": 2, "periodSeconds": 5})

    assert times.first_at(NOON) == after(7)
    assert (times.period, times.timeout) == (seconds(5), seconds(2))
    assert read_times({}).period == seconds(10)


@given(st.sampled_from(ProbeKind), st.lists(st.booleans(), max_size=30))
def test_a_verdict_changes_only_with_enough_equal_results_in_a_row(kind: ProbeKind, results: list[bool]):
    count = at_first(kind)
    for number, success in enumerate(results):
        before, count = count, counted(count, kind, TIMES, success=success)
        if count.verdict is not before.verdict:
            needed = TIMES.successes_needed if success else TIMES.failures_needed
            assert results[number + 1 - needed : number + 1] == [success] * needed
            assert count.verdict is success
