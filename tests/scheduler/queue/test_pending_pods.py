"""What one pod goes through, and which pods are assumed on a node before the cache shows them there."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mainstay.env.invariants import BrokenInvariant
from mainstay.loop.record import Origin
from mainstay.scheduler.bind import Bind, SeenRevisions
from mainstay.scheduler.pod_class import pod_to_place
from mainstay.scheduler.queue.pending_pods import BindAttempt, PendingPod, PendingPods
from mainstay.scheduler.queue.pod_states import STEPS, PodState
from mainstay.scheduler.queue.scheduling_queue import SchedulingQueue
from mainstay.scheduler.reasons import Cure
from mainstay.scheduler.record import Deciding, Setting
from tests.scheduler.objects import a_pod

DOCS = Path(__file__).parents[3] / "docs" / "state-machines.md"
CURES = (Cure.NODE_ADDED, Cure.POD_REMOVED)


def an_attempt(pod: PendingPod) -> BindAttempt:
    setting = Setting(Origin("scheduler"), 0, (), "")
    deciding = Deciding(setting, f"d-{pod.uid}", 1, pod.pod.namespace, pod.pod.name, pod.uid, 1, 1, 0, (), 0, ())
    bind = Bind(pod.pod.namespace, pod.pod.name, pod.uid, "n1", SeenRevisions(5), deciding.name, deciding.name)
    return BindAttempt(pod, deciding, bind, 0, 0, 0)


def taken(*names: str) -> tuple[SchedulingQueue, list[PendingPod]]:
    """A queue from which these pods were taken."""
    queue = SchedulingQueue()
    for name in names:
        queue.put(pod_to_place(a_pod(name)), 0, 0)
    return queue, queue.take(len(names), 0)


def sent(*names: str) -> tuple[PendingPods, list[BindAttempt]]:
    queue, pods = taken(*names)
    attempts = [an_attempt(pod) for pod in pods]
    for attempt in attempts:
        queue.pods.assume(attempt)
    return queue.pods, attempts


def test_the_diagram_in_the_docs_is_drawn_from_the_table():
    assert STEPS.is_current(DOCS.read_text()), f"put this into {DOCS}:\n\n```mermaid\n{STEPS.render()}\n```"


def test_every_state_is_in_the_table_and_every_pod_can_get_out_of_it():
    assert set(STEPS.states) == set(PodState)
    assert all(PodState.GONE in STEPS.after[state] for state in PodState if state is not PodState.GONE)
    assert STEPS.after[PodState.GONE] == frozenset()


@pytest.mark.parametrize("before", [state for state in PodState if state is not PodState.GONE])
def test_a_step_that_the_table_does_not_have_is_refused_with_the_story_of_the_pod(before: PodState):
    pods = PendingPods()
    pod = pods.add(pod_to_place(a_pod("web")), 0, 7, 0)
    for after in [state for state in PodState if state not in STEPS.after[before]]:
        pod.state = before
        with pytest.raises(BrokenInvariant) as raised:
            pods.move(pod, after)
        assert f"a pod that is {before} does not become {after}" in str(raised.value)
        assert "default/web" in raised.value.about
        assert "'revision': 7" in raised.value.story


# Assumed pods.


def test_what_got_no_answer_is_sent_again_as_it_was():
    pods, (first, _) = sent("u", "v")
    pods.doubt(first.pod)

    assert pods.take_doubtful() == [first]
    assert pods.take_doubtful() == []
    assert first.pod.uid in pods.assumed


def test_what_the_cache_shows_is_assumed_no_more():
    pods, (attempt,) = sent("u")
    pods.doubt(attempt.pod)

    assert pods.remove(attempt.pod.uid) is attempt.pod
    assert pods.remove(attempt.pod.uid) is None
    assert (len(pods.assumed), pods.take_doubtful()) == (0, [])


def test_an_answer_that_comes_after_the_cache_has_shown_it_is_not_current():
    pods, (attempt,) = sent("u")
    assert pods.is_current(attempt)

    pods.remove(attempt.pod.uid)

    assert not pods.is_current(attempt)


def test_what_a_cache_that_is_as_far_does_not_show_is_missing():
    pods, (first, second, _) = sent("u", "v", "w")
    pods.confirm(first.pod, 7)
    pods.confirm(second.pod, 9)

    assert pods.find_missing(8, has_gone_back=False) == [first.pod]
    assert pods.find_missing(8, has_gone_back=True) == [second.pod]
    assert pods.take_doubtful() == [first, second]
    assert {first.pod.state, second.pod.state} == {PodState.MISSING}


# Broken invariants.


def test_a_pod_is_added_once():
    queue, _ = taken("web")
    with pytest.raises(BrokenInvariant, match="a pod is pending once"):
        queue.pods.add(pod_to_place(a_pod("web")), 0, 0, 0)


def test_only_a_pod_in_hand_comes_back():
    queue = SchedulingQueue()
    pod = pod_to_place(a_pod("web"))
    queue.put(pod, 0, 0)
    with pytest.raises(BrokenInvariant, match="only a pod in hand comes back"):
        queue.back_off(pod.uid, 0)


def test_an_assumed_pod_that_is_not_among_the_assumed_is_noticed():
    pods, (attempt,) = sent("web")
    pods.assumed.clear()
    with pytest.raises(BrokenInvariant, match="an assumed pod is among the assumed"):
        pods.remove(attempt.pod.uid)


def a_queue_of_all_kinds() -> tuple[SchedulingQueue, dict[str, PendingPod]]:
    """With a pod in each state, by its name."""
    queue, pods = taken("waits", "fails", "binding", "unanswered", "missing", "deciding")
    found = {pod.pod.name: pod for pod in pods}
    queue.park(found["waits"].uid, CURES, queue.mark, 0)
    queue.back_off(found["fails"].uid, 0)
    for name in ("binding", "unanswered", "missing"):
        queue.pods.assume(an_attempt(found[name]))
    queue.pods.doubt(found["unanswered"])
    queue.pods.confirm(found["missing"], 3)
    queue.pods.find_missing(3, has_gone_back=False)
    for name in ("active", "other"):
        queue.put(pod_to_place(a_pod(name)), 0, 0)
    queue.put(pod_to_place(a_pod("gated")), 0, 0, is_gated=True)
    found |= {pod.pod.name: pod for pod in queue.pods._pods.values()}
    queue.check()
    return queue, found


def puts_a_pod_in_line_twice(queue: SchedulingQueue, pods: dict[str, PendingPod]) -> None:
    queue._lines[0].add(pods["active"].ticket, pods["active"])


def loses_the_line(queue: SchedulingQueue, pods: dict[str, PendingPod]) -> None:
    queue._lines.clear()


def loses_the_timers(queue: SchedulingQueue, pods: dict[str, PendingPod]) -> None:
    queue._timers.clear()


def keeps_a_timer_of_a_pod_in_line(queue: SchedulingQueue, pods: dict[str, PendingPod]) -> None:
    queue._timers.append((0, pods["active"].ticket, pods["active"]))


def forgets_an_assumed_pod(queue: SchedulingQueue, pods: dict[str, PendingPod]) -> None:
    del queue.pods.assumed[pods["binding"].uid]


def assumes_a_pod_that_waits(queue: SchedulingQueue, pods: dict[str, PendingPod]) -> None:
    queue.pods.assumed[pods["waits"].uid] = pods["waits"]


def drops_the_attempt(queue: SchedulingQueue, pods: dict[str, PendingPod]) -> None:
    pods["binding"].attempt = None


def drops_a_pod_from_the_registry(queue: SchedulingQueue, pods: dict[str, PendingPod]) -> None:
    del queue.pods._pods[pods["active"].uid]


def counts_wrongly(queue: SchedulingQueue, pods: dict[str, PendingPod]) -> None:
    queue.pods._counts[PodState.ACTIVE] += 1


def repeats_what_is_not_in_doubt(queue: SchedulingQueue, pods: dict[str, PendingPod]) -> None:
    queue.pods._to_repeat[pods["binding"].uid] = pods["binding"]


def waits_for_a_cure_in_line(queue: SchedulingQueue, pods: dict[str, PendingPod]) -> None:
    queue._by_cure[Cure.NODE_ADDED][pods["active"].uid] = pods["active"]


@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        (puts_a_pod_in_line_twice, "the queue's sets are disjoint"),
        (keeps_a_timer_of_a_pod_in_line, "the queue's sets are disjoint"),
        (loses_the_line, "a pod is where its state says"),
        (loses_the_timers, "a pod is where its state says"),
        (forgets_an_assumed_pod, "a pod is where its state says"),
        (assumes_a_pod_that_waits, "a pod is where its state says"),
        (drops_the_attempt, "an assumed pod has an attempt"),
        (drops_a_pod_from_the_registry, "the queue's sets hold only pending pods"),
        (counts_wrongly, "pods are counted by state"),
        (repeats_what_is_not_in_doubt, "only a binding in doubt is sent again"),
        (waits_for_a_cure_in_line, "only unschedulable pods wait for cures"),
    ],
)
def test_a_queue_that_disagrees_with_the_states_is_noticed(
    damage: Callable[[SchedulingQueue, dict[str, PendingPod]], None], rule: str
):
    queue, pods = a_queue_of_all_kinds()

    damage(queue, pods)

    with pytest.raises(BrokenInvariant, match=rule):
        queue.check()


def test_the_whole_queue_is_checked_every_so_many_pods():
    queue, _ = taken("web")
    queue._until_check = 1
    queue.put(pod_to_place(a_pod("other")), 0, 0)
    queue.pods._counts[PodState.ACTIVE] += 1

    with pytest.raises(BrokenInvariant, match="pods are counted by state"):
        queue.take(1, 0)
