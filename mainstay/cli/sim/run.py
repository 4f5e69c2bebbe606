"""`mainstay sim list | faults | run | continue`: list scenarios and faults, and run them."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec
from click.core import ParameterSource

from mainstay.cli.counts import render_count
from mainstay.cli.durations import Duration
from mainstay.cli.log_output import set_up_logs
from mainstay.cli.sim.narrate import choose_narrated, name_weak_design, print_narration
from mainstay.cli.sim.report import (
    ProgressPrinter,
    RepeatCheck,
    RunOptions,
    bundles_option,
    check_option,
    choose_exit,
    choose_scenarios,
    find_patch,
    jobs_option,
    json_option,
    keep,
    plant_option,
    repeat_check,
    say_json,
    seeds_options,
)

if TYPE_CHECKING:
    from mainstay.sim.run.run import RunResult
    from mainstay.sim.run.scenario import Scenario

_OF_MANY: Final = ("seeds", "strategy", "check")
"""Options that mean nothing for the one run that is narrated."""


@click.command("list")
@json_option
def list_scenarios(as_json: bool) -> None:
    """List the scenarios.

    \b
        mainstay sim list
        mainstay sim list --json

    The ids are those of docs/scenarios.md: requirements (F7, T1), and the numbers of known failures of control planes.
    """
    from mainstay.scenarios import SCENARIOS

    width = max(map(len, SCENARIOS))
    ids_width = max(len(" ".join(scenario.ids)) for scenario in SCENARIOS.values())
    for scenario in SCENARIOS.values():
        if as_json:
            say_json({"scenario": scenario.name, "ids": scenario.ids, "about": scenario.about})
        else:
            click.echo(f"{scenario.name.ljust(width)}  {' '.join(scenario.ids).ljust(ids_width)}  {scenario.about}")


@click.command()
@json_option
def faults(as_json: bool) -> None:
    """List the faults.

    \b
        mainstay sim faults
        mainstay sim faults --json
    """
    from mainstay.sim.faults.schedule import ALL, NAMES

    width = max(map(len, ALL))
    for name, fault in ALL.items():
        if as_json:
            say_json({"fault": name, "about": fault.about, "isDefault": name in NAMES})
        else:
            aside = "" if name in NAMES else " (only where a scenario asks for it)"
            click.echo(f"{name.ljust(width)}  {fault.about}{aside}")


@click.command()
@click.argument("scenario", required=False)
@click.option("--all", "is_all", is_flag=True, help="Run all scenarios")
@seeds_options
@click.option("--strategy", default="random", show_default=True, metavar="NAME", help="Strategy that chooses faults")
@plant_option
@bundles_option
@check_option
@jobs_option
@json_option
@click.option("--narrate", "is_narrated", is_flag=True, help="Print a worked example beside its run")
@click.option("--bug", "is_weak", is_flag=True, help="Plant the weak design of a worked example")
@click.option("-v", "--verbose", count=True, help="Show the log of the simulated programs")
@click.pass_context
def run(
    context: click.Context,
    scenario: str | None,
    is_all: bool,
    seeds: int,
    first_seed: int,
    strategy: str,
    plant: str,
    bundles: Path,
    check: bool | None,
    jobs: int | None,
    as_json: bool,
    is_narrated: bool,
    is_weak: bool,
    verbose: int,
) -> int:
    """Run scenarios, once for each seed.

    \b
        mainstay sim run cache-follows --seeds 100
        mainstay sim run cache-follows --seeds 1 --first-seed 17
        mainstay sim run shop.scenarios:CHECKOUT          a scenario of your own
        mainstay sim run missing-replica --narrate        a worked example, step by step
        mainstay sim run missing-replica --narrate --bug  and the design that it warns of

    The same seed gives the same run on every machine with the same Python. A failed run is written as a bundle, for
    `mainstay sim replay`, `shrink`, `diff` and `serve`.

    One run of twenty, and at least one of each scenario, is repeated in another process with another PYTHONHASHSEED, to
    check determinism; --check repeats all of them.

    The worked examples are binding-during-node-failure, missing-replica, pending-after-rollback, stale-policy-canary
    and duplicate-reservation. --narrate makes one run of one of them, without any fault but its own, or with those of
    --first-seed; each step is shown with what the run has recorded of it: time, object, versions, reason.

    \b
    Exit codes: 0 passed, 1 passed but runs could not be repeated, 10 a promise is broken, 11 a run cannot end, 12 a
    program failed, 13 a repeated run differs
    """
    from mainstay.env.processes import cores

    chosen = choose_scenarios(scenario, is_all)
    if verbose:
        set_up_logs("text", verbose - 1)
    if is_narrated or is_weak:
        given = [each for each in _OF_MANY if context.get_parameter_source(each) is not ParameterSource.DEFAULT]
        if is_narrated and given:
            option = f"--{given[0]}"
            raise click.UsageError(f"{option} excludes --narrate, which makes one run: choose it with --first-seed")
        narrated = choose_narrated(chosen, plant)
        if is_narrated:
            is_given = context.get_parameter_source("first_seed") is not ParameterSource.DEFAULT
            return print_narration(narrated, first_seed if is_given else None, is_weak=is_weak, as_json=as_json)
        plant = name_weak_design(narrated)
    wanted = range(first_seed, first_seed + seeds)
    options = RunOptions(jobs=jobs or cores(), as_json=as_json, strategy=strategy, plant=plant, bundles=bundles)
    bad: list[RunResult] = []
    with repeat_check(check) as guard:
        for name, each in chosen.items():
            bad += run_all(name, each, wanted, options, guard=guard)
    return guard.choose_exit(bad)


@click.command("continue")
@click.argument("bundle", metavar="BUNDLE")
@seeds_options
@click.option(
    "--for",
    "lasts",
    type=Duration(),
    default="2m",
    show_default=True,
    metavar="DURATION",
    help="Virtual time with faults",
)
@click.option("--no-faults", is_flag=True, help="Inject no faults")
@jobs_option
@json_option
def continue_(
    bundle: str, seeds: int, first_seed: int, lasts: timedelta, no_faults: bool, jobs: int | None, as_json: bool
) -> int:
    """Continue a recorded cluster with faults.

    \b
        mainstay record --since 10m > incident.bundle
        mainstay sim continue incident.bundle --seeds 20

    Starts servers, scheduler, controllers and agents on the last state of the bundle, as after a power cut. Nodes
    pretend to run pods, and the values of Secrets are missing. Each seed draws other faults. After --for the faults
    end, and every promise must hold. Exit codes as of `mainstay sim run`.
    """
    from mainstay.env.disk import read_bytes
    from mainstay.env.processes import cores
    from mainstay.journal.bundle import open_bundle
    from mainstay.journal.errors import JournalError
    from mainstay.sim.cluster.recorded_cluster import make_continuation

    try:
        opened = open_bundle(read_bytes(Path(bundle)))
    except OSError as error:
        raise click.ClickException(f"cannot read bundle {bundle}: {error.strerror}") from None
    except JournalError as error:
        raise click.ClickException(str(error)) from error
    scenario = make_continuation(opened, lasts=lasts, faults=() if no_faults else None)
    wanted = range(first_seed, first_seed + seeds)
    again = f"mainstay sim continue {bundle} --for {lasts.total_seconds():g}s" + (" --no-faults" if no_faults else "")
    return choose_exit(
        run_all(scenario.name, scenario, wanted, RunOptions(jobs=jobs or cores(), as_json=as_json), again=again)
    )


def run_all(
    name: str,
    scenario: "Scenario",
    seeds: Sequence[int],
    options: RunOptions,
    *,
    again: str = "",
    guard: RepeatCheck | None = None,
) -> "list[RunResult]":
    """Make these runs, print their results, and return the failed ones."""
    from mainstay.sim.run.forks import run_many
    from mainstay.sim.strategies.table import STRATEGIES

    strategy, plant, jobs = options.strategy, options.plant, options.jobs
    if strategy not in STRATEGIES:
        raise click.UsageError(f"strategy {strategy!r} not found: use one of {', '.join(STRATEGIES)}")
    patch = find_patch(plant)
    how = "".join((f" --strategy {strategy}" if strategy != "random" else "", f" --plant {plant}" if plant else ""))
    progress = ProgressPrinter(scenario.name)
    click.echo(f"{scenario.name}: {render_count(len(seeds), 'run')}, {jobs} in parallel", err=True)
    again = again or f"mainstay sim run {name}{how}"
    made, bad = 0, []
    due = None if guard is None else guard.due()
    for result in run_many(scenario, seeds, jobs=jobs, patch=patch, strategy=STRATEGIES[strategy]):
        made += 1
        if due is not None:
            due.add(result)
        if not result.is_passed:
            bad.append(result)
        at = None if options.bundles is None or result.is_passed else keep(options.bundles, name, plant, result)
        _show(result, options.as_json, again, at)
        progress.say(f"{made} of {render_count(len(seeds), 'run')} done, {len(bad)} failed")
    repeated = ""
    if guard is not None and due is not None:
        before = guard.repeated
        for result in guard.check(name, due, plant=plant, strategy=strategy, jobs=jobs):
            bad.append(result)
            _show(result, options.as_json, again, None)
        repeated = f" ({guard.repeated - before} repeated to check determinism)" if guard.is_on else ""
    if not options.as_json:
        # A run that fails and differs, too, is still one run.
        failed = len({result.seed for result in bad})
        verdict = f"{failed} of {render_count(made, 'run')} failed" if bad else f"{render_count(made, 'run')} passed"
        took = f"{progress.took_s:.1f} s"
        click.echo(f"{scenario.name}: {verdict}{repeated}, seeds {seeds[0]} to {seeds[-1]}, {took}")
    return bad


def _show(result: "RunResult", as_json: bool, again: str, bundle: Path | None) -> None:
    from mainstay.sim.failure.report import report_short

    again = f"{again} --seeds 1 --first-seed {result.seed}{' --check' if result.verdict == 'different' else ''}"
    if as_json:
        told = {
            name: value
            for name, value in msgspec.to_builtins(result).items()
            if name not in ("told", "tape", "waiting", "expected") or value
        }
        more = {} if result.is_passed else {"again": again, "bundle": None if bundle is None else str(bundle)}
        say_json(told | more)
    if not result.is_passed:
        lines = report_short(result, again, "" if bundle is None else str(bundle))
        if bundle is None and result.waiting:
            lines.append(f"  waiting tasks: {again} --json")
        click.echo("\n".join(lines), err=as_json)
    elif result.told and not as_json:
        click.echo(f"{result.scenario} seed {result.seed}: {result.verdict}, {result.told}")
