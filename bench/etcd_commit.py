"""Commits and ranges through `EtcdStore`, against one real etcd on this machine.

Each of the writers owns a key and writes it again and again, with a check of its last revision: what a controller's
update comes down to. The CPU time is this process's alone; etcd's own comes on top, and the two share the machine, so
the rate depends on how many cores there are and on how fast the disk syncs.
"""

import asyncio
import statistics
from collections.abc import Iterable
from typing import Final

from bench.measure import Figure, Stopwatch, main
from mainstay.env import Chance, tasks
from mainstay.store.etcd import EtcdStore, open_etcd
from mainstay.store.interface import ABSENT, Check, Committed, Put
from tests.store.etcd_process import EtcdProcess

WRITERS: Final = 64
VALUE: Final = bytes(1024)
ENTRIES: Final = 10_000
ENTRY: Final = bytes(2048)
SEED: Final = b"bench/etcd_commit"


def measure(quick: bool) -> Iterable[Figure]:
    rounds = 2 if quick else 7
    with EtcdProcess() as etcd:
        yield from tasks.run(_measure(etcd.endpoint, rounds, commits_each=20 if quick else 200))


async def _measure(endpoint: str, rounds: int, commits_each: int) -> list[Figure]:
    store = await open_etcd([endpoint], "/bench/", chance=Chance(SEED))
    try:
        await _write_all(store, "warm-up", commits_each=10)
        return [
            await _commits(store, rounds, commits_each),
            await _ranges(store, rounds),
        ]
    finally:
        await store.close()


async def _commits(store: EtcdStore, rounds: int, commits_each: int) -> Figure:
    figures = []
    for number in range(rounds):
        with Stopwatch() as watch:
            await _write_all(store, f"round-{number}", commits_each)
        figures.append(watch.rate("", WRITERS * commits_each))
    return Figure(
        f"etcd: commit, {WRITERS} writers, 1 KB",
        statistics.median(figure.value for figure in figures),
        "/s",
        statistics.median(figure.cpu_us or 0.0 for figure in figures),
        goal="≥ 3000",
    )


async def _write_all(store: EtcdStore, name: str, commits_each: int) -> None:
    await asyncio.gather(*(_write(store, f"{name}/{writer}", commits_each) for writer in range(WRITERS)))


async def _write(store: EtcdStore, key: str, commits: int) -> None:
    revision = ABSENT
    for _ in range(commits):
        answer = await store.commit([Check(key, revision)], [Put(key, VALUE)])
        if not isinstance(answer, Committed):
            raise AssertionError(f"{key} has one writer, yet a check failed: {answer}")
        revision = answer.revision


async def _ranges(store: EtcdStore, rounds: int) -> Figure:
    for first in range(0, ENTRIES, 100):
        await store.commit([], [Put(f"range/{number:05}", ENTRY) for number in range(first, first + 100)])
    times_ms, cpu_us = [], []
    for _ in range(rounds):
        with Stopwatch() as watch:
            page = await store.range("range/")
        if len(page.entries) != ENTRIES:
            raise AssertionError(f"{len(page.entries)} entries instead of {ENTRIES}")
        times_ms.append(watch.wall_s * 1000)
        cpu_us.append(watch.cpu_s * 1e6 / ENTRIES)
    return Figure(f"etcd: range of {ENTRIES:,} × 2 KB", statistics.median(times_ms), "ms", statistics.median(cpu_us))


if __name__ == "__main__":
    main(measure)
