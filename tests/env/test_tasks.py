"""Spawning, stopping, waiting and blocking calls, on the simulated and on the production loop."""

import asyncio
import gc
import threading
import weakref
from datetime import timedelta
from typing import Any

import pytest

from mainstay.env import tasks
from mainstay.sim.simulation import Simulation

A_MOMENT = timedelta(milliseconds=1)
LONG = timedelta(hours=1)

Report = dict[str, Any]


def reports() -> list[Report]:
    """What the running loop's exception handler hears from now on."""
    heard: list[Report] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, report: heard.append(report))
    return heard


def test_a_program_runs_until_its_main_coroutine_returns():
    async def main() -> str:
        await tasks.sleep(A_MOMENT)
        return "done"

    assert tasks.run(main()) == "done"


async def test_a_spawned_task_has_its_name_and_gives_its_result(either_loop):
    async def work() -> int:
        await tasks.sleep(A_MOMENT)
        return 42

    task = tasks.spawn(work(), name="adder")

    assert task.get_name() == "adder"
    assert await task == 42


async def test_a_spawned_task_without_references_lives_on(either_loop):
    waits_for: list[weakref.ref[asyncio.Future[str]]] = []
    heard = []

    async def work() -> None:
        future = asyncio.get_running_loop().create_future()
        waits_for.append(weakref.ref(future))
        heard.append(await future)

    tasks.spawn(work(), name="lonely")  # type: ignore[unused-awaitable]
    await tasks.sleep(A_MOMENT)
    gc.collect()  # The task and its future know only each other: together they would be gone now.
    future = waits_for[0]()
    assert future is not None
    future.set_result("a word")
    await tasks.sleep(A_MOMENT)

    assert heard == ["a word"]


async def test_the_failure_of_a_spawned_task_is_reported_with_its_name(either_loop):
    heard = reports()

    async def work() -> None:
        raise LookupError("it broke")

    task = tasks.spawn(work(), name="breaker")
    await asyncio.wait([task])
    await tasks.sleep(A_MOMENT)

    (report,) = heard
    assert report["message"] == "task 'breaker' failed"
    assert isinstance(report["exception"], LookupError)
    assert report["task"] is task


async def test_a_task_that_was_cancelled_is_not_reported(either_loop):
    heard = reports()
    task = tasks.spawn(tasks.sleep(LONG), name="sleeper")

    task.cancel()
    await tasks.sleep(A_MOMENT)

    assert task.cancelled()
    assert heard == []


def test_an_unnoticed_failure_of_a_spawned_task_stops_a_simulated_run():
    async def main() -> None:
        async def work() -> None:
            raise LookupError("it broke")

        _ = tasks.spawn(work(), name="breaker")
        await tasks.sleep(LONG)

    with Simulation() as simulation, pytest.raises(Exception, match="breaker"):
        simulation.run(main())


def test_the_unfinished_tasks_of_a_closed_loop_are_let_go():
    def a_run() -> "weakref.ref[object]":
        async def main() -> None:
            _ = tasks.spawn(tasks.sleep(LONG), name="sleeper")
            await tasks.sleep(A_MOMENT)

        with Simulation() as simulation:
            simulation.run(main())
        return weakref.ref(simulation.loop)

    first = a_run()
    a_run()
    gc.collect()

    assert first() is None


async def test_stopping_waits_until_the_task_has_cleaned_up(either_loop):
    story = []

    async def work() -> None:
        try:
            await tasks.sleep(LONG)
        finally:
            await tasks.sleep(A_MOMENT)
            story.append("cleaned up")

    task = tasks.spawn(work(), name="worker")
    await tasks.sleep(A_MOMENT)
    await tasks.stop(task)

    assert story == ["cleaned up"]
    assert task.cancelled()


async def test_stopping_a_task_that_fails_while_it_stops_is_reported_and_not_raised(either_loop):
    heard = reports()

    async def work() -> None:
        try:
            await tasks.sleep(LONG)
        finally:
            raise LookupError("it broke on the way out")

    task = tasks.spawn(work(), name="worker")
    await tasks.sleep(A_MOMENT)
    await tasks.stop(task)
    await tasks.sleep(A_MOMENT)

    assert [report["message"] for report in heard] == ["task 'worker' failed"]


async def test_stopping_a_task_that_has_ended_does_nothing(either_loop):
    async def work() -> str:
        return "done"

    task = tasks.spawn(work(), name="worker")
    await task
    await tasks.stop(task)

    assert task.result() == "done"


async def test_a_time_limit_ends_its_block(either_loop):
    with pytest.raises(TimeoutError):
        async with tasks.timeout(A_MOMENT):
            await tasks.sleep(LONG)


async def test_no_time_limit_is_none(either_loop):
    async with tasks.timeout(None):
        await tasks.sleep(A_MOMENT)


async def test_sleeping_takes_exactly_its_time_in_a_simulation(sim: Simulation):
    before = sim.clock.monotonic_ns()

    await tasks.sleep(LONG)

    assert sim.clock.monotonic_ns() - before == LONG // timedelta(microseconds=1) * 1000


async def test_a_worker_makes_its_calls_in_the_order_they_were_asked_for(either_loop):
    worker = tasks.Worker("disk")
    made: list[int] = []

    await asyncio.gather(*(worker.run(made.append, n) for n in range(100)))
    worker.close()

    assert made == list(range(100))


async def test_a_worker_gives_back_what_its_call_returned_or_raised(either_loop):
    worker = tasks.Worker("disk")

    assert await worker.run(divmod, 17, 5) == (3, 2)
    with pytest.raises(ZeroDivisionError):
        await worker.run(divmod, 17, 0)
    worker.close()


async def test_a_worker_goes_on_after_a_call_that_failed(either_loop):
    worker = tasks.Worker("disk")
    failed = worker.run(divmod, 1, 0)
    fine = worker.run(divmod, 7, 7)

    await asyncio.wait([failed])

    assert await fine == (1, 0)
    assert isinstance(failed.exception(), ZeroDivisionError)
    worker.close()


async def test_a_worker_takes_no_keywords(either_loop):
    worker = tasks.Worker("disk")

    with pytest.raises(TypeError, match="positional"):
        await worker.run(sorted, [2, 1], reverse=True)
    worker.close()


async def test_a_closed_worker_finishes_what_it_was_asked_and_takes_nothing_more(either_loop):
    worker = tasks.Worker("disk")
    asked = worker.run(divmod, 7, 7)

    worker.close()

    assert await asked == (1, 0)
    with pytest.raises(RuntimeError):
        await worker.run(divmod, 7, 7)


@pytest.mark.real_loop
async def test_a_worker_has_one_thread_which_is_not_the_loops():
    worker = tasks.Worker("disk")

    threads = {await worker.run(threading.get_ident) for _ in range(10)}
    worker.close()

    assert len(threads) == 1
    assert threading.get_ident() not in threads


async def test_a_worker_has_no_thread_in_a_simulation():
    worker = tasks.Worker("disk")

    assert await worker.run(threading.get_ident) == threading.get_ident()
    worker.close()
