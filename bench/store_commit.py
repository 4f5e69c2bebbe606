"""How many durable commits a second does the embedded store take: from many writers at once, and from one alone?

Each commit checks that its key is absent and puts a value of 2 KB; it counts once it has been synced to the disk of the
current directory. The memory store beside it shows what the pipeline costs without a disk.
"""

import asyncio
import statistics
import tempfile
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Final

from bench.measure import Figure, Stopwatch, main
from mainstay.env import tasks
from mainstay.store import open_memory, open_sqlite
from mainstay.store.interface import ABSENT, Check, Committed, Put, Store

VALUE: Final = bytes(2048)
MANY: Final = 32


def measure(quick: bool) -> Iterable[Figure]:
    rounds = 3 if quick else 7
    many, one = (300, 500) if quick else (1000, 3000)
    yield _figure("memory store: commit, 32 writers, 2 KB", _in_memory, MANY, many, rounds)
    yield _figure("sqlite store: durable commit, 32 writers, 2 KB", _on_sqlite, MANY, many, rounds, "≥ 15000")
    yield _figure("sqlite store: durable commit, one writer, 2 KB", _on_sqlite, 1, one, rounds, "≥ 1000")


def _figure(
    name: str,
    run: Callable[[int, int], Awaitable[Stopwatch]],
    writers: int,
    commits_each: int,
    rounds: int,
    goal: str = "",
) -> Figure:
    async def one_round() -> Stopwatch:
        return await run(writers, commits_each)

    figures = [tasks.run(one_round()).rate(name, writers * commits_each) for _ in range(rounds)]
    return Figure(
        name,
        statistics.median(figure.value for figure in figures),
        "/s",
        statistics.median(figure.cpu_us or 0.0 for figure in figures),
        goal,
    )


async def _in_memory(writers: int, commits_each: int) -> Stopwatch:
    return await _write_all(await open_memory(), writers, commits_each)


async def _on_sqlite(writers: int, commits_each: int) -> Stopwatch:
    # Here and not in the system's directory for temporary files, which may be memory.
    with tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as directory:
        return await _write_all(await open_sqlite(Path(directory)), writers, commits_each)


async def _write_all(store: Store, writers: int, commits_each: int) -> Stopwatch:
    with Stopwatch() as watch:
        await asyncio.gather(*(_write(store, writer, commits_each) for writer in range(writers)))
    await store.close()
    return watch


async def _write(store: Store, writer: int, commits: int) -> None:
    for number in range(commits):
        key = f"pods/{writer}-{number}"
        answer = await store.commit([Check(key, ABSENT)], [Put(key, VALUE)])
        if not isinstance(answer, Committed):
            raise AssertionError(f"{key} has one writer, yet a check failed: {answer}")


if __name__ == "__main__":
    main(measure)
