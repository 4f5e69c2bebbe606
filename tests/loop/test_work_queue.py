"""The work queue with workers that wait, in virtual time."""

import asyncio
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from mainstay.env import tasks
from mainstay.loop.queue.items import (
    DONE,
    EnqueueReason,
    Figures,
    Item,
    KeyRetry,
    KeyState,
    Priority,
    QueueSettings,
    WakeAfter,
)
from mainstay.loop.queue.work_queue import WorkQueue
from mainstay.sim.errors import Deadlock
from mainstay.sim.simulation import Simulation
from tests.twins import queue as twins

SECOND = timedelta(seconds=1)


def a_queue(sim: Simulation, **settings: Any) -> WorkQueue[str]:
    return WorkQueue(sim.env("controller"), "pods", QueueSettings(**({"resync": None} | settings)))


async def got(queue: WorkQueue[str]) -> Item[str]:
    item = await queue.get()
    assert item is not None
    return item


def seconds(sim: Simulation) -> float:
    return sim.clock.monotonic_ns() / 1e9


class Workers:
    """Take keys one after the other, spend some time on each, and keep a list of what was done when."""

    def __init__(self, sim: Simulation, queue: WorkQueue[str], count: int, takes: timedelta = SECOND) -> None:
        self.looks: list[tuple[str, float]] = []
        self._sim = sim
        self._queue = queue
        self._takes = takes
        self.tasks = [tasks.spawn(self._work(), name=f"worker {number}") for number in range(count)]

    async def _work(self) -> None:
        while (item := await self._queue.get()) is not None:
            self.looks.append((item.key, seconds(self._sim)))
            await tasks.sleep(self._takes)
            self._queue.done(item.key, DONE)


async def settled() -> None:
    """Let everything run that can run now."""
    await tasks.sleep(timedelta(milliseconds=1))


async def test_a_waiting_worker_gets_a_key_as_soon_as_it_is_added(sim):
    queue = a_queue(sim)
    waiting = tasks.spawn(got(queue), name="worker")
    await tasks.sleep(SECOND)
    queue.add("a", tenant="team", priority=Priority.HIGH, woken_by=7)

    item = await waiting

    assert (item.key, item.tenant, item.priority, item.woken_by, item.waited_ns) == (
        "a",
        "team",
        Priority.HIGH,
        (7,),
        0,
    )


async def test_a_waiting_worker_gets_a_delayed_key_when_it_is_due(sim):
    queue = a_queue(sim)
    waiting = tasks.spawn(got(queue), name="worker")
    await tasks.sleep(SECOND)
    queue.add_after("late", timedelta(seconds=10))
    queue.add_after("early", timedelta(seconds=5))

    item = await waiting

    assert item.key == "early"
    assert seconds(sim) == pytest.approx(6, abs=1e-5)


async def test_keys_that_are_due_together_wake_as_many_workers(sim):
    queue = a_queue(sim)
    workers = Workers(sim, queue, 3)
    for key in ("a", "b", "c"):
        queue.add_after(key, timedelta(seconds=5))
    await tasks.sleep(timedelta(seconds=5.5))

    assert [key for key, _ in workers.looks] == ["a", "b", "c"]
    await queue.drain()


async def test_a_busy_worker_that_finds_several_keys_due_leaves_the_others_to_those_who_wait(sim):
    queue = a_queue(sim)
    for key in ("a", "b", "c"):
        queue.add_after(key, timedelta(seconds=5))
    looks: list[str] = []

    async def worker() -> None:
        looks.append((await got(queue)).key)

    waiting = [tasks.spawn(worker(), name="worker") for _ in range(2)]
    await settled()
    # The clock has come to the moment, the timer has not rung yet, and a worker looks.
    real_ns = sim.clock.monotonic_ns()
    queue._core.enqueue_due(real_ns + 6_000_000_000)
    looks.append((await got(queue)).key)
    await asyncio.wait(waiting)

    assert sorted(looks) == ["a", "b", "c"]


async def test_no_two_workers_have_one_key(sim):
    queue = a_queue(sim)
    processing: list[str] = []

    async def worker() -> None:
        while (item := await queue.get()) is not None:
            assert item.key not in processing
            processing.append(item.key)
            await tasks.sleep(timedelta(milliseconds=7))
            processing.remove(item.key)
            queue.done(item.key, DONE)

    workers = [tasks.spawn(worker(), name=f"worker {number}") for number in range(5)]
    for step in range(1000):
        queue.add(f"key-{step % 3}")
        await tasks.sleep(timedelta(milliseconds=1))
    await queue.drain()
    await asyncio.gather(*workers)

    assert queue.figures().taken > 300


async def test_work_goes_on_side_by_side(sim):
    queue = a_queue(sim)
    workers = Workers(sim, queue, 4)
    for number in range(8):
        queue.add(f"key-{number}")
    await tasks.sleep(timedelta(seconds=1.5))

    assert len(workers.looks) == 8
    await queue.drain()


async def spurious_wakes(sim: Simulation) -> int:
    queue = a_queue(sim)
    workers = Workers(sim, queue, 20, takes=timedelta())
    await settled()
    looks = 0
    honest = queue._core.get

    def get(now_ns: int) -> Item[str] | None:
        nonlocal looks
        looks += 1
        return honest(now_ns)

    queue._core.get = get  # type: ignore[method-assign]
    for number in range(10):
        queue.add(f"key-{number}")
        await settled()
    await queue.drain()
    return looks - 2 * len(workers.looks)  # Each worker that had a key looks once more for the next one.


async def test_one_key_wakes_one_worker(sim):
    assert await spurious_wakes(sim) == 0


async def test_twin_that_wakes_everybody_is_noticed(sim, monkeypatch):
    twins.wakes_everybody(monkeypatch)

    assert await spurious_wakes(sim) > 100


async def a_worker_is_cancelled_when_it_was_just_woken(sim: Simulation) -> str:
    queue = a_queue(sim)
    first = tasks.spawn(got(queue), name="first")
    second = tasks.spawn(got(queue), name="second")
    await settled()
    queue.add("a")
    first.cancel()

    async with tasks.timeout(SECOND):
        return (await second).key


async def test_the_key_of_a_worker_that_is_cancelled_goes_to_another_one(sim):
    assert await a_worker_is_cancelled_when_it_was_just_woken(sim) == "a"


async def test_twin_that_loses_the_wake_of_a_cancelled_worker_is_noticed(sim, monkeypatch):
    twins.does_not_pass_on_the_wake_of_a_worker_that_is_cancelled(monkeypatch)

    with pytest.raises(TimeoutError):
        await a_worker_is_cancelled_when_it_was_just_woken(sim)


async def test_a_key_does_not_go_to_a_worker_that_is_being_cancelled(sim):
    queue = a_queue(sim)
    first = tasks.spawn(got(queue), name="first")
    second = tasks.spawn(got(queue), name="second")
    await settled()
    first.cancel()
    queue.add("a")

    assert (await second).key == "a"


async def an_earlier_time_comes_second(sim: Simulation) -> float:
    queue = a_queue(sim)
    waiting = tasks.spawn(got(queue), name="worker")
    await settled()
    queue.add_after("late", timedelta(hours=1))
    queue.add_after("early", SECOND)
    await waiting
    return seconds(sim)


async def test_the_timer_follows_the_earliest_time(sim):
    assert await an_earlier_time_comes_second(sim) < 2


async def test_twin_that_keeps_its_first_timer_is_noticed(sim, monkeypatch):
    twins.sets_its_timer_only_for_the_first_one_that_waits(monkeypatch)

    assert await an_earlier_time_comes_second(sim) > 3000


async def test_a_failing_key_comes_back_by_itself_and_says_why(sim):
    queue = a_queue(sim)
    queue.add("a")
    await got(queue)
    assert queue.done("a", KeyRetry()) is KeyState.BACKING_OFF

    item = await got(queue)

    assert (item.because, item.attempt) == (EnqueueReason.RETRY, 2)
    assert 0.05 <= seconds(sim) <= 0.11


async def test_a_missed_change_is_made_good_by_resync(sim):
    queue = a_queue(sim, resync=timedelta(minutes=30))
    workers = Workers(sim, queue, 2)
    for number in range(100):
        queue.add(f"key-{number}")
    await tasks.sleep(timedelta(hours=2))
    await queue.drain()

    looked_at = {key: [at for other, at in workers.looks if other == key] for key, _ in workers.looks}
    gaps = [later - earlier for times in looked_at.values() for earlier, later in pairwise(times)]
    # The period, and the time that a key may have to wait in line behind the others.
    assert (len(looked_at), max(gaps) < 1800 + 100, min(gaps) > 1400) == (100, True, True)


async def test_a_noisy_tenant_does_not_keep_a_quiet_one_waiting(sim):
    queue = a_queue(sim)
    workers = Workers(sim, queue, 2, takes=timedelta(milliseconds=100))
    for number in range(1000):
        queue.add(f"noisy-{number}", tenant="noisy")
    await tasks.sleep(SECOND)
    queue.add("quiet", tenant="quiet")
    await tasks.sleep(SECOND)

    assert any(key == "quiet" and at < 1.25 for key, at in workers.looks)
    starved = {tenant.tenant: tenant.wait_max < SECOND for tenant in queue.figures().tenants}
    assert starved == {"noisy": False, "quiet": True}
    await queue.drain()


async def test_draining_waits_for_those_at_work_and_sends_home_those_who_wait(sim):
    queue = a_queue(sim)
    workers = Workers(sim, queue, 3, takes=timedelta(seconds=5))
    queue.add("a")
    await settled()
    queue.add_after("b", SECOND)

    assert await queue.drain() == ()

    assert workers.looks == [("a", 0)]
    assert seconds(sim) == pytest.approx(5)
    await asyncio.gather(*workers.tasks)
    assert (queue.add("c"), await queue.get()) == (False, None)


async def test_draining_ends_when_its_time_is_over_and_names_what_is_still_processing(sim):
    queue = a_queue(sim)
    queue.add("a")
    await got(queue)

    assert await queue.drain(SECOND) == ("a",)
    queue.done("a", DONE)
    assert await queue.drain(SECOND) == ()


async def test_a_look_that_never_ends_shows_in_the_figures(sim):
    queue = a_queue(sim)
    queue.add("a")
    await got(queue)
    await tasks.sleep(timedelta(minutes=5))

    figures: Figures = queue.figures()

    assert (figures.processing, figures.oldest_processing_age) == (1, timedelta(minutes=5))
    key = queue.look("a")
    assert key is not None
    assert key.state is KeyState.PROCESSING


def test_a_worker_that_waits_for_nothing_sets_no_timer():
    async def wait(sim: Simulation) -> None:
        await a_queue(sim).get()

    with Simulation(0) as sim, pytest.raises(Deadlock):
        sim.run(wait(sim))


async def test_a_queue_that_waits_to_look_again_is_silent_until_then(sim):
    queue = a_queue(sim)
    queue.add("a")
    await got(queue)
    queue.done("a", WakeAfter(timedelta(days=1)))

    assert (await got(queue)).because is EnqueueReason.TIMER
    assert seconds(sim) == pytest.approx(86400)


async def test_a_paused_queue_hands_out_nothing_and_keeps_what_comes(sim):
    queue = a_queue(sim)
    workers = Workers(sim, queue, count=2, takes=timedelta())
    queue.pause()
    queue.add("a")
    queue.add_after("b", SECOND)
    await tasks.sleep(10 * SECOND)
    assert (workers.looks, queue.figures().ready) == ([], 1)
    queue.resume()
    await settled()

    assert workers.looks == [("a", 10), ("b", 10)]
    queue.add_after("c", SECOND)
    await tasks.sleep(2 * SECOND)
    assert [(key, round(at)) for key, at in workers.looks[2:]] == [("c", 11)]
    for task in workers.tasks:
        await tasks.stop(task)


async def test_who_was_woken_before_the_pause_gets_nothing_either(sim):
    queue = a_queue(sim)
    workers = Workers(sim, queue, count=3)
    await settled()
    for key in "abc":
        queue.add(key)
    queue.pause()
    await tasks.sleep(SECOND)
    assert workers.looks == []
    queue.pause()
    queue.resume()
    await settled()

    assert sorted(key for key, _ in workers.looks) == ["a", "b", "c"]
    for task in workers.tasks:
        await tasks.stop(task)


async def test_a_paused_queue_can_be_drained(sim):
    queue = a_queue(sim)
    waiting = tasks.spawn(queue.get(), name="worker")
    await settled()
    queue.pause()
    queue.add("a")

    assert await queue.drain() == ()
    assert await waiting is None
