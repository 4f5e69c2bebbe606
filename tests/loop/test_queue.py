"""The core of the work queue: plain calls, with times passed in."""

import random
from datetime import timedelta

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from mainstay.api.retry_shape import RetryShape
from mainstay.loop.queue.core import NotProcessing, Queue
from mainstay.loop.queue.items import (
    DONE,
    GONE,
    EnqueueReason,
    KeyRetry,
    KeyState,
    KeyTerminal,
    Priority,
    QueueSettings,
    WakeAfter,
)
from tests.loop.queues import S, a_queue, failed, take, taken
from tests.twins import queue as twins

# One key


def test_keys_come_out_in_the_order_in_which_they_were_added():
    queue = a_queue()
    for key in ("a", "b", "c"):
        queue.add(key, 0)

    assert taken(queue) == ["a", "b", "c"]


def test_many_changes_of_a_key_are_one_look_that_remembers_them():
    queue = a_queue()
    for revision in (5, 7, 7, 9):
        queue.add("a", 0, woken_by=revision)

    item = take(queue)

    assert (item.woken_by, item.wakes, item.because) == ((5, 7, 9), 4, EnqueueReason.CHANGE)
    assert queue.get(0) is None


def test_of_more_than_eight_changes_the_first_seven_and_the_latest_are_named_and_all_are_counted():
    queue = a_queue()
    for revision in range(1, 101):
        queue.add("a", 0, woken_by=revision)

    item = take(queue)

    assert (item.woken_by, item.wakes) == ((1, 2, 3, 4, 5, 6, 7, 100), 100)


def test_a_key_in_hand_is_not_handed_out_again_but_looked_at_once_more_afterwards():
    queue = a_queue()
    queue.add("a", 0, woken_by=1)
    take(queue)
    queue.add("a", 0, woken_by=2)
    queue.add("a", 0, woken_by=3)

    assert queue.get(0) is None
    assert queue.done("a", DONE, 0) is KeyState.READY
    assert take(queue).woken_by == (2, 3)
    assert queue.done("a", DONE, 0) is KeyState.FORGOTTEN


def test_being_done_with_a_key_that_one_does_not_have_is_a_bug():
    queue = a_queue()
    queue.add("a", 0)

    with pytest.raises(NotProcessing, match="a is not being processed, but it is Ready"):
        queue.done("a", DONE, 0)


# Later


def test_a_key_that_was_added_for_later_comes_then_and_not_before():
    queue = a_queue()
    queue.add_after("a", 0, timedelta(seconds=5))

    assert queue.due_ns() == 5 * S
    assert queue.get(5 * S - 1) is None
    assert take(queue, 5 * S).because is EnqueueReason.TIMER


def test_of_two_wishes_for_later_the_earlier_one_counts():
    queue = a_queue()
    queue.add_after("a", 0, timedelta(seconds=5))
    queue.add_after("a", 0, timedelta(seconds=3))
    queue.add_after("a", 0, timedelta(seconds=9))

    assert taken(queue, 3 * S) == ["a"]
    assert taken(queue, 20 * S) == []


def test_a_wish_for_later_holds_although_the_key_is_looked_at_before():
    queue = a_queue()
    queue.add_after("a", 0, timedelta(seconds=5))
    queue.add("a", S)

    assert taken(queue, S) == ["a"]
    assert taken(queue, 5 * S) == ["a"]


def test_a_wish_for_later_that_comes_true_in_hand_means_one_more_look():
    queue = a_queue()
    queue.add("a", 0)
    queue.add_after("a", 0, timedelta(seconds=5))
    take(queue)
    queue.enqueue_due(5 * S)

    assert queue.done("a", DONE, 6 * S) is KeyState.READY
    assert take(queue, 6 * S).because is EnqueueReason.TIMER


def test_what_an_outcome_asks_for_takes_the_place_of_what_an_earlier_one_has_asked_for():
    queue = a_queue()
    queue.add("a", 0)
    take(queue)
    queue.done("a", WakeAfter(timedelta(seconds=10)), 0)
    queue.add("a", S)
    take(queue, S)
    queue.done("a", WakeAfter(timedelta(seconds=60)), S)

    assert taken(queue, 60 * S) == []
    assert taken(queue, 61 * S) == ["a"]


def test_timers_do_not_pile_up():
    queue = a_queue(resync=timedelta(hours=10))
    for step in range(10_000):
        queue.add("a", step * S)
        take(queue, step * S)
        queue.done("a", WakeAfter(timedelta(milliseconds=1)), step * S)
        assert len(queue._timers) < 100


# Resync


@given(jitters=st.integers())
def test_a_key_without_changes_is_looked_at_again_within_the_period_and_not_much_earlier(jitters):
    queue: Queue[str] = Queue(QueueSettings(resync=timedelta(seconds=100), resync_spread=0.2), random.Random(jitters))
    queue.add("a", 0)
    assert taken(queue) == ["a"]

    assert taken(queue, 80 * S - 1) == []
    item = take(queue, 100 * S)

    assert (item.because, item.priority) == (EnqueueReason.RESYNC, Priority.BACKGROUND)


def test_keys_that_came_together_are_resynced_apart():
    queue = a_queue(resync=timedelta(seconds=100), resync_spread=0.2)
    keys = [f"key-{number}" for number in range(1000)]
    for key in keys:
        queue.add(key, 0)
    taken(queue)

    per_second = [len(taken(queue, second * S)) for second in range(101)]

    assert sum(per_second) == 1000
    assert max(per_second) < 100


def test_a_look_for_another_reason_puts_resync_off():
    queue = a_queue(resync=timedelta(seconds=100), resync_spread=0)
    queue.add("a", 0)
    taken(queue)
    queue.add("a", 90 * S)
    taken(queue, 90 * S)

    assert taken(queue, 189 * S) == []
    assert taken(queue, 190 * S) == ["a"]


def test_a_key_that_is_gone_is_not_resynced():
    queue = a_queue(resync=timedelta(seconds=100))
    queue.add("a", 0)
    take(queue)

    assert queue.done("a", GONE, 0) is KeyState.FORGOTTEN
    assert (taken(queue, 1000 * S), queue.due_ns()) == ([], None)


def test_a_key_that_is_gone_and_comes_back_meanwhile_is_looked_at():
    queue = a_queue()
    queue.add("a", 0)
    take(queue)
    queue.add("a", 0)

    assert queue.done("a", GONE, 0) is KeyState.READY


# Failing


def test_a_failing_key_waits_longer_each_time_and_is_then_terminal():
    queue = a_queue()
    queue.add("a", 0, woken_by=1)

    assert failed(queue, "a", 0) is KeyState.BACKING_OFF
    assert taken(queue, 4 * S - 1) == []
    assert failed(queue, "a", 4 * S) is KeyState.BACKING_OFF
    item = take(queue, 12 * S)
    assert (item.attempt, item.is_last_attempt, item.because, item.woken_by) == (3, True, EnqueueReason.RETRY, (1,))
    assert queue.done("a", KeyRetry(), 12 * S) is KeyState.TERMINAL
    assert (queue.get(10_000 * S), queue.figures(0).terminal) == (None, 1)


def test_a_terminal_key_starts_again_when_it_changes():
    queue = a_queue()
    queue.add("a", 0)
    take(queue)
    assert queue.done("a", KeyTerminal(), 0) is KeyState.TERMINAL

    queue.add("a", S)

    assert (take(queue, S).attempt, queue.figures(S).terminal) == (1, 0)


def test_neither_timer_nor_resync_brings_back_what_was_terminal():
    queue = a_queue(resync=timedelta(seconds=10))
    queue.add("a", 0)
    queue.add_after("a", 0, timedelta(seconds=5))
    take(queue)
    queue.done("a", KeyTerminal(), 0)

    assert taken(queue, 100 * S) == []


def test_the_write_that_tells_of_giving_up_does_not_bring_the_key_back():
    queue = a_queue()
    queue.add("a", 0, woken_by=10)
    take(queue)
    queue.add("a", 0, woken_by=12)  # The worker's own status, seen by its watch before it is done.

    assert queue.done("a", KeyTerminal(seen=12), 0) is KeyState.TERMINAL
    queue.add("a", 0, woken_by=12)
    assert queue.state("a") is KeyState.TERMINAL
    queue.add("a", 0, woken_by=13)
    assert queue.state("a") is KeyState.READY


def test_a_change_during_the_last_attempt_is_a_new_beginning():
    queue = a_queue()
    queue.add("a", 0, woken_by=10)
    take(queue)
    queue.add("a", 0, woken_by=13)

    assert queue.done("a", KeyTerminal(seen=12), 0) is KeyState.READY


def test_a_change_shortens_the_backoff_but_does_not_end_it():
    queue = a_queue(change_after_failure=timedelta(seconds=1))
    queue.add("a", 0)
    failed(queue, "a", 0)
    queue.add("a", S // 10)

    assert taken(queue, S - 1) == []
    item = take(queue, S)
    assert (item.attempt, item.because) == (2, EnqueueReason.CHANGE)


def test_a_key_that_fails_and_changes_all_the_time_is_tried_once_a_second():
    queue = a_queue(change_after_failure=timedelta(seconds=1))
    attempts = 0
    for step in range(1000):  # Ten seconds.
        now_ns = step * S // 100
        queue.add("a", now_ns)
        if queue.get(now_ns) is not None:
            attempts += 1
            queue.done("a", KeyRetry(counts=False), now_ns)

    assert attempts == 10


def test_what_is_no_fault_of_the_key_is_tried_for_ever_but_ever_less():
    queue = a_queue()
    queue.add("a", 0)
    now_ns = 0
    for _ in range(100):
        assert failed(queue, "a", now_ns, KeyRetry(counts=False)) is KeyState.BACKING_OFF
        due_ns = queue.due_ns()
        assert due_ns is not None
        now_ns = due_ns

    figures = queue.look("a")
    assert figures is not None
    assert (figures.failures, figures.attempts_left) == (100, 3)
    assert now_ns > 95 * 60 * S


def test_a_server_that_asks_to_wait_longer_is_obeyed_even_when_the_key_changes():
    queue = a_queue()
    queue.add("a", 0)
    failed(queue, "a", 0, KeyRetry(at_least=timedelta(seconds=30)))
    queue.add("a", 0)

    assert taken(queue, 30 * S - 1) == []
    assert taken(queue, 30 * S) == ["a"]


def test_success_forgets_failures():
    queue = a_queue()
    queue.add("a", 0)
    failed(queue, "a", 0)
    assert taken(queue, 4 * S) == ["a"]
    queue.add("a", 5 * S)

    assert take(queue, 5 * S).attempt == 1


def test_the_last_attempt_comes_at_the_deadline_although_more_are_left():
    shape = RetryShape(
        attempts_max=100,
        first_delay=timedelta(seconds=4),
        delay_max=timedelta(seconds=4),
        jitter=0,
        deadline=timedelta(seconds=10),
    )
    queue = a_queue(retry=shape)
    queue.add("a", 0)

    assert [failed(queue, "a", at * S) for at in (0, 4, 8)] == [KeyState.BACKING_OFF] * 3
    item = take(queue, 10 * S)
    assert (item.is_last_attempt, item.is_past_deadline, item.attempt) == (True, True, 4)
    assert queue.done("a", KeyRetry(), 10 * S) is KeyState.TERMINAL


def test_failures_that_do_not_count_know_no_deadline():
    shape = RetryShape(
        attempts_max=100,
        first_delay=timedelta(seconds=4),
        delay_max=timedelta(seconds=4),
        deadline=timedelta(seconds=1),
    )
    queue = a_queue(retry=shape)
    queue.add("a", 0)

    assert {failed(queue, "a", at * S, KeyRetry(counts=False)) for at in range(0, 100, 4)} == {KeyState.BACKING_OFF}


def test_when_everything_fails_at_once_retries_keep_to_their_rate():
    queue = a_queue(retries_per_second=10, retries_burst=50)
    for number in range(500):
        queue.add(f"key-{number}", 0)
    taken(queue, outcome=KeyRetry())

    per_second = [len(taken(queue, second * S)) for second in range(60)]

    assert sum(per_second) == 500
    assert (per_second[4], set(per_second[6:40])) == (50 + 40, {10})


# Drain, and figures


def test_a_draining_queue_takes_nothing_and_gives_nothing_but_lets_workers_finish():
    queue = a_queue()
    queue.add("a", 0)
    queue.add("b", 0)
    take(queue)
    queue.drain()

    assert (queue.add("c", 0), queue.add_after("c", 0, timedelta()), queue.get(0)) == (False, False, None)
    assert list(queue.processing) == ["a"]
    queue.done("a", DONE, 0)
    assert list(queue.processing) == []
    assert queue.figures(0).refused == 2


def test_figures_tell_depth_age_and_how_tenants_fare():
    queue = a_queue(resync=timedelta(hours=1))
    queue.add("idle", 0, "quiet")
    assert taken(queue) == ["idle"]
    queue.add("failing", 0, "quiet")
    failed(queue, "failing", 0)
    queue.add("worked-on", 0, "quiet")
    take(queue, S // 2)
    queue.add("old", S, "noisy", Priority.BACKGROUND)
    queue.add("new", 2 * S, "noisy")
    queue.add("old", 3 * S, "noisy", Priority.NORMAL)

    figures = queue.figures(3 * S + S // 2)

    assert (figures.ready, figures.processing, figures.waiting, figures.backing_off) == (2, 1, 2, 1)
    assert figures.ready_by_priority[Priority.NORMAL] == 2
    assert (figures.oldest_age, figures.oldest_processing_age) == (timedelta(seconds=2.5), timedelta(seconds=3))
    assert (figures.added, figures.merged, figures.taken) == (6, 1, 3)
    assert [(t.tenant, t.ready, t.processing, t.oldest_age, t.taken) for t in figures.tenants] == [
        ("noisy", 2, 0, timedelta(seconds=2.5), 0),
        ("quiet", 0, 1, timedelta(), 3),
    ]


def test_figures_tell_how_long_keys_waited_and_how_long_they_took():
    queue = a_queue()
    for number in range(10):
        queue.add(f"key-{number}", 0)
    for number in range(10):
        take(queue, number * S)
        queue.done(f"key-{number}", DONE, number * S + 1000)

    figures = queue.figures(10 * S)

    assert (figures.wait.count, figures.wait.total, figures.wait.longest) == (
        10,
        timedelta(seconds=45),
        timedelta(seconds=9),
    )
    assert figures.work.total == timedelta(microseconds=10)
    assert sum(figures.wait.buckets[: (4 * S).bit_length() + 1]) >= 5
    assert sum(figures.wait.buckets) == 10


def test_everything_about_one_key_can_be_asked():
    queue = a_queue()
    assert queue.look("a") is None
    queue.add("a", S, "tenant", Priority.HIGH)
    failed(queue, "a", S)

    figures = queue.look("a")

    assert figures is not None
    assert (figures.state, figures.tenant, figures.failures, figures.attempts_left, figures.due_ns) == (
        KeyState.BACKING_OFF,
        "tenant",
        1,
        2,
        5 * S,
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"retries_per_second": 0},
        {"retries_burst": 0},
        {"resync": timedelta()},
        {"resync_spread": 1.0},
        {"change_after_failure": timedelta(seconds=-1)},
        {"passed_over_max": 3},
        {"weights": {"tenant": 0}},
        {"processing_per_tenant_max": 0},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match=r"."):
        QueueSettings(**wrong)


# Any order of calls


class AnyOrder(RuleBasedStateMachine):
    """Whatever is called in whatever order: a key that was woken is handed out in the end, and never to two workers."""

    KEYS = st.sampled_from(["a", "b", "c", "d"])
    TENANTS = st.sampled_from(["x", "y"])
    PRIORITIES = st.sampled_from(list(Priority))

    def __init__(self) -> None:
        super().__init__()
        self.queue = a_queue(
            resync=timedelta(seconds=50), passed_over_max=4, processing_per_tenant_max=2, retries_per_second=1000
        )
        self.now_ns = 0
        self.revision = 0
        self.processing: list[str] = []
        # Revisions that no finished look has covered yet. A look covers what came before it began.
        self.owed: dict[str, list[int]] = {}
        self.covered: dict[str, list[int]] = {}

    @rule(key=KEYS, tenant=TENANTS, priority=PRIORITIES)
    def change(self, key, tenant, priority):
        self.revision += 1
        self.queue.add(key, self.now_ns, tenant, priority, self.revision)
        self.owed.setdefault(key, []).append(self.revision)

    @rule(key=KEYS, tenant=TENANTS, priority=PRIORITIES, seconds=st.integers(0, 20))
    def later(self, key, tenant, priority, seconds):
        self.queue.add_after(key, self.now_ns, timedelta(seconds=seconds), tenant, priority)

    @rule(seconds=st.integers(0, 30))
    def time_passes(self, seconds):
        self.now_ns += seconds * S

    @rule()
    def take(self):
        item = self.queue.get(self.now_ns)
        if item is not None:
            assert item.key not in self.processing
            self.processing.append(item.key)
            self.covered[item.key] = self.owed.pop(item.key, [])
            if len(item.woken_by) < 8 and self.covered[item.key]:
                assert self.covered[item.key][-1] in item.woken_by

    @precondition(lambda self: self.processing)
    @rule(
        outcome=st.sampled_from(
            [DONE, GONE, KeyRetry(), KeyRetry(counts=False), KeyTerminal(), WakeAfter(timedelta(seconds=7))]
        ),
        which=st.integers(0, 3),
    )
    def done(self, outcome, which):
        key = self.processing.pop(which % len(self.processing))
        state = self.queue.done(key, outcome, self.now_ns)
        covered = self.covered.pop(key)
        if state is KeyState.BACKING_OFF:
            self.owed[key] = covered + self.owed.get(key, [])
        if state is KeyState.TERMINAL:
            assert key not in self.owed

    @invariant()
    def what_is_owed_is_on_its_way(self):
        for key in self.owed:
            assert self.queue.state(key) in (KeyState.READY, KeyState.PROCESSING, KeyState.BACKING_OFF)

    @invariant()
    def figures_agree_with_the_states_of_the_keys(self):
        figures = self.queue.figures(self.now_ns)
        states = [self.queue.state(key) for key in "abcd"]
        assert figures.ready == states.count(KeyState.READY) == sum(figures.ready_by_priority.values())
        assert figures.processing == states.count(KeyState.PROCESSING) == len(self.processing)
        assert figures.terminal == states.count(KeyState.TERMINAL)
        assert figures.backing_off == states.count(KeyState.BACKING_OFF)
        assert figures.waiting == states.count(KeyState.WAITING) + states.count(KeyState.BACKING_OFF)
        assert sum(tenant.ready for tenant in figures.tenants) == figures.ready
        assert all(tenant.processing <= 2 for tenant in figures.tenants)

    def teardown(self):
        for key in self.processing:
            self.queue.done(key, DONE, self.now_ns)
        left = [key for key in "abcd" if self.queue.state(key) in (KeyState.READY, KeyState.BACKING_OFF)]
        seen = taken(self.queue, self.now_ns + 120 * S, at_most=20)
        assert sorted(set(seen) & set(left)) == left


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=100, stateful_step_count=40)


@pytest.mark.parametrize("twin", twins.FORGETFUL, ids=lambda twin: twin.__name__)
def test_any_order_of_calls_finds_a_forgetful_twin(twin: twins.Twin, monkeypatch):
    twin(monkeypatch)

    # What it finds is not read, so there is no need to make it small.
    quickly = settings(max_examples=300, stateful_step_count=30, database=None, phases=[Phase.generate])

    with pytest.raises((AssertionError, ExceptionGroup, NotProcessing)):
        run_state_machine_as_test(AnyOrder, settings=quickly)
