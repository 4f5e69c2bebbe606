"""`mainstay sim search`: run a scenario until something is found, and say what it means if nothing is."""

import math
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from mainstay.cli.durations import Duration
from mainstay.cli.sim.report import (
    Guarding,
    Progress,
    bundles_option,
    check_option,
    chosen_scenarios,
    guarding,
    jobs_option,
    json_option,
    keep,
    patch_of,
    plant_option,
    say_json,
)
from mainstay.env.processes import cores

if TYPE_CHECKING:
    from mainstay.sim.run.run import RunResult
    from mainstay.sim.run.scenario import Scenario
    from mainstay.sim.strategies import Strategy

RUNS_MAX: Final = 200_000
_NEVER_IN: Final = -math.log(0.05)
"""Of so many times as many runs as a failure needs on average, none fails with a chance of 5 %: the rule of three."""


@click.command()
@click.argument("scenario", required=False)
@click.option("--all", "is_all", is_flag=True, help="Search all scenarios, each for its part of the time.")
@click.option(
    "--for", "length", type=Duration(), default="1m", show_default=True, metavar="TIME", help="How long, in real time."
)
@click.option("--runs", type=click.IntRange(min=1), default=RUNS_MAX, metavar="N", help="At most so many, of each.")
@click.option("--first-seed", type=click.IntRange(min=0), default=1, show_default=True, metavar="S")
@click.option("--strategy", default="mixed", show_default=True, metavar="NAME", help="How faults are chosen.")
@plant_option
@bundles_option
@check_option
@jobs_option
@json_option
def search(
    scenario: str | None,
    is_all: bool,
    length: timedelta,
    runs: int,
    first_seed: int,
    strategy: str,
    plant: str,
    bundles: Path,
    check: bool | None,
    jobs: int | None,
    as_json: bool,
) -> int:
    """Look for a run that breaks a promise, until one is found or the time is over.

    \b
        mainstay sim search racing-schedulers --for 10m
        mainstay sim search --all --for 1h

    With the strategy `mixed`, each run draws one of the others: random faults, a few right at writes, or programs that
    are kept waiting by rank. If nothing is found, what is said is what so many runs can tell and not more. A run that
    is found is written down as a bundle, for `mainstay sim replay`, `shrink`, `diff` and `serve`.

    Exits as `mainstay sim run` does.
    """
    from mainstay.sim.strategies.table import STRATEGIES

    chosen = chosen_scenarios(scenario, is_all)
    if strategy not in STRATEGIES:
        raise click.UsageError(f"There is no strategy {strategy!r}; there are: {', '.join(STRATEGIES)}.")
    patch_of(plant)  # A name that is wrong is said at once.
    seeds = range(first_seed, first_seed + runs)
    found: list[RunResult] = []
    with guarding(check) as guard:
        for name, each in chosen.items():
            time, at_once = length / len(chosen), jobs or cores()
            result = _search(name, each, seeds, STRATEGIES[strategy], time, at_once, plant, bundles, as_json, guard)
            found += [] if result is None else [result]
    return guard.exit_of(found)


def _search(
    name: str,
    scenario: "Scenario",
    seeds: range,
    strategy: "Strategy",
    length: timedelta,
    jobs: int,
    plant: str,
    bundles: Path,
    as_json: bool,
    guard: Guarding,
) -> "RunResult | None":
    from mainstay.sim.failure.report import report_short
    from mainstay.sim.run.forks import run_many

    progress = Progress(scenario.name)
    made, found = 0, None
    due = guard.due()
    click.echo(f"{scenario.name}: searching with {strategy.name}, {jobs} at once", err=True)
    for result in run_many(scenario, seeds, jobs=jobs, patch=patch_of(plant), strategy=strategy):
        made += 1
        if not result.is_passed:
            found = result
            break
        due.add(result)
        if progress.took_s >= length.total_seconds():
            break
        progress.say(f"{made} runs made, none broke a promise")
    before = guard.made
    if found is None:
        found = next(iter(guard.check(name, due, plant=plant, strategy=strategy.name, jobs=jobs)), None)
    made_twice = guard.made - before
    how = f" --strategy {strategy.name}" + (f" --plant {plant}" if plant else "")
    claim = claim_of(made) if found is None else f"found with run {made:,}"
    bundle = None if found is None else keep(bundles, name, plant, found)
    again = "" if found is None else f"mainstay sim run {name}{how} --seeds 1 --first-seed {found.seed}"
    again += " --check" if found is not None and found.verdict == "different" else ""
    if as_json:
        say_json(
            {
                "scenario": name,
                "strategy": strategy.name,
                "runs": made,
                "madeTwice": made_twice,
                "seconds": round(progress.took_s, 1),
                "claim": claim,
                "atMostOneIn": None if found is not None else at_most_one_in(made),
                "found": None if found is None else msgspec.to_builtins(found),
                "again": again or None,
                "bundle": None if bundle is None else str(bundle),
            }
        )
    if found is not None:
        click.echo("\n".join(report_short(found, again, str(bundle or ""))), err=as_json)
    if not as_json:
        # One that has found something ends there, and makes nothing twice.
        twice = f"{made_twice} made twice, " if made_twice or (guard.is_on and found is None) else ""
        click.echo(f"{name}: {claim}; {twice}{progress.took_s:.1f} s")
    return found


def claim_of(runs: int) -> str:
    """What so many runs tell of which each has passed."""
    words = f"{runs:,} run{'' if runs == 1 else 's'}, none broke a promise"
    one_in = at_most_one_in(runs)
    return words if one_in < 2 else f"{words}: with 95 % confidence fewer than 1 in {one_in:,} do"


def at_most_one_in(runs: int) -> int:
    return int(runs / _NEVER_IN)
