"""`mainstay coupling`: who can change what a decision goes by, without calling whoever decides."""

from collections.abc import Sequence

import click

from mainstay.cli.cluster_access import Command, Screen
from mainstay.cli.exits import Exit
from mainstay.cli.explain_output import answer_option, show_answer, since_of, since_option
from mainstay.cli.journal_access import Opened, Source, explain, explain_options
from mainstay.cli.object_selection import complete_objects, namespace_option
from mainstay.cli.output import Output
from mainstay.explain.coupling import Coupling, NoSuchComponent, coupling_of, coupling_of_object
from mainstay.explain.coupling_text import coupling_text
from mainstay.explain.story.timeline import NothingKnown


@click.command(cls=Command)
@click.argument("words", nargs=-1, metavar="COMPONENT|TYPE/NAME", shell_complete=complete_objects)
@namespace_option
@answer_option("also who could and did not, and all fields")
@since_option("Only writes since")
@explain_options
def coupling(words: tuple[str, ...], namespace: str, output: Output, since: str, source: Source) -> int:
    """Say which others can change the inputs of a decision without calling whoever decides.

    \b
        mainstay coupling scheduler                    a component: what it reads, and who writes that
        mainstay coupling deployment --since 1h
        mainstay coupling deploy/web                   the decisions about one object

    Joined from what components declare to read and write, and from what was written: by whom, how often, which fields.
    "Nobody declares that": a writer that no part of the cluster answers for, such as a person or a program of yours. A
    field that two writers set to and fro is an oscillation, and is said.

    \b
    Exit codes: 0 no oscillation, 1 error, 2 there is one, 4 something is missing, which the last lines say.
    """
    return explain(source, lambda opened, screen: show_coupling(opened, screen, words, namespace, output, since))


async def show_coupling(
    opened: Opened,
    screen: Screen,
    words: Sequence[str],
    namespace: str = "",
    output: Output | None = None,
    since: str = "",
) -> int:
    """Do what the command does. Raises `click.ClickException`, `ApiError`, `JournalError`."""
    if not words:
        raise click.UsageError("say whom: a component, as in `scheduler`, or TYPE/NAME, as in `deploy/web`.")
    moment = await opened.moment()
    begins = since_of(moment, since)
    try:
        if len(words) == 1 and "/" not in words[0]:
            found = await coupling_of(moment, words[0], since=begins)
        else:
            asked = opened.object(words, namespace)
            found = await coupling_of_object(moment, asked.kind, asked.name, asked.namespace, since=begins)
    except (NoSuchComponent, NothingKnown) as error:
        raise click.ClickException(str(error)) from None
    show_answer(screen, found, output or Output(), lambda is_wide: coupling_text(found, is_wide=is_wide))
    for note in opened.notes:
        screen.note(f"mainstay: {note}")
    return exit_of(found)


def exit_of(found: Coupling) -> Exit:
    if found.oscillations:
        return Exit.BLOCKED
    return Exit.INCOMPLETE if found.gaps else Exit.SATISFIED
