"""`mainstay sim list | faults | run | continue`: what there is, and many runs of it."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from mainstay.cli.durations import Duration
from mainstay.cli.log_output import set_up_logs
from mainstay.cli.sim.report import (
    Guarding,
    Progress,
    bundles_option,
    check_option,
    chosen_scenarios,
    exit_of,
    guarding,
    jobs_option,
    json_option,
    keep,
    patch_of,
    plant_option,
    say_json,
    seeds_options,
)
from mainstay.env.disk import read_bytes
from mainstay.env.processes import cores
from mainstay.journal.bundle import open_bundle
from mainstay.journal.errors import JournalError

if TYPE_CHECKING:
    from mainstay.sim.run.run import RunResult
    from mainstay.sim.run.scenario import Scenario


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per scenario and line.")
def list_scenarios(as_json: bool) -> None:
    """Name all scenarios, with what they are about.

    The ids are those of docs/scenarios.md: requirements (F7, T1), and the numbers of the catalogue of what control
    planes have failed at.
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
@click.option("--json", "as_json", is_flag=True, help="One JSON object per fault and line.")
def faults(as_json: bool) -> None:
    """Name all faults: what can go wrong in a run."""
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
@click.option("--all", "is_all", is_flag=True, help="Run all scenarios.")
@seeds_options
@click.option("--strategy", default="random", show_default=True, metavar="NAME", help="How faults are chosen.")
@plant_option
@bundles_option
@check_option
@jobs_option
@json_option
@click.option("-v", "--verbose", count=True, help="Show what the simulated programs log. Twice: even more.")
def run(
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
    verbose: int,
) -> int:
    """Run one scenario, or --all, with many seeds.

    The same seed is the same run, here and on any other machine with the same Python:

    \b
        mainstay sim run cache-follows --seeds 100
        mainstay sim run cache-follows --seeds 1 --first-seed 17
        mainstay sim run shop.scenarios:CHECKOUT          one of your own

    Of each run that has not passed a bundle is written, for `mainstay sim replay`, `shrink`, `diff` and `serve`.

    One run of twenty, and at least one of each scenario, is made a second time, in another process with another
    PYTHONHASHSEED, and must be the same.

    Exits with 0 if all runs have passed, 10 if a promise was broken, 11 if a run could not come to its end, 12 if
    something failed in one, 13 if one was not the same in another process; with 1 if all have passed and some should
    have been made twice and could not be.
    """
    chosen = chosen_scenarios(scenario, is_all)
    if verbose:
        set_up_logs("text", verbose - 1)
    wanted = range(first_seed, first_seed + seeds)
    bad: list[RunResult] = []
    with guarding(check) as guard:
        for name, each in chosen.items():
            how = {"strategy": strategy, "plant": plant}
            bad += run_all(name, each, wanted, jobs or cores(), as_json, bundles=bundles, guard=guard, **how)
    return guard.exit_of(bad)


@click.command("continue")
@click.argument("bundle", metavar="BUNDLE")
@seeds_options
@click.option(
    "--for",
    "lasts",
    type=Duration(),
    default="2m",
    show_default=True,
    metavar="TIME",
    help="How long things go wrong, in virtual time. Then all is healed.",
)
@click.option("--no-faults", is_flag=True, help="Nothing goes wrong.")
@jobs_option
@json_option
def continue_(
    bundle: str, seeds: int, first_seed: int, lasts: timedelta, no_faults: bool, jobs: int | None, as_json: bool
) -> int:
    """Let a recorded cluster go on from its end, once for each seed.

    \b
        mainstay record --since 10m > incident.bundle
        mainstay sim continue incident.bundle --seeds 20

    The store begins with the last state of the bundle; servers, scheduler, controllers and agents are started on it,
    as after a power cut. Nodes are pretended, and the values of Secrets are not there. Each seed draws other faults.
    In the end all is healed, and every promise must have been kept.

    Exits as `mainstay sim run` does.
    """
    from mainstay.sim.cluster.recorded_cluster import make_continuation

    try:
        opened = open_bundle(read_bytes(Path(bundle)))
    except OSError as error:
        raise click.ClickException(f"cannot read the bundle {bundle}: {error.strerror}") from None
    except JournalError as error:
        raise click.ClickException(str(error)) from error
    scenario = make_continuation(opened, lasts=lasts, faults=() if no_faults else None)
    wanted = range(first_seed, first_seed + seeds)
    again = f"mainstay sim continue {bundle} --for {lasts.total_seconds():g}s" + (" --no-faults" if no_faults else "")
    return exit_of(run_all(scenario.name, scenario, wanted, jobs or cores(), as_json, again=again))


def run_all(
    name: str,
    scenario: "Scenario",
    seeds: Sequence[int],
    jobs: int,
    as_json: bool,
    *,
    strategy: str = "random",
    plant: str = "",
    bundles: Path | None = None,
    again: str = "",
    guard: Guarding | None = None,
) -> "list[RunResult]":
    """Make these runs, say what comes of them, and give those that have not passed."""
    from mainstay.sim.run.forks import run_many
    from mainstay.sim.strategies.table import STRATEGIES

    if strategy not in STRATEGIES:
        raise click.UsageError(f"There is no strategy {strategy!r}; there are: {', '.join(STRATEGIES)}.")
    patch = patch_of(plant)
    how = "".join((f" --strategy {strategy}" if strategy != "random" else "", f" --plant {plant}" if plant else ""))
    progress = Progress(scenario.name)
    click.echo(f"{scenario.name}: {len(seeds)} runs, {jobs} at once", err=True)
    again = again or f"mainstay sim run {name}{how}"
    made, bad = 0, []
    due = None if guard is None else guard.due()
    for result in run_many(scenario, seeds, jobs=jobs, patch=patch, strategy=STRATEGIES[strategy]):
        made += 1
        if due is not None:
            due.add(result)
        if not result.is_passed:
            bad.append(result)
        at = None if bundles is None or result.is_passed else keep(bundles, name, plant, result)
        _show(result, as_json, again, at)
        progress.say(f"{made} of {len(seeds)} runs made, {len(bad)} not passed")
    twice = ""
    if guard is not None and due is not None:
        before = guard.made
        for result in guard.check(name, due, plant=plant, strategy=strategy, jobs=jobs):
            bad.append(result)
            _show(result, as_json, again, None)
        twice = f", {guard.made - before} made twice" if guard.is_on else ""
    if not as_json:
        # One that is bad, and different too, is still one run.
        verdict = f"{len({result.seed for result in bad})} not passed" if bad else "all passed"
        took = f"{progress.took_s:.1f} s"
        click.echo(f"{scenario.name}: {made} runs, {verdict}, seeds {seeds[0]} to {seeds[-1]}{twice}, {took}")
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
            lines.append(f"  who waits where: {again} --json")
        click.echo("\n".join(lines), err=as_json)
    elif result.told and not as_json:
        click.echo(f"{result.scenario} seed {result.seed}: {result.verdict}, {result.told}")
