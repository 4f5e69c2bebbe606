"""Pods that fail as soon as they are made are replaced less and less often."""

from datetime import timedelta

from mainstay.controllers.replicaset import replacement
from mainstay.loop.decision import WakeAt
from tests.controllers.objects import NOON, Object, a_pod, a_set
from tests.controllers.replicaset.test_replicaset import created, decide


def failed(name: str, seconds: float, *, slot: int = 0, replaces: str = "", lived: float = 1) -> Object:
    """One that was made so long after noon, and ended soon after."""
    ended = seconds + lived
    return a_pod(name, slot=slot, replaces=replaces, phase="Failed", created_at=seconds, ready_at=ended)


def test_the_first_that_fails_is_replaced_at_once_and_the_next_ones_after_5_10_20_seconds():
    pods = [failed("p0", -100), failed("p1", -90), failed("p2", -80), failed("p3", -60)]

    waits = [replacement.not_before(pods[: count + 1]) for count in range(4)]

    assert waits == [
        {},
        {0: NOON + timedelta(seconds=-89 + 5)},
        {0: NOON + timedelta(seconds=-79 + 10)},
        {0: NOON + timedelta(seconds=-59 + 20)},
    ]


def test_it_never_waits_for_longer_than_five_minutes():
    pods = [failed(f"p{number:02}", -4000 + number) for number in range(40)]

    assert replacement.not_before(pods) == {0: NOON + timedelta(seconds=-4000 + 39 + 1 + 300)}


def test_one_that_has_lived_for_a_while_or_was_told_to_go_begins_a_new_count():
    long = failed("p1", -1000, lived=700)
    left = {**failed("q1", -90), "metadata": {**failed("q1", -90)["metadata"], "deletionTimestamp": "x"}}

    assert replacement.not_before([failed("p0", -2000), long, failed("p2", -10)]) == {}
    assert replacement.not_before([failed("q0", -100), left]) == {}


def test_a_slot_that_waits_is_left_alone_and_said_and_others_are_filled():
    pods = [failed("p0", -20), failed("p1", -3, replaces="p0"), failed("q0", -3, slot=1)]

    decision = decide(a_set(replicas=3), *pods)

    assert created(decision) == [("1", "q0"), ("2", "")]
    assert decision.result == WakeAt(NOON + timedelta(seconds=3), "a pod that keeps failing is replaced")
    (condition,) = decision.conditions
    assert (condition.type, condition.reason) == ("ReplicaFailure", "BackingOff")
    assert condition.message == "backing off: 1 pod keeps failing; next replacement at 12:00:03 UTC"


def test_when_the_time_has_come_it_is_replaced_and_nothing_is_said_any_more():
    pods = [failed("p0", -20), failed("p1", -7, replaces="p0")]

    decision = decide(a_set(replicas=1), *pods)

    assert created(decision) == [("0", "p1")]
    assert decision.conditions == ()
