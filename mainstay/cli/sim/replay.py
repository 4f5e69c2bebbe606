"""`mainstay sim replay | shrink | diff`: what one does with the bundle of a run that has not passed."""

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mainstay.cli.durations import Duration
from mainstay.cli.exits import Exit
from mainstay.cli.sim.report import BUNDLE_ENDING, Progress, exit_of, jobs_option, opened_bundle, said_errors
from mainstay.env.processes import cores

if TYPE_CHECKING:
    from mainstay.sim.failure.rerun import Replayed
    from mainstay.sim.failure.shrinker import ShrinkStep, Shrunk
    from mainstay.sim.run.bundle import RunBundle

bundle_argument = click.argument("bundle", metavar="BUNDLE", type=click.Path(dir_okay=False, path_type=Path))


@click.command()
@bundle_argument
@click.option("--story", "is_long", is_flag=True, help="Tell all that there is to tell about it.")
@jobs_option
def replay(bundle: Path, is_long: bool, jobs: int | None) -> int:
    """Make the run of a bundle again, and compare.

    \b
        mainstay sim replay sim-failures/one-delivery-3.run.json
        mainstay sim replay sim-failures/one-delivery-3.run.json --story

    The story is that of the objects concerned: who asked for what, what was lost, what was committed, who was told of
    it and when. Then where the run parts from the nearest one that passes, and what all tasks were waiting for.

    Exits with 0 if it passes now, 10 if a promise is broken, 11 if it cannot come to its end, 12 if something fails in
    it, 13 if it should be the same run, by the same build and Python, and is not.
    """
    with said_errors():
        from mainstay.sim.failure.rerun import replay as made_again

        kept = opened_bundle(bundle)
        made = made_again(kept)
        for line in _compared(kept, made):
            click.echo(line)
        if is_long and not made.result.is_passed:
            from mainstay.sim.failure.report import report_long

            click.echo()
            for line in report_long(kept, f"mainstay sim replay {bundle}", jobs=jobs or cores()):
                click.echo(line)
    if not made.is_same and (kept.is_of_this_build or made.leak is not None):
        return Exit.DIFFERENT
    return exit_of([made.result])


def _compared(bundle: "RunBundle", made: "Replayed") -> list[str]:
    was, now = bundle.result, made.result
    if made.is_same:
        return [f"the same run: {now.verdict}", *_indented(now.problem)]
    lines = [f"another run than {bundle.scenario} seed {bundle.seed} was:"]
    if was.verdict != now.verdict or was.problem != now.problem:
        lines += [
            f"  was: {was.verdict}",
            *_indented(was.problem, 4),
            f"  is:  {now.verdict}",
            *_indented(now.problem, 4),
        ]
    else:
        lines += [
            f"  {now.verdict}, with the same problem, and not all that happened was the same",
            *_indented(now.problem),
        ]
    if made.leak is not None:
        return [*lines, f"made twice here, it is not the same run either. First difference, {made.leak}"]
    if bundle.is_of_this_build:
        return [
            *lines,
            "it was made by this build and Python: what is outside of Mainstay has changed, a scenario maybe",
        ]
    return [*lines, f"it was made by build {bundle.build} on {bundle.python}: by another one it may be another run"]


def _indented(text: str, by: int = 2) -> list[str]:
    return [f"{' ' * by}{line}" for line in text.splitlines()]


@click.command()
@bundle_argument
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where to write the bundle of the small run.  [default: beside the other, as NAME.small.run.json]",
)
@click.option(
    "--for", "within", type=Duration(), default="60s", show_default=True, metavar="TIME", help="At most for so long."
)
@jobs_option
def shrink(bundle: Path, output: Path | None, within: timedelta, jobs: int | None) -> int:
    """Make a failing run small: take away faults and work for as long as it fails in the same way.

    \b
        mainstay sim shrink sim-failures/one-delivery-3.run.json

    The same way is the same verdict, by the same checker. What is left is said, and written as a bundle of its own.
    """
    path = output or bundle.with_name(f"{bundle.name.removesuffix(BUNDLE_ENDING)}.small{BUNDLE_ENDING}")
    with said_errors():
        from mainstay.sim.failure.shrinker import shrink as shrunk

        kept = opened_bundle(bundle)
        progress = Progress(kept.scenario)

        def say(step: "ShrinkStep") -> None:
            progress.say(f"{step.runs} runs, {step.choices} choices left, {step.faults} faults among them")

        small = shrunk(kept, jobs=jobs or cores(), within=within, say=say)
        small.bundle.save(path)
        for line in _shrunk_lines(small, progress.took_s):
            click.echo(line)
    click.echo(f"its bundle: {path} (mainstay sim replay {path} --story)")
    return Exit.SATISFIED


def _shrunk_lines(small: "Shrunk", took_s: float) -> list[str]:
    from mainstay.sim.failure.report import describe_unit, make_report

    result = small.bundle.result
    rest = "" if small.is_done else "; there was no time for more (--for)"
    lines = [f"{small.before} choices became {small.after}, with {small.runs} runs in {took_s:.0f} s{rest}"]
    lines += ["what is left:"] if small.units else ["it fails without any choice: nothing has to go wrong for that"]
    lines += [f"  {line}" for unit in small.units for line in describe_unit(unit)]
    if faults := make_report(small.bundle).faults:
        lines += ["what goes wrong then:", *(f"  {line}" for line in faults)]
    return [*lines, f"{result.verdict}:", *_indented(result.problem)]


@click.command()
@bundle_argument
@click.argument("other", required=False, type=click.Path(dir_okay=False, path_type=Path))
@jobs_option
def diff(bundle: Path, other: Path | None, jobs: int | None) -> int:
    """Say where a run parts from the nearest one that passes, or from that of another bundle.

    \b
        mainstay sim diff sim-failures/one-delivery-3.run.json
        mainstay sim diff one.run.json two.run.json

    First the event at which they part, then the first commit that differs, then how much there was of everything, and
    the objects, field by field, at the moment at which the first of them ended.

    Exits with 0 if there is no difference, 13 if there is one.
    """
    with said_errors():
        from mainstay.sim.failure.divergence import compare_runs, difference
        from mainstay.sim.failure.nearest_pass import find_nearest_pass
        from mainstay.sim.failure.report import divergence

        kept = opened_bundle(bundle)
        if other is None:
            lines = divergence(kept, find_nearest_pass(kept, jobs=jobs or cores()), jobs=jobs or cores())
        else:
            second = opened_bundle(other)
            names = (bundle.name, other.name) if bundle.name != other.name else (str(bundle), str(other))
            (left,), (right,) = compare_runs(kept), compare_runs(second)
            lines = difference(left, right, names)
    if not lines:
        click.echo("no difference: the two are the same run")
        return Exit.SATISFIED
    for line in lines:
        click.echo(line)
    return Exit.DIFFERENT
