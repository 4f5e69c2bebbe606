"""`mainstay sim search`: search for a run that breaks a promise, and say what it means if there is none."""

import math
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from mainstay.cli.counts import render_count
from mainstay.cli.durations import Duration
from mainstay.cli.sim.report import (
    ProgressPrinter,
    RepeatCheck,
    RunOptions,
    bundles_option,
    check_option,
    choose_scenarios,
    find_patch,
    jobs_option,
    json_option,
    keep,
    plant_option,
    repeat_check,
    say_json,
)

if TYPE_CHECKING:
    from mainstay.sim.run.run import RunResult
    from mainstay.sim.run.scenario import Scenario

RUNS_MAX: Final = 200_000
_NEVER_IN: Final = -math.log(0.05)
"""The rule of three: if a run fails once in N on average, 3 N runs all pass with a probability of 5 %."""


@click.command()
@click.argument("scenario", required=False)
@click.option("--all", "is_all", is_flag=True, help="Search all scenarios, sharing the time")
@click.option(
    "--for", "length", type=Duration(), default="1m", show_default=True, metavar="DURATION", help="Time limit"
)
@click.option("--runs", type=click.IntRange(min=1), default=RUNS_MAX, metavar="N", help="Limit of runs per scenario")
@click.option(
    "--first-seed", type=click.IntRange(min=0), default=1, show_default=True, metavar="S", help="Seed of the first run"
)
@click.option("--strategy", default="mixed", show_default=True, metavar="NAME", help="Strategy that chooses faults")
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
    """Search for a run that breaks a promise.

    \b
        mainstay sim search racing-schedulers --for 10m
        mainstay sim search --all --for 1h

    With the strategy `mixed`, each run draws one of the others: random faults, a few faults at writes, or programs
    delayed by rank. A failed run ends the search and is written as a bundle, for `mainstay sim replay`, `shrink`,
    `diff` and `serve`. Without one, the command prints the failure rate that so many runs exclude. Exit codes as of
    `mainstay sim run`.
    """
    from mainstay.env.processes import cores
    from mainstay.sim.strategies.table import STRATEGIES

    chosen = choose_scenarios(scenario, is_all)
    if strategy not in STRATEGIES:
        raise click.UsageError(f"strategy {strategy!r} not found: use one of {', '.join(STRATEGIES)}")
    find_patch(plant)  # Reject a wrong name at once.
    seeds = range(first_seed, first_seed + runs)
    options = RunOptions(jobs=jobs or cores(), as_json=as_json, strategy=strategy, plant=plant, bundles=bundles)
    found: list[RunResult] = []
    with repeat_check(check) as guard:
        for name, each in chosen.items():
            result = _search(name, each, seeds, length / len(chosen), options, guard)
            found += [] if result is None else [result]
    return guard.choose_exit(found)


def _search(
    name: str,
    scenario: "Scenario",
    seeds: range,
    length: timedelta,
    options: RunOptions,
    guard: RepeatCheck,
) -> "RunResult | None":
    from mainstay.sim.failure.report import report_short
    from mainstay.sim.run.forks import run_many
    from mainstay.sim.strategies.table import STRATEGIES

    strategy, plant, jobs, as_json = STRATEGIES[options.strategy], options.plant, options.jobs, options.as_json
    progress = ProgressPrinter(scenario.name)
    made, found = 0, None
    due = guard.due()
    click.echo(f"{scenario.name}: searching with strategy {strategy.name}, {jobs} in parallel", err=True)
    for result in run_many(scenario, seeds, jobs=jobs, patch=find_patch(plant), strategy=strategy):
        made += 1
        if not result.is_passed:
            found = result
            break
        due.add(result)
        if progress.took_s >= length.total_seconds():
            break
        progress.say(f"{render_count(made, 'run')} passed")
    before = guard.repeated
    if found is None:
        found = next(iter(guard.check(name, due, plant=plant, strategy=strategy.name, jobs=jobs)), None)
    repeated = guard.repeated - before
    how = f" --strategy {strategy.name}" + (f" --plant {plant}" if plant else "")
    claim = render_claim(made) if found is None else f"run {made:,} failed"
    bundle = None if found is None or options.bundles is None else keep(options.bundles, name, plant, found)
    again = "" if found is None else f"mainstay sim run {name}{how} --seeds 1 --first-seed {found.seed}"
    again += " --check" if found is not None and found.verdict == "different" else ""
    if as_json:
        say_json(
            {
                "scenario": name,
                "strategy": strategy.name,
                "runs": made,
                "madeTwice": repeated,
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
        # A search that finds a failed run ends there and repeats nothing.
        of_check = f" ({repeated} repeated to check determinism)" if repeated or (guard.is_on and found is None) else ""
        click.echo(f"{name}: {claim}{of_check}; {progress.took_s:.1f} s")
    return found


def render_claim(runs: int) -> str:
    """Render what a number of passed runs proves."""
    words = f"{runs:,} run{'' if runs == 1 else 's'} passed"
    one_in = at_most_one_in(runs)
    return words if one_in < 2 else f"{words}, so with 95 % confidence fewer than 1 in {one_in:,} fails"


def at_most_one_in(runs: int) -> int:
    return int(runs / _NEVER_IN)
