"""How long does it take to read 10,000 entries of 2 KB in one range, now and as of an old revision?"""

import statistics
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from bench.measure import Figure, Stopwatch, main
from mainstay.env import tasks
from mainstay.store import open_memory, open_sqlite
from mainstay.store.interface import Put, Store

ENTRIES: Final = 10_000
GOAL: Final = "≤ 15"


def measure(quick: bool) -> Iterable[Figure]:
    return tasks.run(_measure(5 if quick else 31))


async def _measure(rounds: int) -> list[Figure]:
    figures = await _ranges("memory", await open_memory(), rounds)
    with tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as directory:
        figures += await _ranges("sqlite", await open_sqlite(Path(directory)), rounds)
    return figures


async def _ranges(kind: str, store: Store, rounds: int) -> list[Figure]:
    for version in range(2):
        for first in range(0, ENTRIES, 100):
            value = bytes([version]) * 2048
            await store.commit([], [Put(f"pods/{number:05}", value) for number in range(first, first + 100)])
    latest = await store.revision()
    figures = [
        await _range(f"{kind} store: range of 10,000 × 2 KB", store, None, rounds),
        await _range(f"{kind} store: the same, as of an old revision", store, latest - 50, rounds),
    ]
    await store.close()
    return figures


async def _range(name: str, store: Store, at: int | None, rounds: int) -> Figure:
    walls, cpus = [], []
    for _ in range(rounds):
        with Stopwatch() as watch:
            page = await store.range("pods/", at=at)
        if len(page.entries) != ENTRIES:
            raise AssertionError(f"{len(page.entries)} entries instead of {ENTRIES}")
        walls.append(watch.wall_s * 1000)
        cpus.append(watch.cpu_s * 1e6)
    return Figure(name, statistics.median(walls), "ms", statistics.median(cpus), GOAL)


if __name__ == "__main__":
    main(measure)
