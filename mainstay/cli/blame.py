"""`mainstay blame`: show who last set each field of an object, when, and its value before."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from mainstay.cli.cluster_access import Command, Screen
from mainstay.cli.exits import Exit
from mainstay.cli.explain_output import answer_option, escape_controls, show_answer
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
from mainstay.cli.table_text import TableText

if TYPE_CHECKING:
    from mainstay.explain.blame import Blame


@click.command(cls=Command)
@object_argument
@namespace_option
@answer_option("status, managers, audits")
@explain_options
def blame(words: tuple[str, ...], namespace: str, output: Output, source: JournalChoice) -> int:
    """Show who last set each field.

    \b
        mainstay blame deploy/web                      the last writer of each field
        mainstay blame deploy/web spec.replicas        the history of one field
        mainstay blame deploy/web 'spec.template.spec.containers[main].image'
        mainstay blame pod/web-1 status

    The writer comes from the decision behind the write, else from the request, else from managedFields. Only
    managedFields know about writes that are older than the journal.

    \b
    Exit codes: 0 complete, 1 error, 4 incomplete (the last lines say what is missing)
    """
    return explain(source, lambda opened, screen: show_blame(opened, screen, words, namespace, output))


async def show_blame(
    opened: OpenJournal, screen: Screen, words: Sequence[str], namespace: str = "", output: Output | None = None
) -> int:
    """Do what the command does. Raises `click.ClickException`, `ApiError`, `JournalError`."""
    from mainstay.explain.blame import blame as find_writers
    from mainstay.explain.fields import BadPath
    from mainstay.explain.story.timeline import NothingKnown

    named, field = _split_field(words)
    asked = opened.object(named, namespace)
    moment = await opened.moment()
    try:
        found = await find_writers(moment, asked.kind, asked.name, asked.namespace, field=field)
    except BadPath as error:
        raise click.UsageError(str(error)) from None
    except NothingKnown as error:
        raise await not_found_error(error, moment, asked) from None
    if field and not found.fields:
        raise click.ClickException(f"{found.about.words} has no field {field}, nor had one in this journal")
    show_answer(screen, found, output or Output(), lambda is_wide: _lines(screen, found, is_wide=is_wide))
    for note in opened.notes:
        screen.note(f"mainstay: {note}")
    return Exit.INCOMPLETE if found.gaps else Exit.SATISFIED


def _split_field(words: Sequence[str]) -> tuple[Sequence[str], str]:
    """`TYPE/NAME [FIELD]` or `TYPE NAME [FIELD]`."""
    whole = 1 if words and "/" in words[0] else 2
    if len(words) > whole + 1:
        raise click.UsageError(f"too many arguments: {' '.join(words)!r} must be TYPE/NAME [FIELD]")
    return words[:whole], words[whole] if len(words) > whole else ""


def _lines(screen: Screen, found: "Blame", *, is_wide: bool) -> list[str]:
    from mainstay.explain.blame_text import blame_rows

    titles, rows = blame_rows(found, is_wide=is_wide)
    text = TableText(titles, is_coloured=screen.is_coloured)
    lines = text.lines([[escape_controls(cell) for cell in row] for row in rows], with_titles=True)
    lines += [f"missing: {gap}" for gap in found.gaps]
    lines += [f"note: {note}" for note in found.notes]
    if found.is_gone:
        lines.append("note: the object is deleted; this is its last state")
    return lines
