"""`mainstay sim replay | shrink | diff`: work with the bundle of a failed run."""

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mainstay.cli.counts import render_count
from mainstay.cli.durations import Duration
from mainstay.cli.exits import Exit
from mainstay.cli.sim.report import BUNDLE_ENDING, ProgressPrinter, choose_exit, jobs_option, load_bundle, report_errors

if TYPE_CHECKING:
    from mainstay.sim.failure.rerun import Replayed
    from mainstay.sim.failure.shrinker import ShrinkStep, Shrunk
    from mainstay.sim.run.bundle import RunBundle

bundle_argument = click.argument("bundle", metavar="BUNDLE", type=click.Path(dir_okay=False, path_type=Path))


@click.command()
@bundle_argument
@click.option("--story", "is_long", is_flag=True, help="Show the full story of the run")
@jobs_option
def replay(bundle: Path, is_long: bool, jobs: int | None) -> int:
    """Replay a failed run and compare.

    \b
        mainstay sim replay sim-failures/one-delivery-3.run.json
        mainstay sim replay sim-failures/one-delivery-3.run.json --story

    The story shows, for the objects concerned, the requests, what was lost, the commits, and the deliveries; then where
    the run diverges from the nearest run that passes, and what each task was waiting for.

    \b
    Exit codes: 0 passed, 10 a promise is broken, 11 the run cannot end, 12 a program failed, 13 the run differs from
    the recorded one although build and Python are the same
    """
    from mainstay.env.processes import cores

    with report_errors():
        from mainstay.sim.failure.rerun import replay as rerun

        kept = load_bundle(bundle)
        made = rerun(kept)
        for line in _compare(kept, made):
            click.echo(line)
        if is_long and not made.result.is_passed:
            from mainstay.sim.failure.report import report_long

            click.echo()
            for line in report_long(kept, f"mainstay sim replay {bundle}", jobs=jobs or cores()):
                click.echo(line)
    if not made.is_same and (kept.is_of_this_build or made.leak is not None):
        return Exit.DIFFERENT
    return choose_exit([made.result])


def _compare(bundle: "RunBundle", made: "Replayed") -> list[str]:
    was, now = bundle.result, made.result
    if made.is_same:
        return [f"identical run: {now.verdict}", *_indent(now.problem)]
    lines = [f"different from the recorded run of {bundle.scenario} seed {bundle.seed}:"]
    if was.verdict != now.verdict or was.problem != now.problem:
        lines += [
            f"  recorded: {was.verdict}",
            *_indent(was.problem, 4),
            f"  now:      {now.verdict}",
            *_indent(now.problem, 4),
        ]
    else:
        lines += [f"  {now.verdict} with the same problem, but the events differ", *_indent(now.problem)]
    if made.leak is not None:
        return [*lines, f"the run is not deterministic: two runs here differ, first at {made.leak}"]
    if bundle.is_of_this_build:
        return [*lines, "build and Python are the same, so something outside Mainstay has changed, perhaps a scenario"]
    return [*lines, f"recorded by build {bundle.build} on {bundle.python}: other builds may run differently"]


def _indent(text: str, by: int = 2) -> list[str]:
    return [f"{' ' * by}{line}" for line in text.splitlines()]


@click.command()
@bundle_argument
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Bundle to write  [default: NAME.small.run.json]",
)
@click.option(
    "--for", "within", type=Duration(), default="60s", show_default=True, metavar="DURATION", help="Time limit"
)
@jobs_option
def shrink(bundle: Path, output: Path | None, within: timedelta, jobs: int | None) -> int:
    """Reduce a failed run to what it needs.

    \b
        mainstay sim shrink sim-failures/one-delivery-3.run.json

    Removes faults and work as long as the run fails in the same way: the same verdict by the same checker. Prints the
    rest, and writes it as a bundle.
    """
    from mainstay.env.processes import cores

    path = output or bundle.with_name(f"{bundle.name.removesuffix(BUNDLE_ENDING)}.small{BUNDLE_ENDING}")
    with report_errors():
        from mainstay.sim.failure.shrinker import shrink as reduce_run

        kept = load_bundle(bundle)
        progress = ProgressPrinter(kept.scenario)

        def say(step: "ShrinkStep") -> None:
            choices, faults = render_count(step.choices, "choice"), render_count(step.faults, "fault")
            progress.say(f"{render_count(step.runs, 'run')}, {choices} left, {faults} among them")

        small = reduce_run(kept, jobs=jobs or cores(), within=within, say=say)
        small.bundle.save(path)
        for line in _render_reduced(small, progress.took_s):
            click.echo(line)
    click.echo(f"bundle: {path} (mainstay sim replay {path} --story)")
    return Exit.SATISFIED


def _render_reduced(small: "Shrunk", took_s: float) -> list[str]:
    from mainstay.sim.failure.report import describe_unit, make_report

    result = small.bundle.result
    rest = "" if small.is_done else "; the time limit (--for) has ended the search"
    before = render_count(small.before, "choice")
    lines = [f"reduced {before} to {small.after} with {render_count(small.runs, 'run')} in {took_s:.0f} s{rest}"]
    lines += ["remaining choices:"] if small.units else ["the run fails without any fault"]
    lines += [f"  {line}" for unit in small.units for line in describe_unit(unit)]
    if faults := make_report(small.bundle).faults:
        lines += ["faults:", *(f"  {line}" for line in faults)]
    return [*lines, f"{result.verdict}:", *_indent(result.problem)]


@click.command()
@bundle_argument
@click.argument("other", required=False, type=click.Path(dir_okay=False, path_type=Path))
@jobs_option
def diff(bundle: Path, other: Path | None, jobs: int | None) -> int:
    """Compare a failed run with one that passes.

    \b
        mainstay sim diff sim-failures/one-delivery-3.run.json
        mainstay sim diff one.run.json two.run.json

    The other run is the nearest that passes, or that of a second bundle. Prints the event at which the runs diverge,
    the first different commit, counts of all events, and the objects, field by field, when the first run ends.

    \b
    Exit codes: 0 no difference, 13 difference
    """
    from mainstay.env.processes import cores

    with report_errors():
        from mainstay.sim.failure.divergence import compare_runs, difference
        from mainstay.sim.failure.nearest_pass import find_nearest_pass
        from mainstay.sim.failure.report import divergence

        kept = load_bundle(bundle)
        if other is None:
            lines = divergence(kept, find_nearest_pass(kept, jobs=jobs or cores()), jobs=jobs or cores())
        else:
            second = load_bundle(other)
            names = (bundle.name, other.name) if bundle.name != other.name else (str(bundle), str(other))
            (left,), (right,) = compare_runs(kept), compare_runs(second)
            lines = difference(left, right, names)
    if not lines:
        click.echo("no difference")
        return Exit.SATISFIED
    for line in lines:
        click.echo(line)
    return Exit.DIFFERENT
