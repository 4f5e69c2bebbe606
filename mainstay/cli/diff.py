"""`mainstay diff`: compare the cluster at two times, field by field, with who made each change.

Its exit codes are those of `diff` and `kubectl diff`, which scripts rely on, and not those of the other commands: 1
means that something differs. So errors are 2 here.
"""

from collections.abc import Sequence
from enum import IntEnum

import click

from mainstay.cli.cluster_access import Command, Screen
from mainstay.cli.explain_output import answer_option, show_answer
from mainstay.cli.journal_access import JournalChoice, OpenJournal, explain, explain_options, find_moment
from mainstay.cli.object_selection import NAME_EVERYWHERE, complete_objects, everywhere_option, namespace_option
from mainstay.cli.output import Output


class DiffExit(IntEnum):
    """What the exit codes of this command mean. Scripts rely on them: only add."""

    SAME = 0
    DIFFERS = 1
    ERROR = 2
    INCOMPLETE = 4
    """No difference in the records, but records are missing."""


@click.command(cls=Command)
@click.argument("words", nargs=-1, metavar="[TYPE[/NAME]]", shell_complete=complete_objects)
@click.option("--from", "begins", default="", metavar="TIME", help="RFC 3339 time, 10m ago, revision or @DECISION")
@click.option("--to", "ends", default="", metavar="TIME", help="Same forms as --from  [default: now]")
@namespace_option
@everywhere_option
@answer_option("status and decisions too")
@explain_options
def diff(
    words: tuple[str, ...],
    begins: str,
    ends: str,
    namespace: str,
    everywhere: bool,
    output: Output,
    source: JournalChoice,
) -> int:
    """Compare the cluster at two times.

    \b
        mainstay diff --from 10m                      what has changed in ten minutes
        mainstay diff --from 4711 --to 4800 -A        between two revisions, all namespaces
        mainstay diff --from 2026-11-16T03:10:00Z deploy/web
        mainstay diff --from 1h nodes

    Shows created, deleted and changed objects, and who changed them. Leases, Events and ComponentStates appear only
    if you name the type. A field that was changed and changed back is no difference; `mainstay blame` has its history.

    \b
    Exit codes (as of `kubectl diff`): 0 no difference, 1 difference, 2 error, 4 no difference, but records are missing;
    64 wrong usage
    """
    try:
        return explain(
            source,
            lambda opened, screen: show_diff(
                opened,
                screen,
                words,
                begins=begins,
                ends=ends,
                namespace=namespace,
                everywhere=everywhere,
                output=output,
            ),
        )
    except click.UsageError:
        raise
    except click.ClickException as error:
        click.echo(f"mainstay: {error.format_message()}", err=True)
        return DiffExit.ERROR


async def show_diff(
    opened: OpenJournal,
    screen: Screen,
    words: Sequence[str] = (),
    *,
    begins: str,
    ends: str = "",
    namespace: str = "",
    everywhere: bool = False,
    output: Output | None = None,
) -> int:
    """Do what the command does. Raises `click.ClickException`, `ApiError`, `JournalError`."""
    from mainstay.explain.blame_text import diff_text
    from mainstay.explain.diff import diff as compare

    if not begins:
        raise click.UsageError("missing option --from (for example --from 10m)")
    if ends and opened.at:
        raise click.UsageError("--to and --at mean the same: remove one")
    before = await find_moment(opened.journal, begins, "--from")
    after = await find_moment(opened.journal, ends or opened.at, "--to" if ends else "--at")
    if before.revision > after.revision:
        raise click.UsageError(f"--from (revision {before.revision}) is after --to (revision {after.revision})")
    where = None if everywhere else namespace or opened.namespace
    if not words:
        found = await compare(before, after, namespace=where)
    else:
        selected = opened.kinds.select(words)
        if len(selected) > 1 or len(selected[0].names) > 1:
            raise click.UsageError(f"{' '.join(words)!r} is not one type or one object: use TYPE[/NAME]")
        kind = selected[0].kind.name
        name = selected[0].names[0] if selected[0].names else ""
        if name and everywhere and kind.namespaced:
            raise click.UsageError(NAME_EVERYWHERE)
        found = await compare(before, after, kind=kind, namespace=where if kind.namespaced else "", name=name)
    show_answer(screen, found, output or Output(), lambda is_wide: diff_text(found, is_wide=is_wide))
    for note in opened.notes:
        screen.note(f"mainstay: {note}")
    if found.objects:
        return DiffExit.DIFFERS
    return DiffExit.INCOMPLETE if found.gaps else DiffExit.SAME
