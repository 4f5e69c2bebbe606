"""What does a request cost the API server?

A real server as it is by default: TLS, durable store, its own certificates. The client has a certificate, as
administrators do, and 32 connections, each asking again as soon as it is answered. CPU time is the server's, all its
threads together, and the goals are for that, because the client takes its part of the same machine: its own CPU time is
shown too. Nothing is random, so there is no seed; bench/_api_load.py has what is sent.
"""

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from bench._api_server import Cost, Load, Setting
from bench.measure import Figure, main

CONNECTIONS: Final = 32
PODS: Final = 10_000
WARM_UP: Final = 2 * CONNECTIONS


def measure(quick: bool) -> Iterable[Figure]:
    pods, rounds = (1_600, 2) if quick else (PODS, 5)
    parts = _parts(range(WARM_UP, pods), rounds)
    with Setting(CONNECTIONS) as (_, load):
        for job in ("create", "get", "status", "status again", "lease"):
            load.run(job, 0, WARM_UP)  # What is made when it is first needed is not what is asked here.
        yield from _request(load, "create", parts, "create Pod, 2 KB", "≤ 300", "≥ 2500")
        yield from _request(load, "get", parts, "GET Pod", "≤ 80", "≥ 8000")
        yield from _lists(load, rounds, pods)
        yield from _request(load, "status", parts, "PATCH Pod status, it begins to run", "≤ 400")
        yield from _request(load, "status again", parts, "PATCH Pod status, a container was started again", "≤ 400")
        yield from _request(load, "lease", parts, "PUT Lease, renewal", "≤ 120")


def _parts(numbers: range, count: int) -> list[range]:
    each = -(-len(numbers) // count)
    return [numbers[start : start + each] for start in range(0, len(numbers), each)]


def _request(
    load: Load, job: str, parts: Sequence[range], name: str, cpu_goal: str, rate_goal: str = ""
) -> Iterable[Figure]:
    costs = [load.run(job, part[0], len(part)) for part in parts]
    cpu_us = _median(costs, lambda cost: cost.server_s / cost.operations * 1e6)
    yield Figure(f"api: {name}", cpu_us, "CPU µs", cpu_us, cpu_goal)
    rate = _median(costs, lambda cost: cost.operations / cost.wall_s)
    yield Figure(f"api: {name}: rate, client on the same machine", rate, "/s", cpu_us, rate_goal)
    load_us = _median(costs, lambda cost: cost.load_s / cost.operations * 1e6)
    yield Figure(f"api: {name}: of the load generator", load_us, "CPU µs", load_us)


def _lists(load: Load, rounds: int, pods: int) -> Iterable[Figure]:
    times = 4 if pods < PODS else 10
    for name, job, goal in (("{:.0f} MB", "list", "≤ 40"), ("with gzip", "gzip list", "")):
        costs = [load.run(job, 0, times) for _ in range(rounds)]
        megabytes = costs[0].answer_bytes / 1e6
        cpu_ms = _median(costs, lambda cost: cost.server_s / cost.operations * 1e3)
        # The goal is for all of them, and says nothing of fewer.
        goal = goal if pods == PODS else ""
        yield Figure(f"api: LIST {pods} pods, {name.format(megabytes)}", cpu_ms, "CPU ms", cpu_ms * 1e3, goal)


def _median(costs: Sequence[Cost], of: Callable[[Cost], float]) -> float:
    return statistics.median(of(cost) for cost in costs)


if __name__ == "__main__":
    main(measure)
