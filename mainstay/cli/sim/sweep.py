"""`mainstay sim sweep | lineage | sieve`: try faults systematically, and print what that proves."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from mainstay.cli.counts import render_count
from mainstay.cli.durations import Duration
from mainstay.cli.sim.report import (
    ProgressPrinter,
    bundles_option,
    choose_exit,
    find_patch,
    find_scenario,
    jobs_option,
    json_option,
    keep,
    plant_option,
    say_json,
)

if TYPE_CHECKING:
    from mainstay.sim.run.run import RunResult

NOT_EVEN: Final = "fails without any fault"

_lasts_option = click.option(
    "--for",
    "lasts",
    type=Duration(),
    metavar="DURATION",
    help="Virtual time of the work  [default: as the scenario]",
)
_seed_option = click.option(
    "--seed", type=click.IntRange(min=0), default=1, show_default=True, metavar="S", help="Seed of the work"
)
_programs_option = click.option(
    "--programs", multiple=True, metavar="NAME", help="Only faults of this program; repeatable"
)
_one_in_option = click.option(
    "--one-in", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Try only every N-th"
)


@click.command()
@click.argument("scenario")
@_lasts_option
@_seed_option
@click.option(
    "--faults",
    "faults",
    multiple=True,
    metavar="NAME",
    help="Only this fault; repeatable  [default: all eight]",
)
@_programs_option
@_one_in_option
@plant_option
@bundles_option
@jobs_option
@json_option
def sweep(
    scenario: str,
    lasts: timedelta | None,
    seed: int,
    faults: tuple[str, ...],
    programs: tuple[str, ...],
    one_in: int,
    plant: str,
    bundles: Path,
    jobs: int | None,
    as_json: bool,
) -> int:
    """Try one fault at every possible point.

    \b
        mainstay sim sweep one-pod-too-many --for 10s
        mainstay sim sweep one-pod-too-many --faults crash-after --programs controller

    The points are each write (request-lost, answer-lost, crash-before, crash-after) and each delivery of a change to a
    program (watch-delay, watch-disconnect, crash-at-delivery, pause-at-delivery). A longer --for gives more points.
    Exit codes as of `mainstay sim run`.
    """
    from mainstay.env.processes import cores
    from mainstay.sim.run.sweep import EVERYWHERE, sweep_runs

    if unknown := [fault for fault in faults if fault not in EVERYWHERE]:
        raise click.UsageError(f"--faults {unknown[0]!r} cannot be swept: use {', '.join(EVERYWHERE)}")
    work = find_scenario(scenario)
    progress = ProgressPrinter(scenario)
    tried, of = 0, 0
    bad: list[RunResult] = []
    for each in sweep_runs(
        work if lasts is None else replace(work, lasts=lasts),
        seed=seed,
        jobs=jobs or cores(),
        faults=faults or EVERYWHERE,
        programs=programs,
        one_in=one_in,
        patch=find_patch(plant),
    ):
        tried += each.point is not None
        of = each.of
        progress.say(f"{tried} of {(of + one_in - 1) // one_in} points tried, {len(bad)} failed")
        bundle = None
        if not each.result.is_passed:
            bad.append(each.result)
            bundle = keep(bundles, scenario, plant, each.result, what=f"point-{tried}", lasts=lasts)
        _show(str(each.point or "without any fault"), each.result, bundle, as_json)
    part = f" (one in {one_in} of {of})" if one_in > 1 else ""
    claim = f"passes with one fault at any of {render_count(tried, 'point')}{part}"
    if bad:
        claim = f"fails at {len(bad)} of {render_count(tried, 'point')}" if tried else NOT_EVEN
    _close(scenario, claim, progress, as_json, points=tried, of=of, bad=len(bad))
    return choose_exit(bad)


@click.command()
@click.argument("scenario")
@click.option("--depth", type=click.IntRange(1, 3), default=1, show_default=True, help="Limit of faults in one run")
@_lasts_option
@_seed_option
@_programs_option
@click.option("--runs", type=click.IntRange(min=1), default=2_000, show_default=True, metavar="N", help="Limit of runs")
@plant_option
@bundles_option
@jobs_option
@json_option
def lineage(
    scenario: str,
    depth: int,
    lasts: timedelta | None,
    seed: int,
    programs: tuple[str, ...],
    runs: int,
    plant: str,
    bundles: Path,
    jobs: int | None,
    as_json: bool,
) -> int:
    """Try only faults that good outcomes rest on.

    \b
        mainstay sim lineage one-pod-too-many --for 10s --depth 2

    Traces the good outcomes of a run without faults back, through the journal, to the writes and deliveries that they
    rest on. Then tries the smallest sets of faults that hit every known way to an outcome, until a promise is broken or
    no set is left. Exit codes as of `mainstay sim run`.
    """
    from mainstay.env.processes import cores
    from mainstay.sim.lineage.injection import inject

    progress = ProgressPrinter(scenario)
    bad: list[RunResult] = []
    claims: list[Any] = []
    made = 0
    for step in inject(
        find_scenario(scenario),
        depth=depth,
        seed=seed,
        lasts=lasts,
        jobs=jobs or cores(),
        programs=programs,
        runs=runs,
        patch=find_patch(plant),
    ):
        if step.claims:
            claims = list(step.claims)
            continue
        made = step.number
        progress.say(f"{render_count(made, 'run')} for {render_count(step.outcomes, 'outcome')}")
        bundle = None
        if not step.result.is_passed:
            bad.append(step.result)
            what = f"lineage-{made}"
            bundle = keep(bundles, scenario, plant, step.result, what=what, has_journal=True, lasts=lasts)
        _show(" and ".join(map(str, step.aims)) or "without any fault", step.result, bundle, as_json)
    if bad:
        _close(scenario, f"run {made} failed", progress, as_json, runs=made)
    for claim in claims:
        _close(scenario, str(claim), progress, as_json, **msgspec.to_builtins(claim))
    return choose_exit(bad)


@click.command()
@click.argument("scenario")
@click.option("--program", required=True, metavar="NAME", help="Program to hide changes from")
@click.option(
    "--pattern",
    "patterns",
    multiple=True,
    type=click.Choice(["intermediate", "unobserved", "stale"]),
    help="Only this pattern; repeatable",
)
@_lasts_option
@_seed_option
@_one_in_option
@plant_option
@bundles_option
@jobs_option
@json_option
def sieve(
    scenario: str,
    program: str,
    patterns: tuple[str, ...],
    lasts: timedelta | None,
    seed: int,
    one_in: int,
    plant: str,
    bundles: Path,
    jobs: int | None,
    as_json: bool,
) -> int:
    """Hide changes from one program.

    \b
        mainstay sim sieve shop.scenarios:CHECKOUT --program shop-operator

    \b
    Patterns:
        intermediate    the program crashes after one of its writes and restarts
        unobserved      the program does not see a state before the next one
        stale           the program restarts on a past state and catches up later

    Each run must end as one without faults, field by field, and keep every promise. Exit codes as of `mainstay sim
    run`.
    """
    from mainstay.env.processes import cores
    from mainstay.sim.sieve import SievePattern, sift_runs

    progress = ProgressPrinter(scenario)
    bad: list[RunResult] = []
    tried = idle = 0
    steps = sift_runs(
        find_scenario(scenario),
        program,
        [SievePattern(each) for each in patterns] or tuple(SievePattern),
        seed=seed,
        lasts=lasts,
        jobs=jobs or cores(),
        one_in=one_in,
        patch=find_patch(plant),
    )
    try:
        for each in steps:
            tried += each.plan is not None
            idle = each.idle
            progress.say(f"{tried} of {render_count(each.of, 'fault plan')} tried, {len(bad)} failed")
            bundle = None
            if not each.result.is_passed:
                bad.append(each.result)
                if not each.is_slower:
                    what = f"sieve-{tried}"
                    bundle = keep(bundles, scenario, plant, each.result, what=what, has_journal=True, lasts=lasts)
            _show(each.what, each.result, bundle, as_json)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    more = f" ({idle} more cannot matter: no decision reads what they hide)" if idle else ""
    claim = f"{program} passes {render_count(tried, 'fault plan')}{more}"
    if bad:
        claim = f"{program} fails {len(bad)} of {render_count(tried, 'fault plan')}{more}" if tried else NOT_EVEN
    _close(scenario, claim, progress, as_json, plans=tried, bad=len(bad), idle=idle)
    return choose_exit(bad)


def _show(what: str, result: "RunResult", bundle: Path | None, as_json: bool) -> None:
    if as_json:
        say_json(
            {
                "what": what,
                "verdict": result.verdict,
                "problem": result.problem,
                "trace": result.trace,
                **({"bundle": str(bundle)} if bundle is not None else {}),
            }
        )
    elif not result.is_passed:
        lines = [f"{what}: {result.verdict}", *result.problem.splitlines()]
        if bundle is not None:
            lines.append(f"bundle: {bundle} (mainstay sim replay | shrink | diff | serve {bundle})")
        click.echo("\n  ".join(lines))


def _close(scenario: str, claim: str, progress: ProgressPrinter, as_json: bool, **figures: Any) -> None:
    if as_json:
        say_json({"scenario": scenario, "claim": claim, "seconds": round(progress.took_s, 1), **figures})
    else:
        click.echo(f"{scenario}: {claim}; {progress.took_s:.1f} s")
