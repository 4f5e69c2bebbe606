"""What foreign code does with sets of coroutines, and with all tasks there are."""

import asyncio
import os
import signal
import threading
from datetime import timedelta

import pytest

from mainstay.env import Env, tasks
from mainstay.sim.cluster.program_lifecycle import Program, ProgramStep
from mainstay.sim.errors import Unsimulated


async def test_a_set_of_coroutines_begins_in_the_order_of_what_they_are(sim):
    begun: list[int] = []

    async def work(number: int) -> int:
        begun.append(number)
        await asyncio.sleep(0)
        return number

    works = {work(number) for number in (5, 3, 1, 4, 2)}
    done = [await each for each in asyncio.as_completed(works)]

    assert begun == done == [1, 2, 3, 4, 5]


async def test_a_list_of_coroutines_begins_as_it_is_given(sim):
    begun: list[int] = []

    async def work(number: int) -> None:
        begun.append(number)

    for each in asyncio.as_completed([work(number) for number in (3, 1, 2)], timeout=5):
        await each

    assert begun == [3, 1, 2]


async def test_a_program_sees_its_own_tasks_and_no_others(sim):
    found: dict[str, list[str]] = {}

    async def main(env: Env) -> None:
        own = asyncio.current_task()
        assert own is not None
        helper = asyncio.create_task(asyncio.Event().wait(), name="helper")
        await asyncio.sleep(1)
        found[own.get_name()] = sorted(task.get_name() for task in asyncio.all_tasks())
        for task in asyncio.all_tasks() - {own}:
            task.cancel()
        await asyncio.wait([helper])

    programs = [Program(sim, name, main) for name in ("one", "two")]
    for program in programs:
        program.start()
    await tasks.sleep(timedelta(seconds=5))

    assert found == {"one/0": ["helper", "one/0"], "two/0": ["helper", "two/0"]}
    assert [program.ended for program in programs] == [ProgramStep.RETURNED] * 2


async def test_a_program_cannot_kill_the_process_that_simulates_it(sim):
    with pytest.raises(Unsimulated, match="the simulating process"):
        signal.pthread_kill(threading.get_ident(), signal.SIGKILL)
    with pytest.raises(Unsimulated, match="the simulating process"):
        os.kill(os.getpid(), signal.SIGTERM)
