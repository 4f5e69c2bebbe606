"""How soon is the API server ready, and how much memory does it need?

First in an empty directory, where it also makes its certificates; then with 10,000 pods of 2 KB that were created
through it. Time is from the start of the process to its word that it is ready. Memory is what is resident, after the
pods were created and after a start with them. Nothing is random, so there is no seed.
"""

import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench._api_server import ApiServer, Load
from bench.measure import Figure, main

CONNECTIONS: Final = 32
PODS: Final = 10_000


def measure(quick: bool) -> Iterable[Figure]:
    pods, rounds = (1_000, 2) if quick else (PODS, 7)
    starts = [_empty_start() for _ in range(rounds)]
    yield _start("api: start to ready, empty", starts, "≤ 0.7")
    yield _memory("api: memory, empty", starts, "")
    # The goals are for all of the pods, and say nothing of fewer.
    start_goal, memory_goal = ("≤ 1.5", "≤ 150") if pods == PODS else ("", "")
    with TemporaryDirectory(prefix="bench-api-") as directory:
        with ApiServer(Path(directory)) as server, Load(server, CONNECTIONS) as load:
            load.run("create", 0, pods)
            created = server.memory_mb()
        yield Figure(f"api: memory, {pods} pods just created", created, "MB", goal=memory_goal)
        starts = [_one_start(Path(directory)) for _ in range(rounds)]
    yield _start(f"api: start to ready, {pods} pods", starts, start_goal)
    yield _memory(f"api: memory, started with {pods} pods", starts, memory_goal)


def _empty_start() -> "_Start":
    with TemporaryDirectory(prefix="bench-api-") as directory:
        return _one_start(Path(directory))


class _Start:
    """What one start took."""

    def __init__(self, server: ApiServer) -> None:
        self.wall_s = server.ready_s
        self.cpu_s = server.cpu_s()
        self.memory_mb = server.memory_mb()


def _one_start(directory: Path) -> _Start:
    with ApiServer(directory) as server:
        return _Start(server)


def _start(name: str, starts: list[_Start], goal: str) -> Figure:
    cpu_us = _median(starts, lambda start: start.cpu_s) * 1e6
    return Figure(name, _median(starts, lambda start: start.wall_s), "s", cpu_us, goal)


def _memory(name: str, starts: list[_Start], goal: str) -> Figure:
    return Figure(name, _median(starts, lambda start: start.memory_mb), "MB", goal=goal)


def _median(starts: list[_Start], of: Callable[[_Start], float]) -> float:
    return statistics.median(of(start) for start in starts)


if __name__ == "__main__":
    main(measure)
