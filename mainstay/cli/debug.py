"""`mainstay debug`: diagnose a workload from all signals, joined by workload and generation."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from mainstay.cli.cluster_access import Command, Screen
from mainstay.cli.exits import Exit
from mainstay.cli.explain_output import answer_option, exit_for, show_answer
from mainstay.cli.journal_access import (
    JournalChoice,
    OpenJournal,
    explain,
    explain_options,
    not_found_error,
    object_argument,
)
from mainstay.cli.object_selection import namespace_option
from mainstay.cli.output import Output

if TYPE_CHECKING:
    from mainstay.explain.debug.view import DebugView


@click.command(cls=Command)
@object_argument
@namespace_option
@answer_option("all replicas, conditions")
@click.option("--generation", type=click.IntRange(min=1), default=None, metavar="N", help="Diagnose this generation")
@explain_options
def debug(words: tuple[str, ...], namespace: str, output: Output, generation: int | None, source: JournalChoice) -> int:
    """Diagnose a workload from all signals.

    \b
        mainstay debug deploy/risk-api -n risk
        mainstay debug deploy/risk-api -n risk --generation 42
        mainstay debug deploy/risk-api -n risk --at 10m

    Shows whether the controllers have seen the last change, which replicas wait and why, how stale the scheduler's
    cache was and what has changed since, who else writes to the workload, and which holds and repairs are active. The
    last decision about each waiting replica is replayed with what it had not seen: if its outcome changes, a stale
    cache was the cause, whatever the recorded reason says.

    \b
    Exit codes:
        0  healthy                     3  waiting for something that may happen by itself
        1  error                       4  incomplete: records that would tell are missing
        2  blocked until a user acts
    """
    return explain(source, lambda opened, screen: show_debug(opened, screen, words, namespace, output, generation or 0))


async def show_debug(
    opened: OpenJournal,
    screen: Screen,
    words: Sequence[str],
    namespace: str = "",
    output: Output | None = None,
    generation: int = 0,
) -> int:
    """Do what the command does. Raises `click.ClickException`, `ApiError`, `JournalError`."""
    from mainstay.explain.debug.builder import debug as build_view
    from mainstay.explain.debug.text import debug_text
    from mainstay.explain.moment import NoSuchMoment
    from mainstay.explain.story.timeline import NothingKnown
    from mainstay.registry import REGISTRY

    asked = opened.object(words, namespace)
    moment = await opened.moment()
    try:
        view = await build_view(moment, REGISTRY, asked.kind, asked.name, asked.namespace, generation=generation)
    except NothingKnown as error:
        raise await not_found_error(error, moment, asked) from None
    except NoSuchMoment as error:
        raise click.ClickException(str(error)) from None
    show_answer(screen, view, output or Output(), lambda is_wide: debug_text(view, is_wide=is_wide))
    for note in opened.notes:
        screen.note(f"mainstay: {note}")
    return choose_exit(view)


def choose_exit(view: "DebugView") -> Exit:
    from mainstay.explain.debug.view import DebugFinding
    from mainstay.explain.why.answer import Verdict

    if view.gaps:
        return Exit.INCOMPLETE
    if view.finding is DebugFinding.ROOT_CAUSE:
        return exit_for(Verdict(view.why_verdict))
    if view.finding is DebugFinding.REFUSED and view.why_verdict == Verdict.WAITING:
        return Exit.WAITING  # An unhealthy node may recover, terminating pods end.
    exits = {
        DebugFinding.COMPLETE: Exit.SATISFIED,
        DebugFinding.REFUSED: Exit.BLOCKED,
        DebugFinding.NOT_MADE: Exit.BLOCKED,
        DebugFinding.UNKNOWN: Exit.INCOMPLETE,
    }
    return exits.get(view.finding, Exit.WAITING)
