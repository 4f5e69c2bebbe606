"""The decisions of flow control: seats, borrowing, fair queues. No clock, no loop."""

from collections import Counter, defaultdict
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.server.flow.fair_queues import FairQueues, deal, hash_flow
from mainstay.server.flow.scheduler import COST_GUESSED_S, FlowLevel, FlowRequest, FlowScheduler, FlowStep
from mainstay.server.flow.seats import LevelSeats, LevelSettings, SeatPool

PLENTY = 1_000_000


def a_level(name: str = "low", shares: int = 100, **rest: int | None) -> LevelSettings:
    return LevelSettings(name, shares=shares, **{"queues": 16, "hand_size": 4, "length_max": 50, **rest})  # type: ignore[arg-type]


def a_scheduler(*levels: LevelSettings, seats: int = 10, starts: int = PLENTY) -> tuple[FlowScheduler, list[FlowLevel]]:
    scheduler = FlowScheduler(seats, starts)
    return scheduler, list(scheduler.configure(levels).values())


# Hands.


@given(st.integers(0, 2**60 - 1), st.integers(1, 200), st.data())
def test_a_hand_has_so_many_different_queues(flow: int, queues: int, data: st.DataObject):
    size = data.draw(st.integers(1, min(queues, 8)))
    hand = deal(flow, queues, size)
    assert len(set(hand)) == size
    assert all(0 <= queue < queues for queue in hand)


def test_hands_are_spread_over_all_queues():
    dealt = Counter(queue for user in range(2_000) for queue in deal(hash_flow("s", f"u{user}"), 16, 4))
    assert set(dealt) == set(range(16))
    assert max(dealt.values()) < 1.3 * min(dealt.values())


# Queues.


def test_a_queue_is_first_in_first_out():
    queues: FairQueues[int] = FairQueues(8, 1, 100)
    for number in range(20):
        assert queues.push(7, number, 1.0) is not None
    assert taken(queues, 20) == list(range(20))


def taken(queues: FairQueues[int], count: int) -> list[int]:
    found = []
    for _ in range(count):
        head = queues.head()
        assert head is not None
        queues.take(head)
        found.append(head.item)
    return found


def test_flows_that_always_wait_get_equal_shares_of_the_work():
    queues: FairQueues[int] = FairQueues(64, 1, 1_000)
    hands = {flow: deal(hash_flow("s", str(flow)), 64, 1)[0] for flow in range(4)}
    assert len(set(hands.values())) == 4
    costs = {0: 1.0, 1: 1.0, 2: 5.0, 3: 10.0}
    for flow in hands:
        for _ in range(500):
            queues.push(hash_flow("s", str(flow)), flow, costs[flow])
    work: dict[int, float] = defaultdict(float)
    for flow in taken(queues, 600):
        work[flow] += costs[flow]
    assert max(work.values()) - min(work.values()) <= 2 * max(costs.values())


def test_a_flow_that_comes_late_waits_for_no_more_than_one_round():
    queues: FairQueues[str] = FairQueues(64, 1, 1_000)
    for _ in range(300):
        queues.push(hash_flow("s", "flood"), "flood", 10.0)
    for _ in range(100):
        head = queues.head()
        assert head is not None
        queues.take(head)
    queues.push(hash_flow("s", "late"), "late", 1.0)
    order = []
    for _ in range(2):
        head = queues.head()
        assert head is not None
        queues.take(head)
        order.append(head.item)
    assert "late" in order


def test_what_a_flow_has_cost_beyond_the_guess_counts_against_it():
    queues: FairQueues[str] = FairQueues(64, 1, 100)
    for name in ("a", "b"):
        for _ in range(10):
            queues.push(hash_flow("s", name), name, 1.0)
    first = queues.head()
    assert first is not None
    queues.take(first)
    first.queue.correct(5.0)
    other = "b" if first.item == "a" else "a"
    order = []
    for _ in range(6):
        head = queues.head()
        assert head is not None
        queues.take(head)
        order.append(head.item)
    assert order == [other] * 6


def test_a_full_queue_takes_no_more_and_a_flood_fills_only_its_hand():
    queues: FairQueues[int] = FairQueues(64, 4, 10)
    accepted = sum(queues.push(hash_flow("s", "flood"), 0, 1.0) is not None for _ in range(100))
    assert accepted == 40
    others = [f"u{number}" for number in range(50)]
    assert all(queues.push(hash_flow("s", other), 1, 1.0) is not None for other in others)


# Seats.


def seats_of(*settings: LevelSettings, total: int = 100) -> tuple[SeatPool, list[LevelSeats]]:
    pool, levels = SeatPool(total), [LevelSeats(each) for each in settings]
    pool.share(levels)
    return pool, levels


def test_seats_are_shared_by_shares():
    _, levels = seats_of(a_level("a", 30), a_level("b", 40), a_level("c", 10), a_level("d", 0))
    assert [level.nominal for level in levels] == [38, 50, 13, 0]


def test_a_level_borrows_what_others_lend_and_no_more():
    pool, (one, two) = seats_of(a_level("a", 50), a_level("b", 50, lendable_percent=40))
    one.in_use = 50
    assert pool.has_room(one, 20)
    assert not pool.has_room(one, 21)
    two.in_use = 45
    assert pool.has_room(one, 5)
    assert not pool.has_room(one, 6)
    one.in_use = 70
    assert pool.has_room(two, 5), "its own seats are there at any time"
    assert not pool.has_room(one, 1)


def test_borrowing_has_a_limit_of_its_own():
    pool, (one, _) = seats_of(a_level("a", 50, borrowing_percent=10), a_level("b", 50, lendable_percent=100))
    one.in_use = 50
    assert pool.has_room(one, 5)
    assert not pool.has_room(one, 6)


def test_two_levels_do_not_borrow_the_same_seats():
    pool, (one, two, _) = seats_of(a_level("a", 25), a_level("b", 25), a_level("c", 50, lendable_percent=50))
    one.in_use, two.in_use = 25 + 20, 25
    assert pool.has_room(two, 5)
    assert not pool.has_room(two, 6)


def test_a_request_wider_than_its_level_runs_alone_and_a_level_without_seats_runs_nothing():
    pool, (one, two) = seats_of(a_level("a", 1), a_level("b", 0), total=2)
    assert pool.has_room(one, 10)
    assert not pool.has_room(two, 1)


# All together.


def test_a_request_runs_at_once_while_there_are_seats_then_waits_then_is_rejected():
    scheduler, [level] = a_scheduler(a_level(hand_size=1, length_max=2), seats=2)
    steps = [scheduler.arrive(level, 1, 1).step for _ in range(5)]
    assert steps == [FlowStep.RUNNING] * 2 + [FlowStep.WAITING] * 2 + [FlowStep.REJECTED]


def test_a_level_without_queues_rejects():
    scheduler, [level] = a_scheduler(a_level(queues=0), seats=2)
    assert [scheduler.arrive(level, 1, 1).step for _ in range(3)] == [FlowStep.RUNNING] * 2 + [FlowStep.REJECTED]


def test_no_request_overtakes_its_own_queue():
    scheduler, [level] = a_scheduler(a_level(), seats=1)
    running = scheduler.arrive(level, 1, 1)
    waiting = scheduler.arrive(level, 1, 1)
    scheduler.finish(running)
    assert scheduler.arrive(level, 1, 1).step is FlowStep.WAITING
    assert scheduler.next() is waiting


def test_a_turn_begins_so_much_and_the_rest_waits_for_the_next():
    scheduler, [level] = a_scheduler(a_level(), seats=100, starts=4)
    steps = [scheduler.arrive(level, 1, 1).step for _ in range(10)]
    assert steps == [FlowStep.RUNNING] * 4 + [FlowStep.WAITING] * 6
    assert scheduler.next() is None
    scheduler.begin_turn()
    assert sum(scheduler.next() is not None for _ in range(10)) == 4


def test_who_gives_up_leaves_no_place_behind():
    scheduler, [level] = a_scheduler(a_level(), seats=1)
    running = scheduler.arrive(level, 1, 1)
    waiting = [scheduler.arrive(level, 1, 1) for _ in range(3)]
    scheduler.give_up(waiting[0])
    scheduler.finish(running)
    assert scheduler.next() is waiting[1]
    scheduler.give_up(waiting[2])
    assert not scheduler.has_waiting


def test_levels_share_turns_by_their_seats():
    scheduler, [big, small] = a_scheduler(a_level("big", 90), a_level("small", 10), seats=1_000, starts=1)
    scheduler.arrive(big, 0, 1)
    for _ in range(150):
        scheduler.arrive(big, 1, 1)
        scheduler.arrive(small, 2, 1)
    began: Counter[str] = Counter()
    for _ in range(100):
        scheduler.begin_turn()
        request = scheduler.next()
        assert request is not None
        began[request.level.settings.name] += 1
    assert began["small"] == pytest.approx(10, abs=2)


def test_a_level_keeps_its_seats_when_others_come_and_loses_its_queues_when_they_change():
    scheduler, [level] = a_scheduler(a_level("a"), seats=10)
    request = scheduler.arrive(level, 1, 1)
    [same, _] = scheduler.configure([a_level("a"), a_level("b")]).values()
    assert (same, same.seats.in_use, same.seats.nominal) == (level, 1, 5)
    [other] = scheduler.configure([a_level("a", queues=8)]).values()
    assert other is not level
    scheduler.finish(request)
    assert (level.seats.in_use, other.seats.in_use) == (0, 0)


class OneProcessor:
    """Runs requests one after the other, each for as long as its seats say. Time is virtual."""

    def __init__(self, scheduler: FlowScheduler) -> None:
        self.scheduler = scheduler
        self.now = 0.0
        self.waits: dict[str, list[float]] = defaultdict(list)
        self.running: list[FlowRequest] = []

    def arrive(self, name: str, level: FlowLevel, width: int) -> None:
        request = self.scheduler.arrive(level, hash_flow(level.settings.name, name), width, (name, self.now))
        if request.step is FlowStep.RUNNING:
            self._start(request)

    def step(self) -> None:
        if self.running:
            request = self.running.pop(0)
            self.now += request.width * COST_GUESSED_S
            self.scheduler.finish(request)
        self.scheduler.begin_turn()
        while (begun := self.scheduler.next()) is not None:
            self._start(begun)

    def _start(self, request: FlowRequest) -> None:
        name, since = request.item
        self.waits[name].append(self.now - since)
        self.running.append(request)


@given(
    st.lists(st.tuples(st.sampled_from(["flood", "list", "a", "b", "c"]), st.integers(1, 10)), max_size=120),
    st.integers(1, 30),
)
def test_everything_that_waits_runs_in_the_end_and_seats_come_back(arrivals: Iterable[tuple[str, int]], seats: int):
    scheduler, [level] = a_scheduler(a_level(length_max=200), seats=seats, starts=16)
    processor = OneProcessor(scheduler)
    count = 0
    for name, width in arrivals:
        processor.arrive(name, level, width)
        count += 1
    for _ in range(3 * count + 1):
        processor.step()
    assert sum(map(len, processor.waits.values())) == count
    assert (level.seats.in_use, scheduler.has_waiting) == (0, False)


def test_a_few_requests_are_served_soon_whatever_one_flow_sends():
    scheduler, [level, high] = a_scheduler(a_level("low", 80), a_level("high", 20), seats=50, starts=16)
    processor = OneProcessor(scheduler)
    for tick in range(3_000):
        for _ in range(2):
            processor.arrive("flood", level, 10)
        if tick % 50 == 0:
            processor.arrive("lease", high, 1)
            processor.arrive("other", level, 1)
        processor.step()
    # The flood keeps what runs now busy for at most so long.
    busy_s = (50 + 16) * COST_GUESSED_S
    assert max(processor.waits["lease"]) <= busy_s
    assert max(processor.waits["other"]) <= 3 * busy_s
    assert len(processor.waits["lease"]) == 60
