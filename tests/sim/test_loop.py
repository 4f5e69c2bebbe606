"""The simulated loop as asyncio programs see it."""

import asyncio
import contextvars
import math
from collections.abc import AsyncIterator

import pytest

from mainstay.sim.errors import Deadlock, Livelock, Unhandled
from mainstay.sim.loop.loop import SimLoop
from mainstay.sim.simulation import Simulation


async def test_waiting_takes_virtual_time_only(sim):
    await asyncio.sleep(7 * 24 * 3600)

    assert sim.loop.time() == 7 * 24 * 3600
    assert sim.loop.time_ns() == 7 * 24 * 3600 * 1_000_000_000


async def test_timers_due_at_one_moment_run_in_the_order_they_were_set(sim):
    ran: list[str] = []
    sim.loop.call_later(2, ran.append, "later")
    for name in "abc":
        sim.loop.call_later(1, ran.append, name)
    sim.loop.call_at_ns(1_000_000_000, ran.append, "d")

    await asyncio.sleep(2)

    assert ran == ["a", "b", "c", "d", "later"]


async def set_timers_for_now() -> list[str]:
    loop = asyncio.get_running_loop()
    ran: list[str] = []

    def step(name: str, depth: int) -> None:
        ran.append(name)
        if depth:
            loop.call_later(0, step, f"{name}.timer", depth - 1)
            loop.call_soon(step, f"{name}.soon", depth - 1)
            loop.call_at(loop.time() - 1, step, f"{name}.late", depth - 1)
            loop.call_at(loop.time() - 2, step, f"{name}.later", depth - 1)
            loop.call_later(0, step, f"{name}.cancelled", depth - 1).cancel()
            loop.call_soon(step, f"{name}.soon too", depth - 1)

    loop.call_later(0, step, "timer", 2)
    loop.call_soon(step, "soon", 2)
    loop.call_later(0, step, "timer too", 2)
    await asyncio.sleep(0)
    ran.append("main")
    await asyncio.sleep(0.1)
    return ran


def test_timers_for_now_take_their_turn_as_in_asyncio(sim):
    assert sim.run(set_timers_for_now()) == asyncio.run(set_timers_for_now())


async def test_sums_of_small_delays_are_exact(sim):
    for _ in range(10):
        await asyncio.sleep(0.1)

    assert sim.loop.time_ns() == 1_000_000_000


async def test_a_timer_for_now_is_not_starved_by_steps_that_keep_each_other_going(sim):
    fired = asyncio.Event()
    sim.loop.call_later(0, fired.set)

    while not fired.is_set():
        await asyncio.sleep(0)


async def test_a_cancelled_timer_neither_runs_nor_moves_the_clock(sim):
    ran: list[str] = []
    sim.loop.call_later(5, ran.append, "no").cancel()
    sim.loop.call_soon(ran.append, "no").cancel()

    await asyncio.sleep(1)
    for _ in range(5000):  # Enough for the heap to be cleaned.
        sim.loop.call_later(100, ran.append, "no").cancel()
    await asyncio.sleep(1)

    assert ran == []
    assert sim.loop.time() == 2


async def test_a_timer_tells_when_it_is_due(sim):
    timer = sim.loop.call_later(1.5, print)

    assert timer.when() == 1.5
    assert isinstance(timer, asyncio.TimerHandle)
    assert not timer.cancelled()
    timer.cancel()
    assert timer.cancelled()
    assert "cancelled" in repr(timer)


async def test_a_timer_at_infinity_is_never_due(sim):
    sleeper = asyncio.create_task(asyncio.sleep(math.inf))

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1e6):
            await sleeper


async def test_time_limits_queues_locks_and_groups_work(sim):
    queue: asyncio.Queue[int] = asyncio.Queue(maxsize=1)
    lock = asyncio.Lock()
    seen: list[int] = []

    async def produce() -> None:
        for number in range(3):
            await queue.put(number)

    async def consume() -> None:
        while len(seen) < 3:
            async with lock:
                seen.append(await queue.get())

    async with asyncio.TaskGroup() as group:
        group.create_task(produce())
        group.create_task(consume())
    assert seen == [0, 1, 2]

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3):
            await asyncio.Event().wait()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), 3)
    assert sim.loop.time() == 6


async def test_gather_wait_and_as_completed_work(sim):
    async def after(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    assert await asyncio.gather(*map(after, (3, 1, 2))) == [3, 1, 2]
    assert [await done for done in asyncio.as_completed([after(3), after(1), after(2)])] == [1, 2, 3]
    done, pending = await asyncio.wait([asyncio.create_task(after(n)) for n in (1, 9)], timeout=5)
    assert [task.result() for task in done] == [1]
    assert len(pending) == 1


async def test_context_variables_follow_the_task(sim):
    variable = contextvars.ContextVar("variable", default="outside")
    seen: list[str] = []

    async def work() -> None:
        variable.set("inside")
        sim.loop.call_soon(lambda: seen.append(variable.get()))
        await asyncio.sleep(1)
        seen.append(variable.get())

    await asyncio.create_task(work())

    assert seen == ["inside", "inside"]
    assert variable.get() == "outside"


async def test_tasks_are_named_and_hashed_by_numbers_of_their_loop(sim):
    async def idle() -> None:
        await asyncio.sleep(1)

    tasks = [asyncio.create_task(idle()) for _ in range(3)]
    named = asyncio.create_task(idle(), name="named")

    assert [task.get_name() for task in tasks] == ["Task-1", "Task-2", "Task-3"]
    assert list({*tasks[::-1]}) == tasks
    assert sim.loop.tasks() == [asyncio.current_task(), *tasks, named]
    assert list(asyncio.all_tasks()) == sim.loop.tasks()
    await asyncio.wait(sim.loop.tasks()[1:])
    assert sim.loop.tasks() == [asyncio.current_task()]


async def test_futures_in_a_set_are_in_the_order_they_were_first_put_into_one(sim):
    futures = [sim.loop.create_future() for _ in range(8)]
    gathering = [asyncio.gather(future) for future in futures]

    assert list({*futures}) == futures
    assert list({*gathering}) == gathering
    for future in futures:
        future.set_result(None)
    await asyncio.gather(*gathering)


async def test_a_task_without_references_lives_on(sim):
    done: list[bool] = []

    async def work() -> None:
        await asyncio.sleep(1)
        done.append(True)

    sim.loop.call_soon(lambda: (asyncio.ensure_future(work()), None)[1])
    await asyncio.sleep(2)

    assert done == [True]


async def test_many_ended_tasks_are_let_go(sim):
    for _ in range(1000):
        await asyncio.create_task(asyncio.sleep(0))

    assert len(sim.loop._tasks) < 200


async def test_a_task_factory_is_honoured(sim):
    made: list[str] = []

    def factory(loop, work, **options):
        made.append(work.__qualname__)
        return asyncio.Task(work, loop=loop, **options)

    sim.loop.set_task_factory(factory)
    try:
        task = asyncio.create_task(asyncio.sleep(1), name="slow")
    finally:
        sim.loop.set_task_factory(None)

    assert sim.loop.tasks() == [asyncio.current_task(), task]
    await task
    assert made == ["sleep"]
    assert sim.loop.get_task_factory() is None


async def test_streams_reach_a_server_on_the_same_loop(sim):
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 8080):
        reader, writer = await asyncio.open_connection("127.0.0.1", 8080)
        writer.write(b"hello\n")
        assert await reader.read() == b"HELLO\n"
        writer.close()


def test_a_loop_runs_several_times_and_time_goes_on():
    loop = SimLoop()

    loop.run_until_complete(asyncio.sleep(1))
    loop.run_until_complete(asyncio.sleep(1))

    assert loop.time() == 2
    loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_soon(print)


def test_stop_lets_what_is_ready_run_and_keeps_the_rest():
    loop = SimLoop()
    ran: list[str] = []
    loop.call_soon(ran.append, "first")
    loop.call_soon(lambda: loop.call_soon(ran.append, "second"))
    loop.stop()

    loop.run_forever()
    assert ran == ["first"]
    loop.stop()
    loop.run_forever()
    assert ran == ["first", "second"]
    loop.close()


def test_the_standard_runner_takes_the_loop():
    with asyncio.Runner(loop_factory=SimLoop) as runner:

        async def main() -> float:
            await asyncio.sleep(3600)
            return asyncio.get_running_loop().time()

        assert runner.run(main()) == 3600


def test_async_generators_are_closed_in_the_order_they_began():
    closed: list[int] = []

    async def numbers(name: int) -> AsyncIterator[int]:
        try:
            while True:
                yield name
        finally:
            await asyncio.sleep(1)
            closed.append(name)

    kept = []

    async def main() -> None:
        for name in range(5):
            generator = numbers(name)
            kept.append(generator)
            await anext(generator)

    with Simulation() as sim:
        sim.run(main())

    assert closed == [0, 1, 2, 3, 4]


def test_an_async_generator_that_is_dropped_is_closed_by_the_loop(sim):
    closed: list[bool] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            await asyncio.sleep(1)
            closed.append(True)

    async def main() -> None:
        await anext(numbers())
        await asyncio.sleep(2)

    sim.run(main())

    assert closed == [True]


async def test_async_generators_that_came_to_their_end_are_forgotten(sim):
    async def numbers() -> AsyncIterator[int]:
        yield 1

    for _ in range(100):
        assert [number async for number in numbers()] == [1]

    assert sim.loop._generators._under_way == {}


def test_a_deadlock_is_found_at_once_and_names_who_waits_where():
    async def stuck() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        await asyncio.sleep(5)
        await asyncio.gather(asyncio.create_task(stuck(), name="left"), asyncio.create_task(stuck(), name="right"))

    with pytest.raises(Deadlock) as caught, Simulation() as sim:
        sim.run(main())

    lines = str(caught.value).splitlines()
    assert lines[0].startswith("at 5.0 s of virtual time")
    assert [line.split(":")[0].strip() for line in lines[1:]] == ["main", "left", "right"]
    assert "locks.py" in lines[2]
    assert "sim/test_loop.py" in lines[2]
    assert "stuck" in lines[2]


def test_a_loop_with_nothing_to_do_is_deadlocked():
    loop = SimLoop()

    with pytest.raises(Deadlock, match="There are no tasks"):
        loop.run_forever()

    loop.close()


def test_steps_without_end_while_time_stands_still_are_a_livelock():
    async def hot() -> None:
        while True:
            await asyncio.sleep(0)

    loop = SimLoop(steps_per_instant_max=10_000)

    with pytest.raises(Livelock, match="hot: 1024 times"):
        loop.run_until_complete(hot())

    task = loop.tasks()[0]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()


def test_a_callback_that_fails_stops_the_run(sim):
    after: list[str] = []

    async def main() -> None:
        sim.loop.call_later(1, int, "no number")
        sim.loop.call_later(1, after.append, "still running")
        await asyncio.sleep(60)

    with pytest.raises(Unhandled) as caught:
        sim.run(main())

    assert isinstance(caught.value.__cause__, ValueError)
    assert sim.loop.time() == 1
    assert after == []


def test_a_task_that_failed_and_was_dropped_fails_the_run(sim):
    async def fail() -> None:
        raise KeyError("lost")

    async def main() -> None:
        task = asyncio.create_task(fail())
        await asyncio.sleep(1)
        del task

    with pytest.raises(Unhandled) as caught:
        sim.run(main())

    assert isinstance(caught.value.__cause__, KeyError)


def test_a_failure_may_be_asked_for_in_a_later_run_but_not_never():
    async def fail() -> None:
        raise KeyError("kept")

    async def main() -> asyncio.Task[None]:
        task = asyncio.create_task(fail(), name="failing")
        await asyncio.sleep(1)
        return task

    async def ask(task: asyncio.Task[None]) -> None:
        with pytest.raises(KeyError):
            await task

    with Simulation() as sim:
        sim.run(ask(sim.run(main())))

    sim = Simulation()
    task = sim.run(main())
    with pytest.raises(Unhandled, match="'failing' failed, and its exception was never retrieved"):
        sim.close()
    assert task.done()


def test_a_program_with_a_handler_of_its_own_is_told_and_goes_on(sim):
    told: list[str] = []

    async def main() -> str:
        sim.loop.set_exception_handler(lambda loop, context: told.append(context["message"]))
        sim.loop.call_soon(int, "no number")
        await asyncio.sleep(1)
        return "done"

    assert sim.run(main()) == "done"
    assert told == ["Exception in callback int"]
    assert sim.loop.get_exception_handler() is not None


def test_a_handler_that_fails_itself_fails_the_run(sim):
    async def main() -> None:
        sim.loop.set_exception_handler(lambda loop, context: context["no such key"])
        sim.loop.call_soon(int, "no number")
        await asyncio.sleep(1)

    with pytest.raises(Unhandled, match="error in exception handler"):
        sim.run(main())


def test_a_run_after_one_that_failed_twice_at_once_is_not_disturbed(sim):
    def fail_twice() -> None:
        for name in ("first", "second"):
            sim.loop.call_exception_handler({"message": name, "exception": KeyError(name)})

    async def main() -> None:
        sim.loop.call_soon(fail_twice)
        await asyncio.sleep(1)

    with pytest.raises(Unhandled, match="first") as caught:
        sim.run(main())
    assert caught.value.__notes__[0] == "after that: second: KeyError('second')"

    sim.run(asyncio.sleep(5))


def test_a_failing_main_task_is_named_when_something_else_failed_first(sim):
    async def main() -> None:
        sim.loop.call_exception_handler({"message": "first", "exception": KeyError("first")})
        raise ValueError("second")

    with pytest.raises(Unhandled, match="first") as caught:
        sim.run(main())

    assert any("ValueError('second')" in note for note in caught.value.__notes__)


def test_an_interrupt_leaves_the_loop_at_once(sim):
    async def main() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sim.run(main())
    assert not sim.loop.is_running()


def test_every_method_of_an_asyncio_loop_is_answered():
    unanswered = [
        name
        for name, method in vars(asyncio.AbstractEventLoop).items()
        if callable(method) and not name.startswith("__") and getattr(SimLoop, name) is method
    ]

    assert unanswered == ["_timer_handle_cancelled"]  # Private, and only called by asyncio's own timers.
