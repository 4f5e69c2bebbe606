"""Run the scenarios with many seeds, on all cores: `make sim-long`. The tests themselves run a few of them each time.

    python -m tests.search [--seeds N] [--from SEED] [SCENARIO …]

Those called compact-… are not run with many seeds: a crash is tried before and after each write of the controllers.

Tells how far it is, and for each seed that broke a promise, which one and how to run it again. Exits with 1 then.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Final

from mainstay.env.processes import cores
from mainstay.sim import scenarios
from mainstay.sim.forks import run_many
from mainstay.sim.scenarios._compact import COMPACT, CRASHES, HEARTBEATS, WHO
from mainstay.sim.sweep import sweep
from tests.client import cache_faults
from tests.server import binding_races
from tests.store import power_cut
from tests.store.test_etcd_store import EVERYTHING, run_with_faults

SCENARIOS: Final[dict[str, Callable[[int], object]]] = {
    "power-cut": power_cut.run,
    "etcd-faults": partial(run_with_faults, faults=EVERYTHING),
    "cache": cache_faults.run,
    "binding-races": partial(binding_races.run, backend="memory"),
    "binding-races-etcd": partial(binding_races.run, backend="fake-etcd"),
}
NAMES: Final = (*SCENARIOS, *scenarios.SCENARIOS, *COMPACT)
"""Also those of clusters, which `mainstay sim run` knows too, and those in which a crash is tried at each write."""


def run(scenario: str, seed: int) -> str | None:
    """What went wrong with this seed, or None."""
    try:
        SCENARIOS[scenario](seed)
    except Exception as error:  # noqa: BLE001 - reported, and the other seeds go on
        return f"{type(error).__name__}: {error}"
    return None


def problems(scenario: str, seeds: range) -> Iterator[str | None]:
    """For each seed what went wrong with it, or None."""
    if scenario in scenarios.SCENARIOS:
        for result in run_many(scenarios.SCENARIOS[scenario], seeds, jobs=cores()):
            yield None if result.is_passed else f"{result.verdict}: {result.problem}"
    else:
        with ProcessPoolExecutor() as pool:
            yield from pool.map(partial(run, scenario), seeds, chunksize=10)


def crash_everywhere(scenario: str) -> int:
    """How many points are bad."""
    found = sweep(COMPACT[scenario], jobs=cores(), faults=CRASHES, programs=WHO, without=HEARTBEATS)
    print(found, flush=True)
    return len(found.bad)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.search", description="Run scenarios with many seeds.")
    parser.add_argument("scenario", nargs="*", help=f"of: {', '.join(NAMES)} (all)")
    parser.add_argument("--seeds", type=int, default=2000, help="how many for each (2000)")
    parser.add_argument("--from", type=int, default=1000, dest="first", help="the first seed (1000)")
    options = parser.parse_args()
    if unknown := [name for name in options.scenario if name not in NAMES]:
        parser.error(f"no scenario is called {unknown[0]!r}; there are: {', '.join(NAMES)}")
    broken = 0
    for scenario in options.scenario or NAMES:
        if scenario in COMPACT:
            broken += crash_everywhere(scenario)
            continue
        started = time.monotonic()
        seeds = range(options.first, options.first + options.seeds)
        for seed, problem in zip(seeds, problems(scenario, seeds), strict=True):
            if problem is not None:
                broken += 1
                print(f"{scenario}: seed {seed}: {problem}")
                print(f"    again: python -m tests.search {scenario} --from {seed} --seeds 1", flush=True)
            elif (seed - options.first + 1) % 500 == 0:
                rate = (seed - options.first + 1) / (time.monotonic() - started)
                print(f"{scenario}: {seed - options.first + 1} seeds, {rate:.0f} a second", flush=True)
    print(f"{broken} seeds broke a promise" if broken else "no promise was broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
