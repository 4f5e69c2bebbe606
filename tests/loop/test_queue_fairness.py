"""Whose turn it is: priorities, tenants, and that no key waits for ever."""

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.loop.queue import lines
from mainstay.loop.queue.items import DONE, KeyState, Priority
from tests.loop.queues import S, a_queue, take, taken
from tests.twins import queue as twins


def test_the_more_urgent_goes_first():
    queue = a_queue()
    for priority in Priority:
        queue.add(priority.name, 0, priority=priority)

    assert taken(queue) == ["URGENT", "HIGH", "NORMAL", "BACKGROUND"]


def test_a_key_in_line_that_is_woken_more_urgently_moves_up():
    queue = a_queue()
    queue.add("a", 0, priority=Priority.BACKGROUND)
    queue.add("b", 0)
    queue.add("a", S, priority=Priority.HIGH)

    item = take(queue, 2 * S)

    assert (item.key, item.priority, item.waited_ns) == ("a", Priority.HIGH, 2 * S)
    assert taken(queue) == ["b"]


def test_a_key_in_line_that_is_woken_less_urgently_keeps_its_place():
    queue = a_queue()
    queue.add("a", 0, priority=Priority.HIGH)
    queue.add("a", 0, priority=Priority.BACKGROUND)

    assert take(queue).priority is Priority.HIGH


def test_a_priority_that_is_passed_over_often_enough_has_a_turn():
    queue = a_queue(passed_over_max=4)
    for number in range(20):
        queue.add(f"high-{number}", 0, priority=Priority.HIGH)
    for number in range(2):
        queue.add(f"low-{number}", 0, priority=Priority.BACKGROUND)

    order = taken(queue)

    assert [place for place, key in enumerate(order) if key.startswith("low")] == [4, 9]
    assert queue.figures(0).passed_over == 2


def test_tenants_take_turns_however_many_keys_they_have():
    queue = a_queue()
    for number in range(100):
        queue.add(f"noisy-{number}", 0, "noisy")
    queue.add("quiet-0", 0, "quiet")
    queue.add("quiet-1", 0, "quiet")

    assert taken(queue, at_most=5) == ["noisy-0", "quiet-0", "noisy-1", "quiet-1", "noisy-2"]


def test_a_tenant_with_a_greater_weight_has_more_keys_in_a_row():
    queue = a_queue(weights={"big": 3})
    for number in range(6):
        queue.add(f"small-{number}", 0, "small")
        queue.add(f"big-{number}", 0, "big")

    assert [key[0] for key in taken(queue)] == list("sbbbsbbbssss")


def test_a_hot_key_does_not_get_in_front_of_those_who_wait():
    queue = a_queue()
    queue.add("hot", 0)
    for number in range(3):
        queue.add(f"cold-{number}", 0)
    order = []
    for _ in range(8):
        item = take(queue)
        order.append(item.key)
        queue.add("hot", 0)
        queue.done(item.key, DONE, 0)
        if item.key != "hot":
            queue.add(item.key, 0)

    assert order == ["hot", "cold-0", "cold-1", "cold-2"] * 2


def test_a_tenant_whose_work_takes_long_leaves_workers_for_others():
    queue = a_queue(processing_per_tenant_max=2)
    for number in range(5):
        queue.add(f"slow-{number}", 0, "slow")
    assert [take(queue).key for _ in range(2)] == ["slow-0", "slow-1"]
    assert queue.get(0) is None
    assert [tenant.is_held_back for tenant in queue.figures(0).tenants] == [True]

    queue.add("quick", 0, "quick")
    assert take(queue).key == "quick"
    queue.done("slow-0", DONE, 0)
    assert [take(queue).key, queue.get(0)] == ["slow-2", None]


def test_a_key_goes_with_the_tenant_that_was_named_last():
    queue = a_queue()
    queue.add("a", 0, "first")
    queue.add("a", 0, "second")

    assert take(queue).tenant == "second"
    queue.add("a", 0, "third")
    queue.done("a", DONE, 0)
    queue.add("a", 0, "third")
    assert take(queue).tenant == "third"


def test_tenants_that_come_and_go_are_forgotten_in_the_end(monkeypatch):
    monkeypatch.setattr(lines, "TENANTS_MAX", 10)
    queue = a_queue()
    for number in range(1000):
        queue.add("a", 0, f"tenant-{number}")
        queue.add("b", 0, f"tenant-{number}")
        queue.add("b", 0, f"tenant-{number + 1}", Priority.HIGH)
        taken(queue)

    assert len(queue.figures(0).tenants) <= 12


TENANTS = ["noisy", "quiet", "other"]
WAKES = st.lists(
    st.tuples(
        st.sampled_from(TENANTS), st.integers(0, 5), st.sampled_from(list(Priority)), st.sampled_from(["add", "take"])
    ),
    max_size=60,
)


def waits_of_a_watched_key(
    wakes: list[tuple[str, int, Priority, str]], priority: Priority, weights: dict[str, int], passed_over_max: int
) -> tuple[int, int]:
    """How many turns others have before one key, and how many they may have. Everybody else is as noisy as can be."""
    queue = a_queue(weights=weights, passed_over_max=passed_over_max)
    for tenant, number, wake_priority, what in wakes:
        if what == "add":
            queue.add(f"{tenant}-{number}-{wake_priority.name}", 0, tenant, wake_priority)
        else:
            taken(queue, at_most=1)
    ahead = sum(1 for n in range(6) if queue.state(f"quiet-{n}-{priority.name}") is KeyState.READY)
    queue.add("watched", 0, "quiet", priority)
    others = sum(weights[tenant] for tenant in TENANTS if tenant != "quiet")
    turns_in_band = ahead + 1 + ceil(Fraction(ahead + 1, weights["quiet"])) * others
    bound = turns_in_band * (passed_over_max + len(Priority))
    for turns in range(bound + 1):
        # All others want a turn at all times, in every priority, those of the watched key's own tenant, too.
        for tenant in TENANTS:
            for other_priority in Priority:
                for number in range(3):
                    queue.add(f"{tenant}-{number}-{other_priority.name}", 0, tenant, other_priority)
        item = take(queue)
        if item.key == "watched":
            return turns + 1, bound
        queue.done(item.key, DONE, 0)
    return bound + 1, bound


@settings(max_examples=60)
@given(
    wakes=WAKES,
    priority=st.sampled_from(list(Priority)),
    weights=st.fixed_dictionaries({tenant: st.integers(1, 4) for tenant in TENANTS}),
    passed_over_max=st.integers(4, 12),
)
def test_no_noise_keeps_a_key_from_its_turn_for_longer_than_the_bound(wakes, priority, weights, passed_over_max):
    turns, bound = waits_of_a_watched_key(wakes, priority, weights, passed_over_max)

    assert turns <= bound


@pytest.mark.parametrize("twin", twins.UNFAIR, ids=lambda twin: twin.__name__)
def test_an_unfair_twin_breaks_the_bound(twin: twins.Twin, monkeypatch):
    twin(monkeypatch)
    first_of_all: list[tuple[str, int, Priority, str]] = [("noisy", 0, Priority.NORMAL, "add")]
    waits = [
        waits_of_a_watched_key(first_of_all, priority, {"noisy": 2, "quiet": 1, "other": 1}, 4) for priority in Priority
    ]

    assert any(turns > bound for turns, bound in waits)
