"""`mainstay coupling`: show who can change the inputs of a decision without calling the component that decides."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from mainstay.cli.cluster_access import Command, Screen
from mainstay.cli.exits import Exit
from mainstay.cli.explain_output import answer_option, parse_since, show_answer, since_option
from mainstay.cli.journal_access import JournalChoice, OpenJournal, explain, explain_options
from mainstay.cli.object_selection import complete_objects, namespace_option
from mainstay.cli.output import Output

if TYPE_CHECKING:
    from mainstay.explain.coupling import Coupling


@click.command(cls=Command)
@click.argument("words", nargs=-1, metavar="COMPONENT|TYPE/NAME", shell_complete=complete_objects)
@namespace_option
@answer_option("all writers and fields")
@since_option()
@explain_options
def coupling(words: tuple[str, ...], namespace: str, output: Output, since: str, source: JournalChoice) -> int:
    """Show who can change a decision's inputs.

    \b
        mainstay coupling scheduler                    what a component reads, and who writes that
        mainstay coupling deployment --since 1h
        mainstay coupling deploy/web                   the decisions about one object

    Compares what components declare to read and write with the writes in the journal: by whom, how often, which
    fields. A writer that no component declares is a user or a program of yours. A field that two writers keep changing
    against each other is reported as oscillating.

    \b
    Exit codes: 0 no oscillating fields, 1 error, 2 oscillating fields, 4 incomplete (the last lines say what is
    missing)
    """
    return explain(source, lambda opened, screen: show_coupling(opened, screen, words, namespace, output, since))


async def show_coupling(
    opened: OpenJournal,
    screen: Screen,
    words: Sequence[str],
    namespace: str = "",
    output: Output | None = None,
    since: str = "",
) -> int:
    """Do what the command does. Raises `click.ClickException`, `ApiError`, `JournalError`."""
    from mainstay.explain.coupling import NoSuchComponent, coupling_of_object, find_coupling
    from mainstay.explain.coupling_text import coupling_text
    from mainstay.explain.story.timeline import NothingKnown
    from mainstay.registry import REGISTRY

    if not words:
        raise click.UsageError("missing argument COMPONENT or TYPE/NAME (for example scheduler or deploy/web)")
    moment = await opened.moment()
    begins = parse_since(moment, since)
    try:
        if len(words) == 1 and "/" not in words[0]:
            found = await find_coupling(moment, REGISTRY.declared(), words[0], since=begins)
        else:
            asked = opened.object(words, namespace)
            found = await coupling_of_object(
                moment, REGISTRY.declared(), asked.kind, asked.name, asked.namespace, since=begins
            )
    except (NoSuchComponent, NothingKnown) as error:
        raise click.ClickException(str(error)) from None
    show_answer(screen, found, output or Output(), lambda is_wide: coupling_text(found, is_wide=is_wide))
    for note in opened.notes:
        screen.note(f"mainstay: {note}")
    return choose_exit(found)


def choose_exit(found: "Coupling") -> Exit:
    if found.oscillations:
        return Exit.BLOCKED
    return Exit.INCOMPLETE if found.gaps else Exit.SATISFIED
