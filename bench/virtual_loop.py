"""How many timer wake-ups the simulated loop does in a second of CPU time, with tape and trace on, and what a run
costs.

A wake-up is one task that waits in `asyncio.sleep`, wakes and waits again: a timer, a future and a step of the task. A
thousand tasks do so, for durations that all differ. In the second figure each duration is a choice of its own, as it is
when the network is simulated; in the third, tasks are spawned and awaited.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from bench.measure import Figure, Stopwatch, main, rounds
from mainstay.sim.simulation import Simulation

TASKS = 1000
Program = Callable[[Simulation, int], Coroutine[Any, Any, None]]


async def wake_up(sim: Simulation, times: int) -> None:
    async def worker(number: int) -> None:
        for turn in range(times // TASKS):
            await asyncio.sleep(0.001 * (1 + (number * 7919 + turn * 31) % 997))

    async with asyncio.TaskGroup() as group:
        for number in range(TASKS):
            group.create_task(worker(number))


async def wake_up_by_choice(sim: Simulation, times: int) -> None:
    async def worker(label: str) -> None:
        for _ in range(times // TASKS):
            await asyncio.sleep(0.001 * sim.choices.choose(label, 1000))

    async with asyncio.TaskGroup() as group:
        for number in range(TASKS):
            group.create_task(worker(f"delay/{number}"))


async def spawn(sim: Simulation, times: int) -> None:
    async def nothing() -> None: ...

    for _ in range(times // TASKS):
        await asyncio.gather(*(nothing() for _ in range(TASKS)))


async def nothing(sim: Simulation, times: int) -> None: ...


def measure(quick: bool) -> Iterable[Figure]:
    times = 20_000 if quick else 200_000
    count = 3 if quick else 7
    yield _rate("simulated loop: wake-ups", wake_up, times, count, "≥ 110000")
    yield _rate("simulated loop: wake-ups, each after a choice", wake_up_by_choice, times, count, "≥ 80000")
    yield _rate("simulated loop: tasks spawned and awaited", spawn, times, count)
    runs = 20 if quick else 200
    cpu_s = rounds(lambda: sum(_cpu_s(nothing, 1) for _ in range(runs)) / runs, count).median
    yield Figure("simulated loop: a run that does nothing", cpu_s * 1e6, "µs of CPU", cpu_s * 1e6, "≤ 2000")


def _rate(name: str, program: Program, times: int, count: int, goal: str = "") -> Figure:
    cpu_s = rounds(lambda: _cpu_s(program, times), count).median
    return Figure(name, times / cpu_s, "/s of CPU", cpu_s / times * 1e6, goal)


def _cpu_s(program: Program, times: int) -> float:
    """The CPU time of one whole run, with making the simulation and closing it."""
    watch = Stopwatch()
    with watch, Simulation(seed=1) as sim:
        sim.run(program(sim, times))
    return watch.cpu_s


if __name__ == "__main__":
    main(measure)
