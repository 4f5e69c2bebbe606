"""What a supervisor does next: whole plans, from what is wanted, what runs and what is remembered."""

import signal
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.env.commands import Identity
from mainstay.supervisor.decide import (
    GRACE,
    KILL_AGAIN_EVERY,
    PAUSE_MAX,
    PAUSE_MIN,
    STEADY_AFTER,
    ComponentHistory,
    ExitReason,
    Process,
    ProcessEnded,
    ProcessSpec,
    Run,
    SendSignal,
    StartProcess,
    Stop,
    SupervisorPlan,
    decide,
    not_started,
    pause,
)

S = 1_000_000_000
SERVER = ProcessSpec("server", ("server", "--port", "1"), 2)
AGENT = ProcessSpec("agent", ("agent",), 1)
NOW = 1000 * S


def who(pid: int, started: int = 1) -> Identity:
    return Identity(pid, started, "boot")


def process(component: ProcessSpec, pid: int = 7, argv: tuple[str, ...] | None = None) -> Process:
    return Process(who(pid), component.argv if argv is None else argv, component.turn)


def ns(length: timedelta) -> int:
    return round(length.total_seconds() * S)


def test_what_is_not_there_is_started_in_order():
    plan = decide([SERVER, AGENT], {}, {}, NOW, Run())

    assert plan == SupervisorPlan(
        actions=(StartProcess(SERVER), StartProcess(AGENT)),
        memory={"server": ComponentHistory(), "agent": ComponentHistory()},
    )


def test_a_process_that_runs_as_wanted_is_adopted():
    plan = decide([SERVER], {"server": process(SERVER)}, {}, NOW, Run())

    assert plan == SupervisorPlan(actions=(), memory={"server": ComponentHistory(process=who(7), since_ns=NOW)})


def test_what_runs_otherwise_than_wanted_is_asked_to_end_and_killed_after_its_grace():
    other = {"server": process(SERVER, argv=("server", "--port", "2"))}

    asked = decide([SERVER], other, {}, NOW, Run())
    waiting = decide([SERVER], other, asked.memory, NOW + 1, Run())
    killed = decide([SERVER], other, asked.memory, NOW + ns(GRACE), Run())
    again = decide([SERVER], other, killed.memory, NOW + ns(GRACE + KILL_AGAIN_EVERY), Run())

    assert asked.actions == (SendSignal("server", who(7), signal.SIGTERM),)
    assert (waiting.actions, waiting.wake_ns) == ((), NOW + ns(GRACE))
    assert killed.actions == (SendSignal("server", who(7), signal.SIGKILL),)
    assert again.actions == (SendSignal("server", who(7), signal.SIGKILL),)


def test_what_was_asked_to_end_is_restarted_without_a_pause_and_has_not_failed():
    other = {"server": process(SERVER, argv=())}
    asked = decide([SERVER], other, {}, NOW, Run())

    plan = decide([SERVER], {}, asked.memory, NOW + S, Run())

    assert plan.actions == (StartProcess(SERVER),)
    assert plan.ended == (ProcessEnded("server", who(7), ExitReason.ASKED, 0, NOW + S),)
    assert plan.memory["server"].restarts == 0


def test_what_is_not_wanted_any_more_is_ended():
    plan = decide([SERVER], {"server": process(SERVER), "old": process(AGENT, 8)}, {}, NOW, Run())

    assert plan.actions == (SendSignal("old", who(8), signal.SIGTERM),)


def test_what_has_ended_is_started_again_after_a_pause():
    before = decide([SERVER], {"server": process(SERVER)}, {}, NOW, Run())

    ended = decide([SERVER], {}, before.memory, NOW + S, Run())
    at = NOW + S + ns(PAUSE_MIN)

    assert (ended.actions, ended.wake_ns) == ((), at)
    assert ended.ended == (ProcessEnded("server", who(7), ExitReason.FAILED, 1, at),)
    assert decide([SERVER], {}, ended.memory, at - 1, Run()).actions == ()
    assert decide([SERVER], {}, ended.memory, at, Run()).actions == (StartProcess(SERVER),)


def test_another_process_under_the_same_name_is_the_end_of_the_one_before():
    before = decide([SERVER], {"server": process(SERVER, 7)}, {}, NOW, Run())

    plan = decide([SERVER], {"server": process(SERVER, 8)}, before.memory, NOW + S, Run())

    assert [news.identity for news in plan.ended] == [who(7)]
    assert plan.memory["server"].process == who(8)


def test_the_pause_doubles_up_to_its_maximum():
    assert [pause(failures) for failures in (1, 2, 3)] == [PAUSE_MIN, 2 * PAUSE_MIN, 4 * PAUSE_MIN]
    assert pause(10_000) == PAUSE_MAX


@given(st.integers(0, 10**6))
def test_no_pause_is_longer_than_the_next(failures: int):
    assert PAUSE_MIN <= pause(failures) <= pause(failures + 1) <= PAUSE_MAX


def test_one_that_ran_for_a_minute_begins_with_the_shortest_pause_again():
    running = ComponentHistory(process=who(7), since_ns=NOW, failures=9, restarts=9)

    soon = decide([SERVER], {}, {"server": running}, NOW + ns(STEADY_AFTER) - 1, Run()).memory["server"]
    late = decide([SERVER], {}, {"server": running}, NOW + ns(STEADY_AFTER), Run()).memory["server"]

    assert (soon.failures, soon.restarts) == (10, 10)
    assert (late.failures, late.restarts) == (1, 10)


def test_one_that_cannot_be_started_is_tried_again_with_growing_pauses():
    first = not_started(ComponentHistory(), NOW)
    second = not_started(first, NOW)

    assert first.start_at_ns == NOW + ns(PAUSE_MIN)
    assert second.start_at_ns == NOW + ns(2 * PAUSE_MIN)


def test_stopping_goes_by_turns():
    running = {"server": process(SERVER, 7), "agent": process(AGENT, 8)}

    first = decide([SERVER, AGENT], running, {}, NOW, Stop(2))
    second = decide([SERVER, AGENT], {"server": running["server"]}, first.memory, NOW + 1, Stop(2))
    third = decide([SERVER, AGENT], {}, second.memory, NOW + 2, Stop(2))

    assert first.actions == (SendSignal("agent", who(8), signal.SIGTERM),)
    assert second.actions == (SendSignal("server", who(7), signal.SIGTERM),)
    assert [plan.is_done for plan in (first, second, third)] == [False, False, True]


def test_a_stop_leaves_later_turns_as_they_are():
    plan = decide([SERVER, AGENT], {"server": process(SERVER)}, {}, NOW, Stop(1))

    assert (plan.actions, plan.is_done) == ((), True)


def test_a_forced_stop_kills_all_at_once():
    running = {"server": process(SERVER, 7), "agent": process(AGENT, 8)}

    plan = decide([SERVER, AGENT], running, {}, NOW, Stop(2, is_hurried=True))

    assert plan.actions == (
        SendSignal("server", who(7), signal.SIGKILL),
        SendSignal("agent", who(8), signal.SIGKILL),
    )


def test_hurrying_reaches_what_was_only_asked():
    running = {"agent": process(AGENT, 8)}
    asked = decide([AGENT], running, {}, NOW, Stop(2))

    plan = decide([AGENT], running, asked.memory, NOW + 1, Stop(2, is_hurried=True))

    assert plan.actions == (SendSignal("agent", who(8), signal.SIGKILL),)


@pytest.mark.parametrize("wish", [Run(), Stop(2), Stop(2, True)])
def test_asking_twice_at_the_same_moment_signals_once(wish):
    running = {"server": process(SERVER, argv=())}
    first = decide([SERVER], running, {}, NOW, wish)

    second = decide([SERVER], running, first.memory, NOW, wish)

    assert len(first.actions) == 1
    assert second.actions == ()
