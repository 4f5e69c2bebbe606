"""What does it cost the API server to tell 500 watchers of one event?

A pod's status is written, and when all watchers have been told, the next one. The figure is the server's CPU time for
all of that, writes included, divided by the number of deliveries. Nothing is random, so there is no seed. Without TLS
the client has a token instead of a certificate; all else is as by default.
"""

import statistics
from collections.abc import Iterable, Sequence
from typing import Final

from bench._api_server import Setting
from bench.measure import Figure, main

WATCHERS: Final = 500


def measure(quick: bool) -> Iterable[Figure]:
    events, rounds = (20, 2) if quick else (100, 7)
    yield from _deliveries("plain", ["--insecure"], events, rounds, "≤ 12")
    yield from _deliveries("TLS", [], events, rounds, "≤ 25")


def _deliveries(name: str, options: Sequence[str], events: int, rounds: int, goal: str) -> Iterable[Figure]:
    with Setting(1, options) as (_, load):
        load.run("create", 0, 1)
        load.run("watchers", 0, WATCHERS)
        load.run("events", 0, 5)
        costs = [load.run("events", 5 + number * events, events) for number in range(rounds)]
    cpu_us = statistics.median(cost.server_s / cost.operations for cost in costs) * 1e6
    yield Figure(f"api: event to {WATCHERS} watchers, {name}, each", cpu_us, "CPU µs", cpu_us, goal)
    rate = statistics.median(cost.operations / cost.wall_s for cost in costs)
    yield Figure(
        f"api: event to {WATCHERS} watchers, {name}: deliveries, client on the same machine", rate, "/s", cpu_us
    )
    load_us = statistics.median(cost.load_s / cost.operations for cost in costs) * 1e6
    yield Figure(f"api: event to {WATCHERS} watchers, {name}: of the load generator", load_us, "CPU µs", load_us)


if __name__ == "__main__":
    main(measure)
