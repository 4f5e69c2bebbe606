"""Blocking calls under the simulator."""

import asyncio
import contextvars
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from mainstay.env.tasks import Worker
from mainstay.sim.errors import MachineDead
from mainstay.sim.simulation import Simulation


async def test_a_call_runs_inline_and_takes_no_time(sim):
    assert await asyncio.to_thread(sum, [1, 2, 3]) == 6
    assert sim.loop.time() == 0


async def test_a_call_that_fails_raises_where_it_is_awaited(sim):
    with pytest.raises(ZeroDivisionError):
        await sim.loop.run_in_executor(None, lambda: 1 // 0)


async def test_a_call_runs_as_a_step_of_its_own(sim):
    ran: list[str] = []
    future = sim.loop.run_in_executor(None, ran.append, "call")
    ran.append("asked for")

    await future

    assert ran == ["asked for", "call"]


def test_a_call_is_named_in_the_trace():
    async def main() -> None:
        await asyncio.to_thread(time.sleep, 1)

    with Simulation(keep_trace=True) as sim:
        sim.run(main())
        events = [event.what for event in sim.trace.events()]

    assert "executor sleep" in events


async def test_a_call_that_sleeps_answers_later_and_sees_the_time_go_on(sim):
    def call() -> float:
        before = time.monotonic()
        time.sleep(2.5)
        return time.monotonic() - before

    assert await asyncio.to_thread(call) == 2.5
    assert sim.loop.time() == 2.5
    assert time.monotonic() == 2.5


async def test_calls_on_different_threads_sleep_at_the_same_time(sim):
    await asyncio.gather(*(asyncio.to_thread(time.sleep, 1) for _ in range(10)))

    assert sim.loop.time() == 1


async def test_a_worker_does_one_call_after_the_other(sim):
    worker = Worker("disk")
    ended: list[tuple[str, float]] = []

    async def call(name: str, seconds: float) -> None:
        await worker.run(time.sleep, seconds)
        ended.append((name, sim.loop.time()))

    await asyncio.gather(call("a", 3), call("b", 1), call("c", 0))
    worker.close()

    assert ended == [("a", 3), ("b", 4), ("c", 4)]
    with pytest.raises(RuntimeError, match="after shutdown"):
        await worker.run(print)


async def test_an_executor_has_as_many_calls_under_way_as_threads(sim):
    with ThreadPoolExecutor(max_workers=2) as executor:
        await asyncio.gather(*(sim.loop.run_in_executor(executor, time.sleep, 1) for _ in range(6)))

    assert sim.loop.time() == 3


async def test_a_call_that_was_cancelled_before_its_turn_never_runs(sim):
    worker = Worker("disk")
    ran: list[str] = []
    first = worker.run(time.sleep, 1)
    second = worker.run(ran.append, "second")
    third = worker.run(ran.append, "third")
    second.cancel()

    await asyncio.wait([first, third])
    worker.close()

    assert ran == ["third"]


async def test_a_call_sees_no_loop_and_no_context_of_the_caller_unless_it_is_handed_one(sim):
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("set")

    def look() -> tuple[str, bool]:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return variable.get(), False
        return variable.get(), True

    assert await sim.loop.run_in_executor(None, look) == ("unset", False)
    assert await asyncio.to_thread(look) == ("set", False)
    assert asyncio.get_running_loop() is sim.loop


async def test_a_call_runs_on_the_host_of_its_caller(sim):
    with sim.network.host("worker-3").active():
        assert await sim.loop.run_in_executor(None, socket.gethostname) == "worker-3"


async def test_a_call_on_a_machine_that_dies_is_never_answered(sim):
    def die() -> None:
        raise MachineDead

    worker = Worker("disk")
    calls = [worker.run(die), worker.run(print)]

    _, pending = await asyncio.wait(calls, timeout=1000)

    assert len(pending) == 2
    for call in calls:
        call.cancel()


def test_calls_start_late_when_the_simulation_is_told_to_vary_that():
    def started(seed: int) -> list[float]:
        with Simulation(seed) as sim:
            sim.loop.executors.delays_ns = (0, 1_000_000_000, 2_000_000_000)

            async def main() -> list[float]:
                return await asyncio.gather(*(asyncio.to_thread(time.monotonic) for _ in range(8)))

            return sim.run(main())

    assert set(started(1)) == {0, 1, 2}
    assert started(1) == started(1)
    assert started(1) != started(2)


async def test_no_call_is_taken_once_the_default_executor_is_shut_down(sim):
    await sim.loop.shutdown_default_executor()

    with pytest.raises(RuntimeError, match="shutdown"):
        await asyncio.to_thread(print)
