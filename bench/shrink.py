"""How small a failing run becomes, and how long that takes.

    python -m bench.shrink                      each eighth of the planted bugs
    python -m bench.shrink --one-in 1           all of them
    python -m bench.shrink ghost-node releases  those whose scenario or function has this in its name
    python -m bench.shrink --one-in 4 --for 60

For each twin of tests/sim/test_scenarios.py the first failing run is looked for, with random faults from seed 1, and
made small (sim/failure/shrinker.py). What is counted are *choices left*: all entries of the tape of the small run. It
has every choice of the run that was not benign, of faults and of work alike: that a fault happens is one, and each of
who, for how long and so on that is not the mildest is one more. Seconds are those of shrinking alone; the time that
processors have worked for it is told besides, because others may be busy on the machine.
"""

import contextlib
import resource
import statistics
import sys
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import pytest

from bench._planted import chosen, parser_of, tell
from bench.measure import Figure, load_now
from mainstay.scenarios import SCENARIOS
from mainstay.sim.failure.shrinker import shrink
from mainstay.sim.run.bundle import RunBundle
from mainstay.sim.run.forks import run_many
from mainstay.sim.run.run import RunResult
from tests.sim.test_scenarios import SEEDS_MAX, Twin

ONE_IN: Final = 8  # All of them take the better part of an hour.
QUICK_ONE_IN: Final = 50
QUICK_S: Final = 4


@dataclass(frozen=True)
class Small:
    name: str
    before: int
    after: int
    faults: int
    """So many of what is left are faults; the rest is work."""
    runs: int
    seconds: float
    cpu_s: float
    is_done: bool

    def __str__(self) -> str:
        rest = "" if self.is_done else "  (no time for more)"
        left = f"{self.before:4} → {self.after:3} choices, {self.faults} faults"
        return f"{self.name:76} {left} {self.runs:4} runs {self.seconds:6.1f} s {self.cpu_s:6.1f} s CPU{rest}"


def shrunk(scenario: str, twin: Twin, within: timedelta, jobs: int) -> Small | None:
    """None: no run that fails was found."""
    patch = twin.__module__ + ":" + twin.__name__
    with contextlib.closing(_failing(scenario, twin, jobs)) as failing:  # Otherwise the search would go on meanwhile.
        found = next(failing, None)
    if found is None:
        return None
    began, cpu = time.monotonic(), _cpu_s()
    small = shrink(RunBundle.of(found, scenario=scenario, planted=patch), jobs=jobs, within=within)
    return Small(
        f"{scenario} {twin.__name__} {found.seed}",
        small.before,
        small.after,
        sum(1 for unit in small.units if unit.is_strike),
        small.runs,
        time.monotonic() - began,
        _cpu_s() - cpu,
        small.is_done,
    )


def _failing(scenario: str, twin: Twin, jobs: int) -> Generator[RunResult, None, None]:
    seeds = range(1, SEEDS_MAX + 1)
    for result in run_many(SCENARIOS[scenario], seeds, jobs=jobs, patch=lambda: twin(pytest.MonkeyPatch())):
        if not result.is_passed:
            yield result


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of("shrink", "Make failing runs small.")
    parser.add_argument("--for", dest="within", type=float, default=60, metavar="S", help="seconds for each (60)")
    parser.add_argument("--one-in", type=int, default=ONE_IN, metavar="N", help=f"only every n-th twin ({ONE_IN})")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="not the first so many")
    options = parser.parse_args(arguments)
    before = load_now()
    found = []
    one_in = QUICK_ONE_IN if options.quick else 1 if options.name else options.one_in
    within = timedelta(seconds=QUICK_S if options.quick else options.within)
    for scenario, twin in chosen(options.name)[options.first :: one_in]:
        small = shrunk(scenario, twin, within, options.jobs)
        if small is not None:
            found.append(small)
        if not options.json:
            print(small or f"{scenario} {twin.__name__}: NOT FOUND with {SEEDS_MAX} seeds", flush=True)
    tell(figures_of(found, one_in), options, before)
    return 0


def figures_of(found: Sequence[Small], one_in: int) -> list[Figure]:
    after = sorted(each.after for each in found)
    of = f"{len(found)} planted bugs" + (f", one in {one_in}" if one_in > 1 else "")
    return [
        Figure(f"shrink: choices left, median of {of}", statistics.median(after), "choices", goal="≤ 4"),
        Figure(
            "shrink: choices left, 9 of 10", after[int(len(after) * 0.9)] if len(after) > 1 else after[0], "choices"
        ),
        Figure("shrink: time, median", statistics.median(each.seconds for each in found), "s", goal="≤ 60"),
        Figure("shrink: time, longest", max(each.seconds for each in found), "s"),
        Figure("shrink: CPU time, median", statistics.median(each.cpu_s for each in found), "s"),
        Figure("shrink: runs, median", statistics.median(each.runs for each in found), "runs"),
    ]


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
