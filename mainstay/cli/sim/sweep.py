"""`mainstay sim sweep | lineage | sieve`: faults at each place where they can hurt, and what may be claimed then."""

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from mainstay.cli.durations import Duration
from mainstay.cli.sim.report import (
    Progress,
    bundles_option,
    exit_of,
    jobs_option,
    json_option,
    keep,
    named,
    patch_of,
    plant_option,
    say_json,
)
from mainstay.env.processes import cores

if TYPE_CHECKING:
    from mainstay.sim.run.run import RunResult

NOT_EVEN: Final = "it does not even pass without a fault"

_lasts_option = click.option(
    "--for",
    "lasts",
    type=Duration(),
    metavar="TIME",
    help="How long things are wanted, in virtual time: the longer, the more places there are. If absent: as long as the"
    " scenario says.",
)
_seed_option = click.option(
    "--seed", type=click.IntRange(min=0), default=1, show_default=True, metavar="S", help="Of the work that is done."
)
_programs_option = click.option(
    "--programs", multiple=True, metavar="NAME", help="Only faults of this program. May be given several times."
)
_one_in_option = click.option(
    "--one-in", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Only each N-th of them."
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
    help="Only this fault. May be given several times. If absent: request-lost, answer-lost, crash-before and"
    " crash-after at a write; watch-delay, watch-disconnect, crash-at-delivery and pause-at-delivery at a delivery.",
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
    """Try one fault at every place where it can happen: each write, and each change that a program is told of.

    \b
        mainstay sim sweep one-pod-too-many --for 10s
        mainstay sim sweep one-pod-too-many --faults crash-after --programs controller

    Exits as `mainstay sim run` does.
    """
    from mainstay.sim.run.sweep import EVERYWHERE, sweep_runs

    if unknown := [fault for fault in faults if fault not in EVERYWHERE]:
        raise click.UsageError(f"{unknown[0]!r} cannot be swept; these can: {', '.join(EVERYWHERE)}.")
    work = named(scenario)
    progress = Progress(scenario)
    tried, of = 0, 0
    bad: list[RunResult] = []
    for each in sweep_runs(
        work,
        seed=seed,
        lasts=lasts,
        jobs=jobs or cores(),
        faults=faults or EVERYWHERE,
        programs=programs,
        one_in=one_in,
        patch=patch_of(plant),
    ):
        tried += each.point is not None
        of = each.of
        progress.say(f"{tried} of {(of + one_in - 1) // one_in} points tried, {len(bad)} bad")
        bundle = None
        if not each.result.is_passed:
            bad.append(each.result)
            bundle = keep(bundles, scenario, plant, each.result, what=f"point-{tried}", lasts=lasts)
        _show(str(each.point or "without any fault"), each.result, bundle, as_json)
    part = f" (one in {one_in} of {of})" if one_in > 1 else ""
    claim = f"no violation with any one fault among these {tried} points{part}"
    if bad:
        claim = f"{len(bad)} of {tried} points are bad" if tried else NOT_EVEN
    _close(scenario, claim, progress, as_json, points=tried, of=of, bad=len(bad))
    return exit_of(bad)


@click.command()
@click.argument("scenario")
@click.option("--depth", type=click.IntRange(1, 3), default=1, show_default=True, help="Up to so many faults at once.")
@_lasts_option
@_seed_option
@_programs_option
@click.option("--runs", type=click.IntRange(min=1), default=2_000, show_default=True, metavar="N", help="At most.")
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
    """Try only faults that could keep something good from happening.

    What came out well in a run without faults is followed back, through the journal, to all writes and deliveries that
    it rests on. Then the smallest sets of faults are tried that hit each way which is known to lead there, until a
    promise is broken or nothing is left to try.

    \b
        mainstay sim lineage one-pod-too-many --for 10s --depth 2

    Exits as `mainstay sim run` does.
    """
    from mainstay.sim.lineage.injection import inject

    progress = Progress(scenario)
    bad: list[RunResult] = []
    claims: list[Any] = []
    made = 0
    for step in inject(
        named(scenario),
        depth=depth,
        seed=seed,
        lasts=lasts,
        jobs=jobs or cores(),
        programs=programs,
        runs=runs,
        patch=patch_of(plant),
    ):
        if step.claims:
            claims = list(step.claims)
            continue
        made = step.number
        progress.say(f"{made} runs made for {step.outcomes} outcomes")
        bundle = None
        if not step.result.is_passed:
            bad.append(step.result)
            what = f"lineage-{made}"
            bundle = keep(bundles, scenario, plant, step.result, what=what, has_journal=True, lasts=lasts)
        _show(" and ".join(map(str, step.aims)) or "without any fault", step.result, bundle, as_json)
    if bad:
        _close(scenario, f"found with run {made}", progress, as_json, runs=made)
    for claim in claims:
        _close(scenario, str(claim), progress, as_json, **msgspec.to_builtins(claim))
    return exit_of(bad)


@click.command()
@click.argument("scenario")
@click.option("--program", required=True, metavar="NAME", help="The one that sees less, or older, than what is true.")
@click.option(
    "--pattern",
    "patterns",
    multiple=True,
    type=click.Choice(["intermediate", "unobserved", "stale"]),
    help="Only this one. May be given several times.",
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
    """Let a controller see less, or older, than what is true, in three ways, and compare how it ends.

    \b
        intermediate    it crashes after one of its writes, and is started again
        unobserved      it is not told of a state until there is another
        stale           it is started again on a state of the past, and catches up later

    \b
        mainstay sim sieve shop.scenarios:CHECKOUT --program shop-operator

    Each run is compared with one without a fault, field by field, besides all that is checked in any run; one that ends
    otherwise is a violation, too. Exits as `mainstay sim run` does.
    """
    from mainstay.sim.sieve import SievePattern, sift_runs

    progress = Progress(scenario)
    bad: list[RunResult] = []
    tried = idle = 0
    steps = sift_runs(
        named(scenario),
        program,
        [SievePattern(each) for each in patterns] or tuple(SievePattern),
        seed=seed,
        lasts=lasts,
        jobs=jobs or cores(),
        one_in=one_in,
        patch=patch_of(plant),
    )
    try:
        for each in steps:
            tried += each.plan is not None
            idle = each.idle
            progress.say(f"{tried} of {each.of} plans tried, {len(bad)} not borne")
            bundle = None
            if not each.result.is_passed:
                bad.append(each.result)
                if not each.is_slower:
                    what = f"sieve-{tried}"
                    bundle = keep(bundles, scenario, plant, each.result, what=what, has_journal=True, lasts=lasts)
            _show(each.what, each.result, bundle, as_json)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    more = f" ({idle} more cannot matter: no decision has looked at what they hide)" if idle else ""
    claim = f"{program} ends as without a fault with each of {tried} plans{more}"
    if bad:
        claim = f"{program} does not bear {len(bad)} of {tried} plans{more}" if tried else NOT_EVEN
    _close(scenario, claim, progress, as_json, plans=tried, bad=len(bad), idle=idle)
    return exit_of(bad)


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
            lines.append(f"its bundle: {bundle} (mainstay sim replay | shrink | diff | serve {bundle})")
        click.echo("\n  ".join(lines))


def _close(scenario: str, claim: str, progress: Progress, as_json: bool, **figures: Any) -> None:
    if as_json:
        say_json({"scenario": scenario, "claim": claim, "seconds": round(progress.took_s, 1), **figures})
    else:
        click.echo(f"{scenario}: {claim}; {progress.took_s:.1f} s")
