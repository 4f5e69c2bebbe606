"""A program that uses everything a run could get wrong, for tests/sim/test_determinism.py.

    python -m tests.sim.program SEED [leak]

prints the recording of its run as JSON. With `leak` it does the one thing that no simulator can cure: it lets the order
of a set of strings decide what happens.
"""

import asyncio
import random
import sys
import time
import uuid
from collections.abc import Coroutine
from datetime import datetime
from typing import Any

import msgspec

from mainstay.sim.loop.trace import Recording
from mainstay.sim.simulation import Simulation

WORKERS = 20


async def worker(sim: Simulation, number: int) -> float:
    env = sim.env(f"worker-{number}")
    jitter = env.chance.stream("jitter")
    for turn in range(20):
        await asyncio.sleep(jitter.random() + random.random())
        sim.trace.note("turn", number, env.chance.uid("turn", turn), str(uuid.uuid4()), datetime.now().isoformat())
        if sim.choices.occurs("blocks", 0.3):
            await asyncio.to_thread(time.sleep, random.random() / 10)
    return time.monotonic()


async def first_done_of_sets(sim: Simulation) -> None:
    """Wait on sets of tasks and futures, again and again, and act in the order in which they come out."""
    pending: set[asyncio.Future[Any]] = {asyncio.ensure_future(worker(sim, number)) for number in range(WORKERS)}
    pending |= {asyncio.gather(asyncio.sleep(number, number)) for number in range(WORKERS)}
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        for future in done:
            sim.trace.note("done", str(future.result()))
    for task in asyncio.all_tasks():
        sim.trace.note("still there", task.get_name())


async def talk(sim: Simulation) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(16))
        writer.close()

    async with await asyncio.start_server(answer, "localhost", 80):
        for _ in range(10):
            reader, writer = await asyncio.open_connection("localhost", 80)
            writer.write(uuid.uuid4().bytes)
            sim.trace.note("heard", await reader.read())
            writer.close()
            await asyncio.sleep(random.expovariate(1))


async def leak(sim: Simulation) -> None:
    await asyncio.sleep(1)
    for name in {"alpha", "beta", "gamma", "delta", "epsilon", "zeta"}:
        sim.trace.note("leaked", name)


async def main(sim: Simulation, *others: Coroutine[Any, Any, None]) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(first_done_of_sets(sim))
        group.create_task(talk(sim))
        for other in others:
            group.create_task(other)


def record(seed: int, *, leaking: bool = False) -> Recording:
    with Simulation(seed, keep_trace=True) as sim:
        sim.run(main(sim, *([leak(sim)] if leaking else [])))
        return sim.trace.recording()


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(record(int(sys.argv[1]), leaking="leak" in sys.argv[2:])))
