"""Run the scenarios with many seeds, on all cores: `make sim-long`. The tests themselves run a few of them each time.

    python -m tests.search [--seeds N] [--from SEED] [SCENARIO …]       N seeds of each
    python -m tests.search --all --seeds 20000 --log search.jsonl       N seeds, shared out among all clusters
    python -m tests.search --equal                                      each cluster in processes with other hash seeds

Those called compact-… are not run with many seeds: a crash is tried before and after each write of the controllers.

With `--log`, what is done is written there, and a search that was stopped, or whose `--minutes` are over, goes on where
it was. Seeds are run in pieces, one scenario after the other, so that a search that is cut short has looked at all of
them. Faults are chosen in all ways that there are (`--strategy mixed`), and one run of twenty is made a second time in
another process, where it must be the same.

Tells how far it is, and for each seed that broke a promise, which one and how to run it again. Exits with 1 then.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Final

from mainstay import scenarios
from mainstay.env.processes import cores
from mainstay.sim.run.determinism_guard import ONE_IN, DeterminismGuard
from mainstay.sim.run.forks import run_many
from mainstay.sim.run.repeat_process import RepeatProcess, RunRequest
from mainstay.sim.run.run import RunResult
from mainstay.sim.run.sweep import sweep
from mainstay.sim.strategies.table import STRATEGIES
from tests.client import cache_faults
from tests.search_log import Done, SearchLog
from tests.server.placement import binding_races
from tests.sim.compact_scenarios import COMPACT, CRASHES, HEARTBEATS, WHO
from tests.store import power_cut
from tests.store.test_etcd_store_faults import EVERYTHING, run_with_faults

SCENARIOS: Final[dict[str, Callable[[int], object]]] = {
    "power-cut": power_cut.run,
    "etcd-faults": partial(run_with_faults, faults=EVERYTHING),
    "cache": cache_faults.run,
    "binding-races": partial(binding_races.run, backend="memory"),
    "binding-races-etcd": partial(binding_races.run, backend="fake-etcd"),
}
NAMES: Final = (*SCENARIOS, *scenarios.SCENARIOS, *COMPACT)
"""Also those of clusters, which `mainstay sim run` knows too, and those in which a crash is tried at each write."""

PIECE: Final = 25
"""Of a scenario of a cluster, so many seeds are run before the next one has its turn."""
HASH_SEEDS: Final = (1, 424242)
_SAY_EVERY_S: Final = 20


def run(scenario: str, seed: int) -> str | None:
    """What went wrong with this seed, or None."""
    try:
        SCENARIOS[scenario](seed)
    except Exception as error:  # noqa: BLE001 - reported, and the other seeds go on
        return f"{type(error).__name__}: {error}"
    return None


def problems(scenario: str, seeds: range) -> Iterator[str | None]:
    """For each seed what went wrong with it, or None. Not of clusters."""
    with ProcessPoolExecutor() as pool:
        yield from pool.map(partial(run, scenario), seeds, chunksize=10)


def search_one(scenario: str, seeds: range) -> int:
    """How many seeds are bad. Not of clusters."""
    started = time.monotonic()
    broken = 0
    for number, (seed, problem) in enumerate(zip(seeds, problems(scenario, seeds), strict=True), 1):
        if problem is not None:
            broken += 1
            print(f"{scenario}: seed {seed}: {problem}")
            print(f"    again: python -m tests.search {scenario} --from {seed} --seeds 1", flush=True)
        elif number % 500 == 0:
            print(f"{scenario}: {number} seeds, {number / (time.monotonic() - started):.0f} a second", flush=True)
    return broken


def crash_everywhere(scenario: str) -> int:
    """How many points are bad."""
    found = sweep(COMPACT[scenario], jobs=cores(), faults=CRASHES, programs=WHO, without=HEARTBEATS)
    print(found, flush=True)
    return len(found.bad)


# Clusters


def pieces(
    names: Sequence[str], wanted: dict[str, range], log: SearchLog, strategy: str
) -> Iterator[tuple[str, range]]:
    """What is still to be done, in turns."""
    left = {name: _runs_of(sorted({*wanted[name]} - log.seeds_done(name, strategy))) for name in names}
    while any(left.values()):
        for name in names:
            if left[name]:
                yield name, left[name].pop(0)


def _runs_of(seeds: Sequence[int]) -> list[range]:
    """The same seeds, in rows without a gap and of no more than a piece."""
    rows: list[range] = []
    for _, group in groupby(enumerate(seeds), key=lambda pair: pair[1] - pair[0]):
        row = [seed for _, seed in group]
        rows += [range(first, min(first + PIECE, row[-1] + 1)) for first in range(row[0], row[-1] + 1, PIECE)]
    return rows


def shared_out(names: Sequence[str], first: int, total: int) -> dict[str, range]:
    """So many seeds in all, as evenly as can be."""
    each, more = divmod(total, len(names))
    return {name: range(first, first + each + (place < more)) for place, name in enumerate(names)}


def search_clusters(
    wanted: dict[str, range],
    log: SearchLog,
    *,
    strategy: str,
    guard: DeterminismGuard,
    jobs: int,
    minutes: float | None,
) -> int:
    """How many seeds are bad, those in the log included."""
    names = list(wanted)
    total = sum(map(len, wanted.values()))
    before = sum(len(log.seeds_done(name, strategy) & {*wanted[name]}) for name in names)
    if before:
        print(f"{before} of {total} runs were made before, {len(log.bad)} of them bad", flush=True)
    started = said = time.monotonic()
    made = 0
    for name, seeds in pieces(names, wanted, log, strategy):
        if minutes is not None and time.monotonic() - started > minutes * 60:
            print(f"stopped after {minutes:g} minutes: {total - before - made} runs are left", flush=True)
            break
        done = _piece(name, seeds, strategy, guard, jobs)
        log.add(done)
        made += done.count
        for seed, problem in done.bad.items():
            print(f"{name}: seed {seed}: {problem}")
            print(f"    again: mainstay sim run {name} --strategy {strategy} --seeds 1 --first-seed {seed}", flush=True)
        now = time.monotonic()
        if now - said > _SAY_EVERY_S:
            said = now
            rate = made / (now - started) * 60
            left_min = (total - before - made) / rate
            print(
                f"{before + made} of {total} runs, {len(log.bad)} bad, {rate:.0f} a minute, {left_min:.0f} min to go"
                f" ({name})",
                flush=True,
            )
    took = time.monotonic() - started
    print(f"{made} runs in {took:.0f} s; {guard.checked} of them made twice; {log.runs} in the log", flush=True)
    return len(log.bad)


def _piece(name: str, seeds: range, strategy: str, guard: DeterminismGuard, jobs: int) -> Done:
    started = time.monotonic()
    results: list[RunResult] = list(
        run_many(scenarios.SCENARIOS[name], seeds, jobs=jobs, strategy=STRATEGIES[strategy])
    )
    before = guard.checked
    results += guard.check(name, results, strategy=strategy, jobs=jobs)
    bad = {result.seed: f"{result.verdict}: {result.problem}" for result in results if not result.is_passed}
    took = round(time.monotonic() - started, 2)
    return Done(name, seeds[0], len(seeds), strategy, took, guard.checked - before, bad)


def are_equal(names: Sequence[str], seed: int, strategy: str) -> int:
    """How many scenarios are not the same run in processes with different hash seeds."""
    different = 0
    with RepeatProcess(HASH_SEEDS[0]) as one, RepeatProcess(HASH_SEEDS[1]) as other:
        for name in names:
            wanted = RunRequest(name, [seed], strategy=strategy)
            digests = [made.digest for process in (one, other) for made in process.make(wanted)]
            is_equal = all(digests) and len({*digests}) == 1  # One that is lost has none.
            different += not is_equal
            print(f"{name}: {'equal' if is_equal else 'DIFFERENT'} {' '.join(dict.fromkeys(digests))}", flush=True)
    print(f"{len(names)} scenarios with hash seeds {HASH_SEEDS[0]} and {HASH_SEEDS[1]}: {different} different")
    return different


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.search", description="Run scenarios with many seeds.")
    parser.add_argument("scenario", nargs="*", help=f"of: {', '.join(NAMES)} (all)")
    parser.add_argument("--seeds", type=int, default=2000, help="how many for each; with --all, in all (2000)")
    parser.add_argument("--from", type=int, default=1000, dest="first", help="the first seed (1000)")
    parser.add_argument("--all", action="store_true", help="share the seeds out among all scenarios of clusters")
    parser.add_argument("--equal", action="store_true", help="only see that the first seed is the same run everywhere")
    parser.add_argument("--log", type=Path, help="write there what is done, and go on where the last search stopped")
    parser.add_argument("--any-build", action="store_true", help="what other builds have done counts as well")
    parser.add_argument("--minutes", type=float, help="stop after so long, between two pieces")
    parser.add_argument("--strategy", default="mixed", choices=STRATEGIES, help="how faults are chosen (mixed)")
    parser.add_argument("--jobs", type=int, default=cores(), help="how many runs at once (one for each core)")
    parser.add_argument("--check", type=int, default=ONE_IN, help=f"of so many runs make one twice; 0: none ({ONE_IN})")
    options = parser.parse_args()
    if unknown := [name for name in options.scenario if name not in NAMES]:
        parser.error(f"no scenario is called {unknown[0]!r}; there are: {', '.join(NAMES)}")
    chosen = options.scenario or (scenarios.SCENARIOS if options.all or options.equal else NAMES)
    clusters = [name for name in chosen if name in scenarios.SCENARIOS]
    if options.equal:
        return 1 if are_equal(clusters, options.first, options.strategy) else 0
    seeds = range(options.first, options.first + options.seeds)
    broken = 0
    for name in chosen:
        if name in SCENARIOS:
            broken += search_one(name, seeds)
    if clusters:
        wanted = shared_out(clusters, options.first, options.seeds) if options.all else dict.fromkeys(clusters, seeds)
        log = SearchLog(options.log, any_build=options.any_build)
        with DeterminismGuard(options.check) as guard:
            broken += search_clusters(
                wanted, log, strategy=options.strategy, guard=guard, jobs=options.jobs, minutes=options.minutes
            )
    for name in chosen:
        if name in COMPACT:
            broken += crash_everywhere(name)
    print(f"{broken} seeds broke a promise" if broken else "no promise was broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
