"""`mainstay blame`: who set which field of an object last, when, and what it was before."""

from collections.abc import Sequence

import click

from mainstay.cli.cluster_access import Command, Screen
from mainstay.cli.exits import Exit
from mainstay.cli.explain_output import answer_option, harmless, show_answer
from mainstay.cli.journal_access import Opened, Source, explain, explain_options, nothing_known, object_argument
from mainstay.cli.object_selection import namespace_option
from mainstay.cli.output import Output
from mainstay.cli.table_text import TableText
from mainstay.explain.blame import Blame
from mainstay.explain.blame import blame as blamed
from mainstay.explain.blame_text import blame_rows
from mainstay.explain.fields import BadPath
from mainstay.explain.story.timeline import NothingKnown


@click.command(cls=Command)
@object_argument
@namespace_option
@answer_option("also the status, and managers, decisions and audit ids")
@explain_options
def blame(words: tuple[str, ...], namespace: str, output: Output, source: Source) -> int:
    """Say who set each field of an object last; or of one field, all that it has ever been.

    \b
        mainstay blame deploy/web                      each field once
        mainstay blame deploy/web spec.replicas        one field, its whole history
        mainstay blame deploy/web 'spec.template.spec.containers[main].image'
        mainstay blame pod/web-1 status

    Who it was is known from the decision that wrote it, else from the request, else from the object's managedFields;
    those alone are left for what is older than the journal.

    \b
    Exit codes: 0, 1 error, 4 something is missing, which the last lines say.
    """
    return explain(source, lambda opened, screen: show_blame(opened, screen, words, namespace, output))


async def show_blame(
    opened: Opened, screen: Screen, words: Sequence[str], namespace: str = "", output: Output | None = None
) -> int:
    """Do what the command does. Raises `click.ClickException`, `ApiError`, `JournalError`."""
    named, field = _parted(words)
    asked = opened.object(named, namespace)
    moment = await opened.moment()
    try:
        found = await blamed(moment, asked.kind, asked.name, asked.namespace, field=field)
    except BadPath as error:
        raise click.UsageError(str(error)) from None
    except NothingKnown as error:
        raise await nothing_known(error, moment, asked) from None
    if field and not found.fields:
        raise click.ClickException(f"{found.about.words} has no field {field}, and has had none in this journal")
    show_answer(screen, found, output or Output(), lambda is_wide: _lines(screen, found, is_wide=is_wide))
    for note in opened.notes:
        screen.note(f"mainstay: {note}")
    return Exit.INCOMPLETE if found.gaps else Exit.SATISFIED


def _parted(words: Sequence[str]) -> tuple[Sequence[str], str]:
    """`TYPE/NAME [FIELD]` or `TYPE NAME [FIELD]`."""
    whole = 1 if words and "/" in words[0] else 2
    if len(words) > whole + 1:
        raise click.UsageError("say one object, and at most one field: TYPE/NAME [FIELD].")
    return words[:whole], words[whole] if len(words) > whole else ""


def _lines(screen: Screen, found: Blame, *, is_wide: bool) -> list[str]:
    titles, rows = blame_rows(found, is_wide=is_wide)
    text = TableText(titles, is_coloured=screen.is_coloured)
    lines = text.lines([[harmless(cell) for cell in row] for row in rows], with_titles=True)
    lines += [f"not known: {gap}" for gap in found.gaps]
    lines += [f"note: {note}" for note in found.notes]
    if found.is_gone:
        lines.append("note: it is gone; this is how it was last")
    return lines
