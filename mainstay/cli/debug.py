"""`mainstay debug`: all that is said of a workload, joined by workload and generation, and what follows from it."""

from collections.abc import Sequence
from typing import Final

import click

from mainstay.cli.cluster_access import Command, Screen
from mainstay.cli.exits import Exit
from mainstay.cli.explain_output import answer_option, show_answer
from mainstay.cli.journal_access import Opened, Source, explain, explain_options, nothing_known, object_argument
from mainstay.cli.object_selection import namespace_option
from mainstay.cli.output import Output
from mainstay.cli.why import EXITS
from mainstay.explain.debug.builder import debug as joined
from mainstay.explain.debug.text import debug_text
from mainstay.explain.debug.view import DebugView, Finding
from mainstay.explain.moment import NoSuchMoment
from mainstay.explain.story.timeline import NothingKnown
from mainstay.explain.why.answer import Verdict

_EXITS: Final = {
    Finding.COMPLETE: Exit.SATISFIED,
    Finding.REFUSED: Exit.BLOCKED,
    Finding.NOT_MADE: Exit.BLOCKED,
    Finding.UNKNOWN: Exit.INCOMPLETE,
}
"""All others wait for something that may come by itself."""


@click.command(cls=Command)
@object_argument
@namespace_option
@answer_option("all replicas, kinds and conditions")
@click.option("--generation", type=click.IntRange(min=1), default=None, metavar="N", help="As it was last seen.")
@explain_options
def debug(words: tuple[str, ...], namespace: str, output: Output, generation: int | None, source: Source) -> int:
    """Show what all signals say of a workload, and what follows from it.

    \b
        mainstay debug deploy/risk-api -n risk
        mainstay debug deploy/risk-api -n risk --generation 42
        mainstay debug deploy/risk-api -n risk --at 10m

    Was the rollback seen, which replicas wait and for which last reason, how far was the scheduler's cache and what has
    changed since, who else writes to the workload and why, is repair done, is something held. The last decision about
    each replica that waits is made again, with all that it had not seen: if it then comes out otherwise, the cause is
    the cache, whatever reason was given.

    \b
    Exit codes: 0 nothing is missing, 1 error, 2 somebody has to change something, 3 it waits for what may come by
    itself, 4 the records that would say so are missing.
    """
    return explain(source, lambda opened, screen: show_debug(opened, screen, words, namespace, output, generation or 0))


async def show_debug(
    opened: Opened,
    screen: Screen,
    words: Sequence[str],
    namespace: str = "",
    output: Output | None = None,
    generation: int = 0,
) -> int:
    """Do what the command does. Raises `click.ClickException`, `ApiError`, `JournalError`."""
    asked = opened.object(words, namespace)
    moment = await opened.moment()
    try:
        view = await joined(moment, asked.kind, asked.name, asked.namespace, generation=generation)
    except NothingKnown as error:
        raise await nothing_known(error, moment, asked) from None
    except NoSuchMoment as error:
        raise click.ClickException(str(error)) from None
    show_answer(screen, view, output or Output(), lambda is_wide: debug_text(view, is_wide=is_wide))
    for note in opened.notes:
        screen.note(f"mainstay: {note}")
    return exit_of(view)


def exit_of(view: DebugView) -> Exit:
    if view.gaps:
        return Exit.INCOMPLETE
    if view.finding is Finding.ROOT_CAUSE:
        return EXITS[Verdict(view.why_verdict)]
    if view.finding is Finding.REFUSED and view.why_verdict == Verdict.WAITING:
        return Exit.WAITING  # For what may come by itself: a node that is not well, pods that are about to end.
    return _EXITS.get(view.finding, Exit.WAITING)
