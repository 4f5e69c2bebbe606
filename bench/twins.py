"""How long it takes to find each planted bug without a hint where to look.

    python -m bench.twins                       all of them
    python -m bench.twins ghost-node releases   those whose scenario or function has this in its name
    python -m bench.twins --strategy random --first-seed 1000 --limit 60 --jobs 1

Each twin of tests/sim/test_scenarios.py is searched for with the strategy `mixed` and the scenario that is there for
it, from seed 1, until a run does not pass or the time is over. The boot of the scenario counts.
"""

import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pytest

from bench._planted import chosen, parser_of, tell
from bench.measure import Figure, load_now
from mainstay.scenarios import SCENARIOS
from mainstay.sim.run.forks import run_many
from mainstay.sim.run.run import RunResult
from mainstay.sim.strategies import Strategy
from mainstay.sim.strategies.table import STRATEGIES
from tests.sim.test_scenarios import Twin

RUNS_MAX: Final = 100_000
QUICK_ONE_IN: Final = 15


@dataclass(frozen=True)
class Found:
    scenario: str
    twin: str
    seconds: float
    runs: int
    result: RunResult | None

    def __str__(self) -> str:
        if self.result is None:
            return f"{self.scenario:24} {self.twin:52} NOT FOUND in {self.runs} runs, {self.seconds:.1f} s"
        problem = self.result.problem.partition("\n")[0][:60]
        runs = f"{self.runs} run{'' if self.runs == 1 else 's'}"
        return f"{self.scenario:24} {self.twin:52} {self.seconds:6.1f} s {runs:>9}  {problem}"


def search(scenario: str, twin: Twin, strategy: Strategy, limit_s: float, jobs: int, first: int = 1) -> Found:
    """Until the first run that does not pass."""
    began, made = time.monotonic(), 0
    seeds = range(first, first + RUNS_MAX)
    for result in run_many(
        SCENARIOS[scenario], seeds, jobs=jobs, patch=lambda: twin(pytest.MonkeyPatch()), strategy=strategy
    ):
        made += 1
        took = time.monotonic() - began
        if not result.is_passed:
            return Found(scenario, twin.__name__, took, made, result)
        if took > limit_s:
            break
    return Found(scenario, twin.__name__, time.monotonic() - began, made, None)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of("twins", "Find planted bugs with no plan.")
    parser.add_argument("--limit", type=float, default=300, help="seconds for each (300)")
    parser.add_argument("--strategy", default="mixed", choices=list(STRATEGIES))
    parser.add_argument("--first-seed", type=int, default=1, metavar="S")
    options = parser.parse_args(arguments)
    before = load_now()
    found = []
    strategy = STRATEGIES[options.strategy]
    for scenario, twin in chosen(options.name)[:: QUICK_ONE_IN if options.quick else 1]:
        each = search(scenario, twin, strategy, options.limit, options.jobs, options.first_seed)
        found.append(each)
        if not options.json:
            print(each, flush=True)
    tell(figures_of(found, options.strategy), options, before)
    return 0


def figures_of(found: Sequence[Found], strategy: str) -> list[Figure]:
    hits = [each for each in found if each.result is not None]
    seconds = [each.seconds for each in found]
    return [
        Figure(f"twins found with no plan ({strategy})", len(hits), f"of {len(found)}", goal=f"≥ {len(found)}"),
        Figure("time to find a twin, median", statistics.median(seconds), "s", goal="< 60"),
        Figure("time to find a twin, longest", max(seconds), "s"),
        Figure("runs to find a twin, median", statistics.median(each.runs for each in found), "runs"),
        Figure("runs to find a twin, most", max(each.runs for each in found), "runs"),
    ]


if __name__ == "__main__":
    sys.exit(main())
