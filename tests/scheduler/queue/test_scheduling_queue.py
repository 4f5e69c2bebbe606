"""Who is next, and who waits for what: the queue without a clock."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.scheduler.pod_class import pod_to_place
from mainstay.scheduler.queue.pod_states import PodState
from mainstay.scheduler.queue.scheduling_queue import BACKOFF, SchedulingQueue, SchedulingQueueSettings
from mainstay.scheduler.reasons import Cure
from tests.scheduler.objects import a_pod

SECOND = 1_000_000_000
MINUTE = 60 * SECOND


def put(
    queue: SchedulingQueue, name: str, *, now_s: float = 0, priority: int = 0, gated: bool = False, **more: Any
) -> str:
    pod = pod_to_place(a_pod(name, **more))
    queue.put(pod, priority, round(now_s * SECOND), revision=1, is_gated=gated)
    return pod.uid


def names(queue: SchedulingQueue, count: int = 100, now_s: float = 0) -> list[str]:
    return [queued.pod.name for queued in queue.take(count, round(now_s * SECOND))]


def state_of(queue: SchedulingQueue, uid: str) -> PodState | None:
    queued = queue.pods.get(uid)
    return None if queued is None else queued.state


def due_s(queue: SchedulingQueue) -> int:
    assert queue.next_due_ns is not None
    return queue.next_due_ns // SECOND


def parked(name: str = "web", *cures: Cure, now_s: float = 0) -> tuple[SchedulingQueue, str]:
    """A queue with one pod that was refused."""
    queue = SchedulingQueue()
    uid = put(queue, name, now_s=now_s)
    queue.take(1, round(now_s * SECOND))
    queue.park(uid, cures or (Cure.NODE_ADDED,), queue.mark, round(now_s * SECOND))
    return queue, uid


# Who is next.


def test_the_first_to_come_is_the_first_to_be_served():
    queue = SchedulingQueue()
    for name in ("one", "two", "three"):
        put(queue, name)

    assert names(queue) == ["one", "two", "three"]
    assert names(queue) == []


def test_a_higher_priority_goes_first():
    queue = SchedulingQueue()
    put(queue, "low", priority=-5)
    put(queue, "normal")
    put(queue, "high", priority=1000)

    assert names(queue) == ["high", "normal", "low"]


def test_namespaces_take_turns():
    queue = SchedulingQueue()
    for number in range(1000):
        put(queue, f"many-{number}", namespace="noisy")
    put(queue, "only", namespace="quiet")

    assert names(queue, 3) == ["many-0", "only", "many-1"]


def test_no_more_are_taken_than_asked_for():
    queue = SchedulingQueue()
    for number in range(10):
        put(queue, f"web-{number}")

    assert [len(names(queue, 4)) for _ in range(4)] == [4, 4, 2, 0]


def test_a_pod_that_cannot_be_placed_delays_no_other():
    queue, _ = parked("large")
    put(queue, "small")

    assert names(queue) == ["small"]


def test_a_pod_in_hand_is_not_handed_out_twice():
    queue = SchedulingQueue()
    put(queue, "web")
    assert names(queue) == ["web"]

    put(queue, "web", labels={"changed": "yes"})

    assert names(queue) == []


# Cures.


def test_a_refused_pod_is_woken_by_its_cure():
    queue, uid = parked("web", Cure.NODE_ADDED)
    queue.changed((Cure.POD_REMOVED,), 5 * SECOND)
    assert names(queue, now_s=5) == []
    assert state_of(queue, uid) is PodState.UNSCHEDULABLE

    queue.changed((Cure.NODE_ADDED,), 6 * SECOND, 77)

    [queued] = queue.take(10, 6 * SECOND)
    assert (queued.pod.name, queued.woken_by) == ("web", (77,))


def test_a_cure_that_comes_between_the_decision_and_the_parking_is_not_lost() -> None:
    queue = SchedulingQueue()
    uid = put(queue, "web")
    queue.take(1, 0)
    mark = queue.mark
    queue.changed((Cure.NODE_ADDED,), 0)

    assert queue.park(uid, (Cure.NODE_ADDED,), mark, 0) is PodState.BACKING_OFF
    assert names(queue, now_s=1) == ["web"]


def test_another_change_in_between_is_no_reason_to_try_again():
    queue = SchedulingQueue()
    uid = put(queue, "web")
    queue.take(1, 0)
    mark = queue.mark
    queue.changed((Cure.POD_PLACED,), 0)

    assert queue.park(uid, (Cure.NODE_ADDED,), mark, 0) is PodState.UNSCHEDULABLE


def test_a_cure_from_before_the_decision_is_no_news():
    queue = SchedulingQueue()
    queue.changed((Cure.NODE_ADDED,), 0)
    uid = put(queue, "web")
    queue.take(1, 0)

    assert queue.park(uid, (Cure.NODE_ADDED,), queue.mark, 0) is PodState.UNSCHEDULABLE


def test_a_pod_that_is_woken_again_and_again_is_held_back_by_its_backoff():
    queue = SchedulingQueue()
    uid = put(queue, "web")
    tried_s = []
    for tenth in range(400):
        now_ns = tenth * SECOND // 10
        queue.changed((Cure.NODE_ADDED,), now_ns)
        if queue.take(1, now_ns):
            tried_s.append(tenth / 10)
            queue.park(uid, (Cure.NODE_ADDED,), queue.mark, now_ns)

    assert tried_s == [0, 1, 3, 7, 15, 25, 35]


def test_what_waits_for_no_cure_that_comes_is_tried_again_all_the_same():
    queue, _ = parked()

    assert names(queue, now_s=299) == []
    assert queue.next_due_ns == 300 * SECOND
    assert names(queue, now_s=300) == ["web"]


def test_a_failure_backs_off_and_longer_each_time():
    queue = SchedulingQueue(SchedulingQueueSettings(backoff=replace(BACKOFF, delay_max=timedelta(seconds=4))))
    uid = put(queue, "web")
    now_s, waits = 0, []
    for _ in range(5):
        assert names(queue, now_s=now_s) == ["web"]
        queue.back_off(uid, now_s * SECOND)
        waits.append(due_s(queue) - now_s)
        now_s = due_s(queue)

    assert waits == [1, 2, 4, 4, 4]


# Pods change and go.


def test_a_pod_whose_status_was_written_is_left_alone():
    queue, uid = parked()

    put(queue, "web", now_s=10)

    assert state_of(queue, uid) is PodState.UNSCHEDULABLE


def test_a_pod_that_wants_something_else_is_tried_at_once():
    queue, _ = parked()

    put(queue, "web", tolerations=[{"operator": "Exists"}])

    assert names(queue) == ["web"]


def test_a_pod_that_changes_in_hand_is_tried_again_after_a_refusal():
    queue = SchedulingQueue()
    uid = put(queue, "web")
    queue.take(1, 0)
    put(queue, "web", tolerations=[{"operator": "Exists"}])

    assert queue.park(uid, (Cure.NODE_ADDED,), queue.mark, 0) is PodState.ACTIVE


def test_a_gated_pod_waits_until_it_is_not():
    queue = SchedulingQueue()
    put(queue, "web", gated=True)
    queue.changed(tuple(Cure), 0)
    assert names(queue, now_s=10_000) == []

    put(queue, "web", now_s=20_000)

    [queued] = queue.take(1, 20_000 * SECOND)
    assert queued.added_ns == 20_000 * SECOND


@pytest.mark.parametrize("state", ["active", "in hand", "waiting", "backing off"])
def test_a_pod_that_is_gone_is_gone_from_everywhere(state):
    queue = SchedulingQueue()
    uid = put(queue, "web")
    if state != "active":
        queue.take(1, 0)
    if state == "waiting":
        queue.park(uid, (Cure.NODE_ADDED,), queue.mark, 0)
    if state == "backing off":
        queue.back_off(uid, 0)

    queue.remove(uid)

    queue.changed(tuple(Cure), MINUTE)
    queue.back_off(uid, 0)
    queue.put_back(uid, 0)
    assert queue.park(uid, (), 0, 0) is None
    assert names(queue, now_s=1000) == []
    assert (len(queue), {state: queue.pods.count(state) for state in PodState}) == (0, dict.fromkeys(PodState, 0))


# Whatever happens.

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "remove", "take", "park", "fail", "again", "change", "pass"]),
        st.integers(0, 5),
        st.sampled_from(list(Cure)),
    ),
    max_size=60,
)


@given(STEPS)
def test_no_pod_is_ever_lost(steps):
    """Each pod that was put and not removed is in one place, and is handed out within the time of a flush."""
    queue = SchedulingQueue(SchedulingQueueSettings(check_after=1))
    now_ns = 0
    there: dict[str, None] = {}
    hand: dict[str, int] = {}
    for what, number, cure in steps:
        uid = f"uid-default-web-{number}"
        match what:
            case "put":
                put(queue, f"web-{number}", now_s=now_ns / SECOND, priority=number % 2)
                there[uid] = None
            case "remove":
                queue.remove(uid)
                there.pop(uid, None)
                hand.pop(uid, None)
            case "take":
                for queued in queue.take(number, now_ns):
                    assert queued.pod.uid in there
                    assert queued.pod.uid not in hand
                    hand[queued.pod.uid] = queue.mark
            case "park" if uid in hand:
                queue.park(uid, (cure,), hand.pop(uid), now_ns)
            case "fail" if uid in hand:
                queue.back_off(uid, now_ns)
                del hand[uid]
            case "again" if uid in hand:
                queue.put_back(uid, now_ns)
                del hand[uid]
            case "change":
                queue.changed((cure,), now_ns)
            case "pass":
                now_ns += number * SECOND
        assert len(queue) == len(there) == sum(queue.pods.count(state) for state in PodState)
        assert queue.pods.count(PodState.DECIDING) == len(hand)
        queue.check()

    later = {queued.pod.uid for queued in queue.take(100, now_ns + 301 * SECOND)}
    assert later == set(there) - set(hand)
