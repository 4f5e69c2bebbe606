"""`mainstay sim`: run scenarios in virtual time, with faults, and see whether every promise holds."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from mainstay.cli.durations import Duration
from mainstay.cli.exits import Exit
from mainstay.cli.logs import set_up_logs
from mainstay.env import SystemClock
from mainstay.env.disk import read_bytes
from mainstay.env.processes import cores
from mainstay.journal.bundle import open_bundle
from mainstay.journal.errors import JournalError

if TYPE_CHECKING:
    from mainstay.sim.run import RunResult
    from mainstay.sim.scenario import Scenario

SAY_EVERY: Final = timedelta(seconds=2)


@click.group()
def sim() -> None:
    """Run scenarios in virtual time, with faults, and check every promise."""


@sim.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per scenario and line.")
def list_scenarios(as_json: bool) -> None:
    """Name all scenarios."""
    known = _scenarios()
    width = max(map(len, known))
    for scenario in known.values():
        if as_json:
            _say_json({"scenario": scenario.name, "about": scenario.about})
        else:
            click.echo(f"{scenario.name.ljust(width)}  {scenario.about}")


@sim.command()
@click.argument("scenario", required=False)
@click.option("--all", "is_all", is_flag=True, help="Run all scenarios.")
@click.option("--seeds", type=click.IntRange(min=1), default=10, show_default=True, metavar="N", help="How many runs.")
@click.option(
    "--first-seed",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    metavar="S",
    help="The first run's seed; the others follow.",
)
@click.option(
    "--jobs", type=click.IntRange(min=1), metavar="J", help="How many runs at once. If absent: one for each core."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per run and line.")
@click.option("-v", "--verbose", count=True, help="Show what the simulated programs log. Twice: even more.")
def run(
    scenario: str | None,
    is_all: bool,
    seeds: int,
    first_seed: int,
    jobs: int | None,
    as_json: bool,
    verbose: int,
) -> int:
    """Run one scenario, or --all, with many seeds.

    The same seed is the same run, here and on any other machine with the same Python:

    \b
        mainstay sim run cache-follows --seeds 100
        mainstay sim run cache-follows --seeds 1 --first-seed 17

    Exits with 0 if all runs have passed, else with 1.
    """
    chosen = _chosen(scenario, is_all)
    if verbose:
        set_up_logs("text", verbose - 1)
    wanted = range(first_seed, first_seed + seeds)
    is_good = True
    for each in chosen:
        is_good = _run(each, wanted, jobs or cores(), as_json) and is_good
    return Exit.SATISFIED if is_good else Exit.ERROR


@sim.command("continue")
@click.argument("bundle", metavar="BUNDLE")
@click.option("--seeds", type=click.IntRange(min=1), default=10, show_default=True, metavar="N", help="How many runs.")
@click.option(
    "--first-seed",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    metavar="S",
    help="The first run's seed; the others follow.",
)
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
@click.option(
    "--jobs", type=click.IntRange(min=1), metavar="J", help="How many runs at once. If absent: one for each core."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per run and line.")
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

    Exits with 0 if all runs have passed, else with 1.
    """
    from mainstay.sim.resume import continuing

    try:
        opened = open_bundle(read_bytes(Path(bundle)))
    except OSError as error:
        raise click.ClickException(f"cannot read the bundle {bundle}: {error.strerror}") from None
    except JournalError as error:
        raise click.ClickException(str(error)) from error
    scenario = continuing(opened, lasts=lasts, faults=() if no_faults else None)
    wanted = range(first_seed, first_seed + seeds)
    again = f"mainstay sim continue {bundle} --for {lasts.total_seconds():g}s" + (" --no-faults" if no_faults else "")
    return Exit.SATISFIED if _run(scenario, wanted, jobs or cores(), as_json, again) else Exit.ERROR


def _scenarios() -> "dict[str, Scenario]":
    from mainstay.sim.scenarios import SCENARIOS  # Not before it is asked for: other commands need none of it.

    return SCENARIOS


def _chosen(name: str | None, is_all: bool) -> "Sequence[Scenario]":
    known = _scenarios()
    if is_all:
        if name is not None:
            raise click.UsageError("Either one scenario, or --all.")
        return list(known.values())
    if name is None:
        raise click.UsageError("Which scenario? Name one, or say --all; `mainstay sim list` has them.")
    if name not in known:
        raise click.UsageError(f"There is no scenario {name!r}; `mainstay sim list` has all names.")
    return [known[name]]


def _run(scenario: "Scenario", seeds: range, jobs: int, as_json: bool, again: str = "") -> bool:
    from mainstay.sim.forks import run_many

    clock = SystemClock()
    said_at = began_at = clock.monotonic_ns()
    click.echo(f"{scenario.name}: {len(seeds)} runs, {jobs} at once", err=True)
    made = bad = 0
    for result in run_many(scenario, seeds, jobs=jobs):
        made += 1
        bad += not result.is_passed
        _show(result, as_json, again or f"mainstay sim run {result.scenario}")
        if clock.monotonic_ns() - said_at >= SAY_EVERY / timedelta(microseconds=1) * 1000:
            said_at = clock.monotonic_ns()
            click.echo(f"{scenario.name}: {made} of {len(seeds)} runs made, {bad} not passed", err=True)
    took_s = (clock.monotonic_ns() - began_at) / 1e9
    if not as_json:
        verdict = f"{bad} not passed" if bad else "all passed"
        click.echo(f"{scenario.name}: {made} runs, {verdict}, seeds {seeds[0]} to {seeds[-1]}, {took_s:.1f} s")
    return bad == 0 and made == len(seeds)


def _show(result: "RunResult", as_json: bool, again: str) -> None:
    again = f"{again} --seeds 1 --first-seed {result.seed}"
    if as_json:
        told = {name: value for name, value in msgspec.to_builtins(result).items() if name != "told" or value}
        _say_json(told | ({} if result.is_passed else {"again": again}))
    if not result.is_passed:
        indented = result.problem.replace("\n", "\n  ")
        text = f"{result.scenario} seed {result.seed}: {result.verdict}\n  {indented}\n  run it again: {again}"
        click.echo(text, err=as_json)
    elif result.told and not as_json:
        click.echo(f"{result.scenario} seed {result.seed}: {result.verdict}, {result.told}")


def _say_json(fields: dict[str, Any]) -> None:
    click.echo(msgspec.json.encode(fields).decode())
